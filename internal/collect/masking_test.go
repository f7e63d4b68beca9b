package collect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Masking, trimming and sharing take away nothing that an answer rests on: with the objects as they are in the files, verdict,
// causes and hops of every case are the same.
func TestMaskingChangesNoAnswer(t *testing.T) {
	eachCase(t, func(t *testing.T, dir string) {
		_, target, at := loadCase(t, dir)
		masked, _, err := bundle.Read(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(judged(t, asWritten(t, dir, masked), target, explain.Options{Now: at}), judged(t, masked, target, explain.Options{Now: at})); diff != "" {
			t.Errorf("as it is (-) and masked (+) differ:\n%s", diff)
		}
	})
}

// judged is what an answer decides, without the words.
func judged(t *testing.T, s *snapshot.Snapshot, target explain.Target, o explain.Options) []string {
	t.Helper()
	walked, _, err := collect.Walk(t.Context(), collect.Files(s), nil, func(s *snapshot.Snapshot) explain.Wanted {
		_, w := explain.Explain(s, target, o)
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := explain.Explain(walked, target, o)
	out := []string{string(d.Verdict), string(d.Hop)}
	for _, f := range d.Findings {
		out = append(out, f.Cause+" "+string(f.Status)+" "+string(f.Confidence))
	}
	for _, c := range d.Chains {
		for _, h := range c.Hops {
			out = append(out, string(h.Hop)+" "+string(h.Status))
		}
	}
	return out
}

// asWritten has the objects of a case as they are, and of what was read what the other says.
func asWritten(t *testing.T, dir string, other *snapshot.Snapshot) *snapshot.Snapshot {
	t.Helper()
	s := snapshot.New()
	s.TakenAt, s.Server, s.Read, s.Gaps, s.Recorded = other.TakenAt, other.Server, other.Read, other.Gaps, other.Recorded
	reports, err := filepath.Glob(dir + "/node-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat([]string{dir + "/cluster.json"}, reports) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		if list.Items == nil {
			list.Items = []json.RawMessage{raw}
		}
		for _, item := range list.Items {
			o, err := snapshot.Decode(item)
			if err != nil {
				t.Fatal(err)
			}
			s.Add(o)
		}
	}
	if s.Len() != other.Len() {
		t.Fatalf("%d objects, not %d", s.Len(), other.Len())
	}
	return s
}
