package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func (v *View) claimObject() Object { return Object{"PersistentVolumeClaim", v.Namespace, v.ClaimName} }

// claimHop: the PVC exists, is not Lost, and names a class that can serve it.
func claimHop(v *View) Hop {
	if v.Inline != nil {
		return skippedHop("inline volume")
	}
	o := v.claimObject()
	switch {
	case v.claimKnown == Unknown:
		return unknownHop(&o, "the claim could not be read")
	case v.claimKnown == No && v.Pod == nil:
		return Hop{Status: StatusStuck, Object: &o, Note: "does not exist", reached: true}
	case v.claimKnown == No && v.Pod.DeletionTimestamp != nil:
		return skippedHop("does not exist any more, the pod is going too")
	case v.claimKnown == No && mounted(v.Pod):
		return Hop{Status: StatusDegraded, Object: &o, Note: "does not exist any more, and the pod runs on", reached: true}
	case v.claimKnown == No:
		return v.openHop(v.Pod.CreationTimestamp.Time, normalBind, o, "does not exist")
	case v.foreignEphemeral():
		return v.openHop(v.Pod.CreationTimestamp.Time, normalBind, o, "belongs to another owner than the pod")
	case v.Claim.Status.Phase == corev1.ClaimLost:
		return Hop{Status: StatusStuck, Object: &o, Note: "Lost", reached: true}
	case v.bound() && v.pvKnown == No:
		return Hop{Status: StatusStuck, Object: &o, Note: "its volume " + v.Claim.Spec.VolumeName + " is gone", reached: true}
	case v.bound():
		return okHop("Bound to " + v.Claim.Spec.VolumeName)
	}
	name, named := className(v.Claim)
	if v.Claim.Spec.VolumeName != "" {
		if v.wasBound() && v.pvKnown == No {
			return Hop{Status: StatusStuck, Object: &o, Note: "its volume " + v.Claim.Spec.VolumeName + " is gone", reached: true}
		}
		return okHop("names the volume " + v.Claim.Spec.VolumeName)
	}
	if !named {
		if c, _ := v.candidates(); len(c.free) > 0 {
			return okHop("names no class, and a volume without a class fits")
		}
		return v.openHop(v.Claim.CreationTimestamp.Time, normalBind, o, "names no class")
	}
	if name == "" {
		return okHop("asks for a volume without a class")
	}
	if _, known := v.class(); (known == No || known == Unknown && v.classRefused() && v.classNotFound(name) != nil) && v.staticClass(name) != Yes {
		return Hop{Status: StatusStuck, Since: moment(v.Claim.CreationTimestamp.Time), Object: &Object{Kind: "StorageClass", Name: name}, Note: "the class " + name + " does not exist", reached: true}
	}
	return okHop("class " + name)
}

