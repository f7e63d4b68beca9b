package mountinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// tree is a /proc from an archive, in which links are files.
func tree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for _, f := range txtar.Parse(b).Files {
		out[f.Name] = &fstest.MapFile{Data: f.Data}
		if strings.HasSuffix(f.Name, "/ns/mnt") {
			out[f.Name] = &fstest.MapFile{Data: []byte(strings.TrimSpace(string(f.Data))), Mode: fs.ModeSymlink}
		}
	}
	return out
}

func TestNamespaces(t *testing.T) {
	proc := tree(t, "testdata/proc.txtar")
	all, gaps := Processes(proc)
	want := []string{"1300/stat: no name in \"nonsense\\n\"", "mount namespaces of processes: 1 processes do not show theirs"}
	var said []string
	for _, g := range gaps {
		said = append(said, g.What+": "+g.Reason)
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, ns := range Namespaces(proc, all) {
		line := fmt.Sprintf("%d %d lines, %v:", ns.Inode, strings.Count(ns.Text, "\n"), ns.Unread)
		for _, p := range ns.Processes {
			line += fmt.Sprintf(" %d(%s,%c,%d)", p.PID, p.Comm, p.State, p.Started)
		}
		got = append(got, line)
	}
	// Process 1000 ended before its table was read: its neighbour tells.
	if diff := cmp.Diff([]string{"4026531841 2 lines, <nil>: 1(systemd,S,12) 812(kubelet,S,4711)", "4026532900 3 lines, <nil>: 900(csi) plugin,S,5000)",
		"4026533000 1 lines, <nil>: 1000(app,D,6000) 1001(sh,S,6000)"}, got); diff != "" {
		t.Error(diff)
	}
}

// restless is a /proc whose table is another one at each of its first readings.
type restless struct {
	changes, opened int
}

func (r *restless) Open(string) (fs.File, error) {
	r.opened++
	text := fmt.Sprintf("%d 1 8:1 / / rw - ext4 /dev/sda1 rw\n", min(r.opened, r.changes))
	return fstest.MapFS{"x": &fstest.MapFile{Data: []byte(text)}}.Open("x")
}

func TestReadIsSteady(t *testing.T) {
	for changes, want := range map[int]int{0: 2, 1: 2, 3: 4, attempts: attempts + 1} {
		r := &restless{changes: changes}
		if _, err := Read(r, 1); err != nil || r.opened != want {
			t.Errorf("%d changes: %v, read %d times, want %d", changes, err, r.opened, want)
		}
	}
	if text, err := Read(&restless{changes: 1000}, 1); !errors.Is(err, ErrUnsteady) || text == "" {
		t.Errorf("a table that never rests: %q %v", text, err)
	}
}

func TestOwner(t *testing.T) {
	const id = "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899"
	const uid = "9c067163-ce6b-41a7-a36a-ea68574ddb4a"
	const under = "9c067163_ce6b_41a7_a36a_ea68574ddb4a"
	for _, c := range []struct{ name, cgroup, pod, container string }{
		{"v2, systemd, containerd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", uid, id},
		{"v2, systemd, cri-o", "0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + id + ".scope/container\n", uid, id},
		{"v2, systemd, docker", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice/docker-" + id + ".scope\n", uid, id},
		{"v2, cgroupfs, containerd", "0::/kubepods/burstable/pod" + uid + "/" + id + "\n", uid, id},
		{"v2, cgroupfs, cri-o", "0::/kubepods/besteffort/pod" + uid + "/crio-" + id + "\n", uid, id},
		{"v1, systemd", "12:memory:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/docker-" + id + ".scope\n1:name=systemd:/kubepods.slice/x\n", uid, id},
		{"v1, cgroupfs", "11:pids:/kubepods/pod" + uid + "/" + id + "\n4:cpu,cpuacct:/kubepods/pod" + uid + "/" + id + "\n", uid, id},
		{"v1, hybrid with an empty v2", "5:freezer:/\n1:name=systemd:/kubepods/pod" + uid + "/" + id + "\n0::/\n", uid, id},
		{"containerd without its systemd driver", "0::/system.slice/containerd.service/kubepods-burstable-pod" + under + ".slice:cri-containerd:" + id + "\n", uid, id},
		{"a nested node", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", uid, id},
		{"seen from another cgroup namespace", "0::/../../kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", uid, id},
		{"systemd inside the container", "0::/kubepods/pod" + uid + "/" + id + "/system.slice/x.service\n", uid, id},
		{"static pod", "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id + "\n", "0123456789abcdef0123456789abcdef", id},
		{"the pod's own cgroup", "0::/kubepods/pod" + uid + "\n", uid, ""},
		{"cri-o's monitor", "0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-conmon-" + id + ".scope\n", uid, ""},
		{"docker without Kubernetes", "0::/system.slice/docker-" + id + ".scope\n", "", id},
		{"a service", "0::/system.slice/podman-9c067163.service\n", "", ""},
		{"a folder that only looks so", "0::/user.slice/tripod" + uid + "/x\n", "", ""},
		{"nothing", "", "", ""},
	} {
		if pod, container := Owner(c.cgroup); pod != c.pod || container != c.container {
			t.Errorf("%s: pod %q container %q, want %q %q", c.name, pod, container, c.pod, c.container)
		}
	}
}

func TestContainer(t *testing.T) {
	proc := tree(t, "testdata/proc.txtar")
	table := func(pid string) Table {
		out, _ := Parse(string(proc[pid+"/mountinfo"].Data))
		return out
	}
	if pod, name := table("900").Container(); pod != "0a1b2c3d-0001-0002-0003-0123456789ab" || name != "csi-driver" {
		t.Errorf("%q %q", pod, name)
	}
	if pod, name := table("1").Container(); pod != "" || name != "" {
		t.Errorf("the node itself: %q %q", pod, name)
	}
}

func TestDetails(t *testing.T) {
	all, _ := Parse("56 22 253:2 /a//deleted /data\\040x rw,relatime shared:11 master:3 - ext4 /dev/mapper/mpatha\\040(deleted) rw\n57 22 253:2 / /b rw propagate_from:4 - ext4 /dev/x rw\n")
	if shared, master := all[0].Propagation(); shared != 11 || master != 3 || !all[0].Deleted() || all[0].Mountpoint != "/data x" || all[0].Source != "/dev/mapper/mpatha (deleted)" {
		t.Errorf("%+v: shared %d, master %d", all[0], shared, master)
	}
	if shared, master := all[1].Propagation(); shared != 0 || master != 0 || all[1].Deleted() {
		t.Errorf("%+v: shared %d, master %d", all[1], shared, master)
	}
}

func FuzzOwner(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-pod9c067163_ce6b_41a7_a36a_ea68574ddb4a.slice/crio-3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899.scope\n")
	f.Fuzz(func(t *testing.T, cgroup string) {
		pod, container := Owner(cgroup)
		if strings.Contains(pod, "_") || container != "" && len(container) != 64 {
			t.Errorf("%q: pod %q, container %q", cgroup, pod, container)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add("812 (kubelet) S 1 812 812 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 31 0 4711 1 2 3")
	f.Fuzz(func(t *testing.T, line string) {
		if p, err := parseStat(line); err == nil && !strings.Contains(line, "("+p.Comm+")") {
			t.Errorf("%q: %+v", line, p)
		}
	})
}
