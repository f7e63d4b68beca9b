package bundle

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// FuzzRead: whatever the bytes, Read ends, and what it read can be written and read again.
func FuzzRead(f *testing.F) {
	files := []member{{name: "a.json", content: list(pod("a"), bare("b"))}, {name: "cluster-resources/pods/n.json", content: "[" + bare("c") + "]"}, {name: "d.yaml", content: "apiVersion: v1\nkind: Pod\nmetadata: &m {name: d}\n---\nx: *m\n"}}
	for _, m := range files {
		f.Add([]byte(m.content))
	}
	f.Add(tarOf(f, files...))
	f.Add(gzipOf(f, tarOf(f, files...)))
	f.Add(zipOf(f, files...))
	f.Add(packed(f, mustRead(f, "../../testdata/cases/team-user-asks-about-a-claim-that-works")))
	small := limits{total: 1 << 20, file: 256 << 10, files: 50, objects: 200, depth: 4, problems: 5}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, report, err := read([]string{"-"}, bytes.NewReader(in), small)
		if err != nil {
			return
		}
		if report.Objects > small.objects || len(report.Problems) > small.problems {
			t.Errorf("%+v", report)
		}
		first := packed(t, s)
		back, again, err := Read("-", bytes.NewReader(first))
		if err != nil || len(again.Problems) > 0 || back.Len() != s.Len() {
			t.Fatalf("%v, %d of %d objects, %q", err, back.Len(), s.Len(), again.Problems)
		}
		if !bytes.Equal(first, packed(t, back)) {
			t.Error("the bundle of a bundle is another one")
		}
	})
}

// FuzzRedact: twice is once, whatever the text and wherever it stands.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"password=a b", `{"token":"x"}`, "https://a:b@c/d", "Authorization: Basic x", "Bearer 0123456789abcdef0", pem, jwt, cephx, awsID, "--secret x", "x -v y", `\"key\":\"v\"`, "sig=a&b"} {
		f.Add("password", s)
		f.Add(s, "x://password=b;@d")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		once := RedactText(value)
		if twice := RedactText(once); twice != once {
			t.Errorf("RedactText(%q) = %q, then %q", value, once, twice)
		}
		for _, format := range []string{
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{KEY:VALUE,"k8s.io/x":VALUE}},"spec":{"containers":[{"name":"c","command":[KEY,VALUE],"args":["--x",VALUE,KEY,VALUE],"env":[{"name":KEY,"value":VALUE}]}]},"status":{"message":VALUE}}`,
			`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"p"},"provisioner":"x","parameters":{KEY:VALUE},"mountOptions":[VALUE]}`,
			`{"apiVersion":"a/v1","kind":"Vendor","metadata":{"name":"p","annotations":{KEY:VALUE}},"spec":{KEY:VALUE,"list":[VALUE,{"name":KEY,"value":VALUE}],"env":[{"name":KEY,"value":VALUE}],"args":[KEY,VALUE,3]}}`,
		} {
			raw := strings.NewReplacer("KEY", quote(t, key), "VALUE", quote(t, value)).Replace(format)
			o, err := snapshot.Decode([]byte(raw))
			if err != nil {
				continue
			}
			first := Redact(o)
			want := asJSON(t, first)
			if got := asJSON(t, Redact(first)); got != want {
				t.Errorf("once  %s\ntwice %s", want, got)
			}
		}
	})
}

func quote(t *testing.T, s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
