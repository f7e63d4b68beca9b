package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// taintedNode has no pod that does not tolerate its taint.
const taintedNode = "node-2"

func TestPods(t *testing.T) {
	c := startNodes(t, "pods", taintedNode)
	kubectl(t, c, "", "taint", "node", taintedNode, "dedicated=batch:NoSchedule")
	t.Run("faults", func(t *testing.T) {
		asked := bringUp(t, c, controllerFaults, podFaults)
		// As soon as what they ask about is there.
		for name, test := range map[string]struct {
			of  []string
			run func(*testing.T, *cluster.Cluster)
		}{
			"viewer": {slices.Sorted(maps.Keys(viewed)), askAsViewer},
			"rights": {richFaults(), askWithLess},
			"prober": {[]string{"in-pods"}, probeWithLess},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, f := range test.of {
					if done := asked[f]; done != nil { // but for what -run leaves out
						<-done
					}
				}
				test.run(t, c)
			})
		}
	})
}

// Edits of the manifest of a driver in pods.
var (
	flagOfNode      = []string{"name: node-plugin\n        image: lab.local/csi-driver:1\n        imagePullPolicy: Never\n        args: [", "name: node-plugin\n        image: lab.local/csi-driver:1\n        imagePullPolicy: Never\n        args: [--enable-volume-scheduling, "}
	imageOfNode     = []string{"name: node-plugin\n        image: lab.local/csi-driver:1\n        imagePullPolicy: Never", "name: node-plugin\n        image: registry.invalid/csi-driver:2\n        imagePullPolicy: IfNotPresent"}
	flagOfSidecar   = []string{"--leader-election, --extra-create-metadata", "--leader-election, --enable-leader-election, --extra-create-metadata"}
	otherSocket     = []string{"registration-path=/var/lib/kubelet/plugins/NAME/csi.sock", "registration-path=/var/lib/kubelet/plugins/csi/csi.sock"}
	noCreationOfPVs = []string{"resources: [persistentvolumes], verbs: [get, list, watch, create, patch, delete]", "resources: [persistentvolumes], verbs: [get, list, watch, patch, delete]"}
	noAttachStatus  = []string{"- {apiGroups: [storage.k8s.io], resources: [volumeattachments/status], verbs: [patch]}\n", ""}
)

// tolerant is an edit of a pod: it may run on taintedNode.
var tolerant = []string{"  containers:", "  tolerations: [{operator: Exists}]\n  containers:"}

