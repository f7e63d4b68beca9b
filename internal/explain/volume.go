package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
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
		if claimKnown == Unknown && !a.unclaimed(pv) {
			a.unseen(snapshot.Query{Resource: inClaims.Resource, Namespace: r.Namespace, Name: r.Name})
			return
		}
		if claim != nil && has(claim, pv) {
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

// unclaimed: the volume's claim may not be read, and the volume's phase says that it is gone, or another one.
func (w *world) unclaimed(pv *corev1.PersistentVolume) bool {
	r := pv.Spec.ClaimRef
	return (pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed) &&
		w.unanswered(snapshot.Query{Resource: inClaims.Resource, Namespace: r.Namespace, Name: r.Name})
}

// has: the volume is the claim's, or is meant for it, so the claim's answer speaks of it.
func has(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	r := pv.Spec.ClaimRef
	return (r.UID == "" || r.UID == claim.UID) && (claim.Spec.VolumeName == pv.Name || claim.Spec.VolumeName == "")
}

// goneVolume: attachments may outlive a PersistentVolume that was pushed out.
func (a *answer) goneVolume(name string) {
	all, known := a.attachmentsOf(name)
	for _, at := range all {
		a.attachmentAlone(at)
	}
	if known == Unknown {
		a.unseen(attachmentsOf(name))
	}
	if len(all) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("PersistentVolume %s does not exist; %d attachments still name it", name, len(all)))
	}
}

// attachment asks about a VolumeAttachment of which no answer about a claim or volume speaks.
func (a *answer) attachment(name string) {
	at, known := get[*storagev1.VolumeAttachment](a.world, inAttachments, "", name)
	a.Missing = known == No
	switch known {
	case Unknown:
		a.unseen(snapshot.Query{Resource: inAttachments.Resource, Name: name})
	case Yes:
		a.attachmentAlone(at)
	}
}

// attachmentAlone asks about an attachment by itself: its volume has no chain, or another node is asked about.
func (a *answer) attachmentAlone(at *storagev1.VolumeAttachment) {
	v := &View{world: a.world, At: at, Driver: at.Spec.Attacher, pvKnown: No, only: []HopName{HopDetach}}
	if name := at.Spec.Source.PersistentVolumeName; name != nil {
		v.PV, v.pvKnown = a.volumeNamed(*name)
	}
	if v.PV != nil {
		v.Driver, v.Handle = source(v.PV)
		if r := v.PV.Spec.ClaimRef; r != nil {
			v.Namespace, v.ClaimName = r.Namespace, r.Name
		}
	}
	a.examine(v)
}

// leftOn asks about the attachments to a node that are being deleted, and about those of volumes that no pod of it needs.
func (a *answer) leftOn(node *corev1.Node, attachments []*storagev1.VolumeAttachment, pods []*corev1.Pod) {
	inUse := map[string]bool{} // by the attachment's computed name: no volume has to be read for it
	for _, u := range node.Status.VolumesInUse {
		if driver, handle, ok := ofUnique(u); ok {
			inUse[attachmentName(handle, driver, node.Name)] = true
		}
	}
	for _, at := range attachments {
		if at.Spec.NodeName != node.Name || at.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if at.DeletionTimestamp == nil {
			if a.age(at.CreationTimestamp.Time) < normalAttach {
				continue
			}
			pv, known := a.volumeNamed(*at.Spec.Source.PersistentVolumeName)
			if known == Unknown {
				a.unseen(snapshot.Query{Resource: inVolumes.Resource, Name: *at.Spec.Source.PersistentVolumeName}) // whose it is
				continue
			}
			if pv != nil && (usedBy(pv, pods) || a.keptFrom(at, pv)) {
				continue
			}
			if pv != nil && inUse[at.Name] {
				a.keptOn(node.Name, pv)
				continue
			}
		}
		a.attachmentAlone(at)
	}
}

// keptFrom tells whether a pod on another node waits for a volume because of its attachment to this one. Then that is what is at
// fault here.
func (a *answer) keptFrom(at *storagev1.VolumeAttachment, pv *corev1.PersistentVolume) bool {
	r := pv.Spec.ClaimRef
	if r == nil {
		return false
	}
	get[*corev1.PersistentVolumeClaim](a.world, inClaims, r.Namespace, r.Name) // saves a round
	users, known := a.consumers(r.Namespace, r.Name)
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inPods.Resource, Namespace: r.Namespace})
	}
	sortByCreation(users)
	for _, p := range users {
		if finished(p) || ready(p) || p.Spec.NodeName == "" || p.Spec.NodeName == at.Spec.NodeName {
			continue
		}
		own := &answer{world: a.world, gaps: map[snapshot.Query]bool{}}
		own.examine(a.view(r.Namespace, r.Name, p, volumeOfClaim(p, r.Name)))
		unknown := len(own.Findings) == 0 && len(own.gaps) > 0
		if !unknown && !own.speaksOf(ref(at), Object{Kind: "Node", Name: at.Spec.NodeName}) {
			continue
		}
		if unknown { // it may be this
			a.Verdict = Worst(a.Verdict, VerdictUndetermined)
		}
		a.Chains = append(a.Chains, own.Chains...)
		a.join(own)
		return true
	}
	return false
}

