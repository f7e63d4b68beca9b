package blockdev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// The filesystems of the table, each in the smallest size that its mkfs makes.
var tableFilesystems = []struct {
	kind string
	size int64
	mkfs []string
}{
	{"ext4", 32 * mib, []string{"mkfs.ext4", "-q", "-L", "data"}},
	{"xfs", 320 * mib, []string{"mkfs.xfs", "-q", "-L", "data"}},
	{"btrfs", 128 * mib, []string{"mkfs.btrfs", "-q", "-L", "data"}},
}

// TestStates is the table of state times filesystem, on real images and loop devices. What this kernel cannot make (a device
// that is removed, dead paths, multipath, dm-crypt, iSCSI, NVMe) is in the trees of TestList and TestRemoved; states of the
// mount (full, stacked, held elsewhere) are not the device's.
func TestStates(t *testing.T) {
	needs(t, "losetup", "blkid", "xfs_io", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs")
	for _, fs := range tableFilesystems {
		made := newImage(t, fs.size)
		run(t, fs.mkfs[0], append(fs.mkfs[1:], made)...)
		for name, state := range states {
			if state.only != "" && state.only != fs.kind {
				continue // does not exist there
			}
			t.Run(name+"/"+fs.kind, func(t *testing.T) {
				image := copyImage(t, made)
				before := blkid(t, image)
				got := state.make(t, image, fs.kind)
				want := nodereport.Signature{Type: fs.kind, UUID: before["UUID"], Label: "data", Bytes: fs.size}
				state.want(&want, fs.kind)
				if got.Type != want.Type || got.UUID != want.UUID || got.Label != want.Label || got.Bytes != want.Bytes || got.State != want.State {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				if !strings.HasPrefix(got.Error, want.Error) || want.Error == "" && got.Error != "" {
					t.Errorf("error %q, want %q", got.Error, want.Error)
				}
				if got.Errors < want.Errors || (got.Errors > 0) != (want.Errors > 0) || !strings.Contains(got.LastError, want.LastError) {
					t.Errorf("errors %d, %q; want %d, %q", got.Errors, got.LastError, want.Errors, want.LastError)
				}
			})
		}
	}
}

func probeFile(t testing.TB, image string) nodereport.Signature {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return Probe(f, info.Size(), "6.18.0")
}

func inspect(dev string) nodereport.Signature { return Inspect(dev, "", "6.18.0") }

func grown(t *testing.T, image string, by int64) string {
	t.Helper()
	info, err := os.Stat(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, info.Size()+by); err != nil {
		t.Fatal(err)
	}
	return loop(t, image)
}

var states = map[string]struct {
	only string
	make func(t *testing.T, image, kind string) nodereport.Signature
	want func(s *nodereport.Signature, kind string)
}{
	"clean": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			s := inspect(loop(t, image))
			sameAsBlkid(t, image, s)
			return s
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "clean" },
	},
	"mounted and unmounted again": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			dir, unmount := mounted(t, dev, kind)
			writeSynced(t, dir)
			unmount()
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "clean" },
	},
	"mounted": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			dir, _ := mounted(t, dev, kind)
			writeSynced(t, dir)
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "dirty" },
	},
	"dirty": { // as after a node's crash
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dir, _ := mounted(t, loop(t, image), kind)
			writeSynced(t, dir)
			copied := copyImage(t, image)
			s := probeFile(t, copied)
			sameAsBlkid(t, copied, s)
			return s
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "dirty" },
	},
	"errors": {
		only: "ext4",
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			_, unmount := mounted(t, dev, kind)
			trigger := filepath.Join("/sys/fs/ext4", filepath.Base(dev), "trigger_fs_error")
			if err := os.WriteFile(trigger, []byte("made by a test"), 0); err != nil {
				t.Fatal(err)
			}
			unmount()
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, _ string) {
			s.State, s.Errors, s.LastError = "errors", 1, "trigger_test_error"
		},
	},
	"errors set by debugfs": {
		only: "ext4",
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			for _, set := range []string{"state 2", "error_count 7", "last_error_func ext4_lookup", "last_error_line 1707", "last_error_ino 12",
				"last_error_time 20260301120000"} {
				run(t, "debugfs", "-w", "-R", "set_super_value "+set, image)
			}
			return inspect(loop(t, image))
		},
		want: func(s *nodereport.Signature, _ string) {
			s.State, s.Errors, s.LastError = "errors", 7, "ext4_lookup:1707 inode 12 at 2026-03-01T12:00:00Z"
		},
	},
	"shut down": {
		only: "xfs",
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			dir, unmount := mounted(t, dev, kind)
			writeSynced(t, dir)
			run(t, "xfs_io", "-x", "-c", "shutdown", dir)
			unmount()
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "dirty" },
	},
	"I/O errors": { // the file behind the device is cut short
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			if err := os.Truncate(image, 8*mib); err != nil {
				t.Fatal(err)
			}
			if got := ReadTest(dev); got != "EIO" {
				t.Errorf("read test: %q, want EIO", got)
			}
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, kind string) {
			s.Error, s.State = "EIO", "clean"
			if kind == "xfs" { // its log cannot be read
				s.State = ""
			}
		},
	},
	"I/O errors from the start": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			if err := os.Truncate(image, 0); err != nil {
				t.Fatal(err)
			}
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, kind string) { *s = nodereport.Signature{Type: "unknown", Error: "EIO"} },
	},
	"truncated": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			if err := os.Truncate(image, 8*mib); err != nil {
				t.Fatal(err)
			}
			return inspect(loop(t, image))
		},
		want: func(s *nodereport.Signature, kind string) {
			s.Error, s.State = kind+" of ", "clean"
			if kind == "xfs" {
				s.State = ""
			}
		},
	},
	"superblock damaged": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			patch(t, image, map[string]int64{"ext4": extAt + extLabel, "xfs": xfsLabel, "btrfs": btrfsAt + btrfsLabel}[kind], []byte("DATA"))
			return inspect(loop(t, image))
		},
		want: func(s *nodereport.Signature, kind string) {
			s.Label, s.Error, s.State = "DATA", errChecksum.Error(), "clean"
			if kind == "xfs" {
				s.State = ""
			}
		},
	},
	"zeroed": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			run(t, "blkdiscard", "--zeroout", loop(t, image))
			s := inspect(loop(t, image))
			sameAsBlkid(t, image, s)
			return s
		},
		want: func(s *nodereport.Signature, _ string) { *s = nodereport.Signature{Type: "none"} },
	},
	"start zeroed, end not": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			info, err := os.Stat(image)
			if err != nil {
				t.Fatal(err)
			}
			patch(t, image, 0, make([]byte, 4*mib))
			patch(t, image, info.Size()-1, []byte{1})
			return inspect(loop(t, image))
		},
		want: func(s *nodereport.Signature, _ string) { *s = nodereport.Signature{Type: "unknown"} },
	},
	"foreign signature": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			run(t, "wipefs", "-qa", dev)
			run(t, "mkswap", "-q", "-U", "11111111-2222-3333-4444-555555555555", dev)
			s := inspect(dev)
			sameAsBlkid(t, image, s)
			return s
		},
		want: func(s *nodereport.Signature, _ string) {
			*s = nodereport.Signature{Type: "swap", UUID: "11111111-2222-3333-4444-555555555555", Bytes: s.Bytes}
		},
	},
	"duplicate uuid": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			first, second := inspect(loop(t, image)), inspect(loop(t, copyImage(t, image)))
			if first.UUID == "" || first.UUID != second.UUID {
				t.Errorf("of two copies: %q and %q", first.UUID, second.UUID)
			}
			return second
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "clean" },
	},
	"read-only": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image, "--read-only")
			d, gaps := Read(os.DirFS("/sys"), filepath.Base(dev))
			if !d.ReadOnly || d.BackingFile != image || len(gaps) > 0 {
				t.Errorf("%+v, gaps %v", d, gaps)
			}
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "clean" },
	},
	"smaller than the grown device": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := grown(t, image, 64*mib)
			s := inspect(dev)
			if d, _ := Read(os.DirFS("/sys"), filepath.Base(dev)); d.Bytes != s.Bytes+64*mib {
				t.Errorf("device of %d bytes, filesystem of %d", d.Bytes, s.Bytes)
			}
			return s
		},
		want: func(s *nodereport.Signature, _ string) { s.State = "clean" },
	},
	"grown with its device": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := grown(t, image, 256*mib) // btrfs takes no less
			if kind == "ext4" {             // while it is mounted that needs a capability which not every root has
				run(t, "e2fsck", "-fp", dev)
				run(t, "resize2fs", dev)
				return inspect(dev)
			}
			dir, _ := mounted(t, dev, kind)
			if s := inspect(dev); s.Bytes == 0 { // what would be in the device's cache from here on
				t.Errorf("%+v", s)
			}
			if kind == "xfs" {
				run(t, "xfs_growfs", dir)
			} else {
				run(t, "btrfs", "filesystem", "resize", "max", dir)
			}
			run(t, "fsfreeze", "--freeze", dir) // from the log to its place
			run(t, "fsfreeze", "--unfreeze", dir)
			return inspect(dev)
		},
		want: func(s *nodereport.Signature, kind string) {
			s.State, s.Bytes = "clean", s.Bytes+256*mib
			if kind == "xfs" { // so that a copy of a frozen one is looked through
				s.State = "dirty"
			}
		},
	},
	"label changed while mounted": {
		make: func(t *testing.T, image, kind string) nodereport.Signature {
			dev := loop(t, image)
			dir, _ := mounted(t, dev, kind)
			writeSynced(t, dir)
			if s := inspect(dev); s.Label != "data" {
				t.Errorf("%+v", s)
			}
			run(t, "xfs_io", "-c", "label -s live", dir)
			s := inspect(dev)
			s.State = "" // btrfs has just written all
			return s
		},
		want: func(s *nodereport.Signature, _ string) { s.Label = "live" },
	},
}
