package blockdev

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// f2fs: the superblock at 1 KiB, with a copy in the next block (include/linux/f2fs_fs.h).
func f2fs(d *image) *nodereport.Signature {
	const block = 4096
	for _, at := range []int64{1024, block + 1024} {
		b := d.at(at, 0x6c+16+1024)
		if b == nil || binary.LittleEndian.Uint32(b) != 0xf2f52010 {
			continue
		}
		s := &nodereport.Signature{Type: "f2fs", UUID: uuid(b[0x6c : 0x6c+16]), Label: label16(b[0x7c : 0x7c+1024])}
		size, ok := bytesOf(binary.LittleEndian.Uint64(b[36:]), 1<<min(binary.LittleEndian.Uint32(b[16:]), 16))
		if !ok {
			s.Error = "the superblock has an impossible size"
		} else if at != 1024 {
			s.Error = "the first superblock is gone, the second one is there"
		}
		s.Bytes = size
		return s
	}
	return nil
}

// swap has its mark at the end of the first page, of whatever size the machine's pages were (include/linux/swap.h).
func swap(d *image) *nodereport.Signature {
	for page := int64(4096); page <= 65536; page *= 2 {
		mark := string(d.at(page-10, 10))
		if mark != "SWAPSPACE2" && mark != "SWAP-SPACE" {
			continue
		}
		s := &nodereport.Signature{Type: "swap"}
		b := d.at(1024, 44)
		if b == nil || mark == "SWAP-SPACE" { // the old form has no header
			return s
		}
		var order binary.ByteOrder = binary.LittleEndian
		if order.Uint32(b) != 1 {
			order = binary.BigEndian
		}
		if order.Uint32(b) != 1 {
			s.Error = "a version of swap that no kernel has"
			return s
		}
		s.UUID, s.Label = uuid(b[12:28]), label(b[28:44])
		s.Bytes = (int64(order.Uint32(b[4:])) + 1) * page
		return s
	}
	return nil
}

func ntfs(d *image) *nodereport.Signature {
	b := d.at(0, 512)
	if b == nil || string(b[3:11]) != "NTFS    " {
		return nil
	}
	le := binary.LittleEndian
	s := &nodereport.Signature{Type: "ntfs", UUID: fmt.Sprintf("%016X", le.Uint64(b[72:]))}
	sector := uint64(le.Uint16(b[11:]))
	var ok bool
	if s.Bytes, ok = bytesOf(le.Uint64(b[40:]), sector); !ok || !isPower(sector, 256, 4096) {
		s.Bytes, s.Error = 0, "the boot sector has an impossible size"
	}
	return s
}

// vfat is told by its BIOS parameter block: the fields that a driver needs, and the type's name, which all programs write.
func vfat(d *image) *nodereport.Signature {
	b := d.at(0, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xaa || b[0] != 0xeb && b[0] != 0xe9 {
		return nil
	}
	le := binary.LittleEndian
	sector := uint64(le.Uint16(b[11:]))
	if !isPower(sector, 512, 4096) || !isPower(uint64(b[13]), 1, 128) || le.Uint16(b[14:]) == 0 || b[16] == 0 {
		return nil
	}
	extra := 38 // of FAT12 and FAT16
	if string(b[82:87]) == "FAT32" {
		extra = 66
	} else if string(b[54:57]) != "FAT" && string(b[54:59]) != "MSDOS" {
		return nil
	}
	s := &nodereport.Signature{Type: "vfat"}
	if b[extra] == 0x28 || b[extra] == 0x29 { // serial number, and with the latter a label, follow
		s.UUID = fmt.Sprintf("%04X-%04X", le.Uint16(b[extra+3:]), le.Uint16(b[extra+1:]))
		if name := label(b[extra+5 : extra+16]); b[extra] == 0x29 && name != "NO NAME" {
			s.Label = name
		}
	}
	sectors := uint64(le.Uint16(b[19:]))
	if sectors == 0 {
		sectors = uint64(le.Uint32(b[32:]))
	}
	s.Bytes = int64(sectors * sector)
	return s
}

// iso9660: the primary volume descriptor at 32 KiB (ECMA-119, 8.4). Its moment of change serves as UUID, as udev names it.
func iso9660(d *image) *nodereport.Signature {
	b := d.at(32<<10, 2048)
	if b == nil || b[0] != 1 || string(b[1:6]) != "CD001" {
		return nil
	}
	le := binary.LittleEndian
	s := &nodereport.Signature{Type: "iso9660", Label: label(b[40:72]), Bytes: int64(le.Uint32(b[80:])) * int64(le.Uint16(b[128:]))}
	for _, at := range []int{830, 813} { // changed, else made
		if t := string(b[at : at+16]); strings.Trim(t, "0123456789") == "" && strings.Trim(t, "0") != "" {
			s.UUID = strings.Join([]string{t[:4], t[4:6], t[6:8], t[8:10], t[10:12], t[12:14], t[14:]}, "-")
			break
		}
	}
	return s
}
