package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// maxConsumers is how many pods of one claim are walked; of more, the oldest waiting ones.
const maxConsumers = 10

// Explain answers about one target from what the Snapshot holds. The queries it returns are those it would still need; while
// there are any the answer is provisional.
func Explain(s *snapshot.Snapshot, t Target, o Options) (Diagnosis, Wanted) {
	return newWorld(s, o).explain(t)
}

func newWorld(s *snapshot.Snapshot, o Options) *world {
	return &world{facts: s, taken: s.TakenAt, now: cmp.Or(o.Now, s.TakenAt), kubectl: o.Kubectl,
		used: map[snapshot.Query]bool{}, spare: map[snapshot.Query]bool{}, wanted: map[snapshot.Query]bool{}, flooded: map[string]bool{},
		memo: map[string]string{}, reports: map[string][]report{}, shared: map[string]*shared{}, lists: map[snapshot.Query]any{}}
}

// explain answers about one target. What the facts tell is worked out once for all answers of a world; what was asked is noted
// for each.
func (w *world) explain(t Target) (Diagnosis, Wanted) {
	return w.answered(t, func(a *answer) {
		switch t.Kind {
		case "PersistentVolumeClaim":
			a.claim(t.Namespace, t.Name)
		case "Pod":
			a.pod(t.Namespace, t.Name)
		case "Node":
			a.node(t.Name)
		case "PersistentVolume":
			a.volume(t.Name)
		case "VolumeSnapshot":
			a.snapshot(t.Namespace, t.Name)
		case "CSIDriver":
			a.driver(t.Name)
		case "VolumeAttachment":
			a.attachment(t.Name)
		}
	})
}

func (w *world) answered(t Target, by func(*answer)) (Diagnosis, Wanted) {
	own := *w
	clear(w.spare)
	own.asked, own.used, own.wanted, own.unread, own.lacked = t, w.spare, map[snapshot.Query]bool{}, nil, false
	a := &answer{world: &own, gaps: map[snapshot.Query]bool{}}
	a.APIVersion, a.Kind, a.Target, a.TakenAt = APIVersion, "Diagnosis", t, w.taken.UTC()
	a.Chains, a.Findings, a.Gaps, a.Verdict = []Chain{}, []Finding{}, []Gap{}, VerdictHealthy
	by(a)
	a.finish()
	a.Diagnosis.lacked = own.lacked || len(own.wanted) > 0
	return a.Diagnosis, sortedQueries(own.wanted)
}

func sortedQueries(set map[snapshot.Query]bool) []snapshot.Query {
	out := make([]snapshot.Query, 0, len(set))
	for q := range set {
		out = append(out, q)
	}
	slices.SortFunc(out, snapshot.Query.Compare)
	return out
}

// answer is a Diagnosis while it is made.
type answer struct {
	*world
	Diagnosis
	open bool                    // of a volume no cause was told, and what is unread may have one
	gaps map[snapshot.Query]bool // unread, and the answer could be another one with it
}

// claim asks about a claim: one chain for each pod that uses it, one without a pod where none does.
func (a *answer) claim(namespace, name string) {
	a.eventsOf("PersistentVolumeClaim", namespace, name, "") // asked for early: it will be needed, and saves a round
	pods, podsKnown := a.consumers(namespace, name)
	v := a.view(namespace, name, nil, nil)
	a.Missing = v.claimKnown == No
	if v.claimKnown == Unknown {
		a.unseen(snapshot.Query{Resource: inClaims.Resource, Namespace: namespace, Name: name})
		return
	}
	active := slices.DeleteFunc(pods, finished)
	if len(active) == 0 {
		if podsKnown == Unknown {
			a.unseen(snapshot.Query{Resource: inPods.Resource, Namespace: namespace}) // a pod may wait for it
		}
		a.examine(v)
		a.leftStaged(v)
		a.idle(v)
		return
	}
	if len(active) > 2 { // one question instead of one a pod
		list[*corev1.Event](a.world, inEvents, snapshot.Query{Namespace: namespace, Fields: "involvedObject.kind=Pod"})
	}
	slices.SortStableFunc(active, func(p, q *corev1.Pod) int { return boolOrder(ready(p), ready(q)) })
	if n := len(active) - maxConsumers; n > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d pods use the claim: the %d oldest of those that wait, then of the others, were looked at", len(active), maxConsumers))
		active = active[:maxConsumers]
	}
	for _, p := range active {
		a.examine(a.view(namespace, name, p, volumeOfClaim(p, name)))
	}
}

