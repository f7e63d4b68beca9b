package collect

import (
	"context"
	"time"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Files answers from an input that was read whole. An answer sees no more of it than the same queries see of a cluster.
func Files(full *snapshot.Snapshot) Source { return files{full} }

type files struct{ full *snapshot.Snapshot }

func (f files) Fetch(_ context.Context, q snapshot.Query) Answer {
	a := Answer{Objects: f.full.Select(q)}
	if !f.complete(q, len(a.Objects)) {
		a.Gap = f.gap(q)
	}
	return a
}

func (f files) Version(context.Context) string { return f.full.Server }

func (f files) Clock() (time.Time, []string) {
	if f.full.TakenAt.IsZero() {
		return f.full.Newest(), nil
	}
	return f.full.TakenAt, nil
}

func (f files) complete(q snapshot.Query, found int) bool {
	k := snapshot.ResourceOf(q.Resource)
	if q.Name != "" && q.Lines == "" && found > 0 && (q.Namespace != "" || k != nil && !k.Namespaced) {
		return true // a get that found its object; an excerpt of a log may be of other words
	}
	if unasked(q) != nil {
		// The report of one node says nothing about another's: only what the input says was read counts.
		return f.full.WasRead(q)
	}
	return f.full.Covers(q)
}

func (f files) gap(q snapshot.Query) *snapshot.Gap {
	own := f.full.GapOf(q)
	if own != nil {
		g := *own
		if g.Remedy == "" {
			g.Remedy = remedy(g.Reason, q)
		}
		return &g
	}
	if g := unasked(q); g != nil {
		return g
	}
	whole := snapshot.Query{Resource: q.Resource, Namespace: q.Namespace}
	return &snapshot.Gap{Reason: "not-collected", Detail: "the input does not have all " + whole.String(), Remedy: "add to it the output of: " + kubectlGet(whole, "-o", "yaml")}
}
