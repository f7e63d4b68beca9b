package collect_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// answer is what a source says of one target, as a script reads it.
func answer(t *testing.T, src collect.Source, target explain.Target, at time.Time) string {
	t.Helper()
	o := explain.Options{Now: at}
	s, _, err := collect.Walk(t.Context(), src, nil, func(s *snapshot.Snapshot) explain.Wanted {
		_, w := explain.Explain(s, target, o)
		return w
	})
	if err != nil {
		t.Fatal(target, err)
	}
	d, _ := explain.Explain(s, target, o)
	return text(t, d)
}

// scanned is what a scan of a source says.
func scanned(t *testing.T, src collect.Source, namespace string, at time.Time) string {
	t.Helper()
	o := explain.Options{Now: at}
	s, _, err := collect.Walk(t.Context(), src, nil, func(s *snapshot.Snapshot) explain.Wanted {
		_, w := explain.Scan(s, namespace, o)
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := explain.Scan(s, namespace, o)
	return text(t, l)
}

// bundled reads all of a namespace, or of the cluster, and gives what is read back from its bundle.
func bundled(t *testing.T, src collect.Source, namespace string, at time.Time) (*snapshot.Snapshot, []explain.Target) {
	t.Helper()
	s, _, err := collect.Walk(t.Context(), collect.Within(src, namespace), collect.Lists(namespace), collect.Many(namespace, explain.Options{Now: at}))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := bundle.Write(&file, s); err != nil {
		t.Fatal(err)
	}
	again, report, err := bundle.Read("-", &file)
	if err != nil || len(report.Problems) > 0 {
		t.Fatal(err, report.Problems)
	}
	return again, collect.Targets(s, namespace)
}

// The bundle of a cluster answers as the cluster does, byte for byte: every case about its target, the demo's and one large
// case about everything.
func TestBundleOfAllAnswersAsTheCluster(t *testing.T) {
	eachCase(t, func(t *testing.T, dir string) {
		full, target, at := loadCase(t, dir)
		live := collect.Keep(served(t, full)) // so that one reading serves all comparisons
		namespace := ""
		if apitest.AsRecorded(full)(snapshot.Query{Resource: "persistentvolumeclaims"}) != "" {
			namespace = target.Namespace // whoever asked may see no other
		}
		all, targets := bundled(t, live, namespace, at)
		if len(targets) > 60 || filepath.Base(dir)[0] > 'a' { // about everything in some
			targets = nil
		}
		if want, got := scanned(t, live, namespace, at), scanned(t, collect.Files(all), namespace, at); want != got {
			t.Errorf("scan: cluster (-) and its bundle (+) differ:\n%s", gocmp.Diff(want, got))
		}
		for _, target := range append(targets, target) {
			if want, got := answer(t, live, target, at), answer(t, collect.Files(all), target, at); want != got {
				t.Errorf("%v: cluster (-) and its bundle (+) differ:\n%s", target, gocmp.Diff(want, got))
			}
		}
	})
}

// The bundle of a namespace answers as the cluster does about what is in the namespace, and about its volumes and nodes; it has
// no list of another one's claims or pods.
func TestBundleOfANamespace(t *testing.T) {
	full, _, err := bundle.Read("../../cmd/csidoctor/demo.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "secret-plan"}}
	other.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	full.Add(other)
	live := served(t, full)
	shop, targets := bundled(t, live, "shop", full.TakenAt)
	if nodes := collect.Suspects(shop, "shop", explain.Options{Now: full.TakenAt}); len(nodes) == 0 || nodes[0] != "node-1" {
		t.Errorf("node-1 is not Ready and holds a volume; looked at would be %q", nodes)
	}
	kinds := map[string]int{}
	for _, target := range targets {
		kinds[target.Kind]++
		if target.Kind == "CSIDriver" {
			continue // asks for all claims
		}
		if want, got := answer(t, live, target, full.TakenAt), answer(t, collect.Files(shop), target, full.TakenAt); want != got {
			t.Errorf("%v: cluster (-) and bundle (+) differ:\n%s", target, gocmp.Diff(want, got))
		}
	}
	if len(kinds) < 5 {
		t.Errorf("asked about %v", kinds)
	}
	if o := shop.Get("persistentvolumeclaims", "other", "secret-plan"); o != nil {
		t.Error("another namespace's claim is in it")
	}
	for _, resource := range []string{"persistentvolumeclaims", "pods", "events", "volumesnapshots.snapshot.storage.k8s.io"} {
		g := shop.GapOf(snapshot.Query{Resource: resource})
		if g == nil || g.Reason != "not-collected" || g.Detail != "only what belongs to namespace shop was collected" {
			t.Errorf("%s: %+v", resource, g)
		}
	}
	if !shop.Covers(snapshot.Query{Resource: "pods", Fields: "spec.nodeName=node-2"}) || !shop.Covers(snapshot.Query{Resource: "pods", Namespace: "kube-system"}) {
		t.Errorf("the driver's pods are not in it: %v", shop.Read)
	}
}

func served(t *testing.T, full *snapshot.Snapshot) *collect.Live {
	t.Helper()
	server := apitest.Start(t, full, apitest.Options{Now: full.TakenAt, Forbid: apitest.AsRecorded(full)})
	live, err := collect.NewLive(server.Getter(t), collect.LiveOptions{Redact: bundle.Redact})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// Everything that the table says can be listed is listed, and nothing else.
func TestLists(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		lists := collect.Lists(namespace)
		for _, in := range explain.Inputs {
			i := slices.IndexFunc(lists, func(q snapshot.Query) bool {
				return q.Resource == in.Resource && (q.Namespace == namespace || !tenant(q))
			})
			if (i >= 0) != slices.Contains(in.Verbs, "list") {
				t.Errorf("%q: %s", namespace, in.Resource)
			}
			k := snapshot.ResourceOf(in.Resource)
			if i >= 0 && (lists[i].Namespace == namespace) != (namespace == "" || k != nil && k.Namespaced) {
				t.Errorf("%q: %s", namespace, lists[i])
			}
		}
	}
}

// tenant: a namespace has its own, so that the whole list is another one.
func tenant(q snapshot.Query) bool {
	return slices.Contains([]string{"persistentvolumeclaims", "pods", "events", "volumesnapshots.snapshot.storage.k8s.io"}, q.Resource)
}

// Where one question for each target would be a flood, the list is asked for.
func TestManyIsNoFlood(t *testing.T) {
	full := snapshot.New()
	full.TakenAt, full.Recorded = taken, true
	class := "fast"
	for i := range 300 {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("data-", i), UID: "u", CreationTimestamp: metav1.NewTime(taken.Add(-time.Hour))},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
		c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		full.Add(c)
	}
	server := apitest.Start(t, full, apitest.Options{Now: taken, Forbid: func(q snapshot.Query) string {
		if q.Resource == "events" && q.Namespace == "" {
			return "events is forbidden: not of all namespaces"
		}
		return ""
	}})
	s, targets := bundled(t, live(t, server), "", taken)
	if len(targets) != 300 || !s.Covers(snapshot.Query{Resource: "events", Namespace: "shop"}) {
		t.Errorf("%d targets, read %v", len(targets), s.Read)
	}
	if n := len(server.Asked()); n > 40 {
		t.Errorf("%d requests: %v", n, server.Asked())
	}
}
