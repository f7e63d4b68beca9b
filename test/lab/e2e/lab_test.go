package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/loop"
)

// everyVolume is a pod with each kind of volume that leaves something on a node: a filesystem, a raw device, which kubelet pins with a
// loop device of its own, and an inline one.
const everyVolume = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: xfs}
provisioner: loop.csidoctor.dev
parameters: {csi.storage.k8s.io/fstype: xfs}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: filesystem}
spec: {storageClassName: xfs, accessModes: [ReadWriteOnce], resources: {requests: {storage: 300Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: block}
spec: {storageClassName: loop.csidoctor.dev-now, volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: lab.local/app:1
    imagePullPolicy: Never
    volumeMounts: [{name: filesystem, mountPath: /filesystem}, {name: inline, mountPath: /inline}]
    volumeDevices: [{name: block, devicePath: /dev/block}]
  volumes:
  - {name: filesystem, persistentVolumeClaim: {claimName: filesystem}}
  - {name: block, persistentVolumeClaim: {claimName: block}}
  - {name: inline, csi: {driver: loop.csidoctor.dev}}
`

// TestLife takes every kind of volume through what must work before a fault means anything: use, growth, removal.
func TestLife(t *testing.T) {
	needReal(t)
	c, _ := startLab(t, "life")
	kubectl(t, c, everyVolume, "apply", "-f", "-")
	kubectl(t, c, "", "wait", "--for=condition=Ready", "pod/app", "--timeout=2m")
	kubectl(t, c, "", "exec", "app", "--", "sh", "-c", "echo x >/filesystem/x && echo x >/inline/x && dd if=/dev/block of=/dev/null count=1")
	size := func() (kib int) {
		df := strings.Split(strings.TrimSpace(kubectl(t, c, "", "exec", "app", "--", "df", "-k", "/filesystem")), "\n")
		if _, err := fmt.Sscanf(df[len(df)-1], "%s %d", new(string), &kib); err != nil {
			t.Fatalf("%q: %v", df, err)
		}
		return kib
	}
	before := size()
	for _, claim := range []string{"filesystem", "block"} {
		kubectl(t, c, "", "patch", "pvc", claim, "-p", `{"spec": {"resources": {"requests": {"storage": "400Mi"}}}}`)
		kubectl(t, c, "", "wait", "pvc", claim, "--for=jsonpath={.status.capacity.storage}=400Mi", "--timeout=2m")
	}
	if after := size(); after < before+90<<10 {
		t.Errorf("the filesystem had %d KiB and has %d, want 100 MiB more", before, after)
	}
	if n := len(loops(c)); n != 4 {
		t.Errorf("%d loop devices, want 4: one for each volume, and kubelet's", n)
	}
	kubectl(t, c, "", "delete", "pod/app", "pvc/filesystem", "pvc/block", "--timeout=2m")
	eventually(t, "every PV is deleted", time.Minute, func() bool { return kubectl(t, c, "", "get", "pv", "-o", "name") == "" })
	eventually(t, "every loop device is free", 10*time.Second, func() bool { return len(loops(c)) == 0 })
}

// TestKilled kills a run in three places and counts what is left.
func TestKilled(t *testing.T) {
	needReal(t)
	for name, victim := range map[string]func(lab, unshare int) int{
		"the program that waits for it": func(lab, _ int) int { return lab },
		"unshare":                       func(_, unshare int) int { return unshare },
		"the first process inside":      func(_, unshare int) int { return children(unshare)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			mountsBefore := mounts(t)
			c, cmd := startLab(t, "killed")
			kubectl(t, c, everyVolume, "apply", "-f", "-")
			kubectl(t, c, "", "wait", "--for=condition=Ready", "pod/app", "--timeout=2m")
			b, err := os.ReadFile(filepath.Join(c.Dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			unshare, err := strconv.Atoi(string(b))
			if err != nil {
				t.Fatal(err)
			}
			processes, devices := descendants(unshare), loops(c)
			if len(processes) < 15 || len(devices) != 4 {
				t.Fatalf("%d processes and loop devices %v: not a whole run", len(processes), devices)
			}
			if err := syscall.Kill(victim(cmd.Process.Pid, unshare), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			var left string
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				processes = slices.DeleteFunc(processes, func(p process) bool { return !p.alive() })
				devices = slices.DeleteFunc(devices, func(d string) bool { return loop.Backing(d) == "" })
				if left = fmt.Sprint(processes, devices); len(processes) == 0 && len(devices) == 0 {
					break
				}
			}
			if len(processes) > 0 || len(devices) > 0 {
				t.Errorf("processes and loop devices left: %s", left)
			}
			if after := mounts(t); after != mountsBefore {
				t.Errorf("mounts before:\n%s\nafter:\n%s", mountsBefore, after)
			}
			if err := cluster.Named("killed").Stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", c.Dir, err)
			}
		})
	}
}

// process is one process for good: a number alone may come back as another.
type process struct {
	id      int
	name    string
	started string
}

func (p process) alive() bool {
	now, ok := readProcess(p.id)
	return ok && now == p
}

func readProcess(id int) (process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return process{}, false
	}
	open, close := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
	fields := strings.Fields(string(b[close+1:]))
	return process{id, string(b[open+1 : close]), fields[19]}, true // field 22 of proc(5)
}

// descendants are the process and all below it.
func descendants(id int) (all []process) {
	if p, ok := readProcess(id); ok {
		all = append(all, p)
	}
	for _, child := range children(id) {
		all = append(all, descendants(child)...)
	}
	return all
}

func children(id int) (ids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", id)) // none: it has ended
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for field := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				ids = append(ids, child)
			}
		}
	}
	return ids
}

// loops are the loop devices of the run's volumes, and those of any kubelet of a lab.
func loops(c *cluster.Cluster) (used []string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		dev := "/dev/" + strings.Split(f, "/")[3]
		if backing := loop.Backing(dev); strings.HasPrefix(backing, c.Dir+"/") || strings.HasPrefix(backing, cluster.KubeletRoot+"/") {
			used = append(used, dev)
		}
	}
	return used
}

func mounts(t *testing.T) string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
