package mountinfo

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRealProc(t *testing.T) {
	proc := Files("/proc")
	all, _ := Processes(proc)
	for _, p := range all {
		if p.PID == os.Getpid() {
			if p.Namespace == 0 || p.Kernel || p.Threads < 1 || !strings.HasPrefix(filepath.Base(os.Args[0]), p.Comm) {
				t.Errorf("this process: %+v", p)
			}
		}
	}
	text, err := Read(proc, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	mounts, gaps := Parse(text)
	if root, ok := mounts.At("/"); !ok || root.FSType == "" || len(gaps) > 0 {
		t.Errorf("no root among %d mounts, gaps %v", len(mounts), gaps)
	}
}

// TestChanged: the kernel tells of a mount made behind an open table.
func TestChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CSIDOCTOR_TEST_REAL") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root, to mount in a namespace of its own")
	}
	dir := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespace with it
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			f, err := Files("/proc").Open("thread-self/mountinfo")
			if err != nil {
				return err
			}
			defer f.Close()
			if changed, err := f.(changer).Changed(); changed || err != nil {
				t.Errorf("at rest: %v %v", changed, err)
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
				return err
			}
			if changed, err := f.(changer).Changed(); !changed || err != nil {
				t.Errorf("after a mount: %v %v", changed, err)
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
