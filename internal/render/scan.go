package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// TextScan prints what a scan found: for each cause with what explains it a block on a terminal, and one line through a pipe. What
// only waits is left out where something is worse, but for Wide.
func TextScan(w io.Writer, l explain.List, o Options) error {
	p := newPage(o, l.TakenAt)
	groups := l.Groups
	if worse := slices.DeleteFunc(slices.Clone(groups), waits); !o.Wide && len(worse) > 0 {
		groups = worse
	}
	if len(groups) > 0 {
		p.grouped(groups)
	}
	p.para("", span{counted(l, len(groups) < len(l.Groups)), p.plain})
	p.gaps(l.Gaps)
	_, err := io.WriteString(w, p.String())
	return err
}

func waits(g explain.Group) bool { return g.Verdict == explain.VerdictWaiting }

// grouped prints the table. On a terminal what is explained, and the command, stand below the line.
func (p *page) grouped(groups []explain.Group) {
	pipe := p.o.Terminal == 0
	rows := [][]string{{"STATUS", "COUNT", "OLDEST", "CAUSE"}}
	if pipe {
		rows[0] = append(rows[0], "WHERE", "TITLE", "COMMAND")
	} else {
		rows[0][0] = "  STATUS"
	}
	for _, g := range groups {
		mark, style := p.look(string(g.Verdict))
		status := style.Render(Clean(string(g.Verdict)))
		if !pipe {
			status = style.Render(mark) + " " + status
		}
		cause := g.Cause
		if cause == "" {
			cause = strings.TrimSpace(string(g.Hop) + " -")
		}
		row := []string{status, strconv.Itoa(g.Count), p.age(g.Since), Clean(cause)}
		if pipe {
			row = append(row, Clean(where(g, 1)), Clean(g.Title), Clean(g.Command))
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(rows[0]))
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i])+2)
		}
	}
	for n, row := range rows {
		var line strings.Builder
		for i, width := range widths {
			line.WriteString(cell(row[i], width))
		}
		p.line(line.String())
		if n > 0 && !pipe {
			g := groups[n-1]
			p.para("    ", span{g.Title, p.bold})
			p.para("    ", span{where(g, len(g.Targets)), p.plain})
			p.command("    ", g.Command)
		}
	}
	p.line("")
}

// where is what explains a group, and the first n of those that it explains.
func where(g explain.Group, n int) string {
	var targets []string
	kind := ""
	for _, t := range g.Targets[:min(n, len(g.Targets))] {
		name := strings.TrimPrefix(t.Namespace+"/"+t.Name, "/")
		if t.Kind != kind {
			name, kind = t.Word()+" "+name, t.Kind
		}
		targets = append(targets, name)
	}
	said := strings.Join(targets, ", ")
	if more := g.Count - len(targets); more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	if g.Object != nil && !slices.Contains(g.Targets, explain.Target(*g.Object)) {
		said = object(*g.Object) + ": " + said
	}
	return said
}

// counted is how many there are of each verdict, and what is left out.
func counted(l explain.List, hidden bool) string {
	var parts []string
	for _, v := range []explain.Verdict{explain.VerdictStuck, explain.VerdictDegraded, explain.VerdictUndetermined, explain.VerdictWaiting, explain.VerdictHealthy} {
		if n := l.Counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	said := "Nothing to look at."
	if len(parts) > 0 {
		said = strings.Join(parts, ", ") + "."
	}
	if hidden {
		said += " What waits is shown with -o wide."
	}
	if l.Younger > 0 {
		said += fmt.Sprintf(" %d younger than --min-age left out.", l.Younger)
	}
	return said
}
