package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Query is one question to the API: a get (Name set) or a list, perhaps of one namespace, perhaps narrowed by selectors.
type Query struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Fields    string `json:"fields,omitempty"`
	Labels    string `json:"labels,omitempty"`
	// Lines are the words of which a line of a log must have one, joined by commas; of LogExcerpts only.
	Lines string `json:"lines,omitempty"`
}

// MarshalJSON writes a whole list as its plain name.
func (q Query) MarshalJSON() ([]byte, error) {
	if q == (Query{Resource: q.Resource}) {
		return json.Marshal(q.Resource)
	}
	type plain Query
	return json.Marshal(plain(q))
}

// UnmarshalJSON reads both forms.
func (q *Query) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*q = Query{}
		return json.Unmarshal(b, &q.Resource)
	}
	type plain Query
	return json.Unmarshal(b, (*plain)(q))
}

// String is for messages: "pods in shop with spec.nodeName=node-1".
func (q Query) String() string {
	var b strings.Builder
	b.WriteString(q.Resource)
	if q.Name != "" {
		fmt.Fprintf(&b, " %q", q.Name)
	}
	if q.Namespace != "" {
		fmt.Fprintf(&b, " in %s", q.Namespace)
	}
	if sel := strings.Trim(q.Fields+","+q.Labels, ","); sel != "" {
		fmt.Fprintf(&b, " with %s", sel)
	}
	if q.Lines != "" {
		fmt.Fprintf(&b, ", lines with %s", strings.ReplaceAll(q.Lines, ",", " or "))
	}
	return b.String()
}

// Compare orders queries by resource, then from wide to narrow.
func (q Query) Compare(p Query) int {
	return cmp.Or(strings.Compare(q.Resource, p.Resource), strings.Compare(q.Namespace, p.Namespace), strings.Compare(q.Name, p.Name),
		strings.Compare(q.Fields, p.Fields), strings.Compare(q.Labels, p.Labels), strings.Compare(q.Lines, p.Lines))
}

// Includes tells whether an answer to q also answers p. A get of a name and a list with metadata.name=name are the same.
func (q Query) Includes(p Query) bool {
	q, p = q.normal(), p.normal()
	if q.Resource != p.Resource || q.Namespace != "" && q.Namespace != p.Namespace || q.Name != "" && q.Name != p.Name {
		return false
	}
	// Words are alternatives: an answer to some of them answers those alone.
	lines := q.Lines == "" || p.Lines != "" && requires(q.Lines, p.Lines)
	return lines && requires(p.Fields, q.Fields) && requires(p.Labels, q.Labels)
}

func (q Query) normal() Query {
	if name, ok := strings.CutPrefix(q.Fields, "metadata.name="); ok && q.Name == "" && !strings.Contains(name, ",") {
		q.Name, q.Fields = name, ""
	}
	return q
}

// Sent is what the API server is asked for a query. By what they attach it selects no VolumeAttachments: it gives all, of which the
// reader keeps those that match.
func (q Query) Sent() Query {
	if q.Resource == "volumeattachments.storage.k8s.io" {
		q.Fields = ""
	}
	return q
}

// FieldValues are the values that q asks fields for.
func (q Query) FieldValues() []string {
	var out []string
	for requirement := range strings.SplitSeq(q.Fields, ",") {
		if _, value, ok := strings.Cut(requirement, "="); ok {
			out = append(out, value)
		}
	}
	return out
}

// isGet: it asks for the one object of its name. Log excerpts of a pod are several.
func (q Query) isGet() bool {
	return q.Name != "" && q.Fields == "" && q.Labels == "" && q.Lines == "" && !strings.HasPrefix(q.Resource, "logexcerpts.")
}

// requires tells whether selector has every requirement of other.
func requires(selector, other string) bool {
	if other == "" || selector == other {
		return true
	}
	have := "," + selector + ","
	for r := range strings.SplitSeq(other, ",") {
		if !strings.Contains(have, ","+r+",") {
			return false
		}
	}
	return true
}

// Matches tells whether the object is one that the query asks for; its resource is the caller's business.
func (q Query) Matches(o Object) bool { return q.matcher()(o) }

// matcher is Matches for many objects: the selectors are read once. One that cannot be read matches nothing.
func (q Query) matcher() func(Object) bool {
	byField, byLabel := fields.Everything(), labels.Everything()
	var err error
	if q.Fields != "" {
		if byField, err = fields.ParseSelector(q.Fields); err != nil {
			byField = fields.Nothing()
		}
	}
	if q.Labels != "" {
		if byLabel, err = labels.Parse(q.Labels); err != nil {
			byLabel = labels.Nothing()
		}
	}
	return func(o Object) bool {
		return (q.Namespace == "" || o.GetNamespace() == q.Namespace) && (q.Name == "" || nameOf(o) == q.Name) &&
			(byField.Empty() || byField.Matches(selected{o})) && (byLabel.Empty() || byLabel.Matches(labels.Set(o.GetLabels())))
	}
}

// nameOf is the name by which an object is asked for: of a container's log its pod's.
func nameOf(o Object) string {
	if l, ok := o.(*LogExcerpt); ok {
		return l.Name
	}
	return o.GetName()
}

// selected are the fields of an object by which the API server lets a list be selected (pkg/registry/core/{pod,event} of Kubernetes),
// and those of VolumeAttachments that Sent leaves out.
type selected struct{ Object }

func (s selected) Has(field string) bool {
	_, ok := s.field(field)
	return ok
}

func (s selected) Get(field string) string {
	value, _ := s.field(field)
	return value
}

func (s selected) field(name string) (value string, ok bool) {
	switch name {
	case "metadata.name":
		return nameOf(s.Object), true
	case "metadata.namespace":
		return s.GetNamespace(), true
	}
	switch o := s.Object.(type) {
	case *corev1.Pod:
		switch name {
		case "spec.nodeName":
			return o.Spec.NodeName, true
		case "status.phase":
			return string(o.Status.Phase), true
		}
	case *storagev1.VolumeAttachment:
		pv := o.Spec.Source.PersistentVolumeName
		switch {
		case name == "spec.nodeName":
			return o.Spec.NodeName, true
		case name == "spec.source.persistentVolumeName" && pv != nil:
			return *pv, true
		}
	case *corev1.Event:
		switch name {
		case "involvedObject.uid":
			return string(o.InvolvedObject.UID), true
		case "involvedObject.kind":
			return o.InvolvedObject.Kind, true
		case "involvedObject.name":
			return o.InvolvedObject.Name, true
		case "involvedObject.namespace":
			return o.InvolvedObject.Namespace, true
		case "reason":
			return o.Reason, true
		case "type":
			return o.Type, true
		}
	}
	return "", false
}

// groupKindOf guesses the kind of a resource: the table's, or for vendor kinds any whose plural it is.
func (s *Snapshot) groupKindsOf(resource string) []schema.GroupKind {
	if k := ResourceOf(resource); k != nil {
		return []schema.GroupKind{k.Group}
	}
	var out []schema.GroupKind
	for gk := range s.objects {
		if VendorResource(gk) == resource {
			out = append(out, gk)
		}
	}
	return out
}
