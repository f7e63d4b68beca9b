package blockdev

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

const (
	dosEntries    = 446 // four of 16 bytes
	dosDiskID     = 440
	dosProtective = 0xee // what stands for a GPT
)

// dosTable reads the four entries of a partition table; ok is false where there is none, or a boot sector of a filesystem.
func dosTable(d *image) (used int, protective, ok bool) {
	b := d.at(0, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xaa {
		return 0, false, false
	}
	for at := dosEntries; at < dosEntries+64; at += 16 {
		if b[at] != 0 && b[at] != 0x80 { // the boot flag has no other values
			return 0, false, false
		}
		kind, first, count := b[at+4], binary.LittleEndian.Uint32(b[at+8:]), binary.LittleEndian.Uint32(b[at+12:])
		if kind == 0 || count == 0 {
			continue
		}
		used++
		protective = protective || kind == dosProtective
		if first == 0 {
			return 0, false, false
		}
	}
	return used, protective, true
}

// partitioned: the disk has partitions, so that what lies at its end may be theirs.
func partitioned(d *image) bool {
	used, _, ok := dosTable(d)
	return ok && used > 0
}

func dos(d *image) *nodereport.Signature {
	used, protective, ok := dosTable(d)
	id := uint32(0)
	if ok {
		id = binary.LittleEndian.Uint32(d.at(dosDiskID, 4))
	}
	switch {
	case !ok || used == 0 && id == 0:
		return nil
	case protective: // the first header is gone: gpt would have found it
		if s := gptSecond(d); s != nil {
			return s
		}
		return &nodereport.Signature{Type: "gpt", Error: "the protective table is there, the table is not"}
	}
	return &nodereport.Signature{Type: "dos", UUID: fmt.Sprintf("%08x", id)}
}

// gpt: the header in the second block (UEFI Specification, 5.3).
func gpt(d *image) *nodereport.Signature {
	for _, block := range []int64{512, 4096} {
		if s := gptHeader(d, block, block); s != nil {
			return s
		}
	}
	return nil
}

// gptSecond: only the copy of the header in the last block is left.
func gptSecond(d *image) *nodereport.Signature {
	for _, block := range []int64{512, 4096} {
		if s := gptHeader(d, d.size-block, block); s != nil && s.Error == "" {
			s.Error = "the first table is gone, the second one at the device's end is there"
			return s
		}
	}
	return nil
}

func gptHeader(d *image, at, block int64) *nodereport.Signature {
	b := d.at(at, 512)
	if b == nil || string(b[:8]) != "EFI PART" {
		return nil
	}
	s := &nodereport.Signature{Type: "gpt", UUID: guid(b[56:72])}
	le := binary.LittleEndian
	size := le.Uint32(b[12:])
	if size < 92 || size > 512 {
		s.Error = "the header has an impossible size"
		return s
	}
	sum := crc32.Update(0, crc32.IEEETable, b[:16])
	sum = crc32.Update(sum, crc32.IEEETable, make([]byte, 4))
	sum = crc32.Update(sum, crc32.IEEETable, b[20:size])
	switch {
	case sum != le.Uint32(b[16:]):
		s.Error = "the header's checksum is wrong"
	case le.Uint64(b[24:]) != uint64(at/block):
		s.Error = "the header says that it belongs elsewhere"
	}
	return s
}

// guid writes the mixed order of EFI: the first three parts are little-endian.
func guid(b []byte) string {
	return uuid([]byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]})
}
