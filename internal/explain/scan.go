package explain

import (
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	fewQueries  = 8  // of one resource are put as they are; a list stands in for more
	manyQueries = 50 // are not put at all where that list was refused
)

// Scan answers about everything in a namespace that has to do with volumes, or in all of them where it is empty: every claim, and
// whatever no claim's answer speaks of. What is healthy is only counted.
func Scan(s *snapshot.Snapshot, namespace string, o Options) (List, Wanted) {
	return NewScanner(namespace, o).Scan(s)
}

// Scanner scans a Snapshot again and again while it grows. An answer that lacked nothing is not made anew: most are right after the
// first lists, and there are thousands.
type Scanner struct {
	namespace string
	options   Options
	flooded   map[string]bool
	final     map[Target]*Diagnosis
}

// NewScanner is for scans of one namespace, or of all where it is empty.
func NewScanner(namespace string, o Options) *Scanner {
	return &Scanner{namespace, o, map[string]bool{}, map[Target]*Diagnosis{}}
}

// Scan answers from what the Snapshot holds by now.
func (n *Scanner) Scan(s *snapshot.Snapshot) (List, Wanted) {
	for {
		sc := &scan{Scanner: n, list: NewList(s), answers: map[Target]*Diagnosis{}}
		for range runtime.GOMAXPROCS(0) {
			w := newWorld(s, n.options)
			w.flooded = n.flooded
			sc.worlds = append(sc.worlds, w)
		}
		sc.world = sc.worlds[0]
		sc.run()
		wanted, flood := sc.open()
		if len(flood) == 0 {
			return sc.list, wanted
		}
		for _, resource := range flood {
			n.flooded[resource] = true
		}
	}
}

// scan is a List while it is made.
type scan struct {
	*world
	*Scanner
	worlds  []*world // one for each core: what a world remembers is not for several goroutines
	list    List
	answers map[Target]*Diagnosis // nil: healthy, or the object does not exist
	unwell  []*Diagnosis
	healthy int
}

func (sc *scan) run() {
	claims := everything[*corev1.PersistentVolumeClaim](sc, inClaims, sc.namespace, true)
	pods := everything[*corev1.Pod](sc, inPods, sc.namespace, true)
	events := everything[*corev1.Event](sc, inEvents, sc.namespace, false)
	cuts := everything[*snapshotv1.VolumeSnapshot](sc, inSnapshots, sc.namespace, false)
	volumes := everything[*corev1.PersistentVolume](sc, inVolumes, "", sc.namespace == "")
	attachments := everything[*storagev1.VolumeAttachment](sc, inAttachments, "", sc.namespace == "")
	for _, in := range []Input{inNodes, inClasses, inDrivers, inCSINodes, inDaemonSets} { // each serves many answers
		sc.complete(snapshot.Query{Resource: in.Resource}, 0)
	}
	// So does what the nodes report: no answer that is right already waits for it then.
	sc.complete(snapshot.Query{Resource: inReports.Resource}, 0)
	hosts := map[string]bool{}
	for _, p := range pods {
		hosts[p.Spec.NodeName] = true
	}
	for node := range hosts {
		sc.report(node) // of no node it asks nothing
	}
	if len(sc.wanted) > 0 {
		return // all answers would be made again
	}
	var targets []Target
	for _, c := range claims {
		targets = append(targets, Target{"PersistentVolumeClaim", c.Namespace, c.Name})
	}
	sc.ask((*world).explain, append(targets, sc.refused(events)...))
	targets = nil
	for _, p := range pods {
		if sc.podAlone(p) {
			targets = append(targets, Target{"Pod", p.Namespace, p.Name})
		}
	}
	for _, pv := range volumes {
		if sc.volumeAlone(pv) {
			targets = append(targets, Target{Kind: "PersistentVolume", Name: pv.Name})
		}
	}
	for _, at := range attachments {
		if t, alone := sc.attachmentAlone(at); alone {
			targets = append(targets, t)
		}
	}
	for _, s := range cuts {
		if !(cut{VolumeSnapshot: s}).ready() || s.DeletionTimestamp != nil {
			targets = append(targets, Target{"VolumeSnapshot", s.Namespace, s.Name})
		}
	}
	sc.ask((*world).explain, targets)
	if sc.namespace == "" {
		targets = nil
		nodes, _ := sc.nodes()
		for _, n := range nodes {
			if r, _ := sc.report(n.Name); r != nil {
				targets = append(targets, Target{Kind: "Node", Name: n.Name})
			}
		}
		sc.ask(func(w *world, t Target) (Diagnosis, Wanted) {
			return w.answered(t, func(a *answer) { a.leftovers(t.Name) })
		}, targets)
	}
	sc.judge()
}

