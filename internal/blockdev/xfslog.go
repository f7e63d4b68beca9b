package blockdev

import "encoding/binary"

// xfsLog is the ring of an XFS journal. Each of its blocks begins with the number of the round in which it was written (for a
// record's header the second word, after its magic number): where that number falls is the head. Documented in the XFS
// Filesystem Structure, "Journaling Log"; fs/xfs/libxfs/xfs_log_format.h.
type xfsLog struct {
	d  *image
	at int64 // bytes
	n  int64 // blocks

	window []byte // what was read last
	from   int64  // its first block
}

const (
	logBlock     = 512 // BBSIZE
	logMagic     = 0xfeedbabe
	logOps       = 40  // header: number of operations in the record
	logLength    = 12  // header: bytes of the record behind its header
	logVersion   = 8   // header
	logSize      = 320 // header: size of the buffer it was written from, version 2
	logCycleArea = 32 << 10
	opFlags      = 9    // operation: its flags
	opUnmount    = 0x20 // XLOG_UNMOUNT_TRANS: written last of all by an unmount
	// maxRecord is the largest record with its headers, in blocks (XLOG_MAX_RECORD_BSIZE, 256 KiB, and one header each 32 KiB).
	maxRecord = (256<<10)/logBlock + 8
)

// block gives one block; where it has to be read, with up to span-1 of those before it, for a record is looked for backwards.
func (l *xfsLog) block(i, span int64) []byte {
	if i < l.from || i >= l.from+int64(len(l.window))/logBlock {
		l.from = max(0, i-span+1)
		l.window = l.d.at(l.at+l.from*logBlock, (i+1-l.from)*logBlock)
	}
	if l.window == nil {
		return nil
	}
	return l.window[(i-l.from)*logBlock : (i-l.from+1)*logBlock]
}

// cycle is the round in which a block was written.
func (l *xfsLog) cycle(i int64) (uint32, bool) {
	b := l.block(i, 1)
	if b == nil {
		return 0, false
	}
	c := binary.BigEndian.Uint32(b)
	if c == logMagic {
		c = binary.BigEndian.Uint32(b[4:])
	}
	return c, true
}

// head finds the block behind the last one written. Blocks before it are of the first block's round, those from it on of the
// round before, or were never written.
func (l *xfsLog) head() (int64, bool) {
	first, ok := l.cycle(0)
	if !ok || first == 0 {
		return 0, false
	}
	lo, hi := int64(0), l.n // lo is of the first's round, hi is not or is the end
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		c, ok := l.cycle(mid)
		if !ok {
			return 0, false
		}
		if c == first {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi % l.n, true
}

// state is clean when the last record is an unmount's and nothing follows it.
func (l *xfsLog) state() string {
	if l.n < 2 {
		return ""
	}
	head, ok := l.head()
	if !ok {
		return ""
	}
	for back := int64(1); back <= min(maxRecord, l.n); back++ {
		i := (head - back + l.n) % l.n
		b := l.block(i, 64)
		if b == nil {
			return ""
		}
		be := binary.BigEndian
		if be.Uint32(b) != logMagic {
			continue
		}
		headers := int64(1)
		if size := int64(be.Uint32(b[logSize:])); be.Uint32(b[logVersion:])&2 != 0 && size > logCycleArea {
			headers = (size + logCycleArea - 1) / logCycleArea
		}
		length := (int64(be.Uint32(b[logLength:])) + logBlock - 1) / logBlock
		if headers+length != back || be.Uint32(b[logOps:]) != 1 {
			return "dirty"
		}
		op := l.block((i+headers)%l.n, 1)
		switch {
		case op == nil:
			return ""
		case op[opFlags]&opUnmount != 0:
			return "clean"
		}
		return "dirty"
	}
	return "dirty" // the end of a record that was cut off
}
