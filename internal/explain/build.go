package explain

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// view finds out about one volume: a claim's, or where claim is empty the inline volume of the pod.
func (w *world) view(namespace, claim string, pod *corev1.Pod, vol *corev1.Volume) *View {
	v := &View{world: w, Namespace: namespace, ClaimName: claim, Pod: pod, Volume: vol}
	v.base = w.scope(v.find)
	return v
}

// find fills in what the view's claim, pod and volume lead to.
func (v *View) find() {
	w := v.world
	if v.Pod != nil {
		v.Node = v.Pod.Spec.NodeName
	}
	if v.Node != "" && !mounted(v.Pod) {
		w.ahead(func() {
			v.node(v.Node)
			v.csiNode(v.Node)
			v.consumers(v.Namespace, v.ClaimName)
		})
	}
	if v.ClaimName == "" {
		if v.Volume != nil && v.Volume.CSI != nil {
			v.Inline, v.Driver = v.Volume.CSI, v.Volume.CSI.Driver
		}
		return
	}
	if v.Pod != nil && v.Pod.Spec.NodeName == "" { // it likely waits for the claim
		v.ahead(func() { v.eventsOf("PersistentVolumeClaim", v.Namespace, v.ClaimName, "") })
	}
	v.Claim, v.claimKnown = get[*corev1.PersistentVolumeClaim](w, inClaims, v.Namespace, v.ClaimName)
	if v.Claim == nil {
		return
	}
	attaching := v.Pod != nil && v.Node != "" && !mounted(v.Pod) && v.age(v.scheduledAt()) > justPlaced
	if attaching {
		w.ahead(func() {
			v.Driver = v.Claim.Annotations[annProvisioner] // very likely the volume's
			v.holdersAhead()
			v.controllerAhead()
			v.Driver = ""
		})
	}
	v.PV, v.pvKnown = get[*corev1.PersistentVolume](w, inVolumes, "", v.Claim.Spec.VolumeName)
	if v.PV != nil {
		v.Driver, v.Handle = source(v.PV)
		if attaching {
			w.ahead(func() { v.attachment(v.Node) })
		}
		return
	}
	provisioner := v.Claim.Annotations[annProvisioner]
	if class, known := v.class(); known == Yes {
		provisioner = class.Provisioner
	}
	if csi, err := translator.GetCSINameFromInTreeName(provisioner); err == nil {
		provisioner = csi
	}
	if provisioner != noProvisioner {
		v.Driver = provisioner
	}
}

// controllerAhead asks for what tells whether the driver's controller attaches.
func (v *View) controllerAhead() {
	if v.Driver == "" {
		return
	}
	v.daemonSets()
	if v.attachRequired() == Yes {
		v.sidecar(attacherSidecar)
	}
}

// translator knows which CSI driver an in-tree volume is served by; migration is unconditional since 1.31.
var translator = csitranslation.New()

// source is the CSI driver and handle of a PV, in-tree ones translated; empty where no CSI driver serves it.
func source(pv *corev1.PersistentVolume) (driver, handle string) {
	if pv.Spec.CSI == nil && translator.IsPVMigratable(pv) {
		if t, err := translator.TranslateInTreePVToCSI(logr.Discard(), pv); err == nil {
			pv = t
		}
	}
	if pv.Spec.CSI == nil {
		return "", ""
	}
	return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
}
