package blockdev

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// tree reads a file of testdata/sysfs: "path = text", "path =x bytes in hex", "path -> target" and "folder/".
func tree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/sysfs/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if file, target, ok := strings.Cut(line, " -> "); ok {
			sys[file] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if file, digits, ok := strings.Cut(line, " =x "); ok {
			data, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sys[file] = &fstest.MapFile{Data: data, Mode: 0o444}
		} else if file, value, ok := strings.Cut(line, " = "); ok {
			sys[file] = &fstest.MapFile{Data: []byte(value + "\n"), Mode: 0o444}
		} else if dir, ok := strings.CutSuffix(line, "/"); ok {
			sys[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		} else {
			t.Fatalf("%s: %q", name, line)
		}
	}
	return sys
}

// What a kernel without SCSI, NVMe, device mapper, RBD and DRBD cannot make is in hand-made trees, by the kernel's documentation.
func TestList(t *testing.T) {
	const mpath = "naa.600c0ff0000000002a291957e69aec1e"
	for name, want := range map[string]struct {
		devices []nodereport.Device
		gaps    []nodereport.Gap
	}{
		"scsi-multipath": {devices: []nodereport.Device{
			{Name: "dm-3", MajorMinor: "253:3", Bytes: 209715200 * 512, Kind: "dm-mpath", State: "running", WWID: "3600c0ff0000000002a291957e69aec1e",
				Holders: []string{"dm-4"}, Slaves: []string{"sdb", "sdc"}},
			{Name: "dm-4", MajorMinor: "253:4", Bytes: 209713152 * 512, Kind: "part", State: "suspended", WWID: "part1-mpath-3600c0ff0000000002a291957e69aec1e",
				Slaves: []string{"dm-3"}},
			{Name: "sda", MajorMinor: "8:0", Bytes: 41943040 * 512, Kind: "disk", State: "running", Serial: "QM00001", WWID: "t10.ATA     QEMU HARDDISK                           QM00001"},
			{Name: "sda1", MajorMinor: "8:1", Bytes: 41940992 * 512, Kind: "part", State: "running", Serial: "QM00001", WWID: "t10.ATA     QEMU HARDDISK                           QM00001"},
			{Name: "sdb", MajorMinor: "8:16", Bytes: 209715200 * 512, Kind: "disk", State: "running", Serial: "abcd1234", WWID: mpath, Holders: []string{"dm-3"}},
			{Name: "sdc", MajorMinor: "8:32", Bytes: 209715200 * 512, Kind: "disk", ReadOnly: true, State: "transport-offline", Serial: "abcd1234", WWID: mpath,
				Holders: []string{"dm-3"}},
		}},
		"nvme": {devices: []nodereport.Device{
			{Name: "nvme0n1", MajorMinor: "259:0", Bytes: 41943040 * 512, Kind: "disk", State: "deleting (no IO)", Serial: "vol0abcdef0123456789",
				WWID: "nvme.1d0f-766f6c3061626364-416d617a6f6e-00000001"},
			{Name: "nvme1c1n1", Bytes: 1 << 30, Kind: "disk", State: "dead", Serial: "SPDK00000000000001"},
			{Name: "nvme1c2n1", Bytes: 1 << 30, Kind: "disk", State: "live", Serial: "SPDK00000000000001"},
			{Name: "nvme1n1", MajorMinor: "259:1", Bytes: 1 << 30, Kind: "disk", State: "live", Serial: "SPDK00000000000001",
				WWID: "uuid.2f1d7c4e-8a40-4c5d-9f6b-0a1b2c3d4e5f", Slaves: []string{"nvme1c1n1", "nvme1c2n1"}},
		}},
		"mapper": {devices: []nodereport.Device{
			{Name: "cciss/c0d0", MajorMinor: "104:0", Bytes: 1 << 20, Kind: "disk"},
			{Name: "dm-0", MajorMinor: "253:0", Bytes: 4194304 * 512, Kind: "dm-lvm", State: "running",
				WWID: "LVM-yQnTzvS3lG1Pfr2fY0sJk5Wm8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abcd", Holders: []string{"dm-1"}, Slaves: []string{"vda"}},
			{Name: "dm-1", MajorMinor: "253:1", Bytes: 4161536 * 512, Kind: "dm-crypt", State: "running",
				WWID: "CRYPT-LUKS2-184aa077df08490a99fe282cceaa325e-pvc-59a5cd1f", Slaves: []string{"dm-0"}},
			{Name: "dm-2", MajorMinor: "253:2", Bytes: 1 << 20, Kind: "dm", State: "running"},
			{Name: "md127", MajorMinor: "9:127", Bytes: 1984 * 512, Kind: "md", Slaves: []string{"xvdb1"}},
			{Name: "vda", MajorMinor: "254:0", Bytes: 4 << 30, Kind: "disk", Serial: "e4422068-6627-4ff6-9", Holders: []string{"dm-0"}},
			{Name: "xvdb1", MajorMinor: "202:17", Bytes: 1 << 20, Kind: "part", Holders: []string{"md127"}},
		}},
		"network": {devices: []nodereport.Device{
			{Name: "bcache0", MajorMinor: "250:0", Bytes: 1 << 20, Kind: "virtual"},
			{Name: "drbd1002", MajorMinor: "147:1002", Bytes: 1 << 30, Kind: "drbd", ReadOnly: true},
			{Name: "loop0", MajorMinor: "7:0", Bytes: 1 << 20, Kind: "loop", BackingFile: "/var/lib/volumes/pvc-1.img"},
			{Name: "loop1", MajorMinor: "7:1", Bytes: 1 << 20, Kind: "loop", ReadOnly: true, BackingFile: "/var/lib/volumes/pvc-2.img (deleted)"},
			{Name: "nbd0", MajorMinor: "43:0", Bytes: 1 << 20, Kind: "nbd"},
			{Name: "odd", MajorMinor: "240:0", Kind: "unknown"},
			{Name: "rbd0", MajorMinor: "252:0", Bytes: 1 << 30, Kind: "rbd", WWID: "replicapool/tenant/csi-vol-0e0be2ac-4d0e-11ee-9f3c-0a58a9feac02"},
			{Name: "rbd1", MajorMinor: "252:16", Bytes: 1 << 30, Kind: "rbd", ReadOnly: true, WWID: "replicapool/csi-vol-1@daily"},
		}, gaps: []nodereport.Gap{{What: "/sys/class/block/odd/size", Reason: `not a number of sectors: "many"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			devices, gaps := List(tree(t, name))
			if diff := cmp.Diff(want.devices, devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.gaps, gaps); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// A device that was removed under its mount has no folder any more, by name or by number.
func TestRemoved(t *testing.T) {
	sys := tree(t, "scsi-multipath")
	maps.DeleteFunc(sys, func(name string, _ *fstest.MapFile) bool {
		return strings.Contains(name, "host3") || strings.HasSuffix(name, "/sdc") || name == "dev/block/8:32"
	})
	for _, found := range []func() (nodereport.Device, []nodereport.Gap){
		func() (nodereport.Device, []nodereport.Gap) { return Read(sys, "sdc") },
		func() (nodereport.Device, []nodereport.Gap) { return ByNumber(sys, "8:32") },
	} {
		d, gaps := found()
		if !d.Removed || len(gaps) > 0 || d.Name != "sdc" && d.MajorMinor != "8:32" {
			t.Errorf("%+v, gaps %v", d, gaps)
		}
	}
	if d, _ := ByNumber(sys, "8:0"); d.Name != "sda" || d.Serial != "QM00001" || d.Removed {
		t.Errorf("by number: %+v", d)
	}
	for _, hostile := range []string{"", ".", "..", "../../dev/null", "sda/../sdb", "\x00"} {
		if d, gaps := Read(sys, hostile); !d.Removed {
			t.Errorf("Read(%q): %+v, %v", hostile, d, gaps)
		}
	}
}

// Only what is not there is a fact; what may not be read, or fails, is a gap.
func TestUnreadableIsAGap(t *testing.T) {
	sys := failing{tree(t, "nvme"), "devices/pci0000:00/0000:00:04.0/nvme/nvme0/state", fs.ErrPermission}
	d, gaps := Read(sys, "nvme0n1")
	if d.State != "" || d.Serial == "" || len(gaps) != 1 || gaps[0].Reason != "EACCES" {
		t.Errorf("%+v, gaps %v", d, gaps)
	}
	if _, gaps := List(fstest.MapFS{}); len(gaps) != 1 {
		t.Errorf("without class/block: gaps %v, want one", gaps)
	}
	if d, gaps := ByNumber(failing{tree(t, "nvme"), "dev/block/259:0", errors.New("broken")}, "259:0"); d.Removed || len(gaps) != 1 {
		t.Errorf("%+v, gaps %v", d, gaps)
	}
}

// failing is a tree in which one file gives an error.
type failing struct {
	fstest.MapFS
	file string
	err  error
}

func (f failing) real(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		dir := path.Join(parts[:i+1]...)
		if target, err := f.MapFS.ReadLink(dir); err == nil {
			return f.real(path.Join(path.Dir(dir), target, path.Join(parts[i+1:]...)))
		}
	}
	return name
}

func (f failing) ReadFile(name string) ([]byte, error) {
	if f.real(name) == f.file {
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.err}
	}
	return f.MapFS.ReadFile(name)
}

func (f failing) ReadLink(name string) (string, error) {
	if name == f.file {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: f.err}
	}
	return f.MapFS.ReadLink(name)
}

func TestMarkMembers(t *testing.T) {
	devices, _ := List(tree(t, "scsi-multipath"))
	for i := range devices {
		devices[i].Signature = &nodereport.Signature{Type: "ext4", UUID: "u"}
		if devices[i].Name == "sdc" {
			devices[i].Signature = &nodereport.Signature{Type: "unknown", Error: "EIO"}
		}
	}
	MarkMembers(devices)
	var got []string
	for _, d := range devices {
		got = append(got, d.Name+" "+d.Signature.Type+" "+d.Signature.UUID+d.Signature.Error)
	}
	want := []string{"dm-3 ext4 u", "dm-4 ext4 u", "sda ext4 u", "sda1 ext4 u", "sdb mpath_member ", "sdc mpath_member EIO"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
