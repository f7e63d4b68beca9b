package explain

import (
	"cmp"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const notListed = `MountVolume.MountDevice failed for volume "pvc-5cbe" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name disk.example.com not found in the list of registered CSI drivers`

// A pod waits on node-2, whose kubelet has no registration of the driver.
func TestRegister(t *testing.T) {
	plugin := func(s *scene, change func(*corev1.Pod)) {
		s.drop("Pod", "disk-csi-node-2")
		s.pluginWith("node-2", change)
	}
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Ready = false
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		}
	}
	for _, c := range []struct {
		name    string
		set     func(*scene)
		verdict Verdict
		cause   string
		age     time.Duration // of the pod; zero: 20 minutes
	}{
		{"a young node", func(s *scene) {
			s.nodeWith("node-2", func(n *corev1.Node) { n.CreationTimestamp = before(2 * minute) })
			plugin(s, func(p *corev1.Pod) {
				waiting("ContainerCreating", "")(p)
				p.CreationTimestamp = before(2 * minute)
			})
		}, VerdictWaiting, "register/in-progress", minute},
		{"a young node, whose plugin is pulled", func(s *scene) {
			s.nodeWith("node-2", func(n *corev1.Node) { n.CreationTimestamp = before(2 * minute) })
			s.drop("Pod", "disk-csi-node-2")
		}, VerdictWaiting, "register/in-progress", minute},
		{"a young node that the plugin does not tolerate", func(s *scene) {
			s.nodeWith("node-2", func(n *corev1.Node) {
				n.CreationTimestamp, n.Spec.Taints = before(2*minute), []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			})
			s.drop("Pod", "disk-csi-node-2")
		}, VerdictStuck, "register/plugin-pod-missing", minute},
		{"a plugin that was made anew", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				waiting("ContainerCreating", "")(p)
				p.CreationTimestamp = before(30 * time.Second)
			})
		}, VerdictWaiting, "register/in-progress", 0},
		{"a taint", func(s *scene) {
			s.nodeWith("node-2", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			})
			s.drop("Pod", "disk-csi-node-2")
		}, VerdictStuck, "register/plugin-pod-missing", 0},
		{"a selector", func(s *scene) {
			s.put("apps/v1", "DaemonSet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-csi-node", UID: "ds"},
				Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: func() corev1.PodSpec {
					p := pluginSpec("")
					p.NodeSelector = map[string]string{"storage": "yes"}
					return p
				}()}}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, NumberReady: 1}})
			s.drop("Pod", "disk-csi-node-2")
		}, VerdictStuck, "register/plugin-pod-missing", 0},
		{"evicted", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}
			})
		}, VerdictStuck, "register/plugin-pod-missing", 0},
		{"no DaemonSet", func(s *scene) {
			s.drop("DaemonSet", "disk-csi-node")
			s.drop("Pod", "disk-csi-node-1")
			s.drop("Pod", "disk-csi-node-2")
		}, VerdictStuck, "register/plugin-pod-missing", 0},
		{"its image cannot be pulled", func(s *scene) { plugin(s, waiting("ImagePullBackOff", `Back-off pulling image "x"`)) }, VerdictStuck, "register/plugin-pod-failing", 0},
		{"it crashes", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")(p)
				p.Status.ContainerStatuses[0].RestartCount = 40
			})
		}, VerdictStuck, "register/plugin-pod-failing", 0},
		{"it crashes, and was started again just now", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				c := &p.Status.ContainerStatuses[0]
				c.RestartCount, c.State = 3, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: before(5 * time.Second)}}
				c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", StartedAt: before(52 * time.Second), FinishedAt: before(50 * time.Second)}
			})
		}, VerdictStuck, "register/plugin-pod-failing", 0},
		{"it crashed, and has run for long since", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				c := &p.Status.ContainerStatuses[0]
				c.RestartCount, c.State = 3, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: before(8 * minute)}}
				c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", StartedAt: before(9 * minute), FinishedAt: before(8 * minute)}
			})
		}, VerdictStuck, "register/not-registered", 0},
		{"its registrar is told of a failure", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				p.Status.ContainerStatuses[1].Ready = false
				p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
				p.Status.ContainerStatuses[1].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: "Registration process failed with error: RegisterPlugin error -- plugin registration failed with err: rpc error: code = Internal desc = could not read metadata, restarting registration container: error getting CSI node info"}
			})
		}, VerdictStuck, "register/node-info-failing", 0},
		{"nobody says why", func(s *scene) {}, VerdictStuck, "register/not-registered", 0},
		{"a variable holds the path", func(s *scene) {
			plugin(s, func(p *corev1.Pod) {
				p.Spec.Containers[1].Args = []string{"--kubelet-registration-path=$(SOCKET)"}
				p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "SOCKET", Value: "/var/lib/kubelet/plugins/" + sceneDriver + "/csi.sock"}}
			})
		}, VerdictStuck, "register/not-registered", 0},
		{"its kubelet is elsewhere", func(s *scene) {
			s.nodeWith("node-2", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.33.1+k0s" })
		}, VerdictStuck, "register/kubelet-root-mismatch", 0},
		{"another driver was installed for another folder", func(s *scene) {
			spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "node-driver-registrar", Args: []string{"--kubelet-registration-path=/data/kubelet/plugins/nfs.csi.k8s.io/csi.sock"}}}}
			s.put("apps/v1", "DaemonSet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nfs"}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}})
			s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "nfs.csi.k8s.io", NodeID: "node-2"}}}})
		}, VerdictStuck, "register/kubelet-root-mismatch", 0},
		{"the report knows the kubelet's folder", func(s *scene) {
			s.report("node-2", func(r *nodereport.NodeReport) { r.Kubelet = &nodereport.Kubelet{RootDir: "/data/kubelet"} })
		}, VerdictStuck, "register/kubelet-root-mismatch", 0},
		{"the report found the socket dead", func(s *scene) {
			s.report("node-2", func(r *nodereport.NodeReport) {
				r.Drivers = []nodereport.Driver{{Name: sceneDriver, Socket: &nodereport.Socket{Path: "/var/lib/kubelet/plugins/" + sceneDriver + "/csi.sock", State: nodereport.SocketRefused}}}
			})
		}, VerdictStuck, "register/socket-dead", 0},
		{"the report heard that it is not ready", func(s *scene) {
			s.report("node-2", func(r *nodereport.NodeReport) {
				r.Drivers = []nodereport.Driver{{Name: sceneDriver, Socket: &nodereport.Socket{State: nodereport.SocketOK}, Identity: &nodereport.Identity{Ready: "no"}}}
			})
		}, VerdictStuck, "register/not-ready", 0},
		{"the report heard NodeGetInfo fail", func(s *scene) {
			s.report("node-2", func(r *nodereport.NodeReport) {
				r.Drivers = []nodereport.Driver{{Name: sceneDriver, Socket: &nodereport.Socket{State: nodereport.SocketOK}, Identity: &nodereport.Identity{Ready: "yes"}, Node: &nodereport.DriverNode{Error: "rpc error: code = Internal desc = no metadata"}}}
			})
		}, VerdictStuck, "register/node-info-failing", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.drop("CSINode", "node-2")
			s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}})
			c.set(s)
			s.pod("new", "node-2", cmp.Or(c.age, 20*minute), waits)
			s.event("Pod", "new", "FailedMount", notListed, 30*time.Second)
			s.want("Pod", "new", c.verdict, c.cause)
		})
	}
}

