package blockdev

import (
	"errors"
	"fmt"
	"io"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// How much must be zero before a device counts as blank: what mkfs and wipefs leave lies in these parts.
const (
	blankHead = 4 << 20
	blankTail = 1 << 20
)

// headSize is read in one go: all signatures but those at a device's end, ZFS's and the second ones lie in it.
const headSize = 128 << 10

// chunk bounds a single read, so that no superblock can ask for more.
const chunk = 256 << 10

// Probe tells what a device of size bytes holds. kernel is the running kernel's release ("6.1.0-28-amd64"), against which
// features are held; empty: they are not.
//
// Type "none" is said only when the first 4 MiB and the last 1 MiB were read and are zero; what is not recognised, or cannot be
// read, is "unknown". Error says what failed: an errno name (EIO) alone when the device could not be read, else what is wrong
// with what was read; the other fields are then what could be read all the same. Reads are bounded, whatever a superblock says.
func Probe(r io.ReaderAt, size int64, kernel string) nodereport.Signature {
	d := &image{r: r, size: size, kernel: release(kernel)}
	if size <= 0 {
		return nodereport.Signature{Type: "unknown", Error: "the device has no size"}
	}
	d.readHead()
	for _, recognise := range recognisers {
		s := recognise(d)
		if s == nil {
			continue
		}
		switch {
		case d.err != nil:
			s.Error = Reason(d.err)
		case s.Error == "" && s.Bytes > size:
			s.Error = fmt.Sprintf("%s of %d bytes on a device of %d", s.Type, s.Bytes, size)
		}
		return *s
	}
	s := nodereport.Signature{Type: "unknown"}
	blank := d.err == nil && d.zero(0, min(size, blankHead)) && d.zero(max(0, size-blankTail), size)
	switch {
	case d.err != nil:
		s.Error = Reason(d.err)
	case blank:
		s.Type = "none"
	}
	return s
}

// recognisers in the order in which they decide. What wraps a device comes before what it may wrap; what mkfs writes over comes
// after what it writes; a partition table comes late, for boot code may stand before a filesystem, and the leftovers of a second
// copy come last.
var recognisers = []func(*image) *nodereport.Signature{
	luks, lvm, raidStart, bcache, bluestore, raidEnd, drbd,
	xfs, ext, iso9660, gpt, btrfs, f2fs, swap, ntfs, vfat, dos, zfs,
	luksSecond, gptSecond,
}

// image is a device while it is probed. It keeps the first error of reading: after one nothing further is tried, for each
// failing read of a dying disk takes its time.
type image struct {
	r      io.ReaderAt
	size   int64
	kernel version
	head   []byte
	err    error
}

// readHead reads the start in one go; where that fails its first page, for the superblock before a bad sector tells much.
func (d *image) readHead() {
	const page = 4096
	for _, n := range []int64{headSize, page} {
		b := make([]byte, min(n, d.size))
		got, err := d.r.ReadAt(b, 0)
		if got == len(b) {
			d.head = b
			return
		}
		if d.err == nil {
			d.err = short(err)
		}
	}
}

func short(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// at gives n bytes from off on; nil where the device does not have them or they cannot be read.
func (d *image) at(off, n int64) []byte {
	switch {
	case off < 0 || n <= 0 || n > chunk || off > d.size-n:
		return nil
	case off+n <= int64(len(d.head)):
		return d.head[off : off+n : off+n]
	case d.err != nil:
		return nil
	}
	b := make([]byte, n)
	if got, err := d.r.ReadAt(b, off); got < len(b) {
		d.err = short(err)
		return nil
	}
	return b
}

// zero tells whether all of a range was read and is zero.
func (d *image) zero(from, to int64) bool {
	for from < to {
		n := min(to-from, chunk)
		b := d.at(from, n)
		if b == nil || !isZero(b) {
			return false
		}
		from += n
	}
	return true
}

// has tells whether the text stands at an offset.
func (d *image) has(off int64, text string) bool {
	return string(d.at(off, int64(len(text)))) == text
}

// bytesOf multiplies a count of blocks with their size; ok is false where no device can be so large.
func bytesOf(blocks, size uint64) (n int64, ok bool) {
	const largest = 1<<63 - 1
	if size != 0 && blocks > largest/size {
		return 0, false
	}
	return int64(blocks * size), true
}

var errChecksum = errors.New("the superblock's checksum is wrong")
