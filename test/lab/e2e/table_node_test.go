// Faults that the node alone shows, or alone proves: make carrier.

//go:build carrier

package e2e

import (
	"crypto/sha256"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

func TestNode(t *testing.T) {
	needReal(t)
	run(t, "node", []string{"node-2"}, []fault{{
		name: "seen-well", rule: "Verdicts: everything that was asked about works; a healthy answer has neither hop nor cause, and no gap", ask: "pvc data", probe: true, want: "healthy",
		bring: func(b *bench) { b.hold(cluster.Node) },
	}}, pluginFaults, mountFaults, leftFaults)
}

const (
	silentFault = "a fault under a pod that still runs and serves is degraded; "
	youngNode   = "Normal times: register on a node younger than 5 min, before the count of errors; "
	youngPlugin = "Node/" + cluster.Node + "|Pod/node-plugin-" // both are young
)

// pluginFaults are of a driver's sockets. The lab's driver is a process outside of any pod; a DaemonSet stands for it.
var pluginFaults = []fault{
	{
		name: "plugin-dead", rule: youngNode + "Causes: register/socket-dead, the socket exists and nobody answers",
		ask: "pod app", probe: true, want: "waiting register/in-progress", of: youngPlugin, normal: 5 * time.Minute, late: "stuck register/socket-dead",
		bring: func(b *bench) {
			b.inline()
			b.change(driver.Config{Node: driver.Dead})
			b.create(inlinePod)
			b.event("Pod/app", "FailedMount", "connection refused", 3)
		},
	},
	{
		name: "plugin-not-ready", rule: youngNode + "Causes: register/not-ready, the driver answers Probe with not ready",
		ask: "pod app", probe: true, without: "stuck publish/driver-error",
		want: "waiting register/in-progress", of: youngPlugin, normal: 5 * time.Minute, late: "stuck register/not-ready",
		bring: func(b *bench) {
			b.inline()
			for _, rpc := range []string{"Probe", "NodePublishVolume"} {
				b.inject(rpc, driver.Fault{Mode: "fail", Code: "FailedPrecondition", Text: "firmware answered E4730"})
			}
			b.create(inlinePod)
			b.event("Pod/app", "FailedMount", "E4730", 3)
		},
	},
	{
		name: "registration-gone", rule: youngNode + "Causes: register/not-registered, the pod runs, and kubelet does not know the driver",
		ask: "pod app", probe: true, want: "waiting register/in-progress", of: youngPlugin, normal: 5 * time.Minute, late: "stuck register/not-registered",
		bring: func(b *bench) {
			b.inline()
			b.inside(cluster.Node, "rm", path.Join(cluster.KubeletRoot, "plugins_registry", b.driver+"-reg.sock"))
			b.until("the driver is not registered any more", func(all objects) bool { return !registered(b.driver)(all) })
			b.create(inlinePod)
			b.event("Pod/app", "FailedMount", "not found in the list of registered CSI drivers", 3)
		},
	},
}

// mountFaults are under pods that run, Ready, and of which no object tells anything.
var mountFaults = []fault{
	{
		name: "staging-unmounted", rule: silentFault + "Borders: staging path is no mount, publish/not-staged (the second pod is given what lies below)",
		ask: "pvc data", probe: true, without: "healthy", want: "degraded publish/not-staged",
		also: []question{{"pod second", "degraded publish/not-staged"}},
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.inside(cluster.Node, "umount", b.staging())
			b.create(edit(edit(pod, second...), on(cluster.Node)...))
			b.podReady("second")
		},
	},
	{
		name: "stage-lied", rule: silentFault + "Borders: staging path is no mount, publish/not-staged (staging reported success without doing it)",
		ask: "pod app", probe: true, without: "healthy", want: "degraded publish/not-staged",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.bound("data")
			b.lie("NodeStageVolume")
			b.create(edit(pod, on(cluster.Node)...))
			b.podReady("app")
		},
	},
	{
		name: "publish-unmounted", rule: silentFault + "Borders: staging right, publish path no mount, publish/wrong-mount",
		ask: "pod app", probe: true, without: "healthy", want: "degraded publish/wrong-mount",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.inside(cluster.Node, "umount", b.published("app"))
		},
	},
	{
		name: "not-propagated", rule: silentFault + "Causes: publish/mount-not-propagated, mounted in the plugin's namespace only",
		ask: "pod app", probe: true, without: "healthy", want: "degraded publish/mount-not-propagated",
		bring: func(b *bench) {
			b.inline()
			b.inject("NodePublishVolume", driver.Fault{Mode: "lie"})
			b.create(inlinePod)
			b.podReady("app")
			plugin := b.find("Pod/node-plugin-").Metadata.Name
			b.kubectl("exec", plugin, "-c", "plugin", "--", "mount", "-t", "tmpfs", "volume", b.published("app"))
		},
	},
	{
		name: "wrong-device", rule: silentFault + "Borders: stage/wrong-device, the mounted device is known to belong to another volume",
		ask: "pod app", probe: true, without: "healthy", want: "degraded stage/wrong-device",
		bring: func(b *bench) {
			b.create(edit(claim("loop.csidoctor.dev-now"), "64Mi", "128Mi"), edit(claim("loop.csidoctor.dev-now"), "{name: data}", "{name: second}"),
				edit(pod, on(cluster.Node)...), edit(edit(pod, secondOfOwn...), on(cluster.Node)...))
			b.bound("data")
			b.bound("second")
			b.podReady("app")
			b.podReady("second")
			other := b.inside(cluster.Node, "findmnt", "-nfo", "SOURCE", b.published("second"))
			b.inside(cluster.Node, "umount", b.staging())
			b.inside(cluster.Node, "mount", other, b.staging())
		},
	},
	{
		name: "read-only", rule: silentFault + "Causes: start/read-only, the filesystem went read-only after an error",
		ask: "pod app", probe: true, without: "healthy", want: "degraded start/read-only",
		bring: func(b *bench) {
			b.create("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NAME}\nprovisioner: loop.csidoctor.dev\nmountOptions: [errors=remount-ro]\n",
				claim("NAME"), edit(pod, on(cluster.Node)...))
			b.podReady("app")
			b.bound("data")
			device := path.Base(b.inside(cluster.Node, "findmnt", "-nfo", "SOURCE", b.staging()))
			b.inside(cluster.Node, "sh", "-c", "echo broken >/sys/fs/ext4/"+device+"/trigger_fs_error")
		},
	},
	{
		name: "full", rule: silentFault + "Causes: start/full, no space left",
		ask: "pod app", probe: true, without: "healthy", want: "degraded start/full",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.kubectl("exec", "app", "--", "sh", "-c", "dd if=/dev/zero of=/data/x bs=65536; sync")
		},
	},
	{
		name: "filesystem-smaller", rule: "Causes: expand/filesystem-smaller, the PVC says done; Borders: a leftover on which nobody works is degraded while it blocks nobody",
		ask: "pvc data", probe: true, without: "healthy", want: "degraded expand/filesystem-smaller",
		bring: func(b *bench) {
			b.create(edit(claim("loop.csidoctor.dev-now"), "64Mi", "1Gi"))
			b.bound("data")
			b.inside(cluster.Node, "mkfs.ext4", "-q", b.image(), "300M") // as a copy of a smaller volume
			b.create(edit(pod, on(cluster.Node)...))
			b.podReady("app")
		},
	},
}

