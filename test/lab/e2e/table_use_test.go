package e2e

import (
	"slices"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// useFaults stop a volume from growing or from being copied; with what grows and is copied as it should.
var useFaults = []fault{
	{
		name: "grow-refused",
		rule: "Causes: ControllerExpandVolume fails for now; Normal times: stuck from the third occurrence; " +
			"Borders: a failed expansion of a volume that works is stuck",
		sidecars: []string{"csi-provisioner", "csi-attacher", "csi-resizer"},
		ask:      "pvc data",
		want:     "stuck expand/backend-error",
		dump:     true,
		bring: func(b *bench) {
			b.create(claim("NAME-wait"), pod)
			b.podReady("app")
			b.inject("ControllerExpandVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4717"})
			b.grow("data", "128Mi")
			b.event("PersistentVolumeClaim/data", "VolumeResizeFailed", "E4717", 3)
		},
	},
	{
		name:     "grow-infeasible",
		rule:     "Causes: status ...Infeasible, an infeasible code; it excludes success, so at once",
		sidecars: []string{"csi-provisioner", "csi-resizer"},
		ask:      "pvc data",
		want:     "stuck expand/infeasible",
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.bound("data")
			b.inject("ControllerExpandVolume", driver.Fault{Mode: "fail", Code: "OutOfRange", Text: "the largest disk has 16 TiB"})
			b.grow("data", "20Ti")
			b.event("PersistentVolumeClaim/data", "VolumeResizeFailed", "largest disk", 1)
			b.grown("data", "ControllerResizeInfeasible")
		},
	},
	{
		name: "grow-at-node",
		rule: "Causes: NodeExpandVolume fails, for whatever reason; Normal times: stuck from the third occurrence; " +
			"Borders: a failed expansion of a volume that works is stuck",
		sidecars: []string{"csi-provisioner", "csi-attacher", "csi-resizer"},
		ask:      "pvc data",
		want:     "stuck expand/node-failed",
		dump:     true,
		bring: func(b *bench) {
			b.inject("NodeExpandVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4718"})
			b.create(claim("NAME-wait"), pod)
			b.podReady("app")
			b.grow("data", "128Mi")
			b.event("Pod/app", "VolumeResizeFailed", "E4718", 3)
		},
	},
	{
		name:     "resizer-stopped",
		rule:     "Causes: nobody works on it; Borders: a stale lease is proof; Normal times: a sidecar that never touched its object, 1 min",
		sidecars: []string{"csi-provisioner", "csi-resizer"},
		ask:      "pvc data",
		want:     "stuck expand/resizer-not-running",
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.bound("data")
			b.stop("csi-resizer", "external-resizer-"+b.driver)
			b.grow("data", "128Mi")
			b.until("the resizer was waited for for more than a minute", func(all objects) bool {
				return slices.ContainsFunc(all.named("Event", b.ns, "data."), func(o object) bool {
					return o.Reason == "ExternalExpanding" && time.Since(o.Metadata.CreationTimestamp) > time.Minute
				})
			})
			b.leaseStale("external-resizer-" + b.driver)
		},
	},
	{
		name: "grown-unused",
		rule: "Borders: expand/waiting-for-pod is waiting without limit while no pod uses the claim",
		ask:  "pvc data",
		want: "waiting expand/waiting-for-pod",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
			b.grow("data", "128Mi")
			b.grown("data", "NodeResizePending")
		},
	},
	{
		name: "no-snapshot-controller",
		rule: "Causes: controller-missing, of which there never was a trace but the kinds; Normal times: a component that never touched its object, 1 min; " +
			"a stuck snapshot is stuck when the snapshot was asked for",
		snapshots: "unserved",
		ask:       "snapshot copy",
		want:      "stuck snapshot/controller-missing",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
			b.create(edit(snapshot, "NAME", defaultDriver))
			b.older("VolumeSnapshot", "copy", time.Minute)
		},
	},
	{
		name: "snapshot-refused",
		rule: "Causes: driver-error; Normal times: an error that the owner retries is stuck after two minutes; a claim whose restore waits for a snapshot that has a fault of its own " +
			"has that snapshot/ cause; a stuck snapshot of a healthy claim is degraded when the claim was asked for",
		snapshots: "served",
		sidecars:  []string{"csi-provisioner", "csi-snapshotter"},
		ask:       "snapshot copy",
		want:      "stuck snapshot/driver-error",
		also:      []question{{"pvc restored", "stuck snapshot/driver-error"}, {"pvc data", "degraded snapshot/driver-error"}},
		bring: func(b *bench) {
			b.inject("CreateSnapshot", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4719"})
			b.create(claim("NAME-now"))
			b.bound("data")
			b.create(snapshot, edit(claim("NAME-now"), fromSnapshot...))
			b.until("the snapshot failed more than two minutes ago", func(all objects) bool { // it says so once, however often it fails
				return slices.ContainsFunc(all.named("Event", "default", "snapcontent-"), func(o object) bool {
					return strings.Contains(o.Message, "E4719") && time.Since(o.Metadata.CreationTimestamp) > 2*time.Minute
				})
			})
			b.event("PersistentVolumeClaim/restored", "ProvisioningFailed", "", 1)
		},
	},
	{
		name:      "snapshot-class-missing",
		rule:      "Causes: class-missing; that excludes success, so at once",
		snapshots: "served",
		ask:       "snapshot copy",
		want:      "stuck snapshot/class-missing",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
			b.create(edit(snapshot, "NAME", "gold"))
			b.until("the snapshot's class was missed", func(all objects) bool {
				return slices.ContainsFunc(all.named("Event", b.ns, "copy."), func(o object) bool { return strings.Contains(o.Message, `"gold"`) })
			})
		},
	},

	{
		name:      "restored",
		rule:      "Verdicts: everything that was asked about works",
		snapshots: "served",
		ask:       "pvc restored",
		want:      "healthy",
		also:      []question{{"snapshot copy", "healthy"}, {"pvc data", "healthy"}},
		dump:      true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), pod)
			b.podReady("app")
			b.kubectl("exec", "app", "--", "sh", "-c", "echo kept >/data/x && sync")
			b.create(edit(snapshot, "NAME", defaultDriver))
			b.status("VolumeSnapshot", "copy", "is ready", func(o object) bool { return o.Status.ReadyToUse })
			b.create(edit(claim("loop.csidoctor.dev-wait"), fromSnapshot...), edit(pod, "{name: app}", "{name: second}", "claimName: data", "claimName: restored"))
			b.podReady("second")
			if x := b.kubectl("exec", "second", "--", "cat", "/data/x"); x != "kept\n" {
				b.t.Errorf("the restored volume holds %q", x)
			}
		},
	},
	{
		name: "grown",
		rule: "Verdicts: everything that was asked about works; Rules 3: what is current decides, not an event",
		ask:  "pvc data",
		want: "healthy",
		bring: func(b *bench) {
			b.create(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-xfs}
provisioner: loop.csidoctor.dev
parameters: {csi.storage.k8s.io/fstype: xfs}
allowVolumeExpansion: true
`, edit(claim("NAME-xfs"), "64Mi", "300Mi"), pod)
			b.podReady("app")
			b.grow("data", "400Mi")
			b.status("PersistentVolumeClaim", "data", "is grown", func(o object) bool { return o.Status.Capacity["storage"] == "400Mi" })
		},
	},
	{
		name: "block",
		rule: "Verdicts: everything that was asked about works, a raw device too",
		ask:  "pvc data",
		want: "healthy",
		bring: func(b *bench) {
			b.create(edit(claim("loop.csidoctor.dev-now"), blockMode...), edit(pod, blockMode...))
			b.podReady("app")
		},
	},
}
