package e2e

import (
	"bytes"
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

// bench is one fault's place in the cluster.
type bench struct {
	*cluster.Cluster
	*watcher
	t          *testing.T
	ns         string
	driver     string
	home       string // namespace of the driver's pods and leases
	kubeconfig string // of who asks
	pv         string // of the claim data, once it is bound
	die        func()
	dumps      *dumps
}

// ask runs csidoctor. The kubeconfig is given to every question, for the commands in the answer carry it.
func (b *bench) ask(question string, flags ...string) answer {
	b.t.Helper()
	a, errs := b.run(question, flags...)
	if json.Unmarshal(a.text, &a) != nil {
		b.t.Fatalf("csidoctor %s %v: exit status %d: %s%s", question, flags, a.exit, a.text, errs)
	}
	return a
}

func (b *bench) run(question string, flags ...string) (a answer, stderr string) {
	b.t.Helper()
	args := slices.Concat(strings.Fields(edit(question, "PV", b.pv, "NAME", b.driver)), []string{"-n", b.ns, "-o", "json", "--kubeconfig", b.kubeconfig}, flags)
	var errs bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), csidoctor, args...)
	cmd.Stderr = &errs
	var err error
	a.text, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		a.exit = exit.ExitCode()
	}
	return a, errs.String()
}

// nodes are looked at for one question after the other, or each would wait for what the others make the node do.
var nodes sync.Mutex

// askNode looks at the nodes too, with an image that is there, and into which the program is sent.
func (b *bench) askNode(question string, flags ...string) answer {
	b.t.Helper()
	nodes.Lock()
	defer nodes.Unlock()
	return b.ask(question, append(flags, "--probe", "--probe-image", "lab.local/app:1")...)
}

// dump saves what kubectl prints of all kinds into a folder.
func (b *bench) dump() string {
	b.t.Helper()
	dir := filepath.Join(b.t.ArtifactDir(), "dump")
	all := b.dumps.next(b.t, b.Cluster)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(all), 0o644)); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// dumps are of the whole cluster and take long, so they come one after the other, and one is for all who came before it began.
type dumps struct {
	mu    sync.Mutex
	begun time.Time
	text  string
}

func (d *dumps) next(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	came := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.Before(came) {
		begun := time.Now()
		kinds := strings.Fields(kubectl(t, c, "", "api-resources", "--verbs=list", "-o", "name"))
		d.text = kubectl(t, c, "", "get", strings.Join(kinds, ","), "-A", "-o", "yaml")
		d.begun = begun
	}
	return d.text
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
	b.leads(lease)
	if err := b.StopProcess(b.t.Context(), sidecar+"@"+b.driver); err != nil {
		b.t.Fatal(err)
	}
}

// leads waits until a sidecar works.
func (b *bench) leads(lease string) {
	b.t.Helper()
	b.until("somebody holds the lease "+lease, func(all objects) bool {
		return slices.ContainsFunc(all.named("Lease", b.home, leaseName(lease)), func(o object) bool { return o.Spec.HolderIdentity != "" })
	})
}

// handedOver waits until the claim was left to its provisioner more than a minute ago.
func (b *bench) handedOver(claim string) {
	b.t.Helper()
	b.until("the provisioner was asked for "+claim+" more than a minute ago", func(all objects) bool {
		return slices.ContainsFunc(all.named("Event", b.ns, claim+"."), func(o object) bool {
			return o.Reason == "ExternalProvisioning" && time.Since(o.Metadata.CreationTimestamp) > time.Minute
		})
	})
}

// leaseName is the name of a lease as the sidecars write it.
func leaseName(name string) string { return strings.ReplaceAll(name, ".", "-") }

