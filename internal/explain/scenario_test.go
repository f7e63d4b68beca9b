package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// scenario is a small cluster in which everything was read, a question, and the answer that is wanted.
type scenario struct {
	name    string
	objects []string // YAML
	target  explain.Target
	verdict explain.Verdict
	cause   string
	says    string // part of the first finding's why
}

// scenarioAt is now in every scenario; ages in the objects count back from here.
var scenarioAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d string) string {
	age, err := time.ParseDuration(d)
	if err != nil {
		panic(err)
	}
	return scenarioAt.Add(-age).Format(time.RFC3339)
}

func runScenarios(t *testing.T, scenarios []scenario) {
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot.New()
			s.TakenAt, s.Recorded = scenarioAt, true
			for _, in := range explain.Inputs {
				if !strings.HasSuffix(in.Resource, "csidoctor.dev") {
					s.Read = append(s.Read, snapshot.Query{Resource: in.Resource})
				}
			}
			for _, o := range c.objects {
				for doc := range strings.SplitSeq(o, "\n---\n") {
					raw, err := yaml.YAMLToJSON([]byte(doc))
					if err != nil {
						t.Fatalf("%v in\n%s", err, doc)
					}
					add(t, s, raw)
				}
			}
			d := walk(t, s, c.target, scenarioAt, nil)
			got := ""
			if d.Cause != nil {
				got = d.Cause.ID
			}
			if d.Verdict != c.verdict || got != c.cause {
				t.Errorf("%s %s, want %s %s\nsummary: %s", d.Verdict, got, c.verdict, c.cause, d.Summary)
			}
			if len(d.Findings) > 0 && !strings.Contains(d.Findings[0].Why, c.says) {
				t.Errorf("does not say %q: %s", c.says, d.Findings[0].Why)
			}
			if t.Failed() {
				return
			}
			var want testCase
			want.Want.Cause = []string{c.cause}
			for _, q := range d.Used { // as TestBlindfold
				if snapshot.ResourceOf(q.Resource) == nil || q.Lines != "" || strings.HasPrefix(q.Resource, "clusterrole") {
					continue // a vendor's objects, logs and roles are evidence where there are any, and never required
				}
				blind := walk(t, s, c.target, scenarioAt, func(asked snapshot.Query) bool { return q.Includes(asked) })
				if why := want.fooled(d, blind, q); why != "" {
					t.Errorf("without %s: %s\nsummary: %s", q, why, blind.Summary)
				}
			}
		})
	}
}

func pvc(name string) explain.Target {
	return explain.Target{Kind: "PersistentVolumeClaim", Namespace: "app", Name: name}
}

func pod(name string) explain.Target {
	return explain.Target{Kind: "Pod", Namespace: "app", Name: name}
}

func snap(name string) explain.Target {
	return explain.Target{Kind: "VolumeSnapshot", Namespace: "app", Name: name}
}

// claim is a Pending claim; fields are lines of its spec, or whole sections that begin at the left.
func claim(name, age, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s, namespace: app, uid: uid-%s, creationTimestamp: "%s"}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}%s}
status: {phase: Pending}`, name, name, ago(age), spec)
}

func annotated(object, annotations string) string {
	return strings.Replace(object, "metadata: {", "metadata: {annotations: {"+annotations+"}, ", 1)
}

func bound(name, volume, spec string) string {
	return strings.Replace(claim(name, "24h", ", volumeName: "+volume+spec), "phase: Pending", "phase: Bound, capacity: {storage: 10Gi}", 1)
}

func class(name, provisioner, mode string) string {
	return fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %s, creationTimestamp: "2025-01-01T00:00:00Z"}
provisioner: %s
volumeBindingMode: %s`, name, provisioner, mode)
}

// volume is a PV; claimRef may be empty.
func volume(name, phase, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %s, uid: uid-%s, creationTimestamp: "2026-02-01T00:00:00Z", labels: {app: x}}
spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, csi: {driver: d.example.com, volumeHandle: h-%s}%s}
status: {phase: %s}`, name, name, name, spec, phase)
}

func claimRef(namespace, name, uid string) string {
	return fmt.Sprintf(", claimRef: {kind: PersistentVolumeClaim, namespace: %q, name: %q, uid: %q}", namespace, name, uid)
}

// waiting is a pod that is not scheduled for the reason given, which uses the claims.
func waiting(name, age, reason string, claims ...string) string {
	var volumes []string
	for i, c := range claims {
		volumes = append(volumes, fmt.Sprintf("{name: v%d, persistentVolumeClaim: {claimName: %s}}", i, c))
	}
	status := ""
	if reason != "" {
		status = fmt.Sprintf(`, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: %q, lastTransitionTime: "%s"}]`, reason, ago(age))
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: app, uid: uid-%s, creationTimestamp: "%s"}
spec: {containers: [{name: app, image: app}], volumes: [%s]}
status: {phase: Pending%s}`, name, name, ago(age), strings.Join(volumes, ", "), status)
}

func onNode(podYAML, node string) string {
	return strings.Replace(podYAML, "spec: {", "spec: {nodeName: "+node+", ", 1)
}

func running(name, node string, claims ...string) string {
	p := onNode(waiting(name, "24h", "", claims...), node)
	return strings.Replace(p, "status: {phase: Pending", `status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: app, ready: true, state: {running: {}}}]`, 1)
}

func node(name, labels string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Node
metadata: {name: %s, creationTimestamp: "2025-01-01T00:00:00Z", labels: {kubernetes.io/hostname: %s%s}}
spec: {}
status: {conditions: [{type: Ready, status: "True"}]}`, name, name, labels)
}

func csinode(name, drivers string) string {
	return fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: %s}
spec: {drivers: [%s]}`, name, drivers)
}

func csidriver(name, spec string) string {
	return fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: %s}
spec: {attachRequired: true%s}`, name, spec)
}

func lease(name, age string) string {
	return fmt.Sprintf(`apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s, namespace: csi}
spec: {holderIdentity: ctl-0, renewTime: "%s"}`, name, strings.Replace(ago(age), "Z", ".000000Z", 1))
}

// event is about an object of the namespace app (or of the cluster).
func event(kind, name, kindOf, reason, source, first, last string, count int, message string) string {
	namespace := "app"
	involved := ", namespace: app"
	if kind == "PersistentVolume" || kind == "VolumeSnapshotContent" {
		namespace, involved = "default", ""
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Event
metadata: {name: "%s.%s.%s.%d", namespace: %s, creationTimestamp: "%s"}
involvedObject: {kind: %s, name: %s%s}
type: %s
reason: %s
source: {component: "%s"}
firstTimestamp: "%s"
lastTimestamp: "%s"
count: %d
message: %q`, name, reason, last, len(message), namespace, ago(first), kind, name, involved, kindOf, reason, source, ago(first), ago(last), count, message)
}

const d = "d.example.com"

var provisionerSays = d + "_ctl-0_1234"

func failing(name, first, last string, count int, message string) string {
	return event("PersistentVolumeClaim", name, "Warning", "ProvisioningFailed", provisionerSays, first, last, count, message)
}
