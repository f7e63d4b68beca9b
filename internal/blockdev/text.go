package blockdev

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes text of a device, of sysfs or of a file's name harmless for whoever prints the report: valid UTF-8, controls
// and characters that show nothing spelled out. Making it printable twice changes nothing.
func Printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError:
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// label is the text of a field of fixed length: up to the first NUL, without the blanks that fill it.
func label(field []byte) string {
	text, _, _ := strings.Cut(string(field), "\x00")
	return Printable(strings.TrimRight(text, " "))
}

// label16 does the same with little-endian UTF-16.
func label16(field []byte) string {
	var units []uint16
	for ; len(field) >= 2; field = field[2:] {
		u := uint16(field[0]) | uint16(field[1])<<8
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return Printable(strings.TrimRight(string(utf16.Decode(units)), " "))
}

// uuid writes 16 bytes as they stand; all zero is none.
func uuid(b []byte) string {
	if len(b) != 16 || isZero(b) {
		return ""
	}
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// isZero compares with itself one further, which is done many bytes at once.
func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// Reason is the errno name of an error (EIO), or its words where it has none.
func Reason(err error) string {
	if name := errnoName(err); name != "" {
		return name
	}
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "ENOENT"
	case errors.Is(err, fs.ErrPermission):
		return "EACCES"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the device ends too early"
	case errors.As(err, &at):
		return Printable(at.Err.Error())
	}
	return Printable(err.Error())
}
