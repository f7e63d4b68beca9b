//go:build unix

package blockdev

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// number is the device number of a node, as sysfs and mountinfo write it.
func number(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	dev := uint64(st.Rdev)
	return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
}
