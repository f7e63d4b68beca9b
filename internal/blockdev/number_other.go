//go:build !unix

package blockdev

import "io/fs"

func number(fs.FileInfo) string { return "" }
