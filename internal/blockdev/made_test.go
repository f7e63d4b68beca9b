package blockdev

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

const mib = 1 << 20

// sparse is a device of any size of which some parts are not zero. It counts what is read of it.
type sparse struct {
	size  int64
	parts map[int64][]byte
	fails int64 // from here on reads fail; 0: never

	reads, bytes, failures int64
	largest                int
}

var errDead = &deadDevice{}

type deadDevice struct{}

func (*deadDevice) Error() string { return "dead" }

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	s.reads++
	s.bytes += int64(len(p))
	s.largest = max(s.largest, len(p))
	if off < 0 || off >= s.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), s.size-off))
	var err error
	if s.fails > 0 && off+int64(n) > s.fails {
		n, err = int(max(0, s.fails-off)), errDead
		s.failures++
	} else if n < len(p) {
		err = io.EOF
	}
	clear(p[:n])
	for _, at := range slices.Sorted(maps.Keys(s.parts)) { // of two that overlap the later one counts
		part := s.parts[at]
		if from, to := max(at, off), min(at+int64(len(part)), off+int64(n)); from < to {
			copy(p[from-off:to-off], part[from-at:])
		}
	}
	return n, err
}

func words(order binary.AppendByteOrder, values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = order.AppendUint32(b, v)
	}
	return b
}

func at(size int, parts map[int]any) []byte {
	b := make([]byte, size)
	for off, part := range parts {
		switch p := part.(type) {
		case string:
			copy(b[off:], p)
		case []byte:
			copy(b[off:], p)
		case uint64:
			binary.LittleEndian.PutUint64(b[off:], p)
		case uint32:
			binary.LittleEndian.PutUint32(b[off:], p)
		case uint16:
			binary.LittleEndian.PutUint16(b[off:], p)
		case byte:
			b[off] = p
		}
	}
	return b
}

var someID = []byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}

const someUUID = "12345678-9abc-def0-1122-334455667788"

func md1(sector uint64) []byte {
	return at(4096, map[int]any{0: uint32(raidMagic), 4: uint32(1), 16: someID, 32: "host:0", 72: uint32(1), 92: uint32(2), 144: sector})
}

func md0(order binary.AppendByteOrder) []byte {
	return words(order, raidMagic, 0, 90, 0, 0, 0x12345678, 0, 1, 64, 2, 2, 0, 0, 0x9abcdef0, 0x11223344, 0x55667788)
}

func drbdBlock(magic uint32) []byte {
	b := at(4096, map[int]any{0: uint64(1)})
	binary.BigEndian.PutUint64(b[40:], 0x1122334455667788)
	binary.BigEndian.PutUint64(b[48:], 0x99aabbccddeeff00)
	binary.BigEndian.PutUint32(b[60:], magic)
	return b
}

func gptHead(block uint64, mine uint64) []byte {
	b := at(92, map[int]any{0: "EFI PART", 8: uint32(0x10000), 12: uint32(92), 24: mine, 32: uint64(16*mib/block - 1), 40: uint64(34), 48: uint64(32000),
		56: someID, 72: uint64(2), 80: uint32(128), 84: uint32(128), 88: crc32.ChecksumIEEE(make([]byte, 128*128))})
	binary.LittleEndian.PutUint32(b[16:], crc32.ChecksumIEEE(b))
	return b
}

func mbr(kind byte) []byte {
	return at(512, map[int]any{440: uint32(0xdeadbeef), 450: kind, 454: uint32(1), 458: uint32(32767), 510: uint16(0xaa55)})
}

func xdr(name string, kind uint32, value []byte) []byte {
	be := binary.BigEndian
	padded := append([]byte(name), make([]byte, (4-len(name)%4)%4)...)
	body := append(words(be, uint32(len(name))), padded...)
	body = append(append(body, words(be, kind, 1)...), value...)
	return append(words(be, uint32(len(body)+8), 0), body...)
}

func zfsLabel() []byte {
	be := binary.BigEndian
	list := append(words(be, 0x01010000, 0, 1), xdr("version", 8, be.AppendUint64(nil, 5000))...)
	list = append(list, xdr("name", 9, append(words(be, 4), "tank"...))...)
	list = append(list, xdr("pool_guid", 8, be.AppendUint64(nil, 1234567890123456789))...)
	b := at(256<<10, map[int]any{16 << 10: list})
	for i := range 8 {
		binary.LittleEndian.PutUint64(b[128<<10+i*1024:], 0x00bab10c)
		binary.LittleEndian.PutUint64(b[128<<10+i*1024+8:], 5000)
	}
	return b
}

func lvmLabel() []byte {
	b := at(512, map[int]any{0: "LABELONE", 8: uint64(1), 20: uint32(32), 24: "LVM2 001", 32: "abcdefGHIJ0123456789KLMNOPqrstuv", 64: uint64(16 * mib)})
	binary.LittleEndian.PutUint32(b[16:], ^crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, b[20:]))
	return b
}

