package frame

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

func report() *nodereport.NodeReport {
	return &nodereport.NodeReport{
		APIVersion: nodereport.APIVersion, Kind: nodereport.Kind, Metadata: nodereport.Metadata{Name: "node-1"},
		CollectedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Mountinfo:   "43 42 259:1 / /var/lib/kubelet rw - ext4 /dev/nvme1n1 rw\n",
		KubeletLog:  []nodereport.LogLine{{Message: "csidoctor-frame 1 7 of a log \u202e"}},
		Namespaces:  []nodereport.Namespace{{Inode: 4026532601, Mountinfo: "1 0 0:1 / / rw - ext4 /dev/sda rw\n"}},
		Gaps:        []nodereport.Gap{{What: "/proc/1/mountinfo", Reason: "EACCES"}},
	}
}

func framed(t testing.TB, r *nodereport.NodeReport) []byte {
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	want := report()
	frame := framed(t, want)
	got, err := Read(slices.Concat([]byte("a line of a wrapper\n"), frame, []byte("one behind\n")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := Read(slices.Concat(frame[:len(frame)/2], []byte("\n"), frame)); err != nil || got.Metadata.Name != "node-1" {
		t.Errorf("behind a frame that was begun and given up: %v", err)
	}
}

// Every cut and every changed byte is seen.
func TestBroken(t *testing.T) {
	frame := framed(t, report())
	for n := range len(frame) - len(end) {
		if _, err := Read(frame[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken for a report", n, len(frame))
		}
	}
	for i := range len(frame) - 1 {
		changed := bytes.Clone(frame)
		changed[i] ^= 1
		if got, err := Read(changed); err == nil && cmp.Diff(report(), got) != "" {
			t.Fatalf("byte %d of %d changed, and another report comes of it", i, len(frame))
		}
	}
	if _, err := Read([]byte("error: no such file\n")); !errors.Is(err, ErrNone) {
		t.Errorf("no frame: %v", err)
	}
	if _, err := Read(frame[:len(frame)-len(end)-20]); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("cut: %v", err)
	}
}

// large is a report of a size; noise does not compress.
func large(bytes int, noise bool) *nodereport.NodeReport {
	r := report()
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < bytes; {
		var text strings.Builder
		for i := range 20 {
			source := fmt.Sprintf("/dev/disk/%d", i)
			if noise {
				key := make([]byte, 48)
				for k := range key {
					key[k] = byte(random.Uint32())
				}
				source = base64.StdEncoding.EncodeToString(key)
			}
			fmt.Fprintf(&text, "%d 1 0:1 / /var/lib/kubelet/pods rw - ext4 %s rw\n", i, source)
		}
		n += text.Len()
		r.Namespaces = append(r.Namespaces, nodereport.Namespace{Inode: uint64(n), Mountinfo: text.String()})
	}
	return r
}

func TestLarge(t *testing.T) {
	for name, c := range map[string]struct {
		report *nodereport.NodeReport
		gaps   []string
	}{
		"20 MB of what is alike":   {large(20<<20, false), []string{"/proc/1/mountinfo"}},
		"20 MB that do not shrink": {large(20<<20, true), []string{"/proc/1/mountinfo", "mountinfo of other namespaces"}},
	} {
		before := len(c.report.Gaps)
		frame := framed(t, c.report)
		if len(frame) > Limit {
			t.Errorf("%s: a frame of %d bytes", name, len(frame))
		}
		if len(c.report.Gaps) != before {
			t.Errorf("%s: the sender's report was changed", name)
		}
		got, err := Read(frame)
		if err != nil {
			t.Fatal(name, err)
		}
		var gaps []string
		for _, g := range got.Gaps {
			gaps = append(gaps, g.What)
		}
		if diff := cmp.Diff(c.gaps, gaps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.Mountinfo != c.report.Mountinfo || len(got.KubeletLog) != len(c.report.KubeletLog) {
			t.Errorf("%s: the node's own table, or what takes no room, is lost", name)
		}
	}
	if err := write(&bytes.Buffer{}, report(), 100); err == nil {
		t.Error("a report that nothing makes small enough was sent")
	}
}

func FuzzRead(f *testing.F) {
	frame := framed(f, report())
	f.Add(frame)
	f.Add(frame[:len(frame)-30])
	f.Add([]byte("csidoctor-frame 1 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\ncsidoctor-frame end\n"))
	f.Add([]byte("csidoctor-frame 1 -1 x\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r, err := Read(stream)
		if err != nil {
			return
		}
		again, err := Read(framed(t, r))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Error(diff)
		}
	})
}
