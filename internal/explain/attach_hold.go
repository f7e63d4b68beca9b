package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// holdCauses are those of a volume that another node holds, by what that node and its pods are.
var holdCauses = []Cause{{
	ID:    "attach/multi-attach-node-dead",
	Title: "A node that does not answer holds the volume",
	Doc: `The volume is attached to a node that is not Ready, or is gone. Kubernetes cannot know whether a process there still writes, so it
attaches the volume nowhere else as long as a pod object keeps it there.

To be sure: the other VolumeAttachment's node is NotReady or missing, and find out in the cloud's or the hypervisor's console whether the
machine is off.

If the machine still runs and only its network is broken, attaching the volume elsewhere corrupts it. So first power it off, then tell
Kubernetes: the taint node.kubernetes.io/out-of-service on the node lets its pods and attachments go. Take the taint away before the
machine comes back. Never delete the VolumeAttachment or force-delete the pod while the machine may run.`,
	Match: multiAttachNodeDead,
}, {
	ID:    "attach/multi-attach-terminating",
	Title: "A pod that is terminating on another node still holds the volume",
	Doc: `The old pod was asked to go and its node still works. The volume is detached when the pod's containers have ended and the volume is
unmounted.

To be sure: the other node is Ready, and the pod there has a deletion time.

Look at the terminating pod. Do not force its deletion: its container may still write.`,
	Match: multiAttachTerminating,
}, {
	ID:    "attach/multi-attach-in-use",
	Title: "A pod on another node uses the volume",
	Doc: `A volume with ReadWriteOnce is attached to one node at a time. A rolling update starts the new pod before the old one goes; if they are
on different nodes both wait for each other for ever. Two replicas that share the claim do the same.

To be sure: the event or the list of pods names the other pod; it runs on another node.

Use the strategy Recreate, one replica, a StatefulSet with a claim each, or an access mode that allows several nodes.`,
	Match: multiAttachInUse,
}, {
	ID:    "attach/multi-attach-transient",
	Title: "The other node is letting the volume go right now",
	Doc: `The pod moved. Its old node unmounts and detaches the volume, then the attach follows by itself, within minutes. The Multi-Attach event
is said once and stays to be seen for an hour.

Do nothing but wait.`,
	Match: multiAttachTransient,
}, {
	ID:    "attach/stale-attachment",
	Title: "A left-over attachment holds the volume where nothing uses it",
	Doc: `A VolumeAttachment says that the volume is attached to a node where no pod uses it and where the kubelet does not list it in use, and nobody
asked it to go: the attach-detach controller has lost track, after a restart or a failed detach. Or it was made for another machine
that had the node's name before.

To be sure: no pod of the claim on that node, the volume is not in its status.volumesInUse, and the attachment has no deletion time.

Deleting a VolumeAttachment asks the driver to detach. Before, prove on the node itself that nothing is mounted from the volume.
Never remove its finalizer: the disk stays attached then, and nobody knows.`,
	Match: staleAttachment,
}}

// heldElsewhere gives the nodes that hold the volume where that keeps the view's pod from its node. Unknown: there may be others.
func (v *View) heldElsewhere() ([]holder, Truth) {
	if !v.at(HopAttach) {
		return nil, Yes
	}
	if !v.exclusive() && !v.saidExclusive() {
		return nil, read(v.pvKnown)
	}
	if at, known := v.attachment(v.Node); known == Yes && (at.DeletionTimestamp != nil || at.Status.Attached) {
		return nil, Yes
	}
	return v.holders()
}

// attachedElsewhere: the volume may be attached to one node only, and is to another one than the view's.
func (v *View) attachedElsewhere() bool {
	all, known := v.attachments()
	to := func(own bool) bool {
		return slices.ContainsFunc(all, func(at *storagev1.VolumeAttachment) bool { return (at.Spec.NodeName == v.Node) == own })
	}
	return known == Yes && v.exclusive() && to(false) && !to(true)
}

// firstHolder is the first holder that fits; a Match of this family ends with No or Unknown when none does.
func firstHolder(held []holder, known Truth, fits func(holder) Truth) (*holder, Truth) {
	best := min(known.not(), Unknown)
	for i := range held {
		switch fits(held[i]) {
		case Yes:
			return &held[i], Yes
		case Unknown:
			best = Unknown
		}
	}
	return nil, best
}

