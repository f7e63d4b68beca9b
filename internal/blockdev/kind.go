package blockdev

import (
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// kindOfName are the drivers whose devices are told by the kernel's own names for them.
var kindOfName = []struct{ prefix, kind string }{
	{"loop", KindLoop}, {"rbd", KindRBD}, {"drbd", KindDRBD}, {"nbd", KindNBD}, {"zram", KindZRAM},
}

// kindOfUUID: the device mapper's programs put their own name before the UUID (dm/uuid).
var kindOfUUID = []struct{ prefix, kind string }{
	{"mpath-", KindMpath}, {"CRYPT-", KindCrypt}, {"LVM-", KindLVM},
}

func (a *attributes) kind(name string) string {
	switch {
	case a.has("partition"):
		return KindPart
	case a.has("dm"):
		uuid := a.text("dm/uuid")
		for _, k := range kindOfUUID {
			if strings.HasPrefix(uuid, k.prefix) {
				return k.kind
			}
		}
		if n, _, ok := strings.Cut(uuid, "-"); ok && strings.HasPrefix(n, "part") { // kpartx: part1-mpath-3600...
			return KindPart
		}
		return KindDM
	case a.has("md"):
		return KindMD
	}
	for _, k := range kindOfName {
		if n, ok := strings.CutPrefix(name, k.prefix); ok && strings.Trim(n, "0123456789") == "" && n != "" {
			return k.kind
		}
	}
	switch {
	case a.has("device"):
		return KindDisk
	case strings.HasPrefix(a.real(), "devices/virtual/"):
		return KindVirtual
	}
	return KindUnknown
}

// state is the transport's: SCSI and NVMe keep one, the device mapper knows suspended, the others have none.
func (a *attributes) state() string {
	if a.has("dm") {
		switch a.text("dm/suspended") {
		case "1":
			return "suspended"
		case "0":
			return "running" // as lsblk says
		}
		return ""
	}
	if s := a.text("device/state"); s != "" {
		return s
	}
	// An NVMe namespace that several controllers reach hangs on their subsystem: it lives as long as one of them does.
	best := ""
	for _, controller := range a.controllers() {
		s := a.text("device/" + controller + "/state")
		if best == "" || s == "live" {
			best = s
		}
	}
	return best
}

// controllers of the NVMe subsystem that a namespace hangs on.
func (a *attributes) controllers() []string {
	if !a.has("device/subsysnqn") || a.has("device/state") {
		return nil
	}
	entries, err := fs.ReadDir(a.sys, path.Join(a.dir, "device"))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "nvme"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			out = append(out, e.Name())
		}
	}
	return out
}

// nvmePaths are the hidden devices, one a controller, through which a namespace of several controllers is reached:
// nvme1n2 goes through nvme1c3n2. They stand for slaves, which sysfs does not list there.
func (a *attributes) nvmePaths(name string) []string {
	at := strings.LastIndexByte(name, 'n')
	if at <= 0 || !strings.HasPrefix(name, "nvme") {
		return nil
	}
	var out []string
	for _, controller := range a.controllers() {
		hidden := name[:at] + "c" + strings.TrimPrefix(controller, "nvme") + name[at:]
		if a.has("device/" + controller + "/" + hidden) {
			out = append(out, hidden)
		}
	}
	slices.Sort(out)
	return out
}

// serial: NVMe and MMC have it at the device, virtio-blk at the disk, SCSI in the page of vital product data 0x80.
func (a *attributes) serial() string {
	for _, file := range []string{"serial", "device/serial"} {
		if s := a.text(file); s != "" {
			return s
		}
	}
	// Four bytes of header, the length in the last two (SPC-4, 7.8.15).
	page := a.bytes("device/vpd_pg80")
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	n := min(int(binary.BigEndian.Uint16(page[2:])), len(page)-4)
	return strings.TrimSpace(strings.TrimRight(string(page[4:4+n]), "\x00"))
}

// wwid is what the storage says that the device is: NAA, EUI or a vendor's text; of a mapper device its UUID, of a multipath
// one without its prefix; of an RBD one pool/namespace/image@snapshot.
func (a *attributes) wwid() string {
	for _, file := range []string{"wwid", "device/wwid"} {
		if s := a.text(file); s != "" {
			return s
		}
	}
	if uuid := a.text("dm/uuid"); uuid != "" {
		return strings.TrimPrefix(uuid, "mpath-")
	}
	image := a.text("device/name")
	if pool := a.text("device/pool"); pool != "" && image != "" {
		if ns := a.text("device/pool_ns"); ns != "" {
			pool += "/" + ns
		}
		if snap := a.text("device/current_snap"); snap != "" && snap != "-" {
			image += "@" + snap
		}
		return pool + "/" + image
	}
	return ""
}
