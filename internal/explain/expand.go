package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// expandHop: an expansion or a change of the attributes class is open, or one that is done has left the filesystem behind.
func expandHop(v *View) Hop {
	if v.Claim == nil || !v.bound() {
		return skippedHop("")
	}
	o := v.claimObject()
	asked, has := v.sizes()
	switch {
	case v.growing():
		return v.openHop(v.expansionSince(), normalExpand, o, "asked for "+asked.String()+", has "+has.String())
	case v.modifying():
		return v.openHop(v.expansionSince(), normalExpand, o, "to be changed to the class "+v.wantedAttributes())
	case v.refusedGrowth() != nil:
		return v.troubledHop(v.refusedGrowth(), StatusStuck, "its class forbids to grow it")
	case v.lagging() != nil:
		return Hop{Status: StatusDegraded, Object: &o, Note: "the filesystem is smaller than its device", reached: true}
	}
	return skippedHop("")
}

// sizes are what the claim asks for and what it has.
func (v *View) sizes() (asked, has resource.Quantity) {
	return v.Claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Claim.Status.Capacity[corev1.ResourceStorage]
}

// resizeState is how far an expansion is, as the resizer and the kubelet record it; empty before 1.34 and when none is open.
func (v *View) resizeState() corev1.ClaimResourceStatus {
	return v.Claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

// growing: an expansion was asked for and is not done.
func (v *View) growing() bool {
	asked, has := v.sizes()
	return asked.Cmp(has) > 0 || v.resizeState() != ""
}

// atNode: the backend's part of the expansion is done, the filesystem's is not.
func (v *View) atNode() bool {
	switch v.resizeState() {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return true
	}
	if claimCondition(v.Claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil {
		return true
	}
	asked, has := v.sizes()
	return v.resizeState() == "" && v.PV != nil && asked.Cmp(has) > 0 && asked.Cmp(v.PV.Spec.Capacity[corev1.ResourceStorage]) <= 0
}

// wantedAttributes is the VolumeAttributesClass that the claim asks for.
func (v *View) wantedAttributes() string {
	if v.Claim.Spec.VolumeAttributesClassName == nil {
		return ""
	}
	return *v.Claim.Spec.VolumeAttributesClassName
}

// modifying: the claim asks for another VolumeAttributesClass than it has.
func (v *View) modifying() bool {
	current := ""
	if c := v.Claim.Status.CurrentVolumeAttributesClassName; c != nil {
		current = *c
	}
	return v.Claim.Status.ModifyVolumeStatus != nil || v.wantedAttributes() != "" && v.wantedAttributes() != current
}

// claimCondition is a condition of the claim that is true.
func claimCondition(c *corev1.PersistentVolumeClaim, t corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaimCondition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == t && c.Status.Conditions[i].Status == corev1.ConditionTrue {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}

// expansionSince is the earliest moment at which the open expansion shows: no field says when it was asked for.
func (v *View) expansionSince() time.Time {
	since := time.Time{}
	earliest := func(t time.Time) {
		if !t.IsZero() && (since.IsZero() || t.Before(since)) {
			since = t
		}
	}
	for _, t := range []corev1.PersistentVolumeClaimConditionType{corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError, corev1.PersistentVolumeClaimVolumeModifyingVolume, corev1.PersistentVolumeClaimVolumeModifyVolumeError} {
		if c := claimCondition(v.Claim, t); c != nil {
			earliest(c.LastTransitionTime.Time)
		}
	}
	events, _ := v.claimEvents()
	for _, r := range events {
		switch r.Reason {
		case "VolumeResizeSuccessful", "FileSystemResizeSuccessful", "VolumeModifySuccessful":
			since = time.Time{} // what was before was an earlier one
		case "ExternalExpanding", "Resizing", "VolumeResizeFailed", "VolumeModify", "VolumeModifyFailed", "FileSystemResizeRequired":
			earliest(r.First)
		}
	}
	if since.IsZero() {
		return v.Claim.CreationTimestamp.Time
	}
	return since
}

// controllerTrouble is the error in force of ControllerExpandVolume: an event of the resizer, else the claim's condition.
func (v *View) controllerTrouble() (*trouble, Truth) {
	if v.atNode() {
		return nil, Yes
	}
	events, known := v.claimEvents()
	t := troubleIn(events, func(r report) bool { return r.Reason == "VolumeResizeFailed" && r.Source != "kubelet" }, func(r report) bool {
		return r.Reason == "VolumeResizeSuccessful" || r.Reason == "FileSystemResizeRequired" || r.Reason == "FileSystemResizeSuccessful"
	})
	c := claimCondition(v.Claim, corev1.PersistentVolumeClaimControllerResizeError)
	if t == nil && c != nil {
		t = &trouble{Text: c.Message, Since: c.LastTransitionTime.Time, At: c.LastTransitionTime.Time, Count: 1, Source: "external-resizer",
			Evidence: fact(v.claimObject(), "status.conditions[ControllerResizeError]", c.Message, c.LastTransitionTime.Time)}
	}
	if t != nil {
		return t, Yes
	}
	return v.orLogged(nil, HopExpand, resizerSidecar), known
}

// nodeTrouble is the error in force of NodeExpandVolume: the kubelet reports it at the pod, at a mount as a failed mount, and
// in the claim's condition.
func (v *View) nodeTrouble() (*trouble, Truth) {
	fails := func(r report) bool {
		return r.Warning && (r.Reason == "VolumeResizeFailed" || r.Reason == "FileSystemResizeFailed" || r.Reason == "FailedMount" && expandsAtMount.in(r.Message)) && v.names(r.Message)
	}
	clears := func(r report) bool { return r.Reason == "FileSystemResizeSuccessful" }
	pod, podKnown := v.podEvents()
	claim, claimKnown := v.claimEvents()
	t := troubleIn(pod, fails, clears)
	if t == nil {
		t = troubleIn(claim, func(r report) bool { return r.Source == "kubelet" && fails(r) }, clears)
	}
	if c := claimCondition(v.Claim, corev1.PersistentVolumeClaimNodeResizeError); t == nil && c != nil {
		t = &trouble{Text: c.Message, Since: c.LastTransitionTime.Time, At: c.LastTransitionTime.Time, Count: 1, Source: "kubelet",
			Evidence: fact(v.claimObject(), "status.conditions[NodeResizeError]", c.Message, c.LastTransitionTime.Time)}
	}
	if t == nil {
		t = v.kubeletLogged(func(text string, _ time.Time) bool {
			return strings.Contains(text, "NodeExpandVolume failed") && v.names(text)
		})
		if t != nil {
			t.Since, t.Count = t.At, errorSettledCount // the report keeps but a few lines
		}
	}
	if t != nil {
		return t, Yes
	}
	if podKnown.and(claimKnown) == Unknown {
		v.probed(v.Node) // the kubelet's log would tell
	}
	return nil, podKnown.and(claimKnown)
}

var expandsAtMount = phrase(`failed while expanding volume|NodeExpandVolume failed`)

// refusedGrowth is the API server's refusal to let the claim grow, as a component that asked for it reports it.
func (v *View) refusedGrowth() *trouble {
	events, _ := v.claimEvents()
	return troubleIn(events, func(r report) bool { return forbidsGrowth.in(r.Message) }, nil)
}

var forbidsGrowth = phrase(
	`storageclass that provisions the pvc must support resize|only dynamically provisioned pvc can be resized`,
	`allowVolumeExpansion|does not allow (volume )?expansion`)

// lag is by how much a filesystem may be smaller than its device for reasons of its own: a last group or a log that is not used.
const lag = 256 << 20

// lagging finds that the claim has what it asked for, and the mounted filesystem is smaller than its device.
func (v *View) lagging() *nodeFacts {
	if !v.mounted() || v.growing() {
		return nil
	}
	n, _ := v.atHand(v.Node)
	if n == nil {
		return nil
	}
	if d := n.smaller(v); d == nil {
		return nil
	}
	return n
}

type mountedDevice struct {
	Mount  mountinfo.Mount
	Device *nodereport.Device
	Below  *nodereport.Device // of an encrypted or multipath one, which do not grow by themselves: the device that it is on; else the same
}

// smaller is the mounted device whose filesystem does not use all of it, nor what the claim was promised.
func (n *nodeFacts) smaller(v *View) *mountedDevice {
	_, has := v.sizes()
	for _, m := range n.mountsOf() {
		d := n.device(m)
		if d == nil || d.Signature == nil || d.Signature.Bytes == 0 || d.Signature.Error != "" || !slices.Contains([]string{"ext2", "ext3", "ext4", "xfs"}, d.Signature.Type) {
			continue
		}
		below := d
		if d.Kind == "dm-crypt" || d.Kind == "dm-mpath" {
			for i := range n.Devices {
				if disk := &n.Devices[i]; slices.Contains(d.Slaves, disk.Name) && (below == d || disk.Bytes < below.Bytes) {
					below = disk
				}
			}
		}
		slack := max(int64(lag), below.Bytes/100)
		if d.Signature.Bytes+slack < below.Bytes && d.Signature.Bytes+slack < has.Value() {
			return &mountedDevice{m, d, below}
		}
	}
	return nil
}

var expandCauses = []Cause{{
	ID:    "expand/modify-failed",
	Title: "The change of the volume's attributes class is refused or not done",
	Doc: `The claim asks for another VolumeAttributesClass. The class does not exist, is of another driver, the backend refuses its parameters, or nobody works on it.

To be sure: status.modifyVolumeStatus of the claim and the resizer's events.

The volume goes on as it is. Setting the claim's class back to the current one ends the try.`,
	Match: modifyFailed,
}, {
	ID:    "expand/not-allowed",
	Title: "The class does not allow the volume to grow",
	Doc: `Only claims whose StorageClass has allowVolumeExpansion: true may grow. The API server refuses the change otherwise; an operator or a chart may go on
asking.

To be sure: kubectl get storageclass shows ALLOWVOLUMEEXPANSION.

The field can be set on an existing class, if its driver can grow volumes.`,
	Match: growthNotAllowed,
}, {
	ID:    "expand/resizer-not-running",
	Title: "Nobody works on the expansion",
	Doc: `The claim's new size is served by the csi-resizer sidecar of the driver's controller. It is not installed (many drivers make it an option), does not run, or
is not elected.

To be sure: no event "Resizing" at the claim; the lease external-resizer-<driver> is missing or old.

The volume works in its old size meanwhile.`,
	Match: resizerNotRunning,
}, {
	ID:    "expand/node-failed",
	Title: "The filesystem cannot be grown on the node",
	Doc: `The disk has grown; NodeExpandVolume, which grows the filesystem on it, fails: a tool is missing in the driver's image, the filesystem has errors or is mounted
read-only, the node does not see the new size yet, or it cannot grow while it is mounted.

To be sure: the kubelet's event at the pod has the driver's words.

The data is whole; the pod works in the old size. Do not repair a filesystem that is mounted.`,
	Match: nodeExpandFailed,
}, {
	ID:    "expand/needs-detach",
	Title: "The driver grows only volumes that are not in use",
	Doc: `The backend or driver can grow the volume only offline, and a pod uses it.

To be sure: the words of the resizer or the driver.

Stop all pods of the claim until the claim shows its new size, then start them again.`,
	Match: needsDetach,
}, {
	ID:    "expand/infeasible",
	Title: "The backend can never make the volume that large",
	Doc: `The request cannot be met however often it is tried: above a maximum, a kind of volume that cannot grow, a setting that excludes the size, or a volume
without a CSI driver.

To be sure: the status ControllerResizeInfeasible, or the backend's words.

The request can be lowered again to any size not below the current one (1.34 and later; earlier only by making the claim anew).`,
	Match: infeasible,
}, {
	ID:    "expand/waiting-for-pod",
	Title: "The filesystem is grown when a pod uses the volume",
	Doc: `The disk has grown. The filesystem is grown by the kubelet of the node where a pod mounts it, and no pod uses the claim.

It waits for as long as no pod comes; nothing is wrong.`,
	Match: waitsForPod,
}, {
	ID:    "expand/backend-error",
	Title: "The backend fails to grow the volume for now",
	Doc: `ControllerExpandVolume fails: the backend limits its rate, the volume is busy, has snapshots, or an error that may pass. The resizer tries again, at least
every 5 minutes.

To be sure: the resizer's event at the claim has the backend's words.`,
	Match: expandBackendError,
}, {
	ID:    "expand/filesystem-smaller",
	Title: "The filesystem is smaller than its device",
	Doc: `The claim and the disk have the new size, and the filesystem was never grown: the volume was restored or cloned from a smaller one, was grown behind Kubernetes'
back, or the node's step was lost.

To be sure: df in the pod shows the old size, lsblk on the node the new one.

Growing a mounted ext4 or XFS filesystem is safe; shrinking never is.`,
	Match: filesystemSmaller,
}, {
	ID:    "expand/in-progress",
	Title: "The volume is being grown or changed",
	Doc: `The resizer or the kubelet is at work, within the normal time.

Wait.`,
	Match: expandInProgress,
}}
