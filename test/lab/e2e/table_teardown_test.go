package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// teardownFaults keep a volume from going away.
var teardownFaults = []fault{
	{
		name: "unpublish-fails",
		rule: "Normal times: unpublish without error 3 min, and a teardown's error is in no object; Causes: NodeUnpublishVolume fails; from objects alone " +
			"a mount that is busy looks the same",
		ask:  "pod app",
		want: "stuck unpublish/driver-error|unpublish/mount-busy",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.refuse("NodeUnpublishVolume", "firmware answered E4720")
			b.delete("pod/app")
			b.status("Pod", "app", "has ended more than 3 minutes ago", func(o object) bool {
				return o.deletedSince(190*time.Second) && slices.ContainsFunc(o.Status.ContainerStatuses, func(c containerStatus) bool { return c.State.Terminated != nil })
			})
		},
	},
	{
		name: "unstage-fails",
		rule: "Normal times: unstage without error 3 min, and a teardown's error is in no object; Borders: attach/stale-attachment only when the volume is not " +
			"in that node's volumesInUse, else the unstage/ cause, and this is its echo",
		ask:    "pod second",
		want:   "waiting attach/multi-attach-transient|unstage/in-progress",
		of:     "Pod/second",
		normal: 3 * time.Minute,
		late:   "stuck unstage/never-confirmed|unstage/driver-error",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.refuse("NodeUnstageVolume", "firmware answered E4721")
			b.delete("pod/app")
			b.gone("Pod", "app")
			b.create(edit(edit(pod, second...), on("node-2")...))
			b.event("Pod/second", "FailedAttachVolume", "", 1)
		},
	},
	{
		name: "detach-fails",
		rule: "Causes: ControllerUnpublishVolume fails; Normal times: an error that the owner retries is stuck after two minutes; " +
			"Borders: a call that was made and fails is stuck even if nobody waits for it",
		ask:  "pvc data",
		want: "stuck detach/backend-error",
		also: []question{{"pv PV", "stuck detach/backend-error"}},
		dump: true,
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.refuse("ControllerUnpublishVolume", "firmware answered E4722")
			b.delete("pod/app")
			b.attachment("fails to go for more than two minutes", func(o object) bool {
				return o.deletedSince(130*time.Second) && strings.Contains(o.Status.DetachError.Message, "E4722")
			})
		},
	},
	{
		name: "delete-fails",
		rule: "Causes: DeleteVolume fails; Normal times: stuck from the third occurrence",
		ask:  "pv PV",
		want: "stuck delete/backend-error",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
			b.refuse("DeleteVolume", "firmware answered E4723")
			b.delete("pvc/data")
			b.until("the deletion failed three times", func(all objects) bool {
				n := 0
				for _, o := range all.named("Event", "default", b.pv) {
					if o.Reason == "VolumeFailedDelete" && strings.Contains(o.Message, "E4723") {
						n += o.times()
					}
				}
				return n >= 3
			})
		},
	},
	{
		name: "deleted-in-use",
		rule: "Borders: delete/in-use by a healthy running pod is stuck: it was asked to go",
		ask:  "pvc data",
		want: "stuck delete/in-use",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.delete("pvc/data")
			b.status("PersistentVolumeClaim", "data", "is being deleted", func(o object) bool { return o.deletedSince(0) })
		},
	},
	{
		name: "held-by-finished",
		rule: "Causes: a pod object still uses the claim; completed and failed pods count too until they are deleted; Borders: stuck, it was asked to go",
		ask:  "pvc data",
		want: "stuck delete/in-use",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"), edit(pod, finished...))
			b.bound("data")
			b.status("Pod", "app", "is finished", func(o object) bool { return o.Status.Phase == "Succeeded" })
			b.delete("pvc/data")
			b.status("PersistentVolumeClaim", "data", "is being deleted", func(o object) bool { return o.deletedSince(0) })
		},
	},
	{
		name: "retained",
		rule: "Causes: normal, reclaim policy Retain left the PV Released; The answer: healthy when it is the answer to what was asked",
		ask:  "pv PV",
		want: "healthy delete/retained",
		bring: func(b *bench) {
			b.create(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-kept}
provisioner: loop.csidoctor.dev
reclaimPolicy: Retain
`, claim("NAME-kept"))
			b.bound("data")
			b.delete("pvc/data")
			b.status("PersistentVolume", b.pv, "is released", func(o object) bool { return o.Status.Phase == "Released" })
		},
	},
	{
		name: "pv-forced-away",
		rule: "Causes: the PV of the VolumeAttachment is gone; Borders: before detach/orphaned-attachment once it is being deleted; a call that was made " +
			"and fails is stuck even if nobody waits for it, after three minutes at the latest",
		ask:  "node " + lonelyNode,
		want: "stuck detach/pv-gone",
		bring: func(b *bench) {
			b.hold(lonelyNode)
			b.delete("pv/" + b.pv)
			b.kubectl("patch", "pv", b.pv, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
			b.gone("PersistentVolume", b.pv)
			b.delete("pod/app")
			b.attachment("misses its PV", func(o object) bool {
				return o.deletedSince(190*time.Second) && strings.Contains(o.Status.DetachError.Message, "not found")
			})
		},
	},
	{
		name: "driver-removed",
		rule: "Causes: the driver was removed, its finalizer stays; nothing in the cluster serves it, and leases are leftovers; " +
			"Normal times: delete without error 3 min",
		sidecars: []string{"csi-provisioner"},
		ask:      "pv PV",
		want:     "stuck delete/driver-gone",
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.bound("data")
			b.uninstall("csi-provisioner")
			b.delete("pvc/data")
			b.status("PersistentVolume", b.pv, "was released more than 3 minutes ago", func(o object) bool {
				return o.Status.Phase == "Released" && time.Since(o.Status.LastPhaseTransitionTime) > 3*time.Minute
			})
		},
	},
	{
		name: "attacher-removed",
		rule: "Causes: the driver was removed, the finalizer (of its VolumeAttachment) stays; nothing in the cluster serves it, and leases are leftovers; " +
			"Normal times: detach without error 3 min",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck detach/driver-gone",
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.bound("data")
			b.podReady("app")
			if err := b.StopProcess(b.t.Context(), "csi-attacher@"+b.driver); err != nil {
				b.t.Fatal(err)
			}
			b.delete("pod/app")
			b.gone("Pod", "app")
			b.attachment("is being deleted", func(o object) bool { return o.deletedSince(0) })
			b.uninstall("csi-provisioner")
			b.attachment("is being deleted for more than 3 minutes", func(o object) bool { return o.deletedSince(190 * time.Second) })
		},
	},
}

// uninstall takes away all of a driver that somebody would, when they delete its manifests.
func (b *bench) uninstall(sidecars ...string) {
	b.t.Helper()
	for _, s := range sidecars {
		if err := b.StopProcess(b.t.Context(), s+"@"+b.driver); err != nil {
			b.t.Fatal(err)
		}
	}
	b.put(driver.Config{Node: driver.Absent, Controller: driver.Absent})
	b.kubectl("delete", "csidriver/"+b.driver, "sc/"+b.driver+"-now", "sc/"+b.driver+"-wait", "volumesnapshotclass/"+b.driver)
	b.until("the driver is not registered any more", func(all objects) bool { return !registered(b.driver)(all) })
	if err := os.RemoveAll(filepath.Join(b.Dir, "kubelet/plugins", b.driver)); err != nil {
		b.t.Fatal(err)
	}
}