func (b *bench) leaseStale(name string) {
	b.t.Helper()
	name = leaseName(name)
	b.until("the lease "+name+" is stale", func(all objects) bool {
		return slices.ContainsFunc(all.named("Lease", b.home, name), func(o object) bool {
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

func (b *bench) bound(claim string) {
	b.t.Helper()
	b.status("PersistentVolumeClaim", claim, "is bound", func(o object) bool { return o.Status.Phase == "Bound" })
	if claim == "data" {
		b.pv = b.find("PersistentVolumeClaim/data").Spec.VolumeName
	}
}

// hold puts a pod with the claim data, of the default driver, on a node. The edits are those of the pod.
func (b *bench) hold(node string, edits ...string) {
	b.t.Helper()
	b.create(claim("loop.csidoctor.dev-now"), edit(edit(pod, edits...), on(node)...))
	b.bound("data")
	b.podReady("app")
}

// refuse makes the default driver fail a call for the volume of the claim data.
func (b *bench) refuse(rpc, text string) {
	b.t.Helper()
	handle := b.find("PersistentVolume/" + b.pv).Spec.CSI.VolumeHandle
	if err := b.Inject(b.t.Context(), defaultDriver, rpc, driver.Fault{Mode: "fail", Code: "Internal", Text: text, Volume: handle}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) delete(objects ...string) {
	b.t.Helper()
	b.kubectl(append([]string{"delete", "--wait=false"}, objects...)...)
}

func (b *bench) gone(kind, name string) {
	b.t.Helper()
	b.until(kind+"/"+name+" is gone", func(all objects) bool {
		return !slices.ContainsFunc(append(all.named(kind, b.ns, name), all.named(kind, "", name)...), func(o object) bool { return o.Metadata.Name == name })
	})
}

// attachment waits for the VolumeAttachment of the claim data to be so.
func (b *bench) attachment(what string, is func(object) bool) {
	b.t.Helper()
	b.until("the VolumeAttachment "+what, func(all objects) bool {
		return slices.ContainsFunc(all, func(o object) bool {
			return o.Kind == "VolumeAttachment" && o.Spec.Source.PersistentVolumeName == b.pv && is(o)
		})
	})
}

// nodeDies ends the kubelet of deadNode, and waits until that is noticed. What runs there runs on.
func (b *bench) nodeDies() {
	b.t.Helper()
	ready := func(status string) func(o object) bool {
		return func(o object) bool { return slices.Contains(o.Status.Conditions, condition{"Ready", status}) }
	}
	if err := b.StopProcess(b.t.Context(), "kubelet@"+deadNode); err != nil && !strings.Contains(err.Error(), "does not run") { // another was first
		b.t.Fatal(err)
	}
	b.status("Node", deadNode, "is seen to be dead", ready("Unknown"))
}

// grow asks for that size of a claim.
func (b *bench) grow(claim, size string) {
	b.t.Helper()
	b.kubectl("patch", "pvc", claim, "-p", `{"spec": {"resources": {"requests": {"storage": "`+size+`"}}}}`)
}

// older waits until the object was made so long ago.
func (b *bench) older(kind, name string, age time.Duration) {
	b.t.Helper()
	b.status(kind, name, "is older than "+age.String(), func(o object) bool { return time.Since(o.Metadata.CreationTimestamp) > age })
}

// grown waits until the expansion of the claim stands so.
func (b *bench) grown(claim, status string) {
	b.t.Helper()
	b.status("PersistentVolumeClaim", claim, "is in "+status, func(o object) bool { return o.Status.AllocatedResourceStatuses["storage"] == status })
}

func (b *bench) kubectl(args ...string) string {
	b.t.Helper()
	return kubectl(b.t, b.Cluster, "", append([]string{"-n", b.ns}, args...)...)
}

// status waits until the object of that name is so.
func (b *bench) status(kind, name, what string, is func(object) bool) {
	b.t.Helper()
	b.until(kind+"/"+name+" "+what, func(all objects) bool {
		found := append(all.named(kind, b.ns, name), all.named(kind, "", name)...)
		return slices.ContainsFunc(found, func(o object) bool { return o.Metadata.Name == name && is(o) })
	})
}

// event waits until the object has so many events of that reason with that text.
func (b *bench) event(object, reason, text string, count int) {
	b.t.Helper()
	b.until(object+" has events of "+reason+" with "+text, func(all objects) bool {
		n := 0
		for _, o := range all.named("Event", b.ns, "") {
			if o.InvolvedObject.Kind+"/"+o.InvolvedObject.Name == object && o.Reason == reason && strings.Contains(o.Message, text) {
				n += o.times()
			}
		}
		return n >= count
	})
}

func (b *bench) until(what string, holds func(objects) bool) {
	b.t.Helper()
	end := time.After(6 * time.Minute)
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
