package explain

import "github.com/csidoctor/csidoctor/internal/snapshot"

// Explain answers about one target from what the Snapshot holds. The queries it returns are those it would still need; while
// there are any the answer is provisional.
func Explain(s *snapshot.Snapshot, t Target, o Options) (Diagnosis, Wanted) {
	panic("written next")
}
