package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// What tells a test binary that it is something else.
const (
	namespaceVariable = "CSIDOCTOR_TEST_NAMESPACE" // the test to run, in a mount namespace of its own
	probeVariable     = "CSIDOCTOR_TEST_PROBE"     // the node to probe
)

func TestMain(m *testing.M) {
	Worker()
	switch filepath.Base(os.Args[0]) {
	case "kubelet", "holder": // stands for a process of that name, until its input ends
		if len(os.Args) == 2 {
			lines, err := strconv.Atoi(os.Args[1])
			if err == nil {
				err = fillNamespace(lines)
			}
			if err != nil {
				os.Exit(1)
			}
		}
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if node := os.Getenv(probeVariable); node != "" {
		r, err := Run(context.Background(), Options{Node: node, Timeout: time.Minute})
		if err == nil {
			err = Write(os.Stdout, r, true)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CSIDOCTOR_TEST_REAL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// inNamespace runs the test again in a mount namespace of its own, where all that it mounts ends with it. False: it has run.
func inNamespace(t testing.TB) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root, to mount")
	}
	if os.Getenv(namespaceVariable) == t.Name() {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.timeout=3m", "-test.run=^" + t.Name() + "$"}
	if strings.HasPrefix(t.Name(), "Benchmark") {
		args = []string{"-test.v", "-test.timeout=15m", "-test.run=^$", "-test.benchtime=1x", "-test.bench=^" + t.Name() + "$"}
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), namespaceVariable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP") {
		skip(t, string(out))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(string(out))
	return false
}

// testNode is a node: a process called kubelet that says where its root is, and what the test puts there.
type testNode struct {
	testing.TB
	name, dir, root string
}

func newNode(t testing.TB) *testNode {
	t.Helper()
	n := &testNode{TB: t, name: fmt.Sprintf("node-%d", os.Getpid()), dir: t.TempDir()}
	n.root = n.dir + "/var/lib/kubelet"
	t.Cleanup(n.unmountAll)
	for _, dir := range []string{"pods", "plugins/kubernetes.io/csi", "plugins_registry"} {
		n.mkdir(filepath.Join(n.root, dir))
	}
	n.start("kubelet", 0, "--v=2", "--root-dir", n.root, "--hostname-override="+n.name)
	return n
}

// start starts a process of a name; it ends with the test. Flags are those of unshare.
func (n *testNode) start(name string, flags uintptr, args ...string) int {
	n.Helper()
	exe, err := os.Executable()
	n.must(err)
	bin := filepath.Join(n.dir, "bin", name)
	n.mkdir(filepath.Dir(bin))
	n.must(os.Symlink(exe, bin))
	cmd := exec.Command(bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
	in, err := cmd.StdinPipe()
	n.must(err)
	n.must(cmd.Start())
	n.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			n.Error(err)
		}
	})
	return cmd.Process.Pid
}

func (n *testNode) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *testNode) mkdir(dir string) { n.Helper(); n.must(os.MkdirAll(dir, 0o755)) }

func (n *testNode) write(name, text string) {
	n.Helper()
	n.mkdir(filepath.Dir(name))
	n.must(os.WriteFile(name, []byte(text), 0o600))
}

func (n *testNode) mount(source, target, fstype string, flags uintptr, data string) {
	n.Helper()
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		n.Fatalf("mounting %s on %s: %v", source, target, err)
	}
}

func (n *testNode) bind(source, target string) {
	n.Helper()
	n.mount(source, target, "", unix.MS_BIND, "")
}

// unmountAll lets go of all mounts below the node's folder, the last first; lazily, since some hang.
func (n *testNode) unmountAll() {
	text, err := mountinfo.Read(mountinfo.Files("/proc"), os.Getpid())
	n.must(err)
	table, _ := mountinfo.Parse(text)
	for _, m := range slices.Backward(table.Below(n.dir)) {
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			n.Errorf("unmounting %s: %v", m.Mountpoint, err)
		}
	}
}

