package blockdev

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// needs skips a test that this machine cannot run; gotest counts a skip as a failure where all must run.
func needs(t testing.TB, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: devices are made")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s (.ci/packages)", p)
		}
	}
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// newImage makes a file of zeros.
func newImage(t testing.TB, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return name
}

func copyImage(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.img")
	run(t, "cp", "--sparse=always", from, to)
	return to
}

// loop binds a file to a loop device until the test's end.
func loop(t testing.TB, image string, options ...string) string {
	t.Helper()
	dev := strings.TrimSpace(run(t, "losetup", append(append([]string{"--find", "--show"}, options...), image)...))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v\n%s", dev, err, out)
		}
	})
	return dev
}

// mounted mounts a device until the test's end, or until the returned function is called.
func mounted(t testing.TB, dev, kind string) (dir string, unmount func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount(dev, dir, kind, 0, ""); err != nil {
		t.Fatalf("mount %s: %v", dev, err)
	}
	done := false
	unmount = func() {
		if done {
			return
		}
		done = true
		if err := unix.Unmount(dir, 0); err != nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			t.Errorf("umount %s: %v", dir, err)
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// writeSynced makes a filesystem's journal or log have something to replay.
func writeSynced(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("data"); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func patch(t testing.TB, image string, off int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, off); err != nil {
		t.Fatal(err)
	}
}

// blkid is what libblkid says of a file, without any cache.
func blkid(t testing.TB, image string) map[string]string {
	t.Helper()
	out, err := exec.Command("blkid", "-p", "-c", "/dev/null", "-o", "export", image).Output()
	if code := (*exec.ExitError)(nil); err != nil && !(asExit(err, &code) && code.ExitCode() == 2) { // 2: nothing found
		t.Fatalf("blkid %s: %v", image, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		values[key] = strings.NewReplacer(`\ `, " ", `\"`, `"`, `\'`, "'", `\$`, "$").Replace(value)
	}
	return values
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// sameAsBlkid holds a signature against libblkid's. What has no superblock may have a partition table.
func sameAsBlkid(t *testing.T, image string, got nodereport.Signature) {
	t.Helper()
	want := blkid(t, image)
	kind, id := want["TYPE"], want["UUID"]
	if kind == "" {
		kind, id = want["PTTYPE"], want["PTUUID"]
	}
	if kind == "" {
		if got.Type != "none" && got.Type != "unknown" {
			t.Errorf("blkid finds nothing, Probe %+v", got)
		}
		return
	}
	if got.Type != kind || got.UUID != id || got.Label != want["LABEL"] {
		t.Errorf("blkid: %s %s %q; Probe: %s %s %q", kind, id, want["LABEL"], got.Type, got.UUID, got.Label)
	}
}