// idle says of a claim that is in order and that no pod uses, that this is all right.
func (a *answer) idle(v *View) {
	if a.Verdict != VerdictHealthy || len(a.Findings) > 0 || a.asked.Kind != "PersistentVolumeClaim" {
		return
	}
	v.block = HopSchedule
	if f, known := idleCause.Match(v); known == Yes {
		a.add(idleCause.complete(f))
	}
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// pod asks about a pod: one chain for each of its volumes that a claim or a CSI driver gives.
func (a *answer) pod(namespace, name string) {
	a.eventsOf("Pod", namespace, name, "")
	p, known := get[*corev1.Pod](a.world, inPods, namespace, name)
	a.Missing = known == No
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inPods.Resource, Namespace: namespace, Name: name})
	}
	if known != Yes {
		return
	}
	if !a.volumesOf(p) {
		a.Notes = append(a.Notes, "the pod has no volume of a claim or a CSI driver")
	}
}

// volumesOf examines each volume of a pod that a claim or a CSI driver gives; false: it has none.
func (a *answer) volumesOf(p *corev1.Pod) bool {
	if claimsOf(p) > 5 { // one question instead of one a claim
		list[*corev1.PersistentVolumeClaim](a.world, inClaims, snapshot.Query{Namespace: p.Namespace})
		list[*corev1.Event](a.world, inEvents, snapshot.Query{Namespace: p.Namespace, Fields: "involvedObject.kind=PersistentVolumeClaim"})
	}
	found := false
	for i := range p.Spec.Volumes {
		vol := &p.Spec.Volumes[i]
		if vol.CSI == nil && claimOfVolume(p, vol) == "" {
			continue
		}
		found = true
		v := a.view(p.Namespace, claimOfVolume(p, vol), p, vol)
		v.others = true
		a.examine(v)
	}
	return found
}

// examine walks one view's chain, asks the causes where it stops, and adds what it found.
func (a *answer) examine(v *View) {
	blocks := v.chain()
	for _, b := range blocks {
		h := v.hop(b)
		if h.pending {
			continue // provisional: what the hop needs is being read
		}
		v.block = b
		f, unknown := v.causes(b)
		a.open = a.open || f == nil && len(unknown) > 0
		for _, queries := range []map[snapshot.Query]bool{unknown, v.base, h.unread} {
			for q := range queries {
				a.gap(q)
			}
		}
		for _, other := range v.hops {
			if h.Status == StatusUnknown && other.Status == StatusUnknown {
				for q := range other.unread {
					a.gap(q)
				}
			}
		}
		switch {
		case f != nil:
			v.setStatus(b, f.Status, f.Until)
			v.setStatus(f.Hop, f.Status, f.Until)
			a.add(*f)
			if b == HopAttach && f.Status == StatusWaiting { // whoever asks a bundle later will want it
				v.ahead(func() {
					held, _ := v.heldElsewhere()
					for _, h := range held {
						v.nodeSide(h.Name)
					}
				})
			}
			if !slices.ContainsFunc(v.shown(), func(h Hop) bool { return h.Hop == f.Hop }) {
				a.Chains = append(a.Chains, v.otherPlace(*f))
			}
		case (b == HopStage || b == HopPublish) && h.Status == StatusStuck && v.kubeletUnheard():
			// Staging, publishing or starting: the kubelet's word alone tells them apart.
			v.setStatus(b, StatusUnknown, nil)
			a.Verdict = Worst(a.Verdict, VerdictUndetermined)
		case h.Status == StatusUnknown || h.Status == StatusWaiting && len(unknown)+len(v.base) > 0:
			a.Verdict = Worst(a.Verdict, VerdictUndetermined)
		default:
			a.Verdict = Worst(a.Verdict, Verdict(h.Status))
		}
	}
	c := Chain{Node: v.Node, Driver: v.Driver, Volume: v.volumeName(), Hops: v.shown()}
	if v.ClaimName != "" {
		o := v.claimObject()
		c.Claim = &o
	}
	if v.At != nil {
		c.Node = v.At.Spec.NodeName
	}
	if v.Pod != nil {
		o := ref(v.Pod)
		c.Pod = &o
	}
	a.Chains = append(a.Chains, c)
}

