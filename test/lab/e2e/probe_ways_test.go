//go:build carrier

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// seer is a privileged pod that sees the host's processes, as some node plugins do.
const seer = `
apiVersion: v1
kind: Pod
metadata: {name: seer, namespace: kube-system}
spec:
  hostPID: true
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers: [{name: driver, image: "lab.local/app:1", imagePullPolicy: Never, securityContext: {privileged: true}}]
`

const ownImage = "docker.io/library/csidoctor-probe:v0.0.0-e2e"

// onNode holds a report that is made on the node itself to this: a node on which all is well shows nothing that hangs or fails,
// and but for what it does not have, all that was looked for was found.
func (p *prober) onNode() {
	text := inside(p.t, p.Cluster, cluster.Node, csidoctor, "probe", "-o", "json")
	type gap struct{ What, Reason string }
	var report struct {
		Drivers []struct{ Socket, Registration, Identity, Node map[string]any }
		Volumes []struct {
			Staging   map[string]any
			Publishes []map[string]any
		}
		Devices []struct {
			Name      string
			Signature map[string]any
		}
		Tasks []json.RawMessage
		Gaps  []gap
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		p.t.Fatalf("%v: %.300s", err, text)
	}
	if len(report.Drivers) == 0 || len(report.Volumes) == 0 || len(report.Devices) == 0 {
		p.t.Fatalf("a part is empty: %s", text)
	}
	for _, d := range report.Drivers {
		if d.Socket["state"] != "ok" || d.Registration["state"] != "ok" || d.Identity["ready"] != "yes" || d.Node["error"] != nil {
			p.t.Errorf("driver: %v", d)
		}
	}
	for _, v := range report.Volumes {
		for _, at := range append(v.Publishes, v.Staging) {
			if at["stat"] != "ok" || at["volDataError"] != nil {
				p.t.Errorf("volume: %v", at)
			}
		}
	}
	for _, d := range report.Devices {
		if strings.HasPrefix(d.Name, "loop") && d.Signature["error"] != nil { // the machine's own disks may be out of bounds
			p.t.Errorf("device: %v", d)
		}
	}
	gaps := slices.DeleteFunc(report.Gaps, func(g gap) bool { return g.What == "orphans" }) // the lab's kubelet makes no cgroups for pods, and that is said
	if len(gaps)+len(report.Tasks) > 0 {
		p.t.Errorf("gaps %v, tasks %s", gaps, report.Tasks)
	}
}

// throughExec makes no pod: the program runs in one that is there. From one that does not see the host's processes the mounts of
// the node are not to be seen, and nothing is concluded from the container's own.
func (p *prober) throughExec() {
	pods := func() string { return kubectl(p.t, p.Cluster, "", "get", "jobs,pods", "-A", "-o", "name") }
	p.nothingLeft(5 * time.Second) // of what was before
	before := pods()
	bundle := filepath.Join(p.t.TempDir(), "b.tar.gz")
	o := p.ask("pvc data", "--probe", "--probe-via", "exec", "--bundle", bundle)
	if o.Verdict != "healthy" || len(o.Gaps) != 1 || !strings.Contains(string(o.Gaps[0]), "mountinfo of the node") {
		p.t.Errorf("%s\nwant healthy, and a gap where the node's mounts should be", o.text)
	}
	for _, w := range []string{"probing " + cluster.Node + ": a program is sent into", "kube-system/plugin (driver)", "lacks mountinfo of the node"} {
		if !strings.Contains(o.stderr, w) {
			p.t.Errorf("%q: want %q", o.stderr, w)
		}
	}
	report := nodeReport(p.t, bundle)
	if report["mountinfo"] != nil || report["kubelet"] != nil || report["orphans"] != nil || report["host"] != nil || report["devices"] == nil {
		p.t.Errorf("%s %s %s %s: only what a container sees is to be told; devices %s", report["mountinfo"], report["kubelet"], report["orphans"], report["host"], report["devices"])
	}
	if after := pods(); after != before {
		p.t.Errorf("pods before:\n%s\nafter:\n%s", before, after)
	}
	p.nothingOfIt("plugin")

	kubectl(p.t, p.Cluster, seer, "apply", "-f", "-")
	kubectl(p.t, p.Cluster, "", "wait", "--for=condition=Ready", "pod/seer", "-n", "kube-system", "--timeout=2m")
	before = pods()
	report = p.reported("pvc data", "--probe-via", "exec")
	if !bytes.Contains(report["kubelet"], []byte(`"running":true`)) || !bytes.Contains(report["mountinfo"], []byte("/globalmount")) {
		p.t.Errorf("kubelet %s, mountinfo %s", report["kubelet"], report["mountinfo"])
	}
	if after := pods(); after != before {
		p.t.Errorf("pods before:\n%s\nafter:\n%s", before, after)
	}
	p.nothingOfIt("seer")
	for _, after := range []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1200 * time.Millisecond} {
		p.cut(after, syscall.SIGKILL, "--probe-via", "exec")
	}
	eventually(p.t, "nothing of the programs of killed clients is left", 15*time.Second, func() bool { return p.ofIt("seer") == "" })
	kubectl(p.t, p.Cluster, "", "delete", "pod", "seer", "-n", "kube-system")
}

