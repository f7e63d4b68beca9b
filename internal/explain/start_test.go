package explain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// TestContainers lets the container of a pod with two volumes, /data and /wal, end or not be made, with what runtimes and
// programs say then. No node was probed.
func TestContainers(t *testing.T) {
	ended := func(message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "app", RestartCount: 9, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}}}
	}
	waits := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	const folder = "/var/lib/kubelet/pods/02b712ce-d894-4903-a1d9-9f6f680b3477/"
	for _, c := range []struct {
		name   string
		status corev1.ContainerStatus
		cause  string
	}{
		{"no reason", ended(""), "start/not-the-volume"},
		{"a bug", ended("panic: runtime error: index out of range [3] with length 3"), "start/not-the-volume"},
		{"no image", waits("ImagePullBackOff", `Back-off pulling image "registry.example/app:1"`), "start/not-the-volume"},
		{"no secret", waits("CreateContainerConfigError", `secret "db" not found`), "start/not-the-volume"},
		{"full", ended(`FATAL:  could not write lock file "/data/postmaster.pid": No space left on device`), "start/full"},
		{"full elsewhere", ended("write /tmp/upload-1: no space left on device"), "start/not-the-volume"},
		{"the node is full", waits("CreateContainerError", "failed to create containerd task: mkdir /run/containerd/io.containerd.runtime.v2.task/k8s.io/1: no space left on device"), "start/not-the-volume"},
		{"read-only", ended("touch: cannot touch '/wal/x': Read-only file system"), "start/read-only"},
		{"read-only root", ended("nginx: [emerg] mkdir() \"/var/cache/nginx/client_temp\" failed (30: Read-only file system)"), "start/not-the-volume"},
		{"refused", ended("mkdir: cannot create directory '/data/db': Permission denied"), "publish/permission"},
		{"a port", ended("nginx: [emerg] bind() to 0.0.0.0:80 failed (13: Permission denied) in /etc/nginx/nginx.conf:3"), "start/not-the-volume"},
		{"dead mount", ended("ls: cannot access '/data': Transport endpoint is not connected"), "start/mount-broken"},
		{"dead mount, says the runtime", waits("CreateContainerError", "failed to generate container \"7f\" spec: failed to generate spec: failed to stat \""+folder+"volumes/kubernetes.io~csi/pvc-1/mount\": stat "+folder+"volumes/kubernetes.io~csi/pvc-1/mount: transport endpoint is not connected"), "publish/stale-publish-mount"},
		{"subPath", waits("CreateContainerConfigError", `failed to prepare subPath for volumeMount "data" of container "app"`), "start/subpath"},
		{"subPath gone", waits("RunContainerError", `failed to create containerd task: OCI runtime create failed: runc create failed: error mounting "`+folder+`volume-subpaths/pvc-1/app/0" to rootfs at "/data": mount src=..., no such file or directory`), "start/subpath"},
		{"relabelled by the runtime", waits("CreateContainerError", "context deadline exceeded"), "start/ownership-slow"},
		{"I/O errors", ended("could not read block 7 in file \"/data/base/1/2\": Input/output error"), "stage/device-unreadable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := caseNamed(t, "forum-database-works")
			s := base.load(t)
			for _, o := range s.Select(snapshot.Query{Resource: "pods"}) {
				p := o.(*corev1.Pod)
				if p.Name != "forum-db-0" {
					continue
				}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{c.status}
				for i := range p.Status.Conditions {
					if p.Status.Conditions[i].Type == corev1.PodReady {
						p.Status.Conditions[i].Status, p.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(s.TakenAt.Add(-time.Hour))
					}
				}
			}
			d := walk(t, s, base.target(), base.At, nil)
			checkFix(t, d)
			id := ""
			if d.Cause != nil {
				id = d.Cause.ID
			}
			if d.Verdict != explain.VerdictStuck || id != c.cause || len(d.Findings) != 1 {
				t.Errorf("%s %s with %d findings, want one: stuck %s: %s", d.Verdict, id, len(d.Findings), c.cause, d.Summary)
			}
		})
	}
}
