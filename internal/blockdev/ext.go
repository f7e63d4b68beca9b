package blockdev

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Offsets within the superblock of ext2, ext3 and ext4, which stands at byte 1024 (Documentation/filesystems/ext4/super.rst).
const (
	extAt           = 1024
	extSize         = 1024
	extBlocksLow    = 0x4
	extLogBlock     = 0x18
	extMagic        = 0x38
	extState        = 0x3a
	extRevision     = 0x4c
	extCompat       = 0x5c
	extIncompat     = 0x60
	extROCompat     = 0x64
	extUUID         = 0x68
	extLabel        = 0x78
	extBlocksHigh   = 0x150
	extErrorCount   = 0x194
	extLastTime     = 0x1cc
	extLastInode    = 0x1d0
	extLastLine     = 0x1d4
	extLastBlock    = 0x1d8
	extLastFunction = 0x1e0
	extLastTimeHigh = 0x279
	extLastCode     = 0x27b
	extChecksum     = 0x3fc
)

const (
	extClean     = 1 // of the state: unmounted in good order
	extHasErrors = 2

	extRecover   = 0x4  // incompat: the journal has to be replayed
	extJournal   = 0x8  // incompat: this is another filesystem's journal
	ext64        = 0x80 // incompat
	extHasCsum   = 0x400
	extHasLog    = 0x4
	ext3Incompat = 0x2 | extRecover | 0x10 // filetype, meta_bg
	ext3ROCompat = 0x1 | 0x2 | 0x4         // sparse_super, large_file, btree_dir
)

func ext(d *image) *nodereport.Signature {
	b := d.at(extAt, extSize)
	if b == nil || binary.LittleEndian.Uint16(b[extMagic:]) != 0xef53 {
		return nil
	}
	// The kernel may change the superblock of a mounted one while it is read: a checksum counts as wrong when it stays wrong.
	good := extIntact(b)
	for i := 0; i < 2 && !good && d.err == nil; i++ {
		again := make([]byte, extSize)
		if n, _ := d.r.ReadAt(again, extAt); n == extSize {
			b, good = again, extIntact(again)
		}
	}
	le := binary.LittleEndian
	if le.Uint16(b[extMagic:]) != 0xef53 {
		return nil
	}
	s := &nodereport.Signature{UUID: uuid(b[extUUID : extUUID+16]), Label: label(b[extLabel : extLabel+16])}
	var compat, incompat, ro uint32
	if le.Uint32(b[extRevision:]) > 0 {
		compat, incompat, ro = le.Uint32(b[extCompat:]), le.Uint32(b[extIncompat:]), le.Uint32(b[extROCompat:])
	}
	if incompat&extJournal != 0 {
		return &nodereport.Signature{Type: "unknown", UUID: s.UUID, Label: s.Label, Features: []string{"journal_dev"}}
	}
	d.features(s, extFeatures, compat, incompat, ro)
	switch {
	case incompat&^uint32(ext3Incompat) != 0 || ro&^uint32(ext3ROCompat) != 0:
		s.Type = "ext4"
	case compat&extHasLog != 0:
		s.Type = "ext3"
	default:
		s.Type = "ext2"
	}
	switch state := le.Uint16(b[extState:]); {
	case state&extHasErrors != 0:
		s.State = "errors"
	case state&extClean == 0 || incompat&extRecover != 0:
		s.State = "dirty"
	default:
		s.State = "clean"
	}
	s.Errors = int(le.Uint32(b[extErrorCount:]))
	if s.Errors > 0 {
		s.LastError = extLastError(b)
	}
	blocks := uint64(le.Uint32(b[extBlocksLow:]))
	if incompat&ext64 != 0 {
		blocks |= uint64(le.Uint32(b[extBlocksHigh:])) << 32
	}
	var ok bool
	log := le.Uint32(b[extLogBlock:])
	if log <= 6 { // 64 KiB, the largest block of all (EXT4_MAX_BLOCK_LOG_SIZE)
		s.Bytes, ok = bytesOf(blocks, 1024<<log)
	}
	switch {
	case !good:
		s.Error = errChecksum.Error()
	case !ok:
		s.Error = "the superblock has an impossible size"
	}
	return s
}

// extIntact: the checksum fits, or there is none. The kernel keeps this CRC32C without the last inversion.
func extIntact(b []byte) bool {
	le := binary.LittleEndian
	if le.Uint32(b[extRevision:]) == 0 || le.Uint32(b[extROCompat:])&extHasCsum == 0 {
		return true
	}
	return ^crc32.Checksum(b[:extChecksum], castagnoli) == le.Uint32(b[extChecksum:])
}

// extLastError tells the last error as the kernel noted it: where, when, what about.
func extLastError(b []byte) string {
	le := binary.LittleEndian
	text := label(b[extLastFunction : extLastFunction+32])
	if line := le.Uint32(b[extLastLine:]); line > 0 {
		text += fmt.Sprintf(":%d", line)
	}
	if code := int(b[extLastCode]); code > 0 && code < len(extCodes) {
		text += " " + extCodes[code]
	}
	if inode := le.Uint32(b[extLastInode:]); inode > 0 {
		text += fmt.Sprintf(" inode %d", inode)
	}
	if block := le.Uint64(b[extLastBlock:]); block > 0 {
		text += fmt.Sprintf(" block %d", block)
	}
	seconds := int64(le.Uint32(b[extLastTime:])) | int64(b[extLastTimeHigh])<<32
	if seconds > 0 {
		text += " at " + time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	return text
}

// extCodes are the errors that the superblock numbers by itself (fs/ext4/ext4.h, EXT4_ERR_*); 1 is any other.
var extCodes = []string{"", "", "EIO", "ENOMEM", "EFSBADCRC", "EFSCORRUPTED", "ENOSPC", "ENOKEY", "EROFS", "EFBIG", "EEXIST",
	"ERANGE", "EOVERFLOW", "EBUSY", "ENOTDIR", "ENOTEMPTY", "ESHUTDOWN", "EFAULT"}
