package explain

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// world is what all views of one answer share.
type world struct {
	facts   *snapshot.Snapshot
	now     time.Time // ages and normal times are judged by it
	taken   time.Time // leases, heartbeats and "recent" are judged by it
	kubectl []string
	asked   Target

	used    map[snapshot.Query]bool // every query that an accessor asked
	spare   map[snapshot.Query]bool // is used anew for each answer: it is most of what one takes of memory
	wanted  map[snapshot.Query]bool // neither read nor a gap
	unread  map[snapshot.Query]bool // met by what runs now: reset by scope
	lacked  bool                    // something was unread, at any time, that another question could bring
	flooded map[string]bool         // resources of which no list was given and too many single objects would be asked for
	memo    map[string]string       // the causes that texts tell
	reports map[string][]report     // by object: what was said of it
	shared  map[string]*shared      // what views have in common, by what it is about
	lists   map[snapshot.Query]any  // what was listed
}

// shared is a fact that many views ask for, with the queries that it rests on.
type shared struct {
	value                any
	used, wanted, unread map[snapshot.Query]bool
}

// once works a fact out for the first view that asks, and notes for each what it rests on. What it gives is not to be changed.
func once[T any](w *world, key string, work func() T) T {
	s, known := w.shared[key]
	if !known {
		s = &shared{used: map[snapshot.Query]bool{}, wanted: map[snapshot.Query]bool{}}
		used, wanted := w.used, w.wanted
		w.used, w.wanted = s.used, s.wanted
		s.unread = w.scope(func() { s.value = work() })
		w.used, w.wanted = used, wanted
		w.shared[key] = s
	}
	maps.Copy(w.used, s.used)
	maps.Copy(w.wanted, s.wanted)
	for q := range s.unread {
		w.lack(q)
	}
	return s.value.(T)
}

// some are what was found of something, and whether it is all.
type some[T any] struct {
	found []T
	all   Truth
}

// allOf is once for a list, which the caller may change.
func allOf[T any](w *world, key string, work func() ([]T, Truth)) ([]T, Truth) {
	s := once(w, key, func() some[T] {
		found, all := work()
		return some[T]{found, all}
	})
	return slices.Clone(s.found), s.all
}

// scope runs f and gives the queries that it met unread.
func (w *world) scope(f func()) map[snapshot.Query]bool {
	outer := w.unread
	w.unread = nil
	f()
	inner := w.unread
	w.unread = outer
	for q := range inner {
		w.lack(q)
	}
	return inner
}

// ahead asks for what will be needed next, to save a round. That something of it is unread is of no account here: what needs
// it will meet it again.
func (w *world) ahead(f func()) {
	outer := w.unread
	w.unread = nil
	f()
	w.unread = outer
}

// lack notes what is unread. Most scopes lack nothing: a map for each would be a sixth of a scan's memory.
func (w *world) lack(q snapshot.Query) {
	if w.unread == nil {
		w.unread = map[snapshot.Query]bool{}
	}
	w.unread[q] = true
	// Whether a node was probed, or a log read, no other question changes.
	w.lacked = w.lacked || q.Resource != inReports.Resource && q.Resource != inLogs.Resource
}

// View is one volume on its way to one pod: what a hop or a cause is asked about. Without a consumer Pod is nil; for an
// inline volume Claim and PV are nil and Inline is set.
type View struct {
	*world
	Namespace  string
	ClaimName  string
	Claim      *corev1.PersistentVolumeClaim
	claimKnown Truth
	PV         *corev1.PersistentVolume
	pvKnown    Truth // No: the claim names none, or it does not exist
	Pod        *corev1.Pod
	Volume     *corev1.Volume // of the pod
	Inline     *corev1.CSIVolumeSource
	Driver     string                      // of the CSI driver, the one that it is migrated to for an in-tree volume; empty: none
	Handle     string                      // the volume's handle, translated for an in-tree volume
	Node       string                      // where the pod is
	At         *storagev1.VolumeAttachment // asked about by itself

	others bool // the pod's other volumes are asked about too
	cut    *cut // the snapshot that is asked about, or the claim's that is stuck

	only  []HopName               // the chain is these hops; empty: all
	base  map[snapshot.Query]bool // what was unread when the view was made
	hops  []Hop
	block HopName // the first hop, in causal order, that is its turn and not in order; empty: none
}

// age since a moment, by now.
func (w *world) age(t time.Time) time.Duration { return w.now.Sub(t) }

// hop gives the state of a hop; a hop that the chain does not have is skipped.
func (v *View) hop(name HopName) Hop {
	for _, h := range v.hops {
		if h.Hop == name {
			return h
		}
	}
	return Hop{Hop: name, Status: StatusSkipped}
}

// at tells whether one of these hops is where the chain stops.
func (v *View) at(names ...HopName) bool {
	for _, n := range names {
		if v.block == n {
			return true
		}
	}
	return false
}

// bound: PVC and PV point at each other and both controllers are done.
func (v *View) bound() bool { return v.Claim != nil && v.Claim.Status.Phase == corev1.ClaimBound }

// className is the class that the claim names, by field or by the annotation that goes before it; named is false for nil.
func className(c *corev1.PersistentVolumeClaim) (name string, named bool) {
	if a, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return a, true
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName, true
	}
	return "", false
}

