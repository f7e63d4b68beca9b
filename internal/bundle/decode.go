package bundle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	goyaml "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// maxYAML bounds one YAML document: its parser takes some twenty times its size.
const maxYAML = 64 << 20

var (
	utf8Mark  = []byte("\xef\xbb\xbf")
	utf16LE   = []byte("\xff\xfe")
	utf16BE   = []byte("\xfe\xff")
	space     = " \t\r\n"
	separator = []byte("---")
)

// decode takes the objects out of a file. The only error that it gives is errEnough; isCut says that the file's end is missing.
func (r *reader) decode(e entry, data []byte, isCut bool) error {
	before := r.report.Objects
	data = bytes.TrimLeft(toUTF8(data), space)
	var err error
	switch {
	case len(data) == 0:
		r.report.Skipped++
	case data[0] != '{' && data[0] != '[':
		err = r.yaml(e, data, isCut)
	default:
		err = r.json(e, data)
		// {apiVersion: v1} is YAML
		if err != nil && !isCut && r.report.Objects == before && len(data) < maxYAML/64 && r.yaml(e, data, isCut) == nil && r.report.Objects > before {
			err = nil
		}
	}
	switch {
	case errors.Is(err, errEnough):
		return r.enough(e, "input has more than %d objects", r.objects)
	case isCut: // the caller tells
	case err == nil:
		r.complete[e.resource()] = true
		r.noteList(e, data)
	case r.report.Objects > before:
		r.cut(e, fmt.Errorf("%w; %d objects of it are used", err, r.report.Objects-before))
	case e.meant() || bytes.Contains(data, []byte(`"apiVersion"`)):
		r.report.Skipped++
		if text := r.problem(e, err); e.resource() != "" {
			r.lost[e.resource()] = text
		} else if r.lostMaybe == "" && bytes.Contains(data, []byte("apiVersion")) {
			r.lostMaybe = text
		}
	default:
		r.report.Skipped++
	}
	return nil
}