// everything lists a kind, and notes where that could not be done in full; needed: without it nothing can be called healthy.
func everything[T snapshot.Object](sc *scan, in Input, namespace string, needed bool) []T {
	q := snapshot.Query{Resource: in.Resource, Namespace: namespace}
	all, known := list[T](sc.world, in, q)
	if known == Unknown {
		a := &answer{world: sc.world, gaps: map[snapshot.Query]bool{q: true}}
		a.writeGaps()
		sc.list.addGaps(a.Gaps)
		if needed {
			sc.list.Verdict = Worst(sc.list.Verdict, VerdictUndetermined)
		}
	}
	return all
}

// ask answers about each target once, on all cores, and puts the answers in in the targets' order.
func (sc *scan) ask(answer func(*world, Target) (Diagnosis, Wanted), targets []Target) {
	targets = slices.DeleteFunc(targets, func(t Target) bool {
		_, known := sc.answers[t]
		if !known {
			sc.answers[t] = nil
		}
		return known
	})
	answers := make([]*Diagnosis, len(targets))
	var taken atomic.Int64
	var all sync.WaitGroup
	for _, w := range sc.worlds {
		all.Go(func() {
			for i := taken.Add(1) - 1; i < int64(len(targets)); i = taken.Add(1) - 1 {
				if answers[i] = sc.final[targets[i]]; answers[i] != nil {
					continue
				}
				d, wanted := answer(w, targets[i])
				for _, q := range wanted {
					w.wanted[q] = true
				}
				if d.Missing || d.Verdict == VerdictHealthy { // the rest of it is not needed
					d = Diagnosis{Missing: d.Missing, Verdict: d.Verdict, lacked: d.lacked}
				}
				answers[i] = &d
			}
		})
	}
	all.Wait()
	for _, w := range sc.worlds {
		maps.Copy(sc.wanted, w.wanted)
	}
	for i, d := range answers {
		if !d.lacked {
			sc.final[targets[i]] = d
		}
		switch {
		case d.Missing:
		case d.Verdict == VerdictHealthy:
			sc.healthy++
		default:
			sc.answers[targets[i]] = d
			sc.unwell = append(sc.unwell, d)
		}
	}
}

// claimNamed are the words around the name of a claim that is refused: the StatefulSet controller's, and the API server's.
var claimNamed = regexp.MustCompile(`(?i)create claim ([a-z0-9][a-z0-9.-]*)|persistentvolumeclaims? "([a-z0-9][a-z0-9.-]*)"`)

// refused are the claims that the API server would not let be made, by the events of whoever wanted them.
func (sc *scan) refused(events []*corev1.Event) []Target {
	var out []Target
	for _, e := range events {
		namespace := e.InvolvedObject.Namespace
		if e.Type != corev1.EventTypeWarning || namespace == "" || !strings.Contains(e.Message, "laim") { // cheap, for there are many
			continue
		}
		m := claimNamed.FindStringSubmatch(e.Message)
		if m == nil || sc.told(refusedWords, e.Message) == "" {
			continue
		}
		if _, known := get[*corev1.PersistentVolumeClaim](sc.world, inClaims, namespace, m[1]+m[2]); known == No {
			out = append(out, Target{"PersistentVolumeClaim", namespace, m[1] + m[2]})
		}
	}
	return out
}

// podAlone: the pod has a volume of which no claim's answer speaks: an inline one, or one whose claim does not exist.
func (sc *scan) podAlone(p *corev1.Pod) bool {
	if finished(p) && p.DeletionTimestamp == nil && p.Status.Reason != reasonLimit {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(vol corev1.Volume) bool {
		claim := claimOfVolume(p, &vol)
		if claim == "" {
			return vol.CSI != nil
		}
		_, known := get[*corev1.PersistentVolumeClaim](sc.world, inClaims, p.Namespace, claim)
		return known != Yes || finished(p) // a finished pod is no user of its claim
	})
}

