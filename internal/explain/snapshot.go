package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// snapshotHop: a VolumeSnapshot becomes ready. Asked about a snapshot it is that one's state; asked about a claim it looks for
// a snapshot of the claim that is stuck, which harms whoever counts on it, and not the claim.
func snapshotHop(v *View) Hop {
	if v.cut != nil {
		return v.cutHop(*v.cut)
	}
	if v.asked != (Target{"PersistentVolumeClaim", v.Namespace, v.ClaimName}) || !v.bound() || v.Claim.DeletionTimestamp != nil {
		return skippedHop("")
	}
	cuts, known := v.cutsOfClaim()
	for _, c := range cuts {
		switch h := v.cutHop(c); h.Status {
		case StatusStuck:
			v.cut, h.Status = &c, StatusDegraded
			return h
		case StatusUnknown:
			return h
		}
	}
	if o := v.claimObject(); known == Unknown && slices.Contains(v.Claim.Finalizers, beingCut) {
		return unknownHop(&o, "a snapshot of it is being made, and could not be read")
	}
	return skippedHop("")
}

const beingCut = "snapshot.storage.kubernetes.io/pvc-as-source-protection" // snapshot-controller's, until the snapshot is cut

// cutsOfClaim are the snapshots of the view's claim that are not ready, the oldest first.
func (v *View) cutsOfClaim() ([]cut, Truth) {
	all, known := v.snapshotsOfClaim(v.Namespace, v.ClaimName)
	sortByCreation(all)
	var out []cut
	for _, s := range all {
		if (cut{VolumeSnapshot: s}).ready() {
			continue
		}
		if c, has := v.cutOf(s.Namespace, s.Name); has == Yes {
			out = append(out, c)
		}
	}
	return out, known
}

// snapshotsOfClaim are the VolumeSnapshots that were taken of a claim.
func (w *world) snapshotsOfClaim(namespace, claim string) ([]*snapshotv1.VolumeSnapshot, Truth) {
	known := Unknown
	if w.complete(snapshot.Query{Resource: inSnapshots.Resource, Namespace: namespace}, 0) {
		known = Yes
	}
	byClaim := grouped(w, inSnapshots, "claim", func(s *snapshotv1.VolumeSnapshot) []string {
		return []string{s.Namespace + "/" + text(s.Spec.Source.PersistentVolumeClaimName)}
	})
	return slices.Clone(byClaim[namespace+"/"+claim]), known
}

// cutHop is the state of one snapshot.
func (v *View) cutHop(c cut) Hop {
	o := ref(c.VolumeSnapshot)
	t, known := v.cutTrouble(c)
	switch {
	case c.DeletionTimestamp != nil && t != nil:
		return v.troubledHop(t, v.settled(t), "cannot be deleted")
	case c.DeletionTimestamp != nil:
		return v.openHop(c.DeletionTimestamp.Time, normalTeardown, o, "is being deleted")
	case c.ready():
		return okHop("ready")
	case t != nil:
		return v.troubledHop(t, v.settled(t), "cannot be made")
	case known == Unknown:
		return unknownHop(&o, "what the snapshot's controllers say could not be read")
	case known == Yes && v.untouchedCut(c):
		return v.openHop(c.CreationTimestamp.Time, normalUntouched, o, "nobody works on it")
	}
	return v.openHop(c.CreationTimestamp.Time, normalSnapshot, o, "is being made")
}

// untouchedCut: snapshot-controller has not made the content, or csi-snapshotter has not touched it.
func (v *View) untouchedCut(c cut) bool {
	if c.content == nil {
		return c.contentKnown == No && c.Status == nil
	}
	return (c.content.Status == nil || c.content.Status.SnapshotHandle == nil) && c.content.Annotations[annBeingCreated] == ""
}

const (
	annBeingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created" // csi-snapshotter's, while CreateSnapshot runs
	annBeingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted" // snapshot-controller's, before it deletes the content
)

// cutTrouble is the error in force of a snapshot, from its own status, its content's, and the events of both. The statuses say
// more than the events, and these since when.
func (v *View) cutTrouble(c cut) (*trouble, Truth) {
	reports, known := v.eventsOf("VolumeSnapshot", c.Namespace, c.Name, string(c.UID))
	known = known.and(c.contentKnown.told())
	if c.content != nil {
		more, all := v.eventsOf("VolumeSnapshotContent", "", c.content.Name, string(c.content.UID))
		reports, known = append(reports, more...), known.and(all)
		sortReports(reports)
	}
	t := troubleIn(reports, func(r report) bool { return r.Warning && r.Reason != "SnapshotDeletePending" }, func(r report) bool { return r.Reason == "SnapshotCreated" || r.Reason == "SnapshotReady" })
	use := func(o Object, e *snapshotv1.VolumeSnapshotError) {
		if e == nil || text(e.Message) == "" {
			return
		}
		at := c.CreationTimestamp.Time
		if e.Time != nil {
			at = e.Time.Time
		}
		if conflict.MatchString(*e.Message) && v.age(at) < snapshotterBackoff {
			return
		}
		if t == nil {
			t = &trouble{Since: c.CreationTimestamp.Time, Count: 1}
		}
		t.Text, t.At, t.Source, t.Evidence = text(e.Message), at, o.Kind, fact(o, "status.error.message", text(e.Message), at)
	}
	if c.Status != nil {
		use(ref(c.VolumeSnapshot), c.Status.Error)
	}
	if c.content != nil && c.content.Status != nil {
		use(ref(c.content), c.content.Status.Error)
	}
	if t != nil {
		t.Text = strings.ReplaceAll(t.Text, `\"`, `"`) // texts are quoted again on their way through the controllers
	}
	return t, known
}