// ofIt are files and processes of the program in a pod.
func (p *prober) ofIt(pod string) string {
	p.t.Helper()
	return strings.TrimSpace(kubectl(p.t, p.Cluster, "", "exec", "-n", "kube-system", pod, "--", "sh", "-c",
		"ls -d /tmp/.csidoctor* /var/tmp/.csidoctor* /run/.csidoctor* /dev/shm/.csidoctor* 2>/dev/null; ls -l /proc/[0-9]*/exe 2>/dev/null | grep csidoctor-probe; true"))
}

func (p *prober) nothingOfIt(pod string) {
	p.t.Helper()
	if left := p.ofIt(pod); left != "" {
		p.t.Errorf("left in pod %s: %s", pod, left)
	}
}

func (p *prober) nodeImage() {
	report := p.reported("pvc data")
	if !bytes.Contains(report["volumes"], []byte("loop.csidoctor.dev")) || !bytes.Contains(report["kubelet"], []byte(`"running":true`)) {
		p.t.Errorf("volumes %s, kubelet %s", report["volumes"], report["kubelet"])
	}
	var fastest time.Duration
	for range 3 {
		if o := p.ask("pvc data", "--probe"); fastest == 0 || o.took < fastest {
			fastest = o.took
		}
	}
	p.t.Logf("from Enter to answer: %v, the fastest of three runs", fastest) // a goal of 5 s, which a busy machine may miss
}

func (p *prober) ownImage() { p.reported("pvc data", "--probe-image", ownImage) }

func (p *prober) kinds() {
	pv := strings.TrimSpace(kubectl(p.t, p.Cluster, "", "get", "pvc", "data", "-n", "shop", "-o", "jsonpath={.spec.volumeName}"))
	for _, question := range []string{"pod app", "pv " + pv, "node " + cluster.Node} {
		p.reported(question)
	}
}

// scan: a pod runs, Ready, without its mount. No object tells, so --probe looks nowhere; --probe-all finds it.
func (p *prober) scan() {
	published := inside(p.t, p.Cluster, cluster.Node, "sh", "-c", "grep -o '/[^ ]*/kubernetes.io~csi/[^ ]*/mount' /proc/self/mountinfo | grep "+
		kubectl(p.t, p.Cluster, "", "get", "pod", "app", "-n", "shop", "-o", "jsonpath={.metadata.uid}"))
	inside(p.t, p.Cluster, cluster.Node, "umount", published)
	found := func(flag string) (groups []string) {
		p.t.Helper()
		var list struct {
			Groups []struct {
				Cause   string
				Targets []struct{ Kind, Namespace, Name string }
			}
		}
		o := p.ask("scan", flag)
		if err := json.Unmarshal(o.text, &list); err != nil || len(o.Gaps) > 0 {
			p.t.Errorf("%v: %s: want no gaps", err, o.text)
		}
		for _, g := range list.Groups {
			groups = append(groups, fmt.Sprint(g.Cause, g.Targets))
		}
		p.nothingLeft(5 * time.Second)
		return groups
	}
	if groups := found("--probe"); len(groups) > 0 {
		p.t.Errorf("--probe: %v: want nothing, for nothing points to a node", groups)
	}
	if groups := found("--probe-all"); !slices.Equal(groups, []string{"publish/wrong-mount[{PersistentVolumeClaim shop data}]"}) {
		p.t.Errorf("--probe-all: %v: want the claim whose pod has no mount, and nothing else", groups)
	}
	kubectl(p.t, p.Cluster, "", "delete", "pod", "app", "-n", "shop")
	kubectl(p.t, p.Cluster, probed, "apply", "-f", "-")
	kubectl(p.t, p.Cluster, "", "wait", "--for=condition=Ready", "pod/app", "-n", "shop", "--timeout=2m")
}

