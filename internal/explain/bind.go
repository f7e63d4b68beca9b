package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What the scheduler says when no volume fits an unbound claim on a node (plugins/volumebinding, ErrReasonBindConflict).
var noVolumeFits = regexp.MustCompile(`didn't find available persistent volumes to bind`)

// bindHop: PVC and PV point at each other.
func bindHop(v *View) Hop {
	if v.Inline != nil {
		return skippedHop("inline volume")
	}
	if v.Claim == nil {
		return laterHop("")
	}
	if v.bound() {
		return okHop("")
	}
	if v.goingClaim() {
		return skippedHop("the claim is being deleted")
	}
	if !v.passed(HopClaim, HopProvision) {
		return laterHop("")
	}
	o := v.claimObject()
	since := v.Claim.CreationTimestamp.Time
	when, _, made := v.made()
	if v.Claim.Spec.VolumeName == "" && v.waitsForConsumer() == Yes && made == No { // the scheduler chooses a hand-made volume with the node
		switch {
		case v.Pod == nil:
			return Hop{Status: StatusWaiting, Since: moment(since), Object: &o, Note: "waits for a pod that uses the claim", reached: true}
		case v.Node != "":
			return Hop{Status: StatusStuck, Since: moment(since), Object: &o, Note: "nobody chooses a volume for a pod that was placed by hand", reached: true}
		case !noVolumeFits.MatchString(v.unschedulable()):
			return laterHop("the scheduler chooses the volume")
		}
		since = v.Pod.CreationTimestamp.Time
	}
	if made != No {
		since = when
	}
	return v.openHop(since, normalBind, o, "no volume is bound")
}

// made is the volume that a provisioner says it made for the claim, when it is not bound yet: when that was said, and the
// volume, Unknown when it could not be read.
func (v *View) made() (time.Time, *corev1.PersistentVolume, Truth) {
	events, _ := v.claimEvents()
	var last report
	for _, r := range events {
		if r.Reason == "ProvisioningSucceeded" || r.Reason == "ProvisioningFailed" {
			last = r
		}
	}
	m := madeVolume.FindStringSubmatch(last.Message)
	if m == nil || v.Claim.Spec.VolumeName != "" {
		return time.Time{}, nil, No
	}
	pv, known := get[*corev1.PersistentVolume](v.world, inVolumes, "", m[1])
	return last.Last, pv, known
}

var madeVolume = regexp.MustCompile(`Successfully provisioned volume (\S+)`)

// unschedulable is what the scheduler says of the pod, in full.
func (v *View) unschedulable() string {
	if c := v.unscheduled(); c != nil {
		return c.Message
	}
	return ""
}

// unscheduled is the pod's PodScheduled condition while it has no node.
func (v *View) unscheduled() *corev1.PodCondition {
	if v.Pod == nil {
		return nil
	}
	if c := podCondition(v.Pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c
	}
	return nil
}

var bindCauses = []Cause{{
	ID:    "bind/pv-missing",
	Title: "The claim names a volume that does not exist",
	Doc: `A claim with spec.volumeName waits for exactly that PersistentVolume, without a word. It never was bound, so nothing is lost.

To be sure: ` + "`kubectl get pv`" + ` does not list the name, and the claim lacks pv.kubernetes.io/bind-completed (with it: claim/lost).

A volume restored from a backup often has another name, or is not restored at all: look for it by its handle.`,
	Match: pvMissing,
}, {
	ID:    "bind/claimref-broken",
	Title: "The volume's claimRef is incomplete or names a claim that does not exist",
	Doc: `A volume whose claimRef has no name or no namespace, or the wrong one, is reserved for a claim that cannot exist. It stays
Available and binds to nobody.

To be sure: compare spec.claimRef of the volume with namespace and name of the claim.

Correct namespace and name and leave uid and resourceVersion out: the PV controller fills them in.`,
	Match: claimRefBroken,
}, {
	ID:    "bind/pv-released",
	Title: "The volume that fits is Released: it still belongs to an older claim",
	Doc: `When a claim is deleted and the reclaim policy is Retain, the volume keeps the old claim's uid in its claimRef so that nobody
takes the data by accident. A new claim is another one, even with the same name and namespace.

To be sure: the volume's phase is Released, and claimRef.uid is not the uid of the claim.

Look at what the volume holds first. Then clear only uid and resourceVersion of claimRef, so that name and namespace still
reserve it for the new claim: without a claimRef any claim may take it.`,
	Match: pvReleased,
}, {
	ID:    "bind/pv-claimed",
	Title: "The volume belongs to another claim",
	Doc: `The volume that the claim names, or the only ones that fit, are bound to or reserved for another claim.

To be sure: the volume's claimRef names the other claim.

Never edit the claimRef of a volume whose claim still uses it: two claims on one volume end with one of them Lost.`,
	Match: pvClaimed,
}, {
	ID:    "bind/no-matching-pv",
	Title: "No volume fits the claim",
	Doc: `A claim binds to a volume only when class (the same text, empty counts), size, access modes, volume mode, labels (selector) and
the nodes that it is reachable from all fit. Nothing makes a volume for this claim.

To be sure: compare the fields named in the answer; the claim's VolumeMismatch event names the first that differs.

A claim that was never bound holds no data and can be made again; the volume's data is not touched by that.`,
	Match: noMatchingPV,
}, {
	ID:    "bind/conflict-in-progress",
	Title: "The claim is being bound",
	Doc: `A volume that fits is there, and the PV controller binds in a few seconds; after a conflict it tries again within 15 seconds.

If it takes longer than a minute, look at kube-controller-manager.`,
	Match: bindingInProgress,
}}