type madeImage struct {
	name  string
	size  int64 // 0: 16 MiB
	parts map[int64][]byte
	want  nodereport.Signature
	alone bool // libblkid has no opinion, or another: why stands beside
}

// madeImages are of the kinds whose own programs need a kernel, or a daemon, that is not everywhere, and of damages.
var madeImages = []madeImage{
	{name: "blank", want: nodereport.Signature{Type: "none"}},
	{name: "tiny and blank", size: 512, want: nodereport.Signature{Type: "none"}},
	{name: "one bit at 4 MiB - 1", parts: map[int64][]byte{4*mib - 1: {1}}, want: nodereport.Signature{Type: "unknown"}},
	{name: "one bit at the end", parts: map[int64][]byte{16*mib - 1: {1}}, want: nodereport.Signature{Type: "unknown"}},
	{name: "between what is read", parts: map[int64][]byte{8 * mib: {1}}, want: nodereport.Signature{Type: "none"}},
	{name: "md 1.1", parts: map[int64][]byte{0: md1(0)}, want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID, Label: "host:0"}},
	{name: "md 1.2", parts: map[int64][]byte{4096: md1(8)}, want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID, Label: "host:0"}},
	{name: "md 1.0", parts: map[int64][]byte{16*mib - 8192: md1(16*mib/512 - 16)}, want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID, Label: "host:0"}},
	{name: "md 1.2 at a wrong place", parts: map[int64][]byte{4096: md1(7)}, want: nodereport.Signature{Type: "unknown"}},
	{name: "md 0.90", parts: map[int64][]byte{16*mib - 64<<10: md0(binary.LittleEndian)}, want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID}},
	{name: "md 0.90 big-endian", parts: map[int64][]byte{16*mib - 64<<10: md0(binary.BigEndian)}, want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID}},
	{name: "bcache", parts: map[int64][]byte{4096: at(256, map[int]any{8: uint64(8), 24: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 40: someID})},
		want: nodereport.Signature{Type: "bcache", UUID: someUUID}, alone: true}, // its checksum is not made here
	{name: "bluestore", parts: map[int64][]byte{0: []byte("bluestore block device\n" + someUUID + "\n")}, want: nodereport.Signature{Type: "ceph_bluestore", UUID: someUUID},
		alone: true}, // libblkid gives no UUID
	{name: "drbd 8", parts: map[int64][]byte{16*mib - 4096: drbdBlock(0x8374026b)}, want: nodereport.Signature{Type: "drbd", UUID: "1122334455667788"}},
	{name: "drbd 8 in use", parts: map[int64][]byte{16*mib - 4096: drbdBlock(0x8374026c)}, want: nodereport.Signature{Type: "drbd", UUID: "1122334455667788", State: "dirty"}},
	{name: "drbd 9", parts: map[int64][]byte{16*mib - 4096: drbdBlock(0x8374026d)}, want: nodereport.Signature{Type: "drbd", UUID: "99aabbccddeeff00"}},
	{name: "zfs", size: 64 * mib, parts: map[int64][]byte{0: zfsLabel()}, want: nodereport.Signature{Type: "zfs_member", UUID: "1234567890123456789", Label: "tank"}},
	{name: "zfs at the end only", size: 64 * mib, parts: map[int64][]byte{64*mib - 256<<10: zfsLabel()},
		want: nodereport.Signature{Type: "zfs_member", UUID: "1234567890123456789", Label: "tank"}},
	{name: "lvm", parts: map[int64][]byte{512: lvmLabel()}, want: nodereport.Signature{Type: "LVM2_member", UUID: "abcdef-GHIJ-0123-4567-89KL-MNOP-qrstuv", Bytes: 16 * mib}},
	{name: "lvm on a device too small", size: 8 * mib, parts: map[int64][]byte{512: lvmLabel()},
		want: nodereport.Signature{Type: "LVM2_member", UUID: "abcdef-GHIJ-0123-4567-89KL-MNOP-qrstuv", Bytes: 16 * mib, Error: "LVM2_member of 16777216 bytes on a device of 8388608"}},
	{name: "lvm damaged", parts: map[int64][]byte{512: append(lvmLabel()[:511:511], 1)},
		want:  nodereport.Signature{Type: "LVM2_member", UUID: "abcdef-GHIJ-0123-4567-89KL-MNOP-qrstuv", Bytes: 16 * mib, Error: "the label's checksum is wrong"},
		alone: true}, // libblkid hides it
	{name: "dos", parts: map[int64][]byte{0: mbr(0x83)}, want: nodereport.Signature{Type: "dos", UUID: "deadbeef"}},
	{name: "boot code without a table", parts: map[int64][]byte{0: at(512, map[int]any{0: "\xfa\x31", 446: byte(7), 510: uint16(0xaa55)})}, want: nodereport.Signature{Type: "unknown"}},
	{name: "drbd's mark in the last partition", parts: map[int64][]byte{0: mbr(0x83), 16*mib - 4096: drbdBlock(0x8374026d)}, want: nodereport.Signature{Type: "dos", UUID: "deadbeef"},
		alone: true}, // libblkid looks at the partitions' ends for RAID only
	{name: "gpt", parts: map[int64][]byte{0: mbr(0xee), 512: gptHead(512, 1)}, want: nodereport.Signature{Type: "gpt", UUID: "78563412-bc9a-f0de-1122-334455667788"}},
	{name: "gpt of 4096-byte blocks", parts: map[int64][]byte{0: mbr(0xee), 4096: gptHead(4096, 1)}, want: nodereport.Signature{Type: "gpt", UUID: "78563412-bc9a-f0de-1122-334455667788"},
		alone: true}, // a file has blocks of 512
	{name: "gpt, second only", parts: map[int64][]byte{0: mbr(0xee), 16*mib - 512: gptHead(512, 16*mib/512-1)},
		want: nodereport.Signature{Type: "gpt", UUID: "78563412-bc9a-f0de-1122-334455667788", Error: "the first table is gone, the second one at the device's end is there"}},
	{name: "gpt, second only, start zeroed", parts: map[int64][]byte{16*mib - 512: gptHead(512, 16*mib/512-1)},
		want:  nodereport.Signature{Type: "gpt", UUID: "78563412-bc9a-f0de-1122-334455667788", Error: "the first table is gone, the second one at the device's end is there"},
		alone: true}, // libblkid wants the protective table
	{name: "gpt's protective table alone", parts: map[int64][]byte{0: mbr(0xee)}, want: nodereport.Signature{Type: "gpt", Error: "the protective table is there, the table is not"},
		alone: true}, // libblkid calls it dos
	{name: "gpt damaged", parts: map[int64][]byte{0: mbr(0xee), 512: append(gptHead(512, 1)[:60:60], make([]byte, 32)...)},
		want: nodereport.Signature{Type: "gpt", UUID: "78563412-0000-0000-0000-000000000000", Error: "the header's checksum is wrong"}, alone: true},
	{name: "luks, second header only", parts: map[int64][]byte{16 << 10: at(4096, map[int]any{0: "SKUL\xba\xbe", 7: byte(2), 10: byte(0), 14: byte(0x40), 168: someUUID})},
		want: nodereport.Signature{Type: "crypto_LUKS", UUID: someUUID, Features: []string{"luks2"}, Error: "the first header is gone, the second one is there"}},
	{name: "luks of tomorrow", parts: map[int64][]byte{0: at(4096, map[int]any{0: "LUKS\xba\xbe", 7: byte(9), 168: someUUID})},
		want: nodereport.Signature{Type: "crypto_LUKS", UUID: someUUID, Error: "version 9 of LUKS is not known"}, alone: true},
	{name: "hostile label", parts: map[int64][]byte{4096: append(md1(8)[:32:32], append([]byte("\x1b]0;x\x07\xff\u202e\u00e9"), make([]byte, 20)...)...), 4096 + 72: md1(8)[72:]},
		want: nodereport.Signature{Type: "linux_raid_member", UUID: someUUID, Label: `\x1b]0;x\x07` + "\ufffd" + `\u202e` + "\u00e9"}, alone: true},
}

