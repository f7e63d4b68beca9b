package carrier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/frame"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

func framed(t testing.TB, node string) []byte {
	t.Helper()
	var b bytes.Buffer
	r := &nodereport.NodeReport{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind, Metadata: nodereport.Metadata{Name: node}}
	if err := frame.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withImage is how most tests run: the report is the log of an image that has the program.
func withImage(timeout time.Duration) Options {
	return Options{Image: "registry.example/csidoctor-probe:v1", Timeout: timeout}
}

func plan(t testing.TB, c *Carrier) Plan {
	t.Helper()
	p, err := c.Plan(Target{Name: "node-1", Node: node("node-1", corev1.ConditionTrue)}, true)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReport(t *testing.T) {
	s := serve(t)
	s.pod = func(look int, p *corev1.Pod) *corev1.Pod {
		switch look {
		case 1:
			return nil
		case 2:
			return waitingWith(p, "ContainerCreating", "")
		}
		return startedWith(p)
	}
	s.log = func(w http.ResponseWriter) { fmt.Fprintf(w, "a warning\n%s", framed(t, "node-1")) }
	c := s.carrier(withImage(time.Minute))
	reports, failures := c.Probe(t.Context(), []Plan{plan(t, c)})
	if failures[0] != nil || reports[0] == nil || reports[0].Metadata.Name != "node-1" {
		t.Fatalf("%+v %+v", reports[0], failures[0])
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// TestLargeReport brings 20 MB of a node with very many mounts: what can be done without is left out, and the report says so.
func TestLargeReport(t *testing.T) {
	var table strings.Builder
	var random [32]byte
	source := rand.NewChaCha8(random)
	for table.Len() < 20<<20 {
		source.Read(random[:]) // never fails
		fmt.Fprintf(&table, "43 42 0:1 / /var/lib/kubelet/plugins/kubernetes.io/csi/loop.csidoctor.dev/%x/globalmount rw - tmpfs tmpfs rw\n", random)
	}
	report := &nodereport.NodeReport{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind, Metadata: nodereport.Metadata{Name: "node-1"},
		Mountinfo: "43 42 259:1 / /data rw - ext4 /dev/nvme1n1 rw\n", Namespaces: []nodereport.Namespace{{Inode: 4026532601, Mountinfo: table.String()}}}
	s := serve(t)
	s.log = func(w http.ResponseWriter) {
		if err := frame.Write(w, report); err != nil {
			t.Error(err)
		}
	}
	c := s.carrier(withImage(10 * time.Minute))
	reports, failures := c.Probe(t.Context(), []Plan{plan(t, c)})
	if failures[0] != nil {
		t.Fatalf("%+v", failures[0])
	}
	want := nodereport.Gap{What: "mountinfo of other namespaces", Reason: nodereport.LeftOut}
	if r := reports[0]; r.Mountinfo != report.Mountinfo || len(r.Namespaces) > 0 || !slices.Contains(r.Gaps, want) {
		t.Errorf("mountinfo %q, %d namespaces, gaps %v", r.Mountinfo, len(r.Namespaces), r.Gaps)
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	// Where the node's own table alone is too much, there is no report, and why not is said.
	report.Mountinfo = table.String()
	s.log = func(w http.ResponseWriter) {
		if err := frame.Write(io.Discard, report); err != nil {
			fmt.Fprintf(w, "error: %v\n", err)
		}
	}
	_, failures = c.Probe(t.Context(), []Plan{plan(t, c)})
	if f := failures[0]; f == nil || !strings.Contains(f.Detail, "more than the 4194304 that can be sent") || !strings.Contains(f.Remedy, "on the node") || len(s.left()) > 0 {
		t.Errorf("%+v, left %s", f, s.left())
	}
}

// TestJob holds the pod to what the docs promise of it.
func TestJob(t *testing.T) {
	s := serve(t)
	c := s.carrier(withImage(time.Minute))
	c.PullSecret = "registry"
	job := c.Job(plan(t, c), "csidoctor-probe-x", "frame")
	spec := job.Spec.Template.Spec
	for what, holds := range map[string]bool{
		"the server ends it":           *job.Spec.ActiveDeadlineSeconds == 70 && *spec.ActiveDeadlineSeconds == 70,
		"the server removes it":        *job.Spec.TTLSecondsAfterFinished == 30,
		"it is tried once":             *job.Spec.BackoffLimit == 0 && spec.RestartPolicy == corev1.RestartPolicyNever,
		"on the node, past taints":     spec.NodeName == "node-1" && len(spec.Tolerations) == 1 && spec.Tolerations[0] == corev1.Toleration{Operator: corev1.TolerationOpExists},
		"no token":                     !*spec.AutomountServiceAccountToken && spec.ServiceAccountName == "",
		"no folder of the host":        !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir == nil }),
		"its secret":                   len(spec.ImagePullSecrets) == 1 && spec.ImagePullSecrets[0].Name == "registry",
		"cleanup finds the Job":        job.Labels[managedBy] == ours,
		"cleanup finds the pod":        job.Spec.Template.Labels[managedBy] == ours,
		"the namespace is the usual":   job.Namespace == "kube-system",
		"sees the host's processes":    spec.HostPID,
		"one container has a program":  spec.Containers[0].Command[0] == "csidoctor-probe",
		"and no more than one a shell": len(spec.Containers) <= 2,
	} {
		if !holds {
			t.Errorf("not so: %s", what)
		}
	}
	for _, c := range spec.Containers {
		if !*c.SecurityContext.Privileged || !*c.SecurityContext.ReadOnlyRootFilesystem || len(c.Ports) > 0 || len(c.Env) > 0 || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
}

// TestInterrupted presses Ctrl-C at every request that a probe makes, one run each: nothing is left, whatever the request was.
func TestInterrupted(t *testing.T) {
	hit := 0
	for at := 1; ; at++ {
		s := serve(t)
		ctx, interrupt := context.WithCancel(t.Context())
		s.before = func(n int, _ *http.Request) {
			if n == at {
				interrupt()
				time.Sleep(10 * time.Millisecond) // the client has seen it before the answer comes
			}
		}
		s.pod = func(look int, p *corev1.Pod) *corev1.Pod {
			if look < 3 {
				return waitingWith(p, "ContainerCreating", "")
			}
			return startedWith(p)
		}
		s.log = func(w http.ResponseWriter) { w.Write(framed(t, "node-1")) }
		c := s.carrier(withImage(time.Minute))
		reports, failures := c.Probe(ctx, []Plan{plan(t, c)})
		interrupt()
		if left := s.left(); len(left) > 0 {
			t.Errorf("interrupted at request %d: left %s", at, left)
		}
		if len(s.made) > 0 {
			hit++
		}
		if s.requests < at {
			break // it was through before
		}
		if reports[0] == nil && failures[0] == nil {
			t.Errorf("interrupted at request %d: neither a report nor why there is none", at)
		}
	}
	if hit < 5 {
		t.Errorf("only %d runs had a Job when they were interrupted", hit)
	}
}

// TestFailures is every way in which a probe fails: what is said, and that nothing is left.
func TestFailures(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	podSecurity := `pods "csidoctor-probe-x" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true, hostPID=true), privileged`
	for name, c := range map[string]struct {
		set            func(*server)
		timeout        time.Duration
		detail, remedy string
		interruptAfter time.Duration
	}{
		"may not make Jobs": {set: func(s *server) {
			s.refuse = on(http.MethodPost, "jobs", apierrors.NewForbidden(jobs, "", errors.New(`User "jo" cannot create resource "jobs"`)))
		}, detail: "cannot create resource", remedy: "deploy/prober.yaml"},
		"a webhook says no": {set: func(s *server) {
			s.refuse = on(http.MethodPost, "jobs", apierrors.NewForbidden(jobs, "", errors.New(`admission webhook "policy.example" denied the request: no privileged pods`)))
		}, detail: "policy.example", remedy: "except namespace kube-system"},
		"no such namespace": {set: func(s *server) {
			s.refuse = on(http.MethodPost, "jobs", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "kube-system"))
		}, detail: "not found", remedy: "--probe-namespace"},
		"PodSecurity": {set: func(s *server) {
			s.pod = func(int, *corev1.Pod) *corev1.Pod { return nil }
			s.events = []corev1.Event{{Message: "older", LastTimestamp: metav1.NewTime(time.Unix(1, 0))}, {Message: "Error creating: " + podSecurity, LastTimestamp: metav1.NewTime(time.Unix(2, 0))}}
		}, detail: "violates PodSecurity", remedy: "pod-security.kubernetes.io/enforce"},
		"an image that cannot be pulled": {set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod {
				return waitingWith(p, "ImagePullBackOff", "Back-off pulling image")
			}
		}, detail: "ImagePullBackOff", remedy: "--probe-pull-secret"},
		"an image without shell and program": {set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod {
				for _, c := range p.Spec.Containers {
					p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name,
						State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", Message: "exec: no such file", ExitCode: 128}}})
				}
				p.Status.Phase = corev1.PodFailed
				return p
			}
		}, detail: "no such file", remedy: "--probe-image"},
		"the node has no room": {set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource: pods"}
				return p
			}
		}, detail: "OutOfpods", remedy: "make room"},
		"a pod that never starts": {timeout: time.Second, set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod { return waitingWith(p, "ContainerCreating", "") }
			s.events = []corev1.Event{{Message: "FailedCreatePodSandBox: no runtime"}}
		}, detail: "no runtime", remedy: "--probe-timeout"},
		"a kubelet that does nothing": {timeout: time.Second, set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod { return p }
		}, detail: "the kubelet has not begun", remedy: "--probe-timeout"},
		"no Job controller": {timeout: time.Second, set: func(s *server) {
			s.pod = func(int, *corev1.Pod) *corev1.Pod { return nil }
		}, detail: "has made no pod", remedy: "--probe-timeout"},
		"events may not be read": {timeout: 2 * time.Second, set: func(s *server) {
			s.pod = func(int, *corev1.Pod) *corev1.Pod { return nil }
			s.refuse = on(http.MethodGet, "events", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New(`User "jo" cannot list resource "events"`)))
		}, detail: `has made no pod; why may stand in an event: events is forbidden: User "jo" cannot list resource "events"`, remedy: "--probe-timeout"},
		"somebody deletes it": {set: func(s *server) {
			s.pod = func(_ int, p *corev1.Pod) *corev1.Pod {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				return p
			}
		}, detail: "deleted", remedy: "try again"},
		"a report cut short": {set: func(s *server) {
			s.log = func(w http.ResponseWriter) { b := framed(s.t, "node-1"); w.Write(b[:len(b)/2]) }
		}, detail: "cut", remedy: "csidoctor-probe on the node"},
		"a program that fails": {set: func(s *server) {
			s.log = func(w http.ResponseWriter) { io.WriteString(w, "error: /proc is not there\n") }
		}, detail: "/proc is not there", remedy: "csidoctor-probe on the node"},
		"the report of another node": {set: func(s *server) {
			s.log = func(w http.ResponseWriter) { w.Write(framed(s.t, "node-2")) }
		}, detail: `"node-2"`, remedy: "csidoctor-probe on the node"},
		"an endless log": {set: func(s *server) {
			s.log = func(w http.ResponseWriter) {
				for range 3 {
					w.Write(bytes.Repeat([]byte("x"), maxStream))
				}
			}
		}, detail: "no report", remedy: "csidoctor-probe on the node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			s.log = func(w http.ResponseWriter) { w.Write(framed(t, "node-1")) }
			c.set(s)
			carrier := s.carrier(withImage(max(c.timeout, 10*time.Second*map[bool]time.Duration{true: 1, false: 0}[c.timeout == 0])))
			reports, failures := carrier.Probe(t.Context(), []Plan{plan(t, carrier)})
			f := failures[0]
			if f == nil {
				t.Fatalf("a report: %+v", reports[0])
			}
			if !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Remedy, c.remedy) || f.Node != "node-1" || f.Left {
				t.Errorf("%+v\nwant %q and %q", f, c.detail, c.remedy)
			}
			if g := f.Gap(); g.Reason != "not-probed" || !strings.Contains(g.Detail, "node-1") {
				t.Errorf("%+v", g)
			}
			if left := s.left(); len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// on refuses one kind of request.
