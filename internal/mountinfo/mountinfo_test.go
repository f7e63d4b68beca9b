package mountinfo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const table = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
not a line
55 22 0:71 / /var/lib/kubelet/plugins/x/globalmount rw,relatime shared:10 - cifs //nas.example/My\040Docs rw,vers=3.0
56 22 253:2 / /data rw,relatime shared:11 master:3 - ext4 /dev/mapper/mpatha rw,errors=remount-ro

57 22 253:9 / /data ro,relatime - xfs /dev/mapper/mpathb ro,nouuid
58 22 x:9 / /data ro,relatime - xfs /dev/mapper/mpathb ro
59 57 253:9 /sub /data/sub rw - xfs /dev/mapper/mpathb ro,nouuid
60 22 0:99 /a /datastore rw - cifs //srv/x rw,unc=//serv/My Docs
`

func TestParse(t *testing.T) {
	got, gaps := Parse(table)
	var what []string
	for _, g := range gaps {
		what = append(what, g.What+": "+g.Reason)
	}
	if want := []string{"mountinfo line 2: 3 fields, want 10 or more", `mountinfo line 7: "x" is no number`}; !cmp.Equal(what, want) {
		t.Errorf("gaps: %s", cmp.Diff(want, what))
	}
	if len(got) != 6 {
		t.Fatalf("%d mounts, want 6", len(got))
	}
	if m := got[1]; m.Source != "//nas.example/My Docs" || m.Device() != "0:71" || !m.Anonymous() || m.Optional != "shared:10" {
		t.Errorf("cifs: %+v", m)
	}
	for _, m := range got {
		if !strings.Contains(table, m.Line+"\n") {
			t.Errorf("an edited line: %q", m.Line)
		}
	}
	if m := got[5]; m.FSType != "cifs" || m.Source != "//srv/x" {
		t.Errorf("cifs with a space in its options: %+v", m)
	}
}

func TestTable(t *testing.T) {
	all, _ := Parse(table)
	points := func(t Table) (out []string) {
		for _, m := range t {
			out = append(out, m.Device()+" "+m.Mountpoint)
		}
		return out
	}
	top, ok := all.At("/data/")
	if !ok || top.Device() != "253:9" {
		t.Errorf("at /data: %v %v, want the later mount", top, ok)
	}
	if mount, fs := top.ReadOnly(); !mount || !fs {
		t.Errorf("read-only: %v %v", mount, fs)
	}
	if mount, fs := all[5-1].ReadOnly(); mount || !fs {
		t.Errorf("read-only below: %v %v", mount, fs)
	}
	if !top.Has("nouuid") || top.Has("no") {
		t.Error("options")
	}
	if _, ok := all.At("/nothing"); ok {
		t.Error("something is mounted at /nothing")
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"layers", points(all.Layers("/data")), []string{"253:2 /data", "253:9 /data"}},
		{"below", points(all.Below("/data")), []string{"253:2 /data", "253:9 /data", "253:9 /data/sub"}},
		{"of a device", points(all.Of("253:9")), []string{"253:9 /data", "253:9 /data/sub"}},
	} {
		if !cmp.Equal(c.got, c.want) {
			t.Errorf("%s: %s", c.name, cmp.Diff(c.want, c.got))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(table)
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := Parse(text)
		for _, m := range all {
			if m.Mountpoint != "" && m.Mountpoint[0] == '/' && len(all.Of(m.Device())) == 0 {
				t.Errorf("a mount that is not found again: %+v", m)
			}
		}
	})
}
