// Package blockdev knows what a block device is: the facts that sysfs and /dev tell of it, the signature and superblock that
// it holds, whether it still answers a read, and which device a line of the kernel's log is about. It refuses to judge, to
// write, and to look at mounts or Kubernetes. Its calls may block for as long as the device does: whoever must not hang makes
// them in a process that can be left behind.
package blockdev

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// sectorSize is the unit of sysfs sizes, whatever the device's own sectors are (Documentation/ABI/stable/sysfs-block).
const sectorSize = 512

// Kinds of devices, as NodeReport names them.
const (
	KindDisk    = "disk"
	KindPart    = "part"
	KindLoop    = "loop"
	KindMpath   = "dm-mpath"
	KindCrypt   = "dm-crypt"
	KindLVM     = "dm-lvm"
	KindDM      = "dm"
	KindMD      = "md"
	KindRBD     = "rbd"
	KindDRBD    = "drbd"
	KindNBD     = "nbd"
	KindZRAM    = "zram"
	KindVirtual = "virtual"
	KindUnknown = "unknown"
)

const classDir = "class/block"

// List reads all devices of a sysfs tree (os.DirFS("/sys")), sorted by name. Slots that nothing is bound to (loop3, nbd7 of
// no size) are left out. What cannot be read is a gap.
func List(sys fs.FS) ([]nodereport.Device, []nodereport.Gap) {
	entries, err := fs.ReadDir(sys, classDir)
	if err != nil {
		return nil, []nodereport.Gap{{What: "/sys/" + classDir, Reason: Reason(err)}}
	}
	var devices []nodereport.Device
	var gaps []nodereport.Gap
	for _, e := range entries {
		d, bad := Read(sys, e.Name())
		gaps = append(gaps, bad...)
		if !d.Removed && (d.Bytes > 0 || !slices.Contains(slotKinds, d.Kind)) {
			devices = append(devices, d)
		}
	}
	return devices, gaps
}

// slotKinds are made ahead and in numbers; without a size nothing is behind one.
var slotKinds = []string{KindLoop, KindNBD, KindZRAM, KindVirtual}

// Read reads the facts of one device by its kernel name ("sda", "dm-3"). One that sysfs does not have is Removed.
// Links and Signature are not looked at.
func Read(sys fs.FS, name string) (nodereport.Device, []nodereport.Gap) {
	// The kernel writes a slash in a name as an exclamation mark, for a file name cannot have one.
	name = strings.ReplaceAll(name, "/", "!")
	d := nodereport.Device{Name: strings.ReplaceAll(name, "!", "/")}
	dir := path.Join(classDir, name)
	if _, err := fs.Stat(sys, dir); err != nil || !fs.ValidPath(dir) || path.Base(dir) != name {
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			d.Removed = true
			return d, nil
		}
		return d, []nodereport.Gap{{What: "/sys/" + dir, Reason: Reason(err)}}
	}
	a := &attributes{sys: sys, dir: dir}
	d.MajorMinor = a.text("dev")
	d.Bytes = a.number("size") * sectorSize
	d.ReadOnly = a.text("ro") == "1"
	d.Holders = a.names("holders")
	d.Slaves = a.names("slaves")
	d.BackingFile = Printable(a.text("loop/backing_file"))
	d.Kind = a.kind(d.Name)
	of := a
	if a.has("partition") { // state and identity are the whole disk's
		of = a.parent()
	}
	d.State, d.Serial, d.WWID = of.state(), Printable(of.serial()), Printable(of.wwid())
	if d.Slaves == nil {
		d.Slaves = a.nvmePaths(name)
	}
	return d, append(a.gaps, a.others...)
}

// ByNumber finds a device by "major:minor", as mountinfo and stat name it. One that sysfs does not have any more is Removed
// and has no name: the mount that still uses it knows how it was called.
func ByNumber(sys fs.FS, majorMinor string) (nodereport.Device, []nodereport.Gap) {
	link := "dev/block/" + majorMinor
	target, err := fs.ReadLink(sys, link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nodereport.Device{MajorMinor: majorMinor, Removed: true}, nil
	case err != nil:
		return nodereport.Device{MajorMinor: majorMinor}, []nodereport.Gap{{What: "/sys/" + link, Reason: Reason(err)}}
	}
	return Read(sys, path.Base(target))
}

// attributes reads the files of one folder of sysfs. A missing file is a fact; another error is a gap.
type attributes struct {
	sys    fs.FS
	dir    string
	gaps   []nodereport.Gap
	others []nodereport.Gap // of the folders beside
}

func (a *attributes) has(name string) bool {
	_, err := fs.Stat(a.sys, path.Join(a.dir, name))
	return err == nil
}

// bytes reads a file whole; sysfs has none above a page.
func (a *attributes) bytes(name string) []byte {
	file := path.Join(a.dir, name)
	data, err := fs.ReadFile(a.sys, file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !notADir(err) {
			a.gaps = append(a.gaps, nodereport.Gap{What: "/sys/" + file, Reason: Reason(err)})
		}
		return nil
	}
	return data
}

func (a *attributes) text(name string) string { return strings.TrimSpace(string(a.bytes(name))) }

func (a *attributes) number(name string) int64 {
	text := a.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxSectors {
		a.gaps = append(a.gaps, nodereport.Gap{What: "/sys/" + path.Join(a.dir, name), Reason: fmt.Sprintf("not a number of sectors: %q", text)})
		return 0
	}
	return n
}

const maxSectors = 1<<63/sectorSize - 1 // what still fits when counted in bytes

// names lists a folder of links to other devices.
func (a *attributes) names(name string) []string {
	entries, err := fs.ReadDir(a.sys, path.Join(a.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.gaps = append(a.gaps, nodereport.Gap{What: "/sys/" + path.Join(a.dir, name), Reason: Reason(err)})
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.ReplaceAll(e.Name(), "!", "/"))
	}
	return out
}

// real is where a link of /sys/class/block leads: the device's place in the tree of buses.
func (a *attributes) real() string {
	target, err := fs.ReadLink(a.sys, a.dir)
	if err != nil {
		return a.dir
	}
	return path.Join(path.Dir(a.dir), target)
}

func (a *attributes) parent() *attributes {
	return &attributes{sys: a.sys, dir: path.Dir(a.real())}
}