func on(method, resource string, err error) func(*http.Request) error {
	return func(r *http.Request) error {
		if r.Method == method && strings.HasSuffix(r.URL.Path, "/"+resource) {
			return err
		}
		return nil
	}
}

// The API server is away for a while in the middle of it: the report comes all the same, and nothing is left.
func TestServerAway(t *testing.T) {
	s := serve(t)
	var away atomic.Int32
	s.refuse = func(r *http.Request) error {
		if n := away.Load(); strings.HasSuffix(r.URL.Path, "/pods") && n < 5 {
			away.Add(1)
			return errors.New("etcd has no leader")
		}
		return nil
	}
	s.log = func(w http.ResponseWriter) { w.Write(framed(t, "node-1")) }
	c := s.carrier(withImage(time.Minute))
	if _, failures := c.Probe(t.Context(), []Plan{plan(t, c)}); failures[0] != nil {
		t.Errorf("%+v", failures[0])
	}
	if left := s.left(); len(left) > 0 || away.Load() != 5 {
		t.Errorf("left: %s, away %d times", left, away.Load())
	}
}

// An answer that never comes: the Job was made all the same, and later than it was first looked for.
func TestUnsure(t *testing.T) {
	s := serve(t)
	var late atomic.Int32
	s.refuse = func(r *http.Request) error {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs"):
			return errors.New("the connection was lost")
		case r.Method == http.MethodDelete && late.Add(1) == 3:
			s.mu.Lock()
			defer s.mu.Unlock()
			name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			s.jobs[name] = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		return nil
	}
	c := s.carrier(withImage(time.Minute))
	_, failures := c.Probe(t.Context(), []Plan{plan(t, c)})
	if left := s.left(); len(left) > 0 || late.Load() < 3 || failures[0] == nil || failures[0].Left {
		t.Errorf("left %s after %d deletions: %+v", left, late.Load(), failures[0])
	}
}

