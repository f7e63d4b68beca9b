package blockdev

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Offsets within the superblock of XFS, which stands at byte 0, big-endian (struct xfs_dsb, fs/xfs/libxfs/xfs_format.h).
const (
	xfsBlockSize   = 4
	xfsBlocks      = 8
	xfsUUID        = 32
	xfsLogStart    = 48
	xfsAGBlocks    = 84
	xfsLogBlocks   = 96
	xfsVersion     = 100
	xfsSectorSize  = 102
	xfsLabel       = 108
	xfsAGBlockLog  = 124
	xfsInProgress  = 126
	xfsCompat      = 208
	xfsROCompat    = 212
	xfsIncompat    = 216
	xfsCRC         = 224
	xfsSuperblock  = 264
	xfsNeedsRepair = 1 << 4 // incompat: no kernel mounts it before xfs_repair was there
)

func xfs(d *image) *nodereport.Signature {
	b := d.at(0, xfsSuperblock)
	if b == nil || string(b[:4]) != "XFSB" {
		return nil
	}
	be := binary.BigEndian
	s := &nodereport.Signature{Type: "xfs", UUID: uuid(b[xfsUUID : xfsUUID+16]), Label: label(b[xfsLabel : xfsLabel+12])}
	blockSize, sector := uint64(be.Uint32(b[xfsBlockSize:])), int64(be.Uint16(b[xfsSectorSize:]))
	if !isPower(blockSize, 512, 65536) || !isPower(uint64(sector), 512, 32768) {
		s.Error = "the superblock has an impossible block size"
		return s
	}
	var ok bool
	if s.Bytes, ok = bytesOf(be.Uint64(b[xfsBlocks:]), blockSize); !ok {
		s.Error = "the superblock has an impossible size"
		return s
	}
	switch v := be.Uint16(b[xfsVersion:]) & 0xf; v {
	case 4:
		s.Features = []string{"v4"}
	case 5:
		s.Features = []string{"crc"}
		incompat := be.Uint32(b[xfsIncompat:])
		d.features(s, xfsFeatures, be.Uint32(b[xfsCompat:]), incompat, be.Uint32(b[xfsROCompat:]))
		if incompat&xfsNeedsRepair != 0 {
			s.State = "errors"
		}
		whole := d.at(0, sector)
		if whole == nil {
			return s
		}
		sum := crc32.Update(0, castagnoli, whole[:xfsCRC])
		sum = crc32.Update(sum, castagnoli, make([]byte, 4))
		sum = crc32.Update(sum, castagnoli, whole[xfsCRC+4:])
		if sum != binary.LittleEndian.Uint32(b[xfsCRC:]) {
			s.Error = errChecksum.Error()
			return s
		}
	default:
		s.Error = "a version of XFS that no kernel has"
		return s
	}
	if b[xfsInProgress] != 0 {
		s.Error = "mkfs.xfs did not come to its end"
		return s
	}
	if s.State == "" {
		s.State = d.xfsLogState(b, int64(blockSize))
	}
	return s
}

func isPower(n, from, to uint64) bool { return n >= from && n <= to && n&(n-1) == 0 }

// xfsLogState tells from the log's last record whether it has to be replayed. Empty: not known, for it lies on another device
// or cannot be made out.
func (d *image) xfsLogState(b []byte, blockSize int64) string {
	be := binary.BigEndian
	start, blocks := be.Uint64(b[xfsLogStart:]), int64(be.Uint32(b[xfsLogBlocks:]))
	shift := b[xfsAGBlockLog]
	if start == 0 || shift > 31 || blocks > d.size/blockSize {
		return ""
	}
	// A block's number is that of its allocation group, and below it the block's within the group.
	block := start>>shift*uint64(be.Uint32(b[xfsAGBlocks:])) + start&(1<<shift-1)
	if block > uint64(d.size/blockSize) {
		return ""
	}
	l := &xfsLog{d: d, at: int64(block) * blockSize, n: blocks * blockSize / logBlock}
	if l.at+l.n*logBlock > d.size {
		return ""
	}
	return l.state()
}