// debug compares the Job's report with the one that kubectl debug brings.
func (p *prober) debug() {
	job := p.reported("pvc data", "--probe-image", ownImage)
	kubectl(p.t, p.Cluster, "", "debug", "node/"+cluster.Node, "--image="+ownImage, "--image-pull-policy=Never", "--profile=sysadmin", "-n", "kube-system", "--", "csidoctor", "probe", "-node", cluster.Node, "-o", "json")
	var pod string
	for _, name := range strings.Fields(kubectl(p.t, p.Cluster, "", "get", "pods", "-n", "kube-system", "-o", "name")) {
		if strings.Contains(name, "node-debugger") {
			pod = name
		}
	}
	kubectl(p.t, p.Cluster, "", "wait", pod, "-n", "kube-system", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1m")
	var report map[string]json.RawMessage
	log := kubectl(p.t, p.Cluster, "", "logs", "-n", "kube-system", pod)
	if err := json.Unmarshal([]byte(log), &report); err != nil {
		p.t.Fatalf("%v: %.300s", err, log)
	}
	kubectl(p.t, p.Cluster, "", "delete", "-n", "kube-system", pod)
	for _, part := range []string{"metadata", "kernel", "host", "kubelet", "drivers", "volumes", "devices", "orphans", "mountinfo"} {
		a, b := compact(job[part]), compact(report[part])
		if part == "mountinfo" { // each of the two sees its own container's root too
			a, b = ofVolumes(p.t, job[part]), ofVolumes(p.t, report[part])
		}
		if a != b {
			p.t.Errorf("%s: the Job's report has\n%.2000s\nthat of kubectl debug\n%.2000s", part, a, b)
		}
	}
}

// ofVolumes are the lines of a mount table that are of CSI volumes.
func ofVolumes(t *testing.T, table json.RawMessage) string {
	t.Helper()
	var text string
	if err := json.Unmarshal(table, &text); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "/kubernetes.io/csi/") || strings.Contains(line, "/kubernetes.io~csi/") {
			out = append(out, line)
		}
	}
	if len(out) < 2 {
		t.Errorf("%s\nhas no staging path or no publish path", text)
	}
	return strings.Join(out, "")
}

func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return out.String()
}

func (p *prober) taints() {
	kubectl(p.t, p.Cluster, "", "taint", "node", cluster.Node, "a=b:NoSchedule", "c=d:NoExecute", "e=f:PreferNoSchedule")
	kubectl(p.t, p.Cluster, "", "cordon", cluster.Node)
	p.reported("pvc data")
	kubectl(p.t, p.Cluster, "", "uncordon", cluster.Node)
	kubectl(p.t, p.Cluster, "", "taint", "node", cluster.Node, "a-", "c-", "e-")
}

// refused wants the API side's answer, with a gap that says these words, and nothing left.
func (p *prober) refused(words []string, flags ...string) outcome {
	p.t.Helper()
	o := p.ask("pvc data", append(flags, "--probe")...)
	if o.Verdict != "healthy" || o.exit != 0 || len(o.Gaps) != 1 {
		p.t.Errorf("%s\nwant the API side's answer, healthy, and one gap", o.text)
	}
	for _, w := range words {
		if len(o.Gaps) == 0 || !strings.Contains(string(o.Gaps[0]), w) {
			p.t.Errorf("%s\nwant a gap with %q", o.text, w)
		}
	}
	p.nothingLeft(5 * time.Second)
	return o
}

func (p *prober) podSecurity() {
	p.refused([]string{"violates PodSecurity", "--probe-namespace"}, "--probe-namespace", "strict")
}

func (p *prober) noImage() {
	p.refused([]string{"Pull", "--probe-pull-secret"}, "--probe-image", "registry.invalid/csidoctor-probe:v1")
}

