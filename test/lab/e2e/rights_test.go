package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

const (
	readerRole = "../../../deploy/rbac.yaml"
	proberRole = "../../../deploy/prober.yaml"
)

// oncall makes a service account with the role of deploy/rbac.yaml and no other, but that of deploy/prober.yaml where nodes are probed, and
// gives the kubeconfig of it. All that the tables ask is asked as that one: what they want needs no more.
func oncall(t *testing.T, c *cluster.Cluster, probes bool) string {
	t.Helper()
	kubectl(t, c, "", "apply", "-f", readerRole)
	kubectl(t, c, "", "create", "serviceaccount", "oncall", "-n", "kube-system")
	kubectl(t, c, "", "create", "clusterrolebinding", "oncall", "--clusterrole=csidoctor", "--serviceaccount=kube-system:oncall")
	if probes {
		kubectl(t, c, "", "apply", "-f", proberRole)
		kubectl(t, c, "", "create", "rolebinding", "oncall", "-n", "kube-system", "--clusterrole=csidoctor-prober", "--serviceaccount=kube-system:oncall")
	}
	token := strings.TrimSpace(kubectl(t, c, "", "create", "token", "oncall", "-n", "kube-system", "--duration=2h"))
	admin, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.Dir, "oncall.kubeconfig")
	if err := os.WriteFile(own, regexp.MustCompile(`token: [^}]+`).ReplaceAll(admin, []byte("token: "+token)), 0o600); err != nil {
		t.Fatal(err)
	}
	return own
}

type rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

