package explain

import (
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
)

// snapshotHop: the snapshot that the claim is restored from is ready.
func snapshotHop(v *View) Hop { return skippedHop("") }

var snapshotCauses = []Cause{}

// snapshot asks about a VolumeSnapshot.
func (a *answer) snapshot(namespace, name string) {}

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
			return fmt.Sprintf("that snapshot is %s old and not ready yet, which is normal for %s", ago(v.age(s.CreationTimestamp.Time)), ago(normalSnapshot))
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
