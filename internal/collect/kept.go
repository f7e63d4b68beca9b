package collect

import (
	"context"
	"sync"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Kept remembers what a source answered, so that a second walk sees the same facts and asks for no more than what is new.
type Kept struct {
	Source
	mu      sync.Mutex
	answers map[snapshot.Query]Answer
}

// Keep begins to remember.
func Keep(s Source) *Kept { return &Kept{Source: s, answers: map[snapshot.Query]Answer{}} }

// Fetch asks the source what is not known yet. A gap is not kept: the next time may be luckier.
func (k *Kept) Fetch(ctx context.Context, q snapshot.Query) Answer {
	k.mu.Lock()
	a, known := k.answers[q]
	k.mu.Unlock()
	if known {
		return a
	}
	if a = k.Source.Fetch(ctx, q); a.Gap == nil {
		k.Put(q, a)
	}
	return a
}

// Put makes an answer the one that is given from now on.
func (k *Kept) Put(q snapshot.Query, a Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[q] = a
}
