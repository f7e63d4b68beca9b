package explain

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// attachHop: the VolumeAttachment to the pod's node says attached, and the node was told.
func attachHop(v *View) Hop {
	switch {
	case v.Inline != nil || v.Driver == "":
		return skippedHop("")
	case v.Pod == nil || v.Node == "" || !v.passed(HopClaim, HopProvision, HopBind):
		if v.Pod == nil {
			return skippedHop("no pod uses it")
		}
		return laterHop("")
	case mounted(v.Pod):
		return okHop("")
	}
	a, known := v.attachment(v.Node)
	required := v.attachRequired()
	scheduled := v.scheduledAt()
	switch {
	case known == Yes && a.DeletionTimestamp != nil:
		o := ref(a)
		return v.openHop(a.DeletionTimestamp.Time, normalAttach, o, "the VolumeAttachment is being deleted")
	case known == Yes && a.Status.Attached:
		o := ref(a)
		if v.listedAttached(v.Node) == No {
			return v.openHop(a.CreationTimestamp.Time, normalAttach, o, "attached, and the node was not told")
		}
		return okHop("")
	case known == Yes && a.Status.AttachError != nil:
		t := v.attachTrouble(a)
		return v.troubledHop(t, v.settled(t), "ControllerPublishVolume fails")
	case known == Yes && untouched(a):
		return v.openHop(a.CreationTimestamp.Time, normalUntouched, ref(a), "no attacher has taken it up")
	case known == Yes:
		return v.openHop(a.CreationTimestamp.Time, normalAttach, ref(a), "attaching")
	case required == No:
		return skippedHop("the driver does not attach")
	}
	if t := v.mountTrouble(); t != nil && !waitForAttach.MatchString(t.Text) {
		return okHop("kubelet is past it")
	}
	o := Object{Kind: "VolumeAttachment", Name: attachmentName(v.Handle, v.Driver, v.Node)}
	if t := v.attachEvent(); t != nil {
		return v.troubledHop(t, v.settled(t), "not attached")
	}
	if known == Unknown || required == Unknown {
		return unknownHop(&o, "whether it is attached could not be read")
	}
	return v.openHop(scheduled, normalAttach, o, "there is no VolumeAttachment")
}

var waitForAttach = regexp.MustCompile(`WaitForAttach failed|failed to get volume attachment|is not attached for volume attachment`)

// untouched: no attacher ever wrote to the VolumeAttachment.
func untouched(a *storagev1.VolumeAttachment) bool {
	return a.DeletionTimestamp == nil && !a.Status.Attached && a.Status.AttachError == nil && len(a.Finalizers) == 0 && a.Annotations[annNodeID] == ""
}

// attachTrouble is the attachError of a VolumeAttachment. The object knows only the last try; the pod's events know since when
// and how often.
func (v *View) attachTrouble(a *storagev1.VolumeAttachment) *trouble {
	e := a.Status.AttachError
	t := &trouble{Text: e.Message, Since: a.CreationTimestamp.Time, At: e.Time.Time, Count: 1, Source: "external-attacher",
		Evidence: fact(ref(a), "status.attachError.message", e.Message, e.Time.Time)}
	if ev := v.attachEvent(); ev != nil {
		t.Count, t.Earlier = max(t.Count, ev.Count), ev.Earlier
	}
	return t
}

// attachEvent is what the attach-detach controller said last, unless it succeeded since.
func (v *View) attachEvent() *trouble {
	events, _ := v.podEvents()
	return troubleIn(events, func(r report) bool { return r.Reason == "FailedAttachVolume" && v.names(r.Message) },
		func(r report) bool { return r.Reason == "SuccessfulAttachVolume" && v.names(r.Message) })
}

// names tells whether a kubelet or controller message is about the view's volume: these name the PV, or for inline volumes
// the pod's volume.
func (v *View) names(message string) bool {
	return strings.Contains(message, `volume "`+v.volumeName()+`"`)
}

// volumeName is how kubelet and the attach-detach controller call the volume.
func (v *View) volumeName() string {
	if v.PV != nil {
		return v.PV.Name
	}
	if v.Claim != nil && v.Claim.Spec.VolumeName != "" {
		return v.Claim.Spec.VolumeName
	}
	if v.Volume != nil {
		return v.Volume.Name
	}
	return ""
}

// scheduledAt is when the pod got its node.
func (v *View) scheduledAt() time.Time {
	if c := podCondition(v.Pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return v.Pod.CreationTimestamp.Time
}

var attachCauses = []Cause{}
