package explain

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// holder is a node that holds the view's volume by a VolumeAttachment, and what is known of it.
type holder struct {
	At    *storagev1.VolumeAttachment // nil: attachments could not be read, a pod or the node tells it
	Name  string                      // of the node
	Node  *corev1.Node                // nil: gone, or not to be seen
	known Truth                       // of the Node object
	Ready Truth                       // No also for a node that is gone; Unknown: not to be seen
	Since time.Time                   // since when it is not ready; zero: unknown
	Why   Evidence                    // of Ready being No
	Pods  []*corev1.Pod
	InUse Truth // its kubelet says that it still has the volume
}

// leaving: the attachment is being deleted.
func (h holder) leaving() bool { return h.At != nil && h.At.DeletionTimestamp != nil }

// evidence of the hold: the attachment, or where that was not to be seen a pod that has the volume there, or the node's word.
func (h holder) evidence() Evidence {
	switch {
	case h.At == nil && len(h.Pods) == 0:
		return fact(ref(h.Node), "status.volumesInUse", "lists the volume", time.Time{})
	case h.At == nil:
		return fact(ref(h.Pods[0]), "spec.nodeName", h.Name, h.Pods[0].CreationTimestamp.Time)
	}
	return fact(ref(h.At), "spec.nodeName", h.Name, h.At.CreationTimestamp.Time)
}

// running are the holder's pods that nobody asked to go.
func (h holder) running() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(h.Pods), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// dying are the holder's pods that are terminating.
func (h holder) dying() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(h.Pods), func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
}

// exclusive: the attach-detach controller attaches the volume to one node only.
func (v *View) exclusive() bool { return v.PV != nil && singleNode(v.PV.Spec.AccessModes) }

// saidExclusive: the volume may not be read, and the status of its claim repeats its modes.
func (v *View) saidExclusive() bool {
	return v.PV == nil && v.pvKnown == Unknown && v.Claim != nil && singleNode(v.Claim.Status.AccessModes)
}

// singleNode: pkg/volume/util IsMultiAttachAllowed, turned round.
func singleNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// holders are the nodes other than the view's that hold its volume, by name. Yes: these are all.
func (v *View) holders() ([]holder, Truth) {
	all, known := v.attachments()
	if v.At != nil {
		all, known = []*storagev1.VolumeAttachment{v.At}, Yes
	}
	users, usersKnown := v.consumers(v.Namespace, v.ClaimName)
	nodes := map[string]*storagev1.VolumeAttachment{}
	for _, at := range all {
		nodes[at.Spec.NodeName] = at
	}
	if known == Unknown && v.saysHeld() {
		for _, p := range users {
			if _, seen := nodes[p.Spec.NodeName]; p.Spec.NodeName != "" && !finished(p) && !seen {
				nodes[p.Spec.NodeName] = nil
			}
		}
	}
	for _, name := range v.saidInUse(known) {
		if _, seen := nodes[name]; !seen {
			nodes[name] = nil
		}
	}
	var out []holder
	for name, at := range nodes {
		if name == v.Node {
			continue
		}
		h := holder{At: at, Name: name}
		for _, p := range users {
			if p.Spec.NodeName == name && !finished(p) {
				h.Pods = append(h.Pods, p)
			}
			if p.Spec.NodeName == name && p.DeletionTimestamp != nil {
				v.ahead(func() { v.killTrouble(p) })
			}
		}
		v.ahead(func() { v.eventsOf("Node", "", name, "") })
		v.readiness(&h)
		h.InUse = v.inUse(name)
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b holder) int { return strings.Compare(a.Name, b.Name) })
	return out, known.and(usersKnown)
}

// holdersAhead asks for what tells of the nodes that hold the claim's volume, while the volume itself is still being read.
func (v *View) holdersAhead() {
	all, _ := v.attachmentsOf(v.Claim.Spec.VolumeName)
	users, _ := v.consumers(v.Namespace, v.ClaimName)
	nodes := map[string]bool{}
	for _, at := range all {
		nodes[at.Spec.NodeName] = true
		if at.Spec.NodeName == v.Node {
			v.namedAhead(at)
		}
	}
	for _, p := range users {
		nodes[p.Spec.NodeName] = nodes[p.Spec.NodeName] || p.DeletionTimestamp != nil
	}
	delete(nodes, v.Node)
	for node, holds := range nodes {
		if !holds || node == "" {
			continue
		}
		v.node(node)
		v.csiNode(node)
		v.podsOn(node)
		v.report(node)
		v.eventsOf("Node", "", node, "")
		list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
	}
}

// namedAhead asks for the nodes whose machines the attach error says to have the volume.
func (v *View) namedAhead(at *storagev1.VolumeAttachment) {
	if at.Status.Attached || at.Status.AttachError == nil || at.DeletionTimestamp != nil {
		return
	}
	if cause, text := attachTold(v.attachTrouble(at)); cause == "attach/held-outside" {
		for _, name := range v.machinesIn(text) {
			v.node(name)
		}
	}
}

