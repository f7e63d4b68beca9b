//go:build unix

package blockdev

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func errnoName(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return ""
}

// notADir: the attribute's folder is a file here, as partition is.
func notADir(err error) bool { return errors.Is(err, unix.ENOTDIR) }
