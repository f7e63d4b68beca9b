package mountinfo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
)

// TestAsMoby: a line that both understand is understood alike.
func TestAsMoby(t *testing.T) {
	for line := range strings.SplitSeq(table, "\n") {
		want, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil)
		got, gaps := Parse(line)
		if err != nil || len(want) == 0 || len(gaps) > 0 {
			continue
		}
		if diff := cmp.Diff(*want[0], got[0].Info); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}