// The CSINode lists the driver, and its socket does not answer.
func TestSocketDead(t *testing.T) {
	s := newScene(t)
	s.attached("node-2", stays)
	s.nodeWith("node-2", func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(uniqueName(sceneDriver, sceneHandle))}}
	})
	s.pod("new", "node-2", 20*minute, waits)
	s.event("Pod", "new", "FailedMount", `MountVolume.MountDevice failed for volume "pvc-5cbe" : rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /var/lib/kubelet/plugins/disk.example.com/csi.sock: connect: connection refused"`, minute)
	s.event("Pod", "new", "FailedMount", `MountVolume.MountDevice failed for volume "pvc-5cbe" : rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /var/lib/kubelet/plugins/disk.example.com/csi.sock: connect: connection refused"`, 10*minute)
	s.want("Pod", "new", VerdictStuck, "register/socket-dead")

	// That a plugin which crashes again and again runs at this moment is no cure of what its absence made.
	s.drop("Pod", "disk-csi-node-2")
	s.pluginWith("node-2", func(p *corev1.Pod) {
		c := &p.Status.ContainerStatuses[0]
		c.RestartCount, c.State = 3, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: before(5 * time.Second)}}
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", StartedAt: before(52 * time.Second), FinishedAt: before(50 * time.Second)}
	})
	s.want("Pod", "new", VerdictStuck, "register/plugin-pod-failing")
}