func pvMissing(v *View) (Finding, Truth) {
	if !v.at(HopBind) || v.Claim.Spec.VolumeName == "" || v.wasBound() || v.pvKnown != No {
		return Finding{}, v.namedUnknown()
	}
	f := v.asBlock(Finding{Confidence: Certain,
		Why:      fmt.Sprintf("The claim waits for volume %s, and there is no PersistentVolume of that name.", v.Claim.Spec.VolumeName),
		Evidence: []Evidence{fact(v.claimObject(), "spec.volumeName", v.Claim.Spec.VolumeName, v.Claim.CreationTimestamp.Time)}})
	f.Fix = []Step{v.look("See which volumes there are", "get", "pv"),
		say("Make the PersistentVolume under this name (with the handle of the disk or share), or make the claim again without volumeName: it was never bound, so it holds no data.")}
	return f, Yes
}

// namedUnknown: what is told of a claim that names a volume which could not be read.
func (v *View) namedUnknown() Truth {
	if v.at(HopBind) && v.Claim.Spec.VolumeName != "" && v.pvKnown == Unknown {
		return Unknown
	}
	return No
}

// wanted are the candidates where the chain stops at bind, or where a claim with a selector fell to a class that makes volumes.
func (v *View) wantedVolumes() (candidates, Truth) {
	if !v.at(HopBind) && !(v.at(HopProvision) && v.Claim.Spec.Selector != nil) {
		return candidates{}, Yes
	}
	c, known := v.candidates()
	if v.at(HopProvision) && !c.selected {
		return candidates{}, known
	}
	if c.unsure {
		return c, Unknown
	}
	return c, known
}

func claimRefBroken(v *View) (Finding, Truth) {
	c, known := v.wantedVolumes()
	if len(c.broken) == 0 || len(c.free) > 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	pv := c.broken[0]
	r := pv.Spec.ClaimRef
	text := fmt.Sprintf("namespace %q, name %q, uid %q", r.Namespace, r.Name, r.UID)
	f := v.asBlock(Finding{Confidence: Certain,
		Why:      fmt.Sprintf("Volume %s fits claim %s/%s, and its claimRef (%s) names a claim that does not exist, so it binds to nobody.", pv.Name, v.Namespace, v.ClaimName, text),
		Evidence: []Evidence{fact(ref(pv), "spec.claimRef", text, time.Time{}), fact(ref(pv), "status.phase", string(pv.Status.Phase), time.Time{})}})
	f.Fix = []Step{v.look("See the volume's claimRef", "get", "pv", pv.Name, "-o", "yaml"),
		v.act(DangerDisruptive, "no other claim is meant to have the volume", "Reserve the volume for this claim", "patch", "pv", pv.Name, "--type", "merge", "-p", claimRefPatch(v.Namespace, v.ClaimName))}
	return f, Yes
}

// claimRefPatch reserves a volume for a claim and leaves the rest to the PV controller.
func claimRefPatch(namespace, name string) string {
	return fmt.Sprintf(`{"spec":{"claimRef":{"namespace":%q,"name":%q,"uid":null,"resourceVersion":null}}}`, namespace, name)
}

