package explain

import (
	storagev1 "k8s.io/api/storage/v1"
)

// detachHop: no attachment of the volume is left where none is needed. It is asked where no pod uses the claim; where another
// waits its attach asks.
func detachHop(v *View) Hop {
	if v.At == nil && !v.idle() {
		return skippedHop("")
	}
	going, known := v.leavings()
	if len(going) > 0 {
		at := going[0]
		v.ahead(func() {
			v.sidecar(attacherSidecar)
			v.installed()
			v.node(at.Spec.NodeName)
		})
		if at.Status.DetachError != nil {
			t := detachTrouble(at)
			return v.aside(v.troubledHop(t, v.settled(t), "ControllerUnpublishVolume fails"))
		}
		return v.aside(v.openHop(at.DeletionTimestamp.Time, normalAttach, ref(at), "being detached from node "+at.Spec.NodeName))
	}
	held, heldKnown := v.holders()
	for _, h := range held {
		o := ref(h.At)
		until, pending := v.forceDetach(h)
		freed, freedKnown := v.freedSince()
		switch {
		case pending == Yes:
			return v.aside(Hop{Status: StatusWaiting, Until: &until, Since: moment(h.Since), Object: &o, Note: "attached to node " + h.Name + ", which does not answer", reached: true})
		case v.goingClaim() || v.goingPV(): // whether it holds up the deletion is asked there
		case len(h.Pods) > 0 || h.Ready == Yes && h.InUse == Yes:
		case h.Ready == Unknown || h.Ready == Yes && h.InUse == Unknown:
			return unknownHop(&o, "whether node "+h.Name+" needs it could not be read")
		case h.Ready == Yes && v.age(freed) < normalAttach:
			return v.openHop(freed, normalAttach, o, "still attached to node "+h.Name)
		case pending == Unknown || h.Ready == Yes && freedKnown == Unknown:
			return unknownHop(&o, "since when no pod needs it on node "+h.Name+" could not be read")
		default:
			v.ahead(func() { v.controllerManagerDown() })
			return Hop{Status: StatusDegraded, Object: &o, Note: "left attached to node " + h.Name, reached: true}
		}
	}
	if known.and(heldKnown) == Unknown && !v.saidDetached() {
		return unknownHop(&Object{Kind: "VolumeAttachment"}, "which nodes hold the volume could not be read")
	}
	return skippedHop("")
}

// detachTrouble is the detachError of a VolumeAttachment: it knows only the last try.
func detachTrouble(at *storagev1.VolumeAttachment) *trouble {
	e := at.Status.DetachError
	return &trouble{Text: e.Message, Since: at.DeletionTimestamp.Time, At: e.Time.Time, Count: 1, Source: "external-attacher",
		Evidence: fact(ref(at), "status.detachError.message", e.Message, e.Time.Time)}
}

// detachTold is the attacher's error of a detach: its status's, else, past the normal time, its log's.
func (v *View) detachTold(at *storagev1.VolumeAttachment) *trouble {
	if at.Status.DetachError != nil {
		return detachTrouble(at)
	}
	if v.age(at.DeletionTimestamp.Time) < normalAttach {
		return nil
	}
	return v.sidecarError(attacherSidecar, at.Name)
}

// detachWords are drivers' and the attacher's words when a volume cannot be detached.
var detachWords = []signature{
	sig("detach/rbac",
		`is forbidden: User "system:serviceaccount:`,
		`cannot (get|list|update|patch) resource "(volumeattachments|persistentvolumes|csinodes|nodes)`),
	sig("detach/pv-gone", `persistentvolume "[^"]*" not found`),
	sig("detach/throttled", tooManyCalls),
	sig("detach/backend-error", searching+callLate+`|`+searching+callLost), // whether the machine is there was not said
	sig("detach/node-gone", machineGone+`|\bnodes? "[^"]*" not found`),
	sig("detach/backend-busy", busyNow+`|attachment ?ticket`),
	sig("detach/permission", denied+`|failed to load secret`),
}