// The kubelet tried last 30 seconds ago, when the driver was not registered; it is now.
func TestRegisteredSince(t *testing.T) {
	for started, want := range map[time.Duration]Verdict{20 * time.Second: VerdictWaiting, 40 * time.Second: VerdictWaiting, 20 * minute: VerdictStuck} {
		s := newScene(t)
		s.attached("node-2", stays)
		s.nodeWith("node-2", func(n *corev1.Node) {
			n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(uniqueName(sceneDriver, sceneHandle))}}
		})
		s.drop("Pod", "disk-csi-node-2")
		s.pluginWith("node-2", func(p *corev1.Pod) {
			for i := range p.Status.ContainerStatuses {
				p.Status.ContainerStatuses[i].State.Running.StartedAt = before(started)
			}
		})
		s.pod("new", "node-2", 20*minute, waits)
		s.event("Pod", "new", "FailedMount", notListed, 10*minute)
		s.event("Pod", "new", "FailedMount", notListed, 30*time.Second)
		if d := s.ask("Pod", "new"); d.Verdict != want {
			t.Errorf("plugin started %v ago: %s %s, want %s: %s", started, d.Verdict, causeOf(d), want, d.Summary)
		}
	}
}

// The kubelet failed to stage the volume, more often than counts, and the report of the node shows it mounted for the pod.
func TestPublishedSince(t *testing.T) {
	const failed = `MountVolume.MountDevice failed for volume "pvc-5cbe" : rpc error: code = Internal desc = the device of volume vol-0a1b2c3d4e5f was not found`
	for said, want := range map[time.Duration]Verdict{minute: VerdictWaiting, -5 * time.Second: VerdictStuck} { // before the report, and after
		s := newScene(t)
		s.attached("node-2", stays)
		s.nodeWith("node-2", func(n *corev1.Node) {
			n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(uniqueName(sceneDriver, sceneHandle))}}
		})
		s.pod("new", "node-2", 100*time.Second, waits)
		s.event("Pod", "new", "FailedMount", failed, 95*time.Second)
		s.event("Pod", "new", "FailedMount", failed, 90*time.Second)
		s.event("Pod", "new", "FailedMount", failed, said)
		s.report("node-2", func(r *nodereport.NodeReport) {
			const at = "/var/lib/kubelet/pods/new/volumes/kubernetes.io~csi/pvc-5cbe/mount"
			r.Mountinfo = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n33 22 8:16 / " + at + " rw - ext4 /dev/sdb rw\n"
			r.Volumes = []nodereport.Volume{{Driver: sceneDriver, Handle: sceneHandle, PV: scenePV, Publishes: []nodereport.Publish{{PodUID: "new", Path: at, Exists: true, Type: "dir", Stat: "ok"}}}}
		})
		if d := s.ask("Pod", "new"); d.Verdict != want {
			t.Errorf("said %v before the report: %s %s, want %s: %s", said, d.Verdict, causeOf(d), want, d.Summary)
		}
	}
}

// report adds what the node itself was asked.
func (s *scene) report(node string, change func(*nodereport.NodeReport)) {
	r := &snapshot.NodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}}
	r.Report.CollectedAt = noon
	change(&r.Report)
	s.put("csidoctor.dev/v1alpha1", "NodeReport", r)
}
