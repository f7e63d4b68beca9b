package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// volume asks about a PersistentVolume: its claim's chains where it has one, else its own end. Of one that is gone the
// attachments that still name it.
func (a *answer) volume(name string) {
	a.ahead(func() {
		a.eventsOf("PersistentVolume", "", name, "")
		a.attachmentsOf(name)
	})
	pv, known := a.volumeNamed(name)
	a.Missing = known == No
	switch known {
	case Unknown:
		a.unseen(snapshot.Query{Resource: inVolumes.Resource, Name: name})
		return
	case No:
		a.goneVolume(name)
		return
	}
	if r := pv.Spec.ClaimRef; r != nil {
		claim, claimKnown := get[*corev1.PersistentVolumeClaim](a.world, inClaims, r.Namespace, r.Name)
		if claimKnown == Unknown {
			a.unseen(snapshot.Query{Resource: inClaims.Resource, Namespace: r.Namespace, Name: r.Name})
			return
		}
		if claim != nil && (r.UID == "" || r.UID == claim.UID) && (claim.Spec.VolumeName == name || claim.Spec.VolumeName == "") {
			a.claim(r.Namespace, r.Name)
			return
		}
	}
	v := &View{world: a.world, PV: pv, pvKnown: Yes, only: []HopName{HopUnstage, HopDetach, HopDelete}}
	v.Driver, v.Handle = source(pv)
	if pv.Spec.ClaimRef != nil {
		v.Namespace = pv.Spec.ClaimRef.Namespace
	}
	a.examine(v)
	if pv.Status.Phase == corev1.VolumeAvailable {
		a.Notes = append(a.Notes, "the volume is Available: no claim has it")
	}
}

// goneVolume: attachments may outlive a PersistentVolume that was pushed out.
func (a *answer) goneVolume(name string) {
	all, known := a.attachmentsOf(name)
	for _, at := range all {
		a.attachmentAlone(at)
	}
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inAttachments.Resource})
	}
	if len(all) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("PersistentVolume %s does not exist; %d attachments still name it", name, len(all)))
	}
}

// attachmentAlone asks about an attachment whose volume has no chain of its own.
func (a *answer) attachmentAlone(at *storagev1.VolumeAttachment) {
	v := &View{world: a.world, At: at, Driver: at.Spec.Attacher, pvKnown: No, Node: at.Spec.NodeName, only: []HopName{HopDetach}}
	a.examine(v)
}