var claimCauses = []Cause{{
	ID:    "claim/namespace-terminating",
	Title: "The namespace is being deleted, so the claim is not made",
	Doc: `In a namespace that is being deleted the API server makes no new objects. A controller that still tries to make the claim
is refused, and the pod waits for a claim that never comes.

To be sure: the namespace has a deletionTimestamp; its conditions say what still holds it.

Do not remove the namespace's finalizers to speed it up: volumes and other things outside of the cluster would be left behind.`,
	Match: namespaceTerminating,
}, {
	ID:    "claim/quota-exceeded",
	Title: "A quota or limit of the namespace refuses the claim",
	Doc: `A ResourceQuota (number of claims, sum of storage, also for one class) or a LimitRange (size of one claim) refuses the claim
when it is made. There is no claim then, so the refusal shows only at whoever asked: StatefulSet, pod, operator.

To be sure: the owner's FailedCreate event, or the pod's FailedBinding, says "exceeded quota" or "usage per PersistentVolumeClaim".

Never delete claims to make room before you know that nobody needs their data.`,
	Match: saidNo("claim/quota-exceeded", quotaExceeded),
}, {
	ID:    "claim/denied",
	Title: "Admission refuses the claim, or a webhook that must be asked does not answer",
	Doc: `A webhook, an admission policy, a permission or the API server's own checks refuse the claim or its volume. A webhook with
failurePolicy Fail that does not answer blocks just as well, for every claim of the cluster.

To be sure: the event of the owner, the pod or the claim quotes the API server's answer with the name of the webhook or policy.

Do not delete the webhook's configuration to get going: what it protects is then unprotected. Get its pods to answer, or set
its failurePolicy, knowing what it is for.`,
	Match: saidNo("claim/denied", claimDenied),
}, {
	ID:    "claim/ephemeral-conflict",
	Title: "The claim for the pod's ephemeral volume exists already and is not the pod's",
	Doc: `The claim of a generic ephemeral volume is called <pod>-<volume> and must be owned by the pod. A claim of that name which
somebody else made, or which an older pod of the same name left, is never taken over.

To be sure: the claim's ownerReferences do not hold the pod's uid; the pod's FailedBinding event says "pod is not owner".

Do not delete the old claim before you know that its data is not needed.`,
	Match: ephemeralConflict,
}, {
	ID:    "claim/pvc-missing",
	Title: "The pod names a claim that does not exist",
	Doc: `The claim was never made, was deleted, or is called otherwise. A StatefulSet makes its claims when it makes a pod, not later.

To be sure: ` + "`kubectl get pvc`" + ` in the pod's namespace does not list the name.

Look for the volume of an older claim of the same name before you make an empty one: with reclaim policy Retain it still holds
the data.`,
	Match: pvcMissing,
}, {
	ID:    "claim/class-missing",
	Title: "The claim names a StorageClass that does not exist",
	Doc: `A claim keeps the class name that it was made with. Until a class of that name appears no provisioner looks at it, and
the API server accepts the claim all the same.

To be sure: ` + "`kubectl get storageclass`" + ` does not list the name. A PV of that class name would serve the claim without a class
object (then the fault is at bind).

Do not delete a claim that was bound before: deleting it can delete its volume. A claim that is Pending and never was bound
holds no data and can be made again with the right class.`,
	Match: classMissing,
}, {
	ID:    "claim/no-default-class",
	Title: "The claim names no StorageClass, and there is no default to take",
	Doc: `A claim without storageClassName takes the default class. Without a default it waits for one, or for a volume without a class
that fits. (An empty string is something else: it asks for a volume without a class for good.)

To be sure: the claim's spec has no storageClassName, and no class carries storageclass.kubernetes.io/is-default-class=true.

Before you make a class the default, see that its driver is installed: the claims that wait take it at once.`,
	Match: noDefaultClass,
}, {
	ID:    "claim/lost",
	Title: "The claim has lost its volume",
	Doc: `The claim was bound once. Its PV object is gone, or is bound to another claim. Kubernetes does not look for another volume.

To be sure: the claim's phase is Lost, or it carries pv.kubernetes.io/bind-completed and the PV that it names does not exist.

The data may still exist in the backend (reclaim policy Retain, or a PV removed by force). Do not delete the claim before you
know where the volume is: a PV made by hand with the old handle can serve a new claim.`,
	Match: claimLost,
}}

func classMissing(v *View) (Finding, Truth) {
	if !v.at(HopClaim, HopProvision) || v.Claim == nil || v.bound() || v.Claim.Spec.VolumeName != "" {
		return Finding{}, No
	}
	name, named := className(v.Claim)
	if !named || name == "" {
		return Finding{}, No
	}
	word := v.classNotFound(name)
	switch _, known := v.class(); {
	case known == Yes, known == Unknown && word == nil && v.takenUp():
		return Finding{}, No
	case known == Unknown && word == nil:
		return Finding{}, Unknown
	}
	static := v.staticClass(name)
	if static == Yes || static == Unknown && word == nil {
		return Finding{}, static.not()
	}
	field := "spec.storageClassName"
	if _, ok := v.Claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		field = "metadata.annotations[" + corev1.BetaStorageClassAnnotation + "]"
	}
	classes, _ := list[*storagev1.StorageClass](v.world, inClasses, snapshot.Query{})
	var names []string
	for _, c := range classes {
		names = append(names, c.Name)
	}
	f := Finding{Confidence: Certain, Why: fmt.Sprintf("The claim asks for class %q (%s), and there is no StorageClass of that name.", name, field),
		Evidence: []Evidence{fact(v.claimObject(), field, name, v.Claim.CreationTimestamp.Time)}}
	if word != nil {
		f.Evidence = append(f.Evidence, word.evidence())
	}
	if static == Unknown {
		f.Rest, f.Said, f.Confidence = true, true, Possible // a hand-made volume may be meant
	}
	if _, known := v.class(); known == Unknown && f.Confidence == Certain {
		f.Confidence = Likely
	}
	if len(names) > 0 {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "StorageClass"}, "names", strings.Join(names, ", "), time.Time{}))
	}
	f.Fix = []Step{
		v.look("See which classes there are", "get", "storageclass"),
		say("Make the missing class, or make the claim again with a class that exists: a claim's class cannot be changed, and this one was never bound, so it holds no data."),
	}
	return f, Yes
}