// leftFaults are what a node does not let go of.
var leftFaults = []fault{
	{
		name: "mount-leaked", rule: "Normal times: unstage 3 min; Causes: unstage/mount-leaked, another mount namespace keeps the device; " +
			"Borders: a call that was made and fails past its time is stuck even if nobody waits for it",
		ask: "pvc data", probe: true, ahead: 4 * time.Minute, without: "stuck unstage/never-confirmed|unstage/driver-error", want: "stuck unstage/mount-leaked",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.agent(defaultDriver, "")
			b.refuse("NodeUnstageVolume", "close the mapping: device is still in use")
			b.delete("pod/app")
			b.gone("Pod", "app")
			b.called(defaultDriver, "NodeUnstageVolume")
			b.inside(cluster.Node, "umount", b.staging()) // as far as the driver comes
		},
	},
	{
		name: "unstage-refused", rule: "Normal times: unstage 3 min; Causes: unstage/driver-error, NodeUnstageVolume fails (whoever sees the node's mounts as they come and go, as a plugin does, keeps none)",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data", probe: true, ahead: 4 * time.Minute, without: "stuck unstage/never-confirmed|unstage/driver-error", want: "stuck unstage/driver-error",
		bring: func(b *bench) {
			b.create(claim("NAME-now"), edit(pod, on(cluster.Node)...))
			b.podReady("app")
			b.agent(b.driver, "mountPropagation: HostToContainer")
			b.inject("NodeUnstageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4731"})
			b.delete("pod/app")
			b.gone("Pod", "app")
			b.called(b.driver, "NodeUnstageVolume")
		},
	},
	{
		name: "vol-data-broken", rule: "Normal times: unpublish 3 min, and what kubelet cannot do stands in its log only; Causes: unpublish/vol-data-broken, vol_data.json is missing or broken",
		ask: "pod app", probe: true, ahead: 4 * time.Minute, without: "stuck unpublish/driver-error|unpublish/mount-busy", want: "stuck unpublish/vol-data-broken",
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.inside(cluster.Node, "truncate", "--size=20", path.Join(path.Dir(b.published("app")), "vol_data.json"))
			b.delete("pod/app")
			b.status("Pod", "app", "has ended", func(o object) bool {
				return !o.Metadata.DeletionTimestamp.IsZero() && len(o.Status.ContainerStatuses) > 0 && o.Status.ContainerStatuses[0].State.Terminated != nil
			})
		},
	},
	{
		name: "orphaned-pod-dir", rule: "Causes: unpublish/orphaned-pod-dir; Borders: a leftover on which nobody works any more is degraded while it blocks nobody",
		ask: "node node-2", probe: true, without: "healthy", want: "degraded unpublish/orphaned-pod-dir",
		bring: func(b *bench) {
			dir := path.Join(cluster.KubeletRoot, "pods/0b7c9a3e-5d4f-4a62-9c1e-8f2d6b0a1c3d/volumes/kubernetes.io~csi/pvc-gone/mount")
			// Until something is mounted there the kubelet takes the folder away.
			b.inside("node-2", "sh", "-c", "until mkdir -p "+dir+" && mount -t tmpfs left "+dir+"; do :; done")
			b.t.Cleanup(func() { b.inside("node-2", "umount", dir) })
		},
	},
}

