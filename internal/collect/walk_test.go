package collect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

var taken = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// source answers from a table and remembers what it was asked.
type source struct {
	answer func(context.Context, snapshot.Query) collect.Answer
	mu     sync.Mutex
	asked  []string
}

func (s *source) Fetch(ctx context.Context, q snapshot.Query) collect.Answer {
	s.mu.Lock()
	s.asked = append(s.asked, q.String())
	s.mu.Unlock()
	return s.answer(ctx, q)
}
func (*source) Version(context.Context) string   { return "v1.33.4" }
func (*source) Clock() (time.Time, []string)     { return taken, nil }
func nothing(*snapshot.Snapshot) explain.Wanted  { return nil }
func pods(namespace, name string) snapshot.Query { return query("pods", namespace, name) }
func query(resource, ns, name string) snapshot.Query {
	return snapshot.Query{Resource: resource, Namespace: ns, Name: name}
}

func pod(namespace, name, version string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version, Labels: map[string]string{"app": name}}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return p
}

// dump is all of a Snapshot in one comparable text.
func dump(s *snapshot.Snapshot) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.TakenAt, s.Server, s.Recorded)
	for _, q := range s.Read {
		fmt.Fprintln(&b, "read", q)
	}
	for _, g := range s.Gaps {
		fmt.Fprintln(&b, "gap", *g.Query, g.Input, g.Reason, g.Detail, "|", g.Remedy)
	}
	for _, gk := range s.GroupKinds() {
		for _, o := range s.All(gk) {
			fmt.Fprintln(&b, gk.Kind, o.GetNamespace(), o.GetName(), o.GetResourceVersion())
		}
	}
	return b.String()
}

func TestWalkAsksUntilNothingIsWanted(t *testing.T) {
	src := &source{answer: func(_ context.Context, q snapshot.Query) collect.Answer {
		if q.Namespace == "kube-system" {
			return collect.Answer{Gap: &snapshot.Gap{Reason: "forbidden", Detail: "no"}}
		}
		return collect.Answer{Objects: []snapshot.Object{pod(q.Namespace, "a", "7")}}
	}}
	ask := func(s *snapshot.Snapshot) explain.Wanted {
		if s.TakenAt != taken || s.Server != "v1.33.4" {
			t.Error("asked before the clock and the version were known")
		}
		return explain.Wanted{pods("shop", ""), pods("kube-system", ""), pods("shop", "a")} // the third is included, none is asked twice
	}
	s, stats, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("shop", "")}, ask)
	if err != nil {
		t.Fatal(err)
	}
	if want := "2026-03-01 12:00:00 +0000 UTC v1.33.4 true\nread pods in shop\ngap pods in kube-system pods forbidden no | \nPod shop a 7\n"; dump(s) != want {
		t.Error(cmp.Diff(want, dump(s)))
	}
	if stats.Rounds != 2 || stats.Queries != 2 {
		t.Errorf("%+v", stats)
	}
}

func TestWalkEndsAfterSixRounds(t *testing.T) {
	src := &source{answer: func(context.Context, snapshot.Query) collect.Answer { return collect.Answer{} }}
	n := 0
	s, stats, err := collect.Walk(t.Context(), src, nil, func(*snapshot.Snapshot) explain.Wanted {
		n++
		return explain.Wanted{pods("shop", fmt.Sprint("pod-", n))}
	})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Rounds != 6 || len(s.Read) != 6 || len(s.Gaps) != 1 || s.Gaps[0].Reason != "truncated" || s.Gaps[0].Query.Name != "pod-7" {
		t.Errorf("%+v\n%s", stats, dump(s))
	}
}

func TestWalkAsksTheNarrowWhereTheWideIsRefused(t *testing.T) {
	src := &source{answer: func(_ context.Context, q snapshot.Query) collect.Answer {
		if q.Namespace == "" {
			return collect.Answer{Gap: &snapshot.Gap{Reason: "forbidden"}}
		}
		return collect.Answer{}
	}}
	s, stats, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("shop", "a"), pods("", ""), pods("shop", "")}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pods", "pods in shop"}, src.asked); diff != "" || stats.Rounds != 1 {
		t.Error(stats, diff)
	}
	if !s.Covers(pods("shop", "a")) || s.Covers(pods("", "")) || len(s.Gaps) != 1 {
		t.Error(dump(s))
	}
}

func TestWalkOfASilentSource(t *testing.T) {
	silent := collect.Answer{Silent: true, Gap: &snapshot.Gap{Reason: "failed", Detail: "no answer from x", Remedy: "plug it in"}}
	src := &source{answer: func(_ context.Context, q snapshot.Query) collect.Answer {
		if q.Name == "a" {
			return collect.Answer{}
		}
		return silent
	}}
	_, _, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("shop", "")}, nothing)
	if err == nil || err.Error() != "no answer from x; plug it in" {
		t.Error(err)
	}
	s, _, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("shop", "b"), pods("shop", "a")}, nothing)
	if err != nil || len(s.Gaps) != 1 {
		t.Error("one silence is a gap once anything was read:", err)
	}
}

func TestWalkInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	src := &source{answer: func(context.Context, snapshot.Query) collect.Answer { cancel(); return collect.Answer{} }}
	if _, _, err := collect.Walk(ctx, src, []snapshot.Query{pods("shop", "")}, nothing); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOneHangingQueryLeavesTimeForTheRest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	src := &source{answer: func(ctx context.Context, q snapshot.Query) collect.Answer {
		if q.Name == "hangs" {
			<-ctx.Done()
			return collect.Answer{Silent: true, Gap: &snapshot.Gap{Reason: "timeout"}}
		}
		return collect.Answer{}
	}}
	s, _, err := collect.Walk(ctx, src, []snapshot.Query{pods("shop", "hangs"), pods("shop", "a")}, func(*snapshot.Snapshot) explain.Wanted {
		return explain.Wanted{pods("shop", "b")}
	})
	if err != nil || len(s.Read) != 2 || len(s.Gaps) != 1 || ctx.Err() != nil {
		t.Error(err, ctx.Err(), dump(s))
	}
}

func TestNeverAsked(t *testing.T) {
	src := &source{answer: func(context.Context, snapshot.Query) collect.Answer { return collect.Answer{} }}
	s, _, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("shop", "a"), query("secrets", "shop", "key"), pods("", "no-namespace")}, nothing)
	if err != nil || len(src.asked) != 1 || len(s.Gaps) != 2 {
		t.Error(err, src.asked, dump(s))
	}
}

func TestOrderOfAnswersDoesNotMatter(t *testing.T) {
	run := func() string {
		src := &source{answer: func(_ context.Context, q snapshot.Query) collect.Answer {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			if q.Namespace == "ns-3" {
				return collect.Answer{Gap: &snapshot.Gap{Reason: "forbidden"}, Objects: []snapshot.Object{pod("ns-3", "seen", "1")}}
			}
			// A list from the cache and a get see the same pod at two moments.
			return collect.Answer{Objects: []snapshot.Object{pod(q.Namespace, "a", "9"), pod("shared", "b", fmt.Sprint(10+len(q.Fields)))}}
		}}
		var first []snapshot.Query
		for i := range 8 {
			first = append(first, pods(fmt.Sprint("ns-", i), ""))
		}
		s, _, err := collect.Walk(t.Context(), src, first, func(*snapshot.Snapshot) explain.Wanted {
			var w explain.Wanted
			for i := range 8 {
				w = append(w, snapshot.Query{Resource: "pods", Namespace: "more", Fields: fmt.Sprint("spec.nodeName=node-", i)})
			}
			rand.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
			return w
		})
		if err != nil {
			t.Fatal(err)
		}
		return dump(s)
	}
	want := run()
	for range 20 {
		if got := run(); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}

func TestFiles(t *testing.T) {
	full := snapshot.New()
	full.Recorded, full.TakenAt, full.Server = true, taken, "v1.30.1"
	full.Read = []snapshot.Query{pods("shop", "")}
	full.Add(pod("shop", "a", "1"))
	full.Add(pod("other", "b", "1"))
	full.Gaps = []snapshot.Gap{{Input: "nodes", Reason: "forbidden", Detail: "nodes is forbidden"}}
	report := &snapshot.NodeReport{}
	report.Name = "node-1"
	report.TypeMeta = metav1.TypeMeta{APIVersion: "csidoctor.dev/v1alpha1", Kind: "NodeReport"}
	full.Add(report)

	src := collect.Files(full)
	for _, c := range []struct {
		q             snapshot.Query
		objects       int
		reason, input string
		remedy        string
	}{
		{q: pods("shop", ""), objects: 1},
		{q: pods("shop", "none")},
		{q: pods("other", "b"), objects: 1},
		{q: pods("other", ""), objects: 1, reason: "not-collected", remedy: "kubectl get pods -n other -o yaml"},
		{q: pods("", ""), objects: 2, reason: "not-collected", remedy: "kubectl get pods -A -o yaml"},
		{q: query("nodes", "", "node-1"), reason: "forbidden", input: "nodes", remedy: "kubectl auth can-i get nodes"},
		{q: query("nodereports.csidoctor.dev", "", "node-1"), objects: 1},
		{q: query("nodereports.csidoctor.dev", "", "node-2"), reason: "not-probed", input: "node-report", remedy: "node-2"},
		{q: query("csinodes.storage.k8s.io", "", "node-1"), reason: "not-collected", remedy: "kubectl get csinodes.storage.k8s.io -o yaml"},
	} {
		a := src.Fetch(t.Context(), c.q)
		if len(a.Objects) != c.objects || (a.Gap == nil) != (c.reason == "") {
			t.Errorf("%s: %d objects, gap %+v", c.q, len(a.Objects), a.Gap)
			continue
		}
		if a.Gap != nil && (a.Gap.Reason != c.reason || a.Gap.Input != c.input || !strings.Contains(a.Gap.Remedy, c.remedy)) {
			t.Errorf("%s: %+v", c.q, a.Gap)
		}
	}
	full.Recorded, full.Read, full.TakenAt = false, nil, time.Time{}
	if a := src.Fetch(t.Context(), query("nodereports.csidoctor.dev", "", "node-2")); a.Gap == nil {
		t.Error("one node's report was taken for all")
	}
	if at, _ := src.Clock(); !at.Equal(full.Newest()) {
		t.Error(at)
	}
}
