package explain

import (
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod on node-1 was asked to go.
func TestUnpublish(t *testing.T) {
	for _, c := range []struct {
		name    string
		pod     func(*corev1.Pod)
		set     func(*scene)
		verdict Verdict
		cause   string
	}{
		{"grace period", dying(-20*time.Second, false), func(*scene) {}, VerdictWaiting, "unpublish/in-progress"},
		{"a moment ago", dying(20*time.Second, true), func(*scene) {}, VerdictWaiting, "unpublish/in-progress"},
		{"nobody says why", dying(20*minute, true), func(*scene) {}, VerdictStuck, "unpublish/driver-error"},
		{"a container runs on", dying(20*minute, false), func(*scene) {}, VerdictStuck, "unpublish/not-the-volume"},
		{"a finalizer", func(p *corev1.Pod) { dying(20*minute, true)(p); p.Finalizers = []string{"example.com/hold"} }, func(*scene) {}, VerdictStuck, "unpublish/not-the-volume"},
		{"the node is dead", dying(20*minute, false), func(s *scene) { s.node("node-1", false) }, VerdictStuck, "unpublish/node-dead"},
		{"the node is dead, as an event of the pod says too", dying(20*minute, false), func(s *scene) {
			s.node("node-1", false)
			s.event("Pod", "old", "NodeNotReady", "Node is not ready", 26*minute)
		}, VerdictStuck, "unpublish/node-dead"},
		{"its sandbox does not go", dying(20*minute, true), func(s *scene) {
			s.event("Pod", "old", "FailedKillPod", `error killing pod: failed to "KillPodSandbox" for "6b12" with KillPodSandboxError: "rpc error: code = Unknown desc = failed to destroy network for sandbox"`, minute)
		}, VerdictStuck, "unpublish/not-the-volume"},
		{"the plugin is missing", dying(20*minute, true), func(s *scene) { s.drop("Pod", "disk-csi-node-1") }, VerdictStuck, "unpublish/plugin-gone"},
		{"the driver is not registered", dying(20*minute, true), func(s *scene) { s.drop("CSINode", "node-1") }, VerdictStuck, "unpublish/plugin-gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.attached("node-1", stays)
			c.set(s)
			s.pod("old", "node-1", time.Hour, c.pod)
			s.want("Pod", "old", c.verdict, c.cause)
		})
	}
}

// A claim that was asked to go stays as long as a pod names it, whatever the node and the attacher do meanwhile.
func TestKeptByEndedPod(t *testing.T) {
	for name, set := range map[string]func(*scene){
		"in use still":                 func(s *scene) { s.attached("node-1", stays); s.node("node-1", true, sceneHandle) },
		"in use still, without driver": func(s *scene) { s.attached("node-1", stays); s.node("node-1", true, sceneHandle); s.removeDriver() },
		"attached still":               func(s *scene) { s.attached("node-1", stays) },
		"being detached":               func(s *scene) { s.attached("node-1", leaves(5*time.Second, "")) },
		"its first detach failed": func(s *scene) {
			s.attached("node-1", leaves(5*time.Second, "rpc error: code = Internal desc = UnauthorizedOperation: not authorized"))
		},
		"being detached, without driver": func(s *scene) { s.attached("node-1", leaves(5*time.Second, "")); s.removeDriver() },
		"its node died":                  func(s *scene) { s.attached("node-1", stays); s.node("node-1", false, sceneHandle) },
		"its node is gone":               func(s *scene) { s.attached("node-1", stays); s.drop("Node", "node-1") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = beforePtr(time.Second) })
			s.pod("job", "node-1", time.Hour, completed(15*time.Second))
			set(s)
			s.want("PersistentVolumeClaim", "data", VerdictStuck, "delete/in-use")
		})
	}
}

