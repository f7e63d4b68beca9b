package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Nodes are those whose reports the answer looks at where there are any: the consumers' nodes, and those that may hold the
// volume still. By name.
func (d Diagnosis) Nodes() []string {
	var out []string
	for _, q := range d.Used {
		if q.Resource == inReports.Resource && q.Name != "" {
			out = append(out, q.Name)
		}
	}
	return out
}

// Report is the query for a node's report.
func Report(node string) snapshot.Query {
	return snapshot.Query{Resource: inReports.Resource, Name: node}
}

// Nodes are those whose reports the answers look at that say that something is wrong, first those to which most do.
func (l List) Nodes() []string {
	return MostNamed(slices.DeleteFunc(slices.Clone(l.Items), func(d Diagnosis) bool { return d.Verdict == VerdictWaiting }))
}

// MostNamed are the nodes that matter to these answers, first those that do to most.
func MostNamed(answers []Diagnosis) []string {
	votes := map[string]int{}
	for _, d := range answers {
		for _, n := range d.Nodes() {
			votes[n]++
		}
	}
	out := slices.Collect(maps.Keys(votes))
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(votes[b]-votes[a], strings.Compare(a, b)) })
	return out
}

// NoteGap adds what was tried for this answer and could not be seen, unless the answer has that gap already.
func (d *Diagnosis) NoteGap(g Gap) { d.Gaps = noted(d.Gaps, g) }

// NoteGap is the same for a list.
func (l *List) NoteGap(g Gap) { l.Gaps = noted(l.Gaps, g) }

func noted(gaps []Gap, g Gap) []Gap {
	g.Detail, g.Remedy = clean(g.Detail), clean(g.Remedy)
	if slices.ContainsFunc(gaps, g.sameInput) {
		return gaps
	}
	return append(gaps, g)
}

// sameInput: both are about the same input, and the same object of it.
func (g Gap) sameInput(h Gap) bool {
	return h.Input == g.Input && (h.Object == nil) == (g.Object == nil) && (h.Object == nil || *h.Object == *g.Object)
}
