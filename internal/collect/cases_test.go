package collect_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	maxRequestsHealthy = 12 // a claim that works is asked about often, by scripts too
	maxRequests        = 32 // up to ten consumers on as many nodes
)

// Every case, served over HTTP to the real client, gets the answer that its files get, for few requests.
func TestCasesFromACluster(t *testing.T) {
	eachCase(t, func(t *testing.T, dir string) {
		full, target, at := loadCase(t, dir)
		ask := func(s *snapshot.Snapshot) explain.Wanted {
			_, w := explain.Explain(s, target, explain.Options{Now: at})
			return w
		}
		diagnose := func(src collect.Source) (explain.Diagnosis, *snapshot.Snapshot, collect.Stats) {
			s, stats, err := collect.Walk(t.Context(), src, nil, ask)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := explain.Explain(s, target, explain.Options{Now: at})
			for _, g := range s.Gaps {
				if g.Reason == "truncated" {
					t.Errorf("still wanted after %d rounds: %s", stats.Rounds, g.Query)
				}
			}
			return d, s, stats
		}
		recorded := apitest.AsRecorded(full)
		server := apitest.Start(t, full, apitest.Options{Now: full.TakenAt, NotServed: doneWithout(full), Forbid: func(q snapshot.Query) string {
			if !inRole(q) {
				t.Errorf("deploy/rbac.yaml does not allow %s", q)
			}
			return recorded(q)
		}})
		l, err := collect.NewLive(server.Getter(t), collect.LiveOptions{Redact: bundle.Redact}) // which changes no answer
		if err != nil {
			t.Fatal(err)
		}
		got, read, stats := diagnose(l)
		want, _, _ := diagnose(collect.Files(full))
		// A kind that the files do not say they have: there a gap of the input, here a refusal, or all there is.
		ignore := cmpopts.IgnoreSliceElements(func(g explain.Gap) bool {
			return g.Reason == "not-collected" || strings.HasSuffix(g.Detail, apitest.NotRecorded)
		})
		// What is only left is not said where roles are refused; nothing requires an input to have them.
		unsaid := len(want.Findings) > 0 && want.Findings[0].Rest && got.Cause == nil
		if diff := gocmp.Diff(want, got, ignore, cmpopts.IgnoreFields(explain.Gap{}, "Remedy"), cmpopts.IgnoreUnexported(explain.Diagnosis{}, explain.Hop{})); diff != "" && !unsaid {
			t.Errorf("files (-) and cluster (+) differ:\n%s", diff)
		}
		var file bytes.Buffer
		if err := bundle.Write(&file, read); err != nil {
			t.Fatal(err)
		}
		again, report, err := bundle.Read("-", &file)
		if err != nil || len(report.Problems) > 0 {
			t.Fatal(err, report.Problems)
		}
		if own, _, _ := diagnose(collect.Files(again)); text(t, own) != text(t, got) {
			t.Errorf("cluster (-) and its bundle (+) differ:\n%s", gocmp.Diff(text(t, got), text(t, own)))
		}
		limit := maxRequests
		if got.Verdict == explain.VerdictHealthy && target.Kind != "CSIDriver" { // a whole driver takes more lists than a claim
			limit = maxRequestsHealthy
		}
		if target.Kind == "VolumeSnapshot" {
			limit += 4 // the snapshot, its content and the events of both stand before its claim
		}
		if slices.Contains(doneWithout(full), snapshots) {
			limit++ // it is asked for in its older version too
		}
		if l.Requests() > limit {
			t.Errorf("%d requests in %d rounds, at most %d: %v", l.Requests(), stats.Rounds, limit, server.Asked())
		}
	})
}

// doneWithout are the kinds that a cluster may do without, where the facts have none of theirs: clusters older than such a kind, and
// those without snapshots, do not serve it, and that is no gap.
func doneWithout(facts *snapshot.Snapshot) (resources []string) {
	for _, k := range snapshot.Kinds {
		if (k.Resource == vac || k.Group.Group == "snapshot.storage.k8s.io") && len(facts.All(k.Group)) == 0 {
			resources = append(resources, k.Resource)
		}
	}
	return resources
}

