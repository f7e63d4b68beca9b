package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Write writes a report as YAML, or JSON. The YAML has one line for each fact, and mount tables as they are: written by hand,
// since a node's tables are megabytes, over which YAML libraries take longer than the whole probe. Every character that a
// terminal could act on is escaped.
func Write(w io.Writer, r *nodereport.NodeReport, asJSON bool) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if asJSON {
		if err := json.Indent(&out, harmless(b, true), "", " "); err != nil {
			return err
		}
		out.WriteByte('\n')
	} else if err := writeYAML(&out, b); err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// harmless escapes what JSON allows in a text and a terminal or YAML does not: DEL, the second set of controls, and characters
// that change the direction or are not seen.
func harmless(b []byte, asJSON bool) []byte {
	if !bytes.ContainsFunc(b, unprintable) {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case !unprintable(r):
			out.Write(b[:n])
		case r > 0xffff && !asJSON:
			fmt.Fprintf(&out, `\U%08x`, r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}

func unprintable(r rune) bool {
	if r < 0x7f {
		return false // json escapes those below a space
	}
	return !unicode.IsPrint(r) // controls, formats, separators, what is not assigned
}

// field is one field of an object, in the order of the JSON.
type field struct {
	name  string
	value json.RawMessage
}

func fields(b []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: fmt.Sprint(name)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// writeYAML writes an object by its fields, a list by its elements, all below as JSON, which is YAML too; the elements of
// namespaces by their fields again.
func writeYAML(out *bytes.Buffer, b []byte) error {
	top, err := fields(b)
	if err != nil {
		return err
	}
	for _, f := range top {
		if f.value[0] != '[' {
			if err := writeField(out, "", f); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s:\n", f.name)
		var elements []json.RawMessage
		if err := json.Unmarshal(f.value, &elements); err != nil {
			return err
		}
		for _, e := range elements {
			if f.name != "namespaces" {
				fmt.Fprintf(out, "- %s\n", harmless(e, false))
				continue
			}
			inner, err := fields(e)
			if err != nil {
				return err
			}
			for i, f := range inner {
				out.WriteString([]string{"- ", "  "}[min(i, 1)])
				if err := writeField(out, "  ", f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writeField writes a text of lines as a block where nothing in it needs an escape.
func writeField(out *bytes.Buffer, indent string, f field) error {
	var text string
	if f.value[0] == '"' {
		if err := json.Unmarshal(f.value, &text); err != nil {
			return err
		}
	}
	if !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") || text[0] == ' ' || text[0] == '\n' ||
		strings.ContainsFunc(text, func(r rune) bool {
			return r < ' ' && r != '\n' || r == utf8.RuneError || r == '\ufeff' || unprintable(r)
		}) {
		fmt.Fprintf(out, "%s: %s\n", f.name, harmless(f.value, false))
		return nil
	}
	fmt.Fprintf(out, "%s: |\n", f.name)
	for line := range strings.Lines(text) {
		out.WriteString(indent + "  ")
		out.WriteString(line)
	}
	return nil
}

// WriteTo writes a report to a file that must not exist yet, or to the stream if the name is empty or -.
func WriteTo(stream io.Writer, file string, r *nodereport.NodeReport, asJSON bool) error {
	if file == "" || file == "-" {
		return Write(stream, r, asJSON)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the report: %w; name another file", err)
	}
	if err := errors.Join(Write(f, r, asJSON), f.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