// holdFinding begins a finding about a holder.
func (v *View) holdFinding(h *holder, why string, ev ...Evidence) Finding {
	f := Finding{Why: why, Evidence: append([]Evidence{h.evidence()}, ev...)}
	if t := v.attachEvent(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	v.asHop(&f)
	return f
}

// asHop gives a finding the status of the hop where the chain stops.
func (v *View) asHop(f *Finding) {
	if h := v.hop(v.block); h.Status == StatusWaiting {
		f.Status, f.Until = StatusWaiting, h.Until
	}
}

func multiAttachNodeDead(v *View) (Finding, Truth) {
	held, known := v.heldElsewhere()
	h, t := firstHolder(held, known, func(h holder) Truth {
		if h.leaving() {
			return No
		}
		return h.Ready.not()
	})
	if h == nil {
		f, dead := v.heldByDeadMachine()
		return f, dead.or(t)
	}
	if _, pending := v.forceDetach(*h); pending == Unknown {
		return Finding{}, Unknown
	}
	state := "is not Ready"
	if h.known == No {
		state = "does not exist any more"
	}
	if !h.Since.IsZero() {
		state += fmt.Sprintf(" since %s (%s)", h.Since.UTC().Format("15:04:05Z"), ago(v.age(h.Since)))
	}
	why := fmt.Sprintf("Volume %s is attached to node %s, which %s: nobody can confirm that nothing there still writes to it.", v.volumeName(), h.Name, state)
	if len(h.Pods) > 0 {
		why += fmt.Sprintf(" Pod %s is still counted there.", podNames(h.Pods))
	}
	f := v.holdFinding(h, why, h.Why)
	f.Confidence = Certain
	if h.known == Unknown {
		f.Confidence = Likely
	}
	f.Fix = v.freeFromDead(h)
	return v.living(f, h.Name), Yes
}

// freeFromDead are the steps that free a volume from a machine that does not answer, the proof first.
func (v *View) freeFromDead(h *holder) []Step {
	steps := []Step{
		v.look("See since when the node does not answer, and why", "describe", "node", h.Name),
		say(fmt.Sprintf("If machine %s can come back, bring it back: the volume is let go by itself. Otherwise make sure in the console of the cloud or hypervisor that the machine is powered off, not only cut off from the network.", h.Name)),
	}
	if h.known == No && h.At != nil {
		return append(steps, v.look("The node's object is gone: see whether the VolumeAttachment is being deleted; the attach-detach controller does that about 6 minutes after the last pod on the node is gone", "get", "volumeattachment", h.At.Name, "-o", "yaml"))
	}
	return append(steps,
		v.act(DangerDataLoss, "the machine is powered off, which the step before has shown", "Tell Kubernetes that the machine is off: its pods are removed and its volumes detached", "taint", "nodes", h.Name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"),
		say("Before the machine is switched on again, take the taint node.kubernetes.io/out-of-service off the node."))
}

func multiAttachTerminating(v *View) (Finding, Truth) {
	held, known := v.heldElsewhere()
	h, t := firstHolder(held, known, func(h holder) Truth {
		if h.leaving() || len(h.dying()) == 0 || len(h.running()) > 0 || h.Ready == No || v.age(h.dying()[0].DeletionTimestamp.Time) < 0 {
			return No
		}
		return Yes
	})
	if h == nil {
		return Finding{}, t
	}
	pod := h.dying()[0]
	gone := v.age(pod.DeletionTimestamp.Time)
	_, eventsKnown := v.eventsOf("Pod", pod.Namespace, pod.Name, string(pod.UID))
	if _, own := v.node(v.Node); h.Ready == Unknown && (own == Yes || eventsKnown == Unknown) {
		return Finding{}, Unknown // only that node's object is missing, and it decides; where no node can be read this is what is left
	}
	if gone >= normalTeardown && h.Ready == Yes {
		_, kills := v.killTrouble(pod)
		if _, known := v.report(h.Name); known == Unknown || ended(pod) && kills == Unknown {
			return Finding{}, Unknown // it may show what keeps the pod
		}
	}
	f := v.holdFinding(h, fmt.Sprintf("Volume %s is attached to node %s, where pod %s should have ended %s ago and still holds it.", v.volumeName(), h.Name, podNames(h.dying()), ago(gone)),
		fact(ref(pod), "metadata.deletionTimestamp", pod.DeletionTimestamp.UTC().Format(time.RFC3339), pod.DeletionTimestamp.Time))
	f.Status, f.Until = StatusStuck, nil
	if gone < normalTeardown {
		f.Status, f.Until = StatusWaiting, moment(pod.DeletionTimestamp.Add(normalTeardown))
	}
	f.Fix = []Step{v.look("See what the old pod waits for", "-n", pod.Namespace, "describe", "pod", pod.Name),
		v.look("Ask about the old pod", "csidoctor", "pod", pod.Name, "-n", pod.Namespace),
		say("The volume follows by itself when the old pod is gone. Do not force the pod's deletion: it may still write.")}
	return f, Yes
}

func multiAttachInUse(v *View) (Finding, Truth) {
	held, known := v.heldElsewhere()
	h, t := firstHolder(held, known, func(h holder) Truth {
		if h.leaving() || len(h.running()) == 0 || h.Ready == No {
			return No
		}
		return Yes
	})
	if h == nil && t == Unknown {
		return v.heldByNamed()
	}
	if h == nil {
		return Finding{}, t
	}
	pods := h.running()
	f := v.holdFinding(h, fmt.Sprintf("Volume %s may be attached to one node only, and pod %s uses it on node %s.", v.volumeName(), podNames(pods), h.Name),
		fact(ref(pods[0]), "spec.nodeName", h.Name, pods[0].CreationTimestamp.Time))
	if v.PV != nil {
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.accessModes", accessModes(v.PV.Spec.AccessModes), time.Time{}))
	} else {
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "status.accessModes", accessModes(v.Claim.Status.AccessModes), time.Time{}))
	}
	f.Confidence = Certain
	f.Fix = []Step{v.look("See which pods use the claim, and who owns them", "-n", v.Namespace, "get", "pods", "-o", "wide"),
		say("Decide which of the pods shall have the volume. For several replicas give each its own claim, or use an access mode for several nodes if the driver has one."),
		hazard(DangerDisruptive, "the pod that has the volume may stop", "For a Deployment set the strategy Recreate and one replica, so that the old pod goes before the new one comes."),
	}
	return f, Yes
}