// kubeletUnheard: the events of the pod could not be read, and nobody could look at its node's mounts.
func (v *View) kubeletUnheard() bool {
	events, known := v.podEvents()
	n, _ := v.probed(v.Node)
	return known == Unknown && len(events) == 0 && (n == nil || len(n.table) == 0)
}

// otherPlace is the chain of what is at fault elsewhere and holds this one up: the volume's way off another node, or the snapshot
// that it is made from.
func (v *View) otherPlace(f Finding) Chain {
	c := Chain{Node: f.Where, Driver: v.Driver, Volume: v.volumeName(), Hops: []Hop{{Hop: f.Hop, Status: f.Status, Until: f.Until, Note: f.Title}}}
	if v.ClaimName != "" {
		o := v.claimObject()
		c.Claim = &o
	}
	teardown := []HopName{HopUnpublish, HopUnstage, HopDetach}
	for _, next := range teardown[slices.Index(teardown, f.Hop)+1:] {
		if f.Where != "" {
			c.Hops = append(c.Hops, Hop{Hop: next, Status: StatusWaiting})
		}
	}
	return c
}

// unseen: the target itself, or whether a pod uses it, could not be read.
func (a *answer) unseen(q snapshot.Query) {
	a.Verdict = Worst(a.Verdict, VerdictUndetermined)
	a.gap(q)
}

// causes asks, for the hop at which the chain stops, the causes of that hop and of those that break it from upstream. The
// first that holds is the finding. An unknown one before it could be the better answer: then the finding is at most likely,
// and one that is only what is left is not said, or is possible where an error says it of a hop that is stuck.
func (v *View) causes(block HopName) (*Finding, map[snapshot.Query]bool) {
	unknown := map[snapshot.Query]bool{}
	var f Finding // one for all: it is large, and most causes do not hold
	var t Truth
	for _, c := range catalogue {
		if !slices.Contains(asksAt[block], c.Hop()) {
			continue
		}
		unread := v.scope(func() { f, t = c.Match(v) })
		switch {
		case t == Unknown:
			for q := range unread {
				unknown[q] = true
			}
		case t == Yes && f.Rest && len(unknown) > 0 && !(f.Said && v.hop(block).Status == StatusStuck):
			return nil, unknown
		case t == Yes:
			f = c.complete(f)
			switch {
			case len(unknown) > 0 && f.Rest:
				f.Confidence = Possible
			case len(unknown) > 0 && f.Confidence == Certain:
				f.Confidence = Likely
			}
			for q := range unread { // it holds without these, and would be surer with them
				unknown[q] = true
			}
			return &f, unknown
		}
	}
	return nil, unknown
}

// complete gives a finding its cause's names, and what is not said otherwise.
func (c Cause) complete(f Finding) Finding {
	f.Cause, f.Hop, f.Title, f.Docs = c.ID, c.Hop(), cmp.Or(f.Title, c.Title), c.Docs()
	f.Status, f.Confidence = cmp.Or(f.Status, StatusStuck), cmp.Or(f.Confidence, Likely)
	return f
}

// setStatus lets a finding correct what the structure alone said of a hop.
func (v *View) setStatus(name HopName, s Status, until *time.Time) {
	for i := range v.hops {
		if v.hops[i].Hop == name {
			v.hops[i].Status, v.hops[i].Until = s, nil
			if s == StatusWaiting {
				v.hops[i].Until = until
			}
		}
	}
}

