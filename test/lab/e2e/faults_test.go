package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// faults are brought up side by side, each in a namespace of its name and, with sidecars, with a driver of its own: NAME in the objects.
// What csidoctor is to say is read from the contract, not from what it says.
var faults = []fault{
	{
		name: "no-consumer",
		rule: "Rules 1: WaitForFirstConsumer without a pod is waiting, and no end of it is known",
		ask:  "pvc data",
		want: "waiting provision/waiting-for-first-consumer",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"))
			b.event("PersistentVolumeClaim/data", "WaitForFirstConsumer", "", 1)
		},
	},
	{
		name: "class-missing",
		rule: "Causes: the PVC names a StorageClass that does not exist; Borders: and no PV of that class name exists. That excludes success, so at once",
		ask:  "pvc data",
		want: "stuck claim/class-missing",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("gold"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", `"gold" not found`, 1)
			b.event("Pod/app", "FailedScheduling", "", 1)
		},
	},
	{
		name:     "create-refused",
		rule:     "Causes: the backend's quota is used up; Normal times: an error that the owner retries is stuck from its third occurrence",
		sidecars: []string{"csi-provisioner"},
		config:   driver.Config{Topology: cluster.Topology},
		ask:      "pvc data",
		want:     "stuck provision/quota",
		dump:     true,
		bring: func(b *bench) {
			b.inject("CreateVolume", driver.Fault{Mode: "fail", Code: "ResourceExhausted", Text: "quota of the account reached: 10 of 10 volumes exist"})
			b.create(claim("NAME-wait"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "10 of 10 volumes", 3)
		},
	},
	{
		name: "provisioner-stopped",
		rule: "Borders: something claims the name, no lease is fresh and no event of it recent, and a stale lease is proof; " +
			"Normal times: a sidecar that never touched its object, 1 min",
		sidecars: []string{"csi-provisioner"},
		ask:      "pvc data",
		want:     "stuck provision/provisioner-not-running",
		bring: func(b *bench) {
			b.stop("csi-provisioner", b.driver)
			b.create(claim("NAME-wait"), pod)
			b.until("the provisioner was asked more than a minute ago", func(all objects) bool {
				return slices.ContainsFunc(all.named("Event", b.ns, "data."), func(o object) bool {
					return o.Reason == "ExternalProvisioning" && time.Since(o.Metadata.CreationTimestamp) > time.Minute
				})
			})
			b.leaseStale(b.driver)
		},
	},
	{
		name: "create-hangs",
		rule: "Normal times: provision where only DeadlineExceeded and Aborted alternate, 15 min, before the count of errors; " +
			"Borders: while DeadlineExceeded is still to be seen, backend-unreachable",
		sidecars: []string{"csi-provisioner"},
		ask:      "pvc data",
		want:     "waiting provision/in-progress",
		of:       "PersistentVolumeClaim/data",
		normal:   15 * time.Minute,
		late:     "stuck provision/backend-unreachable",
		bring: func(b *bench) {
			b.inject("CreateVolume", driver.Fault{Mode: "hang"})
			b.create(claim("NAME-wait"), pod)
			b.event("PersistentVolumeClaim/data", "ProvisioningFailed", "DeadlineExceeded", 3)
		},
	},
	{
		name:     "attach-refused",
		rule:     "Causes: the backend refuses the driver's credentials; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck attach/permission",
		dump:     true,
		bring: func(b *bench) {
			b.inject("ControllerPublishVolume", driver.Fault{Mode: "fail", Code: "PermissionDenied", Text: "the role lab-controller may not attach disks"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedAttachVolume", "may not attach disks", 3)
		},
	},
	{
		name:     "attacher-stopped",
		rule:     "Causes: nobody works on the VolumeAttachment, stale lease; Normal times: a sidecar that never touched its object (no finalizer), 1 min",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck attach/attacher-not-running",
		dump:     true,
		bring: func(b *bench) {
			b.stop("csi-attacher", "external-attacher-leader-"+b.driver)
			b.create(claim("NAME-wait"), pod)
			b.until("its VolumeAttachment is older than a minute", func(all objects) bool {
				return slices.ContainsFunc(all, func(o object) bool {
					return o.Kind == "VolumeAttachment" && o.Spec.Attacher == b.driver && time.Since(o.Metadata.CreationTimestamp) > time.Minute
				})
			})
			b.leaseStale("external-attacher-leader-" + b.driver)
		},
	},
	{
		name: "node-plugin-dead",
		rule: "Borders: a plugin pod that crashes is failing; Rules 6: what is absent comes before the errors that its absence makes; " +
			"Normal times: register on a node younger than 5 min, before the count of errors",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "waiting register/in-progress|register/plugin-pod-failing",
		of:       "Node/" + cluster.Node,
		normal:   5 * time.Minute,
		late:     "stuck register/plugin-pod-failing",
		bring: func(b *bench) {
			b.create(nodePlugin)
			b.podReady("node-plugin-")
			b.until("the driver is registered", registered(b.driver))
			b.change(driver.Config{Node: driver.Dead})
			if err := os.WriteFile(filepath.Join(b.Dir, "kubelet/plugins", b.driver, "crash"), nil, 0o644); err != nil {
				b.t.Fatal(err)
			}
			b.until("the plugin's pod is in back-off", func(all objects) bool {
				return slices.ContainsFunc(all.named("Pod", b.ns, "node-plugin-"), func(o object) bool {
					for _, c := range o.Status.ContainerStatuses {
						if c.State.Waiting.Reason == "CrashLoopBackOff" {
							return true
						}
					}
					return false
				})
			})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "connection refused", 3)
			if !registered(b.driver)(b.objects()) {
				b.t.Error("the CSINode entry is gone")
			}
		},
	},
	{
		name: "not-registered",
		rule: "Causes: the pod runs, and kubelet does not know the driver; Borders: register before the attach errors that it makes; " +
			"Normal times: register on a node younger than 5 min, before the count of errors",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		config:   driver.Config{Node: driver.Absent},
		ask:      "pvc data",
		want:     "waiting register/in-progress",
		of:       "Node/" + cluster.Node,
		normal:   5 * time.Minute,
		late:     "stuck register/not-registered",
		dump:     true,
		bring: func(b *bench) {
			b.create(nodePlugin, claim("NAME-wait"), pod)
			b.podReady("node-plugin-")
			b.event("Pod/app", "FailedAttachVolume", "does not contain driver", 3)
		},
	},
	{
		name:     "stage-fails",
		rule:     "Causes: the driver gives an error that is none of the others; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pvc data",
		want:     "stuck stage/driver-error",
		dump:     true,
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4711"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4711", 3)
		},
	},
	{
		name:     "publish-fails",
		rule:     "Causes: the driver gives an error that is none of the others; Normal times: stuck from the third occurrence",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "stuck publish/driver-error",
		bring: func(b *bench) {
			b.inject("NodePublishVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4712"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4712", 3)
		},
	},
	{
		name: "inline-not-allowed",
		rule: "Causes: inline volume, and the CSIDriver does not list Ephemeral; that excludes success, so at once",
		ask:  "pod app",
		want: "stuck publish/ephemeral-not-allowed",
		dump: true,
		bring: func(b *bench) {
			b.put(driver.Config{})
			b.create(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: NAME}
spec: {attachRequired: true, podInfoOnMount: true, volumeLifecycleModes: [Persistent]}
`, strings.Replace(pod, "persistentVolumeClaim: {claimName: data}", "csi: {driver: NAME}", 1))
			b.until("the driver is registered", registered(b.driver))
			b.event("Pod/app", "FailedMount", "not supported by driver", 1)
		},
	},

	// What works, in the midst of what does not.
	{
		name: "running",
		rule: "Verdicts: everything that was asked about works; a healthy answer has neither hop nor cause, and no gap",
		ask:  "pvc data",
		want: "healthy",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-wait"), pod)
			b.podReady("app")
		},
	},
	{
		name: "every-kind",
		rule: "Verdicts: everything that was asked about works; attach and stage are skipped for the inline volume",
		ask:  "pod app",
		want: "healthy",
		bring: func(b *bench) {
			b.create(everyVolume)
			b.podReady("app")
		},
	},
	{
		name:     "mended",
		rule:     "Rules 3: a later success cancels an earlier failure, old events are history",
		sidecars: []string{"csi-provisioner", "csi-attacher"},
		ask:      "pod app",
		want:     "healthy",
		bring: func(b *bench) {
			b.inject("NodeStageVolume", driver.Fault{Mode: "fail", Code: "Internal", Text: "firmware answered E4711"})
			b.create(claim("NAME-wait"), pod)
			b.event("Pod/app", "FailedMount", "E4711", 3)
			if err := b.Recover(b.t.Context(), b.driver, "NodeStageVolume"); err != nil {
				b.t.Fatal(err)
			}
			b.podReady("app")
		},
	},
	{
		name: "idle",
		rule: "Verdicts: idle as designed; schedule/idle is the answer to what was asked",
		ask:  "pvc data",
		want: "healthy schedule/idle",
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"))
			b.until("the claim is bound", func(all objects) bool {
				return slices.ContainsFunc(all.named("PersistentVolumeClaim", b.ns, "data"), func(o object) bool { return o.Status.Phase == "Bound" })
			})
		},
	},
}

type fault struct {
	name     string
	rule     string // of the contract, that the expectation rests on
	sidecars []string
	config   driver.Config // with sidecars
	bring    func(*bench)  // brings up and injects, and returns when the fault is to be seen
	ask      string
	want     string // verdict, and the cause or several of which one will do
	dump     bool   // is asked about a dump of kubectl too

	// Where want is waiting for a known time: it lasts for the normal time from the creation of that object, and then it is late's turn.
	of     string
	normal time.Duration
	late   string
}

func TestFaults(t *testing.T) {
	needReal(t)
	c, _ := startLab(t, "faults")
	w := watch(t, c)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{Cluster: c, watcher: w, t: t, ns: f.name, driver: f.name + ".lab.csidoctor.dev"}
			kubectl(t, c, "", "create", "namespace", b.ns)
			b.until("the namespace has its service account", func(all objects) bool { return len(all.named("ServiceAccount", b.ns, "default")) > 0 })
			if f.sidecars != nil {
				if err := c.AddDriver(t.Context(), b.driver, f.config, f.sidecars...); err != nil {
					t.Fatal(err)
				}
			}
			f.bring(b)
			b.diagnose(f)
		})
	}
}

// diagnose asks the cluster, what was kept of that answer, and a dump.
func (b *bench) diagnose(f fault) {
	bundle := filepath.Join(b.t.ArtifactDir(), f.name+".tar.gz")
	live := b.ask(f.ask, "--bundle", bundle)
	if kept := b.ask(f.ask, "--from", bundle); !bytes.Equal(live.text, kept.text) {
		b.t.Errorf("the cluster answers:\n%s\nand what was kept of that:\n%s", live.text, kept.text)
	}
	want := f.want
	if f.normal > 0 {
		created := b.find(f.of).Metadata.CreationTimestamp
		end := created.Add(f.normal)
		if live.TakenAt.Before(end) {
			if until := live.until(); until.Before(end) || until.After(end.Add(time.Minute)) {
				b.t.Errorf("%s\nwaiting until %v, want %v after %v, when %s was made: %s", live.text, until, f.normal, created, f.of, f.rule)
			}
			b.check("behind the normal time", b.ask(f.ask, "--from", bundle, "--at", end.Add(time.Minute).Format(time.RFC3339)), f.late, f.rule)
		} else {
			b.t.Logf("asked %v behind the normal time", live.TakenAt.Sub(end))
			want = f.late
		}
	}
	b.check("live", live, want, f.rule)
	if f.dump {
		dump := b.ask(f.ask, "--from", b.dump())
		if dump.Verdict != "undetermined" || len(dump.Gaps) == 0 {
			b.check("from a dump", dump, want, f.rule)
		}
	}
}

// check compares an answer with what it is to be: "stuck attach/permission".
func (b *bench) check(when string, a answer, want, rule string) {
	verdict, causes, _ := strings.Cut(want, " ")
	hop, _, _ := strings.Cut(causes, "/")
	exit := map[string]int{"healthy": 0, "stuck": 2, "degraded": 3, "waiting": 4, "undetermined": 5}[verdict]
	if a.Verdict != verdict || a.Hop != hop || !slices.Contains(strings.Split(causes, "|"), a.Cause.ID) {
		b.t.Errorf("%s\n%s: %s %s, want %s: %s", a.text, when, a.Verdict, a.Cause.ID, want, rule)
	}
	if a.exit != exit {
		b.t.Errorf("%s: exit status %d, want %d with %s", when, a.exit, exit, verdict)
	}
	if verdict == "healthy" && len(a.Gaps) > 0 {
		b.t.Errorf("%s\n%s: healthy with gaps", a.text, when)
	}
	b.checkChains(when, a)
}

// checkChains holds the chains against the verdict, which is the worst of them: no hop may be worse, and the hop that is named is as bad.
func (b *bench) checkChains(when string, a answer) {
	allowed := map[string][]string{
		"healthy": {"ok", "skipped"},
		"waiting": {"ok", "skipped", "waiting"},
		"stuck":   {"ok", "skipped", "waiting", "stuck"},
	}[a.Verdict]
	if a.Cause.ID == "schedule/idle" { // what comes after it is not reached yet
		allowed = append(allowed, "waiting")
	}
	named := a.Verdict == "healthy"
	for _, c := range a.Chains {
		for _, h := range c.Hops {
			if !slices.Contains(allowed, h.Status) {
				b.t.Errorf("%s\n%s: the hop %s is %s, and the verdict %s", a.text, when, h.Hop, h.Status, a.Verdict)
			}
			named = named || h.Hop == a.Hop && h.Status == a.Verdict
		}
	}
	if !named {
		b.t.Errorf("%s\n%s: the verdict is %s, and in no chain is the hop %s", a.text, when, a.Verdict, a.Hop)
	}
}

// answer is what csidoctor says, as far as these tests read it.
type answer struct {
	text []byte
	exit int

	TakenAt time.Time
	Verdict string
	Hop     string
	Cause   struct{ ID string }
	Chains  []struct {
		Hops []struct {
			Hop, Status string
			Until       time.Time
		}
	}
	Findings []struct{ Until time.Time }
	Gaps     []json.RawMessage
}

// until is when the answer says that the waiting ends: with the finding, or else with the hop.
func (a answer) until() (t time.Time) {
	if len(a.Findings) > 0 {
		return a.Findings[0].Until
	}
	for _, c := range a.Chains {
		for _, h := range c.Hops {
			if h.Hop == a.Hop {
				t = h.Until
			}
		}
	}
	return t
}

// bench is one fault's place in the cluster.
type bench struct {
	*cluster.Cluster
	*watcher
	t      *testing.T
	ns     string
	driver string
}

// ask runs csidoctor. The kubeconfig is given to every question, for the commands in the answer carry it.
func (b *bench) ask(question string, flags ...string) (a answer) {
	b.t.Helper()
	args := slices.Concat(strings.Fields(question), []string{"-n", b.ns, "-o", "json", "--kubeconfig", b.Kubeconfig()}, flags)
	var errs bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), csidoctor, args...)
	cmd.Stderr = &errs
	var err error
	a.text, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		a.exit = exit.ExitCode()
	}
	if json.Unmarshal(a.text, &a) != nil {
		b.t.Fatalf("csidoctor %s: %v: %s%s", strings.Join(args, " "), err, a.text, errs.Bytes())
	}
	return a
}

// dump saves what kubectl prints of all kinds into a folder.
func (b *bench) dump() string {
	b.t.Helper()
	dir := b.t.ArtifactDir()
	kinds := strings.Fields(kubectl(b.t, b.Cluster, "", "api-resources", "--verbs=list", "-o", "name"))
	all := kubectl(b.t, b.Cluster, "", "get", strings.Join(kinds, ","), "-A", "-o", "yaml")
	dir = filepath.Join(dir, "dump")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(all), 0o644)); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

func (b *bench) create(objects ...string) {
	b.t.Helper()
	kubectl(b.t, b.Cluster, strings.ReplaceAll(strings.Join(objects, "\n---\n"), "NAME", b.driver), "create", "-n", b.ns, "-f", "-")
}

func (b *bench) inject(rpc string, f driver.Fault) {
	b.t.Helper()
	if err := b.Inject(b.t.Context(), b.driver, rpc, f); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) put(c driver.Config) {
	b.t.Helper()
	if err := b.PutDriver(b.t.Context(), b.driver, c); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) change(c driver.Config) {
	b.t.Helper()
	if err := b.ChangeDriver(b.t.Context(), b.driver, c); err != nil {
		b.t.Fatal(err)
	}
}

// stop ends a sidecar that has worked: it has had its lease.
func (b *bench) stop(sidecar, lease string) {
	b.t.Helper()
	b.until(sidecar+" holds its lease", func(all objects) bool {
		return slices.ContainsFunc(all.named("Lease", "kube-system", leaseName(lease)), func(o object) bool { return o.Spec.HolderIdentity != "" })
	})
	if err := b.StopProcess(b.t.Context(), sidecar+"@"+b.driver); err != nil {
		b.t.Fatal(err)
	}
}

// leaseName is the name of a lease as the sidecars write it.
func leaseName(name string) string { return strings.ReplaceAll(name, ".", "-") }

func (b *bench) leaseStale(name string) {
	b.t.Helper()
	name = leaseName(name)
	b.until("the lease "+name+" is stale", func(all objects) bool {
		return slices.ContainsFunc(all.named("Lease", "kube-system", name), func(o object) bool {
			return time.Since(o.Spec.RenewTime) > time.Duration(o.Spec.LeaseDurationSeconds)*time.Second
		})
	})
}

func (b *bench) podReady(name string) {
	b.t.Helper()
	b.until("the pod "+name+" is ready", func(all objects) bool {
		return slices.ContainsFunc(all.named("Pod", b.ns, name), func(o object) bool {
			return slices.Contains(o.Status.Conditions, condition{"Ready", "True"})
		})
	})
}

// event waits until the object has so many events of that reason with that text.
func (b *bench) event(object, reason, text string, count int) {
	b.t.Helper()
	b.until(object+" has events of "+reason+" with "+text, func(all objects) bool {
		n := 0
		for _, o := range all.named("Event", b.ns, "") {
			if o.InvolvedObject.Kind+"/"+o.InvolvedObject.Name == object && o.Reason == reason && strings.Contains(o.Message, text) {
				n += max(o.Count, o.Series.Count, 1)
			}
		}
		return n >= count
	})
}

func (b *bench) until(what string, holds func(objects) bool) {
	b.t.Helper()
	end := time.After(4 * time.Minute)
	for {
		all, next := b.now()
		if holds(all) {
			return
		}
		select {
		case <-next:
		case <-end:
			b.t.Fatalf("it never came that %s", what)
		case <-b.t.Context().Done():
			b.t.FailNow()
		}
	}
}

func (b *bench) find(object string) object {
	b.t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	for _, ns := range []string{b.ns, ""} {
		if found := b.objects().named(kind, ns, name); len(found) > 0 {
			return found[0]
		}
	}
	b.t.Fatalf("no %s", object)
	panic("unreachable")
}

func registered(driver string) func(objects) bool {
	return func(all objects) bool {
		return slices.ContainsFunc(all.named("CSINode", "", cluster.Node), func(o object) bool {
			return slices.Contains(o.Spec.Drivers, csiNodeDriver{driver})
		})
	}
}

// watcher sees the cluster for all who wait: one kubectl, however many they are.
type watcher struct {
	mu   sync.Mutex
	all  objects
	next chan struct{} // closed when there is a newer state
}

func watch(t *testing.T, c *cluster.Cluster) *watcher {
	w := &watcher{next: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var list struct{ Items objects }
			out, err := c.Kubectl(ctx, "", "get", "events,pods,pvc,serviceaccounts,leases,volumeattachments,csinodes,nodes", "-A", "-o", "json")
			if err == nil {
				err = json.Unmarshal([]byte(out), &list)
			}
			if err != nil && ctx.Err() == nil {
				t.Log(err) // who waits for it fails
			}
			if err == nil {
				w.mu.Lock()
				w.all = list.Items
				close(w.next)
				w.next = make(chan struct{})
				w.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *watcher) now() (objects, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all, w.next
}

func (w *watcher) objects() objects {
	all, _ := w.now()
	return all
}

type objects []object

// named returns the objects whose names begin so.
func (all objects) named(kind, namespace, name string) (found objects) {
	for _, o := range all {
		if o.Kind == kind && o.Metadata.Namespace == namespace && strings.HasPrefix(o.Metadata.Name, name) {
			found = append(found, o)
		}
	}
	return found
}

// object is any of those that are watched.
type object struct {
	Kind     string
	Metadata struct {
		Namespace, Name   string
		CreationTimestamp time.Time
	}
	Spec struct {
		Attacher             string
		Drivers              []csiNodeDriver
		HolderIdentity       string
		LeaseDurationSeconds int
		RenewTime            time.Time
	}
	Status struct {
		Phase             string
		Conditions        []condition
		ContainerStatuses []struct {
			State struct{ Waiting struct{ Reason string } }
		}
	}

	// of an event
	InvolvedObject  struct{ Kind, Name string }
	Reason, Message string
	Count           int
	Series          struct{ Count int }
}

type (
	condition     struct{ Type, Status string }
	csiNodeDriver struct{ Name string }
)

func claim(class string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: ` + class + `, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`
}

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: lab.local/app:1
    imagePullPolicy: Never
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
`

// nodePlugin stands for the DaemonSet of a driver's node plugin, which in the lab is a process outside of any pod. Its plugin crashes when
// the file crash is made.
const nodePlugin = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-plugin}
spec:
  selector: {matchLabels: {app: node-plugin}}
  template:
    metadata: {labels: {app: node-plugin}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      containers:
      - name: node-driver-registrar
        image: lab.local/app:1
        imagePullPolicy: Never
        command: [sh, -c, "sleep 86400", --]
        args: [--csi-address=/csi/csi.sock, --kubelet-registration-path=/var/lib/kubelet/plugins/NAME/csi.sock]
        volumeMounts:
        - {name: plugin, mountPath: /csi}
        - {name: registration, mountPath: /registration}
      - name: plugin
        image: lab.local/app:1
        imagePullPolicy: Never
        command: [sh, -c, "until [ -e /csi/crash ]; do sleep 0.2; done; echo 'panic: the metadata service does not answer' >&2; exit 2", --]
        args: [--endpoint=unix:///csi/csi.sock]
        volumeMounts:
        - {name: plugin, mountPath: /csi}
      volumes:
      - {name: plugin, hostPath: {path: /var/lib/kubelet/plugins/NAME, type: DirectoryOrCreate}}
      - {name: registration, hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}}
`
