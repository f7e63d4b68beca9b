package explain

import "regexp"

// signature is a known text of a component or driver and the cause that it tells. Patterns match the telling part, without
// regard to case, in texts of Kubernetes 1.28 to 1.37 and of old sidecars. The first row of a hop that matches wins, so the
// special ones stand first.
type signature struct {
	Cause   string // the hop before the slash is where the text is looked for
	Pattern *regexp.Regexp
}

func sig(cause, pattern string) signature {
	return signature{cause, regexp.MustCompile("(?is)" + pattern)}
}

// told gives the cause that a hop's error text tells; empty when no row knows it.
func told(signatures []signature, text string) string {
	for _, s := range signatures {
		if s.Pattern.MatchString(text) {
			return s.Cause
		}
	}
	return ""
}

// said makes the Match of a cause that is read out of the error in force at a hop: find gives that error, words tell what it
// means, finding writes it down.
func said(id string, find func(*View) (*trouble, Truth), words []signature, finding func(*View, *trouble) Finding) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		t, known := find(v)
		if t == nil {
			return Finding{}, min(known.not(), Unknown)
		}
		if told(words, t.Text) != id {
			return Finding{}, No
		}
		f := finding(v, t)
		if f.Status == "" {
			f.Status = v.settled(t)
		}
		f.Evidence = append([]Evidence{t.Evidence}, f.Evidence...)
		return f, Yes
	}
}
