// Command big writes what fills a large cluster: the keys of etcd and what the API server keeps there, one JSON object a line. It is a cluster
// in which all is well, and among that the objects of cases, each in a namespace of its own that is named like the case. All times are moved,
// so that the moment at which each case is asked about is the same for all.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("big: ")
	claims := flag.Int("claims", 10000, "how many claims, volumes, attachments; twice as many pods, a tenth of that nodes, a fiftieth namespaces, five times as many events")
	at := flag.String("at", "2026-03-01T12:00:00Z", "the moment at which all is as it is")
	list := flag.Bool("list", false, "print the folders and files that hold the faults, and no objects")
	check := flag.Bool("check", false, "read the answer of a scan, print each fault that it does not find and whatever else it says, and no objects")
	flag.Parse()
	now, err := time.Parse(time.RFC3339, *at)
	plants, plantsErr := planted(".")
	if err := errors.Join(err, plantsErr); err != nil {
		log.Fatal(err)
	}
	switch {
	case *list:
		for _, p := range plants {
			fmt.Println(cmp.Or(p.path, lab))
		}
		return
	case *check:
		if err := judge(os.Stdin, plants); err != nil {
			log.Fatal(err)
		}
		return
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	lines := json.NewEncoder(out)
	f := &filler{now: now, seen: map[string]string{}, keep: func(key string, o snapshot.Object) error {
		value, err := stored(o)
		if err != nil {
			return err
		}
		return lines.Encode(pair{[]byte(key), value})
	}}
	if err := errors.Join(f.faults(".", plants), f.healthy(*claims), out.Flush()); err != nil {
		log.Fatal(err)
	}
}

// filler writes objects, each once.
type filler struct {
	now  time.Time
	keep func(key string, o snapshot.Object) error
	seen map[string]string // by key, what brought it
}

// pair is a key of etcd and its value.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (f *filler) put(o snapshot.Object, from string) error {
	gvk := o.GetObjectKind().GroupVersionKind()
	k := snapshot.KindOf(gvk.GroupKind())
	if k == nil {
		return fmt.Errorf("%s: %s/%s is of no kind that the API server has", from, gvk.Kind, o.GetName())
	}
	key := keyOf(k, o)
	if other, ok := f.seen[key]; ok {
		if gvk.Kind == "Namespace" || gvk.Kind == "Lease" { // of a driver, or of what runs once in a cluster: one of them does
			return nil
		}
		return fmt.Errorf("%s and %s both have %s", other, from, key)
	}
	f.seen[key] = from
	if err := f.keep(key, o); err != nil {
		return fmt.Errorf("%s: %s: %w", from, key, err)
	}
	return nil
}

// stored is how the API server keeps an object.
func stored(o snapshot.Object) ([]byte, error) {
	if custom(o.GetObjectKind().GroupVersionKind().Group) {
		return json.Marshal(o)
	}
	var value bytes.Buffer
	err := protobuf.NewSerializer(nil, nil).Encode(o, &value)
	return value.Bytes(), err
}

func custom(group string) bool { return strings.HasSuffix(group, ".storage.k8s.io") }

// keyOf is where the API server keeps an object.
func keyOf(k *snapshot.Kind, o snapshot.Object) string {
	resource := schema.ParseGroupResource(k.Resource)
	key := "/registry/" + resource.Resource
	switch {
	case resource.Resource == "nodes":
		key = "/registry/minions"
	case custom(resource.Group):
		key = "/registry/" + resource.Group + "/" + resource.Resource
	}
	if k.Namespaced {
		key += "/" + o.GetNamespace()
	}
	return key + "/" + o.GetName()
}

// faults puts in the objects of cases, each in its own namespace, and those of the test cluster.
func (f *filler) faults(root string, plants []plant) error {
	for _, p := range plants {
		if p.path == "" {
			continue // it is among those of the test cluster
		}
		m := mover{by: f.now.Sub(p.at), to: p.id}
		if p.namespace != "" {
			m.from, m.in = p.namespace, regexp.MustCompile(`(^|[^\w./-])`+regexp.QuoteMeta(p.namespace)+`/`)
		}
		if err := f.moved(p.path, m); err != nil {
			return err
		}
	}
	return f.moved(filepath.Join(root, lab), mover{})
}