// A Job that cannot be removed is named.
func TestLeft(t *testing.T) {
	s := serve(t)
	s.refuse = func(r *http.Request) error {
		if r.Method == http.MethodDelete {
			return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "", errors.New("no"))
		}
		return nil
	}
	s.log = func(w http.ResponseWriter) { w.Write(framed(t, "node-1")) }
	c := s.carrier(withImage(time.Minute))
	reports, failures := c.Probe(t.Context(), []Plan{plan(t, c)})
	if reports[0] == nil || failures[0] == nil || !failures[0].Left || !strings.Contains(failures[0].Job, s.left()[0]) {
		t.Errorf("%+v %+v", reports[0], failures[0])
	}
}

func TestPlan(t *testing.T) {
	s := serve(t)
	windows := node("node-1", corev1.ConditionTrue)
	windows.Status.NodeInfo.OperatingSystem = "windows"
	risc := node("node-1", corev1.ConditionTrue)
	risc.Status.NodeInfo.Architecture = "riscv64"
	for name, c := range map[string]struct {
		node  *corev1.Node
		image string
		exec  bool
		want  string
	}{
		"no such node":       {nil, "", true, "no such node"},
		"not ready":          {node("node-1", corev1.ConditionUnknown), "an/image", true, "not Ready"},
		"windows":            {windows, "an/image", true, "only Linux"},
		"no program for it":  {risc, "", true, "riscv64"},
		"program from image": {risc, "an/image", false, ""},
	} {
		carrier := s.carrier(Options{Image: c.image, Timeout: time.Minute})
		p, err := carrier.Plan(Target{Name: "node-1", Node: c.node}, c.exec)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err == nil && (len(p.images) != 1 || !p.images[0].program):
			t.Errorf("%s: %+v", name, p.images)
		}
	}
	if len(s.made) > 0 {
		t.Error("planning made a Job")
	}
}