// staticClass: hand-made volumes carry the class's name. Such a class needs no object.
func (v *View) staticClass(name string) Truth {
	volumes, all := list[*corev1.PersistentVolume](v.world, inVolumes, snapshot.Query{})
	_, static := first(volumes, all, func(pv *corev1.PersistentVolume) bool { return pv.Spec.StorageClassName == name })
	return static
}

// classNotFound is the PV controller's word that there is no such class, if nothing newer speaks against it.
func (v *View) classNotFound(name string) *report {
	events, _ := v.claimEvents()
	var last *report
	for _, r := range events {
		switch {
		case noSuchClass(r.Message, name):
			last = &r
		case pastClass(r):
			last = nil
		}
	}
	return last
}

func noSuchClass(text, name string) bool {
	return strings.Contains(text, `"`+name+`" not found`) && strings.Contains(text, "storageclass")
}

// pastClass: the PV controller or the provisioner works on the claim, so there is a class.
func pastClass(r report) bool {
	return r.Reason == "ProvisioningFailed" && r.Source != pvController || r.Reason == "ExternalProvisioning" || r.Reason == "Provisioning" || r.Reason == "WaitForFirstConsumer" || r.Reason == "WaitForPodScheduled"
}

// takenUp: the PV controller or the provisioner works on the claim, or has.
func (v *View) takenUp() bool {
	events, _ := v.claimEvents()
	return v.Claim.Annotations[annProvisioner] != "" || v.Claim.Annotations[annProvisionerB] != "" || slices.ContainsFunc(events, pastClass)
}

func noDefaultClass(v *View) (Finding, Truth) {
	if !v.at(HopClaim) || v.Claim == nil || v.bound() || v.Claim.Spec.VolumeName != "" {
		return Finding{}, No
	}
	if _, named := className(v.Claim); named {
		return Finding{}, No
	}
	near, volumesKnown := v.candidates()
	classes, classesKnown := list[*storagev1.StorageClass](v.world, inClasses, snapshot.Query{})
	if volumesKnown.and(classesKnown) == Unknown {
		if h := v.hop(HopClaim); h.Status != StatusStuck || classesKnown == Yes {
			return Finding{}, Unknown
		}
		f := v.asBlock(Finding{Evidence: []Evidence{fact(v.claimObject(), "spec.storageClassName", "not set", v.Claim.CreationTimestamp.Time)}})
		f.Why = fmt.Sprintf("The claim has been there for %s without a class: it was not given a default, so there was none, and no volume without a class fits. Which classes there are could not be read.", ago(v.age(v.Claim.CreationTimestamp.Time)))
		f.Fix = []Step{say("Ask who may see them which StorageClass to use, and make the claim again with it: it was never bound, so it holds no data.")}
		return f, Yes
	}
	f := v.asBlock(Finding{Confidence: Certain, Evidence: []Evidence{fact(v.claimObject(), "spec.storageClassName", "not set", v.Claim.CreationTimestamp.Time)}})
	var all, defaults []string
	for _, c := range classes {
		what := c.Name + " (" + c.Provisioner
		if csi, err := translator.GetCSINameFromInTreeName(c.Provisioner); err == nil {
			what += ", served by " + csi
		}
		if c.Annotations[annDefaultClass] == "true" || c.Annotations[annDefaultClassB] == "true" {
			defaults = append(defaults, c.Name)
		}
		all = append(all, what+")")
	}
	f.Evidence = append(f.Evidence, fact(Object{Kind: "StorageClass"}, "names", cmp.Or(strings.Join(all, ", "), "there is none"), time.Time{}))
	f.Evidence = append(f.Evidence, near.evidence(3)...)
	switch {
	case len(defaults) > 0:
		f.Why = fmt.Sprintf("The claim names no class and was not given the default %s, which was likely set after the claim was made; no volume without a class fits.", strings.Join(defaults, ", "))
		f.Fix = []Step{v.look("See whether the claim takes the default: kube-controller-manager 1.26 and newer gives it to waiting claims", "get", "pvc", v.ClaimName, "-n", v.Namespace, "-o", "yaml"),
			say("Otherwise make the claim again, or give it the class: it was never bound, so it holds no data.")}
	case len(all) == 0:
		f.Why = "The claim names no class, there is no StorageClass in the cluster, and no volume without a class fits."
		f.Fix = []Step{say("Install a CSI driver with a StorageClass, or make a PersistentVolume that fits.")}
	default:
		f.Why = fmt.Sprintf("The claim names no class, and none is the default; there are: %s. No volume without a class fits either.", strings.Join(all, ", "))
		f.Fix = []Step{v.look("See the classes and whether the driver behind each is installed", "get", "storageclass,csidriver"),
			say("Make the claim again with storageClassName set (it was never bound, so it holds no data), or mark a class whose driver is installed as the default with the annotation " + annDefaultClass + "=true: waiting claims without a class take it at once.")}
	}
	return f, Yes
}