// shown are the hops in the contract's order, without the side and teardown hops that do not apply.
func (v *View) shown() []Hop {
	out := make([]Hop, 0, len(v.hops))
	for _, name := range shown {
		h := v.hop(name)
		optional := len(v.only) > 0 || slices.Index(shown, name) >= slices.Index(shown, HopExpand)
		if optional && h.Status == StatusSkipped {
			continue
		}
		out = append(out, h)
	}
	return out
}

// add puts a finding into the answer; the same cause of another pod is the same finding, and the worse one of the two is it.
func (a *answer) add(f Finding) {
	a.Verdict = Worst(a.Verdict, verdictOf(f.Status))
	for i, have := range a.Findings {
		if have.Cause == f.Cause {
			if verdictOf(f.Status).Rank() < verdictOf(have.Status).Rank() {
				a.Findings[i] = f
			}
			return
		}
	}
	a.Findings = append(a.Findings, f)
}

func verdictOf(s Status) Verdict {
	switch s {
	case StatusStuck, StatusDegraded, StatusWaiting:
		return Verdict(s)
	case StatusUnknown:
		return VerdictUndetermined
	}
	return VerdictHealthy
}

// gap notes that a query was not answered and that the answer could be another one with it.
func (a *answer) gap(q snapshot.Query) { a.gaps[q] = true }

// explained are findings that another one of the same answer makes: they are none of their own.
var explained = map[string][]string{
	"attach/multi-attach-terminating": {"unpublish/in-progress"},
	"attach/multi-attach-transient":   {"unpublish/in-progress"},
}

// finish orders the findings, writes the gaps and the sentence for the ticket.
func (a *answer) finish() {
	for _, by := range slices.Clone(a.Findings) {
		a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool { return slices.Contains(explained[by.Cause], f.Cause) })
	}
	rank := func(f Finding) int { return verdictOf(f.Status).Rank() }
	slices.SortStableFunc(a.Findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(catalogued(x.Cause), catalogued(y.Cause)))
	})
	unseen := a.open || slices.ContainsFunc(a.Chains, func(c Chain) bool {
		return slices.ContainsFunc(c.Hops, func(h Hop) bool { return h.Status == StatusUnknown })
	})
	if len(a.Findings) > 1 || unseen { // one volume of a pod is at fault, or may be: that the others are not is no finding
		a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool { return f.Cause == "start/not-the-volume" })
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		f.Evidence = append([]Evidence{}, f.Evidence...) // other answers may share it
		if f.Fix == nil {
			f.Fix = []Step{}
		}
		for j := range f.Evidence {
			f.Evidence[j].Value = clean(f.Evidence[j].Value)
		}
		f.Why = clean(f.Why)
	}
	a.Used = sortedQueries(a.used)
	a.writeGaps()
	if len(a.Findings) > 0 && rank(a.Findings[0]) == a.Verdict.Rank() {
		f := a.Findings[0]
		a.Hop, a.Cause = f.Hop, &Named{f.Cause, f.Title, f.Confidence}
		a.Missing = false
	} else if a.Verdict == VerdictDegraded && len(a.Gaps) > 0 {
		a.Verdict = VerdictUndetermined // what is not well is known only with what could not be read
	} else if a.Verdict == VerdictStuck { // the hop is known, and not the cause
		for _, c := range a.Chains {
			if i := slices.IndexFunc(c.Hops, func(h Hop) bool { return h.Status == StatusStuck }); i >= 0 {
				a.Hop = c.Hops[i].Hop
				break
			}
		}
	}
	a.Summary = clean(a.summary())
}

