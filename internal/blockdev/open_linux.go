package blockdev

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// directBlock is what direct reads are aligned to: no device has larger logical blocks than a page.
const directBlock = 4096

// Inspect opens a device for reading, tells what it holds, and reads its first and last block past the page cache. majorMinor
// is the device that path must be; empty: any block device or file. It blocks as long as the device does: leave out one whose
// State is suspended, and call it where one that hangs can be left behind.
//
// Of a mounted XFS and btrfs the disk is told, which may lag behind the kernel by a minute or so: a size just grown is in their log first.
func Inspect(path, majorMinor, kernel string) nodereport.Signature {
	d, err := openDevice(path, majorMinor)
	if err != nil {
		return nodereport.Signature{Type: "unknown", Error: Reason(err)}
	}
	defer d.Close()
	if err := d.setDirect(!d.holdsExt()); err != nil {
		return nodereport.Signature{Type: "unknown", Error: Reason(err)}
	}
	s := Probe(d, d.size, kernel)
	if s.Error == "" {
		if err := d.readTest(); err != nil {
			s.Error = Reason(err)
		}
	}
	return s
}

// ReadTest reads the first and the last block of a device past the page cache: "" or the errno name of the error. A device
// that is gone or cut short answers from the cache for long.
func ReadTest(path string) string {
	d, err := openDevice(path, "")
	if err != nil {
		return Reason(err)
	}
	defer d.Close()
	if err := d.readTest(); err != nil {
		return Reason(err)
	}
	return ""
}

// device is one that is open for reading: through the page cache, or past it.
type device struct {
	f      *os.File
	size   int64
	direct bool
	buffer []byte // aligned memory for direct reads
}

const openFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// openDevice never uses O_EXCL, which would be in the way of a mount, and never waits for a medium or the other end of a pipe.
func openDevice(path, majorMinor string) (*device, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return nil, err
	}
	d := &device{f: f}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0:
		if is := number(info); majorMinor != "" && is != majorMinor {
			err = fmt.Errorf("%s is device %s, not %s", path, is, majorMinor)
		}
	case majorMinor != "" || !info.Mode().IsRegular():
		err = unix.ENOTBLK
	}
	if err == nil {
		d.size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		d.buffer, err = unix.Mmap(-1, 0, chunk+2*directBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close ends the use; its errors tell nothing, for nothing was written.
func (d *device) Close() {
	if d.buffer != nil {
		_ = unix.Munmap(d.buffer)
	}
	_ = d.f.Close()
}

// setDirect switches the page cache off or on. Where there are no direct reads it stays on.
func (d *device) setDirect(on bool) error {
	flags := openFlags
	if on {
		flags |= unix.O_DIRECT
	}
	raw, err := d.f.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	if err := raw.Control(func(fd uintptr) { _, refused = unix.FcntlInt(fd, unix.F_SETFL, flags) }); err != nil {
		return err
	}
	if errors.Is(refused, unix.EINVAL) {
		on, refused = false, nil
	}
	d.direct = on
	return refused
}

// holdsExt: ext keeps its superblock in the device's own cache, and what is on the disk lags behind; all others write past
// that cache, and what is in it lags behind.
func (d *device) holdsExt() bool {
	magic := make([]byte, 2)
	_, err := d.f.ReadAt(magic, extAt+extMagic)
	return err == nil && magic[0] == 0x53 && magic[1] == 0xef
}

// ReadAt reads in whole blocks where it reads past the cache.
func (d *device) ReadAt(p []byte, off int64) (int, error) {
	if !d.direct {
		return d.f.ReadAt(p, off)
	}
	if off < 0 || off >= d.size || len(p) > chunk {
		return 0, io.EOF
	}
	from := off &^ (directBlock - 1)
	to := min(roundUp(off+int64(len(p)), directBlock), roundUp(d.size, sectorSize))
	n, err := d.f.ReadAt(d.buffer[:to-from], from)
	if errors.Is(err, unix.EINVAL) { // a device or file with other needs
		if err := d.setDirect(false); err != nil {
			return 0, err
		}
		return d.f.ReadAt(p, off)
	}
	n = max(0, min(n-int(off-from), len(p)))
	copy(p[:n], d.buffer[off-from:])
	if n == len(p) {
		return n, nil
	}
	return n, short(err)
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func (d *device) readTest() error {
	if err := d.setDirect(true); err != nil {
		return err
	}
	b := make([]byte, min(directBlock, d.size))
	for _, off := range []int64{0, d.size - int64(len(b))} {
		if n, err := d.ReadAt(b, off); n < len(b) {
			return short(err)
		}
	}
	return nil
}
