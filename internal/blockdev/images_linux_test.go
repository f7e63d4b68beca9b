package blockdev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAsBlkid holds Probe against libblkid on what the filesystems' own programs make.
func TestAsBlkid(t *testing.T) {
	needs(t, "blkid", "losetup", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkfs.f2fs", "mkfs.fat", "mkntfs", "xorriso", "cryptsetup", "pvcreate", "mkswap", "sfdisk")
	luksFormat := "echo secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "
	for _, c := range []struct {
		size  int64
		shell string // $1 is the image
	}{
		{8 * mib, "mkfs.ext2 -q -L two $1"},
		{8 * mib, "mkfs.ext3 -q -b 1024 $1"},
		{32 * mib, "mkfs.ext4 -q -O ^has_journal $1"},
		{32 * mib, "mkfs.ext4 -q -O ^metadata_csum,^64bit -L 'a label of 16 by' $1"},
		{32 * mib, "mkfs.ext4 -q -b 4096 -O bigalloc,quota,project,verity,casefold,inline_data,encrypt,metadata_csum_seed $1"},
		{32 * mib, "mkfs.ext4 -q -O mmp,large_dir,ea_inode,sparse_super2,^resize_inode $1"},
		{32 * mib, "mke2fs -q -O journal_dev $1"},
		{320 * mib, "mkfs.xfs -q -L twelve-bytes $1"},
		{320 * mib, "mkfs.xfs -q -m crc=0 $1"},
		{320 * mib, "mkfs.xfs -q -m reflink=0,rmapbt=1,bigtime=0,inobtcount=0 -s size=4096 $1"},
		{128 * mib, "mkfs.btrfs -q -L snow $1"},
		{128 * mib, "mkfs.btrfs -q --csum sha256 --mixed $1"},
		{128 * mib, "mkfs.btrfs -q --csum xxhash $1"},
		{128 * mib, "mkfs.btrfs -q --csum blake2 -O ^no-holes -R ^free-space-tree $1"},
		{64 * mib, "mkfs.f2fs -q -l flash $1"},
		{1 * mib, "mkfs.fat -F 12 $1"},
		{16 * mib, "mkfs.fat -F 16 -n SIXTEEN $1"},
		{64 * mib, "mkfs.fat -F 32 -n 'THIRTY TWO' $1"},
		{16 * mib, "mkntfs -q -F -f $1"},
		{0, "xorriso -as mkisofs -quiet -V CDROM -o $1 /etc/hostname"},
		{32 * mib, luksFormat + "--type luks1 $1"},
		{32 * mib, luksFormat + "--type luks2 --label secret $1"},
		{16 * mib, "mkswap -q -L swap1 $1"},
		{16 * mib, "mkswap -q -p 65536 $1"},
		{16 * mib, "echo ',,L' | sfdisk -q -X dos $1"},
		{16 * mib, "echo ',,L' | sfdisk -q -X gpt $1"},
		{32 * mib, "mkfs.ext4 -q $1 && echo ',,L' | sfdisk -q -w never -X dos $1"}, // boot code before a filesystem
	} {
		t.Run(c.shell, func(t *testing.T) {
			image := newImage(t, c.size)
			if c.size == 0 {
				if err := os.Remove(image); err != nil {
					t.Fatal(err)
				}
			}
			run(t, "sh", "-ec", c.shell, "sh", image)
			got := probeFile(t, image)
			if got.Error != "" {
				t.Errorf("error %q", got.Error)
			}
			if strings.Contains(c.shell, "journal_dev") { // libblkid calls it jbd, the report has no word for it
				if got.Type != "unknown" || got.UUID == "" {
					t.Errorf("%+v", got)
				}
				return
			}
			sameAsBlkid(t, image, got)
			if got.State != "clean" && strings.Contains("ext2 ext3 ext4 xfs btrfs", got.Type) {
				t.Errorf("state %q of a new %s", got.State, got.Type)
			}
			if got.Bytes > c.size && c.size > 0 || got.Bytes < c.size/2 && !strings.Contains("crypto_LUKS dos gpt", got.Type) {
				t.Errorf("%d bytes on %d", got.Bytes, c.size)
			}
			if inspected := Inspect(image, "", ""); inspected.Type != got.Type || inspected.UUID != got.UUID || inspected.Bytes != got.Bytes || inspected.Error != "" {
				t.Errorf("past the page cache: %+v, through it: %+v", inspected, got)
			}
		})
	}
	t.Run("pvcreate", func(t *testing.T) {
		image := newImage(t, 16*mib)
		dev := loop(t, image)
		run(t, "pvcreate", "-q", "--nolocking", "--devicesfile", "", "--config", `devices { scan="/dev" filter=["a|`+dev+`|","r|.*|"] }`, dev)
		got := inspect(dev)
		sameAsBlkid(t, image, got)
		if got.Type != "LVM2_member" || got.Error != "" {
			t.Errorf("%+v", got)
		}
	})
	for _, m := range madeImages {
		if m.alone {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			d := m.device()
			image := newImage(t, d.size)
			for off, part := range m.parts {
				patch(t, image, off, part)
			}
			sameAsBlkid(t, image, probeFile(t, image))
		})
	}
}

// TestOnlyDevices: what is no block device, or another one than was meant, is not read.
func TestOnlyDevices(t *testing.T) {
	needs(t, "losetup")
	fifo := filepath.Join(t.TempDir(), "fifo")
	run(t, "mkfifo", fifo)
	for _, c := range []struct{ path, number, want string }{
		{"/dev/null", "", "ENOTBLK"}, {fifo, "", "ENOTBLK"}, {t.TempDir(), "", "ENOTBLK"}, {"/does/not/exist", "", "ENOENT"},
		{newImage(t, 4096), "7:0", "ENOTBLK"},
	} {
		if s := Inspect(c.path, c.number, ""); s.Type != "unknown" || s.Error != c.want {
			t.Errorf("%s as %q: %+v, want %s", c.path, c.number, s, c.want)
		}
	}
	dev := loop(t, newImage(t, mib))
	d, _ := Read(os.DirFS("/sys"), filepath.Base(dev))
	if s := Inspect(dev, d.MajorMinor, ""); s.Type != "none" {
		t.Errorf("%s as %s: %+v", dev, d.MajorMinor, s)
	}
	if s := Inspect(dev, "7:65000", ""); s.Type != "unknown" || !strings.Contains(s.Error, "not 7:65000") {
		t.Errorf("another device's number: %+v", s)
	}
	if got := ReadTest(dev); got != "" {
		t.Errorf("read test: %s", got)
	}
}