// Images of the node are trusted only where they run privileged already.
func TestOnNode(t *testing.T) {
	pod := func(namespace, name, image string, privileged bool, hostPath string, running bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: image, SecurityContext: &corev1.SecurityContext{Privileged: &privileged}}}
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: name + "-secret"}}
		if hostPath != "" {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostPath}}}}
		}
		if running {
			startedWith(p)
		}
		return p
	}
	own := pod("kube-system", "csidoctor-probe-x", "busybox", true, "", true)
	own.Labels = map[string]string{managedBy: ours}
	images, secrets := onNode([]*corev1.Pod{
		pod("shop", "web", "evil/tenant", false, "", true),
		pod("kube-system", "proxy", "kube-proxy:v1", true, "/lib/modules", true),
		pod("kube-system", "proxy-2", "kube-proxy:v1", true, "", true),
		pod("storage", "csi-node", "driver:v2", true, "/var/lib/kubelet/plugins/x", true),
		pod("storage", "crashes", "crashing:v2", true, "/var/lib/kubelet", false),
		own,
	}, "kube-system")
	var names []string
	for _, i := range images {
		names = append(names, i.name)
		if !i.local || i.program {
			t.Errorf("%+v", i)
		}
	}
	if fmt.Sprint(names) != "[driver:v2 kube-proxy:v1]" {
		t.Errorf("%s", names)
	}
	if len(secrets) != 1 || secrets[0].Name != "proxy-secret" {
		t.Errorf("%v: a secret of another namespace is none here", secrets)
	}
}

