package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// fault is brought up beside the others, in a namespace of its name and, with sidecars, with a driver of its own: NAME in the objects.
// What csidoctor is to say is read from the contract, not from what it says.
type fault struct {
	name     string
	rule     string // of the contract, that the expectation rests on
	sidecars []string
	config   driver.Config // with sidecars
	pods     bool          // with sidecars: the driver runs in pods
	slow     bool          // its driver is there before those of others are made
	edits    []string      // of their manifest, in pairs: NAME is the driver
	bring    func(*bench)  // brings up and injects, and returns when the fault is to be seen
	ask      string        // PV is the volume of the claim data
	want     string        // verdict, and the cause or several of which one will do
	mention  string        // a pattern that is in the answer
	logs     string        // what is wanted with --logs, with a line of a log as evidence; empty: is not asked
	also     []question
	dump     bool // is asked about a dump of kubectl too

	probe   bool          // is asked with --probe, and what is then found, waiting apart, is certain: the node's report alone proves it
	without string        // verdict, and cause, where no node is looked at: what the objects alone show; empty: is not asked
	ahead   time.Duration // is asked as if it were so much later, since the normal time of what the objects do not show has to pass

	dies      bool   // calls die, which waits for all others that do, and ends the kubelet of deadNode
	snapshots string // whether the snapshot-controller is there: "served", or "unserved", which comes before; empty: no matter

	// Where want is waiting for a known time: it lasts for the normal time from the deletion of that object, or else from its creation (of one
	// of several, where the contract leaves that), and then it is late's turn.
	of     string
	normal time.Duration
	late   string
}

// question is one more about the same fault, and what is wanted of it.
type question struct{ ask, want string }

func TestFaults(t *testing.T) { run(t, "faults", nil, setupFaults, moreSetupFaults, useFaults) }

func TestTeardown(t *testing.T) { run(t, "teardown", cluster.MoreNodes, teardownFaults, heldFaults) }

// run brings all faults up in one lab with these nodes added.
func run(t *testing.T, lab string, nodes []string, tables ...[]fault) {
	bringUp(t, startNodes(t, lab, nodes...), tables...)
}

func startNodes(t *testing.T, lab string, nodes ...string) *cluster.Cluster {
	needReal(t)
	c, _ := startLab(t, lab)
	var added sync.WaitGroup
	for _, node := range nodes {
		added.Go(func() {
			if err := c.AddNode(t.Context(), node); err != nil {
				t.Error(err)
			}
		})
	}
	added.Wait()
	return c
}

// bringUp gives for each fault what is closed when it was asked about.
func bringUp(t *testing.T, c *cluster.Cluster, tables ...[]fault) map[string]chan struct{} {
	faults := slices.Concat(tables...)
	w, dumps, asker := watch(t, c), &dumps{}, oncall(t, c, slices.ContainsFunc(faults, func(f fault) bool { return f.probe }))
	if flag.Lookup("test.artifacts").Value.String() == "true" {
		t.Cleanup(func() { // while all of them are there
			all := exec.Command(csidoctor, "bundle", "-A", "-f", filepath.Join(t.ArtifactDir(), "all.tar.gz"), "--kubeconfig", c.Kubeconfig())
			if out, err := all.CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		})
	}
	asked := map[string]chan struct{}{}
	var unserved, doomed, early sync.WaitGroup
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			done := make(chan struct{})
			asked[f.name] = done
			defer close(done)
			if f.snapshots == "unserved" {
				unserved.Add(1)
				defer unserved.Done()
			}
			b := &bench{Cluster: c, watcher: w, t: t, ns: f.name, driver: f.name + ".lab.csidoctor.dev", home: "kube-system", kubeconfig: asker, dumps: dumps}
			if f.dies {
				doomed.Add(1)
				ready := sync.OnceFunc(doomed.Done)
				defer ready()
				b.die = func() { ready(); doomed.Wait(); b.nodeDies() }
			}
			installed := func() {}
			if f.slow {
				early.Add(1)
				installed = sync.OnceFunc(early.Done)
				defer installed()
			}
			t.Parallel()
			if f.snapshots == "served" {
				unserved.Wait()
				if err := c.StartProcess(t.Context(), "snapshot-controller"); err != nil {
					t.Fatal(err)
				}
			}
			kubectl(t, c, "", "create", "namespace", b.ns)
			b.until("the namespace has its service account", func(all objects) bool { return len(all.named("ServiceAccount", b.ns, "default")) > 0 })
			switch {
			case f.pods:
				if !f.slow {
					early.Wait()
				}
				b.install(f)
				if f.slow {
					b.kubectlAtHome("rollout", "status", "deployment/csi-controller", "--timeout=2m")
					installed()
				}
			case f.sidecars != nil:
				if err := c.AddDriver(t.Context(), b.driver, f.config, f.sidecars...); err != nil {
					t.Fatal(err)
				}
			}
			defer func() {
				if t.Failed() {
					t.Log(kubectl(t, c, "", "get", "events", "-n", b.ns, "--field-selector", "type=Warning"))
				}
			}()
			f.bring(b)
			b.diagnose(f)
			for _, q := range f.also {
				b.diagnose(fault{name: f.name + " " + q.ask, rule: f.rule, ask: q.ask, want: q.want, probe: f.probe, ahead: f.ahead})
			}
		})
	}
	return asked
}

