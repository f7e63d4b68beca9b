// The carrier on a real cluster: make carrier. It kills clients and stops the API server for a while, so it wants a cluster to itself.

//go:build carrier

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// probed is a claim that works, in a pod that no taint drives away, and a pod that runs privileged in an image with a shell, as the node
// plugin of a driver does.
const probed = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: strict, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: loop.csidoctor.dev-now, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: shop}
spec:
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
  - {name: app, image: "lab.local/app:1", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: plugin, namespace: kube-system}
spec:
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
  - {name: driver, image: "lab.local/app:1", imagePullPolicy: Never, securityContext: {privileged: true}, volumeMounts: [{name: kubelet, mountPath: /kubelet}]}
  volumes: [{name: kubelet, hostPath: {path: /var/lib/kubelet/plugins, type: Directory}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: oncall, namespace: shop}
`

const (
	ownLabel = "app.kubernetes.io/managed-by=csidoctor"
	// What --probe promises of a client that was killed: its --probe-timeout, 10 s for the pod to end by itself, 30 s of the Job. The
	// controllers' own pace comes on top.
	deadAfter = 40 * time.Second
	pace      = 20 * time.Second
)

// prober is a cluster to ask.
type prober struct {
	*cluster.Cluster
	t *testing.T
}

// outcome is one run of it.
type outcome struct {
	answer
	stderr string
	took   time.Duration
}

func TestProbe(t *testing.T) {
	needReal(t)
	dir := t.TempDir()
	image := exec.Command("go", "run", "./internal/tools/dist", "-version", "v0.0.0-e2e", "-image", "-out", dir)
	image.Dir = "../../.."
	if out, err := image.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", image.Args, err, out)
	}
	p := &prober{t: t}
	p.Cluster, _ = startLab(t, "probe")
	p.importImage(filepath.Join(dir, "csidoctor-probe_v0.0.0-e2e_oci.tar"))
	kubectl(t, p.Cluster, probed, "apply", "-f", "-")
	kubectl(t, p.Cluster, "", "wait", "--for=condition=Ready", "pod/app", "-n", "shop", "--timeout=2m")
	kubectl(t, p.Cluster, "", "wait", "--for=condition=Ready", "pod/plugin", "-n", "kube-system", "--timeout=2m")

	// In this order: the last ones break what the others use.
	for _, s := range []struct {
		name string
		run  func(*prober)
	}{
		{"on the node itself", (*prober).onNode}, {"image of the node", (*prober).nodeImage}, {"image with the program", (*prober).ownImage},
		{"other kinds", (*prober).kinds}, {"scan", (*prober).scan}, {"through exec", (*prober).throughExec}, {"20 MB", (*prober).large}, {"kubectl debug", (*prober).debug}, {"taints", (*prober).taints}, {"PodSecurity", (*prober).podSecurity}, {"rights", (*prober).rights}, {"less rights", (*prober).lessRights},
		{"image that cannot be pulled", (*prober).noImage}, {"interrupted", (*prober).interrupted}, {"killed", (*prober).killed},
		{"API server away", (*prober).serverAway}, {"cleanup", (*prober).cleanup},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(&prober{p.Cluster, t}) })
	}
}

// importImage brings the image to the node, as a pull from a registry would.
func (p *prober) importImage(archive string) {
	p.t.Helper()
	kubectl, err := os.Readlink(filepath.Join(p.Dir, "bin/kubectl"))
	if err != nil {
		p.t.Fatal(err)
	}
	inside(p.t, p.Cluster, cluster.Node, filepath.Join(filepath.Dir(kubectl), "ctr"),
		"-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", "--platform", "linux/"+runtime.GOARCH, archive)
}

// inside runs a command on a node, and ends the test if it fails.
func inside(t *testing.T, c *cluster.Cluster, node string, args ...string) string {
	t.Helper()
	cmd, err := c.Command(context.WithoutCancel(t.Context()), node, args...) // at the end of a test too
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *prober) command(ctx context.Context, question string, flags ...string) *exec.Cmd {
	return exec.CommandContext(ctx, csidoctor, append(append(strings.Fields(question), "--kubeconfig", p.Kubeconfig(), "-n", "shop"), flags...)...)
}

func (p *prober) ask(question string, flags ...string) (o outcome) {
	p.t.Helper()
	var errs bytes.Buffer
	cmd := p.command(p.t.Context(), question, append(flags, "-o", "json")...)
	cmd.Stderr = &errs
	begun := time.Now()
	text, err := cmd.Output()
	o.took, o.text, o.stderr = time.Since(begun), text, errs.String()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		o.exit = exit.ExitCode()
	}
	if json.Unmarshal(text, &o.answer) != nil {
		p.t.Fatalf("%s: %v: %s%s", cmd.Args, err, text, errs.String())
	}
	p.t.Logf("%s: %s %s after %v\n%s", question, o.Verdict, o.Cause.ID, o.took, o.stderr)
	return o
}

// ours are the names of the Jobs and pods of csidoctor's, of all namespaces.
func (p *prober) ours() []string {
	p.t.Helper()
	return strings.Fields(kubectl(p.t, p.Cluster, "", "get", "jobs,pods", "-A", "-l", ownLabel, "-o", "name"))
}

// nothingLeft holds within so much time.
func (p *prober) nothingLeft(within time.Duration) {
	p.t.Helper()
	eventually(p.t, "no Job and no pod of csidoctor's is left", within, func() bool { return len(p.ours()) == 0 })
}

// reported wants a healthy answer with the node's report in its bundle, which it gives.
func (p *prober) reported(question string, flags ...string) map[string]json.RawMessage {
	p.t.Helper()
	bundle := filepath.Join(p.t.TempDir(), "b.tar.gz")
	o := p.ask(question, append(flags, "--probe", "--bundle", bundle)...)
	if o.Verdict != "healthy" || len(o.Gaps) > 0 {
		p.t.Errorf("%s\nwant healthy without gaps", o.text)
	}
	if !strings.Contains(o.stderr, "probing "+cluster.Node+": a ") {
		p.t.Errorf("not announced: %q", o.stderr)
	}
	p.nothingLeft(5 * time.Second)
	return nodeReport(p.t, bundle)
}

// background runs a command on the first node that prints a line when it is ready, until stop is called or the test ends.
func background(t *testing.T, c *cluster.Cluster, args ...string) (stop func()) {
	t.Helper()
	cmd, err := c.Command(context.WithoutCancel(t.Context()), cluster.Node, args...)
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { in.Close(); cmd.Wait() })
	t.Cleanup(stop)
	if n, err := out.Read(make([]byte, 100)); n == 0 {
		stop()
		t.Fatalf("%s: %v %s", cmd.Args, err, errs.Bytes())
	}
	return stop
}

func nodeReport(t *testing.T, bundle string) map[string]json.RawMessage {
	t.Helper()
	for _, b := range bundled(t, bundle) {
		var list struct{ Items []map[string]json.RawMessage }
		var one map[string]json.RawMessage
		json.Unmarshal(b, &list) // files of other forms are none
		json.Unmarshal(b, &one)
		for _, o := range append(list.Items, one) {
			if string(o["kind"]) == `"NodeReport"` {
				return o
			}
		}
	}
	t.Fatal("no report of the node is in the bundle")
	return nil
}