func TestMay(t *testing.T) {
	for deny, want := range map[string]string{"": "[] true", "create jobs": "[create jobs] true", "create pods/exec": "[] false", "get pods/log": "[get pods/log] true"} {
		s := serve(t)
		s.deny = deny
		missing, exec := s.carrier(withImage(time.Minute)).May(t.Context())
		if got := fmt.Sprint(missing, exec); got != want {
			t.Errorf("without %q: %s, want %s", deny, got, want)
		}
		if len(s.made) > 0 {
			t.Error("asking for rights made a Job")
		}
	}
	s := serve(t)
	s.refuse = func(*http.Request) error { return errors.New("away") }
	if missing, exec := s.carrier(withImage(time.Minute)).May(t.Context()); len(missing) > 0 || !exec {
		t.Errorf("no answer: %s %v", missing, exec)
	}
}

func TestCleanup(t *testing.T) {
	s := serve(t)
	c := s.carrier(withImage(time.Minute))
	for _, name := range []string{"csidoctor-probe-a", "csidoctor-probe-b"} {
		if _, err := c.batch.Jobs(Namespace).Create(t.Context(), c.Job(plan(t, c), name, "frame"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s.stuck = true
	s.refuse = func(r *http.Request) error {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "pods/csidoctor-probe-a-x") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("may not"))
		}
		return nil
	}
	strays, err := c.Cleanup(ctx, "")
	if err != nil || len(strays) != 4 || len(s.left()) > 0 {
		t.Fatalf("%v %+v, left %s", err, strays, s.left())
	}
	if strays[0].Why != "" || strays[1].Why != "" || !strings.Contains(strays[2].Why, "may not") || !strings.Contains(strays[3].Why, "does not answer") {
		t.Errorf("%+v", strays)
	}
	s.refuse = on(http.MethodGet, "csidoctor-probe-a-x", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("may not get")))
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if strays, err := c.Cleanup(ctx, ""); err != nil || len(strays) != 2 || !strings.Contains(strays[0].Why, "may not get") {
		t.Errorf("%v %+v", err, strays)
	}
	s.stuck, s.refuse = false, nil
	if strays, err := c.Cleanup(t.Context(), ""); err != nil || len(strays) != 0 {
		t.Errorf("%v %v", strays, err)
	}
}
