package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// attachFirst are what is missing altogether: it comes before the errors that its absence makes.
var attachFirst = []Cause{{
	ID:    "attach/csidriver-missing",
	Title: "The driver's CSIDriver object is missing or contradicts the driver",
	Doc: `Without a CSIDriver object Kubernetes assumes that volumes of the driver must be attached: it makes a VolumeAttachment and waits for an
attacher, which drivers for shares and local disks do not have. The other way round, attachRequired: false on a driver that must attach
skips the attach, and the node misses the device.

To be sure: compare the names of the CSIDrivers with the driver in the PersistentVolume, and attachRequired with what the driver's own
installation has.

The object holds no data: installing it again is safe. attachRequired cannot be changed, only made anew.`,
	Match: csiDriverMissing,
}, {
	ID:    "attach/attacher-not-running",
	Title: "No attacher works on the VolumeAttachment",
	Doc: `The VolumeAttachment waits for the driver's external-attacher, and nobody takes it up: the sidecar is not installed, crashes, or has lost
its lease and waits for its driver.

To be sure: the attachment has no finalizer and no error; the lease external-attacher-leader-DRIVER is stale or missing.

Restarting the controller pod is safe. Do not delete the VolumeAttachment: a new one would wait as well.`,
	Match: attacherNotRunning,
}, {
	ID:    "attach/pv-deleting",
	Title: "The volume is being deleted, so it is not attached any more",
	Doc: `The attacher refuses to attach a PersistentVolume that carries a deletion time, and an attachment that is being deleted must be gone
before a new one is made.

To be sure: the PV, or its VolumeAttachment to this node, has a deletionTimestamp.

A deletion time cannot be taken back. The data is still there while the claim is bound: save it (set the reclaim policy to Retain)
before anything else.`,
	Match: attachPVDeleting,
}}

func csiDriverMissing(v *View) (Finding, Truth) {
	if !v.at(HopAttach, HopStage, HopPublish) || v.Driver == "" {
		return Finding{}, No
	}
	d, known := v.csiDriver()
	if v.at(HopAttach) {
		if known != No {
			return Finding{}, min(known.not(), Unknown)
		}
		at, atKnown := v.attachment(v.Node)
		if atKnown != Yes || at.Status.Attached || !untouched(at) || v.age(at.CreationTimestamp.Time) < normalUntouched {
			return Finding{}, min(atKnown.not(), Unknown)
		}
		s := v.sidecar(attacherSidecar)
		if s.Works == Yes || s.Present {
			return Finding{}, No // it has an attacher: without a CSIDriver attaching is right
		}
		if s.Works == Unknown {
			return Finding{}, Unknown
		}
		drivers, _ := list[*storagev1.CSIDriver](v.world, inDrivers, snapshot.Query{})
		var names []string
		for _, d := range drivers {
			names = append(names, d.Name)
		}
		f := Finding{Confidence: Likely, Why: fmt.Sprintf("There is no CSIDriver object %s, so Kubernetes assumes that its volumes must be attached, and no attacher of that driver is there: the VolumeAttachment waits for ever.", v.Driver),
			Evidence: []Evidence{fact(Object{Kind: "CSIDriver", Name: v.Driver}, "metadata", "does not exist", time.Time{}), fact(ref(at), "status.attached", "false, and no attacher has touched it", at.CreationTimestamp.Time)}}
		if len(names) > 0 {
			f.Evidence = append(f.Evidence, fact(Object{Kind: "CSIDriver"}, "names", strings.Join(names, ", "), time.Time{}))
		}
		f.Fix = []Step{v.look("See which CSIDrivers there are", "get", "csidrivers"),
			say("Install the driver's CSIDriver object again (it is part of its chart or manifests). If the driver attaches nothing it has attachRequired: false; then the pod is mounted by itself.")}
		v.asHop(&f)
		return f, Yes
	}
	t := v.mountTrouble()
	if t == nil || !noPublishContext.MatchString(t.Text) || known != Yes || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired {
		return Finding{}, No
	}
	f := Finding{Confidence: Likely, Status: v.settled(t), Evidence: []Evidence{fact(ref(d), "spec.attachRequired", "false", d.CreationTimestamp.Time), t.Evidence},
		Why: fmt.Sprintf("CSIDriver %s says attachRequired: false, so the volume is never attached, and the driver on node %s misses what the attach would have told it: %s", v.Driver, v.Node, t.Text)}
	f.Fix = []Step{v.look("See the object", "get", "csidriver", v.Driver, "-o", "yaml"),
		say("Make the CSIDriver object as the driver's own installation has it, with attachRequired: true: the field cannot be changed, the object has to be made anew. Pods that run are not touched by that.")}
	return f, Yes
}

