package e2e

import (
	"slices"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// controllerFaults are those of a driver's controller that runs in a pod, or of what lets it work.
var controllerFaults = []fault{
	{
		name: "scaled-to-zero",
		rule: "Causes: nobody works on the VolumeAttachment, stale lease, no pod; Borders: the same of the provisioner, and a stale lease is proof; " +
			"Normal times: a sidecar that never touched its object, 1 min; a driver's verdict is the worst of what is stuck because of it, the first hop first",
		pods: true, slow: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:     "pod app",
		want:    "stuck attach/attacher-not-running",
		mention: "csi-controller wants 0 pods",
		also:    []question{{"pvc second", "stuck provision/provisioner-not-running"}, {"driver NAME", "stuck provision/provisioner-not-running"}},
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.bound("data")
			b.leads("external-attacher-leader-" + b.driver)
			b.kubectlAtHome("scale", "deployment", "csi-controller", "--replicas=0")
			b.until("the controller is gone", func(all objects) bool { return len(all.named("Pod", b.home, "csi-controller-")) == 0 })
			b.create(edit(pod, on(cluster.Node)...), edit(claim("NAME-now"), secondOfOwn...))
			b.attachment("is older than a minute", func(o object) bool { return time.Since(o.Metadata.CreationTimestamp) > time.Minute })
			b.handedOver("second")
			b.leaseStale("external-attacher-leader-" + b.driver)
		},
	},
	{
		name: "provisioner-crashes",
		rule: "Causes: the class names a driver that is known here, but no provisioner works for it (crashing); Normal times: a sidecar that never touched its object, 1 min",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"}, edits: flagOfSidecar,
		ask:     "pvc data",
		want:    "stuck provision/provisioner-not-running",
		mention: "csi-provisioner in pod",
		ahead:   2 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.waits("csi-controller-", "CrashLoopBackOff")
			b.leads("external-attacher-leader-" + b.driver) // the others run
			b.handed("data")
		},
	},
	{
		name: "lease-lost",
		rule: "Borders: something claims the name, no lease is fresh and no event of it recent, whatever its pod's readiness; a stale one is proof; " +
			"Normal times: a sidecar that never touched its object, 1 min",
		pods: true, slow: true, sidecars: []string{"csi-provisioner"},
		ask:     "pvc data",
		want:    "stuck provision/provisioner-not-running",
		mention: "was last renewed",
		bring: func(b *bench) {
			b.leads(b.driver)
			b.kubectlAtHome("delete", "rolebinding", "csi-leases") // it ends, starts again, and waits to be elected
			b.until("the provisioner has lost its lease", func(all objects) bool {
				return slices.ContainsFunc(all.named("Pod", b.home, "csi-controller-"), func(o object) bool {
					return slices.ContainsFunc(o.Status.ContainerStatuses, func(c containerStatus) bool { return c.RestartCount > 0 })
				})
			})
			b.create(claim("NAME-now"))
			b.handedOver("data")
			b.until("the controller's pod is ready", func(all objects) bool {
				return slices.ContainsFunc(all.named("Pod", b.home, "csi-controller-"), func(o object) bool { return slices.Contains(o.Status.Conditions, condition{"Ready", "True"}) })
			})
		},
	},
	{
		name: "provisioner-without-rights",
		rule: "Causes: the sidecar is not allowed to do its work in the API, which its log says; without that, rules 7: roles are evidence where they are in the input, " +
			"never required, so it may be that a provisioner is there and says nothing; Normal times: a sidecar that never touched its object, 1 min",
		pods: true, sidecars: []string{"csi-provisioner"},
		ask:   "pvc data",
		want:  "stuck provision/rbac|provision/not-acted-on",
		logs:  "stuck provision/rbac",
		ahead: 2 * time.Minute,
		bring: func(b *bench) {
			b.create(edit(claim("NAME-now"), secondOfOwn...))
			b.bound("second") // it has worked, so it watches
			b.kubectl("delete", "clusterrolebinding", b.driver+"-provisioner")
			b.create(claim("NAME-now"))
			b.handed("data")
			b.logged("csi-provisioner", "is forbidden")
		},
	},
	{
		name: "provisioner-may-not-save",
		rule: "Causes: the sidecar is not allowed to do its work in the API; its ClusterRole lacks one verb, and no event says so; Normal times: provision without error 5 min",
		pods: true, sidecars: []string{"csi-provisioner"}, edits: noCreationOfPVs,
		ask:     "pvc data",
		want:    "stuck provision/rbac",
		logs:    "stuck provision/rbac",
		mention: "create persistentvolumes",
		ahead:   6 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"))
			b.event("PersistentVolumeClaim/data", "Provisioning", "", 1)
		},
	},
	{
		name: "attacher-without-rights",
		rule: "Causes: the attacher may not record what it did, which its log says; without that, rules 7: roles are evidence where they are in the input, never required, " +
			"so it may be that nobody works on the VolumeAttachment; Normal times: a sidecar that never touched its object, 1 min",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:   "pod app",
		want:  "stuck attach/rbac|attach/attacher-not-running",
		logs:  "stuck attach/rbac",
		ahead: 2 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(claim("NAME-now"), secondOfOwn...), edit(edit(pod, secondOfOwn...), on(cluster.Node)...))
			b.bound("data")
			b.podReady("second") // it has worked, so it watches
			b.kubectl("delete", "clusterrolebinding", b.driver+"-attacher")
			b.create(edit(pod, on(cluster.Node)...))
			b.attachment("is there", func(object) bool { return true })
			b.logged("csi-attacher", "is forbidden")
		},
	},
	{
		name: "attacher-may-not-record",
		rule: "Causes: the attacher may not record what it did; its ClusterRole lacks one rule; Normal times: attach without error 3 min",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"}, edits: noAttachStatus,
		ask:     "pvc data",
		want:    "stuck attach/rbac",
		logs:    "stuck attach/rbac",
		mention: "patch volumeattachments/status",
		ahead:   5 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.bound("data")
			b.attachment("was taken up", func(o object) bool { return len(o.Metadata.Finalizers) > 0 })
		},
	},
	{
		name: "capacity-unpublished",
		rule: "Causes: CSIStorageCapacity says no node has room, or nobody publishes it; a plugin is registered; stuck after two minutes at the latest",
		pods: true, sidecars: []string{"csi-provisioner"},
		ask:     "pod app",
		want:    "stuck schedule/no-capacity",
		mention: "without --enable-capacity",
		ahead:   3 * time.Minute,
		bring: func(b *bench) {
			b.until("the driver is registered", registered(b.driver))
			b.kubectl("patch", "csidriver", b.driver, "-p", `{"spec": {"storageCapacity": true}}`)
			b.create(claim("NAME-wait"), edit(pod, on(cluster.Node)...))
			b.event("Pod/app", "FailedScheduling", "free storage", 1)
		},
	},
}
