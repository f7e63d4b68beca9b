package blockdev

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAsLsblk holds Read against lsblk on this machine's own devices, with a few more made for it.
func TestAsLsblk(t *testing.T) {
	needs(t, "lsblk", "losetup", "sfdisk")
	disk := newImage(t, 16*mib)
	run(t, "sh", "-c", "printf '2048,8192,L\n,,L\n' | sfdisk -q "+disk)
	parted := filepath.Base(loop(t, disk, "--partscan"))
	readOnly := filepath.Base(loop(t, newImage(t, mib), "--read-only"))
	type row struct {
		Name     string  `json:"kname"`
		Number   string  `json:"maj:min"`
		Size     int64   `json:"size"`
		ReadOnly bool    `json:"ro"`
		Type     string  `json:"type"`
		Serial   *string `json:"serial"`
	}
	var want struct {
		Devices []row `json:"blockdevices"`
	}
	if err := json.Unmarshal([]byte(run(t, "lsblk", "--json", "--bytes", "--list", "--all", "-o", "KNAME,MAJ:MIN,SIZE,RO,TYPE,SERIAL")), &want); err != nil {
		t.Fatal(err)
	}
	devices, gaps := List(os.DirFS("/sys"))
	if len(gaps) > 0 {
		t.Errorf("gaps %v", gaps)
	}
	found := map[string]bool{}
	for _, d := range devices {
		found[d.Name] = true
		i := slices.IndexFunc(want.Devices, func(r row) bool { return r.Name == d.Name })
		if i < 0 {
			t.Errorf("lsblk has no %s", d.Name)
			continue
		}
		w := want.Devices[i]
		if d.MajorMinor != w.Number || d.Bytes != w.Size || d.ReadOnly != w.ReadOnly || d.Kind != w.Type && d.Kind != KindZRAM || w.Serial != nil && d.Serial != *w.Serial {
			t.Errorf("lsblk %+v, Read %+v", w, d)
		}
		if by, _ := ByNumber(os.DirFS("/sys"), d.MajorMinor); by.Name != d.Name {
			t.Errorf("%s is found as %s by its number", d.Name, by.Name)
		}
	}
	for _, name := range []string{parted, readOnly} {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
	for _, w := range want.Devices {
		if w.Size > 0 && !found[w.Name] {
			t.Errorf("%s is missing", w.Name)
		}
	}
}
