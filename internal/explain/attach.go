package explain

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// attachHop: the VolumeAttachment to the pod's node says attached, and the node was told.
func attachHop(v *View) Hop {
	switch {
	case v.pvKnown == Unknown && v.mounted() && v.twoNodes() != nil:
		return unknownHop(nil, "used on two nodes, and whether that is meant could not be read")
	case v.Inline != nil || v.Driver == "":
		return skippedHop("")
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case v.Node == "" || !v.passed(HopClaim, HopProvision, HopBind):
		return laterHop("")
	case v.mounted():
		if other := v.elsewhere(); other != nil {
			switch o := ref(v.PV); v.attachRequired() {
			case No:
				return Hop{Status: StatusDegraded, Object: &o, Note: "in use on nodes " + v.Node + " and " + other.Spec.NodeName, reached: true}
			case Unknown:
				return unknownHop(&o, "used on two nodes, and whether that is meant could not be read")
			}
		}
		return okHop("")
	}
	at, known := v.attachment(v.Node)
	required := v.attachRequired()
	v.ahead(func() {
		v.attachEvent()
		if required != No && v.age(v.scheduledAt()) > justPlaced {
			v.attachAhead(at)
		}
	})
	o := Object{Kind: "VolumeAttachment", Name: attachmentName(v.Handle, v.Driver, v.Node)}
	switch {
	case required == No:
		return skippedHop("the driver does not attach")
	case v.Pod.Status.Reason == reasonLimit:
		return Hop{Status: StatusStuck, Since: moment(v.scheduledAt()), Object: &o, Note: "kubelet rejected the pod: no attach slot was free", reached: true}
	case known == Yes && at.DeletionTimestamp != nil:
		return v.openHop(at.DeletionTimestamp.Time, normalAttach, o, "the VolumeAttachment is being deleted")
	case known == Yes && at.Status.Attached && v.otherMachine(at) == Yes:
		return v.openHop(v.scheduledAt(), normalAttach, o, "attached to another machine of the node's name")
	case known == Unknown && v.saidAttached():
		return okHop("attached, says the attach-detach controller")
	case known == Unknown && v.deviceMissing() || known == Yes && at.Status.Attached && v.otherMachine(at) == Unknown && v.deviceMissing():
		return unknownHop(&o, "the device is missing, and whether it is attached to this machine could not be read")
	case known == Yes && at.Status.Attached:
		if t := v.mountTrouble(); t == nil || beforeAttach(t.Text) {
			switch v.listedAttached(v.Node) {
			case No:
				return v.openHop(latest(at.CreationTimestamp.Time, v.scheduledAt()), normalAttach, o, "attached, and the node was not told")
			case Unknown:
				return unknownHop(&o, "attached, and whether the node was told could not be read")
			}
		}
		return okHop("")
	case known == Yes && at.Status.AttachError != nil && v.cured(at.Status.AttachError.Message):
		return v.openHop(at.Status.AttachError.Time.Time, attacherBackoff, o, "the driver has registered since the last try")
	case known == Yes && at.Status.AttachError != nil && notRegistered.MatchString(at.Status.AttachError.Message) && !v.passed(HopRegister):
		return laterHop("the attacher waits for the driver on the node")
	case known == Yes && at.Status.AttachError != nil:
		t := v.attachTrouble(at)
		return v.troubledHop(t, v.settled(t), "ControllerPublishVolume fails")
	case known == Yes && untouched(at):
		return v.openHop(at.CreationTimestamp.Time, normalUntouched, o, "no attacher has taken it up")
	case known == Yes:
		return v.openHop(at.CreationTimestamp.Time, normalAttach, o, "attaching")
	}
	if t := v.mountTrouble(); t != nil && !beforeAttach(t.Text) {
		return okHop("kubelet is past it")
	}
	held, heldKnown := v.holders()
	t := v.attachEvent()
	switch {
	case t != nil && multiAttach.MatchString(t.Text) && heldKnown == Yes && len(held) == 0:
		return v.openHop(latest(v.scheduledAt(), t.At), normalAttach, o, "no node holds the volume any more, and there is no VolumeAttachment")
	case t != nil && v.cured(t.Text):
		return v.openHop(t.At, attacherBackoff, o, "the driver has registered since the last try")
	case t != nil && notRegistered.MatchString(t.Text) && !v.passed(HopRegister):
		return laterHop("the attacher waits for the driver on the node")
	case t != nil:
		return v.troubledHop(t, v.settled(t), "not attached")
	}
	if known == Unknown || required == Unknown {
		return unknownHop(&o, "whether it is attached could not be read")
	}
	return v.openHop(v.scheduledAt(), normalAttach, o, "there is no VolumeAttachment")
}

