package mountinfo

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Files are the kernel's files at a folder (/proc, /sys), read by plain system calls: a node has thousands of processes, and a
// file of package os costs twice as many.
func Files(dir string) fs.FS { return kernelFS{os.DirFS(dir).(dirFS), dir} }

// dirFS is what os.DirFS promises.
type dirFS interface {
	fs.StatFS
	fs.ReadDirFS
	fs.ReadLinkFS
}

type kernelFS struct {
	dirFS
	dir string
}

// small is more than the files that are read of every process need.
var small = sync.Pool{New: func() any { return new([4096]byte) }}

func (p kernelFS) ReadFile(name string) ([]byte, error) {
	fd, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := small.Get().(*[4096]byte)
	defer small.Put(buf)
	var out []byte
	for {
		n, err := unix.Read(fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return out, nil
		default:
			out = append(out, buf[:n]...)
		}
	}
}

func (p kernelFS) open(name string) (int, error) {
	if !fs.ValidPath(name) {
		return 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for {
		fd, err := unix.Open(p.dir+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func (p kernelFS) Open(name string) (fs.File, error) {
	fd, err := p.open(name)
	if err != nil {
		return nil, err
	}
	return &tableFile{fd: fd, name: name}, nil
}

// tableFile is an open file of /proc.
type tableFile struct {
	fd   int
	name string
}

func (f *tableFile) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

func (f *tableFile) Close() error { return unix.Close(f.fd) }

func (f *tableFile) Stat() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: f.name, Err: errors.ErrUnsupported}
}

// Changed asks the kernel whether the mount table has changed since the file was opened: it says so by POLLPRI (proc(5),
// /proc/pid/mounts).
func (f *tableFile) Changed() (bool, error) {
	p := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(p, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, err
	}
}

// gone: the process ended while it was read.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) }
