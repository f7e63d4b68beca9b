package blockdev

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// blockName are the kernel's own names of block devices; a longer one is not cut down to a shorter.
const blockName = `((?:(?:sd|vd|xvd|hd)[a-z]{1,4}\d{0,3}|dasd[a-z]{1,4}\d{0,3}|nvme\d+(?:c\d+)?n\d+(?:p\d+)?|mmcblk\d+(?:p\d+)?|(?:rbd|nbd|loop|md|zd|pmem|bcache)\d+(?:p\d+)?|drbd\d+|zram\d+|sr\d+|dm-\d+))`

// Where a line of the kernel's log names the device that it is about, the surest place first.
var logPlaces = []*regexp.Regexp{
	regexp.MustCompile(`\((?:device )?` + blockName + `(?: state [A-Z]+)?\)`),      // XFS (dm-0): ..., BTRFS error (device sdb state EA): ...
	regexp.MustCompile(`\b(?:dev|device) ` + blockName + `(?:-\d+)?(?:[,.:\s]|$)`), // I/O error, dev sdb, sector 0; Aborting journal on device sdb-8.
	regexp.MustCompile(`\[` + blockName + `\]`),                                    // sd 2:0:0:1: [sdb] ...
	regexp.MustCompile(`\b(?:on|for) ` + blockName + `-\d+(?:[,.:\s]|$)`),          // JBD2: ... on dm-3-8
	regexp.MustCompile(`^drbd \S+ (drbd\d+)(?: \S+)?: `),                           // drbd pvc-1/0 drbd1000 node-2: ...
	regexp.MustCompile(`^(?:[\w/-]+[: ] ?)?(?:\S+ )?` + blockName + `:(?:\s|$)`),   // block nbd0: ..., rbd: rbd0: ...
	regexp.MustCompile(`(?:^|\s)/dev/` + blockName + `(?:[,.:\s]|$)`),              // BTRFS: device ... /dev/sdb scanned by
	regexp.MustCompile(`^device-mapper: [\w -]+: (\d{1,4}:\d{1,7}): `),             // a number: Named finds the name
	regexp.MustCompile(`^(?:sd|scsi) (\d{1,5}:\d{1,5}:\d{1,5}:\d{1,20}): `),        // a SCSI address
	regexp.MustCompile(`^(?:nvme )?(nvme\d+): `),                                   // an NVMe controller
}

var logStamp = regexp.MustCompile(`^(?:<\d+>)?(?:\[\s*\d+\.\d+\]\s)?\s*`)

// LogDevice tells which block device a line of the kernel's log is about: by its name ("sdb", "dm-0"), or by what the line has
// instead, which Named turns into one: a number ("253:3"), a SCSI address ("2:0:0:1"), an NVMe controller ("nvme1").
// Empty: none. A multipath line that says which path failed is about the map.
func LogDevice(message string) string {
	message = message[len(logStamp.FindString(message)):]
	if !mayName(message) {
		return ""
	}
	for _, place := range logPlaces {
		if m := place.FindStringSubmatch(message); m != nil {
			return m[1]
		}
	}
	return ""
}

var nameStarts = []string{"sd", "vd", "xvd", "hd", "dasd", "nvme", "mmcblk", "rbd", "nbd", "loop", "md", "zd", "pmem", "bcache", "drbd", "zram", "sr", "dm-", "device-mapper", "scsi"}

// mayName spares most lines of a log the expressions: a word must begin as the names do.
func mayName(message string) bool {
	inWord := false
	for i, c := range []byte(message) {
		before := inWord
		inWord = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if inWord && !before && slices.ContainsFunc(nameStarts, func(start string) bool { return strings.HasPrefix(message[i:], start) }) {
			return true
		}
	}
	return false
}

var (
	numberForm     = regexp.MustCompile(`^\d+:\d+$`)
	addressForm    = regexp.MustCompile(`^\d+:\d+:\d+:\d+$`)
	controllerForm = regexp.MustCompile(`^nvme\d+$`)
)

// Named gives the device's name for what LogDevice found, by a sysfs tree; what it does not know stays as it is. Of a
// controller with several namespaces there is no one name.
func Named(sys fs.FS, found string) string {
	switch {
	case numberForm.MatchString(found):
		if target, err := fs.ReadLink(sys, "dev/block/"+found); err == nil {
			return strings.ReplaceAll(path.Base(target), "!", "/")
		}
	case addressForm.MatchString(found):
		if name := only(sys, "class/scsi_device/"+found+"/device/block", ""); name != "" {
			return name
		}
	case controllerForm.MatchString(found):
		if name := only(sys, "class/nvme/"+found, found); name != "" {
			return name
		}
	}
	return found
}

// only is the one name in a folder that goes on behind a prefix with n; empty for none and for several.
func only(sys fs.FS, dir, prefix string) string {
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return ""
	}
	name := ""
	for _, e := range entries {
		if prefix != "" && !strings.HasPrefix(e.Name(), prefix+"n") {
			continue
		}
		if name != "" {
			return ""
		}
		name = e.Name()
	}
	return name
}
