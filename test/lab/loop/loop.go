// Package loop makes loop devices that the kernel takes away by itself with their last user.
package loop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Attach puts a loop device over file. The returned open device is its first user: as long as it is open or mounted, it stays.
func Attach(file string) (*os.File, error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close() // the device keeps a reference of its own
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		copy(config.Info.File_name[:unix.LO_NAME_SIZE-1], file)
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &config)
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) { // busy: somebody else took this number in between
			return nil, fmt.Errorf("attach %s to %s: %w", file, dev.Name(), err)
		}
	}
}

// Backing returns the file below a loop device, as this mount namespace sees it; empty when the device is free.
func Backing(dev string) string {
	b, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(dev), "loop/backing_file"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSpace(string(b)), " (deleted)")
}

// Grow tells the device that its file has grown.
func Grow(dev *os.File) error {
	return unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_CAPACITY, 0)
}

// WaitFree waits until the kernel has cleared the device: it does so after the last close, not in it.
func WaitFree(dev string, limit time.Duration) error {
	for end := time.Now().Add(limit); Backing(dev) != ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s still holds %s", dev, Backing(dev))
		}
	}
	return nil
}
