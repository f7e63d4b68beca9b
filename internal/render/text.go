package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// Text prints one answer, the most needed first: the verdict, where the volume stands, why, what to do, what was not seen.
func Text(w io.Writer, d explain.Diagnosis, o Options) error {
	p := newPage(o, d.TakenAt)
	p.asked(d)
	p.headline(d)
	p.chains(d)
	p.findings(d)
	if len(d.Notes) > 0 {
		p.title("Notes")
		for _, note := range d.Notes {
			p.para("  - ", span{note, p.plain})
		}
	}
	p.gaps(d.Gaps)
	if o.Docs && d.Cause != nil {
		p.line("")
		p.command(p.faint.Render("More:")+" ", "kubectl csidoctor explain "+d.Cause.ID)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) asked(d explain.Diagnosis) {
	when := "· seen " + d.TakenAt.UTC().Format(stamp)
	if age := p.o.Clock.Sub(d.TakenAt); age.Seconds() >= 60 && !p.o.Clock.IsZero() {
		when += " (" + duration.HumanDuration(age) + " ago)"
	}
	if !p.now.Equal(d.TakenAt) {
		when += " · judged at " + p.now.UTC().Format(stamp)
	}
	p.para("", span{object(explain.Object(d.Target)), p.plain}, span{when, p.faint})
}

func (p *page) headline(d explain.Diagnosis) {
	mark, style := p.look(string(d.Verdict))
	verdict := string(d.Verdict)
	if d.Hop != "" && d.Verdict != explain.VerdictHealthy {
		verdict += " at " + string(d.Hop)
	}
	title, why := d.Summary, ""
	if d.Cause != nil {
		title = d.Cause.Title
	}
	if title != "" {
		verdict += ":"
	}
	spans := []span{{verdict, style}, {title, p.bold}}
	if len(d.Findings) > 0 {
		why = d.Findings[0].Why
		if until := d.Findings[0].Until; until != nil {
			spans = append(spans, span{"· " + p.until(*until), p.faint})
		}
	}
	p.line("")
	p.para(style.Render(mark)+" ", spans...)
	switch {
	case saidAbove(d):
		p.para("  ", span{why, p.plain})
	case d.Summary != title && d.Summary != why:
		p.para("  ", span{d.Summary, p.plain})
	}
}

// saidAbove: the sentence for the ticket ends in the first finding's why, which then stands below the headline, once.
func saidAbove(d explain.Diagnosis) bool {
	return len(d.Findings) > 0 && d.Findings[0].Why != "" && d.Summary != d.Findings[0].Why && strings.HasSuffix(d.Summary, d.Findings[0].Why)
}

// block is a chain, or those of several pods that would be printed alike.
type block struct {
	pods, rest []string
	hops       []explain.Hop
}

func (b *block) header() string {
	parts := b.rest
	switch n := len(b.pods); n {
	case 0:
	case 1:
		parts = append([]string{"pod " + b.pods[0]}, parts...)
	default:
		parts = append([]string{fmt.Sprintf("%d pods alike: %s", n, strings.Join(b.pods, ", "))}, parts...)
	}
	return strings.Join(parts, " · ")
}

func (p *page) chains(d explain.Diagnosis) {
	var blocks []*block
	known := map[string]*block{}
	for _, c := range d.Chains {
		pod, rest := whose(c, d.Target)
		key := fmt.Sprint(rest, p.render(func(q *page) { q.hops(c.Hops) }))
		b := known[key]
		if b == nil || pod == "" {
			b = &block{rest: rest, hops: c.Hops}
			known[key] = b
			blocks = append(blocks, b)
		}
		if pod != "" {
			b.pods = append(b.pods, pod)
		}
	}
	wasShort := false
	for _, b := range blocks {
		short := len(blocks) > 1 && !p.o.Wide && quiet(b.hops) // of several volumes those that work need one line
		if !short || !wasShort {
			p.line("")
		}
		wasShort = short
		if short {
			p.para(p.green.Render("✓ ok")+"  ", span{b.header(), p.plain})
			continue
		}
		p.para("", span{b.header(), p.bold})
		p.hops(b.hops)
	}
}

// render is what write would print.
func (p *page) render(write func(*page)) string {
	q := newPage(p.o, p.now)
	write(q)
	return q.String()
}

// whose is a chain's pod with its node, and its claim and volume. The pod or claim that was asked for needs no second mention.
func whose(c explain.Chain, asked explain.Target) (pod string, rest []string) {
	if c.Claim != nil && explain.Target(*c.Claim) != asked {
		rest = append(rest, "claim "+c.Claim.Namespace+"/"+c.Claim.Name)
	}
	if c.Volume != "" {
		rest = append(rest, "volume "+c.Volume)
	}
	switch {
	case c.Pod != nil && (explain.Target(*c.Pod) != asked || len(rest) == 0):
		pod = c.Pod.Namespace + "/" + c.Pod.Name
		if c.Node != "" {
			pod += " on " + c.Node
		}
	case c.Node != "":
		rest = append(rest, "on "+c.Node)
	case len(rest) == 0 && c.Claim != nil:
		rest = append(rest, "claim "+c.Claim.Namespace+"/"+c.Claim.Name)
	case len(rest) == 0:
		rest = append(rest, "controller of "+c.Driver)
	}
	return pod, rest
}

// quiet: of these hops nothing is to be said but that they are in order.
func quiet(hops []explain.Hop) bool {
	return !slices.ContainsFunc(hops, func(h explain.Hop) bool {
		return h.Status != explain.StatusSkipped && (h.Status != explain.StatusOK || h.Note != "")
	})
}

func (p *page) hops(hops []explain.Hop) {
	var name, status int
	for _, h := range hops {
		name, status = max(name, lipgloss.Width(Clean(string(h.Hop)))), max(status, lipgloss.Width(Clean(string(h.Status))))
	}
	for _, h := range hops {
		mark, style := p.look(string(h.Status))
		fine := h.Status == explain.StatusOK || h.Status == explain.StatusSkipped
		text := p.plain
		if h.Status == explain.StatusSkipped {
			text = p.faint
		}
		var said []span
		say := func(s string, style lipgloss.Style) {
			if len(said) > 0 {
				s = "· " + s
			}
			said = append(said, span{s, style})
		}
		if h.Since != nil && (!fine || p.o.Wide) {
			say("for "+duration.HumanDuration(max(0, p.now.Sub(*h.Since))), p.faint)
		}
		if h.Until != nil {
			say(p.until(*h.Until), p.faint)
		}
		if h.Note != "" {
			say(h.Note, text)
		}
		if h.Object != nil && (p.o.Wide || !fine && h.Note == "") {
			say(object(*h.Object), p.faint)
		}
		p.para("  "+style.Render(mark)+" "+cell(text.Render(Clean(string(h.Hop))), name)+"  "+
			cell(style.Render(Clean(string(h.Status))), status)+"  ", said...)
	}
}

// findings prints the first with its proof and fix, the others shortly; their proof only when all is asked for.
func (p *page) findings(d explain.Diagnosis) {
	for i, f := range d.Findings {
		if i == 0 {
			p.line("")
			p.line(p.bold.Render("Why") + p.faint.Render(" · "+Clean(string(f.Confidence))))
			if !saidAbove(d) {
				p.para("  ", span{f.Why, p.plain})
			}
			p.evidence("  ", f.Evidence)
			if len(f.Fix) > 0 {
				p.title("Fix")
			}
			p.steps(" ", f.Fix)
			continue
		}
		if i == 1 {
			p.title("Also")
		}
		mark, style := p.look(string(f.Status))
		p.para("  "+style.Render(mark)+" ", span{fmt.Sprintf("%s at %s:", f.Status, f.Hop), style}, span{f.Title, p.bold},
			span{fmt.Sprintf("· %s · %s", f.Confidence, f.Cause), p.faint})
		p.para("    ", span{f.Why, p.plain})
		if p.o.Wide {
			p.evidence("    ", f.Evidence)
		}
		p.steps("   ", f.Fix)
	}
}

func (p *page) evidence(margin string, facts []explain.Evidence) {
	for _, e := range facts {
		where := object(e.Object)
		if e.Field != "" {
			where += ", " + e.Field
		}
		spans := []span{{where + ":", p.faint}, {"“" + e.Value + "”", p.plain}}
		if e.At != nil {
			spans = append(spans, span{"(" + p.ago(*e.At) + ")", p.faint})
		}
		p.para(margin+"- ", spans...)
	}
}

// steps prints what must be true before what is to be done, and that before the command.
func (p *page) steps(margin string, fix []explain.Step) {
	for i, s := range fix {
		lead := fmt.Sprintf("%s%2d. ", margin, i+1)
		below := strings.Repeat(" ", len(lead))
		if warning := warning(s); warning != "" {
			style := p.yellow
			if s.Danger == explain.DangerDataLoss {
				style = p.red
			}
			p.para(lead+style.Render("!")+" ", span{warning, style})
			lead = below
		}
		p.para(lead, span{s.Text, p.plain})
		p.command(below+"  ", s.Command)
	}
}

func warning(s explain.Step) string {
	harmless := s.Danger == explain.DangerNone || s.Danger == ""
	switch {
	case harmless && s.Unless == "":
		return ""
	case harmless:
		return "only if " + s.Unless
	case s.Unless == "":
		return string(s.Danger)
	}
	return string(s.Danger) + " unless " + s.Unless
}

// gaps prints what could not be seen, and how to see it.
func (p *page) gaps(gaps []explain.Gap) {
	if len(gaps) == 0 {
		return
	}
	p.title("Not seen")
	for _, g := range gaps {
		what := g.Input
		if g.Object != nil {
			what += " of " + object(*g.Object)
		}
		what += " (" + g.Reason + ")"
		if g.Detail != "" {
			what += ": " + g.Detail
		}
		p.para("  "+p.magenta.Render("?")+" ", span{what, p.plain})
		switch {
		case strings.HasPrefix(g.Remedy, "kubectl "):
			p.command("      ", g.Remedy)
		case g.Remedy != "":
			p.para("    ", span{g.Remedy, p.plain})
		}
	}
}
