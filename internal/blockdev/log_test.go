package blockdev

import (
	"strings"
	"testing"
)

// Lines as kernels of several years write them.
var kernelLines = map[string]string{
	"blk_update_request: I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0":      "sdb",
	"print_req_error: I/O error, dev nvme1n1, sector 41943024":                                                 "nvme1n1",
	"I/O error, dev loop3, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2":                       "loop3",
	"critical medium error, dev sdaa, sector 99 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2":               "sdaa",
	"Buffer I/O error on dev dm-0, logical block 0, async page read":                                           "dm-0",
	"Buffer I/O error on device sdb1, logical block 0":                                                         "sdb1",
	"EXT4-fs error (device sdb): ext4_lookup:1707: inode #2: comm ls: deleted inode referenced: 12":            "sdb",
	"EXT4-fs (nvme2n1p1): mounted filesystem with ordered data mode. Quota mode: none.":                        "nvme2n1p1",
	"EXT4-fs warning (device dm-11): ext4_end_bio:348: I/O error 10 writing to inode 14 starting block 33024)": "dm-11",
	"Aborting journal on device dm-3-8.":                                                                       "dm-3",
	"JBD2: Error -5 detected when updating journal superblock for sdb-8.":                                      "sdb",
	"JBD2: Detected IO errors 5 while flushing file data on dm-3-8":                                            "dm-3",
	"XFS (nvme1n1): log I/O error -5":                                                                          "nvme1n1",
	"XFS (dm-4): Filesystem has duplicate UUID 97f4b76c-84af-469e-9618-2e18d410fb49 - can't mount":             "dm-4",
	"BTRFS error (device sdb): bdev /dev/sdb errs: wr 1, rd 0, flush 0, corrupt 0, gen 0":                      "sdb",
	"BTRFS error (device vdb state EA): parent transid verify failed":                                          "vdb",
	"BTRFS: device fsid 0b7a devid 1 transid 6 /dev/vdc scanned by mount (311)":                                "vdc",
	"F2FS-fs (sdc): Magic Mismatch, valid(0xf2f52010) - read(0x0)":                                             "sdc",
	"FAT-fs (sdd1): Volume was not properly unmounted.":                                                        "sdd1",
	"nbd0: detected capacity change from 0 to 2097152":                                                         "nbd0",
	"block nbd0: Connection timed out":                                                                         "nbd0",
	"rbd: rbd0: write at objno 0 4096~4096 result -108":                                                        "rbd0",
	"rbd: rbd12: encountered watch error: -107":                                                                "rbd12",
	"block drbd1000: State change failed: Device is held open by someone":                                      "drbd1000",
	"drbd pvc-71a44110-fd74/0 drbd1002 node-b: pdsk( UpToDate -> DUnknown )":                                   "drbd1002",
	"drbd pvc-71a44110-fd74/0 drbd1002: State change failed: Refused by peer":                                  "drbd1002",
	"device-mapper: multipath: 253:3: Failing path 8:16.":                                                      "253:3",
	"device-mapper: table: 253:5: multipath: error getting device (-EBUSY)":                                    "253:5",
	"sd 2:0:0:1: [sdb] tag#0 FAILED Result: hostbyte=DID_TRANSPORT_DISRUPTED driverbyte=DRIVER_OK cmd_age=0s":  "sdb",
	"sd 3:0:0:1: rejecting I/O to offline device":                                                              "3:0:0:1",
	"nvme nvme1: I/O 12 QID 3 timeout, aborting":                                                               "nvme1",
	"nvme nvme1: Removing after probe failure status: -19":                                                     "nvme1",
	"nvme1n1: I/O Cmd(0x2) @ LBA 0, 8 blocks, I/O Error (sct 0x0 / sc 0x4)":                                    "nvme1n1",
	"block nvme1n1: no usable path - requeuing I/O":                                                            "nvme1n1",
	"virtio_blk virtio1: [vdb] 41943040 512-byte logical blocks (21.5 GB/20.0 GiB)":                            "vdb",
	" sdb: sdb1 sdb2": "sdb",
	"[ 1234.567890] XFS (sdq): Metadata corruption detected at xfs_agf_read_verify":                               "sdq",
	"<3>[    1.000000] EXT4-fs error (device mmcblk0p2): ext4_validate_block_bitmap:390: comm x: bg 0: bad block": "mmcblk0p2",
	"md/raid1:md127: Disk failure on sdb1, disabling device.":                                                     "md127",
	"dm-4: detected capacity change from 100 to 200":                                                              "dm-4",

	"nfs: server 10.0.0.5 not responding, timed out":                 "",
	"INFO: task kworker/u8:2:311 blocked for more than 120 seconds.": "",
	"connection1:0: detected conn error (1020)":                      "",
	"usb 1-1: new high-speed USB device number 2":                    "",
	"systemd[1]: Started Session 5 of user root.":                    "",
	"XFS (cannot): be one":                                           "",
	"I/O error, dev sdabcdefgh, sector 1":                            "",
	"Out of memory: Killed process 1 (sdb)":                          "sdb", // a process may be called so; the line is shown, not judged
	"overlayfs: upper fs does not support tmpfile":                   "",
	"foosdb: x":             "",
	"EXT4-fs (sdb1-not): x": "",
	"":                      "",
}

func TestLogDevice(t *testing.T) {
	for line, want := range kernelLines {
		if got := LogDevice(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	scsi, nvme := tree(t, "scsi-multipath"), tree(t, "nvme")
	for _, c := range []struct{ found, want string }{{"253:3", "dm-3"}, {"3:0:0:1", "sdc"}, {"8:99", "8:99"}, {"sdb", "sdb"}, {"9:9:9:9", "9:9:9:9"}, {"", ""}} {
		if got := Named(scsi, c.found); got != c.want {
			t.Errorf("%q: got %q, want %q", c.found, got, c.want)
		}
	}
	for _, c := range []struct{ found, want string }{{"nvme0", "nvme0n1"}, {"nvme7", "nvme7"}} {
		if got := Named(nvme, c.found); got != c.want {
			t.Errorf("%q: got %q, want %q", c.found, got, c.want)
		}
	}
}

func FuzzLogDevice(f *testing.F) {
	for line := range kernelLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got := LogDevice(line)
		if !strings.Contains(line, got) {
			t.Errorf("%q: %q is not in it", line, got)
		}
		if strings.Trim(got, "0123456789abcdefghijklmnopqrstuvwxyz-:") != "" {
			t.Errorf("%q: %q is no kernel's name", line, got)
		}
	})
}

// Most lines of a log are about no device.
func BenchmarkLogDevice(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"device", "EXT4-fs error (device sdb): ext4_lookup:1707: inode #2: comm ls: deleted inode referenced: 12"},
		{"none", "IPv6: ADDRCONF(NETDEV_CHANGE): cali0123456789a: link becomes ready, and some more words behind it"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				LogDevice(c.line)
			}
		})
	}
}
