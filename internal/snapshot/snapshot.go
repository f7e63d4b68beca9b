// Package snapshot holds the facts that a diagnosis is made from: Kubernetes objects, node reports, log excerpts, which
// queries were answered in full, and what could not be read. It knows no cluster and no files (collect and bundle fill it),
// draws no conclusions, and never holds a Secret.
package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the facts. The zero value is empty and not usable: see New.
type Snapshot struct {
	TakenAt time.Time // the API server's clock when the input was read
	Server  string    // its version, such as v1.33.4
	Read    []Query   // answered in full: "there is none" may be concluded inside these only
	Gaps    []Gap
	// Recorded: the input says itself what was read (a Collection). Without it see Covers.
	Recorded bool

	objects map[schema.GroupKind]map[types.NamespacedName]Object
	mu      sync.Mutex // of what follows: a Snapshot that is complete is asked from several goroutines at once
	indices map[schema.GroupKind]*index
	read    asked // of Read
	gaps    asked // of Gaps

	building sync.Mutex // of memo
	memo     map[string]any
}

// Gap is an input that could not be read. Reasons: forbidden, failed, not-served, expired, not-probed, truncated,
// unreadable, timeout, not-collected.
type Gap struct {
	Input  string `json:"input"` // the resource, or node-report
	Query  *Query `json:"query,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Collection is the index of a bundle: what was read, and when.
type Collection struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	TakenAt    time.Time `json:"takenAt"`
	Server     Server    `json:"server"`
	Read       []Query   `json:"read"`
	Gaps       []Gap     `json:"gaps"`
}

// Server is the API server that was asked.
type Server struct {
	Version string `json:"version,omitempty"`
}

// New makes an empty Snapshot.
func New() *Snapshot {
	return &Snapshot{objects: map[schema.GroupKind]map[types.NamespacedName]Object{}}
}

// VendorResource is the resource name that the API conventions give a kind that is not in Kinds: cephclusters.ceph.rook.io.
func VendorResource(gk schema.GroupKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
	return plural.GroupResource().String()
}

// Decode turns one JSON object with apiVersion and kind into its typed form where Kinds has it, else an unstructured one.
// An events.k8s.io event becomes the core event that it is another view of. Secrets and lists are the caller's to sort out.
func Decode(raw []byte) (Object, error) {
	head, err := Identify(raw)
	if err != nil {
		return nil, err
	}
	if head.Empty() {
		return nil, errors.New("no Kubernetes object: it has no apiVersion or no kind")
	}
	return DecodeAs(raw, head)
}

// DecodeAs is Decode of an object that has been identified.
func DecodeAs(raw []byte, kind schema.GroupVersionKind) (Object, error) {
	gk := kind.GroupKind()
	if gk == (schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}) {
		var e eventsv1.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Kind, err)
		}
		return coreEvent(&e), nil
	}
	if k := KindOf(gk); k != nil {
		o := k.New()
		if err := json.Unmarshal(raw, o); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Kind, err)
		}
		o.GetObjectKind().SetGroupVersionKind(k.Group.WithVersion(k.Version))
		return o, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	return u, nil
}

// Identify reads apiVersion and kind of a JSON object, and no further than it must: they stand first in nearly every object.
// The fields of what is no Kubernetes object are empty.
func Identify(raw []byte) (schema.GroupVersionKind, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return schema.GroupVersionKind{}, err
	}
	var apiVersion, kind any
	for (apiVersion == nil || kind == nil) && dec.More() {
		key, err := dec.Token()
		if err != nil {
			return schema.GroupVersionKind{}, err
		}
		var skipped json.RawMessage
		into := any(&skipped)
		switch key {
		case "apiVersion":
			into = &apiVersion
		case "kind":
			into = &kind
		}
		if err := dec.Decode(into); err != nil {
			return schema.GroupVersionKind{}, err
		}
	}
	v, _ := apiVersion.(string)
	k, _ := kind.(string)
	gv, err := schema.ParseGroupVersion(v)
	if err != nil || gv.Version == "" || k == "" {
		return schema.GroupVersionKind{}, nil
	}
	return gv.WithKind(k), nil
}

// coreEvent converts as the API server does between its two event APIs (pkg/apis/events/v1/conversion.go).
func coreEvent(e *eventsv1.Event) *corev1.Event {
	c := &corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Message: e.Note,
		Type: e.Type, EventTime: e.EventTime, Action: e.Action, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount}
	if e.Series != nil {
		c.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return c
}

// Add puts an object in. Of two with the same name the one with the newer resourceVersion stays, else the later one; excerpts of
// one log add up.
// Secrets are refused: they are dropped here whoever brings them.
func (s *Snapshot) Add(o Object) {
	gvk := o.GetObjectKind().GroupVersionKind()
	gk := gvk.GroupKind()
	if gk.Kind == "Secret" && gk.Group == "" {
		return
	}
	table := s.objects[gk]
	if table == nil {
		table = map[types.NamespacedName]Object{}
		s.objects[gk] = table
	}
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	old, ok := table[key]
	if ok && newer(old.GetResourceVersion(), o.GetResourceVersion()) {
		return
	}
	if have, ok := old.(*LogExcerpt); ok { // read for other words
		o = have.with(o.(*LogExcerpt))
	}
	table[key] = o
	delete(s.indices, gk)
	s.memo = nil
}

// newer compares resourceVersions of one object, which are ordered numbers (Kubernetes 1.35 made that a promise).
func newer(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

// Get finds one object of a typed resource.
func (s *Snapshot) Get(resource, namespace, name string) Object {
	k := ResourceOf(resource)
	if k == nil {
		return nil
	}
	if o, ok := s.objects[k.Group][types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return o
	}
	return nil
}

// Select gives the objects that a query asks for, sorted by namespace and name.
func (s *Snapshot) Select(q Query) []Object {
	if k := ResourceOf(q.Resource); k != nil && q.isGet() && k.Namespaced == (q.Namespace != "") {
		if o := s.Get(q.Resource, q.Namespace, q.Name); o != nil {
			return []Object{o}
		}
		return nil
	}
	var out []Object
	matches := q.matcher()
	for _, gk := range s.groupKindsOf(q.Resource) {
		for _, o := range s.candidates(gk, q) {
			if matches(o) {
				out = append(out, o)
			}
		}
	}
	return out
}

func sortObjects(out []Object) {
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

// GroupKinds lists every kind that the Snapshot has an object of, the typed ones in the order of Kinds, then the others by name.
func (s *Snapshot) GroupKinds() []schema.GroupKind {
	var typed, others []schema.GroupKind
	for _, k := range Kinds {
		if len(s.objects[k.Group]) > 0 {
			typed = append(typed, k.Group)
		}
	}
	for gk, table := range s.objects {
		if KindOf(gk) == nil && len(table) > 0 {
			others = append(others, gk)
		}
	}
	slices.SortFunc(others, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return append(typed, others...)
}

// All gives the objects of one kind, sorted by namespace and name.
func (s *Snapshot) All(gk schema.GroupKind) []Object {
	out := make([]Object, 0, len(s.objects[gk]))
	for _, o := range s.objects[gk] {
		out = append(out, o)
	}
	sortObjects(out)
	return out
}

// Len counts the objects.
func (s *Snapshot) Len() int {
	n := 0
	for _, t := range s.objects {
		n += len(t)
	}
	return n
}

// Covers tells whether "there is none" may be concluded for the query. Where the input does not say what was read, a kind
// of which it has no object is unread, and a namespaced kind is read in the namespaces it has objects of: in all of them
// when it has objects of two or more, since then one list went over all.
func (s *Snapshot) Covers(q Query) bool {
	if s.WasRead(q) {
		return true
	}
	if s.Recorded {
		return false
	}
	for _, gk := range s.groupKindsOf(q.Resource) {
		if here, cluster, namespaces := s.seenIn(gk, q.Namespace); here || cluster || namespaces > 1 {
			return true
		}
	}
	return false
}

// WasRead tells whether the input says itself that the query was answered.
func (s *Snapshot) WasRead(q Query) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.read.n < len(s.Read); s.read.n++ {
		s.read.add(s.Read[s.read.n], s.read.n)
	}
	if _, ok := s.read.exact[q]; ok {
		return true
	}
	if _, ok := s.read.exact[q.normal()]; ok {
		return true
	}
	for _, i := range s.read.lists[q.Resource] {
		if s.Read[i].Includes(q) {
			return true
		}
	}
	return false
}

// GapOf finds the gap that explains why a query was not answered: its own, else one of a query that includes it, or of the
// whole resource. Nil when none does.
func (s *Snapshot) GapOf(q Query) *Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.gaps.n < len(s.Gaps); s.gaps.n++ {
		g := s.Gaps[s.gaps.n]
		if g.Query == nil {
			g.Query = &Query{Resource: g.Input}
		}
		s.gaps.add(*g.Query, s.gaps.n)
	}
	if i, ok := s.gaps.exact[q]; ok {
		return &s.Gaps[i]
	}
	for _, i := range s.gaps.lists[q.Resource] {
		if g := &s.Gaps[i]; g.Query == nil || g.Query.Includes(q) {
			return g
		}
	}
	return nil
}

// Tried tells whether a query was put and not answered. That a wider one was refused does not count, unless the server would be
// asked the same: who may not list a kind may still get one object of it.
func (s *Snapshot) Tried(q Query) bool {
	g := s.GapOf(q)
	return g != nil && (g.Query == nil || *g.Query == q || *g.Query == q.Sent() || q.Lines != "" && g.Query.Includes(q))
}

// Refused names what was asked for and not answered, each once: "events (forbidden)".
func (s *Snapshot) Refused() []string {
	var out []string
	for _, g := range s.Gaps {
		if g.Reason != "not-probed" && g.Reason != "not-collected" { // nobody asked
			out = append(out, g.Input+" ("+g.Reason+")")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Newest is the latest moment that any object knows: what TakenAt is when the input does not say.
func (s *Snapshot) Newest() time.Time {
	var newest time.Time
	see := func(t time.Time) {
		if t.After(newest) {
			newest = t
		}
	}
	for _, table := range s.objects {
		for _, o := range table {
			see(o.GetCreationTimestamp().Time)
			for _, m := range o.GetManagedFields() {
				if m.Time != nil {
					see(m.Time.Time)
				}
			}
			switch o := o.(type) {
			case *corev1.Event:
				see(EventTime(o))
			case *corev1.Node:
				for _, c := range o.Status.Conditions {
					see(c.LastHeartbeatTime.Time)
				}
			case *NodeReport:
				see(o.Report.CollectedAt)
			case *coordinationv1.Lease:
				if o.Spec.RenewTime != nil {
					see(o.Spec.RenewTime.Time)
				}
			}
		}
	}
	return newest
}

// EventTime is when an event was last seen, whichever API and recorder wrote it.
func EventTime(e *corev1.Event) time.Time {
	t := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	if t.IsZero() {
		t = e.EventTime.Time
	}
	if t.IsZero() {
		t = e.FirstTimestamp.Time
	}
	if t.IsZero() {
		t = e.CreationTimestamp.Time
	}
	return t
}
