package explain

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// signature is a known text of a component or driver and the cause that it tells. Patterns match the telling part, without
// regard to case, in texts of Kubernetes 1.28 to 1.37 and of old sidecars. The first row of a hop that matches wins, so the
// special ones stand first.
type signature struct {
	Cause string // the hop before the slash is where the text is looked for
	phrases
}

func sig(cause string, patterns ...string) signature { return signature{cause, phrase(patterns...)} }

// told gives the cause that a hop's error text tells; empty when no row knows it.
func told(signatures []signature, text string) string {
	lower := strings.ToLower(text)
	for _, s := range signatures {
		if s.match(text, lower) {
			return s.Cause
		}
	}
	return ""
}

// phrases are the alternatives of a pattern. There are hundreds, and one matches at most: each is compiled only when a text
// has one of the literals that any match of it must have.
type phrases []alternative

type alternative struct {
	must    []string // one of these is in every match, in lower case; empty: none is known
	pattern func() *regexp.Regexp
}

// phrase makes phrases of regular expressions, without regard to case; a dot matches newlines too.
func phrase(patterns ...string) phrases { return compiled("(?is:", patterns) }

// exact makes phrases of regular expressions that mind the case.
func exact(patterns ...string) phrases { return compiled("(?s:", patterns) }

func compiled(flags string, patterns []string) phrases {
	var out phrases
	for _, one := range alternatives(strings.Join(patterns, "|")) {
		one = flags + one + ")"
		re, err := syntax.Parse(one, syntax.Perl)
		if err != nil {
			panic(fmt.Sprintf("pattern %q: %v", one, err))
		}
		out = append(out, alternative{mandatory(re), sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(one) })})
	}
	return out
}

// alternatives splits a regular expression at the bars outside all groups.
func alternatives(pattern string) []string {
	var out []string
	depth, begin, class := 0, 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			out, begin = append(out, pattern[begin:i]), i+1
		}
	}
	return append(out, pattern[begin:])
}

// mandatory are literals of which every match of an expression has one, in lower case: the set whose shortest is longest.
func mandatory(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return mandatory(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return mandatory(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			one := mandatory(sub)
			if len(one) == 0 {
				return nil
			}
			all = append(all, one...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if m := mandatory(sub); shortest(m) > shortest(best) {
				best = m
			}
		}
		return best
	}
	return nil
}

func shortest(words []string) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w) < n {
			n = len(w)
		}
	}
	return n
}

// in tells whether a text has one of the phrases.
func (p phrases) in(text string) bool { return p.match(text, strings.ToLower(text)) }

func (p phrases) match(text, lower string) bool {
	for _, a := range p {
		if len(a.must) > 0 && !slices.ContainsFunc(a.must, func(m string) bool { return strings.Contains(lower, m) }) {
			continue
		}
		if a.pattern().MatchString(text) {
			return true
		}
	}
	return false
}

// said makes the Match of a cause that is read out of the error in force at a hop: find gives that error, words tell what it
// means, finding writes it down.
func said(id string, find func(*View) (*trouble, Truth), words []signature, finding func(*View, *trouble) Finding) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		t, known := find(v)
		if t == nil {
			return Finding{}, min(known.not(), Unknown)
		}
		if v.told(words, t.Text) != id {
			return Finding{}, No
		}
		f := finding(v, t)
		if f.Status == "" {
			f.Status = v.settled(t)
		}
		if f.Confidence == "" {
			f.Confidence = sure(id, t.Text)
		}
		f.Evidence = append([]Evidence{t.Evidence}, f.Evidence...)
		return f, Yes
	}
}

// told is told, once for all causes that read the same text.
func (w *world) told(words []signature, text string) string {
	key := words[0].Cause + "\x00" + text // a table is known by its first row
	cause, known := w.memo[key]
	if !known {
		cause = told(words, text)
		w.memo[key] = cause
	}
	return cause
}