// moved puts in the objects of an input.
func (f *filler) moved(path string, m mover) error {
	s, report, err := bundle.Read(path, nil)
	if err != nil || len(report.Problems) > 0 {
		return fmt.Errorf("%s: %w %v", path, err, report.Problems)
	}
	if m.by == 0 {
		m.by = f.now.Sub(s.TakenAt)
	}
	for _, gk := range s.GroupKinds() {
		for _, o := range s.All(gk) {
			if notOfAFault(o) {
				continue
			}
			moved, err := m.move(o)
			if err == nil {
				err = f.put(moved, path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// notOfAFault: the API server makes the object itself when it starts, or it is of who asks, or no object of the API.
func notOfAFault(o snapshot.Object) bool {
	_, boot := o.GetLabels()["kubernetes.io/bootstrapping"]
	_, ns := o.(*corev1.Namespace)
	return boot || o.GetName() == "oncall" || o.GetObjectKind().GroupVersionKind().Group == "csidoctor.dev" || ns && (strings.HasPrefix(o.GetName(), "kube-") || o.GetName() == "default")
}

// mover moves an object into another namespace and another time.
type mover struct {
	by       time.Duration
	from, to string         // namespaces; none: it stays
	in       *regexp.Regexp // the namespace before a name, in a text
}

func (m mover) move(o snapshot.Object) (snapshot.Object, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if fields["kind"] == "Namespace" && o.GetName() == m.from {
		fields["metadata"].(map[string]any)["name"] = m.to
	}
	if raw, err = json.Marshal(m.value("", fields)); err != nil {
		return nil, err
	}
	return snapshot.Decode(raw)
}

func (m mover) value(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = m.value(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = m.value(field, v[i])
		}
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			layout := time.RFC3339
			if strings.Contains(v, ".") { // a MicroTime has them always
				layout = "2006-01-02T15:04:05.000000Z07:00"
			}
			return t.Add(m.by).UTC().Format(layout)
		}
		if m.from == "" {
			return v
		}
		if strings.EqualFold(field, "namespace") && v == m.from {
			return m.to
		}
		return m.in.ReplaceAllString(v, "${1}"+m.to+"/")
	}
	return v
}

//go:embed cluster.yaml
var parts []byte

const (
	claimsPerNode      = 10
	claimsPerNamespace = 50
	driver             = "disk.big.example"
)

// healthy puts in a cluster of so many claims.
func (f *filler) healthy(claims int) error {
	var templates map[string][]json.RawMessage
	if err := yaml.Unmarshal(parts, &templates); err != nil {
		return err
	}
	nodes := claims / claimsPerNode
	digest := strings.Repeat("0123456789abcdef", 4)
	var images, env []string
	for i := range 50 {
		images = append(images, fmt.Sprintf(`{"names":["registry.example/library/image-%d@sha256:%s","registry.example/library/image-%[1]d:v1.2.3"],"sizeBytes":123456789}`, i, digest))
	}
	for i := range 10 {
		env = append(env, fmt.Sprintf(`{"name":"POSTGRESQL_SETTING_%d","value":"a value of some length, as these are"}`, i))
	}
	managed := `{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"MONTHAGO","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{` +
		strings.Repeat(`"f:pv.kubernetes.io/bind-completed":{},`, 25) + `"f:x":{}}}}}`
	ago := func(d time.Duration) string { return f.now.Add(-d).Format(time.RFC3339) }
	always := strings.NewReplacer("MONTHAGO", ago(30*24*time.Hour), "HOURAGO", ago(time.Hour), "MICRONOW", f.now.Format("2006-01-02T15:04:05.000000Z07:00"), "NOW", ago(0),
		`"$NODES"`, fmt.Sprint(nodes), "DIGEST", digest, `"$IMAGES"`, "["+strings.Join(images, ",")+"]", `"$ENV"`, "["+strings.Join(env, ",")+"]")
	whole := strings.NewReplacer(`"MANAGED"`, managed) // first: there are words in it
	for _, part := range templates {
		for i, t := range part {
			part[i] = json.RawMessage(always.Replace(whole.Replace(string(t))))
		}
	}
	each := func(part string, n int, words func(i int) []string) error {
		for i := range n {
			replacer := strings.NewReplacer(append(words(i), "$ID", fmt.Sprintf("%05d", i), "$NAMESPACE", namespaceOf(i))...)
			for _, t := range templates[part] {
				o, err := snapshot.Decode([]byte(replacer.Replace(string(t))))
				if err == nil {
					err = f.put(o, part)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", part, err)
				}
			}
		}
		return nil
	}
	nothing := func(int) []string { return nil }
	return errors.Join(
		each("once", 1, nothing),
		each("namespace", (claims+claimsPerNamespace-1)/claimsPerNamespace, func(i int) []string { return []string{"$NAMESPACE", namespaceOf(i * claimsPerNamespace)} }),
		each("node", nodes, func(i int) []string {
			var inUse, attached []string
			for c := i * claimsPerNode; c < (i+1)*claimsPerNode; c++ {
				name := fmt.Sprintf("kubernetes.io/csi/%s^%s", driver, handleOf(c))
				inUse, attached = append(inUse, fmt.Sprintf("%q", name)), append(attached, fmt.Sprintf(`{"name":%q,"devicePath":""}`, name))
			}
			return []string{`"$IN-USE"`, "[" + strings.Join(inUse, ",") + "]", `"$ATTACHED"`, "[" + strings.Join(attached, ",") + "]"}
		}),
		each("claim", claims, func(i int) []string {
			return []string{"$NODE", nodeOf(i), "$ATTACHMENT", fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handleOf(i)+driver+nodeOf(i))))}
		}),
		each("pod", claims-nodes, func(i int) []string { return []string{"$NODE", nodeOf(i)} }),
	)
}

func namespaceOf(claim int) string { return fmt.Sprintf("team-%03d", claim/claimsPerNamespace) }
func nodeOf(claim int) string      { return fmt.Sprintf("big-%05d", claim/claimsPerNode) }
func handleOf(claim int) string    { return fmt.Sprintf("vol-%05d", claim) }
