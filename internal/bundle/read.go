// Package bundle turns files into a Snapshot and a Snapshot into one file. It knows folders, archives, JSON, YAML, lists of
// every make, and the layout of troubleshoot.sh's support bundles; and it knows what is secret: Redact goes over every object.
// It judges nothing, asks no cluster, follows no link, and writes no path: archives are read in memory, entry by entry.
package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Report is what a user has to know about an input beside its objects.
type Report struct {
	Files    int      // looked into
	Objects  int      // read, duplicates too
	Skipped  int      // files and documents that are no Kubernetes object
	Secrets  int      // Secrets, dropped
	Links    int      // symbolic links and special files, not followed
	Problems []string // what is broken, cut off or beyond a limit, by file
	Unnamed  int      // further ones
}

// Lines is the Report for stderr; nothing when there is nothing to say.
func (r Report) Lines() []string {
	out := slices.Clone(r.Problems)
	if r.Unnamed > 0 {
		out = append(out, fmt.Sprintf("%d more files or objects cannot be read", r.Unnamed))
	}
	if r.Links > 0 {
		out = append(out, fmt.Sprintf("%d links and special files were not followed", r.Links))
	}
	return out
}

// limits bound what an input can cost. Whatever is beyond one is left out, and the Report names it.
type limits struct {
	total    int64 // bytes read, unpacked
	file     int64 // bytes of one file
	files    int
	objects  int
	depth    int // of lists in lists
	problems int // that are named one by one
}

// The objects of a cluster of 5,000 nodes and 150,000 pods are about 1 GiB of JSON.
var defaultLimits = limits{total: 2 << 30, file: 512 << 20, files: 200_000, objects: 2_000_000, depth: 8, problems: 20}

// Read makes a Snapshot of a folder, a file, an archive or, for "-", of stdin, in any mix of JSON and YAML. What can be read is
// used, and the Report names the rest; it is an error only if there is nothing to use. Beside are further inputs of the same
// cluster, such as the report of a node.
func Read(path string, stdin io.Reader, beside ...string) (*snapshot.Snapshot, Report, error) {
	return read(append([]string{path}, beside...), stdin, defaultLimits)
}

func read(paths []string, stdin io.Reader, l limits) (*snapshot.Snapshot, Report, error) {
	r := &reader{limits: l, left: l.total, snapshot: snapshot.New(), complete: map[string]bool{}, lost: map[string]string{}}
	for _, path := range paths {
		had := r.report.Objects + len(r.collections)
		var err error
		if path == "-" {
			err = r.stream(entry{name: "standard input", named: true}, stdin)
		} else {
			err = r.path(path)
		}
		if err != nil && !errors.Is(err, errEnough) {
			return nil, r.report, err
		}
		if r.report.Objects+len(r.collections) == had {
			return nil, r.report, r.nothing(path)
		}
		if err != nil {
			break
		}
	}
	r.finish()
	return r.snapshot, r.report, nil
}

// reader is the state of one Read.
type reader struct {
	limits
	left        int64
	report      Report
	snapshot    *snapshot.Snapshot
	shared      snapshot.Shared
	collections []snapshot.Collection
	managed     time.Time         // the newest moment in managedFields, which are not kept
	complete    map[string]bool   // resources whose own file was read to its end
	lists       []snapshot.Query  // that a support bundle has in full
	custom      []string          // what it says of custom kinds
	lost        map[string]string // resources of which an object is missing, and why
	lostAll     string            // why any object may be missing
	lostMaybe   string            // the same, of a file that may have been meant for something else
}

// errEnough ends a Read early: a limit on the whole is reached.
var errEnough = errors.New("limit reached")

func (r *reader) enough(e entry, format string, args ...any) error {
	r.lostAll = r.problem(e, fmt.Errorf(format+": what comes after is not used; give a smaller input, such as a bundle", args...))
	return errEnough
}

// problem names a file that is broken, with the reason.
func (r *reader) problem(e entry, err error) string {
	text := RedactText(strings.Map(func(c rune) rune { // errors of parsers quote the input
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, fmt.Sprintf("%q: %v", e.name, err)))
	if len(r.report.Problems) < r.problems {
		r.report.Problems = append(r.report.Problems, text)
	} else {
		r.report.Unnamed++
	}
	return text
}

// cut names a file of which a part is missing. Objects may be missing too: those of its resource, where the name tells that.
func (r *reader) cut(e entry, err error) {
	text := r.problem(e, err)
	if resource := e.resource(); resource != "" {
		r.lost[resource] = text
	} else if r.lostAll == "" {
		r.lostAll = text
	}
}

func (r *reader) nothing(path string) error {
	if path == "-" {
		path = "standard input"
	}
	detail := fmt.Sprintf("of %d files", r.report.Files)
	if r.report.Links > 0 {
		detail += fmt.Sprintf(", and %d links that are not followed", r.report.Links)
	}
	if len(r.report.Problems) > 0 {
		detail += "; " + strings.Join(r.report.Problems, "; ")
	}
	return fmt.Errorf("no Kubernetes object in %q (%s): expected objects in JSON or YAML, in a folder, a file or an archive (.tar.gz, .tar, .zip); "+
		`make one with "kubectl csidoctor bundle pvc NAME -n NAMESPACE -f bundle.tar.gz", or with `+
		`"kubectl get pvc,pv,pods,nodes,events,storageclasses,volumeattachments,csinodes,csidrivers -A -o json > objects.json"`, path, detail)
}

// finish takes over what the Collections say, as far as nothing was lost.
func (r *reader) finish() {
	s := r.snapshot
	seen := map[snapshot.Query]bool{}
	for _, c := range r.collections {
		if c.TakenAt.After(s.TakenAt) || s.Server == "" {
			s.Server = c.Server.Version
		}
		if c.TakenAt.After(s.TakenAt) {
			s.TakenAt = c.TakenAt
		}
		s.Recorded = s.Recorded || c.Read != nil // one without read knows the time only
		for _, q := range c.Read {
			if !seen[q] {
				seen[q] = true
				s.Read = append(s.Read, q)
			}
		}
		for _, g := range c.Gaps {
			g.Detail, g.Remedy = RedactText(g.Detail), RedactText(g.Remedy)
			s.Gaps = append(s.Gaps, g)
		}
	}
	s.Read = append(s.Read, r.supportBundleLists()...)
	if s.TakenAt.IsZero() {
		s.TakenAt = s.Newest()
		if r.managed.After(s.TakenAt) {
			s.TakenAt = r.managed
		}
	}
	r.unread()
}

// unread takes back what was said to be read where a part of it is lost: from what is missing nothing is concluded.
func (r *reader) unread() {
	s := r.snapshot
	gap := func(resource, why string) {
		s.Gaps = append(s.Gaps, snapshot.Gap{Input: resource, Reason: "truncated", Detail: why, Remedy: "make the input again, and give it whole"})
	}
	if !s.Recorded {
		for _, k := range snapshot.Kinds {
			if why := cmp.Or(r.lost[k.Resource], r.lostAll); why != "" {
				s.Recorded, s.Read = true, nil // so that no kind counts as read for the objects of it that are there
				gap(k.Resource, why)
			}
		}
		return
	}
	told := map[string]bool{}
	s.Read = slices.DeleteFunc(s.Read, func(q snapshot.Query) bool {
		why := r.lost[q.Resource]
		if why == "" && !r.complete[q.Resource] {
			why = cmp.Or(r.lostAll, r.lostMaybe)
		}
		if why != "" && !told[q.Resource] {
			told[q.Resource] = true
			gap(q.Resource, why)
		}
		return why != ""
	})
	s.Reindex()
}
