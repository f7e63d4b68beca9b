package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const minute = time.Minute

// A pod on node-2 waits for the volume; what is on node-1, and who works, differs.
func TestAttach(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(*scene)
		age     time.Duration // of the pod that waits
		verdict Verdict
		cause   string
	}{
		{"asked for a moment ago", func(s *scene) { s.attached("node-2", asked(30*time.Second, "")) }, 40 * time.Second, VerdictWaiting, "attach/in-progress"},
		{"taken up and never ended", func(s *scene) {
			s.attached("node-2", asked(20*minute, ""))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
			s.controller("--leader-election=false")
		}, 20 * minute, VerdictStuck, "attach/rbac"},
		{"taken up and never ended, with all rights", func(s *scene) {
			s.attached("node-2", asked(20*minute, ""))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
			s.controller("--leader-election=false")
			s.role("*", "*", "*")
		}, 20 * minute, VerdictStuck, "attach/timeout"},
		{"taken up and never ended, without the status", func(s *scene) {
			s.attached("node-2", asked(20*minute, ""))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
			s.controller("--leader-election=false")
			s.role("storage.k8s.io", "volumeattachments", "patch")
		}, 20 * minute, VerdictStuck, "attach/rbac"},
		{"an error of the driver", func(s *scene) { s.attached("node-2", asked(20*minute, "rpc error: code = Internal desc = who knows")) }, 20 * minute, VerdictStuck, "attach/backend-error"},
		{"the call times out", func(s *scene) {
			s.attached("node-2", asked(20*minute, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"))
		}, 20 * minute, VerdictStuck, "attach/timeout"},
		{"one error, a moment ago", func(s *scene) {
			s.attached("node-2", asked(30*time.Second, "rpc error: code = Internal desc = who knows"))
		}, 40 * time.Second, VerdictWaiting, "attach/in-progress"},
		{"nobody takes it up", func(s *scene) {
			s.attached("node-2", untaken(20*minute))
			s.lease("external-attacher-leader-disk-example-com", 3*time.Hour)
		}, 20 * minute, VerdictStuck, "attach/attacher-not-running"},
		{"no attacher was ever there", func(s *scene) {
			s.attached("node-2", untaken(20*minute))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
		}, 20 * minute, VerdictStuck, "attach/attacher-not-running"},
		{"no CSIDriver and no attacher", func(s *scene) {
			s.attached("node-2", untaken(20*minute))
			s.drop("Lease", "external-attacher-leader-disk-example-com")
			s.drop("CSIDriver", sceneDriver)
		}, 20 * minute, VerdictStuck, "attach/csidriver-missing"},
		{"no CSIDriver, and an attacher that works", func(s *scene) {
			s.attached("node-2", asked(20*minute, "rpc error: code = Internal desc = who knows"))
			s.drop("CSIDriver", sceneDriver)
		}, 20 * minute, VerdictStuck, "attach/backend-error"},
		{"the volume is being deleted", func(s *scene) {
			s.pv(func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = beforePtr(time.Hour) })
			s.attached("node-2", asked(20*minute, `PersistentVolume "pvc-5cbe" is marked for deletion`))
		}, 20 * minute, VerdictStuck, "attach/pv-deleting"},
		{"attached, and the node was not told", func(s *scene) { s.attached("node-2", stays) }, 20 * minute, VerdictStuck, "attach/not-published-to-node"},
		{"attached, and the node is told soon", func(s *scene) { s.attached("node-2", stays) }, 30 * time.Second, VerdictWaiting, "attach/in-progress"},
		{"attached to a machine of the same name", func(s *scene) {
			s.attached("node-2", func(at *storagev1.VolumeAttachment) { at.Annotations[annNodeID] = "i-old" })
		}, 20 * minute, VerdictStuck, "attach/stale-attachment"},
		{"no attachment", func(s *scene) {}, 20 * minute, VerdictStuck, "attach/not-requested"},
		{"no attachment yet", func(s *scene) {}, 30 * time.Second, VerdictWaiting, "attach/in-progress"},
		{"the own attachment is going, with an error", func(s *scene) {
			s.attached("node-2", leaves(20*minute, "rpc error: code = Internal desc = who knows"))
		}, 20 * minute, VerdictStuck, "detach/backend-error"},
		{"the own attachment is going", func(s *scene) { s.attached("node-2", leaves(30*time.Second, "")) }, 40 * time.Second, VerdictWaiting, "attach/pv-deleting"},

		{"another pod runs with it", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("old", "node-1", time.Hour, running)
		}, 20 * minute, VerdictStuck, "attach/multi-attach-in-use"},
		{"another pod runs with it, on many nodes", func(s *scene) {
			s.pv(func(pv *corev1.PersistentVolume) {
				pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			})
			s.attached("node-1", stays)
			s.attached("node-2", asked(20*minute, "rpc error: code = Internal desc = who knows"))
			s.pod("old", "node-1", time.Hour, running)
		}, 20 * minute, VerdictStuck, "attach/backend-error"},
		{"the old pod has its grace period", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("old", "node-1", time.Hour, dying(-20*time.Second, false))
		}, 30 * time.Second, VerdictWaiting, "attach/multi-attach-transient"},
		{"the old pod is ending", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("old", "node-1", time.Hour, dying(30*time.Second, true))
		}, 50 * time.Second, VerdictWaiting, "attach/multi-attach-terminating"},
		{"the old pod ended and does not go", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("old", "node-1", time.Hour, dying(20*minute, true))
		}, 21 * minute, VerdictStuck, "unpublish/driver-error"},
		{"the old pod's driver is gone", func(s *scene) {
			s.attached("node-1", stays)
			s.pod("old", "node-1", time.Hour, dying(20*minute, true))
			s.drop("Pod", "disk-csi-node-1")
		}, 21 * minute, VerdictStuck, "unpublish/plugin-gone"},
		{"the node is dead, its pod is not", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", false, sceneHandle)
			s.pod("old", "node-1", time.Hour, dying(20*minute, false))
		}, 20 * minute, VerdictStuck, "attach/multi-attach-node-dead"},
		{"the node is dead, its pod is gone", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", false, sceneHandle)
		}, 3 * minute, VerdictWaiting, "detach/waiting-force-detach"},
		{"the node is dead, and the timer has passed", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", false, sceneHandle)
		}, 20 * minute, VerdictStuck, "attach/multi-attach-node-dead"},
		{"the node was removed", func(s *scene) {
			s.attached("node-1", stays)
			s.drop("Node", "node-1")
			s.event("Node", "node-1", "RemovingNode", "Removing Node node-1", 4*minute)
		}, 10 * minute, VerdictWaiting, "detach/waiting-force-detach"},
		{"the node was removed long ago", func(s *scene) {
			s.attached("node-1", stays)
			s.drop("Node", "node-1")
		}, 30 * minute, VerdictStuck, "attach/multi-attach-node-dead"},
		{"the detach names the missing machine", func(s *scene) {
			s.attached("node-1", leaves(20*minute, `rpc error: code = NotFound desc = instance i-node-1 not found`))
			s.drop("Node", "node-1")
		}, 30 * minute, VerdictStuck, "detach/node-gone"},
		{"being detached", func(s *scene) { s.attached("node-1", leaves(20*time.Second, "")) }, 40 * time.Second, VerdictWaiting, "attach/multi-attach-transient"},
		{"nobody detaches", func(s *scene) {
			s.attached("node-1", leaves(20*minute, ""))
			s.lease("external-attacher-leader-disk-example-com", 3*time.Hour)
		}, 20 * minute, VerdictStuck, "detach/attacher-not-running"},
		{"left attached", func(s *scene) { s.attached("node-1", stays) }, 20 * minute, VerdictStuck, "attach/stale-attachment"},
		{"left attached a moment ago", func(s *scene) { s.attached("node-1", stays) }, 30 * time.Second, VerdictWaiting, "attach/multi-attach-transient"},
		{"the node does not let go", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
		}, 20 * minute, VerdictStuck, "unstage/never-confirmed"},
		{"the node does not let go, its driver is gone", func(s *scene) {
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			s.drop("Pod", "disk-csi-node-1")
		}, 20 * minute, VerdictStuck, "unstage/plugin-gone"},
		{"the backend names a machine that is dead", func(s *scene) {
			s.node("node-1", false)
			s.attached("node-2", asked(20*minute, `rpc error: code = FailedPrecondition desc = volume vol-0a1b2c3d4e5f is already attached to node i-node-1`))
		}, 20 * minute, VerdictStuck, "attach/multi-attach-node-dead"},
		{"the backend names a machine that works", func(s *scene) {
			s.attached("node-2", asked(20*minute, `rpc error: code = FailedPrecondition desc = volume vol-0a1b2c3d4e5f is already attached to node i-node-1`))
		}, 20 * minute, VerdictStuck, "attach/held-outside"},
		{"Multi-Attach said, and nobody holds it any more", func(s *scene) {
			s.event("Pod", "new", "FailedAttachVolume", `Multi-Attach error for volume "pvc-5cbe" Volume is already exclusively attached to one node and can't be attached to another`, minute)
		}, 2 * minute, VerdictWaiting, "attach/in-progress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.set(s)
			s.pod("new", "node-2", c.age, waits)
			s.want("Pod", "new", c.verdict, c.cause)
		})
	}
}

// controller puts the driver's controller pod there.
func (s *scene) controller(attacherArgs ...string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-csi-controller-0", CreationTimestamp: before(240 * time.Hour)},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "csi-attacher", Args: attacherArgs}, {Name: "csi-provisioner", Args: attacherArgs}}}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	s.put("v1", "Pod", p)
}

// role gives the controller's service account one rule.
func (s *scene) role(group, resource, verb string) {
	s.put("rbac.authorization.k8s.io/v1", "ClusterRole", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacher"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}}})
	s.put("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "attacher"},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "attacher"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "default"}}})
}
