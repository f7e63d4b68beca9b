package explain

import (
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
	case v.claimKnown == No:
		h := Hop{Status: StatusStuck, Object: &o, Note: "does not exist", reached: true}
		if v.Pod != nil {
			h = v.openHop(v.Pod.CreationTimestamp.Time, normalBind, o, "does not exist")
		}
		return h
	case v.Claim.Status.Phase == corev1.ClaimLost:
		return Hop{Status: StatusStuck, Object: &o, Note: "Lost", reached: true}
	case v.bound():
		return okHop("Bound to " + v.Claim.Spec.VolumeName)
	}
	name, named := className(v.Claim)
	if v.Claim.Spec.VolumeName != "" {
		return okHop("names the volume " + v.Claim.Spec.VolumeName)
	}
	if !named {
		return Hop{Status: StatusStuck, Since: moment(v.Claim.CreationTimestamp.Time), Object: &o, Note: "names no class", reached: true}
	}
	if name == "" {
		return okHop("asks for a volume without a class")
	}
	if _, known := v.class(); known == No {
		return Hop{Status: StatusStuck, Since: moment(v.Claim.CreationTimestamp.Time), Object: &Object{Kind: "StorageClass", Name: name}, Note: "the class " + name + " does not exist", reached: true}
	}
	return okHop("class " + name)
}

var claimCauses = []Cause{{
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
	ID:    "claim/lost",
	Title: "The claim has lost its volume",
	Doc: `The claim was bound once. Its PV object is gone, or is bound to another claim. Kubernetes does not look for another volume.

To be sure: the claim's phase is Lost, or it carries pv.kubernetes.io/bind-completed and the PV that it names does not exist.

The data may still exist in the backend (reclaim policy Retain, or a PV removed by force). Do not delete the claim before you
know where the volume is: a PV made by hand with the old handle can serve a new claim.`,
	Match: claimLost,
}}

func classMissing(v *View) (Finding, Truth) {
	if v.Claim == nil || v.bound() || v.Claim.Spec.VolumeName != "" {
		return Finding{}, No
	}
	name, named := className(v.Claim)
	if !named || name == "" {
		return Finding{}, No
	}
	if _, known := v.class(); known != No {
		return Finding{}, known.not().and(Unknown)
	}
	volumes, all := list[*corev1.PersistentVolume](v.world, inVolumes, snapshot.Query{})
	if _, static := first(volumes, all, func(pv *corev1.PersistentVolume) bool { return pv.Spec.StorageClassName == name }); static == Yes {
		return Finding{}, No // static classes need no object
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
	if len(names) > 0 {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "StorageClass"}, "names", strings.Join(names, ", "), time.Time{}))
	}
	f.Fix = []Step{
		v.look("See which classes there are", "get", "storageclass"),
		say("Make the missing class, or make the claim again with a class that exists: a claim's class cannot be changed, and this one was never bound, so it holds no data."),
	}
	return f, Yes
}

func claimLost(v *View) (Finding, Truth) {
	if v.Claim == nil {
		return Finding{}, No
	}
	completed := v.Claim.Annotations[annBindCompleted] != "" && v.Claim.Spec.VolumeName != ""
	if v.Claim.Status.Phase != corev1.ClaimLost && (!completed || v.pvKnown == Yes) {
		return Finding{}, No
	}
	if v.Claim.Status.Phase != corev1.ClaimLost && v.pvKnown == Unknown {
		return Finding{}, Unknown
	}
	volume := v.Claim.Spec.VolumeName
	f := Finding{Confidence: Certain, Evidence: []Evidence{fact(v.claimObject(), "status.phase", string(v.Claim.Status.Phase), time.Time{}), fact(v.claimObject(), "spec.volumeName", volume, time.Time{})}}
	if len(v.podsOfClaim()) == 0 {
		f.Status = StatusDegraded // nobody waits for it
	}
	switch {
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

// podsOfClaim are the unfinished pods that use the claim, as far as they could be read.
func (v *View) podsOfClaim() []*corev1.Pod {
	pods, _ := v.consumers(v.Namespace, v.ClaimName)
	return slices.DeleteFunc(pods, finished)
}
