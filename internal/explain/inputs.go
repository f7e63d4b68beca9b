package explain

import (
	"slices"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Input is one kind of thing that a diagnosis may read. deploy/rbac.yaml, the gaps' remedies and the documentation come from
// this one table; which objects are read, and when, is decided by the accessors that ask for them.
type Input struct {
	Resource string   // as kubectl writes it: leases.coordination.k8s.io
	Verbs    []string // what the API is asked for
	Why      string   // what it tells, for the role and the remedy
}

var (
	inClaims       = Input{"persistentvolumeclaims", []string{"get", "list"}, "the claims"}
	inVolumes      = Input{"persistentvolumes", []string{"get", "list"}, "the volumes"}
	inPods         = Input{"pods", []string{"get", "list"}, "consumers of a claim and the driver's own pods"}
	inNodes        = Input{"nodes", []string{"get", "list"}, "whether a node is there and Ready, and which volumes it holds"}
	inEvents       = Input{"events", []string{"list"}, "what components said"}
	inNamespaces   = Input{"namespaces", []string{"get"}, "whether a namespace is being deleted"}
	inQuotas       = Input{"resourcequotas", []string{"list"}, "quotas that refuse a claim"}
	inClasses      = Input{"storageclasses.storage.k8s.io", []string{"get", "list"}, "how volumes are made"}
	inAttachments  = Input{"volumeattachments.storage.k8s.io", []string{"get", "list"}, "which node holds a volume, and attach and detach errors"}
	inDrivers      = Input{"csidrivers.storage.k8s.io", []string{"get", "list"}, "what a driver needs and offers"}
	inCSINodes     = Input{"csinodes.storage.k8s.io", []string{"get", "list"}, "which drivers a node has, and their limits"}
	inCapacities   = Input{"csistoragecapacities.storage.k8s.io", []string{"list"}, "how much room a driver says there is"}
	inAttributes   = Input{"volumeattributesclasses.storage.k8s.io", []string{"get", "list"}, "changes of a volume's class"}
	inLeases       = Input{"leases.coordination.k8s.io", []string{"list"}, "whether a sidecar is at work"}
	inDaemonSets   = Input{"daemonsets.apps", []string{"get", "list"}, "where node plugins should run"}
	inDeployments  = Input{"deployments.apps", []string{"get", "list"}, "where controller plugins should run"}
	inStatefulSets = Input{"statefulsets.apps", []string{"get", "list"}, "owners of claims and of controller plugins"}
	inSnapshots    = Input{"volumesnapshots.snapshot.storage.k8s.io", []string{"get", "list"}, "sources of claims, and what holds a volume"}
	inContents     = Input{"volumesnapshotcontents.snapshot.storage.k8s.io", []string{"get", "list"}, "the state of a snapshot in the backend"}
	inSnapClasses  = Input{"volumesnapshotclasses.snapshot.storage.k8s.io", []string{"get", "list"}, "how snapshots are made"}
	inRoles        = Input{"clusterroles.rbac.authorization.k8s.io", []string{"list"}, "whether a sidecar may do its work"}
	inBindings     = Input{"clusterrolebindings.rbac.authorization.k8s.io", []string{"list"}, "which roles a sidecar has"}
	// Objects of vendors are kept as they are; each is read only where a cause asks for it by name.
	inTickets         = Input{"volumeattachments.longhorn.io", []string{"get"}, "who else holds a Longhorn volume to its node"}
	inCeph            = Input{"cephclusters.ceph.rook.io", []string{"list"}, "whether the Ceph cluster behind a volume is well"}
	inTrident         = Input{"tridentbackends.trident.netapp.io", []string{"list"}, "whether the backends of Trident are online"}
	inProviderClasses = Input{"secretproviderclasses.secrets-store.csi.x-k8s.io", []string{"get"}, "what a secrets-store volume asks for"}
	inReports         = Input{"nodereports.csidoctor.dev", nil, "the node's sockets, mounts and devices"}
	inLogs            = Input{"logexcerpts.csidoctor.dev", nil, "lines of the driver's logs"}
	inPodLogs         = Input{"pods/log", []string{"get"}, "lines of the driver's logs, with --logs"}
)

// Inputs is the table.
var Inputs = []Input{inClaims, inVolumes, inPods, inNodes, inEvents, inNamespaces, inQuotas, inClasses, inAttachments,
	inDrivers, inCSINodes, inCapacities, inAttributes, inLeases, inDaemonSets, inDeployments, inStatefulSets, inSnapshots, inContents, inSnapClasses, inRoles, inBindings, inTickets, inProviderClasses, inCeph, inTrident, inReports, inLogs, inPodLogs}

// fetch is the one way to the facts. The bool says that the answer is complete: all that there is, perhaps nothing. What is
// neither read nor a gap becomes wanted.
func (w *world) fetch(q snapshot.Query) ([]snapshot.Object, bool) {
	found := w.facts.Select(q)
	return found, w.complete(q, len(found))
}

// complete notes that a query was asked, and tells whether what was found is all. Of a flooded resource nothing is wanted of
// which a wider question was not answered.
func (w *world) complete(q snapshot.Query, found int) bool {
	w.used[q] = true
	if q.Name != "" && q.Lines == "" && found > 0 || w.facts.Covers(q) { // an excerpt may be of other words
		return true
	}
	if !w.facts.Tried(q) && (!w.flooded[q.Resource] || w.facts.GapOf(q) == nil) {
		w.wanted[q] = true
	}
	w.lack(q)
	return false
}

// unanswered: the query, or a wider one, was put and not answered. One that is still to be put is not.
func (w *world) unanswered(q snapshot.Query) bool { return w.facts.GapOf(q) != nil }

// grouped are all objects of a kind by a key, worked out once for all answers from the same facts.
func grouped[T snapshot.Object](w *world, in Input, name string, key func(T) []string) map[string][]T {
	return snapshot.Memo(w.facts, in.Resource+" by "+name, func() map[string][]T {
		out := map[string][]T{}
		for _, o := range w.facts.Select(snapshot.Query{Resource: in.Resource}) {
			if t, ok := o.(T); ok {
				for _, k := range key(t) {
					out[k] = append(out[k], t)
				}
			}
		}
		return out
	})
}

// get finds one object: Yes with it, No when it is known not to exist.
func get[T snapshot.Object](w *world, in Input, namespace, name string) (T, Truth) {
	var zero T
	if name == "" {
		return zero, No
	}
	found, complete := w.fetch(snapshot.Query{Resource: in.Resource, Namespace: namespace, Name: name})
	for _, o := range found {
		if t, ok := o.(T); ok {
			return t, Yes
		}
	}
	if complete {
		return zero, No
	}
	return zero, Unknown
}

// list finds all objects that a query asks for: Yes when these are all, Unknown when there may be others.
func list[T snapshot.Object](w *world, in Input, q snapshot.Query) ([]T, Truth) {
	q.Resource = in.Resource
	out, known := w.lists[q].([]T)
	if !known {
		for _, o := range w.facts.Select(q) {
			if t, ok := o.(T); ok {
				out = append(out, t)
			}
		}
		w.lists[q] = out
	}
	if w.complete(q, 0) {
		return slices.Clone(out), Yes
	}
	return slices.Clone(out), Unknown
}

// first finds the first object that fits: Unknown when none was seen and some could not be.
func first[T snapshot.Object](objects []T, all Truth, fits func(T) bool) (T, Truth) {
	for _, o := range objects {
		if fits(o) {
			return o, Yes
		}
	}
	var zero T
	if all == Yes {
		return zero, No
	}
	return zero, Unknown
}
