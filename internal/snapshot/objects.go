package snapshot

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// NodeReport makes the node's facts an object beside the others.
type NodeReport struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Report nodereport.NodeReport
}

// UnmarshalJSON reads the contract's form.
func (n *NodeReport) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &n.Report); err != nil {
		return err
	}
	n.TypeMeta = metav1.TypeMeta{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind}
	n.Name = n.Report.Metadata.Name
	return nil
}

// MarshalJSON writes the contract's form.
func (n *NodeReport) MarshalJSON() ([]byte, error) {
	r := n.Report
	r.APIVersion, r.Kind = nodereport.APIVersion, nodereport.Kind
	return json.Marshal(r)
}

// GetObjectKind serves runtime.Object.
func (n *NodeReport) GetObjectKind() schema.ObjectKind { return &n.TypeMeta }

// DeepCopyObject serves runtime.Object; a Snapshot's objects are never changed, so a shallow copy is one.
func (n *NodeReport) DeepCopyObject() runtime.Object { c := *n; return &c }

// LogExcerpt is the lines of one container that name the volume. They sharpen an answer and never decide alone.
type LogExcerpt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Container         string    `json:"container"`
	Lines             []LogLine `json:"lines"`
}

// LogLine is one line of a container's log.
type LogLine struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
}

// GetName makes the excerpts of one pod's containers distinct objects.
func (l *LogExcerpt) GetName() string { return l.Name + "/" + l.Container }

// with gives the lines of both, each once, in the order of time.
func (l *LogExcerpt) with(other *LogExcerpt) *LogExcerpt {
	both, seen := *other, map[LogLine]bool{}
	both.Lines = []LogLine{}
	for _, line := range slices.Concat(l.Lines, other.Lines) {
		line.At = line.At.UTC() // a time of another zone is not equal
		if !seen[line] {
			seen[line] = true
			both.Lines = append(both.Lines, line)
		}
	}
	slices.SortStableFunc(both.Lines, func(a, b LogLine) int { return a.At.Compare(b.At) })
	return &both
}

// GetObjectKind serves runtime.Object.
func (l *LogExcerpt) GetObjectKind() schema.ObjectKind { return &l.TypeMeta }

// DeepCopyObject serves runtime.Object.
func (l *LogExcerpt) DeepCopyObject() runtime.Object { c := *l; return &c }
