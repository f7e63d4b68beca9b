package explain

import (
	corev1 "k8s.io/api/core/v1"
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

var claimCauses = []Cause{}
