//go:build !linux

package blockdev

import "github.com/csidoctor/csidoctor/internal/nodereport"

const notHere = "devices are read on Linux only"

// Inspect works on Linux only.
func Inspect(path, majorMinor, kernel string) nodereport.Signature {
	return nodereport.Signature{Type: "unknown", Error: notHere}
}

// ReadTest works on Linux only.
func ReadTest(path string) string { return notHere }