// No pod uses the claim.
func TestIdleClaim(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(*scene)
		verdict Verdict
		cause   string
	}{
		{"not attached", func(*scene) {}, VerdictHealthy, "schedule/idle"},
		{"in use by nobody", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
		}, VerdictStuck, "unstage/never-confirmed"},
		{"its pod ended a moment ago", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.event("Pod", "old", "Killing", "Stopping container app", 30*time.Second)
		}, VerdictWaiting, "unstage/in-progress"},
		{"its pod was deleted a moment ago", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.event("StatefulSet", "db", "SuccessfulDelete", "delete Pod db-0 in StatefulSet db successful", 90*time.Second)
		}, VerdictWaiting, "unstage/in-progress"},
		{"its pod has just completed", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.pod("job", "node-1", time.Hour, completed(10*time.Second))
		}, VerdictWaiting, "unstage/in-progress"},
		{"its pod completed long ago", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.pod("job", "node-1", time.Hour, completed(20*minute))
		}, VerdictStuck, "unstage/never-confirmed"},
		{"its pod was deleted long ago", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.event("ReplicaSet", "db-5d9c", "SuccessfulDelete", "Deleted pod: db-5d9c-x2v8q", 9*minute)
		}, VerdictStuck, "unstage/never-confirmed"},
		{"left attached", func(s *scene) { s.attached("node-1", stays) }, VerdictDegraded, "detach/orphaned-attachment"},
		{"unused a moment ago", func(s *scene) {
			s.attached("node-1", stays)
			s.claim(func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Unused", Status: corev1.ConditionTrue, LastTransitionTime: before(20 * time.Second)}}
			})
		}, VerdictWaiting, "detach/in-progress"},
		{"being detached", func(s *scene) { s.attached("node-1", leaves(20*time.Second, "")) }, VerdictWaiting, "detach/in-progress"},
		{"the detach fails", func(s *scene) {
			s.attached("node-1", leaves(20*minute, "rpc error: code = Internal desc = who knows"))
		}, VerdictStuck, "detach/backend-error"},
		{"the detach is not allowed", func(s *scene) {
			s.attached("node-1", leaves(20*minute, "rpc error: code = Internal desc = UnauthorizedOperation: not authorized"))
		}, VerdictStuck, "detach/permission"},
		{"the detach waits for the backend", func(s *scene) {
			s.attached("node-1", leaves(20*minute, "rpc error: code = Internal desc = server is locked (locked)"))
		}, VerdictStuck, "detach/backend-busy"},
		{"the driver was removed", func(s *scene) {
			s.attached("node-1", leaves(20*minute, ""))
			s.removeDriver()
		}, VerdictStuck, "detach/driver-gone"},
		{"being detached, by an attacher that is not to be seen", func(s *scene) {
			s.attached("node-1", leaves(90*time.Second, ""))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
		}, VerdictWaiting, "detach/in-progress"},
		{"not detached, by an attacher that is not to be seen", func(s *scene) {
			s.attached("node-1", leaves(9*minute, ""))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
		}, VerdictStuck, "detach/attacher-not-running"},
		{"the attacher does not run", func(s *scene) {
			s.attached("node-1", leaves(20*minute, ""))
			s.lease("external-attacher-leader-disk-example-com", time.Hour)
		}, VerdictStuck, "detach/attacher-not-running"},
		{"attached to a dead node, a moment ago", func(s *scene) {
			s.attached("node-1", stays)
			s.drop("Node", "node-1")
			s.event("Node", "node-1", "RemovingNode", "Removing Node node-1", 2*minute)
		}, VerdictWaiting, "detach/waiting-force-detach"},
		{"attached to a dead node", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", false)
		}, VerdictDegraded, "detach/orphaned-attachment"},
		{"being deleted", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = beforePtr(20 * time.Second) })
		}, VerdictWaiting, "delete/in-progress"},
		{"being deleted for long", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = beforePtr(20 * minute) })
		}, VerdictStuck, "delete/finalizer"},
		{"kept by somebody", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) {
				c.DeletionTimestamp, c.Finalizers = beforePtr(20*minute), []string{"backup.example.com/hold"}
			})
		}, VerdictStuck, "delete/finalizer"},
		{"kept by a snapshot", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) {
				c.DeletionTimestamp, c.Finalizers = beforePtr(20*minute), []string{finalizerSnapshot}
			})
			data := "data"
			s.put("snapshot.storage.k8s.io/v1", "VolumeSnapshot", &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly"}, Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &data}}})
		}, VerdictStuck, "delete/has-snapshots"},
		{"kept by a pod that has ended", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = beforePtr(20 * minute) })
			s.pod("job", "node-1", time.Hour, func(p *corev1.Pod) { running(p); p.Status.Phase = corev1.PodSucceeded })
		}, VerdictStuck, "delete/in-use"},
		{"kept by a pod that runs", func(s *scene) {
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = beforePtr(time.Minute) })
			s.attached("node-1", stays)
			s.pod("db", "node-1", time.Hour, running)
		}, VerdictStuck, "delete/in-use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.set(s)
			s.want("PersistentVolumeClaim", "data", c.verdict, c.cause)
		})
	}
}

// removeDriver leaves nothing of the driver in the cluster.
func (s *scene) removeDriver() {
	s.drop("CSIDriver", sceneDriver)
	s.drop("DaemonSet", "disk-csi-node")
	for _, n := range []string{"node-1", "node-2"} {
		s.drop("CSINode", n)
		s.drop("Pod", "disk-csi-"+n)
	}
	s.drop("Lease", "external-attacher-leader-disk-example-com")
	s.drop("Lease", "disk-example-com")
}

