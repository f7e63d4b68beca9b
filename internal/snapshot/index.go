package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// index finds the objects of one kind without walking all. It is made when first asked after an object was added: a Snapshot
// of ten thousand claims is asked about each of them.
type index struct {
	all []Object                       // sorted by namespace and name, as every list below
	by  map[string]map[string][]Object // by a field, then its value; made when first asked for
}

// indexed are the field selectors that narrow most.
var indexed = map[string]bool{"metadata.name": true, "spec.nodeName": true, "involvedObject.name": true, "spec.source.persistentVolumeName": true}

const inNamespace = "metadata.namespace"

// index gives the index of a kind; the lock is the caller's.
func (s *Snapshot) index(gk schema.GroupKind) *index {
	if ix := s.indices[gk]; ix != nil {
		return ix
	}
	if s.indices == nil {
		s.indices = map[schema.GroupKind]*index{}
	}
	s.indices[gk] = &index{all: s.All(gk), by: map[string]map[string][]Object{}}
	return s.indices[gk]
}

// values are the objects by a field.
func (ix *index) values(field string) map[string][]Object {
	have, ok := ix.by[field]
	if ok {
		return have
	}
	have = map[string][]Object{}
	for _, o := range ix.all {
		value := selected{o}.Get(field)
		have[value] = append(have[value], o)
	}
	ix.by[field] = have
	return have
}

// candidates are all of a kind that a query could match, and as few others as the index can tell apart.
func (s *Snapshot) candidates(gk schema.GroupKind, q Query) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	ix := s.index(gk)
	if q.Name != "" && !strings.HasPrefix(q.Resource, "logexcerpts.") {
		return ix.values("metadata.name")[q.Name]
	}
	for requirement := range strings.SplitSeq(q.Fields, ",") {
		if field, value, ok := strings.Cut(requirement, "="); ok && indexed[field] {
			return ix.values(field)[value]
		}
	}
	if q.Namespace != "" {
		return ix.values(inNamespace)[q.Namespace]
	}
	return ix.all
}

// seenIn tells whether there is an object of the kind in the namespace, and in how many namespaces there are any: in one, the
// empty one, for a kind without namespaces.
func (s *Snapshot) seenIn(gk schema.GroupKind, namespace string) (here bool, cluster bool, namespaces int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.index(gk).values(inNamespace)
	return len(by[namespace]) > 0, len(by[""]) > 0, len(by)
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

// Memo keeps what is worked out from all objects of a Snapshot until another one is added. Who asks while it is built waits; build
// may not ask for another.
func Memo[T any](s *Snapshot, key string, build func() T) T {
	s.building.Lock()
	defer s.building.Unlock()
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