func pvReleased(v *View) (Finding, Truth) {
	c, known := v.wantedVolumes()
	if len(c.released) == 0 || len(c.free) > 0 || len(c.broken) > 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	pv := c.released[0]
	r := pv.Spec.ClaimRef
	old := fmt.Sprintf("claim %s/%s", r.Namespace, r.Name)
	if r.Namespace == v.Namespace && r.Name == v.ClaimName {
		old = fmt.Sprintf("an older claim of the same name (uid %s, this one has uid %s)", r.UID, v.Claim.UID)
	}
	f := v.asBlock(Finding{Confidence: Certain,
		Why: fmt.Sprintf("Volume %s fits, and is %s: its claimRef still holds %s, and its reclaim policy is %s.", pv.Name, pv.Status.Phase, old, pv.Spec.PersistentVolumeReclaimPolicy),
		Evidence: []Evidence{fact(ref(pv), "status.phase", string(pv.Status.Phase), time.Time{}), fact(ref(pv), "spec.claimRef", fmt.Sprintf("%s/%s uid %s", r.Namespace, r.Name, r.UID), time.Time{}),
			fact(v.claimObject(), "metadata.uid", string(v.Claim.UID), v.Claim.CreationTimestamp.Time)}})
	if len(c.released) > 1 {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "PersistentVolume"}, "also Released and fitting", volumeNames(c.released[1:]), time.Time{}))
	}
	f.Fix = []Step{
		v.look("See whose data the volume holds and what happens to it", "get", "pv", pv.Name, "-o", "yaml"),
		v.look("See that nobody uses it any more", "get", "volumeattachments"),
		v.act(DangerDisruptive, "the data on the volume is meant for this claim, and no other claim or pod needs it", "Give the volume to this claim: clear the old claim's uid and keep name and namespace, so that nobody else takes it",
			"patch", "pv", pv.Name, "--type", "merge", "-p", claimRefPatch(v.Namespace, v.ClaimName)),
	}
	return f, Yes
}

func volumeNames(pvs []*corev1.PersistentVolume) string {
	var out []string
	for _, pv := range pvs {
		out = append(out, pv.Name)
	}
	return strings.Join(out, ", ")
}

func pvClaimed(v *View) (Finding, Truth) {
	c, known := v.wantedVolumes()
	if c.unsure || len(c.claimed) == 0 || c.barred || c.usedUp(v) || len(c.free)+len(c.broken)+len(c.released) > 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	pv := c.claimed[0]
	r := pv.Spec.ClaimRef
	f := v.asBlock(Finding{Confidence: Certain,
		Why:      fmt.Sprintf("Volume %s fits and is %s for claim %s/%s.", pv.Name, map[bool]string{true: "bound", false: "reserved"}[pv.Status.Phase == corev1.VolumeBound], r.Namespace, r.Name),
		Evidence: []Evidence{fact(ref(pv), "spec.claimRef", fmt.Sprintf("%s/%s uid %s", r.Namespace, r.Name, r.UID), time.Time{}), fact(ref(pv), "status.phase", string(pv.Status.Phase), time.Time{})}})
	if v.Claim.Spec.VolumeName != "" {
		f.Why = fmt.Sprintf("The claim names volume %s, which belongs to claim %s/%s.", pv.Name, r.Namespace, r.Name)
	}
	f.Fix = []Step{v.look("See the claim that has it, and who uses that", "get", "pvc", r.Name, "-n", r.Namespace, "-o", "wide"),
		say("Make another volume for this claim, or let go of the other claim when its data is not needed any more. Do not edit the claimRef of a volume in use.")}
	return f, Yes
}

// usedUp: several volumes would do, or a free one but for one thing, nobody means one of them, and those that fit are bound: there
// is none for this claim.
func (c candidates) usedUp(v *View) bool {
	several := len(c.claimed) > 1 || len(c.claimed) == 1 && len(c.near) > 0 && len(c.near[0].why) == 1
	return several && v.Claim.Spec.VolumeName == "" && !c.selected && !slices.ContainsFunc(c.claimed, func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase != corev1.VolumeBound })
}

