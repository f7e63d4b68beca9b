package collect

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	// A request for each of more targets than this would be a flood, where one list has them all.
	maxNarrow = 64
	// A container's log is up to 1 MB over the wire, for a few lines; of more pods there is one request left: that for the pod.
	maxLogs = 40
)

// tenants are the kinds of which a namespace has its own, so that a bundle of it holds no other namespace's whole lists. All
// other kinds are the cluster's, or a driver's wherever that runs.
var tenants = []string{"persistentvolumeclaims", "pods", "events", "volumesnapshots.snapshot.storage.k8s.io"}

// Lists are what a bundle of a namespace begins with, or of the cluster where that is empty: all inputs that can be listed. Of a
// namespace's own the whole list is among them too: that it was left out (Within) shall be said.
func Lists(namespace string) []snapshot.Query {
	var out []snapshot.Query
	for _, in := range explain.Inputs {
		if !slices.Contains(in.Verbs, "list") {
			continue
		}
		q := snapshot.Query{Resource: in.Resource}
		if namespace != "" && slices.Contains(tenants, in.Resource) {
			out = append(out, q)
		}
		if k := snapshot.ResourceOf(in.Resource); k != nil && k.Namespaced {
			q.Namespace = namespace
		}
		out = append(out, q)
	}
	return out
}

// Targets are all that can be asked about in what Lists read: of a namespace its own claims, pods and snapshots, and the
// volumes, nodes and drivers that these have.
func Targets(s *snapshot.Snapshot, namespace string) []explain.Target {
	var out []explain.Target
	add := func(kind, namespace, name string) {
		out = append(out, explain.Target{Kind: kind, Namespace: namespace, Name: name})
	}
	drivers, nodes := map[string]bool{}, map[string]bool{}
	provisioner := map[string]string{}
	for _, o := range s.Select(snapshot.Query{Resource: "storageclasses.storage.k8s.io"}) {
		class := o.(*storagev1.StorageClass)
		provisioner[class.Name] = class.Provisioner
	}
	for _, o := range s.Select(snapshot.Query{Resource: "persistentvolumeclaims", Namespace: namespace}) {
		add("PersistentVolumeClaim", o.GetNamespace(), o.GetName())
		if class := o.(*corev1.PersistentVolumeClaim).Spec.StorageClassName; class != nil {
			drivers[provisioner[*class]] = true
		}
	}
	for _, o := range s.Select(snapshot.Query{Resource: "statefulsets.apps", Namespace: namespace}) {
		for _, claim := range unmade(s, o.(*appsv1.StatefulSet)) {
			add("PersistentVolumeClaim", o.GetNamespace(), claim)
		}
	}
	for _, o := range s.Select(snapshot.Query{Resource: "pods", Namespace: namespace}) {
		add("Pod", o.GetNamespace(), o.GetName())
		p := o.(*corev1.Pod)
		nodes[p.Spec.NodeName] = true
		for _, v := range p.Spec.Volumes {
			if v.CSI != nil {
				drivers[v.CSI.Driver] = true
			}
		}
	}
	for _, o := range s.Select(snapshot.Query{Resource: "volumesnapshots.snapshot.storage.k8s.io", Namespace: namespace}) {
		add("VolumeSnapshot", o.GetNamespace(), o.GetName())
	}
	for _, o := range s.Select(snapshot.Query{Resource: "persistentvolumes"}) {
		pv := o.(*corev1.PersistentVolume)
		if namespace != "" && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != namespace) {
			continue
		}
		add("PersistentVolume", "", pv.Name)
		if pv.Spec.CSI != nil {
			drivers[pv.Spec.CSI.Driver] = true
		}
	}
	for _, o := range s.Select(snapshot.Query{Resource: "nodes"}) {
		if namespace == "" || nodes[o.GetName()] {
			add("Node", "", o.GetName())
		}
	}
	for _, o := range s.Select(snapshot.Query{Resource: "csidrivers.storage.k8s.io"}) {
		if namespace == "" || drivers[o.GetName()] {
			add("CSIDriver", "", o.GetName())
		}
	}
	return out
}

