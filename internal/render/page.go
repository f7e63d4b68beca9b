package render

import (
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// page is a text being written. What comes from an answer goes through para and command, which clean it, or through Clean.
type page struct {
	strings.Builder
	o   Options
	now time.Time

	plain, bold, faint                lipgloss.Style
	red, yellow, green, cyan, magenta lipgloss.Style
}

func newPage(o Options, taken time.Time) *page {
	if o.Width == 0 {
		o.Width = maxWidth
	}
	if o.Now.IsZero() {
		o.Now = taken
	}
	r := lipgloss.NewRenderer(io.Discard) // asks no terminal: the profile is given, and no style depends on the background
	r.SetColorProfile(termenv.Ascii)
	if o.Color {
		r.SetColorProfile(termenv.ANSI)
	}
	color := func(ansi string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(ansi)) }
	return &page{
		o: o, now: o.Now,
		plain: r.NewStyle(), bold: r.NewStyle().Bold(true), faint: r.NewStyle().Faint(true),
		red: color("1").Bold(true), green: color("2"), yellow: color("3").Bold(true), magenta: color("5").Bold(true), cyan: color("6"),
	}
}

// look is the mark and style of a status or verdict. Its word is printed too: the mark and colour only help to find it.
func (p *page) look(word string) (string, lipgloss.Style) {
	switch word {
	case string(explain.StatusOK), string(explain.VerdictHealthy):
		return "✓", p.green
	case string(explain.StatusWaiting):
		return "…", p.cyan
	case string(explain.StatusStuck):
		return "✗", p.red
	case string(explain.StatusDegraded):
		return "!", p.yellow
	case string(explain.StatusSkipped):
		return "-", p.faint
	}
	return "?", p.magenta
}

// span is a part of a paragraph in one style.
type span struct {
	text  string
	style lipgloss.Style
}

// word: what is not broken. A hyphen or slash is no place to break: names and paths are made of them.
var word = regexp.MustCompile("(?:[^\\s`]|`[^`]*`)+\\S*|\\S+")

// para writes spans as one paragraph, a blank between them, behind lead and hanging below its end. The wrappers at hand
// (reflow, x/ansi) break at hyphens or measure by the locale.
func (p *page) para(lead string, spans ...span) {
	margin := lipgloss.Width(lead)
	line, width, gap := lead, margin, ""
	for _, s := range spans {
		var run []string // words of one style, not yet in line
		flush := func() {
			if len(run) > 0 {
				line += s.style.Render(strings.Join(run, " "))
				run = nil
			}
		}
		for _, w := range word.FindAllString(Clean(s.text), -1) {
			n := lipgloss.Width(" "+w) - 1 // behind a blank, which a combining mark takes
			if gap != "" && width+1+n > p.o.Width {
				flush()
				p.line(line)
				line, width, gap = strings.Repeat(" ", margin), margin, ""
			}
			if len(run) == 0 {
				line += gap
			}
			run = append(run, w)
			width += len(gap) + n
			gap = " "
		}
		flush()
	}
	p.line(line)
}

// line writes one line.
func (p *page) line(s string) {
	p.WriteString(strings.TrimRight(s, " ") + "\n")
}

// command is never wrapped or cut, whatever the width: it is there to be copied.
func (p *page) command(lead, cmd string) {
	if cmd = strings.TrimSpace(Clean(cmd)); cmd != "" {
		p.line(lead + p.cyan.Render(cmd))
	}
}

// title begins a section.
func (p *page) title(s string) {
	p.line("")
	p.line(p.bold.Render(s))
}

// cell pads s, styled or not, to a column.
func cell(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-lipgloss.Width(s)))
}

// ago is an age as kubectl tells it.
func (p *page) ago(t time.Time) string {
	if t.After(p.now) {
		return "in " + duration.HumanDuration(t.Sub(p.now))
	}
	return duration.HumanDuration(p.now.Sub(t)) + " ago"
}

// until is a bound that was known when the answer was made.
func (p *page) until(t time.Time) string {
	layout := "15:04:05 MST"
	if t.Sub(p.now).Abs() > 12*time.Hour { // further away the hour alone could be of another day
		layout = stamp
	}
	return "until " + t.UTC().Format(layout) + " (" + p.ago(t) + ")"
}

const stamp = "2006-01-02 15:04:05 MST"

func object(o explain.Object) string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return strings.TrimSpace(o.Kind + " " + o.Name)
}