func text(t *testing.T, d any) string {
	raw, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func inRole(q snapshot.Query) bool {
	verb := "list"
	if q.Name != "" {
		verb = "get"
	}
	return slices.ContainsFunc(explain.Inputs, func(in explain.Input) bool { return in.Resource == q.Resource && slices.Contains(in.Verbs, verb) })
}

// The objects of all cases come over the wire as they are in the files, whatever form they travel in.
func TestObjectsOverTheWire(t *testing.T) {
	all := snapshot.New()
	for _, dir := range caseFolders(t) {
		s, _, _ := loadCase(t, dir)
		for _, gk := range s.GroupKinds() {
			for _, o := range s.All(gk) {
				all.Add(o)
			}
		}
	}
	l := live(t, apitest.Start(t, all, apitest.Options{Uncached: true}))
	seen := 0
	for _, k := range snapshot.Kinds {
		if k.Group.Group == "csidoctor.dev" {
			continue
		}
		q := snapshot.Query{Resource: k.Resource}
		a := l.Fetch(t.Context(), q)
		if a.Gap != nil {
			t.Errorf("%s: %+v", q, a.Gap)
		}
		seen += len(a.Objects)
		want := all.Select(q)
		for i, o := range want {
			if set, ok := o.(*appsv1.StatefulSet); ok { // protobuf has no place for the kind of an object inside another,
				set = set.DeepCopy()
				for j := range set.Spec.VolumeClaimTemplates {
					set.Spec.VolumeClaimTemplates[j].TypeMeta = metav1.TypeMeta{}
				}
				want[i] = set
			}
		}
		if !equality.Semantic.DeepEqual(want, a.Objects) { // nor for an empty list
			t.Errorf("%s: files (-) and wire (+) differ:\n%s", q, gocmp.Diff(want, a.Objects, cmpopts.EquateEmpty()))
		}
	}
	t.Log(seen, "objects")
}

// caseFolders are those of testdata/cases, and every fourth of the others: they differ in what explain makes of them, which its own
// tests ask of all, and a server for each takes its time.
func caseFolders(t *testing.T) (dirs []string) {
	for folder, step := range map[string]int{"cases": 1, "more": 4} {
		files, err := filepath.Glob("../../testdata/" + folder + "/*/case.json")
		if err != nil || len(files) == 0 {
			t.Fatal("no cases:", err)
		}
		for i := 0; i < len(files); i += step {
			dirs = append(dirs, filepath.Dir(files[i]))
		}
	}
	return dirs
}

// eachCase runs a test of its own for the folder of each of these, side by side.
func eachCase(t *testing.T, test func(t *testing.T, dir string)) {
	for _, dir := range caseFolders(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			test(t, dir)
		})
	}
}

func loadCase(t *testing.T, dir string) (*snapshot.Snapshot, explain.Target, time.Time) {
	t.Helper()
	var c struct {
		Args []string
		At   time.Time
	}
	raw, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	s, report, err := bundle.Read(dir, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Fatal(err, report.Problems)
	}
	all := s
	s = snapshot.New()
	s.TakenAt, s.Server, s.Read, s.Gaps, s.Recorded = all.TakenAt, all.Server, all.Read, all.Gaps, all.Recorded
	s.TakenAt = s.TakenAt.Truncate(time.Second) // a Date header has whole seconds
	for _, gk := range all.GroupKinds() {
		for _, o := range all.All(gk) {
			if gk.Kind != "NodeReport" && gk.Kind != "LogExcerpt" { // a cluster has none
				s.Add(o)
			}
		}
	}
	kinds := map[string]string{"pvc": "PersistentVolumeClaim", "pod": "Pod", "pv": "PersistentVolume", "node": "Node", "snapshot": "VolumeSnapshot", "driver": "CSIDriver"}
	target := explain.Target{Kind: kinds[c.Args[0]], Name: c.Args[1]}
	if i := slices.Index(c.Args, "-n"); i > 0 {
		target.Namespace = c.Args[i+1]
	}
	return s, target, c.At
}