// toUTF8 drops a byte order mark, and turns UTF-16, which PowerShell writes, into UTF-8.
func toUTF8(data []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, utf16LE):
	case bytes.HasPrefix(data, utf16BE):
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(data, utf8Mark)
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// json reads JSON documents, one after the other or with --- between. Other text between them is skipped up to the next line
// that begins with a brace: kubectl cluster-info dump has logs there.
func (r *reader) json(e entry, data []byte) error {
	var failed error
	wasted := 0
	for all := len(data); wasted <= 4*all; {
		data = bytes.TrimLeft(data, space)
		var n int
		var err error
		switch {
		case len(data) == 0:
			return failed
		case bytes.HasPrefix(data, separator):
			n = len(separator)
		case data[0] != '{' && (data[0] != '[' || len(data) != all):
			r.report.Skipped++
			n = nextBrace(data)
		default:
			n, err = r.value(e, data, 0)
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err != nil {
			if failed == nil {
				failed = err
			}
			wasted += n // read in vain; bounds what nested rubbish can cost
			n = nextBrace(data)
		}
		data = data[n:]
	}
	return failed
}

func nextBrace(data []byte) int {
	if n := bytes.Index(data[1:], []byte("\n{")); n >= 0 {
		return n + 1
	}
	return len(data)
}

// yaml reads YAML documents with --- between.
func (r *reader) yaml(e entry, data []byte, isCut bool) error {
	var failed error
	docs := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	doc, err := docs.Read()
	for err != io.EOF {
		next, nextErr := docs.Read()
		if err == nil {
			err = r.yamlDocument(e, doc, isCut && nextErr == io.EOF)
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err != nil && failed == nil {
			failed = err
		}
		doc, err = next, nextErr
	}
	return failed
}

// yamlDocument reads one document. The last item of a cut one is left out: in YAML a part of an object is one too.
func (r *reader) yamlDocument(e entry, doc []byte, isCut bool) error {
	if !bytes.Contains(doc, []byte("kind")) && supportBundleKind(e.name).Empty() { // prose and logs
		r.report.Skipped++
		return nil
	}
	if len(doc) > maxYAML {
		return fmt.Errorf("a YAML document is larger than %d MiB; convert it to JSON", maxYAML>>20)
	}
	if hasAlias(doc) {
		if err := checkAliases(doc); err != nil {
			return err
		}
	}
	asJSON, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return err
	}
	if isCut {
		if asJSON, err = dropLast(asJSON); err != nil {
			return err
		}
	}
	if asJSON = bytes.TrimLeft(asJSON, space); len(asJSON) == 0 || asJSON[0] != '{' && asJSON[0] != '[' {
		r.report.Skipped++
		return nil
	}
	_, err = r.value(e, asJSON, 0)
	return err
}

// dropLast gives a list without its last item; nothing of what is no list.
func dropLast(doc []byte) ([]byte, error) {
	var list []json.RawMessage
	object := map[string]json.RawMessage{}
	if json.Unmarshal(doc, &list) != nil && (json.Unmarshal(doc, &object) != nil || json.Unmarshal(object["items"], &list) != nil) || len(list) == 0 {
		return nil, nil
	}
	var err error
	if object["items"], err = json.Marshal(list[:len(list)-1]); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// hasAlias looks for a YAML alias: a * where a value begins. Few documents have one.
func hasAlias(doc []byte) bool {
	for i := 0; i+1 < len(doc); i++ {
		if doc[i] == '*' && (i == 0 || strings.IndexByte(" \t\n[{,:", doc[i-1]) >= 0) && strings.IndexByte(" \t\r\n*", doc[i+1]) < 0 {
			return true
		}
	}
	return false
}

// checkAliases refuses a document whose aliases make it many times larger. The parser bounds the number of nodes, not their size.
func checkAliases(doc []byte) error {
	var v any
	if err := goyaml.Unmarshal(doc, &v); err != nil {
		return err
	}
	left := 4*len(doc) + 1<<20
	var spend func(any)
	spend = func(v any) {
		left -= 8
		switch v := v.(type) {
		case string:
			left -= len(v)
		case []any:
			for i := 0; i < len(v) && left > 0; i++ {
				spend(v[i])
			}
		case map[any]any:
			for k, x := range v {
				if left <= 0 {
					return
				}
				spend(k)
				spend(x)
			}
		}
	}
	if spend(v); left <= 0 {
		return errors.New("its YAML aliases make it many times larger; write it out without aliases")
	}
	return nil
}

// value reads the JSON value that data begins with: an object, a list of objects in any of its forms, or an array of either. It
// gives the length of what was read, or on an error of what was looked at. Of a value that is broken in the middle, the items
// before are read.
func (r *reader) value(e entry, data []byte, depth int) (int, error) {
	if depth > r.depth {
		return len(data), fmt.Errorf("lists lie more than %d deep in each other", r.depth)
	}
	in := bytes.NewReader(data)
	dec := json.NewDecoder(in)
	start, err := dec.Token()
	if err != nil {
		return len(data) - in.Len(), err
	}
	var items []json.RawMessage
	var kind schema.GroupVersionKind
	keep := func(item json.RawMessage) error {
		if items = append(items, item); len(items) > r.objects {
			return errEnough
		}
		return nil
	}
	isList := false
	if start == json.Delim('[') {
		isList = true
		err = readItems(dec, keep) // and the closing bracket
	} else {
		var head struct{ apiVersion, kind string }
		for err == nil && dec.More() {
			var key json.Token
			if key, err = dec.Token(); err != nil {
				break
			}
			switch {
			case key == "apiVersion":
				head.apiVersion, err = readString(dec)
			case key == "kind":
				head.kind, err = readString(dec)
			case key == "items" && nextByte(data[dec.InputOffset():]) == '[':
				isList = true
				if _, err = dec.Token(); err != nil {
					break
				}
				if strings.HasSuffix(head.kind, "List") { // else it is not known yet what the items belong to
					itemKind := itemKind(e, schema.FromAPIVersionAndKind(head.apiVersion, head.kind))
					keep = func(item json.RawMessage) error { return r.add(e, item, itemKind, depth) }
				}
				err = readItems(dec, keep)
			default:
				var skipped json.RawMessage
				err = dec.Decode(&skipped)
			}
		}
		kind = schema.FromAPIVersionAndKind(head.apiVersion, head.kind)
		if err == nil {
			_, err = dec.Token() // the closing brace
		}
	}
	n := int(dec.InputOffset())
	switch err {
	case nil:
	case io.EOF:
		n, err = len(data), io.ErrUnexpectedEOF
	default:
		n = len(data) - in.Len()
	}
	switch {
	case isList && (kind.Kind == "" || strings.HasSuffix(kind.Kind, "List")):
		for _, item := range items {
			if stop := r.add(e, item, itemKind(e, kind), depth); stop != nil {
				return n, stop
			}
		}
	case err == nil:
		raw := data[:n]
		if kind.Empty() {
			kind = supportBundleKind(e.name)
			raw = withKind(raw, kind)
		}
		return n, r.object(e, raw, kind)
	}
	return n, err
}

// itemKind is what the items of a list are that do not say it themselves.
func itemKind(e entry, list schema.GroupVersionKind) schema.GroupVersionKind {
	if list.Kind != "List" && list.Kind != "" { // PodList of kubectl get --raw
		return list.GroupVersion().WithKind(strings.TrimSuffix(list.Kind, "List"))
	}
	return supportBundleKind(e.name)
}

// readItems gives the items of an array one by one, and reads its closing bracket.
func readItems(dec *json.Decoder, each func(json.RawMessage) error) error {
	for dec.More() {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func readString(dec *json.Decoder) (string, error) {
	var v any
	err := dec.Decode(&v)
	s, _ := v.(string) // anything else is no kind
	return s, err
}

func nextByte(data []byte) byte {
	if data = bytes.TrimLeft(data, space+":"); len(data) > 0 {
		return data[0]
	}
	return 0
}

// add takes in one item of a list, which may be a list again. itemKind is what the list says of items that do not say it.
func (r *reader) add(e entry, raw []byte, itemKind schema.GroupVersionKind, depth int) error {
	if len(raw) == 0 || raw[0] != '{' {
		r.report.Skipped++
		return nil
	}
	kind, err := snapshot.Identify(raw)
	if err != nil {
		return err
	}
	if strings.HasSuffix(kind.Kind, "List") {
		_, err := r.value(e, raw, depth+1)
		if err != nil && !errors.Is(err, errEnough) {
			r.cut(e, err)
			return nil
		}
		return err
	}
	if kind.Empty() {
		kind = itemKind
		raw = withKind(raw, kind)
	}
	return r.object(e, raw, kind)
}

// withKind writes into an object what it is.
func withKind(raw []byte, kind schema.GroupVersionKind) []byte {
	rest := bytes.TrimLeft(raw[1:], space)
	if kind.Empty() || rest[0] == '}' {
		return raw
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	return slices.Concat(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, apiVersion, name), rest)
}

// object takes in one object.
func (r *reader) object(e entry, raw []byte, kind schema.GroupVersionKind) error {
	switch {
	case kind.Version == "" || kind.Kind == "":
		r.report.Skipped++
		return nil
	case kind.Group == "" && kind.Kind == "Secret":
		r.report.Secrets++
		return nil
	case kind.Group == collectionKind.Group && kind.Kind == collectionKind.Kind:
		var c snapshot.Collection
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("read a Collection: %w", err)
		}
		r.collections = append(r.collections, c)
		return nil
	}
	if r.report.Objects >= r.objects {
		return errEnough
	}
	o, err := snapshot.DecodeAs(raw, kind)
	if err != nil {
		r.undecodable(e, kind.GroupKind(), err)
		return nil
	}
	if o.GetName() == "" { // a kubeconfig, a Status, a review: typed, but no object of a cluster
		r.report.Skipped++
		return nil
	}
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Time.After(r.managed) {
			r.managed = m.Time.Time
		}
	}
	snapshot.Trim(o)
	redact(o)
	r.shared.Share(o)
	r.snapshot.Add(o)
	r.report.Objects++
	return nil
}

func (r *reader) undecodable(e entry, gk schema.GroupKind, err error) {
	text := r.problem(e, err)
	if k := snapshot.KindOf(gk); k != nil {
		r.lost[k.Resource] = text
	}
}
