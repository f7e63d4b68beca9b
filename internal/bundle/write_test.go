package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func packed(t testing.TB, s *snapshot.Snapshot) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, s); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// dump is all that a Snapshot says, to compare two.
func dump(t testing.TB, s *snapshot.Snapshot) []string {
	t.Helper()
	var out []string
	for _, f := range filesOf(s) {
		content, err := f.content()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.name, string(content))
	}
	return out
}

// A bundle says what the Snapshot said, and its bytes depend on nothing else.
func TestRoundTrip(t *testing.T) {
	for _, dir := range caseFolders(t) {
		s := mustRead(t, dir)
		first := packed(t, s)
		back, report := fromStdin(t, first)
		if len(report.Problems) > 0 || report.Skipped > 0 {
			t.Errorf("%s: %+v", dir, report)
		}
		if d := cmp.Diff(dump(t, s), dump(t, back)); d != "" {
			t.Errorf("%s: %s", dir, d)
		}
		if back.Recorded != s.Recorded || !back.TakenAt.Equal(s.TakenAt) || back.Server != s.Server || !slices.Equal(back.Read, s.Read) {
			t.Errorf("%s: what was read, and when, is different", dir)
		}
		if !bytes.Equal(first, packed(t, back)) {
			t.Errorf("%s: the bundle of its bundle has other bytes", dir)
		}
	}
}

// Without a Collection it is not known what was read; after a bundle it still is not.
func TestRoundTripUnrecorded(t *testing.T) {
	s, _ := fromStdin(t, []byte(list(pod("a"), `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"ns"},"lastTimestamp":"2026-01-01T00:00:00Z"}`)))
	back, _ := fromStdin(t, packed(t, s))
	q := snapshot.Query{Resource: "nodes"}
	if s.Recorded || back.Recorded || back.Covers(q) || !back.Covers(snapshot.Query{Resource: "pods", Namespace: "ns"}) || !back.TakenAt.Equal(s.TakenAt) || s.TakenAt.IsZero() {
		t.Errorf("%+v, %+v", s, back)
	}
}

func TestBundleLayout(t *testing.T) {
	var odd []string
	for _, name := range []string{"../../etc/passwd", ".", "-rf", "Ünïcode \n", strings.Repeat("n", 300), strings.Repeat("n", 301), "n1"} {
		o := decodeObject(t, `{"apiVersion":"csidoctor.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"x"}}`).(*snapshot.NodeReport)
		o.Name, o.Report.Metadata.Name = name, name
		odd = append(odd, asJSON(t, o))
	}
	s, _ := fromStdin(t, []byte(list(append(odd, pod("a"), excerpt("c"),
		`{"apiVersion":"x.example/v1","kind":"Foo","metadata":{"name":"1"}}`, `{"apiVersion":"x.example/v1","kind":"FOO","metadata":{"name":"2"}}`,
		`{"apiVersion":"../x/v1","kind":"../Y","metadata":{"name":"3"}}`, `{"apiVersion":"x.example/v1","kind":"../Y","metadata":{"name":"3"}}`,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`)...)))
	z, err := gzip.NewReader(bytes.NewReader(packed(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("the header of gzip tells %q, %s", z.Name, z.ModTime)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uname+h.Gname != "" || h.Uid+h.Gid != 0 || len(h.Name) > 255 {
			t.Errorf("%+v", h)
		}
		got = append(got, h.Name)
	}
	long := got[slices.IndexFunc(got, func(n string) bool { return len(n) > 100 }):][:2]
	want := []string{"collection.json", "nodes.json", "pods.json", "node--rf.json", "node-%2E.json", "node-%2E.%2F..%2Fetc%2Fpasswd.json", "node-n1.json", long[0], long[1], "node-%C3%9Cn%C3%AFcode%20%0A.json",
		"logexcerpts.csidoctor.dev.json", "%2E.%2Fies.x.example.json", "foos.x.example.json"}
	if d := cmp.Diff(want, got); d != "" || long[0] == long[1] {
		t.Error(d)
	}
	back, report := fromStdin(t, packed(t, s))
	if names(back) != names(s) || len(report.Problems) > 0 {
		t.Errorf("%s\n%s\n%q", names(s), names(back), report.Problems)
	}
}

func TestWriteRedacts(t *testing.T) {
	s := snapshot.New()
	s.Add(decodeObject(t, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"n"},"message":"password=hunter2"}`))
	s.Gaps = []snapshot.Gap{{Input: "pods", Reason: "failed", Detail: "Get https://u:hunter2@host/: refused"}}
	z, err := gzip.NewReader(bytes.NewReader(packed(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(all, []byte("hunter2")) {
		t.Errorf("%s", all)
	}
}