// wasBound: the PV controller completed a binding once.
func (v *View) wasBound() bool {
	return v.Claim.Annotations[annBindCompleted] != "" && v.Claim.Spec.VolumeName != ""
}

func claimLost(v *View) (Finding, Truth) {
	if !v.at(HopClaim) || v.Claim == nil {
		return Finding{}, No
	}
	if v.Claim.Status.Phase != corev1.ClaimLost {
		if !v.wasBound() && !v.bound() || v.pvKnown == Yes {
			return Finding{}, No
		}
		if v.pvKnown == Unknown {
			return Finding{}, Unknown
		}
	}
	volume := v.Claim.Spec.VolumeName
	f := Finding{Confidence: Certain, Evidence: []Evidence{fact(v.claimObject(), "status.phase", string(v.Claim.Status.Phase), time.Time{}), fact(v.claimObject(), "spec.volumeName", volume, time.Time{})}}
	if pods, known := v.podsOfClaim(); known == Yes && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !mounted(p) }) {
		// Nobody waits for it: it has no pods, or they run on with the volume mounted. Whether someone else still needs it
		// (an importer, a person) is in no object.
		f.Status, f.Confidence = StatusDegraded, Likely
	}
	switch {
	case v.pvKnown == Unknown:
		f.Why = fmt.Sprintf("The claim is Lost: volume %s, to which it was bound, is gone or belongs to another claim.", volume)
	case v.PV == nil:
		f.Why = fmt.Sprintf("The claim was bound to volume %s, and that PersistentVolume does not exist any more.", volume)
	case v.PV.Spec.ClaimRef != nil:
		r := v.PV.Spec.ClaimRef
		f.Why = fmt.Sprintf("The claim was bound to volume %s, which belongs to claim %s/%s now.", volume, r.Namespace, r.Name)
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.claimRef", r.Namespace+"/"+r.Name+" uid "+string(r.UID), time.Time{}))
	default:
		f.Why = fmt.Sprintf("The claim was bound to volume %s, which does not point back at it.", volume)
	}
	f.Fix = []Step{
		v.look("See whether the volume's object is there, and whose it is", "get", "pv", volume, "-o", "yaml"),
		say("If the volume still exists in the backend, make a PersistentVolume with its handle and a claimRef to a new claim. Keep the Lost claim until the data is found."),
	}
	return f, Yes
}

// podsOfClaim are the unfinished pods that use the claim.
func (v *View) podsOfClaim() ([]*corev1.Pod, Truth) {
	pods, known := v.consumers(v.Namespace, v.ClaimName)
	return slices.DeleteFunc(pods, finished), known
}
