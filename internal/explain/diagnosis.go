package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// APIVersion of what csidoctor answers.
const APIVersion = "csidoctor.dev/v1alpha1"

// Diagnosis is the answer about one target, in the form that -o json prints (docs/contract.md).
type Diagnosis struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Target     Target    `json:"target"`
	TakenAt    time.Time `json:"takenAt"`
	Verdict    Verdict   `json:"verdict"`
	Hop        HopName   `json:"hop,omitempty"` // the first finding's
	Cause      *Named    `json:"cause,omitempty"`
	Summary    string    `json:"summary"`
	Chains     []Chain   `json:"chains"`
	Findings   []Finding `json:"findings"`
	Gaps       []Gap     `json:"gaps"`
	Notes      []string  `json:"notes,omitempty"` // about the answer itself: consumers left out, clocks that differ

	// Missing: the target does not exist, and nothing that was read tells why.
	Missing bool `json:"-"`
	lacked  bool // something that it asked for was unread, and may be read by the next time
	// Used are all queries that the answer rests on, for the tests that take them away one by one.
	Used []snapshot.Query `json:"-"`
}

// List is the answer about several targets, the worst first.
type List struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"` // DiagnosisList
	TakenAt    time.Time   `json:"takenAt"`
	Verdict    Verdict     `json:"verdict"`
	Items      []Diagnosis `json:"items"`
	Gaps       []Gap       `json:"gaps"`

	// Of a scan, whose items are those alone that are not healthy.
	Counts  map[Verdict]int `json:"counts,omitempty"`  // of all that was looked at, the healthy too
	Younger int             `json:"younger,omitempty"` // left out of items, counts and verdict by Options.MinAge
	Groups  []Group         `json:"groups,omitzero"`
}

// Group is what several answers of a scan have in common: the cause, and the object that explains them all.
type Group struct {
	Cause      string     `json:"cause,omitempty"`
	Hop        HopName    `json:"hop,omitempty"`
	Title      string     `json:"title"`
	Confidence Confidence `json:"confidence,omitempty"`
	Verdict    Verdict    `json:"verdict"`
	Object     *Object    `json:"object,omitempty"`
	Count      int        `json:"count"`
	Since      *time.Time `json:"since,omitempty"` // of the oldest
	Targets    []Target   `json:"targets"`         // the oldest, a few of them
	Command    string     `json:"command"`         // shows more
}

