package collect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

var pods = snapshot.ResourceOf("pods")

// twoPods is a list in the two forms that a server gives it.
func twoPods(t testing.TB) (asProtobuf, asJSON []byte) {
	in := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"app": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}, {Manager: "kubectl"}}}, Spec: corev1.PodSpec{NodeName: "node-1"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
	}}
	in.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	var body bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(in, &body); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return body.Bytes(), text
}

// A list gives its objects, each when it has come, and says where the next page begins; one that was cut off is an error wherever that was.
func TestDecodeList(t *testing.T) {
	asProtobuf, asJSON := twoPods(t)
	for form, body := range map[string][]byte{"protobuf": asProtobuf, "JSON": asJSON} {
		var got []*corev1.Pod
		take := func(o snapshot.Object) error {
			got = append(got, o.(*corev1.Pod))
			return nil
		}
		list, err := decodeList(bytes.NewReader(body), pods, take)
		if err != nil || list.Continue != "next" || list.ResourceVersion != "7" || len(got) != 2 {
			t.Fatal(form, list, got, err)
		}
		a, b := got[0], got[1]
		if a.Name != "a" || a.Labels["app"] != "a" || a.Spec.NodeName != "node-1" || b.Name != "b" || b.Status.Phase != corev1.PodRunning || a.Kind != "Pod" || b.APIVersion != "v1" {
			t.Error(form, got)
		}
		if form == "protobuf" && a.ManagedFields != nil {
			t.Error("managedFields were made")
		}
		whole := len(body) - len("}")
		if form == "protobuf" {
			whole = len(body) - len("\x1a\x00\x22\x00") // behind the list its envelope has two empty fields
		}
		if form == "protobuf" {
			got = nil
			if _, err := decodeList(bytes.NewReader(body), pods, take, "b", "no such word"); err != nil || got != nil {
				t.Error(got, err)
			}
			if list, err := decodeList(bytes.NewReader(body), pods, take, "app", "node-1"); err != nil || list.Continue != "next" || len(got) != 1 || got[0].Name != "a" {
				t.Error(list, got, err)
			}
		}
		most := 0
		for n := range whole {
			got = nil
			if list, err := decodeList(bytes.NewReader(body[:n]), pods, take); err == nil {
				t.Errorf("%s: %d bytes of %d are a list: %v", form, n, len(body), list)
			}
			if len(got) < most {
				t.Errorf("%s: of %d bytes come %d objects, and of fewer %d", form, n, len(got), most)
			}
			most = len(got)
		}
		if most == 0 {
			t.Errorf("%s: no object comes before the end", form)
		}
	}
}

// endless is a text without an end.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// What no API server sends is an error, and soon one.
func TestDecodeListOfAnotherServer(t *testing.T) {
	long := func(list uint64, head string) string { // an envelope with a list that begins with such a field
		body := append(slices.Clone(protobufMagic), unknownRaw<<3|2)
		return string(binary.AppendUvarint(body, list)) + head
	}
	object := string(binary.AppendUvarint([]byte{listItems<<3 | 2}, 1<<40))
	for body, want := range map[string]string{
		"":                                     "unexpected EOF",
		"<html>Sign in</html>":                 "invalid character '<'",
		`"items"`:                              "no list",
		`{"kind":"Status","message":"x"}`:      "no list",
		`{"items":"none"}`:                     "no list",
		`{"items":[1]}`:                        "Pod",
		`{"items":[{"metadata":{"name":"`:      "an object of more than",
		`{"metadata":{"continue":"`:            "an object of more than",
		long(1<<50, object):                    "an object of 1099511627776 bytes",
		long(1<<63, ""):                        "longer than any",
		long(1<<50, "\x07"):                    "without a number",
		long(1<<50, "\x13"):                    "of type 3",
		string(protobufMagic) + "\x80\x80\x80": "overflow",
	} {
		_, err := decodeList(io.MultiReader(strings.NewReader(body), endless('\x80')), pods, func(snapshot.Object) error { return nil })
		if body == "" || body[0] == '"' {
			_, err = decodeList(strings.NewReader(body), pods, func(snapshot.Object) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
}

// Whatever stands in a list, taking it apart ends, and gives no object in protobuf that still has its managedFields.
func FuzzDecodeList(f *testing.F) {
	asProtobuf, asJSON := twoPods(f)
	f.Add(asProtobuf)
	f.Add(asJSON)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeList(bytes.NewReader(body), pods, func(o snapshot.Object) error {
			if p := o.(*corev1.Pod); p.ManagedFields != nil && bytes.HasPrefix(body, protobufMagic) {
				t.Error(p.ManagedFields)
			}
			return nil
		})
	})
}
