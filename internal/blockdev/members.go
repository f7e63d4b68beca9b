package blockdev

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// luks: both versions have the UUID as text at one place (LUKS1 and LUKS2 On-Disk Format, the binary header).
func luks(d *image) *nodereport.Signature {
	if !d.has(0, "LUKS\xba\xbe") {
		return nil
	}
	return luksHeader(d, 0)
}

const luksHeaderSize = 4096

func luksHeader(d *image, at int64) *nodereport.Signature {
	b := d.at(at, luksHeaderSize)
	if b == nil {
		b = make([]byte, luksHeaderSize)
		copy(b, d.at(at, 592)) // all of version 1
	}
	s := &nodereport.Signature{Type: "crypto_LUKS", UUID: label(b[168:208])}
	switch v := binary.BigEndian.Uint16(b[6:]); v {
	case 1:
		s.Features = []string{"luks1"}
	case 2:
		s.Features = []string{"luks2"}
		s.Label = label(b[24:72])
		if bad := luksDamage(d, b, at); bad != "" {
			s.Error = bad
		}
	default:
		s.Error = fmt.Sprintf("version %d of LUKS is not known", v)
	}
	return s
}

// luksMaxHeader is the largest LUKS2 header with its JSON, by the format's specification.
const luksMaxHeader = 4 << 20

// luksDamage checks the SHA-256 that cryptsetup writes by default over header and JSON.
func luksDamage(d *image, b []byte, at int64) string {
	size := binary.BigEndian.Uint64(b[8:])
	if size < luksHeaderSize || size > luksMaxHeader || int64(size) > d.size-at {
		return "the header has an impossible size"
	}
	if label(b[72:104]) != "sha256" {
		return ""
	}
	sum := sha256.New()
	first := bytes.Clone(b)
	clear(first[448:512])
	sum.Write(first)
	for off := int64(luksHeaderSize); off < int64(size); off += chunk {
		part := d.at(at+off, min(chunk, int64(size)-off))
		if part == nil {
			return ""
		}
		sum.Write(part)
	}
	if !bytes.Equal(sum.Sum(nil), b[448:448+sha256.Size]) {
		return "the header's checksum is wrong"
	}
	return ""
}

// luksSecond: the first header is gone, and LUKS2's copy of it is there: what was encrypted may still be saved.
func luksSecond(d *image) *nodereport.Signature {
	for at := int64(16 << 10); at <= luksMaxHeader; at *= 2 { // the places that the specification allows
		if !d.has(at, "SKUL\xba\xbe") {
			continue
		}
		s := luksHeader(d, at)
		s.Error = "the first header is gone, the second one is there"
		return s
	}
	return nil
}

// lvm: a label in one of the first four sectors (lib/label/label.h, lib/format_text/layout.h of LVM2).
func lvm(d *image) *nodereport.Signature {
	for sector := int64(0); sector < 4; sector++ {
		b := d.at(sector*512, 512)
		if b == nil || string(b[:8]) != "LABELONE" || string(b[24:32]) != "LVM2 001" {
			continue
		}
		s := &nodereport.Signature{Type: "LVM2_member"}
		const seed = 0xf597a6cf
		// The sum starts from another value than the standard's, and lacks its two inversions.
		if ^crc32.Update(^uint32(seed), crc32.IEEETable, b[20:]) != binary.LittleEndian.Uint32(b[16:]) {
			s.Error = "the label's checksum is wrong"
		}
		at := binary.LittleEndian.Uint32(b[20:])
		if at > 512-40 {
			s.Error = "the label is damaged"
			return s
		}
		id := string(b[at : at+32])
		s.UUID = Printable(strings.Join([]string{id[:6], id[6:10], id[10:14], id[14:18], id[18:22], id[22:26], id[26:]}, "-"))
		var ok bool
		if s.Bytes, ok = bytesOf(binary.LittleEndian.Uint64(b[at+32:]), 1); !ok {
			s.Error = "the label has an impossible size"
		}
		return s
	}
	return nil
}

const raidMagic = 0xa92b4efc // MD_SB_MAGIC, include/uapi/linux/raid/md_p.h

func raidStart(d *image) *nodereport.Signature {
	if s := raid1(d, 0); s != nil {
		return s
	}
	return raid1(d, 4096)
}

// raidEnd finds superblocks at the end: version 1.0, and 0.90 in 64 KiB. That of a disk's last partition stands there too, so
// it counts only where there is no partition table.
func raidEnd(d *image) *nodereport.Signature {
	if partitioned(d) {
		return nil
	}
	if s := raid1(d, d.size&^4095-8192); s != nil {
		return s
	}
	return raid0(d)
}