// usedByPods is the attach-detach controller's list of who has the volume, of pods in the claim's namespace (reconciler reportMultiAttachError).
var usedByPods = regexp.MustCompile(`Multi-Attach error for volume .*already used by pod\(s\) ([a-z0-9., -]+)`)

// heldOff is the attach-detach controller's word that the volume is attached elsewhere, unless it succeeded since.
func (v *View) heldOff() *trouble {
	if t := v.attachEvent(); t != nil && strings.Contains(t.Text, "Multi-Attach error") {
		return t
	}
	return nil
}

// heldByNamed: neither nodes nor attachments can be read, and a pod that the attach-detach controller names as the holder works: its
// node's kubelet says so, for a pod is not Ready on a node that does not answer.
func (v *View) heldByNamed() (Finding, Truth) {
	t := v.heldOff()
	if t == nil {
		return Finding{}, Unknown
	}
	m := usedByPods.FindStringSubmatch(t.Text)
	if m == nil {
		return Finding{}, Unknown
	}
	users, _ := v.podsOfClaim()
	for _, p := range users {
		if !slices.Contains(strings.Split(m[1], ", "), p.Name) || !ready(p) || p.DeletionTimestamp != nil || p.Spec.NodeName == v.Node {
			continue
		}
		if works, _ := v.nodeReady(p.Spec.NodeName); works == No {
			continue
		}
		return Finding{Evidence: []Evidence{t.Evidence, fact(ref(p), "spec.nodeName", p.Spec.NodeName+", Ready", p.CreationTimestamp.Time)},
			Why: fmt.Sprintf("Volume %s may be attached to one node only, and pod %s/%s, which works, uses it on node %s.", v.volumeName(), p.Namespace, p.Name, p.Spec.NodeName),
			Fix: []Step{v.look("See which pods use the claim, and who owns them", "-n", v.Namespace, "get", "pods", "-o", "wide"),
				hazard(DangerDisruptive, "the pod that has the volume may stop", "For a Deployment set the strategy Recreate and one replica, so that the old pod goes before the new one comes.")}}, Yes
	}
	return Finding{}, Unknown
}

func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range modes {
		out = append(out, string(m))
	}
	return strings.Join(out, ", ")
}