func noMatchingPV(v *View) (Finding, Truth) {
	c, known := v.wantedVolumes()
	if known == Unknown {
		r := bindTrouble(v)
		if !v.at(HopBind) || v.pvKnown == Yes || r == nil || !noneAvailable.MatchString(r.Message) {
			return Finding{}, Unknown
		}
		return v.asBlock(Finding{Rest: true, Said: true, Confidence: Possible, Evidence: []Evidence{fact(v.claimObject(), "spec", v.asks(), v.Claim.CreationTimestamp.Time), r.evidence()},
			Why: fmt.Sprintf("The claim waits for a hand-made volume that fits (%s), and kube-controller-manager finds none. Which volumes there are could not be read.", v.asks()),
			Fix: []Step{say("Ask who may see PersistentVolumes and StorageClasses which of them the claim is to have, and compare class, size, access modes, volume mode and labels.")}}), Yes
	}
	unreachable := v.at(HopBind) && noVolumeFits.MatchString(v.unschedulable())
	if !v.at(HopBind) && !c.selected || v.pvKnown == No && v.Claim.Spec.VolumeName != "" {
		return Finding{}, No
	}
	if reserved := len(c.broken)+len(c.released) > 0 || len(c.claimed) > 0 && !c.barred && !c.usedUp(v); len(c.free) > 0 && !unreachable || len(c.free) == 0 && reserved {
		return Finding{}, No
	}
	if _, _, made := v.made(); made != No || v.at(HopBind) && v.waitsForConsumer() == Yes && v.Claim.Spec.VolumeName == "" && (v.Pod == nil || v.Node != "") {
		return Finding{}, No
	}
	f := v.asBlock(Finding{Confidence: Certain, Evidence: []Evidence{fact(v.claimObject(), "spec", v.asks(), v.Claim.CreationTimestamp.Time)}})
	for _, pv := range c.free { // only the nodes are wrong
		c.near = append(c.near, nearVolume{pv, []string{"the scheduler finds no node for the pod that reaches it (" + affinity(pv) + ")"}})
	}
	f.Evidence = append(f.Evidence, c.evidence(5)...)
	if t := bindTrouble(v); t != nil {
		f.Evidence = append(f.Evidence, t.evidence())
	}
	switch {
	case v.Claim.Spec.VolumeName != "":
		f.Why = fmt.Sprintf("The claim names volume %s, and cannot be bound to it: %s.", v.Claim.Spec.VolumeName, c.first())
	case c.usedUp(v) && len(c.claimed) > 1:
		f.Why = fmt.Sprintf("The claim waits for a hand-made volume that fits (%s), and all %d belong to other claims: %s.", v.asks(), len(c.claimed), volumeNames(c.claimed))
	case len(c.near) > 0 && v.at(HopProvision):
		f.Why = fmt.Sprintf("The claim has a selector, which volume %s matches, and was given class %s, whose provisioner does not know selectors: %s.", c.near[0].pv.Name, v.className(), c.first())
	case len(c.near) > 0:
		f.Why = fmt.Sprintf("The claim waits for a hand-made volume that fits (%s); the nearest is %s: %s.", v.asks(), c.near[0].pv.Name, c.first())
		if n := len(c.near); n > 1 {
			f.Why += fmt.Sprintf(" %d others differ too.", n-1)
		}
	default:
		f.Why = fmt.Sprintf("The claim waits for a hand-made volume that fits (%s), and there is none.", v.asks())
	}
	if name, named := className(v.Claim); v.at(HopBind) && named && name == "" {
		f.Why += " It asks for the empty class, so no default class makes one."
	}
	f.Fix = []Step{v.look("Compare class, size, access modes, volume mode and labels", "get", "pv", "-o", "wide", "--show-labels"),
		say("Correct the volume, or make the claim again with matching fields: it was never bound, so it holds no data. Class names must be the same text; a volume without a class is asked for with storageClassName: \"\".")}
	return f, Yes
}

// noneAvailable is the PV controller's word on a claim without a class for which no volume is free (syncUnboundClaim).
var noneAvailable = regexp.MustCompile(`no persistent volumes available for this claim`)

// bindTrouble is the PV controller's last word why it does not bind.
func bindTrouble(v *View) *report {
	events, _ := v.claimEvents()
	var last *report
	for _, r := range events {
		if r.Reason == "VolumeMismatch" || r.Reason == "FailedBinding" {
			last = &r
		}
	}
	return last
}

func bindingInProgress(v *View) (Finding, Truth) {
	if !v.at(HopBind) || v.hop(HopBind).Status != StatusWaiting {
		return Finding{}, No
	}
	c, known := v.wantedVolumes()
	_, pv, made := v.made()
	if made == Unknown {
		return Finding{}, Unknown
	}
	if pv == nil && len(c.free) > 0 && !c.unsure {
		pv = c.free[0]
	}
	if pv == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	return v.asBlock(Finding{Confidence: Likely, Why: fmt.Sprintf("Volume %s fits the claim, and the PV controller binds the two in a moment.", pv.Name),
		Evidence: []Evidence{fact(ref(pv), "status.phase", string(pv.Status.Phase), pv.CreationTimestamp.Time)},
		Fix:      []Step{v.look("Look again in a minute", "get", "pvc", v.ClaimName, "-n", v.Namespace)}}), Yes
}
