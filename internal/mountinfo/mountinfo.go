// Package mountinfo knows a mount table as a volume sees it: what is mounted at a path and what lies buried below, which
// mounts are of one device, and which processes hold one in a mount namespace of their own. It reads a /proc and parses
// /proc/PID/mountinfo line by line: a line that it does not understand is a gap and the table goes on. It judges nothing,
// touches no path outside that /proc, and knows of Kubernetes only how container runtimes name cgroups and mounts.
package mountinfo

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Mount is one line of a mount table.
type Mount struct {
	mountinfo.Info
	Line string // as the kernel wrote it
}

// Table is a mount table in the kernel's order: of two mounts at one path the later one covers the earlier.
type Table []Mount

// Parse reads a table. A bad line becomes a gap.
func Parse(text string) (Table, []nodereport.Gap) {
	t := make(Table, 0, strings.Count(text, "\n")+1)
	var gaps []nodereport.Gap
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) == "" {
			continue
		}
		info, err := parseLine(line)
		if err != nil {
			gaps = append(gaps, nodereport.Gap{What: fmt.Sprintf("mountinfo line %d", n), Reason: err.Error()})
			continue
		}
		t = append(t, Mount{info, line})
	}
	return t, gaps
}

// parseLine does what GetMountsFromReader of moby/sys does with one line; that one is built on Linux only, and a bundle is
// read on laptops too. It is stricter by field: a number that is none is an error.
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	(0)(1)(2)  (3)   (4)   (5)        (6)...   sep fstype source super options
func parseLine(line string) (info mountinfo.Info, err error) {
	var f [6]string
	at := 0
	for i := range f {
		n := strings.IndexByte(line[at:], ' ')
		if n < 0 {
			return info, fmt.Errorf("%d fields, want 10 or more", i+1)
		}
		f[i] = line[at : at+n]
		at += n + 1
	}
	rest := line[at-1:]                   // with the space before it: the separator may come first
	sep := strings.LastIndex(rest, " - ") // from behind: super options of old cifs may have spaces in them
	for sep >= 0 && strings.Count(rest[sep+3:], " ") < 2 {
		sep = strings.LastIndex(rest[:sep+2], " - ")
	}
	if sep < 0 {
		return info, fmt.Errorf("no separator with a type, a source and options behind it")
	}
	fstype, tail, _ := strings.Cut(rest[sep+3:], " ")
	source, tail, _ := strings.Cut(tail, " ")
	options, _, _ := strings.Cut(tail, " ")
	major, minor, ok := strings.Cut(f[2], ":")
	if !ok {
		return info, fmt.Errorf("device %q is no major:minor", f[2])
	}
	var n [4]int
	for i, s := range [4]string{f[0], f[1], major, minor} {
		if n[i], err = strconv.Atoi(s); err != nil {
			return info, fmt.Errorf("%q is no number", s)
		}
	}
	return mountinfo.Info{ID: n[0], Parent: n[1], Major: n[2], Minor: n[3], Root: unescape(f[3]), Mountpoint: unescape(f[4]),
		Options: f[5], Optional: strings.TrimPrefix(rest[:sep], " "), FSType: unescape(fstype), Source: unescape(source), VFSOptions: options}, nil
}

// unescape turns the kernel's \NNN (space, tab, newline, backslash, hash) back; all else stays.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && (s[i+1] == '0' || s[i+1] == '1') && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(b byte) bool { return b >= '0' && b <= '7' }

// Device is the st_dev of the mount, as sysfs and a report's devices write it.
func (m Mount) Device() string { return strconv.Itoa(m.Major) + ":" + strconv.Itoa(m.Minor) }

// Anonymous: the filesystem has no block device of its own (NFS, FUSE, tmpfs, overlay, btrfs).
func (m Mount) Anonymous() bool { return m.Major == 0 }

// ReadOnly: this mount, or the filesystem below it.
func (m Mount) ReadOnly() (mount, filesystem bool) {
	return has(m.Options, "ro"), has(m.VFSOptions, "ro")
}

// Has tells whether the mount or its filesystem has an option, such as nouuid.
func (m Mount) Has(option string) bool { return has(m.Options, option) || has(m.VFSOptions, option) }

func has(options, option string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == option {
			return true
		}
	}
	return false
}

// Deleted: the file or folder that was bind-mounted has been removed since.
func (m Mount) Deleted() bool { return strings.HasSuffix(m.Root, "//deleted") }

// Propagation gives the peer group that the mount shares events with and the one that it only receives from; 0: none.
func (m Mount) Propagation() (shared, master int) {
	for o := range strings.SplitSeq(m.Optional, " ") {
		name, group, _ := strings.Cut(o, ":")
		n, err := strconv.Atoi(group)
		switch {
		case err != nil:
		case name == "shared":
			shared = n
		case name == "master":
			master = n
		}
	}
	return shared, master
}

// At is what one sees at a mount point: of several mounts there the last.
func (t Table) At(mountpoint string) (Mount, bool) {
	layers := t.Layers(mountpoint)
	if len(layers) == 0 {
		return Mount{}, false
	}
	return layers[len(layers)-1], true
}

// Layers are all mounts at a mount point, the buried ones first.
func (t Table) Layers(mountpoint string) Table {
	mountpoint = path.Clean(mountpoint)
	return t.where(func(m Mount) bool { return m.Mountpoint == mountpoint })
}

// Below are the mounts at a path or under it.
func (t Table) Below(dir string) Table {
	dir = path.Clean(dir)
	return t.where(func(m Mount) bool { return m.Mountpoint == dir || strings.HasPrefix(m.Mountpoint, dir+"/") })
}

// Of are the mounts of one device, by major:minor.
func (t Table) Of(device string) Table {
	return t.where(func(m Mount) bool { return m.Device() == device })
}

func (t Table) where(fits func(Mount) bool) Table {
	var out Table
	for _, m := range t {
		if fits(m) {
			out = append(out, m)
		}
	}
	return out
}
