package blockdev

import (
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

func node(major, minor uint32, mode fs.FileMode) *fstest.MapFile {
	return &fstest.MapFile{Mode: mode | 0o660, Sys: &syscall.Stat_t{Rdev: unix.Mkdev(major, minor)}}
}

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func TestLinks(t *testing.T) {
	dev := fstest.MapFS{
		"sda":                       node(8, 0, fs.ModeDevice),
		"sdb":                       node(8, 16, fs.ModeDevice),
		"dm-3":                      node(253, 3, fs.ModeDevice),
		"null":                      node(1, 3, fs.ModeDevice|fs.ModeCharDevice),
		"disk/by-id/wwn-0x1":        link("../../sda"),
		"disk/by-id/wwn-0x2":        link("../../sda"), // a link of another device's name, left behind
		"disk/by-id/wwn-0x3":        link("../../nvme9n1"),
		"disk/by-path/ip-10.0.0.1":  link("../../sdb"),
		"disk/by-diskseq/7":         link("../../sdb"),
		"disk/by-label/\x1b[2Jevil": link("../../sdb"),
		"mapper/mpatha":             link("../dm-3"),
		"mapper/control":            node(10, 236, fs.ModeDevice|fs.ModeCharDevice),
		"longhorn/pvc-1":            node(8, 16, fs.ModeDevice), // made by the driver itself
		"longhorn/pvc-2":            node(8, 99, fs.ModeDevice),
		"vg/lv":                     link("/dev/dm-3"),
		"block/8:0":                 link("../sda"),
		"stdin":                     link("/proc/self/fd/0"),
		"log":                       link("/run/systemd/journal/dev-log"),
		"core":                      link("/proc/kcore"),
		"cdrom":                     link("sr0"),
		"rtc":                       link("null"),
		"pts/0":                     node(136, 0, fs.ModeDevice|fs.ModeCharDevice),
	}
	links, gaps := Links(dev)
	want := []Link{
		{Path: "/dev/disk/by-id/wwn-0x1", Target: "/dev/sda", MajorMinor: "8:0"},
		{Path: "/dev/disk/by-id/wwn-0x2", Target: "/dev/sda", MajorMinor: "8:0"},
		{Path: "/dev/disk/by-id/wwn-0x3", Target: "/dev/nvme9n1", Err: fs.ErrNotExist},
		{Path: "/dev/disk/by-label/\x1b[2Jevil", Target: "/dev/sdb", MajorMinor: "8:16"},
		{Path: "/dev/disk/by-path/ip-10.0.0.1", Target: "/dev/sdb", MajorMinor: "8:16"},
		{Path: "/dev/longhorn/pvc-1", MajorMinor: "8:16"},
		{Path: "/dev/longhorn/pvc-2", MajorMinor: "8:99"},
		{Path: "/dev/mapper/mpatha", Target: "/dev/dm-3", MajorMinor: "253:3"},
		{Path: "/dev/vg/lv", Target: "/dev/dm-3", MajorMinor: "253:3"},
	}
	if diff := cmp.Diff(want, links, cmpopts.EquateErrors()); diff != "" || len(gaps) > 0 {
		t.Errorf("gaps %v; links (-want +got):\n%s", gaps, diff)
	}
	devices := []nodereport.Device{{Name: "sda", MajorMinor: "8:0"}, {Name: "sdb", MajorMinor: "8:16"}, {Name: "dm-3", MajorMinor: "253:3"}, {Name: "nvme1c1n1"}}
	lost := AddLinks(devices, links)
	got := [][]string{devices[0].Links, devices[1].Links, devices[2].Links, devices[3].Links}
	if diff := cmp.Diff([][]string{
		{"/dev/disk/by-id/wwn-0x1", "/dev/disk/by-id/wwn-0x2"},
		{`/dev/disk/by-label/\x1b[2Jevil`, "/dev/disk/by-path/ip-10.0.0.1", "/dev/longhorn/pvc-1"},
		{"/dev/mapper/mpatha", "/dev/vg/lv"}, nil,
	}, got); diff != "" {
		t.Errorf("links of devices (-want +got):\n%s", diff)
	}
	dead := []nodereport.DeadLink{{Path: "/dev/disk/by-id/wwn-0x3", Target: "/dev/nvme9n1", Reason: "ENOENT"}, {Path: "/dev/longhorn/pvc-2", Target: "8:99", Reason: "ENODEV"}}
	if diff := cmp.Diff(dead, lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}
