package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// index finds the objects of one kind without walking all. It is made when first asked after an object was added: a Snapshot
// of ten thousand claims is asked about each of them.
type index struct {
	all        []Object // sorted by namespace and name, as every list below
	by         map[indexKey][]Object
	namespaces int // with an object; 1 for a kind without namespaces
}

type indexKey struct{ field, value string }

// indexed are the field selectors that narrow most.
var indexed = map[string]bool{"metadata.name": true, "spec.nodeName": true, "involvedObject.name": true}

func (s *Snapshot) index(gk schema.GroupKind) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ix := s.indices[gk]; ix != nil {
		return ix
	}
	ix := &index{all: s.All(gk), by: map[indexKey][]Object{}}
	for _, o := range ix.all {
		put := func(field, value string) {
			key := indexKey{field, value}
			ix.by[key] = append(ix.by[key], o)
		}
		put("namespace", o.GetNamespace())
		for field, value := range fieldsOf(o) {
			if indexed[field] {
				put(field, value)
			}
		}
	}
	for key := range ix.by {
		if key.field == "namespace" {
			ix.namespaces++
		}
	}
	if s.indices == nil {
		s.indices = map[schema.GroupKind]*index{}
	}
	s.indices[gk] = ix
	return ix
}

// candidates are all that a query could match, and as few others as the index can tell apart.
func (ix *index) candidates(q Query) []Object {
	if q.Name != "" {
		return ix.by[indexKey{"metadata.name", q.Name}]
	}
	for requirement := range strings.SplitSeq(q.Fields, ",") {
		if field, value, ok := strings.Cut(requirement, "="); ok && indexed[field] {
			return ix.by[indexKey{field, value}]
		}
	}
	if q.Namespace != "" {
		return ix.by[indexKey{"namespace", q.Namespace}]
	}
	return ix.all
}

// asked finds among what was read, or among gaps, the queries that matter for one: its own, the lists of its resource, and logs.
type asked struct {
	exact map[Query]int
	lists map[string][]int // by resource: those that may answer others too
	n     int
}

func (a *asked) add(q Query, i int) {
	if a.exact == nil {
		a.exact, a.lists = map[Query]int{}, map[string][]int{}
	}
	a.exact[q] = i
	if q.normal().Name == "" || q.Lines != "" { // one reading of a log may be for the words of several questions
		a.lists[q.Resource] = append(a.lists[q.Resource], i)
	}
}

// Reindex is called by whoever takes something out of Read or Gaps, or puts it in another order; adding at the end needs none.
func (s *Snapshot) Reindex() { s.read, s.gaps = asked{}, asked{} }

// Memo keeps what is worked out from all objects of a Snapshot until another one is added. It is not for several goroutines.
func Memo[T any](s *Snapshot, key string, build func() T) T {
	if have, ok := s.memo[key]; ok {
		return have.(T)
	}
	t := build()
	if s.memo == nil {
		s.memo = map[string]any{}
	}
	s.memo[key] = t
	return t
}