var detachCauses = []Cause{{
	ID:    "detach/pv-gone",
	Title: "The volume's object is gone, so its attachment cannot be detached",
	Doc: `The attacher reads the volume's handle from the PersistentVolume. When that was pushed out by removing its finalizers, the attachment
that is being deleted fails for ever with "persistentvolume not found", and the disk stays attached to the node.

To be sure: the VolumeAttachment has a deletion time and that error, and the PV that it names does not exist.

Make the PersistentVolume again, with the same name, driver and handle: the detach goes through. Removing the attachment's finalizer
leaves the disk attached: only after it was detached in the backend by hand.`,
	Match: detachPVGone,
}, {
	ID:    "detach/waiting-force-detach",
	Title: "Kubernetes waits before it detaches from a node that does not answer",
	Doc: `When no pod wants the volume on a node that is not Ready or gone, the attach-detach controller waits six minutes for the node's own
word, then detaches without it. The timer is in no object.

To be sure: no pod of the claim on that node, the node is not Ready or gone, and that is younger than about seven minutes.

Do nothing but wait. Deleting the attachment by hand skips the wait that protects the data.`,
	Match: waitingForceDetach,
}, {
	ID:    "detach/driver-gone",
	Title: "The driver was removed while its volumes were attached",
	Doc: `The attachment's finalizer is the external-attacher's, and nothing of the driver is left in the cluster to do the detach.

To be sure: no CSIDriver, no CSINode entry, no pod and no fresh lease of it.

Install the driver again until its attachments are gone, then remove it. Taking the finalizer off by hand leaves the disk attached in
the backend.`,
	Match: detachDriverGone,
}, {
	ID:    "detach/attacher-not-running",
	Title: "No attacher works on the detach",
	Doc: `The attachment has a deletion time and waits for the driver's external-attacher: its pod does not run, crashes, or has lost its lease.

To be sure: the lease external-attacher-leader-DRIVER is stale or missing, or the sidecar's container does not run.

Start the controller again. Do not take the finalizer off: the disk would stay attached.`,
	Match: detachAttacherNotRunning,
}, {
	ID:    "detach/node-gone",
	Title: "The detach fails since the node does not exist any more",
	Doc: `The driver asks the backend, or the API, for a machine that was deleted, and takes the answer for an error. Newer versions of most drivers
take a missing machine as detached.

To be sure: the node's object and its machine in the backend are gone, and the error names them.

See in the backend that the volume is attached to nothing. Then a newer driver, or a Node object of the same name for a moment, lets the
detach end. Taking the attachment's finalizer off is safe only after that look.`,
	Match: detachSays("detach/node-gone", "The driver cannot detach volume VOLUME from node NODE, which it does not find any more"),
}, {
	ID:    "detach/rbac",
	Title: "The attacher may not record the detach",
	Doc: `The attacher calls the driver and must write into the VolumeAttachment and its status, and take its finalizers off it and the volume.
With too small a ClusterRole the disk is detached in the backend and Kubernetes never learns it.

To be sure: the attacher's log, or its ClusterRole: volumeattachments and volumeattachments/status with patch, persistentvolumes with
patch.

Give the role what it lacks; the detach is then recorded by itself.`,
	Match: detachRBAC,
}, {
	ID:    "detach/permission",
	Title: "The backend refuses the driver's credentials for the detach",
	Doc: `The driver's account lacks the permission to detach, or its token or password has expired.

To be sure: the driver's own words; try the same call with its account.

Renew the credentials in the driver's secret and restart its controller pod if it reads them only once.`,
	Match: detachSays("detach/permission", "The backend refuses the driver's credentials: volume VOLUME cannot be detached from node NODE"),
}, {
	ID:    "detach/throttled",
	Title: "The backend limits the rate of the driver's calls, so the detach waits",
	Doc: `Many attaches and detaches at once use up the backend's request quota; they are repeated with a growing pause and go through in the end.

To be sure: the driver's words name a rate, a throttle or 429.

Wait, or let fewer pods move at a time.`,
	Match: detachSays("detach/throttled", "The backend limits the rate of calls: volume VOLUME is not detached from node NODE yet"),
}, {
	ID:    "detach/backend-busy",
	Title: "An operation in the backend holds the attachment",
	Doc: `The backend works on the volume or the machine (a snapshot, a migration, an earlier detach), or another user of the volume holds it there
with a ticket or lock of its own.

To be sure: the driver's words or a vendor's object name the operation.

Let it end, or end it in the backend. Do not take the finalizer off.`,
	Match: detachBusy,
}, {
	ID:    "detach/in-progress",
	Title: "The volume is being detached",
	Doc: `The attachment was asked to go, and the detach is within its normal time.

Do nothing but wait.`,
	Match: detachInProgress,
}, {
	ID:    "detach/orphaned-attachment",
	Title: "The volume is left attached to a node where nothing uses it",
	Doc: `A VolumeAttachment that nobody needs blocks no pod now, but it takes a slot of the node, and it will block the next pod that comes to
another node.

To be sure: no pod of the claim, and the node does not list the volume in use.

A restart of the kube-controller-manager makes it read all attachments again. By hand only after the proof that nothing is mounted.`,
	Match: orphanedAttachment,
}, {
	ID:    "detach/backend-error",
	Title: "The driver cannot detach the volume",
	Doc: `ControllerUnpublishVolume fails, or does not end, for a reason that is none of the known ones. The attacher repeats it, at least every 5
minutes.

To be sure: the driver's controller log; look at the volume in the backend: is it still attached?

If the backend shows it detached, the driver should say so: a newer version often does. Taking the attachment's finalizer off is safe
only when the backend shows the volume attached to nothing.`,
	Match: detachBackendError,
}}