// writeGaps says of what could not be read and matters why, and how to make it readable.
func (a *answer) writeGaps() {
	for _, q := range sortedQueries(a.gaps) {
		g := a.facts.GapOf(q)
		if g == nil {
			continue
		}
		out := Gap{Input: g.Input, Reason: g.Reason, Detail: clean(g.Detail), Remedy: cmp.Or(g.Remedy, remedy(q))}
		if q.Resource == inReports.Resource {
			out.Input, out.Object = "node-report", &Object{Kind: "Node", Name: q.Name}
		}
		if !slices.ContainsFunc(a.Gaps, func(h Gap) bool { return h.Reason == out.Reason && out.sameInput(h) }) {
			a.Gaps = append(a.Gaps, out)
		}
	}
	for _, q := range a.Used {
		if q.Resource == inReports.Resource && q.Name != "" {
			a.Gaps = append(a.Gaps, a.untold(q.Name)...)
		}
	}
}

// remedy says how to make a query readable where its gap does not.
func remedy(q snapshot.Query) string {
	verb := "list"
	if q.Name != "" {
		verb = "get"
	}
	return fmt.Sprintf("allow %s of %s (deploy/rbac.yaml has the role), or collect it: `kubectl get %s -A -o yaml`", verb, q.Resource, quote(q.Resource))
}

// summary is one sentence that an engineer can paste into a ticket.
func (a *answer) summary() string {
	what := strings.TrimPrefix(a.Target.Namespace+"/"+a.Target.Name, "/")
	who := a.Target.Kind + " " + what
	if len(a.Findings) > 0 && a.Cause != nil {
		f := a.Findings[0]
		return fmt.Sprintf("%s is %s at %s: %s", who, a.Verdict, f.Hop, cmp.Or(f.Summary, f.Why, f.Title))
	}
	var where, said []string
	for _, c := range a.Chains {
		for _, h := range c.Hops {
			if h.Status == Status(a.Verdict) || a.Verdict == VerdictUndetermined && h.Status == StatusUnknown {
				if h.said != "" {
					said = append(said, h.said)
				}
				where = append(where, strings.TrimSuffix(string(h.Hop)+": "+h.Note, ": "))
				break
			}
		}
	}
	slices.Sort(where)
	detail := strings.Join(slices.Compact(where), "; ")
	var inputs []string
	for _, g := range a.Gaps {
		inputs = append(inputs, g.Input)
	}
	unread := strings.Join(slices.Compact(inputs), ", ")
	switch {
	case a.Verdict == VerdictHealthy:
		return who + " is healthy: " + a.works()
	case a.Verdict == VerdictUndetermined:
		return fmt.Sprintf("%s: what is wrong cannot be told without %s", who, cmp.Or(unread, "more"))
	case a.open && unread != "":
		return fmt.Sprintf("%s is %s (%s), and why cannot be told without %s", who, a.Verdict, detail, unread)
	}
	unexplained := fmt.Sprintf("%s is %s (%s), and no known cause explains it", who, a.Verdict, detail)
	if len(said) > 0 {
		unexplained += "; what was said last: " + slices.Min(said)
	}
	return unexplained
}

// works says of a healthy answer what it rests on.
func (a *answer) works() string {
	var pods, others []string
	for _, c := range a.Chains {
		if c.Pod == nil {
			continue
		}
		if slices.ContainsFunc(c.Hops, func(h Hop) bool { return h.Status != StatusOK && h.Status != StatusSkipped }) {
			others = append(others, c.Pod.Namespace+"/"+c.Pod.Name)
		} else {
			pods = append(pods, c.Pod.Namespace+"/"+c.Pod.Name)
		}
	}
	names := func(all []string) string {
		slices.Sort(all)
		return strings.Join(slices.Compact(all), ", ")
	}
	switch {
	case len(others) > 0:
		return "what these pods wait for does not lie there: " + names(others)
	case len(pods) > 0:
		return "mounted in " + names(pods)
	}
	return "nothing is wrong"
}

const maxValue = 1024 // the API server's own limit for an event's or a VolumeAttachment's message

// clean makes text from the cluster harmless: control characters and what steers a terminal or the direction of text become
// spaces, and it is cut to a sane length.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff:
			return ' '
		}
		return r
	}, s)
	if len(s) > maxValue {
		cut := maxValue
		for cut > 0 && s[cut]&0xc0 == 0x80 {
			cut--
		}
		s = s[:cut] + "..."
	}
	return s
}