// noPublishContext: the node side misses what ControllerPublishVolume would have told it.
var noPublishContext = regexp.MustCompile(`(?i)publish ?context|device ?path (is )?(not|missing|empty)|(missing|no) device ?path|(missing|no) LUN|disk ?UUID (is )?(not|missing)`)

// awaitedAttacher: the attachment could not be read, the attach-detach controller waits in vain, and the attacher is proved dead.
func (v *View) awaitedAttacher() (Finding, Truth) {
	s := v.sidecar(attacherSidecar)
	if s.Works != No || s.Proof != Certain {
		return Finding{}, Unknown
	}
	f := Finding{Confidence: Likely, Evidence: append([]Evidence{v.attachEvent().Evidence}, s.Evidence...), Fix: v.restartSidecar(s),
		Why: fmt.Sprintf("The attach-detach controller waits in vain for the attacher of %s to attach volume %s to node %s: %s.", v.Driver, v.volumeName(), v.Node, s.Why)}
	v.asHop(&f)
	return f, Yes
}

func attacherNotRunning(v *View) (Finding, Truth) {
	if !v.at(HopAttach) {
		return Finding{}, No
	}
	at, known := v.attachment(v.Node)
	if known == Unknown && v.attachTimesOut() {
		return v.awaitedAttacher()
	}
	if known != Yes || at.DeletionTimestamp != nil || at.Status.Attached {
		return Finding{}, min(known.not(), Unknown)
	}
	s := v.sidecar(attacherSidecar)
	alone := untouched(at) && v.age(at.CreationTimestamp.Time) >= normalUntouched
	dead := s.Works == No && s.Proof == Certain
	if !alone && !dead {
		if v.hop(HopAttach).Status == StatusWaiting {
			return Finding{}, No
		}
		if e := at.Status.AttachError; s.Works == Unknown && (e == nil || v.taken.Sub(e.Time.Time) > attacherBackoff+time.Minute) {
			return Finding{}, Unknown
		}
		return Finding{}, No
	}
	if s.Works == Yes {
		lacks := No
		v.ahead(func() { _, lacks = v.attachRBAC() })
		if lacks == Yes || v.sidecarError(attacherSidecar) != nil {
			return Finding{}, No // it is there, and cannot
		}
	}
	d, driverKnown := v.csiDriver()
	unsure := d == nil && !dead && (driverKnown == Unknown || s.Works == Unknown) // it may be that the driver attaches nothing
	if unsure && driverKnown == No {
		return Finding{}, Unknown
	}
	f := Finding{Confidence: Likely, Rest: unsure, Said: unsure, Evidence: append([]Evidence{fact(ref(at), "status.attached", "false, no finalizer, no error", at.CreationTimestamp.Time)}, s.Evidence...)}
	if !alone {
		f.Evidence = s.Evidence
	}
	f.Why = fmt.Sprintf("The VolumeAttachment of volume %s to node %s waits for the attacher of %s", v.volumeName(), v.Node, v.Driver)
	switch {
	case s.Works == No && !s.Present && !slices.Contains(v.PV.Finalizers, attacherFinalizer(v.Driver)):
		asks := "Its CSIDriver asks for it (attachRequired is true or not set)."
		if unsure {
			asks = "Whether its CSIDriver asks for one could not be read."
		}
		f.Why += ", and nothing shows that the driver ever had one. " + asks
		if d != nil {
			f.Evidence = append(f.Evidence, fact(ref(d), "spec.attachRequired", "true", d.CreationTimestamp.Time))
		}
		f.Fix = []Step{v.look("See what the driver asks for", "get", "csidriver", v.Driver, "-o", "yaml"),
			say("If the driver attaches nothing (shares, local disks), make its CSIDriver anew with attachRequired: false, as its chart can. Otherwise install its controller with the external-attacher.")}
	case s.Works == No:
		f.Why += ": " + s.Why + "."
		f.Confidence = s.Proof
		if alone && f.Confidence == Possible {
			f.Confidence = Likely
		}
		f.Fix = v.restartSidecar(s)
	default:
		f.Why += ", which has not touched it for " + ago(v.age(at.CreationTimestamp.Time)) + "."
		if s.Works == Yes {
			f.Why += " Yet " + s.Why + "."
		}
		f.Fix = v.restartSidecar(s)
	}
	v.asHop(&f)
	return f, Yes
}