// diagnose asks the cluster, what was kept of that answer, and a dump.
func (b *bench) diagnose(f fault) {
	var flags []string
	if f.ahead > 0 {
		flags = append(flags, "--at", time.Now().Add(f.ahead).UTC().Format(time.RFC3339))
	}
	if f.without != "" {
		b.check("without the node", b.ask(f.ask, flags...), f.without, f.rule)
	}
	live, bundle := b.twice(f, flags...)
	want := f.want
	if f.normal > 0 {
		begin, last := b.begin(f.of)
		end := begin.Add(f.normal)
		switch {
		case live.TakenAt.Before(end):
			// A few seconds earlier, too: what went before it may be seen better than it is.
			if until := live.until(); until.Before(end.Add(-10*time.Second)) || until.After(last.Add(f.normal+time.Minute)) {
				b.t.Errorf("%s\nwaiting until %v, want %v after %v to %v of %s: %s", live.text, until, f.normal, begin, last, f.of, f.rule)
			}
			late := last.Add(f.normal + time.Minute)
			answer := b.ask(f.ask, "--from", bundle, "--at", late.Format(time.RFC3339))
			b.check("behind the normal time", answer, f.late, f.rule)
			b.mentions(answer, f.mention)
		case live.TakenAt.Before(last.Add(f.normal)):
			b.t.Logf("asked when either is right")
			return
		default:
			b.t.Logf("asked %v behind the normal time", live.TakenAt.Sub(end))
			want = f.late
		}
	}
	b.check("live", live, want, f.rule)
	if f.probe && live.Cause.ID != "" && live.Verdict != "waiting" && live.Cause.Confidence != "certain" {
		b.t.Errorf("%s\nit is %s, want certain: the node's report alone proves it", live.text, live.Cause.Confidence)
	}
	if want != f.want || f.normal == 0 {
		b.mentions(live, f.mention)
	}
	if f.logs != "" {
		logged, _ := b.twice(f, append(flags, "--logs")...)
		b.check("with logs", logged, f.logs, f.rule)
		b.mentions(logged, `"field": "log of `)
	}
	if f.dump {
		dump := b.ask(f.ask, "--from", b.dump())
		if dump.Verdict != "undetermined" || len(dump.Gaps) == 0 {
			b.check("from a dump", dump, want, f.rule)
		}
	}
}

// twice asks the cluster, and what was kept of that answer.
func (b *bench) twice(f fault, flags ...string) (live answer, bundle string) {
	b.t.Helper()
	bundle = filepath.Join(b.t.ArtifactDir(), strings.Join(append(strings.Fields(f.name), flags...), "-")+".tar.gz")
	ask := b.ask
	if f.probe {
		ask = b.askNode
	}
	live = ask(f.ask, append(flags, "--bundle", bundle)...)
	if gaps := forbidden(b.t, live); len(gaps) > 0 {
		b.t.Errorf("deploy/rbac.yaml does not allow all that is asked: %+v", gaps)
	}
	if kept := b.ask(f.ask, append(flags, "--from", bundle)...); !bytes.Equal(live.text, kept.text) {
		b.t.Errorf("the cluster answers:\n%s\nand what was kept of that:\n%s", live.text, kept.text)
	}
	return live, bundle
}

func (b *bench) mentions(a answer, pattern string) {
	b.t.Helper()
	if !regexp.MustCompile(pattern).Match(a.text) {
		b.t.Errorf("%s\nhas no %q", a.text, pattern)
	}
}

// begin is when the first and the last of some objects began to go, or else to be.
func (b *bench) begin(objects string) (first, last time.Time) {
	b.t.Helper()
	for object := range strings.SplitSeq(objects, "|") {
		m := b.find(object).Metadata
		begin := m.CreationTimestamp
		if !m.DeletionTimestamp.IsZero() {
			begin = m.DeletionTimestamp
		}
		if first.IsZero() || begin.Before(first) {
			first = begin
		}
		if begin.After(last) {
			last = begin
		}
	}
	return first, last
}

// check compares an answer with what it is to be: "stuck attach/permission".
func (b *bench) check(when string, a answer, want, rule string) {
	verdict, causes, _ := strings.Cut(want, " ")
	hop, _, _ := strings.Cut(causes, "/")
	exit := map[string]int{"healthy": 0, "stuck": 2, "degraded": 3, "waiting": 4, "undetermined": 5}[verdict]
	if a.Verdict != verdict || a.Hop != hop || !slices.Contains(strings.Split(causes, "|"), a.Cause.ID) {
		b.t.Errorf("%s\n%s: %s %s, want %s: %s\n%s", a.text, when, a.Verdict, a.Cause.ID, want, rule, a.Summary)
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
		"healthy":  {"ok", "skipped"},
		"waiting":  {"ok", "skipped", "waiting"},
		"degraded": {"ok", "skipped", "waiting", "degraded"},
		"stuck":    {"ok", "skipped", "waiting", "degraded", "stuck"},
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
	Summary string
	Cause   struct{ ID, Confidence string }
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
