package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// unpublishHop: the terminating pod's volume is unmounted; of a node asked by itself: no folder of a pod is left over.
func unpublishHop(v *View) Hop {
	if v.Pod == nil && v.Node != "" {
		return orphanHop(v)
	}
	if v.Pod == nil || v.Pod.DeletionTimestamp == nil {
		return skippedHop("")
	}
	deleted := v.Pod.DeletionTimestamp.Time
	if v.age(deleted) >= normalTeardown {
		done := false
		v.ahead(func() {
			v.nodeSide(v.Node)
			r, _ := v.report(v.Node)
			done = r != nil && v.unmountedFrom(r, v.Pod)
		})
		if done {
			return okHop("unmounted")
		}
	}
	return v.openHop(deleted, normalTeardown, ref(v.Pod), "the pod is terminating")
}

// unmountedFrom: the report knows the volume, and has no folder of it for the pod any more.
func (v *View) unmountedFrom(r *nodereport.NodeReport, pod *corev1.Pod) bool {
	for i := range r.Volumes {
		if vol := &r.Volumes[i]; v.isVolume(vol) {
			return !slices.ContainsFunc(vol.Publishes, func(p nodereport.Publish) bool { return p.PodUID == string(pod.UID) })
		}
	}
	return false
}

// orphanHop: the node's report has no folder of a pod that is gone.
func orphanHop(v *View) Hop {
	r, _ := v.report(v.Node)
	if r == nil || len(r.Orphans) == 0 {
		return skippedHop("")
	}
	gone, _ := v.orphansOf(r, v.Node)
	if len(gone) == 0 {
		return skippedHop("")
	}
	return Hop{Status: StatusDegraded, Object: &Object{Kind: "NodeReport", Name: v.Node}, Note: fmt.Sprintf("%d folders of pods that are gone", len(gone)), reached: true}
}

// orphansOf are the folders of a report that hold something of a pod that the API does not have on the node either: a report
// tells of folders without a running pod, and a pod that still waits for its volumes does not run.
func (v *View) orphansOf(r *nodereport.NodeReport, node string) ([]nodereport.Orphan, Truth) {
	pods, known := v.podsOn(node)
	var gone []nodereport.Orphan
	for _, o := range r.Orphans {
		if o.Mounts+o.Entries > 0 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return string(p.UID) == o.PodUID }) {
			gone = append(gone, o)
		}
	}
	return gone, known
}

// old is a terminating pod that holds the view's volume: the view's own, or one on a node that has to let the volume go.
type old struct {
	Pod  *corev1.Pod
	Node string
	Past time.Duration // since its deletion time
}

// olds are the terminating pods that hold up the view's volume, by name. Those that only take their normal time are left out
// but at the pod's own teardown.
func (v *View) olds() ([]old, Truth) {
	if v.at(HopUnpublish) {
		if v.Pod == nil {
			return nil, Yes
		}
		return []old{{v.Pod, v.Pod.Spec.NodeName, v.age(v.Pod.DeletionTimestamp.Time)}}, Yes
	}
	if !v.at(HopAttach) {
		return nil, Yes
	}
	held, known := v.heldElsewhere()
	var out []old
	for _, h := range held {
		for _, p := range h.dying() {
			if past := v.age(p.DeletionTimestamp.Time); past >= normalTeardown && h.Ready != No && !h.leaving() {
				out = append(out, old{p, h.Name, past})
			}
		}
	}
	return out, known
}

// ended: no container of the pod runs any more, as its kubelet last said.
func ended(p *corev1.Pod) bool {
	return !slices.ContainsFunc(append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...), func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

var unpublishCauses = []Cause{{
	ID:    "unpublish/in-progress",
	Title: "The pod is ending, within its normal time",
	Doc: `After the containers have ended the kubelet unmounts the volumes one by one, then the pod's object goes.

Do nothing but wait until the deletion time has passed by a few minutes.`,
	Match: unpublishInProgress,
}, {
	ID:    "unpublish/node-dead",
	Title: "The pod is terminating on a node that does not answer",
	Doc: `Only the kubelet of its node can say that a pod has ended. A node that is not Ready says nothing, so the pod stays Terminating for ever,
and the volume stays its own.

To be sure: the node's Ready condition; then the console of the cloud or hypervisor: is the machine off?

Bring the node back, or power it off for certain and set the taint node.kubernetes.io/out-of-service. Forcing the pod's deletion while
the machine may run lets two writers at the volume.`,
	Match: unpublishNodeDead,
}, {
	ID:    "unpublish/vol-data-broken",
	Title: "The kubelet's own file about the mounted volume is missing or broken",
	Doc: `Beside each mount the kubelet keeps vol_data.json: the driver's name and the volume's handle. When it is empty or cut (the node's disk was
full, a crash) the kubelet does not know which driver to ask for the unmount and gives up, again and again.

To be sure: the kubelet's log says "failed to load volume data file"; look at the file.

Write the file again from the PersistentVolume's own values; the kubelet then unmounts by itself. Do not remove the pod's folder: the
volume is mounted below it, and its data would be removed with it.`,
	Match: volDataBroken,
}, {
	ID:    "unpublish/plugin-gone",
	Title: "The kubelet cannot reach the driver to unmount the volume",
	Doc: `Unmounting is the driver's work, on the node where the pod was. Without its node plugin there the pod stays Terminating.

To be sure: the driver is not in the node's CSINode, or its plugin's pod is missing or crashes.

Bring the plugin back, at least until the pods are gone. Before a driver is removed from a cluster its pods must be.`,
	Match: unpublishPluginGone,
}, {
	ID:    "unpublish/mount-busy",
	Title: "The mount cannot be undone",
	Doc: `Something has the mount open, or the server behind it does not answer, so that umount waits in the kernel.

To be sure: a process in state D that unmounts the path, "target is busy" in the kubelet's log, or a server that "is not responding" in the
kernel's log.

Bring the server back, even for a moment: the unmount then goes through. A lazy or forced unmount loses what was not written, so only
when the server is gone for ever.`,
	Match: mountBusy,
}, {
	ID:    "unpublish/not-the-volume",
	Title: "The pod is terminating for another reason than its volume",
	Doc: `A pod stays Terminating while a finalizer is on it, while its containers take their grace period, or when the runtime cannot end them.

To be sure: the pod's finalizers, its containers' states, and its FailedKillPod events: the kubelet unmounts nothing before the containers and
the sandbox are gone.

Ask the finalizer's owner. Removing it by hand skips work that somebody relies on.`,
	Match: unpublishNotTheVolume,
}, {
	ID:    "unpublish/orphaned-pod-dir",
	Title: "A folder of a pod that is gone is left on the node",
	Doc: `The pod's object is gone, and its folder below the kubelet's root still holds a mount or files: the driver was away at the teardown, or
the pod was deleted by force. The kubelet says "orphaned pod found" and does not remove what is not empty. A volume that is mounted there is
not let go by the node.

To be sure: the node's report, or the kubelet's log; see what is mounted below the folder.

Unmount what is mounted first. Never remove the folder recursively: if the volume is still mounted there its data is removed with it.`,
	Match: orphanedPodDir,
}, {
	ID:    "unpublish/driver-error",
	Title: "The driver cannot unmount the volume from the pod",
	Doc: `NodeUnpublishVolume fails, or never ends, for a reason that is none of the known ones. The kubelet repeats it at least every two minutes,
and says it in its log only.

To be sure: the kubelet's log on the node, "UnmountVolume.TearDown failed", and the driver's log there.

Do not remove the pod's folder or force its deletion before nothing is mounted there.`,
	Match: unpublishDriverError,
}}