// snapshot asks about a VolumeSnapshot: its own life, then the claim that it is of.
func (a *answer) snapshot(namespace, name string) {
	a.eventsOf("VolumeSnapshot", namespace, name, "") // asked for early: it saves a round
	var c cut
	var known Truth
	unread := a.scope(func() { c, known = a.cutOf(namespace, name) })
	a.Missing = known == No
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inSnapshots.Resource, Namespace: namespace, Name: name})
	}
	if known != Yes {
		return
	}
	claim := text(c.Spec.Source.PersistentVolumeClaimName)
	v := a.view(namespace, claim, nil, nil)
	v.only, v.cut, v.base = []HopName{HopSnapshot}, &c, unread
	a.examine(v)
	if v.claimKnown == Yes {
		a.claim(namespace, claim)
	}
}

// cut is a VolumeSnapshot as far as it got.
type cut struct {
	*snapshotv1.VolumeSnapshot
	content      *snapshotv1.VolumeSnapshotContent
	contentKnown Truth // No: it names none, or it does not exist
}

// cutOf gets a VolumeSnapshot and its content.
func (w *world) cutOf(namespace, name string) (cut, Truth) {
	s, known := get[*snapshotv1.VolumeSnapshot](w, inSnapshots, namespace, name)
	if known != Yes {
		return cut{}, known
	}
	c := cut{VolumeSnapshot: s}
	c.content, c.contentKnown = get[*snapshotv1.VolumeSnapshotContent](w, inContents, "", c.contentName())
	return c, Yes
}

// sourceSnapshot is the VolumeSnapshot that the claim is restored from.
func (v *View) sourceSnapshot() (cut, Truth) {
	r := v.sourceRef()
	if r == nil || r.Kind != "VolumeSnapshot" {
		return cut{}, No
	}
	return v.cutOf(v.sourceSpace(r), r.Name)
}

func (c cut) contentName() string {
	if c.Status != nil && c.Status.BoundVolumeSnapshotContentName != nil {
		return *c.Status.BoundVolumeSnapshotContentName
	}
	return text(c.Spec.Source.VolumeSnapshotContentName)
}

func (c cut) ready() bool {
	return c.Status != nil && c.Status.ReadyToUse != nil && *c.Status.ReadyToUse
}

// snapshotUnfit says why the claim cannot be restored from its snapshot.
func (v *View) snapshotUnfit(f *Finding) string {
	s, known := v.sourceSnapshot()
	switch {
	case known == No:
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(Object{"VolumeSnapshot", v.sourceSpace(v.sourceRef()), v.sourceRef().Name}, "", "not found", time.Time{}))
		return "there is no such snapshot"
	case known == Unknown:
		return ""
	case s.DeletionTimestamp != nil:
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(ref(s.VolumeSnapshot), "metadata.deletionTimestamp", s.DeletionTimestamp.UTC().Format(time.RFC3339), s.DeletionTimestamp.Time))
		return "that snapshot is being deleted"
	case !s.ready():
		f.Evidence = append(f.Evidence, fact(ref(s.VolumeSnapshot), "status.readyToUse", "false", s.CreationTimestamp.Time))
		f.Confidence, f.Status, f.Until = Certain, StatusStuck, nil
		if until := s.CreationTimestamp.Add(normalSnapshot); v.now.Before(until) {
			f.Status, f.Until = StatusWaiting, moment(until)
			return fmt.Sprintf("that snapshot is %s old and not ready yet, which is normal up to %s", ago(v.age(s.CreationTimestamp.Time)), ago(normalSnapshot))
		}
		return fmt.Sprintf("that snapshot is not ready, %s after it was made", ago(v.age(s.CreationTimestamp.Time)))
	}
	f.Confidence = Certain
	asked := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case s.content != nil && s.content.Spec.Driver != v.Driver:
		f.Evidence = append(f.Evidence, fact(ref(s.content), "spec.driver", s.content.Spec.Driver, time.Time{}))
		return fmt.Sprintf("that snapshot is of driver %s, and class %s is of driver %s", s.content.Spec.Driver, v.className(), v.Driver)
	case s.Status.RestoreSize != nil && s.Status.RestoreSize.Cmp(asked) > 0:
		f.Evidence = append(f.Evidence, fact(ref(s.VolumeSnapshot), "status.restoreSize", s.Status.RestoreSize.String(), time.Time{}))
		return fmt.Sprintf("that snapshot needs %s, and the claim asks for %s", s.Status.RestoreSize.String(), asked.String())
	case s.content != nil && s.content.Spec.SourceVolumeMode != nil && *s.content.Spec.SourceVolumeMode != modeOf(v.Claim.Spec.VolumeMode):
		f.Evidence = append(f.Evidence, fact(ref(s.content), "spec.sourceVolumeMode", string(*s.content.Spec.SourceVolumeMode), time.Time{}))
		return fmt.Sprintf("that snapshot is of a %s volume, and the claim asks for %s", *s.content.Spec.SourceVolumeMode, modeOf(v.Claim.Spec.VolumeMode))
	}
	f.Confidence = ""
	return ""
}