// unmade are the claims that a StatefulSet should have and that are not there: that they were refused shows elsewhere.
func unmade(s *snapshot.Snapshot, set *appsv1.StatefulSet) []string {
	replicas, start := int32(1), int32(0) // the API server's defaults
	if set.Spec.Replicas != nil {
		replicas = *set.Spec.Replicas
	}
	if set.Spec.Ordinals != nil {
		start = set.Spec.Ordinals.Start
	}
	var out []string
	for _, template := range set.Spec.VolumeClaimTemplates {
		for i := start; i < start+replicas; i++ {
			claim := fmt.Sprintf("%s-%s-%d", template.Name, set.Name, i)
			if s.Get("persistentvolumeclaims", set.Namespace, claim) == nil {
				out = append(out, claim)
			}
		}
	}
	return out
}

// Many asks for what a scan and an answer about each of Targets want. Who wants nothing more is not asked again.
func Many(namespace string, o explain.Options) func(*snapshot.Snapshot) explain.Wanted {
	scanner, scanned := explain.NewScanner(namespace, o), false
	answered := map[explain.Target]bool{}
	logs := map[snapshot.Query]bool{}
	return func(s *snapshot.Snapshot) explain.Wanted {
		var wanted explain.Wanted
		if !scanned {
			_, wanted = scanner.Scan(s)
			scanned = len(wanted) == 0
		}
		for _, t := range Targets(s, namespace) {
			if answered[t] {
				continue
			}
			_, more := explain.Explain(s, t, o)
			more = slices.DeleteFunc(more, func(q snapshot.Query) bool {
				if q.Resource != logExcerpts {
					return false
				}
				pod := snapshot.Query{Namespace: q.Namespace, Name: q.Name}
				if len(logs) < maxLogs {
					logs[pod] = true
				}
				return !logs[pod]
			})
			answered[t] = len(more) == 0
			wanted = append(wanted, more...)
		}
		return widened(wanted)
	}
}

// widened asks for the list of a namespace, or of a kind that has none, where too many of its objects or parts are asked for.
func widened(wanted explain.Wanted) explain.Wanted {
	slices.SortFunc(wanted, snapshot.Query.Compare)
	wanted = slices.Compact(wanted)
	list := func(q snapshot.Query) snapshot.Query {
		return snapshot.Query{Resource: q.Resource, Namespace: q.Namespace}
	}
	count := map[snapshot.Query]int{}
	for _, q := range wanted {
		count[list(q)]++
	}
	for i, q := range wanted {
		if count[list(q)] > maxNarrow && listable(q.Resource) {
			wanted[i] = list(q)
		}
	}
	return slices.Compact(wanted)
}

func listable(resource string) bool {
	return slices.ContainsFunc(Lists(""), func(q snapshot.Query) bool { return q.Resource == resource })
}

// Within keeps the whole lists of other namespaces out of a bundle of one.
func Within(s Source, namespace string) Source {
	if namespace == "" {
		return s
	}
	return within{s, namespace}
}

type within struct {
	Source
	namespace string
}

func (w within) Fetch(ctx context.Context, q snapshot.Query) Answer {
	if q == (snapshot.Query{Resource: q.Resource}) && slices.Contains(tenants, q.Resource) {
		return Answer{Gap: &snapshot.Gap{Reason: "not-collected", Detail: "only what belongs to namespace " + w.namespace + " was collected",
			Remedy: "make a bundle of all: kubectl csidoctor bundle -A"}}
	}
	return w.Source.Fetch(ctx, q)
}

// Suspects are the nodes that the targets which are not well point to, first those to which most do.
func Suspects(s *snapshot.Snapshot, namespace string, o explain.Options) []string {
	var unwell []explain.Diagnosis
	for _, t := range Targets(s, namespace) {
		if d, _ := explain.Explain(s, t, o); d.Verdict != explain.VerdictHealthy {
			unwell = append(unwell, d)
		}
	}
	return explain.MostNamed(unwell)
}
