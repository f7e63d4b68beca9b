package explain

import (
	"slices"

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

// NoteGap adds what was tried for this answer and could not be seen, unless the answer has that gap already.
func (d *Diagnosis) NoteGap(g Gap) {
	g.Detail, g.Remedy = clean(g.Detail), clean(g.Remedy)
	if !slices.ContainsFunc(d.Gaps, g.sameInput) {
		d.Gaps = append(d.Gaps, g)
	}
}

// sameInput: both are about the same input, and the same object of it.
func (g Gap) sameInput(h Gap) bool {
	return h.Input == g.Input && (h.Object == nil) == (g.Object == nil) && (h.Object == nil || *h.Object == *g.Object)
}
