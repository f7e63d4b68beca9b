package carrier

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
)

// binaries has the node's side for each processor, compressed, where make has put it; a plugin that was built by go alone has
// none, and says so when it would need one.
//
//go:embed binaries
var binaries embed.FS

// program is csidoctor-probe for a node's processor (runtime.GOARCH), compressed by gzip; nil: this plugin does not carry it.
func program(arch string) []byte {
	b, err := binaries.ReadFile("binaries/csidoctor-probe-linux-" + arch + ".gz")
	if err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return nil
	}
	return b
}

// unpack gives what a program is before it is compressed; one that cannot be unpacked ends early, and does not run.
func unpack(packed []byte) io.Reader {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return bytes.NewReader(nil)
	}
	return zip
}