// saysHeld: the attach-detach controller said that another node has the volume.
func (v *View) saysHeld() bool {
	if v.Pod == nil || mounted(v.Pod) {
		return false
	}
	t := v.attachEvent()
	return t != nil && multiAttach.MatchString(t.Text)
}

// saidInUse are the nodes that work and whose kubelets list the volume in use, asked for where the attachments may not be read and
// the attach-detach controller said that some node has it.
func (v *View) saidInUse(known Truth) (names []string) {
	if known != Unknown || v.PV == nil || !v.unanswered(attachmentsOf(v.PV.Name)) || !v.saysHeld() {
		return nil
	}
	nodes, _ := list[*corev1.Node](v.world, inNodes, snapshot.Query{})
	unique := corev1.UniqueVolumeName(uniqueName(v.Driver, v.Handle))
	for _, n := range nodes {
		if ready, _ := v.nodeReady(n.Name); ready == Yes && slices.Contains(n.Status.VolumesInUse, unique) {
			names = append(names, n.Name)
		}
	}
	return names
}

// readiness reads a holder's node and judges it by its object, or where that is not to be seen by what was said of its pods.
func (v *View) readiness(h *holder) {
	h.Node, h.known = v.node(h.Name)
	ready, condition := v.nodeReady(h.Name)
	h.Ready = ready
	o := Object{Kind: "Node", Name: h.Name}
	switch {
	case ready == No && condition != nil:
		h.Since = condition.LastTransitionTime.Time
		h.Why = fact(o, "status.conditions[Ready]", string(condition.Status)+" "+condition.Reason, h.Since)
	case ready == No && h.known == No:
		h.Why = fact(o, "metadata", "the node does not exist", time.Time{})
		events, _ := v.eventsOf("Node", "", h.Name, "")
		for _, r := range slices.Backward(events) {
			if r.Reason == "RemovingNode" || r.Reason == "DeletingNode" {
				h.Since, h.Why = r.Last, r.evidence()
				break
			}
		}
	case ready == No:
		h.Why = fact(o, "status.conditions", "has no Ready condition", time.Time{})
	case ready == Unknown:
		for _, p := range h.Pods {
			events, _ := v.eventsOf("Pod", p.Namespace, p.Name, string(p.UID))
			for _, r := range events {
				if r.Reason == "NodeNotReady" {
					h.Ready, h.Since, h.Why = No, r.First, r.evidence()
				}
			}
		}
	}
}

// outOfService: somebody declared the node dead, so its volumes are detached without its consent.
func (h holder) outOfService() bool {
	return h.Node != nil && slices.ContainsFunc(h.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// leavings are the volume's VolumeAttachments that are being deleted, the view's own node's too, oldest deletion first.
func (v *View) leavings() ([]*storagev1.VolumeAttachment, Truth) {
	if v.At != nil {
		if v.At.DeletionTimestamp == nil {
			return nil, Yes
		}
		return []*storagev1.VolumeAttachment{v.At}, Yes
	}
	all, known := v.attachments()
	out := slices.DeleteFunc(slices.Clone(all), func(at *storagev1.VolumeAttachment) bool { return at.DeletionTimestamp == nil })
	slices.SortStableFunc(out, func(a, b *storagev1.VolumeAttachment) int {
		return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time)
	})
	return out, known
}

func podNames(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return strings.Join(out, ", ")
}

// forceDetach tells whether the attach-detach controller may still be waiting before it detaches from a holder that does not
// answer, and until when at most. Its timer (ReconcilerMaxWaitForUnmountDuration) runs since the last pod there has gone, which
// no object tells: it is bounded by the node's fall, the age of the pod that waits, and what is known of the last pod.
func (v *View) forceDetach(h holder) (until time.Time, pending Truth) {
	if h.leaving() || len(h.Pods) > 0 || h.outOfService() {
		return time.Time{}, No
	}
	last, known := h.Since, Yes
	if h.known == No && h.Since.IsZero() {
		_, known = v.eventsOf("Node", "", h.Name, "")
	}
	switch {
	case v.Pod != nil:
		last = latest(last, v.Pod.CreationTimestamp.Time)
	case v.PV != nil && v.PV.Status.LastPhaseTransitionTime != nil && v.PV.Status.Phase == corev1.VolumeReleased:
		last = latest(last, v.PV.Status.LastPhaseTransitionTime.Time)
	case v.idle():
		freed, freedKnown := v.freedSince()
		last, known = latest(last, freed), known.and(freedKnown)
	}
	until = last.Add(normalForceDetach)
	if v.age(last) < normalForceDetach {
		return until, h.Ready.not()
	}
	return until, min(known.not(), h.Ready.not())
}