// attachAhead asks for what the causes of an attach that does not end will ask for. at is nil where there is no attachment.
func (v *View) attachAhead(at *storagev1.VolumeAttachment) {
	v.sidecar(attacherSidecar)
	if _, known := v.csiDriver(); known == No {
		list[*storagev1.CSIDriver](v.world, inDrivers, snapshot.Query{})
	}
	held, _ := v.holders()
	for _, h := range held {
		switch {
		case h.leaving():
			v.installed()
		case len(h.running()) == 0 && h.Ready == Yes: // its own teardown will be asked about
			v.nodeSide(h.Name)
			v.controllerManagerDown()
		}
	}
	if len(held) == 0 && v.age(v.scheduledAt()) > normalAttach {
		v.controllerManagerDown()
	}
	switch {
	case at == nil || at.Status.Attached || at.DeletionTimestamp != nil:
	case at.Status.AttachError != nil:
		v.namedAhead(at)
	case !untouched(at) && v.age(at.CreationTimestamp.Time) >= normalAttach:
		v.roles()
	}
}

// deviceMissing: the kubelet's error is one that a volume that is not attached makes.
func (v *View) deviceMissing() bool {
	t := v.mountTrouble()
	return t != nil && v.tells(t) == "stage/device-missing"
}

// cured: the last try failed since the driver was not registered, and it is now. The attacher is in back-off.
func (v *View) cured(text string) bool {
	_, known := v.registered(v.Node)
	return known == Yes && notRegistered.MatchString(text)
}

// otherMachine: the volume was attached to a machine that had the node's name before: the attacher noted another node id
// than the driver tells now.
func (v *View) otherMachine(at *storagev1.VolumeAttachment) Truth {
	id := at.Annotations[annNodeID]
	if id == "" {
		return No
	}
	entry, known := v.registered(at.Spec.NodeName)
	if known != Yes {
		return known
	}
	return truth(entry.NodeID != id)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// multiAttach: the attach-detach controller waits for another node to let the volume go; up to 1.36, and since.
var multiAttach = regexp.MustCompile(`Multi-Attach error for volume|Waiting for detach for volume`)

var waitForAttach = regexp.MustCompile(`WaitForAttach failed|failed to get volume attachment|is not attached for volume attachment`)

// beforeAttach: the kubelet's error does not show that the volume is attached.
func beforeAttach(text string) bool {
	return waitForAttach.MatchString(text) || claimUnread.MatchString(text)
}

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

// attachTimesOut: the attach-detach controller waits in vain for a word of the attacher.
func (v *View) attachTimesOut() bool {
	t := v.attachEvent()
	return t != nil && strings.Contains(t.Text, "timed out waiting for external-attacher")
}

// saidAttached: the attach-detach controller's last word, of a moment ago, is that the volume was attached for the view's pod.
func (v *View) saidAttached() bool {
	events, _ := v.podEvents()
	return v.attachEvent() == nil && slices.ContainsFunc(events, func(r report) bool {
		return r.Reason == "SuccessfulAttachVolume" && v.names(r.Message) && v.age(r.Last) < normalMount
	})
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
	if v.At != nil && v.At.Spec.Source.PersistentVolumeName != nil {
		return *v.At.Spec.Source.PersistentVolumeName
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
