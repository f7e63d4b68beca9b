package blockdev

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Offsets within the superblock of btrfs, which stands at 64 KiB, little-endian (struct btrfs_super_block,
// include/uapi/linux/btrfs_tree.h).
const (
	btrfsAt       = 64 << 10
	btrfsSize     = 4096
	btrfsData     = 0x20 // behind the checksum
	btrfsUUID     = 0x20
	btrfsPlace    = 0x30
	btrfsFlags    = 0x38
	btrfsMagic    = 0x40
	btrfsLogRoot  = 0x60
	btrfsIncompat = 0xbc
	btrfsROCompat = 0xb4
	btrfsCompat   = 0xac
	btrfsSumType  = 0xc4
	btrfsDevBytes = 0xd1 // total_bytes of the device's own item
	btrfsLabel    = 0x12b

	btrfsError = 1 << 2 // of the flags: BTRFS_SUPER_FLAG_ERROR
)

// btrfs writes new blocks beside the old, so one that was never unmounted is clean too; dirty means that a log of fsyncs has to
// be replayed. Bytes is what it uses of this device, of perhaps several.
func btrfs(d *image) *nodereport.Signature {
	b := d.at(btrfsAt, btrfsSize)
	if b == nil || string(b[btrfsMagic:btrfsMagic+8]) != "_BHRfS_M" {
		return nil
	}
	le := binary.LittleEndian
	s := &nodereport.Signature{Type: "btrfs", UUID: uuid(b[btrfsUUID : btrfsUUID+16]), Label: label(b[btrfsLabel : btrfsLabel+256]), State: "clean"}
	switch {
	case le.Uint64(b[btrfsFlags:])&btrfsError != 0:
		s.State = "errors"
	case le.Uint64(b[btrfsLogRoot:]) != 0:
		s.State = "dirty"
	}
	// The upper halves of the feature words are not in use yet.
	d.features(s, btrfsFeatures, le.Uint32(b[btrfsCompat:]), le.Uint32(b[btrfsIncompat:]), le.Uint32(b[btrfsROCompat:]))
	var ok bool
	s.Bytes, ok = bytesOf(le.Uint64(b[btrfsDevBytes:]), 1)
	switch {
	case !btrfsIntact(b):
		s.Error = errChecksum.Error()
	case le.Uint64(b[btrfsPlace:]) != btrfsAt:
		s.Error = "the superblock says that it belongs elsewhere"
	case !ok:
		s.Error = "the superblock has an impossible size"
	}
	return s
}

// btrfsIntact checks CRC32C (the default) and SHA-256; of xxHash and BLAKE2 nothing is said.
func btrfsIntact(b []byte) bool {
	switch binary.LittleEndian.Uint16(b[btrfsSumType:]) {
	case 0:
		return crc32.Checksum(b[btrfsData:], castagnoli) == binary.LittleEndian.Uint32(b)
	case 2:
		sum := sha256.Sum256(b[btrfsData:])
		return bytes.Equal(sum[:], b[:len(sum)])
	case 1, 3:
		return true
	}
	return false
}