// Target is what was asked about.
type Target struct {
	Kind      string `json:"kind"` // PersistentVolumeClaim, Pod, Node, PersistentVolume, VolumeSnapshot, CSIDriver; of a scan also VolumeAttachment
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Word is the kind as the command line takes it.
func (t Target) Word() string {
	switch t.Kind {
	case "PersistentVolumeClaim":
		return "pvc"
	case "PersistentVolume":
		return "pv"
	case "VolumeSnapshot":
		return "snapshot"
	case "CSIDriver":
		return "driver"
	}
	return strings.ToLower(t.Kind)
}

// Object names one object as evidence or as the place to look at.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Verdict of an answer; see Exit for the status of the process.
type Verdict string

// The verdicts.
const (
	VerdictHealthy      Verdict = "healthy"
	VerdictStuck        Verdict = "stuck"
	VerdictDegraded     Verdict = "degraded"
	VerdictWaiting      Verdict = "waiting"
	VerdictUndetermined Verdict = "undetermined"
)

// verdicts, worst first.
var verdicts = []Verdict{VerdictStuck, VerdictDegraded, VerdictUndetermined, VerdictWaiting, VerdictHealthy}

// Exit is the exit status that belongs to a verdict.
func (v Verdict) Exit() int {
	return map[Verdict]int{VerdictHealthy: 0, VerdictStuck: 2, VerdictDegraded: 3, VerdictWaiting: 4, VerdictUndetermined: 5}[v]
}

// Rank orders verdicts: 0 is the worst.
func (v Verdict) Rank() int {
	for i, w := range verdicts {
		if v == w {
			return i
		}
	}
	return len(verdicts)
}

// Worst of several verdicts; healthy of none.
func Worst(vs ...Verdict) Verdict {
	worst := VerdictHealthy
	for _, v := range vs {
		if v.Rank() < worst.Rank() {
			worst = v
		}
	}
	return worst
}

// Status of one hop.
type Status string

// The statuses of a hop.
const (
	StatusOK       Status = "ok"
	StatusWaiting  Status = "waiting"
	StatusStuck    Status = "stuck"
	StatusDegraded Status = "degraded"
	StatusSkipped  Status = "skipped"
	StatusUnknown  Status = "unknown"
)

// HopName is one step of a volume's way.
type HopName string

// The hops, in the order of the contract.
const (
	HopClaim     HopName = "claim"
	HopProvision HopName = "provision"
	HopBind      HopName = "bind"
	HopSchedule  HopName = "schedule"
	HopAttach    HopName = "attach"
	HopRegister  HopName = "register"
	HopStage     HopName = "stage"
	HopPublish   HopName = "publish"
	HopStart     HopName = "start"
	HopExpand    HopName = "expand"
	HopSnapshot  HopName = "snapshot"
	HopUnpublish HopName = "unpublish"
	HopUnstage   HopName = "unstage"
	HopDetach    HopName = "detach"
	HopDelete    HopName = "delete"
)

// Chain is the way of one volume, to one pod where one uses it.
type Chain struct {
	Claim  *Object `json:"claim,omitempty"`
	Pod    *Object `json:"pod,omitempty"`
	Node   string  `json:"node,omitempty"`
	Driver string  `json:"driver,omitempty"` // of the CSI driver
	Volume string  `json:"volume,omitempty"` // the PV, or the pod's volume for an inline one
	Hops   []Hop   `json:"hops"`
}

// Hop is the state of one step.
type Hop struct {
	Hop    HopName    `json:"hop"`
	Status Status     `json:"status"`
	Since  *time.Time `json:"since,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Object *Object    `json:"object,omitempty"`
	Note   string     `json:"note,omitempty"`

	reached bool                    // it is this step's turn: those after the first open one are not reached
	unread  map[snapshot.Query]bool // what the status was told without
	// A fact without which neither the hop's status nor its causes can be told is not there yet.
	pending bool
	said    string // the error in force, where one holds it up
}

// Confidence of a finding.
type Confidence string

// The confidences: certain where a field, phase, code or the node's report alone proves hop and cause; likely where a text
// says so; possible where it is what is left.
const (
	Certain  Confidence = "certain"
	Likely   Confidence = "likely"
	Possible Confidence = "possible"
)

// Finding is one cause that was found, with its proof and what to do.
type Finding struct {
	Cause      string     `json:"cause"`
	Hop        HopName    `json:"hop"`
	Title      string     `json:"title"`
	Status     Status     `json:"status"` // stuck, degraded or waiting; ok for idle and retained
	Confidence Confidence `json:"confidence"`
	Why        string     `json:"why"`
	Evidence   []Evidence `json:"evidence"`
	Fix        []Step     `json:"fix"`
	Until      *time.Time `json:"until"`
	Docs       string     `json:"docs"`

	// Rest: this is what is left when every better cause is excluded, so it is not said while one of them is unknown.
	Rest bool `json:"-"`
	// Said: an error in force says it. So it is possible while a better one is unread.
	Said bool `json:"-"`
	// Summary is the sentence for the ticket; empty: Why is used.
	Summary string `json:"-"`
	// Where is the node of a hop that is not of the chain which it holds up.
	Where string `json:"-"`
}

// Evidence is one fact: the object, the field, what it said and since when.
type Evidence struct {
	Object Object     `json:"object"`
	Field  string     `json:"field,omitempty"`
	Value  string     `json:"value"`
	At     *time.Time `json:"at,omitempty"`
}

// Danger of a step.
type Danger string

// The dangers: disruptive stops something that works, data-loss can lose or corrupt data.
const (
	DangerNone       Danger = "none"
	DangerDisruptive Danger = "disruptive"
	DangerDataLoss   Danger = "data-loss"
)

// Step of a fix. Unless is the condition that must hold before a dangerous command, shown by the step before it.
type Step struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
	Danger  Danger `json:"danger"`
	Unless  string `json:"unless,omitempty"`
}

// Gap is what could not be seen and how to make it readable.
type Gap struct {
	Input  string  `json:"input"`
	Object *Object `json:"object,omitempty"`
	Reason string  `json:"reason"`
	Detail string  `json:"detail,omitempty"`
	Remedy string  `json:"remedy"`
}

// Named is a cause's id, title and confidence at the top of the answer.
type Named struct {
	ID         string     `json:"id"`
	Title      string     `json:"title"`
	Confidence Confidence `json:"confidence"`
}

// Options are what an answer depends on besides the facts.
type Options struct {
	// Now is the moment by which ages are judged; zero: the Snapshot's TakenAt.
	Now time.Time
	// Kubectl are the flags that every printed kubectl command repeats (--context, --kubeconfig), as the user gave them.
	Kubectl []string
	// Self are those that csidoctor's own commands repeat beside them (--from).
	Self []string
	// MinAge leaves out of a scan what is not well for a shorter time.
	MinAge time.Duration
}

// Wanted are the queries that an answer still needs: neither read nor a gap.
type Wanted = []snapshot.Query

// NewList begins an answer about several targets.
func NewList(s *snapshot.Snapshot) List {
	return List{APIVersion: APIVersion, Kind: "DiagnosisList", TakenAt: s.TakenAt.UTC(), Verdict: VerdictHealthy, Items: []Diagnosis{}, Gaps: []Gap{}}
}

// Add puts answers in, the worst first, and their gaps among the list's.
func (l *List) Add(answers ...Diagnosis) {
	l.Items = append(l.Items, answers...)
	slices.SortStableFunc(l.Items, func(a, b Diagnosis) int {
		return cmp.Or(cmp.Compare(a.Verdict.Rank(), b.Verdict.Rank()), strings.Compare(a.Target.Namespace, b.Target.Namespace), strings.Compare(a.Target.Name, b.Target.Name))
	})
	for _, d := range answers {
		l.Verdict = Worst(l.Verdict, d.Verdict)
		l.addGaps(d.Gaps)
	}
}

func (l *List) addGaps(gaps []Gap) {
	for _, g := range gaps {
		if !slices.ContainsFunc(l.Gaps, func(h Gap) bool { return h.Input == g.Input && h.Reason == g.Reason }) {
			l.Gaps = append(l.Gaps, g)
		}
	}
}

// Since is how long the hop of the answer has not been in order, in the chain that waits longest; nil: nothing tells.
func (d Diagnosis) Since() *time.Time {
	var since *time.Time
	for _, c := range d.Chains {
		for _, h := range c.Hops {
			if h.Hop == d.Hop && h.Status != StatusOK && h.Since != nil && (since == nil || h.Since.Before(*since)) {
				since = h.Since
			}
		}
	}
	return since
}
