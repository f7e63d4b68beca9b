package probe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
)

func process(pid int, comm string, ns uint64, args ...string) kubelet {
	return kubelet{mountinfo.Process{PID: pid, Comm: comm, Namespace: ns}, args}
}

func TestKubeletFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"kubelet --root-dir=/data/kubelet --v=2", "/data/kubelet"},
		{"kubelet --v=2 --root-dir /data/kubelet", "/data/kubelet"},
		{"kubelet -root-dir=/a --root-dir=/b", "/b"},
		{"/usr/local/bin/k3s agent --kubelet-arg=root-dir=/k3s/kubelet", "/k3s/kubelet"},
		{"/usr/local/bin/k3s agent --kubelet-arg root-dir=/k3s/kubelet", "/k3s/kubelet"},
		{"kubelet --root-directory=/x", ""},
		{"kubelet --root-dir --v=2", ""},
		{"kubelet root-dir=/x", ""},
		{"kubelet", ""},
	} {
		k := process(1, "kubelet", 1, strings.Fields(c.args)...)
		if got := k.flag("root-dir"); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestChooseKubelet(t *testing.T) {
	for _, c := range []struct {
		name   string
		all    []kubelet
		node   string
		want   int
		others []int
	}{
		{"none", nil, "", 0, nil},
		{"one in its own namespace (Talos, a container)", []kubelet{process(9, "kubelet", 2, "/usr/local/bin/kubelet")}, "", 9, nil},
		{"the node's own before one in a container", []kubelet{process(5, "kubelet", 2, "/usr/bin/kubelet"), process(9, "kubelet", 1, "/usr/bin/kubelet")}, "", 9, []int{5}},
		{"by its node's name", []kubelet{process(5, "kubelet", 2, "/usr/bin/kubelet", "--hostname-override=w2"), process(9, "kubelet", 1, "/usr/bin/kubelet")}, "w2", 5, []int{9}},
		{"k3s server, its title in one word", []kubelet{process(5, "k3s-server", 1, "/usr/local/bin/k3s server")}, "", 5, nil},
		{"k3s kubectl is none", []kubelet{process(5, "k3s", 1, "/usr/local/bin/k3s", "kubectl", "get")}, "", 0, nil},
		{"MicroK8s", []kubelet{process(5, "kubelite", 1, "/snap/microk8s/1/kubelite", "--scheduler-args-file=x")}, "", 5, nil},
		{"MicroShift", []kubelet{process(5, "microshift", 1, "/usr/bin/microshift", "run")}, "", 5, nil},
		{"arguments that could not be read", []kubelet{process(5, "kubelet", 1)}, "", 5, nil},
	} {
		got, others := chooseKubelet(c.all, c.node, 1)
		pid := 0
		if got != nil {
			pid = got.PID
		}
		if pid != c.want || !cmp.Equal(others, c.others) {
			t.Errorf("%s: %d, others %v", c.name, pid, others)
		}
	}
}

func TestRootFromFiles(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"/etc/rancher/k3s/config.yaml", "write-kubeconfig-mode: '0644'\nkubelet-arg:\n- max-pods=200\n- \"root-dir=/data/kubelet\"\n", "/data/kubelet"},
		{"/etc/rancher/k3s/config.yaml", "# - root-dir=/no\nkubelet-arg: [\"v=2\", \"root-dir=/data/kubelet\"]\n", "/data/kubelet"},
		{"/var/snap/microk8s/current/args/kubelet", "--kubeconfig=${SNAP_DATA}/c\n--root-dir=${SNAP_COMMON}/var/lib/kubelet\n", "/var/snap/microk8s/common/var/lib/kubelet"},
		{"/etc/rancher/k3s/config.yaml", "token: x\n", ""},
	} {
		if got := rootFromFile(c.file, c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	sockets := "Num       RefCount Protocol Flags    Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 123 /run/dbus\n0000: 00000002 00000000 00010000 0001 01 124 /data/kubelet/pod-resources/kubelet.sock\n"
	if got := rootFromSockets(sockets); got != "/data/kubelet" {
		t.Errorf("sockets: %q", got)
	}
	if got := rootFromSockets("x /run/dbus\n"); got != "" {
		t.Errorf("no socket: %q", got)
	}
	if got := unitOf("1:name=systemd:/x\n0::/system.slice/k3s-agent.service\n"); got != "k3s-agent.service" {
		t.Errorf("unit: %q", got)
	}
}

func TestServedBy(t *testing.T) {
	table, _ := mountinfo.Parse(`1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:50 / /a rw - nfs4 10.0.0.5:/exports/a rw
3 1 0:51 / /b rw - nfs4 10.0.0.5:/exports/b rw
4 1 0:52 / /c rw - nfs [fd00::1]:/exports/b rw
5 1 0:53 / /d rw - cifs //srv/share rw
6 1 0:54 / /e rw - cifs //srv/other rw
7 1 0:55 / /f rw - ceph 10.0.0.1:6789,10.0.0.2:6789:/volumes/x rw
8 1 0:56 / /g rw - fuse.s3fs s3fs rw
9 1 0:57 / /h rw - fuse.s3fs s3fs rw
10 1 253:0 / /i rw - xfs /dev/mapper/x rw
`)
	m := indexMounts(table)
	var got []string
	for _, p := range []string{"/", "/a", "/b/sub/dir", "/c", "/d", "/e", "/f", "/g", "/h", "/i/x", "/nothing"} {
		on, _ := m.over(p)
		got = append(got, servedBy(on))
	}
	want := []string{"8:1", "nfs4 10.0.0.5", "nfs4 10.0.0.5", "nfs [fd00::1]", "cifs srv", "cifs srv", "ceph 10.0.0.1:6789,10.0.0.2:6789", "0:56", "0:57", "253:0", "8:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestScope(t *testing.T) {
	o := Options{Volume: "vol-1", Pod: "u"}
	for _, c := range []struct {
		handle, pv string
		pods       []string
		want       bool
	}{{"vol-1", "pv-1", []string{"u"}, true}, {"x", "vol-1", []string{"w", "u"}, true}, {"vol-1", "pv-1", []string{"w"}, false}, {"vol-2", "pv-2", []string{"u"}, false}} {
		if got := o.scoped(c.handle, c.pv, c.pods...); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if !(Options{}).scoped("any", "") || (Options{Volume: "x"}).whole() {
		t.Error("the whole node")
	}
}