func multiAttachTransient(v *View) (Finding, Truth) {
	held, known := v.heldElsewhere()
	var until time.Time
	var why string
	var ev Evidence
	h, t := firstHolder(held, known, func(h holder) Truth {
		switch {
		case h.leaving():
			if h.At.Status.DetachError != nil || v.age(h.At.DeletionTimestamp.Time) >= normalAttach {
				return No
			}
			until = h.At.DeletionTimestamp.Add(normalAttach)
			why = fmt.Sprintf("its detach from there began %s ago", ago(v.age(h.At.DeletionTimestamp.Time)))
			ev = fact(ref(h.At), "metadata.deletionTimestamp", h.At.DeletionTimestamp.UTC().Format(time.RFC3339), h.At.DeletionTimestamp.Time)
			return Yes
		case len(h.running()) > 0 || h.Ready != Yes && !h.outOfService():
			return No
		case len(h.dying()) > 0:
			p := h.dying()[0]
			if v.age(p.DeletionTimestamp.Time) >= 0 {
				return No
			}
			until = p.DeletionTimestamp.Add(normalTeardown)
			why = fmt.Sprintf("pod %s there has until %s to end", podNames(h.dying()), p.DeletionTimestamp.UTC().Format("15:04:05Z"))
			ev = fact(ref(p), "metadata.deletionTimestamp", p.DeletionTimestamp.UTC().Format(time.RFC3339), p.DeletionTimestamp.Time)
			return Yes
		case v.age(v.scheduledAt()) < normalAttach:
			until = v.scheduledAt().Add(normalAttach)
			why = "no pod uses it there any more"
			if ev = h.evidence(); h.At != nil {
				ev = fact(ref(h.At), "status.attached", fmt.Sprint(h.At.Status.Attached), time.Time{})
			}
			return Yes
		}
		return No
	})
	if h == nil {
		return Finding{}, t
	}
	f := v.holdFinding(h, fmt.Sprintf("Volume %s is still attached to node %s, which is letting it go: %s.", v.volumeName(), h.Name, why), ev)
	f.Status, f.Until = StatusWaiting, &until
	f.Confidence = Certain
	f.Fix = []Step{say("Wait: the attach follows by itself."), v.look("Watch the attachments", "get", "volumeattachments")}
	return f, Yes
}

func staleAttachment(v *View) (Finding, Truth) {
	if f, t := v.attachedToOtherMachine(); t != No {
		return f, t
	}
	held, known := v.heldElsewhere()
	h, t := firstHolder(held, known, func(h holder) Truth {
		if h.leaving() || len(h.Pods) > 0 {
			return No
		}
		return h.Ready.and(h.InUse.not())
	})
	if h == nil {
		return v.heldUnseen(held, t)
	}
	why := fmt.Sprintf("Volume %s is attached to node %s, where no pod uses it and the kubelet does not list it in use, and nobody has asked for its detach.", v.volumeName(), h.Name)
	f := v.holdFinding(h, why, fact(ref(h.Node), "status.volumesInUse", "does not list it", time.Time{}))
	f.Confidence = Certain
	if v.otherMachine(h.At) == Yes {
		entry, _ := v.registered(h.Name)
		f.Why += fmt.Sprintf(" It was made for another machine of that name: %s, where the node is %s now.", h.At.Annotations[annNodeID], entry.NodeID)
		f.Evidence = append(f.Evidence, fact(ref(h.At), "metadata.annotations["+annNodeID+"]", h.At.Annotations[annNodeID], h.At.CreationTimestamp.Time))
	}
	if stale, ev := v.controllerManagerDown(); stale {
		f.Why += " The kube-controller-manager, whose work that is, is not at work."
		f.Evidence = append(f.Evidence, ev)
	}
	f.Fix = append([]Step{
		v.look("See the attachment", "get", "volumeattachment", h.At.Name, "-o", "yaml"),
		say("A restart of the kube-controller-manager makes it read all attachments again; it then asks for the detach of those that nobody needs. That is the safe way."),
	}, v.deleteAttachment(h.At.Name, h.Name)...)
	return f, Yes
}

// heldUnseen: an attachment holds the volume where no pod uses it, and no node at all can be read, not even the pod's own: so it
// stays open whether its node works and still has the volume.
func (v *View) heldUnseen(held []holder, t Truth) (Finding, Truth) {
	if _, own := v.node(v.Node); own != Unknown || t != Unknown || len(held) != 1 || len(held[0].Pods) > 0 || held[0].leaving() || v.hop(HopAttach).Status == StatusWaiting {
		return Finding{}, t
	}
	h := &held[0]
	f := v.holdFinding(h, fmt.Sprintf("Volume %s is attached to node %s, where no pod uses it, and nobody has asked for its detach. Whether that node works, and whether it still has the volume in use, could not be read.", v.volumeName(), h.Name))
	f.Confidence = Possible
	f.Fix = []Step{v.look("See whether the node is Ready and lists the volume in use, or let somebody look who may", "get", "node", h.Name, "-o", "yaml"), v.look("See the attachment", "get", "volumeattachment", h.At.Name, "-o", "yaml")}
	return f, Yes
}

// deleteAttachment asks for a detach by hand, after the proof that nothing uses the volume.
func (v *View) deleteAttachment(name, node string) []Step {
	return []Step{
		onNode(node, "prove that nothing is mounted from the volume, in no mount namespace: this must show nothing", "sh", "-c", "grep -sF -e "+quote(v.volumeName())+" -e "+quote(v.Handle)+" -e "+quote(stagingFolder(v.Driver, v.Handle))+" /proc/[0-9]*/mountinfo"),
		v.act(DangerDataLoss, "the step before has shown nothing", "Ask for the detach by hand", "delete", "volumeattachment", name),
	}
}