// class is the claim's StorageClass object: No when the claim names none or it does not exist.
func (v *View) class() (*storagev1.StorageClass, Truth) {
	if v.Claim == nil {
		return nil, v.claimKnown
	}
	name, _ := className(v.Claim)
	return get[*storagev1.StorageClass](v.world, inClasses, "", name)
}

// classUnread: the claim's class could not be read.
func (v *View) classUnread() bool {
	_, known := v.class()
	return known == Unknown
}

// classRefused: it was asked for, and could not be.
func (v *View) classRefused() bool {
	if v.Claim == nil {
		return false
	}
	name, _ := className(v.Claim)
	return v.unanswered(snapshot.Query{Resource: inClasses.Resource, Name: name})
}

// waitsForConsumer: the claim's class binds only when a pod needs it.
func (v *View) waitsForConsumer() Truth {
	class, known := v.class()
	if known == Unknown {
		return v.saidToWait()
	}
	if known != Yes {
		return known
	}
	return truth(class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer)
}

// saidToWait: the PV controller's last word on the claim, which it repeats four times a minute, is that it waits for a pod. It is
// asked where the class may not be read.
func (v *View) saidToWait() Truth {
	if !v.classRefused() {
		return Unknown
	}
	events, _ := v.claimEvents()
	var last report
	for _, r := range events {
		if r.Last.After(last.Last) {
			last = r
		}
	}
	waits := last.Reason == "WaitForFirstConsumer" || last.Reason == "WaitForPodScheduled"
	return Unknown.or(truth(waits && v.taken.Sub(last.Last) < recent))
}

// saidNoProvisioner: the PV controller names the provisioner of a class that may not be read: none.
func (v *View) saidNoProvisioner() bool {
	events, _ := v.claimEvents()
	return v.classRefused() && slices.ContainsFunc(events, func(r report) bool {
		return r.Source == pvController && names(r.Message, noProvisioner) && v.taken.Sub(r.Last) < recent
	})
}

const (
	annSelectedNode  = "volume.kubernetes.io/selected-node"
	annProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annProvisionerB  = "volume.beta.kubernetes.io/storage-provisioner"
	annBindCompleted = "pv.kubernetes.io/bind-completed"
	annProvisionedBy = "pv.kubernetes.io/provisioned-by"
	annMigratedTo    = "pv.kubernetes.io/migrated-to"
	annDefaultClass  = "storageclass.kubernetes.io/is-default-class"
	annDefaultClassB = "storageclass.beta.kubernetes.io/is-default-class"
	annNodeID        = "csi.alpha.kubernetes.io/node-id" // external-attacher's, on VolumeAttachments
	noProvisioner    = "kubernetes.io/no-provisioner"
)

// selectedNode is the node that the scheduler chose for a claim that waits for its consumer.
func (v *View) selectedNode() string {
	if v.Claim == nil {
		return ""
	}
	return v.Claim.Annotations[annSelectedNode]
}

// consumers are the pods that use the claim and are not finished, by creation; Unknown when pods could not be read.
func (w *world) consumers(namespace, claim string) ([]*corev1.Pod, Truth) {
	if claim == "" {
		return nil, Yes
	}
	all := Unknown
	if w.complete(snapshot.Query{Resource: inPods.Resource, Namespace: namespace}, 0) {
		all = Yes
	}
	byClaim := grouped(w, inPods, "claim", func(p *corev1.Pod) []string {
		var claims []string
		for i := range p.Spec.Volumes {
			if claim := claimOfVolume(p, &p.Spec.Volumes[i]); claim != "" && !slices.Contains(claims, p.Namespace+"/"+claim) {
				claims = append(claims, p.Namespace+"/"+claim)
			}
		}
		return claims
	})
	out := slices.Clone(byClaim[namespace+"/"+claim])
	sortByCreation(out)
	return out, all
}

// finished pods never run again; their volumes are unmounted.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// volumeOfClaim is the pod's volume that names the claim, directly or as a generic ephemeral volume.
func volumeOfClaim(p *corev1.Pod, claim string) *corev1.Volume {
	for i := range p.Spec.Volumes {
		if claimOfVolume(p, &p.Spec.Volumes[i]) == claim {
			return &p.Spec.Volumes[i]
		}
	}
	return nil
}

// claimOfVolume is the claim that a pod's volume uses (component-helpers storage/ephemeral.VolumeClaimName); empty: none.
func claimOfVolume(p *corev1.Pod, vol *corev1.Volume) string {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName
	case vol.Ephemeral != nil:
		return p.Name + "-" + vol.Name
	}
	return ""
}

// ready: the pod's Ready condition.
func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// reasonLimit is the status.reason of a pod that kubelet rejected for want of an attach slot (pkg/kubelet rejectPod).
const reasonLimit = "VolumeAttachmentLimitExceeded"

// mounted: kubelet makes a sandbox and containers only after all volumes are mounted, so any sign of one proves it. A pod that
// is finished waits for no mount either.
func mounted(p *corev1.Pod) bool {
	if finished(p) {
		return p.Status.Reason != reasonLimit
	}
	if c := podCondition(p, corev1.PodReadyToStartContainers); c != nil && c.Status == corev1.ConditionTrue {
		return true
	}
	begun := func(s corev1.ContainerStatus) bool {
		w := s.State.Waiting
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0 ||
			w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
	}
	return slices.ContainsFunc(p.Status.InitContainerStatuses, begun) || slices.ContainsFunc(p.Status.ContainerStatuses, begun)
}
