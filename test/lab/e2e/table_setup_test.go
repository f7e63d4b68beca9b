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

// setupFaults stop a volume on its way from the claim to the pod.
var setupFaults = []fault{
	{
		name: "no-consumer",
		rule: "Rules 1: WaitForFirstConsumer without a pod is waiting, and no end of it is known",
		ask:  "pvc data",
		want: "waiting provision/waiting-for-first-consumer",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"))
			b.event("PersistentVolumeClaim/data", "WaitForFirstConsumer", "", 1)
		},
	},
	{
		name: "class-missing",
		rule: "Causes: the PVC names a StorageClass that does not exist; Borders: and no PV of that class name exists. That excludes success, so at once",
		ask:  "pvc data",
		want: "stuck claim/class-missing",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("gold"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", `"gold" not found`, 1)
			b.event("Pod/app", "FailedScheduling", "", 1)
		},
	},
	{
		name:     "create-refused",
		rule:     "Causes: the backend's quota is used up; Normal times: an error that the owner retries is stuck from its third occurrence",
		sidecars: []string{"csi-provisioner"},
		config:   driver.Config{Topology: cluster.Topology},
		ask:      "pvc data",
		want:     "stuck provision/quota",
		dump:     true,
		bring: func(b *bench) {
			b.inject("CreateVolume", driver.Fault{Mode: "fail", Code: "ResourceExhausted", Text: "quota of the account reached: 10 of 10 volumes exist"})
			b.create(claim("NAME-wait"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "10 of 10 volumes", 3)
		},
	},
	{
		name: "provisioner-stopped",
		rule: "Borders: something claims the name, no lease is fresh and no event of it recent, and a stale lease is proof; " +
			"Normal times: a sidecar that never touched its object, 1 min",
		sidecars: []string{"csi-provisioner"},
		ask:      "pvc data",
		want:     "stuck provision/provisioner-not-running",
		bring: func(b *bench) {
			b.stop("csi-provisioner", b.driver)
			b.create(claim("NAME-wait"), pod)
			b.handedOver("data")
			b.leaseStale(b.driver)
		},
	},
	{
		name: "create-hangs",
		rule: "Normal times: provision where only DeadlineExceeded and Aborted alternate, 15 min, before the count of errors; " +
			"Borders: while DeadlineExceeded is still to be seen, backend-unreachable",
		sidecars: []string{"csi-provisioner"},
		ask:      "pvc data",
		want:     "waiting provision/in-progress",
		of:       "PersistentVolumeClaim/data",
		normal:   15 * time.Minute,
		late:     "stuck provision/backend-unreachable",
		bring: func(b *bench) {
			b.inject("CreateVolume", driver.Fault{Mode: "hang"})
			b.create(claim("NAME-wait"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "DeadlineExceeded", 3)
		},
	},
	{
		name:     "attach-refused",
		rule:     "Causes: the backend refuses the driver's credentials; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck attach/permission",
		dump:     true,
		bring: func(b *bench) {
			b.inject("ControllerPublishVolume", driver.Fault{Mode: "fail", Code: "PermissionDenied", Text: "the role lab-controller may not attach disks"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedAttachVolume", "may not attach disks", 3)
		},
	},
	{
		name:     "attacher-stopped",
		rule:     "Causes: nobody works on the VolumeAttachment, stale lease; Normal times: a sidecar that never touched its object (no finalizer), 1 min",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck attach/attacher-not-running",
		dump:     true,
		bring: func(b *bench) {
			b.stop("csi-attacher", "external-attacher-leader-"+b.driver)
			b.create(claim("NAME-wait"), pod)
			b.until("its VolumeAttachment is older than a minute", func(all objects) bool {
				return slices.ContainsFunc(all, func(o object) bool {
					return o.Kind == "VolumeAttachment" && o.Spec.Attacher == b.driver && time.Since(o.Metadata.CreationTimestamp) > time.Minute
				})
			})
			b.leaseStale("external-attacher-leader-" + b.driver)
		},
	},
	{
		name: "node-plugin-dead",
		rule: "Borders: a plugin pod that crashes is failing; Rules 6: what is absent comes before the errors that its absence makes; " +
			"Normal times: register on a node younger than 5 min, before the count of errors",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "waiting register/in-progress|register/plugin-pod-failing",
		of:       "Node/" + cluster.Node,
		normal:   5 * time.Minute,
		late:     "stuck register/plugin-pod-failing",
		bring: func(b *bench) {
			b.create(nodePlugin)
			b.podReady("node-plugin-")
			b.until("the driver is registered", registered(b.driver))
			b.change(driver.Config{Node: driver.Dead})
			if err := os.WriteFile(filepath.Join(b.Dir, "kubelet/plugins", b.driver, "crash"), nil, 0o644); err != nil {
				b.t.Fatal(err)
			}
			b.until("the plugin's pod is in back-off", func(all objects) bool {
				return slices.ContainsFunc(all.named("Pod", b.ns, "node-plugin-"), func(o object) bool { return o.waits("CrashLoopBackOff", 0) })
			})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "connection refused", 3)
			if !registered(b.driver)(b.objects()) {
				b.t.Error("the CSINode entry is gone")
			}
		},
	},
	{
		name: "not-registered",
		rule: "Causes: the pod runs, and kubelet does not know the driver; Borders: register before the attach errors that it makes; " +
			"Normal times: register on a node younger than 5 min, before the count of errors",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		config:   driver.Config{Node: driver.Absent},
		ask:      "pvc data",
		want:     "waiting register/in-progress",
		of:       "Node/" + cluster.Node + "|Pod/node-plugin-", // both are young: the node, and the pod that starts
		normal:   5 * time.Minute,
		late:     "stuck register/not-registered",
		dump:     true,
		bring: func(b *bench) {
			b.create(nodePlugin, claim("NAME-wait"), pod)
			b.podReady("node-plugin-")
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 3)
		},
	},
	{
		name:     "stage-fails",
		rule:     "Causes: the driver gives an error that is none of the others; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck stage/driver-error",
		dump:     true,
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4711"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4711", 3)
		},
	},
	{
		name:     "publish-fails",
		rule:     "Causes: the driver gives an error that is none of the others; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck publish/driver-error",
		bring: func(b *bench) {
			b.inject("NodePublishVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4712"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4712", 3)
		},
	},
	{
		name: "inline-not-allowed",
		rule: "Causes: inline volume, and the CSIDriver does not list Ephemeral; that excludes success, so at once",
		ask:  "pod app",
		want: "stuck publish/ephemeral-not-allowed",
		dump: true,
		bring: func(b *bench) {
			b.put(driver.Config{})
			b.create(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: NAME}
spec: {attachRequired: true, podInfoOnMount: true, volumeLifecycleModes: [Persistent]}
`, strings.Replace(pod, "persistentVolumeClaim: {claimName: data}", "csi: {driver: NAME}", 1))
			b.until("the driver is registered", registered(b.driver))
			b.event("Pod/app", "FailedMount", "not supported by driver", 1)
		},
	},

	// What works, in the midst of what does not.
	{
		name: "running",
		rule: "Verdicts: everything that was asked about works; a healthy answer has neither hop nor cause, and no gap",
		ask:  "pvc data",
		want: "healthy",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), pod)
			b.podReady("app")
		},
	},
	{
		name: "every-kind",
		rule: "Verdicts: everything that was asked about works; attach and stage are skipped for the inline volume",
		ask:  "pod app",
		want: "healthy",
		bring: func(b *bench) {
			b.create(everyVolume)
			b.podReady("app")
		},
	},
	{
		name:     "mended",
		rule:     "Rules 3: a later success cancels an earlier failure, old events are history",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "healthy",
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4711"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4711", 3)
			if err := b.Recover(b.t.Context(), b.driver, "NodeStageVolume"); err != nil {
				b.t.Fatal(err)
			}
			b.podReady("app")
		},
	},
	{
		name: "idle",
		rule: "Verdicts: idle as designed; schedule/idle is the answer to what was asked",
		ask:  "pvc data",
		want: "healthy schedule/idle",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
		},
	},
}