// attachedToOtherMachine: the pod's own node has an attachment that was made for another machine of its name.
func (v *View) attachedToOtherMachine() (Finding, Truth) {
	if !v.at(HopAttach, HopStage) || v.Node == "" {
		return Finding{}, No
	}
	at, known := v.attachment(v.Node)
	if known != Yes {
		return Finding{}, known
	}
	if other := v.otherMachine(at); other != Yes || at.DeletionTimestamp != nil {
		return Finding{}, other.and(truth(at.DeletionTimestamp == nil))
	}
	entry, _ := v.registered(v.Node)
	f := Finding{Confidence: Certain,
		Why: fmt.Sprintf("The VolumeAttachment of volume %s was made for machine %s; node %s is machine %s now, so the disk is not attached to it.", v.volumeName(), at.Annotations[annNodeID], v.Node, entry.NodeID),
		Evidence: []Evidence{fact(ref(at), "metadata.annotations["+annNodeID+"]", at.Annotations[annNodeID], at.CreationTimestamp.Time),
			fact(Object{Kind: "CSINode", Name: v.Node}, "spec.drivers["+v.Driver+"].nodeID", entry.NodeID, time.Time{})}}
	if t := v.mountTrouble(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	v.asHop(&f)
	f.Fix = append([]Step{say(fmt.Sprintf("See in the backend's console that machine %s is gone, or that it does not use the volume.", at.Annotations[annNodeID])),
		v.look("See the pods that use the claim, and their owners: they must not run", "-n", v.Namespace, "get", "pods", "-o", "wide")}, v.deleteAttachment(at.Name, v.Node)...)
	f.Fix = append(f.Fix, say("The attach-detach controller makes a new VolumeAttachment, for the machine that the node is now."))
	return f, Yes
}

// controllerManagerDown: the lease of the kube-controller-manager is stale. Where it has none to be seen, nothing is said.
func (v *View) controllerManagerDown() (bool, Evidence) {
	leases, _ := list[*coordinationv1.Lease](v.world, inLeases, snapshot.Query{Fields: "metadata.name=kube-controller-manager"})
	for _, l := range leases {
		if renewed := renewedAt(l); l.Namespace == "kube-system" && !renewed.IsZero() && v.taken.Sub(renewed) > normalUntouched {
			return true, fact(ref(l), "spec.renewTime", renewed.UTC().Format(time.RFC3339), renewed)
		}
	}
	return false, Evidence{}
}

// heldByDeadMachine: the backend names the machine that has the volume, and it is a node that does not answer.
func (v *View) heldByDeadMachine() (Finding, Truth) {
	t, _ := v.attachSays()
	if t == nil {
		return Finding{}, No
	}
	cause, text := attachTold(t)
	if cause != "attach/held-outside" {
		return Finding{}, No
	}
	for _, name := range v.machinesIn(text) {
		ready, condition := v.nodeReady(name)
		if ready == Unknown {
			return Finding{}, Unknown
		}
		if ready == Yes {
			continue
		}
		h := &holder{Name: name, known: Yes}
		state := "does not exist any more"
		if condition != nil {
			state, h.Since = "is not Ready", condition.LastTransitionTime.Time
		}
		f := Finding{Confidence: Likely, Status: v.settled(t), Evidence: []Evidence{t.Evidence, fact(Object{Kind: "Node", Name: name}, "status.conditions[Ready]", state, h.Since)},
			Why: fmt.Sprintf("The backend has volume %s attached to the machine of node %s, which %s: nobody can confirm that nothing there still writes to it. %s says: %s", v.volumeName(), name, state, v.Driver, text)}
		f.Fix = v.freeFromDead(h)
		return f, Yes
	}
	_, known := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	return Finding{}, min(known.not(), Unknown)
}

// machinesIn are the other nodes whose name, or id for the driver, stands in a text.
func (v *View) machinesIn(text string) []string {
	nodes, _ := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	var out []string
	for _, n := range nodes {
		if n.Name != v.Node && v.namedIn(text, n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// namedIn: the text names the node, or the machine that it is for the driver.
func (v *View) namedIn(text string, n *storagev1.CSINode) bool {
	if names(text, n.Name) {
		return true
	}
	for _, d := range n.Spec.Drivers {
		if d.Name == v.Driver && names(text, d.NodeID) {
			return true
		}
	}
	return false
}
