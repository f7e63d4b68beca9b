package explain_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// scan asks for all that is not well in a cluster of which everything that is in full can be read. What a Scanner says at last, which
// saw the Snapshot grow, is what one says that sees it whole.
func scan(t testing.TB, full *snapshot.Snapshot, namespace string, o explain.Options) (l explain.List) {
	t.Helper()
	scanner := explain.NewScanner(namespace, o)
	var last *snapshot.Snapshot
	ask(t, full, nil, func(s *snapshot.Snapshot) (wanted explain.Wanted) {
		l, wanted = scanner.Scan(s)
		last = s
		return wanted
	})
	whole, _ := explain.Scan(last, namespace, o)
	if diff := cmp.Diff(whole, l, cmpopts.IgnoreUnexported(explain.Diagnosis{}, explain.Hop{})); diff != "" {
		t.Errorf("scanned at once (-) and while it grew (+):\n%s", diff)
	}
	return l
}

// TestScanSaysTheSame: a scan says of each case's object what the question about it alone is answered with. The answer about a
// claim may stand for its pods, volume and snapshots, and that of a pod for its claims that do not exist.
func TestScanSaysTheSame(t *testing.T) {
	for _, c := range loadCases(t) {
		target := c.target()
		if left := target.Kind == "Node" && slices.Contains([]explain.HopName{explain.HopUnpublish, explain.HopUnstage, explain.HopDetach}, c.Want.Hop); !left && (target.Kind == "Node" || target.Kind == "CSIDriver") {
			continue // how a node or driver does is not asked, but for what is left on a node
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			full := c.load(t)
			want := walk(t, full, target, c.At, nil)
			l := scan(t, full, "", explain.Options{Now: c.At})
			exists := target.Kind == "PersistentVolumeClaim" && full.Get("persistentvolumeclaims", target.Namespace, target.Name) != nil
			about := slices.DeleteFunc(slices.Clone(l.Items), func(d explain.Diagnosis) bool {
				return d.Target != target && (exists || target.Kind != "Node" && !shareClaim(d, want) || target.Kind == "Pod" && !touches(d, target))
			})
			if len(about) == 0 {
				about = []explain.Diagnosis{{Verdict: explain.VerdictHealthy}}
			}
			if !slices.ContainsFunc(about, func(d explain.Diagnosis) bool { return sameFault(d, want) }) {
				t.Errorf("%s %v, asked alone %s %v\n%s", about[0].Verdict, about[0].Cause, want.Verdict, want.Cause, want.Summary)
			}
			checkGroups(t, l)
		})
	}
}

// checkGroups: every item is in one group, and each says what to do next.
func checkGroups(t *testing.T, l explain.List) {
	total := 0
	for _, g := range l.Groups {
		total += g.Count
		if g.Title == "" || g.Command == "" || len(g.Targets) == 0 || len(g.Targets) > g.Count {
			t.Errorf("half a group: %+v", g)
		}
	}
	if total != len(l.Items) {
		t.Errorf("the groups have %d items of %d", total, len(l.Items))
	}
}

// touches: the pod is in the way of the answer, not only another pod of the same claim.
func touches(d explain.Diagnosis, pod explain.Target) bool {
	return slices.ContainsFunc(d.Chains, func(c explain.Chain) bool {
		return c.Pod == nil || c.Pod.Name == pod.Name && slices.ContainsFunc(c.Hops, func(h explain.Hop) bool {
			return h.Status != explain.StatusOK && h.Status != explain.StatusSkipped
		})
	})
}

func shareClaim(a, b explain.Diagnosis) bool {
	return slices.ContainsFunc(a.Chains, func(c explain.Chain) bool {
		return c.Claim != nil && slices.ContainsFunc(b.Chains, func(d explain.Chain) bool { return d.Claim != nil && *d.Claim == *c.Claim })
	})
}

func sameFault(a, b explain.Diagnosis) bool {
	id := func(d explain.Diagnosis) string {
		if d.Cause == nil || d.Verdict == explain.VerdictHealthy { // idle or retained: a scan does not list it
			return ""
		}
		return d.Cause.ID
	}
	return a.Verdict == b.Verdict && id(a) == id(b)
}
