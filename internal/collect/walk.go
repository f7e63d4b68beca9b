// Package collect fills a Snapshot: it asks a source (a cluster, or an input that was read from files) the queries that an
// answer wants, until nothing more is wanted. It knows how a query is put to the API and why one failed. It only ever gets
// and lists; it never asks for Secrets, and it draws no conclusion from what it reads.
package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	maxRounds = 6 // the longest chain of objects: pod, claim, volume, attachment, the node that holds it, what runs there
	// A link of 100 ms answers 16 at once in the time of one, and the server's fairness rules see no flood.
	maxParallel = 16
)

// Source answers queries: a cluster or the input of a file. It is asked from several goroutines at once.
type Source interface {
	Fetch(context.Context, snapshot.Query) Answer
	// Version of the API server; empty when it is not known.
	Version(context.Context) string
	// Clock is the API server's time when the reading began, with notes about it. It is asked after the first answers.
	Clock() (takenAt time.Time, notes []string)
}

// Answer to one query. Without a Gap it is complete: there are no other objects. With one, Objects may still hold some.
type Answer struct {
	Objects []snapshot.Object
	Gap     *snapshot.Gap
	// Silent: the gap is not the server's decision about this query, it did not answer at all.
	Silent bool
}

// Stats of a walk.
type Stats struct {
	Rounds  int
	Queries int
	Notes   []string // about the clock
}

// Walk asks the first queries side by side, then whatever ask still wants of the Snapshot so far, for at most six rounds.
// What cannot be read is a gap in the Snapshot; only a source that answers nothing at all, or an interrupt, is an error.
// The result does not depend on the order in which answers come.
func Walk(ctx context.Context, src Source, first []snapshot.Query, ask func(*snapshot.Snapshot) explain.Wanted) (*snapshot.Snapshot, Stats, error) {
	w := walk{src: src, s: snapshot.New()}
	w.s.Recorded = true
	version := make(chan string, 1)
	go func() {
		ctx, cancel := half(ctx)
		defer cancel()
		version <- src.Version(ctx)
	}()

	want := w.open(first)
	if len(want) == 0 {
		want = w.open(ask(w.s))
	}
	for ; len(want) > 0 && w.stats.Rounds < maxRounds; want = w.open(ask(w.s)) {
		w.stats.Rounds++
		w.round(ctx, want)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, w.stats, fmt.Errorf("reading was interrupted: %w", ctx.Err())
		}
		if w.stats.Rounds > 1 {
			continue
		}
		if !w.answered {
			return nil, w.stats, fmt.Errorf("%s; %s", w.s.Gaps[0].Detail, w.s.Gaps[0].Remedy)
		}
		w.s.Server = <-version
		w.s.TakenAt, w.stats.Notes = src.Clock()
	}
	for _, q := range want {
		if q.Resource == logExcerpts {
			continue // a bonus, asked for last
		}
		w.gap(q, snapshot.Gap{Reason: "truncated", Detail: fmt.Sprintf("still wanted after %d rounds of questions", maxRounds), Remedy: "look at it with `" + kubectlGet(q) + "`"})
	}
	w.s.Gaps = slices.DeleteFunc(w.s.Gaps, func(g snapshot.Gap) bool { return w.s.Covers(*g.Query) })
	slices.SortFunc(w.s.Read, snapshot.Query.Compare)
	slices.SortFunc(w.s.Gaps, func(a, b snapshot.Gap) int { return a.Query.Compare(*b.Query) })
	w.s.Reindex()
	return w.s, w.stats, nil
}

type walk struct {
	src      Source
	s        *snapshot.Snapshot
	stats    Stats
	answered bool // the source said something, be it a refusal
}

// open gives the wanted queries that are neither answered nor gaps, each once, in a fixed order. A gap of a wider query does
// not count: who may not list a kind may still get one object of it.
func (w *walk) open(want []snapshot.Query) []snapshot.Query {
	want = slices.Clone(want)
	slices.SortFunc(want, snapshot.Query.Compare)
	return joined(slices.DeleteFunc(slices.Compact(want), func(q snapshot.Query) bool { return w.s.Covers(q) || w.s.Tried(q) }))
}

// joined asks for a pod's log once, for the words of all questions about it. The queries are in order.
func joined(want []snapshot.Query) []snapshot.Query {
	out := want[:0]
	for _, q := range want {
		if n := len(out); q.Lines != "" && n > 0 && out[n-1].Resource == q.Resource && out[n-1].Namespace == q.Namespace && out[n-1].Name == q.Name {
			words := strings.Split(out[n-1].Lines+","+q.Lines, ",")
			slices.Sort(words)
			out[n-1].Lines = strings.Join(slices.Compact(words), ",")
			continue
		}
		out = append(out, q)
	}
	return out
}

// round asks the widest queries first. Those that they include need no request, unless the wide one failed.
func (w *walk) round(ctx context.Context, want []snapshot.Query) {
	for len(want) > 0 {
		of := map[string][]snapshot.Query{} // by resource
		for _, q := range want {
			of[q.Resource] = append(of[q.Resource], q)
		}
		var wide, narrow []snapshot.Query
		for _, q := range want {
			included := slices.ContainsFunc(of[q.Resource], func(p snapshot.Query) bool {
				// Of two that include each other (a get and its list by name) the first stays.
				return p != q && p.Includes(q) && (!q.Includes(p) || p.Compare(q) < 0)
			})
			if included {
				narrow = append(narrow, q)
			} else {
				wide = append(wide, q)
			}
		}
		w.fetch(ctx, wide)
		want = w.open(narrow)
	}
}

// fetch asks side by side and takes the answers in the order of the queries.
func (w *walk) fetch(ctx context.Context, queries []snapshot.Query) {
	ctx, cancel := half(ctx)
	defer cancel()
	answers := make([]Answer, len(queries))
	slots := make(chan struct{}, maxParallel)
	var group sync.WaitGroup
	for i, q := range queries {
		if why := refused(q); why != "" {
			answers[i] = Answer{Gap: &snapshot.Gap{Reason: "failed", Detail: why}, Silent: true}
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			answers[i] = w.src.Fetch(ctx, q)
		})
	}
	group.Wait()

	w.stats.Queries += len(queries)
	for i, a := range answers {
		for _, o := range a.Objects {
			w.s.Add(o)
		}
		w.answered = w.answered || !a.Silent
		if a.Gap != nil {
			w.gap(queries[i], *a.Gap)
		} else {
			w.s.Read = append(w.s.Read, queries[i])
		}
	}
}

// half gives what is asked side by side half of the time that is left: one query that hangs (on a webhook that converts
// custom objects, say) must leave time for what comes after it.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// refused says why a query is never put to a source.
func refused(q snapshot.Query) string {
	k := snapshot.ResourceOf(q.Resource)
	switch {
	case q.Resource == "secrets":
		return "Secrets are never read"
	case k != nil && k.Namespaced && q.Name != "" && q.Namespace == "":
		return fmt.Sprintf("%s has no namespace to look in", q) // an object that is referred to without one
	}
	return ""
}

func (w *walk) gap(q snapshot.Query, g snapshot.Gap) {
	g.Query, g.Input = &q, cmp.Or(g.Input, q.Resource)
	w.s.Gaps = append(w.s.Gaps, g)
}
