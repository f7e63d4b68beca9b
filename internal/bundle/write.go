package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	nodeReports = "nodereports.csidoctor.dev"
	nodePrefix  = "node-"
)

var collectionKind = schema.GroupVersionKind{Group: "csidoctor.dev", Version: "v1alpha1", Kind: "Collection"}

// Write makes a bundle: a .tar.gz of the Collection, then one List a kind in the order of snapshot.Kinds, then all other kinds.
// The same Snapshot gives the same bytes. Objects are redacted, once more if they were already.
func Write(w io.Writer, s *snapshot.Snapshot) error {
	if err := write(w, s); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

func write(w io.Writer, s *snapshot.Snapshot) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	modified := s.TakenAt.UTC().Truncate(time.Second)
	if modified.Before(time.Unix(0, 0)) {
		modified = time.Unix(0, 0).UTC()
	}
	for _, f := range filesOf(s) {
		content, err := f.content()
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: f.name + ".json", Mode: 0o644, Size: int64(len(content)), ModTime: modified}); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// file is one of a bundle. Its content is made when it is written: of a large cluster one kind at a time is held as text.
type file struct {
	name    string
	index   *snapshot.Collection
	objects []snapshot.Object
	isList  bool
}

// content has one object a line, so that a bundle can be searched and compared.
func (f *file) content() ([]byte, error) {
	var b bytes.Buffer
	if f.index != nil {
		index, err := json.MarshalIndent(f.index, "", " ")
		return append(index, '\n'), err
	}
	if f.isList {
		b.WriteString(`{"apiVersion":"v1","kind":"List","items":[` + "\n")
	}
	for i, o := range f.objects {
		object, err := json.Marshal(Redact(o))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
		}
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(object)
	}
	if f.isList {
		b.WriteString("\n]}")
	}
	b.WriteString("\n")
	return b.Bytes(), nil
}

func filesOf(s *snapshot.Snapshot) []*file {
	index := collectionOf(s)
	files := []*file{{name: "collection", index: &index}}
	named := map[string]*file{}
	for _, gk := range s.GroupKinds() {
		resource := snapshot.VendorResource(gk)
		if k := snapshot.KindOf(gk); k != nil {
			resource = k.Resource
		}
		for _, o := range s.All(gk) {
			name := safeName(resource)
			if resource == nodeReports {
				name = nodePrefix + safeName(o.GetName())
			}
			f := named[name]
			if f == nil {
				f = &file{name: name, isList: resource != nodeReports}
				named[name], files = f, append(files, f)
			} else {
				f.isList = true // kinds that differ in case only share a file
			}
			f.objects = append(f.objects, o)
		}
	}
	return files
}

func collectionOf(s *snapshot.Snapshot) snapshot.Collection {
	c := snapshot.Collection{TakenAt: s.TakenAt, Server: snapshot.Server{Version: s.Server}, Read: s.Read, Gaps: []snapshot.Gap{}}
	c.APIVersion, c.Kind = collectionKind.ToAPIVersionAndKind()
	switch {
	case !s.Recorded:
		c.Read = nil // null: what was read is not known, only when
	case c.Read == nil:
		c.Read = []snapshot.Query{}
	}
	for _, g := range s.Gaps {
		g.Detail, g.Remedy = RedactText(g.Detail), RedactText(g.Remedy)
		c.Gaps = append(c.Gaps, g)
	}
	return c
}

// safeName makes a file name of any text: what could be a path, an option or unreadable is escaped, what is too long is cut.
func safeName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > 200 { // file systems take 255
		name = fmt.Sprintf("%s-%x", name[:150], sha256.Sum256([]byte(name)))
	}
	return name
}
