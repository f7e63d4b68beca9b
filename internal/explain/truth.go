package explain

// Truth is what can be said of a claim about the cluster: a fact that could not be read makes it Unknown, never No.
type Truth int

// The three truths.
const (
	No Truth = iota
	Unknown
	Yes
)

func truth(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// not turns Yes and No round.
func (t Truth) not() Truth { return Yes - t }

// read tells whether an answer was there, be it yes or no.
func read(t Truth) Truth { return truth(t != Unknown) }

// told is Yes for what is known either way, else Unknown.
func (t Truth) told() Truth { return max(t, t.not()) }

// and is the lesser of the two, or the greater: No wins an and, Yes wins an or, Unknown stands between.
func (t Truth) and(u Truth) Truth { return min(t, u) }
func (t Truth) or(u Truth) Truth  { return max(t, u) }