func (m madeImage) device() *sparse {
	size := m.size
	if size == 0 {
		size = 16 * mib
	}
	return &sparse{size: size, parts: m.parts}
}

func TestMadeImages(t *testing.T) {
	for _, m := range madeImages {
		t.Run(m.name, func(t *testing.T) {
			d := m.device()
			got := Probe(d, d.size, "")
			if diff := cmp.Diff(m.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An unreadable device is never blank, and what could be read of it is told.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int64
		parts map[int64][]byte
		want  nodereport.Signature
	}{
		{"from the start", 1, nil, nodereport.Signature{Type: "unknown", Error: "dead"}},
		{"behind the first page", 4096, nil, nodereport.Signature{Type: "unknown", Error: "dead"}},
		{"behind the first page, which has a label", 4096, map[int64][]byte{512: lvmLabel()},
			nodereport.Signature{Type: "LVM2_member", UUID: "abcdef-GHIJ-0123-4567-89KL-MNOP-qrstuv", Bytes: 16 * mib, Error: "dead"}},
		{"in the middle", 3 * mib, nil, nodereport.Signature{Type: "unknown", Error: "dead"}},
		{"at the end", 16*mib - 1, nil, nodereport.Signature{Type: "unknown", Error: "dead"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &sparse{size: 16 * mib, parts: c.parts, fails: c.fails}
			got := Probe(d, d.size, "")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.failures > 2 {
				t.Errorf("%d reads that fail of a dying device", d.failures)
			}
		})
	}
	if s := Probe(bytes.NewReader(nil), 0, ""); s.Type != "unknown" || s.Error == "" {
		t.Errorf("no size: %+v", s)
	}
	if s := Probe(bytes.NewReader(make([]byte, 100)), 16*mib, ""); s.Type != "unknown" || s.Error == "" {
		t.Errorf("shorter than it says: %+v", s)
	}
}
