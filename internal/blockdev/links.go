package blockdev

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Link is another name of a device below /dev: a link that udev made, or a device node that a driver made by itself
// (/dev/longhorn/pvc-1). Path and Target are whole ("/dev/disk/by-id/wwn-0x5", "/dev/sda"); Target is what a link says,
// MajorMinor what really stands at its end, empty where it leads nowhere, or to something that is no block device.
type Link struct {
	Path, Target, MajorMinor string
	Err                      error // why the end could not be seen; fs.ErrNotExist: the link dangles
}

// maxLinks bounds what is kept of a /dev that something fills up; the largest nodes have some ten thousand.
const maxLinks = 100_000

// Folders of /dev without names of volumes' devices: other kinds of devices, file systems of their own, and names that only
// repeat the number.
var skippedDirs = []string{"block", "bus", "char", "cpu", "dri", "fd", "hugepages", "input", "mqueue", "net", "pts", "shm", "snd", "disk/by-diskseq"}

// Links walks a tree of devices (os.DirFS("/dev")), sorted by path. What cannot be read is a gap.
func Links(dev fs.FS) ([]Link, []nodereport.Gap) {
	var links []Link
	var gaps []nodereport.Gap
	err := fs.WalkDir(dev, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if !errors.Is(err, fs.ErrNotExist) { // a device that went meanwhile
				gaps = append(gaps, nodereport.Gap{What: "/dev/" + Printable(name), Reason: Reason(err)})
			}
			return nil
		case e.IsDir():
			if slices.Contains(skippedDirs, name) {
				return fs.SkipDir
			}
			return nil
		case len(links) == maxLinks:
			return errTooMany
		}
		below := strings.Contains(name, "/")
		switch mode := e.Type(); {
		case mode&fs.ModeSymlink != 0:
			if l, ok := follow(dev, name); ok {
				links = append(links, l)
			}
		case below && mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
			if info, err := e.Info(); err == nil {
				links = append(links, Link{Path: "/dev/" + name, MajorMinor: number(info)})
			}
		}
		return nil
	})
	if err != nil {
		gaps = append(gaps, nodereport.Gap{What: "/dev", Reason: Reason(err)})
	}
	return links, gaps
}

var errTooMany = errors.New("too many links, the rest was left")

// follow reads a link; ok is false for one that has nothing to do with block devices (/dev/stdin).
func follow(dev fs.FS, name string) (Link, bool) {
	target, err := fs.ReadLink(dev, name)
	if err != nil {
		return Link{}, false
	}
	l := Link{Path: "/dev/" + name, Target: target}
	if !path.IsAbs(target) {
		l.Target = path.Join("/dev", path.Dir(name), target)
	}
	inside, ok := strings.CutPrefix(l.Target, "/dev/")
	if !ok {
		return Link{}, false
	}
	info, err := fs.Stat(dev, inside)
	switch {
	case err != nil:
		l.Err = err
		return l, strings.Contains(name, "/") // at the top dangling links are of other things: /dev/log, /dev/core
	case info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0:
		return Link{}, false
	}
	l.MajorMinor = number(info)
	return l, true
}

// AddLinks gives each device the links that lead to it, by number, and returns those that lead to none of them.
func AddLinks(devices []nodereport.Device, links []Link) (dead []nodereport.DeadLink) {
	at := map[string]*nodereport.Device{}
	for i := range devices {
		at[devices[i].MajorMinor] = &devices[i]
	}
	for _, l := range links {
		lost := nodereport.DeadLink{Path: Printable(l.Path), Target: Printable(l.Target)}
		switch d := at[l.MajorMinor]; {
		case l.Err != nil:
			lost.Reason = Reason(l.Err)
		case l.MajorMinor == "":
			lost.Reason = "no number"
		case d == nil:
			lost.Target, lost.Reason = cmp.Or(lost.Target, l.MajorMinor), "ENODEV"
		default:
			d.Links = append(d.Links, lost.Path)
			continue
		}
		dead = append(dead, lost)
	}
	return dead
}

// MarkMembers names what the devices below a multipath map hold as what they are, mpath_member: the signature behind is the map's to show.
// One that could not be read keeps why.
func MarkMembers(devices []nodereport.Device) {
	maps := map[string]bool{}
	for _, d := range devices {
		maps[d.Name] = d.Kind == KindMpath
	}
	for i := range devices {
		if s := devices[i].Signature; s != nil && slices.ContainsFunc(devices[i].Holders, func(h string) bool { return maps[h] }) {
			devices[i].Signature = &nodereport.Signature{Type: "mpath_member", Error: s.Error}
		}
	}
}
