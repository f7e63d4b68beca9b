package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// minSummary: less room than this for the last column is not worth having.
const minSummary = 24

// TextList prints several answers as a table, the worst first, then how many there are of each verdict and what was not seen.
// The hop has no column: it is the first half of the cause. On a terminal the summary is cut to the line, or left out where
// there is no room for it; through a pipe and with Wide it is whole. Names are never cut.
func TextList(w io.Writer, l explain.List, o Options) error {
	p := newPage(o, l.TakenAt)
	items := slices.Clone(l.Items)
	slices.SortStableFunc(items, func(a, b explain.Diagnosis) int { return a.Verdict.Rank() - b.Verdict.Rank() })
	if len(items) > 0 {
		p.table(items)
	}
	p.line(tally(items))
	p.gaps(l.Gaps)
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) table(items []explain.Diagnosis) {
	kinds := slices.ContainsFunc(items, func(d explain.Diagnosis) bool { return d.Target.Kind != items[0].Target.Kind })
	rows := [][]string{{"STATUS", "KIND", "TARGET", "CAUSE", "AGE", "SUMMARY"}}
	if p.o.Terminal > 0 {
		rows[0][0] = "  STATUS"
	}
	for _, d := range items {
		mark, style := p.look(string(d.Verdict))
		status := style.Render(Clean(string(d.Verdict)))
		if p.o.Terminal > 0 { // in a pipe the word comes first, for awk and sort
			status = style.Render(mark) + " " + status
		}
		target := Clean(d.Target.Name)
		if d.Target.Namespace != "" {
			target = Clean(d.Target.Namespace) + "/" + target
		}
		rows = append(rows, []string{status, Clean(d.Target.Word()), target, Clean(cause(d)), p.age(d.Since()), Clean(d.Summary)})
	}
	if !kinds {
		for i, row := range rows {
			rows[i] = slices.Delete(row, 1, 2)
		}
	}
	last := len(rows[0]) - 1
	widths := make([]int, last)
	room := p.o.Terminal
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i])+2)
		}
		room -= widths[i]
	}
	for _, row := range rows {
		var line strings.Builder
		for i, width := range widths {
			line.WriteString(cell(row[i], width))
		}
		switch {
		case p.o.Terminal == 0 || p.o.Wide:
			line.WriteString(row[last])
		case room >= minSummary:
			line.WriteString(ansi.Truncate(row[last], room, "…"))
		}
		p.line(line.String())
	}
	p.line("")
}

// cause, or the hop where only that is known.
func cause(d explain.Diagnosis) string {
	switch {
	case d.Cause != nil:
		return d.Cause.ID
	case d.Hop != "":
		return string(d.Hop)
	}
	return "-"
}

// age is how long something has not been in order.
func (p *page) age(since *time.Time) string {
	if since == nil {
		return "-"
	}
	return duration.HumanDuration(max(0, p.now.Sub(*since)))
}

// tally counts the verdicts, the worst first.
func tally(items []explain.Diagnosis) string {
	if len(items) == 0 {
		return "Nothing to look at."
	}
	var parts []string
	for i := 0; i < len(items); {
		n := 1
		for i+n < len(items) && items[i+n].Verdict == items[i].Verdict {
			n++
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, Clean(string(items[i].Verdict))))
		i += n
	}
	return strings.Join(parts, ", ") + "."
}