// rights are those of deploy/rbac.yaml, then of deploy/prober.yaml too, and no others.
func (p *prober) rights() {
	as := []string{"--as", "system:serviceaccount:shop:oncall"}
	kubectl(p.t, p.Cluster, "", "apply", "-f", "../../../deploy/rbac.yaml", "-f", "../../../deploy/prober.yaml")
	kubectl(p.t, p.Cluster, "", "create", "clusterrolebinding", "oncall", "--clusterrole=csidoctor", "--serviceaccount=shop:oncall")
	o := p.refused([]string{"you may not create jobs", "deploy/prober.yaml"}, as...)
	if !strings.Contains(o.stderr, "not probed: node "+cluster.Node) || strings.Contains(o.stderr, "probing ") {
		p.t.Errorf("%q: want what is missing, and no announcement", o.stderr)
	}
	p.refused([]string{"forbidden", "create pods/exec in namespace kube-system"}, append(as, "--probe-via", "exec")...)
	kubectl(p.t, p.Cluster, "", "create", "rolebinding", "oncall", "-n", "kube-system", "--clusterrole=csidoctor-prober", "--serviceaccount=shop:oncall")
	p.reported("pvc data", as...)
	p.reported("pvc data", append(as, "--probe-image", ownImage)...)
}

// stray is a pod as a probe whose Job is gone leaves it.
const stray = `
apiVersion: v1
kind: Pod
metadata: {name: csidoctor-probe-stray, namespace: kube-system, labels: {app.kubernetes.io/managed-by: csidoctor}}
spec:
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: "lab.local/app:1", imagePullPolicy: Never}]
`

// lessRights takes one verb after the other from deploy/prober.yaml. What is then refused is named, before anything is made where that can
// be known, and the API side's answer comes.
func (p *prober) lessRights() {
	var single []rule
	for _, r := range rules(p.t, p.Cluster, proberRole) {
		for _, verb := range r.Verbs {
			single = append(single, rule{r.APIGroups, r.Resources, []string{verb}})
		}
	}
	// What the reader's role has of the same is had in the namespace that is asked about alone.
	reader := slices.DeleteFunc(rules(p.t, p.Cluster, readerRole), func(r rule) bool {
		return slices.ContainsFunc(single, func(s rule) bool { return s.Resources[0] == r.Resources[0] && s.APIGroups[0] == r.APIGroups[0] })
	})
	users := without(p.t, p.Cluster, "prober", slices.Concat(single, reader))[:len(single)]
	bind := []string{"create", "rolebinding", "probers", "-n", "shop", "--clusterrole=csidoctor"}
	for _, u := range users {
		bind = append(bind, "--user="+u)
	}
	kubectl(p.t, p.Cluster, "", bind...)
	for i, r := range single {
		as, right := []string{"--as", users[i]}, r.Verbs[0]+" "+r.Resources[0]
		p.t.Run("without "+right, func(t *testing.T) {
			p := &prober{p.Cluster, t}
			before := func(words string, flags ...string) {
				if o := p.refused([]string{words, "deploy/prober.yaml"}, append(as, flags...)...); !strings.Contains(o.stderr, "not probed: node ") || strings.Contains(o.stderr, "probing ") {
					t.Errorf("%q: want what is missing, and no announcement", o.stderr)
				}
			}
			cleanup := func() {
				out, err := exec.CommandContext(t.Context(), csidoctor, append(as, "cleanup", "-n", "kube-system", "--kubeconfig", p.Kubeconfig())...).CombinedOutput()
				if want := fmt.Sprintf("cannot %s resource %q", r.Verbs[0], r.Resources[0]); err == nil || !strings.Contains(string(out), want) {
					t.Errorf("%v: %s: want %q", err, out, want)
				}
			}
			switch right {
			case "create jobs", "delete jobs", "list pods":
				before("you may not "+right, "--probe-image", ownImage)
			case "get pods/log":
				before("you may not "+right, "--probe-image", ownImage)
				p.reported("pvc data", as...) // an image without the program does not need it
			case "create pods/exec":
				if o := p.refused([]string{"the right to create pods/exec in namespace kube-system"}, as...); strings.Contains(o.stderr, "probing ") {
					t.Errorf("%q: announced all the same", o.stderr)
				}
				p.reported("pvc data", append(as, "--probe-image", ownImage)...) // nor one with it this
			case "get pods/exec": // is for servers before 1.35
				p.reported("pvc data", as...)
			case "list events":
				p.refused([]string{`cannot list resource \"events\"`}, append(as, "--probe-namespace", "strict", "--probe-timeout", "3s")...)
			case "list jobs":
				cleanup()
			case "get pods", "delete pods":
				kubectl(t, p.Cluster, stray, "create", "-f", "-")
				cleanup()
				kubectl(t, p.Cluster, "", "delete", "pod", "-n", "kube-system", "csidoctor-probe-stray", "--ignore-not-found")
			default:
				t.Error("nothing here shows what it is needed for")
			}
			p.nothingLeft(5 * time.Second)
		})
	}
}