// volume makes the folders of a volume as the kubelet does, and gives the two paths to mount at.
func (n *testNode) volume(driver, handle, pv, pod string) (staging, publish string) {
	n.Helper()
	sum := sha256.Sum256([]byte(handle))
	staged := filepath.Join(n.root, "plugins/kubernetes.io/csi", driver, hex.EncodeToString(sum[:]))
	published := filepath.Join(n.root, "pods", pod, "volumes/kubernetes.io~csi", pv)
	n.mkdir(staged + "/globalmount")
	n.mkdir(published + "/mount")
	n.write(staged+"/vol_data.json", fmt.Sprintf(`{"driverName":%q,"volumeHandle":%q}`, driver, handle))
	n.write(published+"/vol_data.json", fmt.Sprintf(`{"attachmentID":"csi-1","driverName":%q,"nodeName":%q,"specVolID":%q,"volumeHandle":%q,"volumeLifecycleMode":"Persistent"}`, driver, n.name, pv, handle))
	return staged + "/globalmount", published + "/mount"
}

// image makes a file with a filesystem and gives a loop device of it, which goes when it is unmounted.
func (n *testNode) image(bytes int64, mkfs ...string) (device string) {
	n.Helper()
	f, err := os.CreateTemp(n.dir, "image")
	n.must(err)
	defer f.Close()
	n.must(f.Truncate(bytes))
	if len(mkfs) > 0 {
		if out, err := exec.Command(mkfs[0], append(mkfs[1:], f.Name())...).CombinedOutput(); err != nil {
			n.Fatalf("%v: %v\n%s", mkfs, err, out)
		}
	}
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		skip(n.TB, "no loop devices here: "+err.Error())
	}
	defer unix.Close(control)
	for {
		number, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		n.must(err)
		device = fmt.Sprintf("/dev/loop%d", number)
		loop, err := os.OpenFile(device, os.O_RDWR, 0)
		n.must(err)
		config := unix.LoopConfig{Fd: uint32(f.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		copy(config.Info.File_name[:], f.Name())
		if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); errors.Is(err, unix.EBUSY) { // another process was quicker
			loop.Close()
			continue
		} else if err != nil {
			n.Fatal(err)
		}
		n.Cleanup(func() { loop.Close() })
		return device
	}
}

func (n *testNode) probe(o Options) *nodereport.NodeReport {
	n.Helper()
	o.Node = n.name
	r, err := Run(context.Background(), o)
	n.must(err)
	for _, g := range r.Gaps {
		n.Logf("gap: %s: %s", g.What, g.Reason)
	}
	return r
}

// volumeOf finds a volume of the report.
func (n *testNode) volumeOf(r *nodereport.NodeReport, handle string) *nodereport.Volume {
	n.Helper()
	for i := range r.Volumes {
		if r.Volumes[i].Handle == handle {
			return &r.Volumes[i]
		}
	}
	b, _ := json.Marshal(r.Volumes)
	n.Fatalf("no volume %s in %s", handle, b)
	return nil
}

// deviceOf finds the device that a path is mounted from.
func (n *testNode) deviceOf(r *nodereport.NodeReport, path string) *nodereport.Device {
	n.Helper()
	table, gaps := mountinfo.Parse(r.Mountinfo)
	if len(gaps) > 0 {
		n.Errorf("the report's table: %v", gaps)
	}
	m, ok := table.At(path)
	if !ok {
		n.Fatalf("%s is no mount in\n%s", path, r.Mountinfo)
	}
	for i := range r.Devices {
		if r.Devices[i].MajorMinor == m.Device() {
			return &r.Devices[i]
		}
	}
	n.Fatalf("no device %s", m.Device())
	return nil
}

func pod(i int) string { return fmt.Sprintf("9c067163-ce6b-41a7-a36a-%012x", i) }

// within runs something that must end in time, also when it hangs.
func within(t testing.TB, d time.Duration, f func()) time.Duration {
	t.Helper()
	start := time.Now()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return time.Since(start)
	case <-time.After(d):
		t.Fatalf("not done within %s", d)
		return 0
	}
}
