//go:build carrier

package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// manyMounts tells the tests' own program to be a process with very many mounts below that folder, in a namespace of its own.
const manyMounts = "CSIDOCTOR_E2E_MOUNTS"

func init() {
	dir := os.Getenv(manyMounts)
	if dir == "" {
		return
	}
	if err := mountMany(dir, 60000); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("mounted")
	io.Copy(io.Discard, os.Stdin) // until the test is done
	os.Exit(0)
}

// mountMany mounts at paths like those of volumes, with names that do not compress, in the namespace of the calling process.
func mountMany(dir string, n int) error {
	// What is mounted many times has nothing mounted below it: the kernel looks through that each time.
	source := dir + "/source"
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, ""),
		os.Mkdir(source, 0o755), unix.Mount("tmpfs", source, "tmpfs", 0, "")); err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{})
	name := make([]byte, 120) // in hexadecimal almost as long as a name can be
	for range n {
		random.Read(name) // never fails
		target := fmt.Sprintf("%s/plugins/kubernetes.io/csi/%x", dir, name)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// large: what 60,000 mounts of another namespace make of a report, 20 MB, cannot be sent; the rest comes, and the answer says so.
func (p *prober) large() {
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	stop := background(p.t, p.Cluster, "env", manyMounts+"="+p.t.TempDir(), "unshare", "--mount", self)
	bundle := filepath.Join(p.t.TempDir(), "b.tar.gz")
	for _, flags := range [][]string{nil, {"--probe-image", ownImage}} {
		o := p.ask("pvc data", append(flags, "--probe", "--bundle", bundle)...)
		if o.Verdict != "healthy" || len(o.Gaps) != 1 || !strings.Contains(string(o.Gaps[0]), `"truncated"`) {
			p.t.Errorf("%s\nwant healthy, and one gap: truncated", o.text)
		}
		if !strings.Contains(o.stderr, "lacks mountinfo of other namespaces: left out: the report was too large to be sent") {
			p.t.Errorf("%q does not say what was left out", o.stderr)
		}
		if report := nodeReport(p.t, bundle); report["namespaces"] != nil || report["mountinfo"] == nil || report["volumes"] == nil || report["devices"] == nil {
			p.t.Errorf("namespaces %s, and of the rest: %.300s %.300s", report["namespaces"], report["mountinfo"], report["volumes"])
		}
		p.nothingLeft(5 * time.Second)
		os.Remove(bundle)
	}
	stop()
	p.reported("pvc data")
}