func raid1(d *image, at int64) *nodereport.Signature {
	b := d.at(at, 256)
	le := binary.LittleEndian
	if b == nil || le.Uint32(b) != raidMagic || le.Uint32(b[4:]) != 1 || le.Uint64(b[144:]) != uint64(at/512) {
		return nil
	}
	return &nodereport.Signature{Type: "linux_raid_member", UUID: uuid(b[16:32]), Label: label(b[32:64])}
}

func raid0(d *image) *nodereport.Signature {
	const reserved = 64 << 10
	b := d.at(d.size&^(reserved-1)-reserved, 64)
	if b == nil {
		return nil
	}
	var order binary.ByteOrder = binary.LittleEndian // the machine's that made it
	if order.Uint32(b) != raidMagic {
		order = binary.BigEndian
	}
	if order.Uint32(b) != raidMagic || order.Uint32(b[4:]) != 0 {
		return nil
	}
	var id []byte
	for _, at := range []int{20, 52, 56, 60} { // the UUID's words are not side by side
		id = binary.BigEndian.AppendUint32(id, order.Uint32(b[at:]))
	}
	return &nodereport.Signature{Type: "linux_raid_member", UUID: uuid(id)}
}

func bcache(d *image) *nodereport.Signature {
	const at = 4096
	b := d.at(at, 256)
	if b == nil || string(b[24:40]) != "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81" || binary.LittleEndian.Uint64(b[8:]) != at/512 {
		return nil
	}
	return &nodereport.Signature{Type: "bcache", UUID: uuid(b[40:56])}
}

// bluestore begins with a line of text and the OSD's UUID in the next (src/os/bluestore/BlueStore.cc).
func bluestore(d *image) *nodereport.Signature {
	const head = "bluestore block device\n"
	if !d.has(0, head) {
		return nil
	}
	s := &nodereport.Signature{Type: "ceph_bluestore"}
	if id := string(d.at(int64(len(head)), 36)); isUUID(id) {
		s.UUID = id
	}
	return s
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
}

// drbd has internal metadata in the last 4 KiB; its magic number stands at one place in versions 8 and 9.
func drbd(d *image) *nodereport.Signature {
	const metadata, smallest, magic = 4096, 64 << 10, 60
	if d.size < smallest || partitioned(d) {
		return nil
	}
	b := d.at(d.size-metadata, 64)
	if b == nil {
		return nil
	}
	s := &nodereport.Signature{Type: "drbd"}
	device := b[40:48]
	switch binary.BigEndian.Uint32(b[magic:]) {
	case 0x8374026b: // version 8
	case 0x8374026c: // its activity log has to be applied
		s.State = "dirty"
	case 0x8374026d: // version 9
		device = b[48:56]
	default:
		return nil
	}
	s.UUID = fmt.Sprintf("%x", binary.BigEndian.Uint64(device))
	return s
}

// zfs: uberblocks, one a KiB, in the second half of each of the four labels of 256 KiB, two at either end
// (ZFS On-Disk Specification, chapter 1). Four of them are no chance.
func zfs(d *image) *nodereport.Signature {
	const labelSize, smallest, enough = 256 << 10, 64 << 20, 4
	if d.size < smallest {
		return nil
	}
	end := d.size &^ (labelSize - 1)
	found := 0
	for _, at := range []int64{0, labelSize, end - 2*labelSize, end - labelSize} {
		b := d.at(at+labelSize/2, labelSize/2)
		for ; len(b) >= 1024; b = b[1024:] {
			const magic = 0x00bab10c
			if binary.LittleEndian.Uint64(b) == magic || binary.BigEndian.Uint64(b) == magic {
				found++
			}
		}
		if found >= enough {
			s := &nodereport.Signature{Type: "zfs_member"}
			zfsNames(d.at(at+16<<10, 4096), s)
			return s
		}
	}
	return nil
}

// zfsNames reads the pool's name and number from the label's list, in XDR: each entry has its size, the size in memory, a
// name, a type, a count, a value.
func zfsNames(b []byte, s *nodereport.Signature) {
	be := binary.BigEndian
	if len(b) < 12 {
		return
	}
	for b = b[12:]; len(b) >= 12; { // encoding, version and flags first
		size, nameLen := uint64(be.Uint32(b)), uint64(be.Uint32(b[8:]))
		if size < 12 || size > uint64(len(b)) || nameLen > size-12 {
			return
		}
		entry, value := b[:size], 12+(nameLen+3)&^3
		b = b[size:]
		if value+12 > size {
			continue
		}
		kind, body := be.Uint32(entry[value:]), entry[value+8:]
		switch name := string(entry[12 : 12+nameLen]); {
		case name == "name" && kind == 9: // DATA_TYPE_STRING
			if n := uint64(be.Uint32(body)); n <= uint64(len(body))-4 {
				s.Label = label(body[4 : 4+n])
			}
		case name == "pool_guid" && kind == 8 && len(body) >= 8: // DATA_TYPE_UINT64
			s.UUID = fmt.Sprint(be.Uint64(body))
		}
	}
}
