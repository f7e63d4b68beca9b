package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// report is one event as it counts: with the prefix of folded events taken off, one source and two times.
type report struct {
	Object      Object
	Reason      string
	Message     string
	Source      string // component or reporting controller
	Host        string // kubelet: the node
	Warning     bool
	First, Last time.Time
	Count       int
}

// eventsOf gives what was said about one object, oldest first. Events of an older object of the same name are left out:
// uid may be empty where the object does not exist.
func (w *world) eventsOf(kind, namespace, name, uid string) ([]report, Truth) {
	where := namespace
	if where == "" {
		where = "default" // events of cluster-scoped objects are kept there
	}
	q := snapshot.Query{Resource: inEvents.Resource, Namespace: where, Fields: "involvedObject.kind=" + kind + ",involvedObject.name=" + name}
	all := Unknown
	if w.complete(q, 0) {
		all = Yes
	}
	object := where + "/" + kind + "/" + name
	key := object + " " + uid // the same are asked for by many causes
	if have, ok := w.reports[key]; ok {
		return have, all
	}
	var out []report
	byObject := grouped(w, inEvents, "object", func(e *corev1.Event) []string {
		return []string{e.Namespace + "/" + e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name}
	})
	for _, e := range byObject[object] {
		if got := string(e.InvolvedObject.UID); uid != "" && got != "" && got != uid && got != name { // kubelet names a node as its uid
			continue
		}
		out = append(out, newReport(e))
	}
	sortReports(out)
	out = slices.Clip(out)
	w.reports[key] = out
	return out, all
}

// sortReports puts the oldest first.
func sortReports(out []report) {
	slices.SortStableFunc(out, func(a, b report) int {
		return cmp.Or(a.Last.Compare(b.Last), a.First.Compare(b.First), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message),
			strings.Compare(a.Object.Kind, b.Object.Kind), strings.Compare(a.Object.Name, b.Object.Name))
	})
}

func newReport(e *corev1.Event) report {
	r := report{Object: Object{e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name}, Reason: e.Reason,
		Message: strings.TrimPrefix(e.Message, "(combined from similar events): "), // client-go's EventAggregator
		Source:  cmp.Or(e.Source.Component, e.ReportingController), Host: e.Source.Host, Warning: e.Type == corev1.EventTypeWarning,
		Last: snapshot.EventTime(e), First: e.FirstTimestamp.Time, Count: int(max(e.Count, 1))}
	if e.Series != nil {
		r.Count = max(r.Count, int(e.Series.Count))
	}
	if r.First.IsZero() {
		r.First = e.EventTime.Time
	}
	if r.First.IsZero() {
		r.First = r.Last
	}
	return r
}

// claimEvents, podEvents and volumeEvents are what was said about the view's objects.
func (v *View) claimEvents() ([]report, Truth) {
	uid := ""
	if v.Claim != nil {
		uid = string(v.Claim.UID)
	}
	return v.eventsOf("PersistentVolumeClaim", v.Namespace, v.ClaimName, uid)
}

func (v *View) podEvents() ([]report, Truth) {
	if v.Pod == nil {
		return nil, Yes
	}
	return v.eventsOf("Pod", v.Pod.Namespace, v.Pod.Name, string(v.Pod.UID))
}

func (v *View) volumeEvents() ([]report, Truth) {
	if v.PV == nil {
		return nil, v.pvKnown.not()
	}
	return v.eventsOf("PersistentVolume", "", v.PV.Name, string(v.PV.UID))
}

// trouble is an error that is in force: what was said last, since when without a success between, and how often.
type trouble struct {
	Text     string
	Since    time.Time
	At       time.Time
	Count    int
	Evidence Evidence
	Source   string
	// Earlier are the other texts since the last success, oldest first: the first call's reason may be among them.
	Earlier []report
}

// conflict: two writers of one object met (apimachinery, NewConflict); the one that says so reads it again and goes on.
var conflict = regexp.MustCompile(`the object has been modified; please apply your changes`)

// troubleIn finds the error in force among reports (oldest first): the last one that fails, unless one that clears is newer.
func troubleIn(reports []report, fails, clears func(report) bool) *trouble {
	var t *trouble
	for _, r := range reports {
		switch {
		case clears != nil && clears(r):
			t = nil
		case fails(r) && !(conflict.MatchString(r.Message) && r.Count < errorSettledCount):
			if t == nil {
				t = &trouble{Since: r.First}
			}
			if r.First.Before(t.Since) {
				t.Since = r.First
			}
			t.Count += r.Count
			t.Text, t.At, t.Source, t.Evidence = r.Message, r.Last, r.Source, r.evidence()
			t.Earlier = append(t.Earlier, r)
		}
	}
	return t
}

// says tells whether the trouble's own text, or an earlier one, matches; the newest match counts.
func (t *trouble) says(pattern *regexp.Regexp) (string, bool) {
	if t == nil {
		return "", false
	}
	if pattern.MatchString(t.Text) {
		return t.Text, true
	}
	for _, r := range slices.Backward(t.Earlier) {
		if pattern.MatchString(r.Message) {
			return r.Message, true
		}
	}
	return "", false
}

// settled judges an error: one that its owner retries counts from its third occurrence or after two minutes, one that
// excludes success at once. An object that is still within a normal time that goes before errors is the caller's to check.
func (v *View) settled(t *trouble) Status {
	if t.Count >= errorSettledCount || v.age(t.Since) >= errorSettled || excludesSuccess(t.Text) && !(t.Source == "kubelet" && passing[v.mountTells(t.Text)]) {
		return StatusStuck
	}
	return StatusWaiting
}

// Codes after which trying the same again cannot succeed, as external-provisioner and external-resizer judge them.
var finalCodes = regexp.MustCompile(`code = (InvalidArgument|OutOfRange|Unimplemented|Unauthenticated|PermissionDenied)\b`)

// passing are faults of a mount that time alone may end, whatever code a driver gives them.
var passing = map[string]bool{"stage/device-missing": true, "stage/server-unreachable": true, "stage/operation-pending": true, "stage/timeout": true}

func excludesSuccess(text string) bool { return finalCodes.MatchString(text) }

// grpc splits a driver's answer as gRPC prints it (Status.String of google.golang.org/grpc); the code is empty where the text
// holds none.
func grpc(text string) (code, desc string) {
	if _, after, ok := strings.Cut(text, "rpc error: code = "); ok {
		if code, desc, ok := strings.Cut(after, " desc = "); ok && !strings.Contains(code, " ") {
			return code, desc
		}
	}
	return "", text
}

func (r report) evidence() Evidence {
	text := r.Message
	if r.Count > 1 {
		text = fmt.Sprintf("%s (%d times)", text, r.Count)
	}
	return Evidence{Object: r.Object, Field: "event " + r.Reason + " from " + r.Source, Value: text, At: moment(r.Last)}
}

// moment is a time for the answer: nil for the zero time, else in UTC to the second.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// fact is evidence from an object's field.
func fact(o Object, field, value string, at time.Time) Evidence {
	return Evidence{Object: o, Field: field, Value: value, At: moment(at)}
}

func ref(o snapshot.Object) Object {
	return Object{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func kindOf(o snapshot.Object) string { return o.GetObjectKind().GroupVersionKind().Kind }

func sortByCreation[T snapshot.Object](out []T) {
	slices.SortStableFunc(out, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Time.Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
}
