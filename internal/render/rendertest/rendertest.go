// Package rendertest says what must hold of every answer printed as text, whatever it is about. It measures the text alone
// and shares with the renderer only what the spelling of a cleaned string is.
package rendertest

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
)

// Check reports where text is no good rendering of d with o: it must be harmless and keep to the width, and verdict, findings,
// notes and gaps stand in it, each condition before its command and each command whole on a line of its own.
func Check(t testing.TB, d explain.Diagnosis, o render.Options, text string) {
	t.Helper()
	Harmless(t, text, o.Color)
	text = Plain(text)

	commands := map[string]bool{}
	c := &reader{t: t, rest: flat(text)}
	c.next(d.Target.Name)
	c.next(string(d.Verdict))
	once := len(d.Findings) > 0 && strings.HasSuffix(d.Summary, d.Findings[0].Why) && d.Summary != d.Findings[0].Why
	if !once {
		c.has(d.Summary)
	}
	for i, f := range d.Findings {
		c.next(f.Title)
		if i == 0 {
			if once { // the sentence ends in the why, which then stands here and not again
				c.next(f.Why)
			}
			for _, chain := range d.Chains { // between headline and proof; the order is that of folding
				if chain.Pod != nil && explain.Target(*chain.Pod) != d.Target {
					c.has(chain.Pod.Name)
				}
			}
		}
		c.next(string(f.Confidence))
		if i > 0 || !once {
			c.next(f.Why)
		}
		for _, e := range f.Evidence {
			if i == 0 || o.Wide {
				c.next(object(e.Object))
				c.next(e.Field)
				c.next(e.Value)
			}
		}
		for _, s := range f.Fix {
			if s.Danger != explain.DangerNone {
				c.next(string(s.Danger))
			}
			c.next(s.Unless)
			c.next(s.Text)
			c.next(s.Command)
			commands[whole(s.Command)] = true
		}
	}
	for _, note := range d.Notes {
		c.next(note)
	}
	for _, g := range d.Gaps {
		c.next(g.Input)
		if g.Object != nil {
			c.next(object(*g.Object))
		}
		c.next(g.Reason)
		c.next(g.Detail)
		c.next(g.Remedy)
		if strings.HasPrefix(g.Remedy, "kubectl ") {
			commands[whole(g.Remedy)] = true
		}
	}
	if d.Cause != nil && o.Docs {
		commands["More: "+whole("kubectl csidoctor explain "+d.Cause.ID)] = true
	}

	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		lines[strings.TrimSpace(line)] = true
		if n := lipgloss.Width(line); n > width(o) && !commands[strings.TrimSpace(line)] && breakable(line) {
			t.Errorf("%d columns, more than %d: %q", n, width(o), line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("blanks at the end: %q", line)
		}
	}
	for command := range commands {
		if command != "" && !lines[command] {
			t.Errorf("no line of its own has the command %q", command)
		}
	}
}

// Harmless reports what a terminal could take for more than letters; colours are allowed where they were asked for.
func Harmless(t testing.TB, text string, color bool) {
	t.Helper()
	if color {
		text = Plain(text)
	}
	if !utf8.ValidString(text) {
		t.Errorf("no UTF-8: %q", text)
	}
	for i, r := range text {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Variation_Selector) {
			t.Errorf("character %U at byte %d: %q", r, i, text[max(0, i-20):i])
		}
	}
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Plain is text without its colours.
func Plain(text string) string { return sgr.ReplaceAllString(text, "") }

// reader looks for what must stand in a text, in its order.
type reader struct {
	t    testing.TB
	rest string
}

func (c *reader) next(s string) {
	c.t.Helper()
	if c.has(s) {
		_, c.rest, _ = strings.Cut(c.rest, flat(render.Clean(s)))
	}
}

func (c *reader) has(s string) bool {
	c.t.Helper()
	if strings.Contains(c.rest, flat(render.Clean(s))) {
		return true
	}
	c.t.Errorf("not in the text, or too early: %q\nlooked for in: %s", s, c.rest)
	return false
}

// flat is text as it was before it was wrapped.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

func whole(command string) string { return strings.TrimSpace(render.Clean(command)) }

func width(o render.Options) int {
	if o.Width == 0 {
		return 100
	}
	return o.Width
}

// unbreakable is one word behind what may precede it on a line: marks, a number, or the columns of a hop.
var unbreakable = regexp.MustCompile(`^ *([-✓✗…!?] |✓ ok  |\d+\. )*(\S+ +\S+  )?\S+$`)

// breakable: the line holds several words, so it could have been wrapped. What backticks join is not looked into.
func breakable(line string) bool {
	return !strings.Contains(line, "`") && !unbreakable.MatchString(line)
}

func object(o explain.Object) string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}