// The volume itself is asked about.
func TestVolume(t *testing.T) {
	same := func(*corev1.PersistentVolume) {}
	for _, c := range []struct {
		name    string
		set     func(*scene)
		verdict Verdict
		cause   string
	}{
		{"bound and running", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("db", "node-1", time.Hour, running)
		}, VerdictHealthy, ""},
		{"bound and idle", func(*scene) {}, VerdictHealthy, ""},
		{"available", func(s *scene) {
			s.drop("PersistentVolumeClaim", "data")
			s.pv(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef, pv.Status.Phase = nil, corev1.VolumeAvailable })
		}, VerdictHealthy, ""},
		{"retained", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			})
		}, VerdictHealthy, "delete/retained"},
		{"released a moment ago", func(s *scene) { s.released(30*time.Second, same) }, VerdictWaiting, "delete/in-progress"},
		{"released, still attached", func(s *scene) {
			s.released(time.Hour, same)
			s.attached("node-1", stays)
		}, VerdictStuck, "delete/still-attached"},
		{"released, the node does not let go", func(s *scene) {
			s.released(time.Hour, same)
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
		}, VerdictStuck, "unstage/never-confirmed"},
		{"released, the detach fails", func(s *scene) {
			s.released(time.Hour, same)
			s.attached("node-1", leaves(20*minute, "rpc error: code = Internal desc = who knows"))
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "persistentvolume pvc-5cbe is still attached to node node-1", minute)
		}, VerdictStuck, "detach/backend-error"},
		{"the backend refuses", func(s *scene) {
			s.released(time.Hour, same)
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "rpc error: code = Internal desc = UnauthorizedOperation: not authorized", 5*minute)
		}, VerdictStuck, "delete/permission"},
		{"the backend fails", func(s *scene) {
			s.released(time.Hour, same)
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "rpc error: code = Internal desc = who knows", 5*minute)
		}, VerdictStuck, "delete/backend-error"},
		{"failed", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.Status.Phase, pv.Status.Message = corev1.VolumeFailed, "rpc error: code = FailedPrecondition desc = volume has snapshots"
			})
		}, VerdictStuck, "delete/has-snapshots"},
		{"no provisioner", func(s *scene) {
			s.released(time.Hour, same)
			s.lease("disk-example-com", time.Hour)
		}, VerdictStuck, "delete/driver-gone"},
		{"no driver", func(s *scene) {
			s.released(time.Hour, same)
			s.removeDriver()
		}, VerdictStuck, "delete/driver-gone"},
		{"the attacher forgot its finalizer", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.DeletionTimestamp, pv.Finalizers = beforePtr(time.Hour), []string{attacherFinalizer(sceneDriver)}
			})
		}, VerdictStuck, "delete/finalizer"},
		{"still attached at the last try", func(s *scene) {
			s.released(time.Hour, same)
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "persistentvolume pvc-5cbe is still attached to node node-1", minute)
		}, VerdictWaiting, "delete/in-progress"},
		{"an earlier call runs on", func(s *scene) {
			s.released(time.Hour, same)
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "rpc error: code = FailedPrecondition desc = volume has snapshots", 2*minute)
			s.event("PersistentVolume", scenePV, "VolumeFailedDelete", "rpc error: code = Aborted desc = an operation with the given Volume ID vol already exists", minute)
		}, VerdictStuck, "delete/has-snapshots"},
		{"released a moment ago, its node is dead", func(s *scene) {
			s.released(4*minute, same)
			s.attached("node-1", stays)
			s.node("node-1", false)
		}, VerdictWaiting, "detach/waiting-force-detach"},
		{"deleted under its running pod", func(s *scene) {
			s.pv(func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = beforePtr(time.Hour) })
			s.attached("node-1", stays)
			s.pod("db", "node-1", time.Hour, running)
		}, VerdictStuck, "delete/finalizer"},
		{"deleted under its claim", func(s *scene) {
			s.pv(func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = beforePtr(time.Hour) })
		}, VerdictStuck, "delete/finalizer"},
		{"local to a node that is gone", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.Spec.CSI.VolumeAttributes = map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "1-2-disk.example.com-node-9"}
				pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-9"}}}}}}}
			})
			s.drop("Lease", "disk-example-com")
		}, VerdictStuck, "delete/node-gone"},
		{"pushed out, its attachment stays", func(s *scene) {
			s.drop("PersistentVolumeClaim", "data")
			s.drop("PersistentVolume", scenePV)
			s.attached("node-1", leaves(time.Hour, `persistentvolume "pvc-5cbe" not found`))
		}, VerdictStuck, "detach/pv-gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.set(s)
			s.want("PersistentVolume", scenePV, c.verdict, c.cause)
		})
	}
}
