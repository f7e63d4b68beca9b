package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDriver asks about the scene's driver.
func TestDriver(t *testing.T) {
	class := func(s *scene) {
		grows := true
		s.put("storage.k8s.io/v1", "StorageClass", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: sceneDriver, AllowVolumeExpansion: &grows})
	}
	for name, c := range map[string]struct {
		change  func(*scene)
		verdict Verdict
		cause   string
		says    []string
	}{
		"works": {func(s *scene) { class(s); s.lease("external-resizer-disk-example-com", 5*time.Second) }, VerdictHealthy, "",
			[]string{"csi-provisioner works", "csi-attacher works", "csi-resizer works", "on 2 of 2 nodes"}},
		"its attacher is dead and nobody waits": {func(s *scene) {
			class(s)
			s.lease("external-resizer-disk-example-com", 5*time.Second)
			s.lease("external-attacher-leader-disk-example-com", 5*time.Hour)
		}, VerdictDegraded, "attach/attacher-not-running", []string{"5h"}},
		"no lease and no pod of a controller to be seen": {func(s *scene) {
			class(s)
			s.drop("Lease", "disk-example-com")
			s.drop("Lease", "external-attacher-leader-disk-example-com")
		}, VerdictHealthy, "", []string{"there is no lease disk-example-com"}},
		"twelve nodes lack it": {func(s *scene) {
			s.put("apps/v1", "DaemonSet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-csi-node", UID: "ds"},
				Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: pluginSpec("")}}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 14, NumberReady: 2}})
			for i := range 12 {
				name := fmt.Sprintf("worker-%d", i)
				s.node(name, true)
				s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}, VerdictStuck, "register/plugin-pod-missing", []string{"on 2 of 14 nodes", "2 nodes more"}},
		"the DaemonSet leaves a tainted node out": {func(s *scene) {
			s.nodeWith("cp-1", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
			})
			s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}})
		}, VerdictHealthy, "", []string{"leaves 1 nodes out", "on 2 of 3 nodes"}},
		"two versions run": {func(s *scene) {
			for i, n := range []string{"node-1", "node-2"} {
				s.pluginWith(n, func(p *corev1.Pod) { p.Spec.Containers[0].Image = fmt.Sprintf("registry.example/disk:v%d", i) })
			}
		}, VerdictHealthy, "", []string{"registry.example/disk:v0 on 1, registry.example/disk:v1 on 1"}},
		"uninstalled, with a volume left": {func(s *scene) {
			for _, n := range []string{"node-1", "node-2"} {
				s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n}})
				s.drop("Pod", "disk-csi-"+n)
			}
			s.drop("DaemonSet", "disk-csi-node")
			s.drop("CSIDriver", sceneDriver)
		}, VerdictDegraded, "", []string{"nothing of the driver is installed: 0 classes and 1 volumes name it"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.change(s)
			s.want("CSIDriver", sceneDriver, c.verdict, c.cause)
			d := s.ask("CSIDriver", sceneDriver)
			all := strings.Join(d.Notes, "\n")
			for _, chain := range d.Chains {
				for _, h := range chain.Hops {
					all += "\n" + h.Note
				}
			}
			for _, says := range c.says {
				if !strings.Contains(all, says) {
					t.Errorf("does not say %q:\n%s", says, all)
				}
			}
		})
	}
	s := newScene(t)
	if d := s.ask("CSIDriver", "nobody.example.com"); !d.Missing {
		t.Errorf("a driver of which nothing is there: %+v", d)
	}
}