func rules(t *testing.T, c *cluster.Cluster, file string) []rule {
	t.Helper()
	var role struct{ Rules []rule }
	if err := json.Unmarshal([]byte(kubectl(t, c, "", "create", "--dry-run=client", "-o", "json", "-f", file)), &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

// without makes users who have all rules of a role but one: the first lacks the first.
func without(t *testing.T, c *cluster.Cluster, name string, all []rule) (users []string) {
	t.Helper()
	var objects []map[string]any
	for i := range all {
		user := fmt.Sprintf("%s-without-%d", name, i)
		users = append(users, user)
		meta := map[string]any{"name": user}
		objects = append(objects, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": slices.Delete(slices.Clone(all), i, i+1)},
			map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": meta,
				"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
				"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}})
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, string(list), "create", "-f", "-")
	return users
}

// richQuestions are about faults of podFaults and controllerFaults, and of lacking, which together need every rule of the role.
var richQuestions = []struct{ ns, ask string }{
	{"provisioner-crashes", "pvc data"}, {"in-pods", "pod app"}, {"in-pods", "driver NAME"}, {"in-pods", "pvc restored"},
	{"in-pods", "snapshot copy"}, {"provisioner-may-not-save", "pvc data"}, {"attacher-may-not-record", "pod app"},
	{"attacher-may-not-record", "pod app --logs"}, {"not-tolerated", "pod app"}, {"capacity-unpublished", "pod app"},
	{"lacking", "pvc data-db-0"}, {"lacking", "pod app"}, {"lacking", "pvc second"}, {"lacking", "snapshot copy"}, {"lacking", "snapshot refused"},
	{"lacking", "pvc orphan"},
}

// richFaults are those that they are about.
func richFaults() (names []string) {
	for _, q := range richQuestions {
		if q.ns != "lacking" && !slices.Contains(names, q.ns) {
			names = append(names, q.ns)
		}
	}
	return names
}

// orphan is a claim of a driver of which nothing runs.
const orphan = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: orphan.csidoctor.dev}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: orphan}
provisioner: orphan.csidoctor.dev
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: orphan}
spec: {storageClassName: orphan, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`

// bringLacking makes a claim that a quota refuses, one of a driver that is not there, a pod whose claim does not exist, a claim that asks for attributes of no class, a snapshot
// of no class, and one that the driver refuses.
func bringLacking(t *testing.T, c *cluster.Cluster) {
	ours := func(input string, args ...string) string {
		return kubectl(t, c, input, append([]string{"-n", "lacking"}, args...)...)
	}
	ours("", "create", "namespace", "lacking")
	if err := c.Inject(t.Context(), defaultDriver, "CreateSnapshot", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4732"}); err != nil {
		t.Fatal(err)
	}
	of := []string{"NAME", defaultDriver, "persistentVolumeClaimName: data", "persistentVolumeClaimName: second"}
	ours(strings.Join([]string{orphan, edit(claim(defaultDriver+"-now"), secondOfOwn...), pod, edit(edit(snapshot, "NAME", "gold"), of...),
		edit(edit(snapshot, "name: copy", "name: refused"), of...)}, "\n---\n"), "create", "-f", "-")
	ours("", "wait", "pvc/second", "--for=jsonpath={.status.phase}=Bound", "--timeout=2m")
	ours("", "patch", "pvc", "second", "-p", `{"spec": {"volumeAttributesClassName": "gold"}}`)
	ours(noClaims, "create", "-f", "-")
	ours("", "wait", "resourcequota/no-claims", "--for=jsonpath={.status.hard.persistentvolumeclaims}=0", "--timeout=1m")
	ours(statefulSet, "create", "-f", "-")
	said := func(words string) {
		eventually(t, words, time.Minute, func() bool {
			return strings.Contains(kubectl(t, c, "", "get", "events", "-A", "-o", "jsonpath={.items[*].message}"), words)
		})
	}
	said("exceeded quota")
	said("E4732")
}

// vendors are the groups of which this cluster serves none, so that nobody asks for them.
var vendors = []string{"longhorn.io", "secrets-store.csi.x-k8s.io", "ceph.rook.io", "trident.netapp.io"}

// askWithLess asks as users who lack one rule: what that refuses is a gap that names the verb and the resource, and it never makes an
// answer wrong.
func askWithLess(t *testing.T, c *cluster.Cluster) {
	bringLacking(t, c)
	all := rules(t, c, readerRole)
	users := without(t, c, "reader", all)
	later := time.Now().Add(10 * time.Minute).Format(time.RFC3339) // so that nothing is within its normal time
	ask := func(t *testing.T, ns, question string, flags ...string) (answer, string) {
		b := &bench{Cluster: c, t: t, ns: ns, driver: ns + ".lab.csidoctor.dev", kubeconfig: c.Kubeconfig()}
		return b.run(question, append(flags, "--at", later)...)
	}
	verdicts, rests := map[string]string{}, map[string]string{}
	for _, q := range richQuestions {
		bundle := filepath.Join(t.TempDir(), "b.tar.gz")
		a, errs := ask(t, q.ns, q.ask, "--bundle", bundle)
		if err := json.Unmarshal(a.text, &a); err != nil {
			t.Fatalf("%s in %s: %v: %s", q.ask, q.ns, err, errs)
		}
		verdicts[q.ns+q.ask], rests[q.ns+q.ask] = a.Verdict, collection(t, bundle)
	}
	for i, r := range all {
		t.Run(strings.TrimSuffix(r.Resources[0]+"."+r.APIGroups[0], "."), func(t *testing.T) {
			t.Parallel()
			if slices.Contains(vendors, r.APIGroups[0]) {
				t.Logf("no answer about this cluster asks for it")
				return
			}
			refusal := regexp.MustCompile(fmt.Sprintf(`User "%s" cannot (%s) resource "%s" in API group "%s"`, users[i], strings.Join(r.Verbs, "|"), r.Resources[0], r.APIGroups[0]))
			missed := 0
			for _, q := range richQuestions {
				if read := strings.TrimSuffix(r.Resources[0]+"."+r.APIGroups[0], "."); read != "pods/log" && !strings.Contains(rests[q.ns+q.ask], strconv.Quote(read)) {
					continue // it does not ask for that
				}
				a, errs := ask(t, q.ns, q.ask, "--as", users[i])
				if a.exit == 1 { // the target cannot be found
					missed++
					if !refusal.MatchString(errs) || !strings.Contains(errs, "kubectl auth can-i ") {
						t.Errorf("%s\ndoes not say which right of %v is missing", errs, r)
					}
					continue
				}
				if err := json.Unmarshal(a.text, &a); err != nil {
					t.Fatalf("%s in %s: %v: %s", q.ask, q.ns, err, errs)
				}
				if full := verdicts[q.ns+q.ask]; a.Verdict != full && a.Verdict != "undetermined" {
					t.Errorf("%s\n%s in %s is %s without %v, and %s with it", a.text, q.ask, q.ns, a.Verdict, r, full)
				}
				for _, g := range forbidden(t, a) {
					missed++
					if !refusal.MatchString(g.Detail) || !strings.Contains(g.Remedy, "kubectl auth can-i ") {
						t.Errorf("%+v does not say which right of %v is missing", g, r)
					}
				}
			}
			if missed == 0 {
				t.Errorf("no answer misses %v: it is not needed, or the questions do not ask for it", r)
			}
		})
	}
}

// collection is the first file of a bundle: what was read.
func collection(t *testing.T, bundle string) string {
	t.Helper()
	for name, text := range bundled(t, bundle) {
		if filepath.Base(name) != "collection.json" {
			t.Fatalf("%s: want collection.json", name)
		}
		return string(text)
	}
	t.Fatalf("%s is empty", bundle)
	return ""
}

// bundled are the files of a bundle.
func bundled(t *testing.T, bundle string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		t.Helper()
		f, err := os.Open(bundle)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		zip, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for tape := tar.NewReader(zip); ; {
			head, err := tape.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			var text []byte
			if err == nil {
				text, err = io.ReadAll(tape)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !yield(head.Name, text) {
				return
			}
		}
	}
}

type gap struct{ Input, Reason, Detail, Remedy string }

// forbidden are the gaps of an answer for want of a right.
func forbidden(t *testing.T, a answer) (gaps []gap) {
	t.Helper()
	for _, raw := range a.Gaps {
		var g gap
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatal(err)
		}
		if g.Reason == "forbidden" {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// viewed are faults with the verdict of pod app.
var viewed = map[string]string{"in-pods": "healthy", "scaled-to-zero": "stuck", "stage-fails-in-pod": "stuck"}

// askAsViewer asks as somebody who may read one namespace alone, as the cluster's own role view has it.
func askAsViewer(t *testing.T, c *cluster.Cluster) {
	for ns, want := range viewed {
		kubectl(t, c, "", "create", "rolebinding", "viewer", "-n", ns, "--clusterrole=view", "--user=viewer")
		b := &bench{Cluster: c, t: t, ns: ns, kubeconfig: c.Kubeconfig()}
		a := b.ask("pod app", "--as", "viewer")
		if a.Verdict != want && a.Verdict != "undetermined" {
			t.Errorf("%s\n%s: %s for who may see the namespace alone, and %s for others", a.text, ns, a.Verdict, want)
		}
		if a.Verdict == "undetermined" && len(a.Gaps) == 0 {
			t.Errorf("%s\n%s: undetermined without a gap", a.text, ns)
		}
		for _, g := range forbidden(t, a) {
			if !regexp.MustCompile(`User "viewer" cannot (get|list) resource "[a-z/]+" in API group`).MatchString(g.Detail) {
				t.Errorf("%+v does not say which right is missing", g)
			}
		}
	}
}

// probeWithLess asks for a probe with the role of deploy/rbac.yaml alone: nothing is made, and the gap names what may not be done. That
// deploy/prober.yaml is enough is shown where nodes are probed: TestNode.
func probeWithLess(t *testing.T, c *cluster.Cluster) {
	b := &bench{Cluster: c, t: t, ns: "in-pods", kubeconfig: filepath.Join(c.Dir, "oncall.kubeconfig")}
	a := b.ask("pod app", "--probe")
	if a.Verdict != "healthy" || len(a.Gaps) != 1 || !strings.Contains(string(a.Gaps[0]), "you may not create jobs, nor delete jobs") || !strings.Contains(string(a.Gaps[0]), "deploy/prober.yaml") {
		t.Errorf("%s\nwant healthy, and a gap that names the rights", a.text)
	}
	if made := kubectl(t, c, "", "get", "jobs", "-A", "-o", "name"); made != "" {
		t.Errorf("made all the same: %s", made)
	}
}
