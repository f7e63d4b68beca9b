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