// podFaults are those of a node plugin that runs in pods, or of what lets it run there.
var podFaults = []fault{
	{
		name: "unmount-without-plugin",
		rule: "Causes: kubelet cannot reach the driver any more (for a terminating pod this, not register/...); Normal times: unpublish without error 3 min",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:     "pod app",
		want:    "stuck unpublish/plugin-gone",
		mention: "pool=none",
		ahead:   4 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.podReady("app")
			b.kubectlAtHome("patch", "daemonset", "csi-node", "-p", `{"spec": {"template": {"spec": {"nodeSelector": {"pool": "none"}}}}}`)
			b.until("the driver is not registered any more", func(all objects) bool {
				return !registered(b.driver)(all) && len(all.named("Pod", b.home, "csi-node-")) == 0
			})
			b.delete("pod/app")
			b.status("Pod", "app", "has ended", func(o object) bool {
				return o.deletedSince(0) && slices.ContainsFunc(o.Status.ContainerStatuses, func(c containerStatus) bool { return c.State.Terminated != nil })
			})
		},
	},
	{
		name: "node-plugin-crashes",
		rule: "Borders: a plugin pod that crashes is failing; Rules 6: what is absent comes before the errors that its absence makes; " +
			"Normal times: register on a node younger than 5 min, before the count of errors",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"}, edits: flagOfNode,
		ask:     "pod app",
		want:    "waiting register/in-progress|register/plugin-pod-failing",
		of:      "Node/" + cluster.Node,
		normal:  5 * time.Minute,
		late:    "stuck register/plugin-pod-failing",
		mention: "node-plugin in pod",
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.waits("csi-node-", "CrashLoopBackOff")
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 1)
		},
	},
	{
		name: "node-plugin-crashes-topology",
		rule: "Borders: a register/ fault that leaves the driver out of a node's CSINode comes before the errors that it makes; a plugin pod that crashes is failing " +
			"(provision/no-topology where it is absent on the chosen node alone); Normal times: stuck from the third occurrence, and no node is younger than 5 min",
		pods: true, sidecars: []string{"csi-provisioner"}, edits: flagOfNode,
		config:  driver.Config{Topology: cluster.Topology},
		ask:     "pod app",
		want:    "stuck register/plugin-pod-failing",
		mention: "node-plugin in pod",
		ahead:   6 * time.Minute,
		bring: func(b *bench) {
			b.create(claim("NAME-now"), pod)
			b.waits("csi-node-", "CrashLoopBackOff")
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "topology", 3)
		},
	},
	{
		name: "node-plugin-image",
		rule: "Borders: a plugin pod that waits is failing (Causes: crash, image, config); Normal times: register on a node younger than 5 min, before the count of errors",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"}, edits: imageOfNode,
		ask:     "pvc data",
		want:    "waiting register/in-progress|register/plugin-pod-failing",
		of:      "Node/" + cluster.Node,
		normal:  5 * time.Minute,
		late:    "stuck register/plugin-pod-failing",
		mention: "registry.invalid/csi-driver:2",
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.waits("csi-node-", "ImagePullBackOff")
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 1)
		},
	},
	{
		name: "wrong-registration-path",
		rule: "Causes: kubelet does not know the driver (registrar, socket path); Borders: a plugin pod that crashes is failing, and the registrar does. " +
			"The contract leaves both; Normal times: register on a node younger than 5 min, before the count of errors",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"}, edits: otherSocket,
		ask:     "pod app",
		want:    "waiting register/in-progress|register/not-registered|register/plugin-pod-failing",
		of:      "Node/" + cluster.Node,
		normal:  5 * time.Minute,
		late:    "stuck register/not-registered|register/plugin-pod-failing",
		mention: "plugins/csi/csi.sock",
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.waits("csi-node-", "CrashLoopBackOff")
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 1)
		},
	},
	{
		name: "not-tolerated",
		rule: "Causes: no node plugin pod runs or starts on this node (taint); its DaemonSet never will, which excludes success, so at once; " +
			"register before the attach errors that it makes",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:     "pod app",
		want:    "stuck register/plugin-pod-missing",
		mention: "dedicated=batch:NoSchedule",
		also:    []question{{"pvc data", "stuck register/plugin-pod-missing"}},
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(edit(pod, tolerant...), on(taintedNode)...))
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 1)
		},
	},
	{
		name: "not-tolerated-topology",
		rule: "Borders: while a claim is unprovisioned and the plugin is absent only on the chosen node: provision/no-topology, naming the plugin; " +
			"Normal times: stuck from the third occurrence",
		pods: true, sidecars: []string{"csi-provisioner"},
		config:  driver.Config{Topology: cluster.Topology},
		ask:     "pvc data",
		want:    "stuck provision/no-topology",
		mention: "csi-node",
		bring: func(b *bench) {
			b.create(claim("NAME-wait"), edit(edit(pod, tolerant...), on(taintedNode)...))
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "topology", 3)
		},
	},
	{
		name: "no-mkfs",
		rule: "Borders: missing in the driver's image or the format step: stage/tool-missing; Normal times: stuck from the third occurrence",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:     "pod app",
		want:    "stuck stage/tool-missing",
		mention: "executable file not found",
		bring: func(b *bench) {
			b.create(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-xfs}
provisioner: NAME
parameters: {csi.storage.k8s.io/fstype: xfs}
`, claim("NAME-xfs"), edit(pod, on(cluster.Node)...))
			b.event("Pod/app", "FailedMount", "executable file not found", 3)
		},
	},
	{
		name: "stage-fails-in-pod",
		rule: "Causes: the driver gives an error that is none of the others; Normal times: stuck from the third occurrence",
		pods: true, sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:  "pvc data",
		want: "stuck stage/driver-error",
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4730"})
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.event("Pod/app", "FailedMount", "E4730", 3)
		},
	},

	// What works, in the midst of what does not.
	{
		name: "in-pods",
		rule: "Verdicts: everything that was asked about works, and a healthy answer has no gap; schedule/idle for what no pod uses; Rules 3: a later success cancels an earlier failure",
		pods: true, sidecars: cluster.Sidecars, slow: true,
		snapshots: "served",
		ask:       "pod app",
		want:      "healthy",
		also: []question{{"pvc data", "healthy"}, {"pvc second", "healthy"}, {"snapshot copy", "healthy"}, {"pvc restored", "healthy schedule/idle"},
			{"driver NAME", "healthy"}},
		bring: func(b *bench) {
			b.inject("CreateVolume", driver.Fault{Mode: "fail", Code: "Unavailable", Text: "firmware answered E4731"})
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "E4731", 1)
			if err := b.Recover(b.t.Context(), b.driver, "CreateVolume"); err != nil {
				b.t.Fatal(err)
			}
			b.podReady("app")
			b.create(edit(edit(claim("NAME-now"), blockMode...), secondOfOwn...), edit(edit(edit(pod, blockMode...), secondOfOwn...), on(cluster.Node)...))
			b.podReady("second")
			b.grow("second", "128Mi")
			b.status("PersistentVolumeClaim", "second", "is grown", func(o object) bool { return o.Status.Capacity["storage"] == "128Mi" })
			b.create(snapshot)
			b.status("VolumeSnapshot", "copy", "is ready", func(o object) bool { return o.Status.ReadyToUse })
			b.create(edit(claim("NAME-now"), fromSnapshot...))
			b.bound("restored")
		},
	},
}

// install makes the driver in pods, in a namespace beside that of the fault.
func (b *bench) install(f fault) {
	b.t.Helper()
	b.home = b.ns + "-csi"
	var edits []string
	for _, e := range f.edits {
		edits = append(edits, strings.ReplaceAll(e, "NAME", b.driver))
	}
	if err := b.InstallDriver(b.t.Context(), b.driver, b.home, f.config, f.sidecars, edits...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) kubectlAtHome(args ...string) {
	b.t.Helper()
	kubectl(b.t, b.Cluster, "", append([]string{"-n", b.home}, args...)...)
}

// handed waits until the claim is left to its provisioner.
func (b *bench) handed(claim string) {
	b.t.Helper()
	b.event("PersistentVolumeClaim/"+claim, "ExternalProvisioning", "", 1)
}

// logged waits until a container of the driver's controller says so.
func (b *bench) logged(container, words string) {
	b.t.Helper()
	eventually(b.t, container+" says "+words, time.Minute, func() bool {
		return strings.Contains(kubectl(b.t, b.Cluster, "", "-n", b.home, "logs", "deployment/csi-controller", "-c", container), words)
	})
}

// waits until a container of a pod of the driver waits for that reason.
func (b *bench) waits(pod, reason string) {
	b.t.Helper()
	b.until("a container of "+pod+" waits: "+reason, func(all objects) bool {
		return slices.ContainsFunc(all.named("Pod", b.home, pod), func(o object) bool { return o.waits(reason, 0) })
	})
}
