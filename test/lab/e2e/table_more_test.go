package e2e

import (
	"slices"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// moreSetupFaults are the less usual ones of that way.
var moreSetupFaults = []fault{
	{
		name: "quota",
		rule: "Causes: the claim was refused by a ResourceQuota; it shows at the owner, there is no PVC: pvc NAME reads the owners' events before it " +
			"says not found; Normal times: stuck from the third occurrence",
		ask:  "pvc data-db-0",
		want: "stuck claim/quota-exceeded",
		bring: func(b *bench) {
			b.create(noClaims)
			b.kubectl("wait", "resourcequota/no-claims", "--for=jsonpath={.status.hard.persistentvolumeclaims}=0", "--timeout=1m")
			b.create(statefulSet)
			b.event("StatefulSet/db", "FailedCreate", "exceeded quota", 3)
		},
	},
	{
		name: "pinned",
		rule: "Causes: the class waits for a consumer, but the pod was placed by nodeName; nobody will ever select a node, which excludes success, so at once",
		ask:  "pod app",
		want: "stuck provision/scheduler-bypassed",
		also: []question{{"pvc data", "stuck provision/scheduler-bypassed"}},
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), edit(pod, "hostNetwork:", "nodeName: "+cluster.Node+"\n  hostNetwork:"))
			b.event("Pod/app", "FailedMount", "PVC is not bound", 1)
		},
	},
	{
		name: "static-mismatch",
		rule: "Borders: claim/class-missing not where a PV of that class name exists, then bind/; Causes: static, no PV fits (here by its size); stuck after two minutes at the latest",
		ask:  "pvc data",
		want: "stuck bind/no-matching-pv",
		dump: true,
		bring: func(b *bench) {
			b.create(edit(volume, tooSmall...), claim("NAME"), pod)
			b.event("Pod/app", "FailedScheduling", "", 1)
			b.status("PersistentVolume", b.driver, "is available", func(o object) bool { return o.Status.Phase == "Available" })
			b.older("PersistentVolumeClaim", "data", 130*time.Second)
		},
	},
	{
		name: "topology-conflict",
		rule: "Causes: the volume can only be reached from nodes where the pod cannot run; or, as no node at all has that label, from nodes of which no " +
			"Node object exists: the contract leaves both. Stuck after two minutes at the latest",
		ask:  "pod app",
		want: "stuck schedule/node-affinity-conflict|schedule/volume-node-gone",
		bring: func(b *bench) {
			b.create(edit(volume, inZoneB...), edit(claim("NAME"), "accessModes:", "volumeName: NAME, accessModes:"), pod)
			b.bound("data")
			b.event("Pod/app", "FailedScheduling", "node affinity", 1)
			b.older("Pod", "app", 130*time.Second)
		},
	},
	{
		name: "one-pod-only",
		rule: "Causes: another pod uses the ReadWriteOncePod claim; stuck after two minutes at the latest",
		ask:  "pod second",
		want: "stuck schedule/rwop-in-use",
		also: []question{{"pod app", "healthy"}},
		bring: func(b *bench) {
			b.create(edit(claim("loop.csidoctor.dev-wait"), exclusive...), pod)
			b.podReady("app")
			b.create(edit(pod, second...))
			b.event("Pod/second", "FailedScheduling", "ReadWriteOncePod", 1)
			b.older("Pod", "second", 130*time.Second)
		},
	},
	{
		name:     "node-full",
		rule:     "Causes: every fitting node is at its attach limit; stuck after two minutes at the latest",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		config:   driver.Config{MaxVolumes: 1},
		ask:      "pod second",
		want:     "stuck schedule/volume-limit",
		bring: func(b *bench) {
			b.until("the driver is registered", registered(b.driver)) // or the scheduler knows no limit
			b.create(claim("NAME-wait"), pod)
			b.podReady("app")
			b.create(edit(claim("NAME-wait"), secondOfOwn...), edit(pod, secondOfOwn...))
			b.event("Pod/second", "FailedScheduling", "max volume count", 1)
			b.until("that is so for two minutes", func(all objects) bool {
				return slices.ContainsFunc(all.named("Event", b.ns, "second."), func(o object) bool { return time.Since(o.Metadata.CreationTimestamp) > 130*time.Second })
			})
		},
	},
	{
		name:     "no-slot",
		rule:     "Causes: the backend has no slot left on that node; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck attach/limit-reached",
		bring: func(b *bench) {
			b.inject("ControllerPublishVolume", driver.Fault{Mode: "fail", Code: "ResourceExhausted", Text: "the instance has 25 disks attached, its maximum"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedAttachVolume", "its maximum", 3)
		},
	},
	{
		name: "plugin-elsewhere",
		rule: "Causes: no node plugin pod runs or starts on this node; its DaemonSet does not choose it, which excludes success, so at once; " +
			"register before the attach errors that it makes",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		config:   driver.Config{Node: driver.Absent},
		ask:      "pod app",
		want:     "stuck register/plugin-pod-missing",
		bring: func(b *bench) {
			b.create(edit(nodePlugin, "      hostNetwork:", "      nodeSelector: {pool: storage}\n      hostNetwork:"), claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 3)
		},
	},
	{
		name: "bad-option",
		rule: "Causes: the mount options are refused; Normal times: stuck from the third occurrence",
		ask:  "pvc data",
		want: "stuck stage/bad-mount-options",
		dump: true,
		bring: func(b *bench) {
			b.create(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-option}
provisioner: loop.csidoctor.dev
volumeBindingMode: WaitForFirstConsumer
mountOptions: [nosuchoption]
`, claim("NAME-option"), pod)
			b.event("Pod/app", "FailedMount", "nosuchoption", 3)
		},
	},
	{
		name:     "block-stage",
		rule:     "Causes, of a raw block volume: the driver's error comes from NodeStageVolume (MapVolume.SetUpDevice) and is none of the others; third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck stage/driver-error",
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4715"})
			b.create(edit(claim("NAME-wait"), blockMode...), edit(pod, blockMode...))
			b.event("Pod/app", "FailedMapVolume", "E4715", 3)
		},
	},
	{
		name:     "block-publish",
		rule:     "Causes, of a raw block volume: the driver's error comes from NodePublishVolume (MapVolume.MapPodDevice) and is none of the others; third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck publish/driver-error",
		bring: func(b *bench) {
			b.inject("NodePublishVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4716"})
			b.create(edit(claim("NAME-wait"), blockMode...), edit(pod, blockMode...))
			b.event("Pod/app", "FailedMapVolume", "E4716", 3)
		},
	},
	{
		name: "subpath",
		rule: "Causes: a subPath cannot be made (its parent is a file); Normal times: stuck from the third occurrence",
		ask:  "pod app",
		want: "stuck start/subpath",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), edit(pod, "  containers:", `  initContainers:
  - name: make
    image: lab.local/app:1
    imagePullPolicy: Never
    command: [sh, -c, "echo x >/data/file"]
    volumeMounts: [{name: data, mountPath: /data}]
  containers:`, "mountPath: /data}]\n  volumes:", "mountPath: /data, subPath: file/folder}]\n  volumes:"))
			b.event("Pod/app", "Failed", "subPath", 3)
		},
	},
	{
		name: "full",
		rule: "Causes: no space left; What crashes for its volume is stuck; Normal times: stuck from the third occurrence",
		ask:  "pod app",
		want: "stuck start/full",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), edit(pod, "    imagePullPolicy:", `    command: [sh, -c, "cat /dev/zero >/data/journal"]
    terminationMessagePolicy: FallbackToLogsOnError
    imagePullPolicy:`))
			b.status("Pod", "app", "crashed for the third time", func(o object) bool { return o.waits("CrashLoopBackOff", 2) })
		},
	},
	{
		name: "no-image",
		rule: "Causes: the volume is there, the container fails for another reason; Normal times: stuck from the third occurrence",
		ask:  "pod app",
		want: "stuck start/not-the-volume",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), edit(pod, "lab.local/app:1", "lab.local/none:1"))
			b.until("the image was missed three times", func(all objects) bool {
				n := 0
				for _, o := range all.named("Event", b.ns, "app.") {
					if strings.Contains(o.Message, "lab.local/none:1") {
						n += o.times()
					}
				}
				return n >= 3 && slices.ContainsFunc(all.named("Pod", b.ns, "app"), func(o object) bool { return o.waits("ErrImageNeverPull", 0) })
			})
		},
	},
}