// called waits until the kubelet has called the driver.
func (b *bench) called(driver, rpc string) {
	b.t.Helper()
	b.until(rpc+" was called", func(objects) bool {
		state, err := b.Driver(b.t.Context(), driver)
		return err == nil && state.Calls[rpc] > 0
	})
}

// agent makes a pod that has the folder where the driver's volumes are staged. Without more it has a copy of the mounts that are there
// when it starts, which nothing takes away.
func (b *bench) agent(driver, propagation string) {
	b.t.Helper()
	folder := path.Join(cluster.KubeletRoot, "plugins/kubernetes.io/csi", driver)
	b.create(edit(edit(pod, on(cluster.Node)...), "{name: app}", "{name: agent}", "persistentVolumeClaim: {claimName: data}", "hostPath: {path: "+folder+"}",
		"mountPath: /data", "mountPath: "+strings.TrimSuffix(folder+", "+propagation, ", ")))
	b.podReady("agent")
}

// inlinePod has a volume of the driver's, written into it.
var inlinePod = edit(edit(pod, on(cluster.Node)...), "persistentVolumeClaim: {claimName: data}", "csi: {driver: NAME}")

// inline makes the driver, which serves inline volumes alone: without classes, attaching and sidecars.
func (b *bench) inline() {
	b.t.Helper()
	b.put(driver.Config{})
	b.create(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: NAME}
spec: {attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Ephemeral]}
`, edit(nodePlugin, "    spec:\n      hostNetwork", "    spec:\n      nodeSelector: {kubernetes.io/hostname: "+cluster.Node+"}\n      hostNetwork",
		"        volumeMounts:\n        - {name: plugin, mountPath: /csi}\n      volumes:", // without Bidirectional, as it should have
		"        securityContext: {privileged: true}\n        volumeMounts:\n        - {name: plugin, mountPath: /csi}\n        - {name: pods, mountPath: /var/lib/kubelet/pods}\n"+
			"      volumes:\n      - {name: pods, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}"))
	b.until("the driver is registered", registered(b.driver))
	b.podReady("node-plugin-")
}

// lie makes the default driver report success of a call for the volume of the claim data, and do nothing.
func (b *bench) lie(rpc string) {
	b.t.Helper()
	if err := b.Inject(b.t.Context(), defaultDriver, rpc, driver.Fault{Mode: "lie", Volume: b.handle()}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) handle() string {
	b.t.Helper()
	return b.find("PersistentVolume/" + b.pv).Spec.CSI.VolumeHandle
}

// image is the file behind the volume of the claim data.
func (b *bench) image() string {
	b.t.Helper()
	return filepath.Join(b.Dir, "volumes", defaultDriver, b.handle()+".img")
}

// staging is where the volume of the claim data is staged on a node.
func (b *bench) staging() string {
	b.t.Helper()
	return path.Join(cluster.KubeletRoot, "plugins/kubernetes.io/csi", defaultDriver, fmt.Sprintf("%x", sha256.Sum256([]byte(b.handle()))), "globalmount")
}

// published is where the pod's volume is.
func (b *bench) published(pod string) string {
	b.t.Helper()
	return b.inside(cluster.Node, "sh", "-c", "echo "+path.Join(cluster.KubeletRoot, "pods", b.find("Pod/"+pod).Metadata.UID, "volumes/kubernetes.io~csi/*/mount"))
}

func (b *bench) inside(node string, args ...string) string {
	b.t.Helper()
	return inside(b.t, b.Cluster, node, args...)
}