// restartSidecar shows what a sidecar says and lets its owner make its pod anew.
func (v *View) restartSidecar(s sidecar) []Step {
	if s.Pod == nil {
		return []Step{v.look("Find the driver's controller", "get", "deployments,statefulsets", "-A"), say("Install or start the driver's controller with its " + s.Kind.Name + ".")}
	}
	p := s.Pod
	name := s.Kind.Name
	if c := sidecarContainer(p.Spec.Containers, s.Kind); c != nil {
		name = c.Name
	}
	return []Step{
		v.look("Read what it says", "-n", p.Namespace, "logs", p.Name, "-c", name, "--tail=50"),
		v.act(DangerDisruptive, "its log shows that it does nothing; running mounts are not touched, only new requests wait", "Let the controller's pod be made anew", "-n", p.Namespace, "delete", "pod", p.Name),
	}
}

func attachPVDeleting(v *View) (Finding, Truth) {
	if !v.at(HopAttach) {
		return Finding{}, No
	}
	if v.PV == nil {
		t, known := v.attachSays()
		if t == nil || v.told(attachWords, t.Text) != "attach/pv-deleting" {
			return Finding{}, min(known.not(), Unknown)
		}
		return Finding{Status: v.settled(t), Evidence: []Evidence{t.Evidence}, Why: fmt.Sprintf("The attacher does not attach the volume to node %s any more: %s", v.Node, plainWords(t.Text)),
			Fix: []Step{v.look("Save the data first: see the volume's handle and reclaim policy", "get", "pv", v.volumeName(), "-o", "yaml")}}, Yes
	}
	at, known := v.attachment(v.Node)
	if known == Yes && at.DeletionTimestamp != nil {
		if at.Status.DetachError != nil {
			return Finding{}, No // that says why
		}
		age := v.age(at.DeletionTimestamp.Time)
		f := Finding{Confidence: Certain, Evidence: []Evidence{fact(ref(at), "metadata.deletionTimestamp", at.DeletionTimestamp.UTC().Format(time.RFC3339), at.DeletionTimestamp.Time)},
			Why: fmt.Sprintf("The VolumeAttachment of volume %s to node %s is being deleted since %s; a new one is made when it is gone.", v.volumeName(), v.Node, ago(age)),
			Fix: []Step{v.look("See what holds it", "get", "volumeattachment", at.Name, "-o", "yaml"), say("Wait for the detach; when it does not end, look at the driver's attacher.")}}
		v.asHop(&f)
		return f, Yes
	}
	if v.PV.DeletionTimestamp == nil {
		return Finding{}, No
	}
	if known == Yes && at.Status.AttachError != nil && v.told(attachWords, at.Status.AttachError.Message) != "attach/pv-deleting" {
		return Finding{}, No
	}
	f := Finding{Confidence: Certain, Evidence: []Evidence{fact(ref(v.PV), "metadata.deletionTimestamp", v.PV.DeletionTimestamp.UTC().Format(time.RFC3339), v.PV.DeletionTimestamp.Time)},
		Why: fmt.Sprintf("PersistentVolume %s is marked for deletion, so the attacher does not attach it to node %s any more.", v.PV.Name, v.Node)}
	if known == Yes && at.Status.AttachError != nil {
		f.Evidence = append(f.Evidence, v.attachTrouble(at).Evidence)
	}
	f.Fix = []Step{v.look("Save the data first: see the volume's handle and reclaim policy", "get", "pv", v.PV.Name, "-o", "yaml"),
		v.look("Keep the volume in the backend when its objects go", "patch", "pv", v.PV.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`),
		v.look("See that the policy is Retain now", "get", "pv", v.PV.Name, "-o", "jsonpath={.spec.persistentVolumeReclaimPolicy}"),
		hazard(DangerDataLoss, "the step before says Retain, so that the backend keeps the volume", "The deletion cannot be taken back: stop the pods of the claim, let claim and PV go, and make a new PV with the old handle and a new claim for it.")}
	return f, Yes
}