// volumeAlone: no claim's answer speaks of the volume, and it is not simply free.
func (sc *scan) volumeAlone(pv *corev1.PersistentVolume) bool {
	r := pv.Spec.ClaimRef
	if r == nil {
		left, _ := sc.attachmentsOf(pv.Name)
		return sc.namespace == "" && (pv.DeletionTimestamp != nil || pv.Status.Phase == corev1.VolumeFailed || len(left) > 0)
	}
	if sc.namespace != "" && r.Namespace != sc.namespace {
		return false
	}
	claim, known := get[*corev1.PersistentVolumeClaim](sc.world, inClaims, r.Namespace, r.Name)
	return known == No || known == Yes && !has(claim, pv) || known == Unknown && sc.unclaimed(pv)
}

// attachmentAlone: the attachment's volume is gone; or its claim is used on other nodes alone, and the claim's answer does not
// speak of this one.
func (sc *scan) attachmentAlone(at *storagev1.VolumeAttachment) (Target, bool) {
	name := at.Spec.Source.PersistentVolumeName
	if name == nil {
		return Target{}, false
	}
	pv, known := sc.volumeNamed(*name)
	if known != Yes {
		return Target{Kind: "PersistentVolume", Name: *name}, known == No && sc.namespace == ""
	}
	r := pv.Spec.ClaimRef
	if r == nil || sc.namespace != "" && r.Namespace != sc.namespace || at.DeletionTimestamp == nil && sc.age(at.CreationTimestamp.Time) < normalAttach {
		return Target{}, false
	}
	users, usersKnown := sc.consumers(r.Namespace, r.Name)
	users = slices.DeleteFunc(users, finished)
	if usersKnown != Yes || len(users) == 0 || slices.ContainsFunc(users, func(p *corev1.Pod) bool { return p.Spec.NodeName == at.Spec.NodeName }) {
		return Target{}, false
	}
	d := sc.answers[Target{"PersistentVolumeClaim", r.Namespace, r.Name}]
	return Target{Kind: "VolumeAttachment", Name: at.Name}, d == nil || !d.speaksOf(ref(at), Object{Kind: "Node", Name: at.Spec.NodeName})
}

// speaksOf: one of the objects is evidence of a finding.
func (d *Diagnosis) speaksOf(objects ...Object) bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(e Evidence) bool { return slices.Contains(objects, e.Object) })
	})
}

// judge puts what is not well into the list, each fault once.
func (sc *scan) judge() {
	counts := map[Verdict]int{VerdictHealthy: sc.healthy}
	var items []Diagnosis
	for _, d := range sc.unwell {
		since := d.Since()
		switch {
		case sc.echo(d):
		case sc.options.MinAge > 0 && since != nil && sc.age(*since) < sc.options.MinAge:
			sc.list.Younger++
		default:
			counts[d.Verdict]++
			items = append(items, *d)
		}
	}
	sc.list.Counts = counts
	sc.list.Add(items...)
	sc.list.Groups = sc.groups(sc.list.Items)
}

// echo: the answer about a claim says the same.
func (sc *scan) echo(d *Diagnosis) bool {
	return slices.ContainsFunc(d.Chains, func(c Chain) bool {
		if c.Claim == nil || Target(*c.Claim) == d.Target {
			return false
		}
		claim := sc.answers[Target(*c.Claim)]
		return claim != nil && claim.Verdict == d.Verdict && claim.fault() == d.fault()
	})
}

// fault is the cause's id, or where that is not known the hop.
func (d *Diagnosis) fault() string {
	if d.Cause != nil {
		return d.Cause.ID
	}
	return string(d.Hop)
}

// open are the queries that are still wanted, with one list in place of many. Where that list was refused and there are too many
// of them to ask one by one, none is wanted, and the resource is named.
func (sc *scan) open() (wanted Wanted, flood []string) {
	byResource := map[string]Wanted{}
	for _, q := range sortedQueries(sc.wanted) {
		byResource[q.Resource] = append(byResource[q.Resource], q)
	}
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		queries := byResource[resource]
		wide := snapshot.Query{Resource: resource, Namespace: queries[0].Namespace}
		if queries[len(queries)-1].Namespace != wide.Namespace { // they are sorted
			wide.Namespace = ""
		}
		switch g := sc.facts.GapOf(wide); {
		case len(queries) <= fewQueries || !listable(resource):
			wanted = append(wanted, queries...)
		case !sc.facts.Tried(wide):
			wanted = append(wanted, wide)
		case len(queries) > manyQueries && g.Reason != "not-collected": // files cost nothing to ask
			flood = append(flood, resource)
		default:
			wanted = append(wanted, queries...)
		}
	}
	return wanted, flood
}

func listable(resource string) bool {
	return slices.ContainsFunc(Inputs, func(in Input) bool { return in.Resource == resource && slices.Contains(in.Verbs, "list") })
}
