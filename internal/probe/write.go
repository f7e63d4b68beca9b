package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Write writes a report as YAML, or JSON. Each fact stands on one line, and in YAML mount tables stand as they are. It is
// written by hand, field by field: a node's tables are megabytes, over which the libraries take longer than the whole probe.
// Every character that a terminal could act on is escaped.
func Write(w io.Writer, r *nodereport.NodeReport, asJSON bool) error {
	p := printer{out: bufio.NewWriterSize(w, 64<<10), asJSON: asJSON}
	if asJSON {
		p.json(fields(*r))
	} else {
		p.yaml(fields(*r))
	}
	if p.err != nil {
		return p.err
	}
	return p.out.Flush()
}

type printer struct {
	out    *bufio.Writer
	asJSON bool
	err    error
}

// text writes; an error stays with the writer until Flush.
func (p *printer) text(all ...string) {
	for _, s := range all {
		p.out.WriteString(s)
	}
}

// value writes a value as JSON, which is YAML too.
func (p *printer) value(v reflect.Value) {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		p.err = err
		return
	}
	p.out.Write(harmless(b, p.asJSON))
}

func (p *printer) json(all []field) {
	for i, f := range all {
		p.text([]string{"{\n ", ",\n "}[min(i, 1)], `"`, f.name, `": `)
		if f.Kind() != reflect.Slice {
			p.value(f.Value)
			continue
		}
		for i := range f.Len() {
			p.text([]string{"[\n  ", ",\n  "}[min(i, 1)])
			p.value(f.Index(i))
		}
		p.text("\n ]")
	}
	p.text("\n}\n")
}

func (p *printer) yaml(all []field) {
	for _, f := range all {
		if f.Kind() != reflect.Slice {
			p.yamlField("", f)
			continue
		}
		p.text(f.name, ":\n")
		for i := range f.Len() {
			if ns, ok := f.Index(i).Interface().(nodereport.Namespace); ok {
				for i, f := range fields(ns) {
					p.text([]string{"- ", "  "}[min(i, 1)])
					p.yamlField("  ", f)
				}
				continue
			}
			p.text("- ")
			p.value(f.Index(i))
			p.text("\n")
		}
	}
}

// yamlField writes a text of lines as a block where nothing in it needs an escape.
func (p *printer) yamlField(indent string, f field) {
	if f.Kind() != reflect.String || !plainLines(f.String()) {
		p.text(f.name, ": ")
		p.value(f.Value)
		p.text("\n")
		return
	}
	p.text(f.name, ": |\n")
	for line := range strings.Lines(f.String()) {
		p.text(indent, "  ", line)
	}
}

func plainLines(s string) bool {
	return strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, "\n\n") && s[0] != ' ' && s[0] != '\n' &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r == utf8.RuneError || unprintable(r) })
}

// field is one of a struct, by its name in JSON.
type field struct {
	name string
	reflect.Value
}

// fields are those that encoding/json would write.
func fields(object any) []field {
	v := reflect.ValueOf(object)
	var out []field
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		list := f.Kind() == reflect.Slice
		if option == "omitempty" && (list && f.Len() == 0 || !list && f.Kind() != reflect.Struct && f.IsZero()) || option == "omitzero" && f.IsZero() {
			continue
		}
		out = append(out, field{name, f})
	}
	return out
}

// harmless escapes what JSON allows in a text and a terminal or YAML does not: DEL, the second set of controls, and characters
// that change the direction or are not seen.
func harmless(b []byte, asJSON bool) []byte {
	if !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f }) || !bytes.ContainsFunc(b, unprintable) {
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
