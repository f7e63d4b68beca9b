package probe

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// changing are system calls that could change something of the node. Each is watched; allowed are those below, with the reason.
const changing = "open,openat,openat2,creat,ioctl,mount,umount2,move_mount,open_tree,fsopen,fsmount,fspick,mount_setattr,pivot_root,setns,chroot,unlink,unlinkat,rename,renameat," +
	"renameat2,mkdir,mkdirat,rmdir,mknod,mknodat,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,fallocate,setxattr,lsetxattr," +
	"fsetxattr,removexattr,lremovexattr,fremovexattr,utimensat,bind,swapon,swapoff,init_module,finit_module,delete_module,reboot,sethostname,syslog,quotactl,bpf,kill,tgkill,pidfd_send_signal,sync,fsync,syncfs"

var allowedCalls = []struct{ pattern, why string }{
	{`^(open|openat|openat2)\((?:[^"]*)"[^"]*", (?:\{flags=)?O_(RDONLY|PATH)(?:\|O_(RDONLY|PATH|CLOEXEC|DIRECTORY|NONBLOCK|NOFOLLOW|NOCTTY|LARGEFILE|DIRECT))*(?:[,})]| )`, "reads"},
	{`^openat\(AT_FDCWD, "/dev/null", O_(RDWR|WRONLY)\|O_CLOEXEC(\)| )`, "the standard streams of a child"},
	{`^chroot\("/proc/\d+/root"(\)| <unfinished)`, "the worker's own root, so that absolute links resolve on the host"},
	{`^ioctl\(\d+(?:<[^>]*>)?, (BLKGETSIZE64|BLKSSZGET|BLKBSZGET|BLKROGET|TCGETS2?|TIOCGWINSZ), `, "asks a device for its size, a terminal whether it is one"},
	{`^(tgkill|kill)\(\d+, (\d+, )?SIGURG(\)| )`, "Go's scheduler to its own threads"},
	{`^tgkill\(\d+, \d+, SIGRT`, "Go's runtime to its own threads"},
	{`^(pidfd_send_signal|kill)\(\d+(?:<[^>]*>)?, SIGKILL`, "the probe ends its own worker"},
	{`^pidfd_send_signal\(\d+(?:<[^>]*>)?, 0, NULL, 0(\)| )`, "Go asks whether pidfds work"},
}

// TestChangesNothing watches a probe of a node with volumes, sockets and devices.
func TestChangesNothing(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "no strace here")
	}
	n := newNode(t)
	device := n.image(16<<20, "mkfs.ext4", "-q", "-F")
	staging, publish := n.volume("disk.example.com", "vol-1", "pvc-1", pod(1))
	n.mount(device, staging, "ext4", 0, "")
	n.bind(staging, publish)
	n.write(publish+"/data", "data")
	n.mount("", staging, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") // or the kernel itself goes on writing
	socket := n.root + "/plugins/disk.example.com/csi.sock"
	d := &fakeDriver{name: "disk.example.com", endpoint: socket, ready: true}
	n.serve(d, socket)
	n.serve(d, n.root+"/plugins_registry/disk.example.com-reg.sock")
	exe, err := os.Executable()
	n.must(err)
	before := n.state(device)
	log := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command(strace, "-f", "-qq", "-s", "256", "-o", log, "-e", "trace="+changing, exe)
	cmd.Env = append(os.Environ(), probeVariable+"="+n.name)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"vol-1", `"vendorVersion":"v1.2.3"`, `"type":"ext4"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the report that was watched has no %s", want)
		}
	}
	if diff := cmp.Diff(before, n.state(device)); diff != "" {
		t.Errorf("the node has changed: %s", diff)
	}
	b, err := os.ReadFile(log)
	n.must(err)
	calls := 0
	for line := range strings.Lines(string(b)) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if call == "" || strings.HasPrefix(call, "+++") || strings.HasPrefix(call, "---") || strings.HasPrefix(call, "<... ") ||
			strings.HasPrefix(call, "???") { // the process ended in it
			continue
		}
		calls++
		if !allowed(call) {
			t.Errorf("not allowed: %s", call)
		}
	}
	if calls < 100 {
		t.Errorf("%d calls seen: strace did not see the probe", calls)
	}
}

func allowed(call string) bool {
	for _, a := range allowedCalls {
		if regexp.MustCompile(a.pattern).MatchString(call) {
			return true
		}
	}
	return false
}

func TestAllowedCalls(t *testing.T) {
	for call, want := range map[string]bool{
		`openat(AT_FDCWD, "/sys/block", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 3`: true,
		`openat(AT_FDCWD, "/x", O_RDONLY|O_CREAT|O_CLOEXEC, 0600) = 3`:       false,
		`openat(AT_FDCWD, "/x", O_WRONLY|O_CLOEXEC) = 3`:                     false,
		`openat(AT_FDCWD, "/dev/sda", O_RDWR|O_CLOEXEC) = 3`:                 false,
		`umount2("/x", MNT_DETACH) = 0`:                                      false,
		`chroot("/tmp")`:                                                     false,
		`ioctl(3, BLKDISCARD, [0, 1]) = 0`:                                   false,
	} {
		if allowed(call) != want {
			t.Errorf("%s: %v", call, !want)
		}
	}
}

// state is what the probe must leave as it is: the node's files with their sizes, modes and times of change, its mounts, what
// the device holds.
func (n *testNode) state(device string) map[string]string {
	n.Helper()
	out := map[string]string{}
	n.must(filepath.WalkDir(n.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		return nil
	}))
	b, err := os.ReadFile(device)
	n.must(err)
	out[device] = fmt.Sprintf("%x", sha256.Sum256(b))
	text, err := os.ReadFile("/proc/self/mountinfo")
	n.must(err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, n.dir) { // others come and go with the programs of the machine
			out["mounts"] += line
		}
	}
	return out
}
