package explain

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Logs sharpen an answer: a line names the cause of what the objects already show to be stuck, and never makes a hop stuck.
// That nobody asked for them is no gap.

// logged gives the lines of a pod's containers that name the view's claim or volume, or one of these objects, oldest first.
func (v *View) logged(p *corev1.Pod, more ...string) []logLine {
	var out []logLine
	names := v.logNames(more...)
	q := snapshot.Query{Resource: inLogs.Resource, Namespace: p.Namespace, Name: p.Name, Lines: strings.Join(names, ",")}
	if g := v.facts.GapOf(q); g != nil && g.Reason != "not-collected" {
		v.fetch(q) // they were asked for and refused
	}
	v.ahead(func() {
		excerpts, _ := list[*snapshot.LogExcerpt](v.world, inLogs, q)
		for _, l := range excerpts {
			for _, line := range l.Lines {
				if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(line.Text, n) }) {
					out = append(out, logLine{line, l.Container})
				}
			}
		}
	})
	slices.SortStableFunc(out, func(a, b logLine) int { return a.At.Compare(b.At) })
	return out
}

type logLine struct {
	snapshot.LogLine
	Container string
}

// klogHead stands before the words of every line of the sidecars and of most drivers: severity, date, time, thread, file.
var klogHead = regexp.MustCompile(`^[IWEF]\d{4} [\d:.]+\s+\d+ [^\s\]]+\] `)

// klogMessage and klogError are the message and the error of a structured line, quoted.
var klogMessage = regexp.MustCompile(`(?:^|[\s\]])("(?:[^"\\]|\\.)*") \w+=`)
var klogError = regexp.MustCompile(` err(?:or)?=("(?:[^"\\]|\\.)*")`)

// words is what the line says: its message and the error that it carries, else all but what the logger puts before it.
func (l logLine) words() string {
	if m := klogError.FindStringSubmatch(l.Text); m != nil {
		if said, err := strconv.Unquote(m[1]); err == nil {
			if m := klogMessage.FindStringSubmatch(l.Text); m != nil {
				if message, err := strconv.Unquote(m[1]); err == nil {
					return message + ": " + said
				}
			}
			return said
		}
	}
	return klogHead.ReplaceAllString(l.Text, "")
}

func (l logLine) evidence(p *corev1.Pod) Evidence {
	return fact(ref(p), "log of "+l.Container, l.words(), l.At)
}

// logNames are the words by which a log's line is known to be about the view's volume.
func (v *View) logNames(more ...string) []string {
	var names []string
	add := func(name string) {
		if len(name) > 3 && !slices.Contains(names, name) && !strings.Contains(name, ",") { // a shorter word is in every line
			names = append(names, name)
		}
	}
	for _, name := range more {
		add(name)
	}
	if v.ClaimName != "" {
		add(v.Namespace + "/" + v.ClaimName)
	}
	if v.Claim != nil {
		add(string(v.Claim.UID)) // also in the name of the volume to be made: pvc-UID
	}
	if v.PV != nil {
		add(v.PV.Name)
	}
	add(v.Handle)
	if v.Handle != "" && v.Node != "" {
		add(attachmentName(v.Handle, v.Driver, v.Node))
	}
	if v.Inline != nil && v.Pod != nil {
		add(string(v.Pod.UID))
	}
	slices.Sort(names)
	return names
}

// fails: a log's line tells of a failure.
var fails = regexp.MustCompile(`^E\d{4} |(?i)\brpc error: code = |\bis forbidden: User\b|\b(error|failed|failure)\b`)

// sidecarError is what a sidecar's leader logged last of the view's volume, or of one of these objects, and failed with: the driver's
// words if it was a call. It stands in where no event and no status says anything: events are lost or expire after an hour, some
// sidecars write none, and what is too long for a status the server refuses.
func (v *View) sidecarError(kind sidecarKind, more ...string) *trouble {
	var s sidecar
	v.ahead(func() { s = v.withPod(v.sidecar(kind)) })
	if s.Pod == nil {
		return nil
	}
	var t *trouble
	call := false
	for _, l := range v.logged(s.Pod, more...) {
		if !fails.MatchString(l.Text) || v.taken.Sub(l.At) > recent && !v.since(l.At) {
			continue
		}
		if t == nil {
			t = &trouble{Since: l.At, Source: kind.Name}
		}
		t.Count++
		if driver := strings.Contains(l.Text, "rpc error: code"); driver || !call {
			t.Text, t.At, t.Evidence, call = l.words(), l.At, l.evidence(s.Pod), driver
		}
	}
	return t
}

// since: that was after the hop at which the chain stops began to wait.
func (v *View) since(t time.Time) bool {
	since := v.hop(v.block).Since
	return since != nil && t.After(*since)
}

// pluginError is what the driver's pod on a node logged last of the view's volume, in these words, and failed with.
func (v *View) pluginError(node string, words *regexp.Regexp) *trouble {
	var t *trouble
	v.ahead(func() {
		for _, p := range v.plugin(node).Pods {
			for _, l := range slices.Backward(v.logged(p)) {
				if t == nil && fails.MatchString(l.Text) && words.MatchString(l.Text) && v.taken.Sub(l.At) <= recent {
					t = &trouble{Since: l.At, At: l.At, Count: 1, Text: l.words(), Source: l.Container, Evidence: l.evidence(p)}
				}
			}
		}
	})
	return t
}

// orLogged is the error in force, else what the sidecar's log tells where the hop is stuck for its age alone.
func (v *View) orLogged(t *trouble, hop HopName, kind sidecarKind) *trouble {
	if t != nil || v.hop(hop).Status != StatusStuck {
		return t
	}
	return v.sidecarError(kind)
}
