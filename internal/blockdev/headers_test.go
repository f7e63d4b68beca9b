package blockdev

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// header is the start of what a program wrote, without the zeros behind: e2fsprogs 1.47.0, xfsprogs 6.1.0, btrfs-progs 6.2,
// cryptsetup 2.6.1, f2fs-tools 1.15.0, dosfstools 4.2, ntfs-3g 2022.10.3, xorriso 1.5.4, util-linux 2.38.1.
func header(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/headers/" + name + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const oneUUID = "11111111-2222-3333-4444-555555555555"

const xfsLogAt = (2*20480 + 6) * 4096 // of the xfs header: group 2, block 6

var realHeaders = []struct {
	name string
	at   int64
	size int64
	want nodereport.Signature
}{
	{"ext4", 1024, 32 * mib, nodereport.Signature{Type: "ext4", UUID: oneUUID, Label: "data", Bytes: 32 * mib, State: "clean", Features: []string{"has_journal", "ext_attr",
		"resize_inode", "dir_index", "orphan_file", "filetype", "extent", "64bit", "flex_bg", "metadata_csum_seed", "sparse_super", "large_file", "huge_file", "dir_nlink",
		"extra_isize", "metadata_csum"}}},
	{"xfs", 0, 320 * mib, nodereport.Signature{Type: "xfs", UUID: oneUUID, Label: "data", Bytes: 320 * mib, State: "clean", Features: []string{"crc", "ftype", "sparse", "bigtime",
		"nrext64", "finobt", "reflink", "inobtcount"}, Unsupported: []string{"nrext64"}}},
	{"btrfs", 64 << 10, 128 * mib, nodereport.Signature{Type: "btrfs", UUID: oneUUID, Label: "data", Bytes: 128 * mib, State: "clean", Features: []string{"mixed_backref",
		"extended_iref", "skinny_metadata", "no_holes", "free_space_tree", "free_space_tree_valid"}}},
	{"luks2", 0, 32 * mib, nodereport.Signature{Type: "crypto_LUKS", UUID: oneUUID, Label: "data", Features: []string{"luks2"}}},
	{"luks1", 0, 32 * mib, nodereport.Signature{Type: "crypto_LUKS", UUID: oneUUID, Features: []string{"luks1"}}},
	{"f2fs", 1024, 64 * mib, nodereport.Signature{Type: "f2fs", UUID: oneUUID, Label: "data", Bytes: 64 * mib}},
	{"ntfs", 0, 16 * mib, nodereport.Signature{Type: "ntfs"}},
	{"vfat", 0, 64 * mib, nodereport.Signature{Type: "vfat", UUID: "1234-5678", Label: "DATA", Bytes: 64 * mib}},
	{"iso9660", 32 << 10, 32 * mib, nodereport.Signature{Type: "iso9660", Label: "CDROM"}},
	{"swap", 0, 16 * mib, nodereport.Signature{Type: "swap", UUID: oneUUID, Label: "data", Bytes: 16 * mib}},
}

func TestHeaders(t *testing.T) {
	for _, h := range realHeaders {
		t.Run(h.name, func(t *testing.T) {
			d := &sparse{size: h.size, parts: map[int64][]byte{h.at: header(t, h.name), xfsLogAt: header(t, "xfs-log")}}
			if h.name != "xfs" {
				delete(d.parts, xfsLogAt)
			}
			got := Probe(d, d.size, "5.15.0-91-generic")
			if h.name == "ntfs" || h.name == "iso9660" { // whose numbers are new each time
				if got.UUID == "" || got.Bytes <= 0 || got.Bytes > d.size {
					t.Errorf("%+v", got)
				}
				got.UUID, got.Bytes = "", 0
			}
			if diff := cmp.Diff(h.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Features that the running kernel is too old for; of kernels that take features back nothing is said.
func TestUnsupported(t *testing.T) {
	for release, want := range map[string]string{
		"":                               "",
		"6.18.44":                        "",
		"5.10.0-28-amd64":                "nrext64",
		"5.4.0-1103-aws":                 "bigtime nrext64 inobtcount",
		"4.8.17":                         "bigtime nrext64 reflink inobtcount",
		"4.18.0-513.5.1.el8_9.x86_64":    "",
		"5.14.21-150500.55.44-default":   "",
		"5.10.0-182.0.0.95.oe2203sp3":    "",
		"5.15.0-302.167.6.el9uek.x86_64": "",
		"not a kernel":                   "",
		"99999999999999999999.1":         "",
	} {
		d := &sparse{size: 320 * mib, parts: map[int64][]byte{0: header(t, "xfs"), xfsLogAt: header(t, "xfs-log")}}
		if got := strings.Join(Probe(d, d.size, release).Unsupported, " "); got != want {
			t.Errorf("%s: %q, want %q", release, got, want)
		}
	}
}

// reads on a probe's behalf are few, small and bounded, whatever the bytes say.
func checked(t *testing.T, size int64, parts map[int64][]byte) nodereport.Signature {
	t.Helper()
	d := &sparse{size: size, parts: parts}
	s := Probe(d, size, "5.4.0")
	if d.bytes > 24<<20 || d.reads > 400 || d.largest > chunk {
		t.Errorf("%d bytes in %d reads, the largest of %d", d.bytes, d.reads, d.largest)
	}
	if !strings.Contains(" ext2 ext3 ext4 xfs btrfs vfat ntfs iso9660 f2fs zfs_member linux_raid_member bcache ceph_bluestore drbd crypto_LUKS LVM2_member dos gpt swap none unknown ", " "+s.Type+" ") {
		t.Errorf("type %q", s.Type)
	}
	if !strings.Contains("||clean|dirty|errors|", "|"+s.State+"|") || s.Bytes < 0 || s.Errors < 0 {
		t.Errorf("%+v", s)
	}
	for _, text := range append([]string{s.UUID, s.Label, s.LastError, s.Error}, s.Features...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) || len(text) > 8192 {
			t.Errorf("text %q", text)
		}
	}
	if s.Type == "none" {
		for off, part := range parts {
			for i, b := range part {
				if p := off + int64(i); b != 0 && p < size && (p < blankHead || p >= size-blankTail) {
					t.Fatalf("none, and byte %d is %d", p, b)
				}
			}
		}
	}
	return s
}

// with puts text over the start of data, as long as there is room.
func with(data []byte, off int, text string) []byte {
	out := append([]byte(nil), data...)
	if off+len(text) <= len(out) {
		copy(out[off:], text)
	}
	return out
}

func FuzzProbe(f *testing.F) {
	for _, h := range realHeaders {
		f.Add(header(f, h.name), uint32(h.at), []byte{}, uint64(h.size))
	}
	for _, m := range madeImages {
		for at, part := range m.parts {
			if len(part) <= 4096 {
				f.Add(part, uint32(at), part, uint64(m.device().size))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint32, tail []byte, size uint64) {
		n := int64(size % (1 << 40))
		checked(t, n, map[int64][]byte{int64(at): data, n - int64(len(tail)): tail})
	})
}

func FuzzExt(f *testing.F) {
	f.Add(header(f, "ext4"), true)
	f.Fuzz(func(t *testing.T, data []byte, sum bool) {
		b := with(append(data, make([]byte, max(0, extSize-len(data)))...)[:extSize], extMagic, "\x53\xef")
		if sum {
			binary.LittleEndian.PutUint32(b[extChecksum:], ^crc32.Checksum(b[:extChecksum], castagnoli))
		}
		s := checked(t, 64*mib, map[int64][]byte{extAt: b})
		if s.Type == "none" || sum && s.Error == errChecksum.Error() {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzXFS(f *testing.F) {
	f.Add(header(f, "xfs"), header(f, "xfs-log"), uint64(320*mib))
	f.Fuzz(func(t *testing.T, data, log []byte, size uint64) {
		b := with(append(data, make([]byte, max(0, 32768-len(data)))...)[:32768], 0, "XFSB")
		if sector := int(binary.BigEndian.Uint16(b[xfsSectorSize:])); sector >= 512 && sector <= len(b) {
			clear(b[xfsCRC : xfsCRC+4])
			binary.LittleEndian.PutUint32(b[xfsCRC:], crc32.Checksum(b[:sector], castagnoli))
		}
		n := int64(size%(1<<40)) + 32768
		s := checked(t, n, map[int64][]byte{xfsLogAt: log, 0: b, 32768: log})
		if s.Type != "xfs" && n < xfsLogAt { // a log over it may look like anything
			t.Errorf("%+v", s)
		}
	})
}

func FuzzBtrfs(f *testing.F) {
	f.Add(header(f, "btrfs"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := with(append(data, make([]byte, max(0, btrfsSize-len(data)))...)[:btrfsSize], btrfsMagic, "_BHRfS_M")
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[btrfsData:], castagnoli))
		if s := checked(t, 128*mib, map[int64][]byte{btrfsAt: b}); s.Type != "btrfs" {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzLUKS(f *testing.F) {
	f.Add(header(f, "luks1"), uint32(0))
	f.Add(header(f, "luks2"), uint32(0))
	f.Add(header(f, "luks2"), uint32(2))
	f.Fuzz(func(t *testing.T, data []byte, place uint32) {
		at, magic := int64(0), "LUKS\xba\xbe"
		if place %= 10; place > 0 {
			at, magic = int64(8<<10)<<place, "SKUL\xba\xbe"
		}
		b := with(append(data, make([]byte, 8)...), 0, magic)
		if s := checked(t, 32*mib, map[int64][]byte{at: b}); place == 0 && s.Type != "crypto_LUKS" {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzMembers(f *testing.F) {
	for _, m := range madeImages {
		for _, part := range m.parts {
			if len(part) <= 4096 {
				f.Add(part, uint8(0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		le := binary.LittleEndian
		b := append(data, make([]byte, max(0, 512-len(data)))...)
		switch which % 4 {
		case 0:
			copy(b, "LABELONE")
			copy(b[24:], "LVM2 001")
			le.PutUint32(b[16:], ^crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, b[20:512]))
			checked(t, 16*mib, map[int64][]byte{512: b})
		case 1:
			le.PutUint32(b, raidMagic)
			checked(t, 16*mib, map[int64][]byte{0: b, 4096: b, 16*mib - 8192: b})
		case 2:
			checked(t, 16*mib, map[int64][]byte{16*mib - 64<<10: b, 16*mib - 4096: b})
		case 3:
			copy(b, "bluestore block device\n")
			checked(t, 16*mib, map[int64][]byte{0: b})
		}
	})
}

func FuzzTables(f *testing.F) {
	f.Add(mbr(0xee), gptHead(512, 1))
	f.Add(mbr(0x83), gptHead(4096, 1))
	f.Fuzz(func(t *testing.T, boot, table []byte) {
		b := append(boot, make([]byte, max(0, 512-len(boot)))...)
		b[510], b[511] = 0x55, 0xaa
		h := with(append(table, make([]byte, max(0, 512-len(table)))...), 0, "EFI PART")
		if size := binary.LittleEndian.Uint32(h[12:]); size >= 92 && size <= 512 {
			clear(h[16:20])
			binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:size]))
		}
		checked(t, 16*mib, map[int64][]byte{0: b[:512], 512: h, 16*mib - 512: h})
		checked(t, 16*mib, map[int64][]byte{0: b[:512], 16*mib - 512: h})
	})
}

func FuzzZFS(f *testing.F) {
	f.Add(zfsLabel()[16<<10 : 20<<10])
	f.Fuzz(func(t *testing.T, list []byte) {
		label := zfsLabel()
		copy(label[16<<10:20<<10], list)
		if s := checked(t, 64*mib, map[int64][]byte{0: label}); s.Type != "zfs_member" {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzFilesystems(f *testing.F) {
	for i, h := range realHeaders {
		f.Add(header(f, h.name), uint8(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		switch which % 5 {
		case 0:
			checked(t, 64*mib, map[int64][]byte{1024: with(data, 0, "\x10\x20\xf5\xf2")})
		case 1:
			checked(t, 64*mib, map[int64][]byte{0: with(data, 3, "NTFS    ")})
		case 2:
			checked(t, 64*mib, map[int64][]byte{0: with(with(with(data, 0, "\xeb"), 82, "FAT32"), 510, "\x55\xaa")})
		case 3:
			checked(t, 64*mib, map[int64][]byte{32 << 10: with(data, 0, "\x01CD001")})
		case 4:
			checked(t, 64*mib, map[int64][]byte{0: with(data, 4096-10, "SWAPSPACE2")})
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("data\x1b[2J\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := Printable(text)
		if !utf8.ValidString(got) || Printable(got) != got || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q: %q", text, got)
		}
	})
}