// keptOn asks why a node's kubelet has a volume in use that no pod there needs. Where a pod waits for it elsewhere, that one's
// answer tells; where the folder of a pod that is gone holds it, that is the fault.
func (a *answer) keptOn(node string, pv *corev1.PersistentVolume) {
	v := &View{world: a.world, PV: pv, pvKnown: Yes, only: []HopName{HopUnstage, HopDetach}}
	v.Driver, v.Handle = source(pv)
	if r := pv.Spec.ClaimRef; r != nil {
		v.Namespace, v.ClaimName = r.Namespace, r.Name
	}
	users, known := v.podsOfClaim()
	switch {
	case known == Unknown:
		a.unseen(snapshot.Query{Resource: inPods.Resource, Namespace: v.Namespace})
	case len(users) > 0:
		a.Notes = append(a.Notes, fmt.Sprintf("no pod here needs volume %s, and the kubelet has it in use; used elsewhere by: %s", pv.Name, podNames(users)))
	case !orphaned(a.reportAtHand(node), v.Handle):
		a.examine(v)
	}
}

// orphaned: the report shows the volume mounted in the folder of a pod that is gone.
func orphaned(r *nodereport.NodeReport, handle string) bool {
	return r != nil && slices.ContainsFunc(r.Volumes, func(vol nodereport.Volume) bool {
		return vol.Handle == handle && slices.ContainsFunc(vol.Publishes, func(p nodereport.Publish) bool {
			return slices.ContainsFunc(r.Orphans, func(o nodereport.Orphan) bool { return o.PodUID == p.PodUID && o.PodUID != "" })
		})
	})
}

// usedBy: one of the pods uses the volume's claim and is not finished.
func usedBy(pv *corev1.PersistentVolume, pods []*corev1.Pod) bool {
	r := pv.Spec.ClaimRef
	return r != nil && slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Namespace == r.Namespace && !finished(p) && volumeOfClaim(p, r.Name) != nil
	})
}

// stagedOn asks about volumes that stay staged on a node, where its report is in the input: no pod of the node uses them, nothing
// attaches them to it, and its kubelet does not list them in use, so nobody will unmount them.
func (a *answer) stagedOn(node *corev1.Node, attachments []*storagev1.VolumeAttachment, pods []*corev1.Pod) {
	r := a.reportAtHand(node.Name)
	if r == nil {
		return
	}
	table, _ := mountinfo.Parse(r.Mountinfo)
	for _, vol := range r.Volumes {
		if vol.Staging == nil || len(table.Below(vol.Staging.Path)) == 0 || len(vol.Publishes) > 0 || vol.PV == "" || slices.Contains(node.Status.VolumesInUse, corev1.UniqueVolumeName(uniqueName(vol.Driver, vol.Handle))) {
			continue
		}
		if slices.ContainsFunc(attachments, func(at *storagev1.VolumeAttachment) bool {
			return at.Spec.NodeName == node.Name && at.Spec.Source.PersistentVolumeName != nil && *at.Spec.Source.PersistentVolumeName == vol.PV
		}) {
			continue
		}
		pv, known := a.volumeNamed(vol.PV)
		if known == Unknown {
			a.unseen(snapshot.Query{Resource: inVolumes.Resource, Name: vol.PV}) // it names the claim whose pods may use it
		}
		if known != Yes || usedBy(pv, pods) {
			continue
		}
		v := &View{world: a.world, PV: pv, pvKnown: Yes, Node: node.Name, only: []HopName{HopUnstage}}
		v.Driver, v.Handle = source(pv)
		if ref := pv.Spec.ClaimRef; ref != nil {
			v.Namespace, v.ClaimName = ref.Namespace, ref.Name
		}
		a.examine(v)
	}
}

// leftStaged asks about an idle claim's volume on the nodes where it stays staged, by the reports in the input, though the driver
// does not attach: no object tells of that.
func (a *answer) leftStaged(v *View) {
	if v.PV == nil || v.Driver == "" || v.attachRequired() == Yes {
		return
	}
	var reports []*snapshot.NodeReport
	a.ahead(func() { reports, _ = list[*snapshot.NodeReport](a.world, inReports, snapshot.Query{}) }) // where nothing points to a node, that nobody looked there is no gap
	for _, r := range reports {
		if n := v.factsOf(&r.Report, r.Name); n.volume != nil && len(n.staged()) > 0 && len(n.volume.Publishes) == 0 {
			a.examine(&View{world: a.world, Namespace: v.Namespace, ClaimName: v.ClaimName, PV: v.PV, pvKnown: Yes, Driver: v.Driver, Handle: v.Handle, Node: r.Name, only: []HopName{HopUnstage}})
		}
	}
}

// orphansOn asks about folders of pods that are gone, where the node's report is in the input.
func (a *answer) orphansOn(node string) {
	if r := a.reportAtHand(node); r != nil && len(r.Orphans) > 0 {
		a.examine(&View{world: a.world, Node: node, only: []HopName{HopUnpublish}})
	}
}
