package probe

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// fakeDriver answers on its own socket and on the registrar's.
type fakeDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	name, endpoint string
	ready          bool
}

func (d *fakeDriver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, Endpoint: d.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *fakeDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "v1.2.3"}, nil
}

func (d *fakeDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(d.ready)}, nil
}

func (d *fakeDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "i-0abc", MaxVolumesPerNode: 25, AccessibleTopology: &csi.Topology{Segments: map[string]string{"zone": "a"}}}, nil
}

func (d *fakeDriver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}}}}, nil
}

// listen makes a socket whose path may be longer than the kernel takes.
func (n *testNode) listen(path string) *net.UnixListener {
	n.Helper()
	n.mkdir(filepath.Dir(path))
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	n.must(err)
	defer unix.Close(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))})
	n.must(err)
	l.SetUnlinkOnClose(false)
	return l
}

func (n *testNode) serve(d *fakeDriver, path string) {
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)
	registration.RegisterRegistrationServer(s, d)
	l := n.listen(path)
	go s.Serve(l)
	n.Cleanup(s.Stop)
}

func TestSockets(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	registry, plugins := n.root+"/plugins_registry/", n.root+"/plugins/"
	long := plugins + strings.Repeat("long.", 22) + "csi.example.com/csi.sock"
	if len(long) <= maxSocketPath {
		t.Fatal("not long")
	}
	healthy := &fakeDriver{name: "ok.example.com", endpoint: long, ready: true}
	n.serve(healthy, long)
	n.serve(healthy, registry+"ok.example.com-reg.sock")
	n.serve(&fakeDriver{name: "gone.example.com", endpoint: plugins + "gone.example.com/csi.sock"}, registry+"gone.example.com/reg.sock")
	n.listen(plugins + "refused.example.com/csi.sock").Close()
	n.serve(&fakeDriver{name: "refused.example.com", endpoint: plugins + "refused.example.com/csi.sock"}, registry+"refused.example.com-reg.sock")
	n.serve(&fakeDriver{name: "unregistered.example.com"}, plugins+"unregistered.example.com/csi.sock")
	n.listen(registry + "stale.example.com-reg.sock").Close()
	n.serve(&fakeDriver{name: "ignored.example.com"}, registry+".ignored-reg.sock")

	r := n.probe(Options{})
	var got []string
	for _, d := range r.Drivers {
		if !strings.HasSuffix(d.Name, "example.com") {
			continue // of the machine that the test runs on
		}
		line := d.Name
		if d.Registration != nil {
			line += fmt.Sprintf(" registration %s %s", strings.TrimPrefix(d.Registration.Path, registry), d.Registration.State)
		}
		if d.Socket != nil {
			line += fmt.Sprintf(" socket %s %s", strings.TrimPrefix(d.Socket.Path, plugins), d.Socket.State)
		}
		if d.Identity != nil {
			line += fmt.Sprintf(" %s ready %s", d.Identity.VendorVersion, d.Identity.Ready)
		}
		if d.Node != nil {
			line += fmt.Sprintf(" %s %d %v %v", d.Node.ID, d.Node.MaxVolumes, d.Node.Capabilities, d.Node.Topology)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"gone.example.com registration gone.example.com/reg.sock ok socket gone.example.com/csi.sock missing",
		"ok.example.com registration ok.example.com-reg.sock ok socket " + strings.TrimPrefix(long, plugins) + " ok v1.2.3 ready yes i-0abc 25 [STAGE_UNSTAGE_VOLUME] map[zone:a]",
		"refused.example.com registration refused.example.com-reg.sock ok socket refused.example.com/csi.sock refused",
		"stale.example.com registration stale.example.com-reg.sock refused",
		"unregistered.example.com registration unregistered.example.com-reg.sock missing socket unregistered.example.com/csi.sock ok v1.2.3 ready no i-0abc 25 [STAGE_UNSTAGE_VOLUME] map[zone:a]",
	}, got); diff != "" {
		t.Error(diff)
	}
	if r.Metadata.Name != n.name || r.Kubelet == nil || r.Kubelet.RootDir != n.root || !r.Kubelet.Running || r.Kubelet.SameMountNamespace != nil && *r.Kubelet.SameMountNamespace {
		t.Errorf("node %q, kubelet %+v", r.Metadata.Name, r.Kubelet)
	}
}

// TestVolumes has one volume of each kind of trouble.
func TestVolumes(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	const driver = "disk.example.com"
	ext4 := func(more ...string) []string { return append([]string{"mkfs.ext4", "-q", "-F"}, more...) }
	mounted := func(i int, handle string, flags uintptr, device string) (staging, publish string) {
		staging, publish = n.volume(driver, handle, fmt.Sprintf("pvc-%d", i), pod(i))
		n.mount(device, staging, "ext4", flags, "")
		n.bind(staging, publish)
		return staging, publish
	}
	_, healthy := mounted(1, "vol-healthy", 0, n.image(16<<20, ext4("-U", "11111111-1111-1111-1111-111111111111")...))
	n.must(os.Chmod(healthy, 0o2775|os.ModeSetgid))
	n.must(os.Chown(healthy, 0, 2000))
	readOnly, _ := mounted(2, "vol-readonly", unix.MS_RDONLY, n.image(16<<20, ext4()...))
	_, full := mounted(3, "vol-full", 0, n.image(8<<20, ext4("-m", "0")...))
	if err := fill(full + "/data"); err != syscall.ENOSPC {
		t.Fatal(err)
	}
	_, crowded := mounted(4, "vol-inodes", 0, n.image(8<<20, ext4("-N", "64")...))
	for i := 0; ; i++ {
		f, err := os.Create(fmt.Sprintf("%s/%d", crowded, i))
		if err != nil {
			break
		}
		f.Close()
	}
	// Stacked twice: the second device covers the first.
	stacked, _ := mounted(5, "vol-stacked", 0, n.image(16<<20, ext4("-U", "55555555-5555-5555-5555-555555555551")...))
	n.mount(n.image(16<<20, ext4("-U", "55555555-5555-5555-5555-555555555552")...), stacked, "ext4", 0, "")
	// Staged, and the pod's folder is a plain one that somebody wrote into.
	bare, plain := n.volume(driver, "vol-plain", "pvc-6", pod(6))
	n.mount(n.image(16<<20, ext4()...), bare, "ext4", 0, "")
	n.write(plain+"/lost", "data")
	// The kubelet's file is broken; the device tells whose the folder is.
	_, broken := mounted(7, "vol-broken", 0, n.image(16<<20, ext4()...))
	n.write(filepath.Dir(broken)+"/vol_data.json", `{"driverName":`)
	// The driver made no folder; the old layout; a raw block volume; a driver that does not stage.
	_, absent := n.volume(driver, "vol-absent", "pvc-8", pod(8))
	n.must(os.Remove(absent))
	n.write(n.root+"/plugins/kubernetes.io/csi/pv/pvc-9/vol_data.json", `{"driverName":"disk.example.com","volumeHandle":"vol-old"}`)
	n.mkdir(n.root + "/plugins/kubernetes.io/csi/pv/pvc-9/globalmount")
	devices := n.root + "/plugins/kubernetes.io/csi/volumeDevices"
	n.write(devices+"/pvc-10/data/vol_data.json", `{"driverName":"disk.example.com","volumeHandle":"vol-block","specVolID":"pvc-10"}`)
	n.mkdir(devices + "/staging/pvc-10")
	n.write(devices+"/publish/pvc-10/"+pod(10), "")
	raw := n.image(4 << 20)
	n.bind(raw, devices+"/publish/pvc-10/"+pod(10))
	n.mkdir(n.root + "/plugins/kubernetes.io/csi/share.example.com/0000/globalmount")

	r := n.probe(Options{})
	if v := n.volumeOf(r, "vol-healthy"); v.Driver != driver || v.PV != "pvc-1" || v.Staging.Stat != "ok" || !v.Staging.Exists || v.Staging.VolData["volumeHandle"] != "vol-healthy" {
		t.Errorf("healthy: %+v %+v", v, v.Staging)
	} else if p := v.Publishes[0]; p.PodUID != pod(1) || p.Type != "dir" || p.Stat != "ok" || p.Mode != "2775" || p.GID == nil || *p.GID != 2000 || p.Entries != nil || p.VolData["nodeName"] != n.name {
		t.Errorf("healthy: %+v", p)
	} else if u := v.Usage; u == nil || u.Bytes < 8<<20 || u.BytesUsed >= u.Bytes || u.Inodes == 0 {
		t.Errorf("healthy: %+v", u)
	}
	if d := n.deviceOf(r, healthy); d.Kind != "loop" || d.Bytes != 16<<20 || d.Signature == nil || d.Signature.Type != "ext4" || d.Signature.UUID != "11111111-1111-1111-1111-111111111111" || !strings.Contains(d.BackingFile, n.dir) {
		t.Errorf("healthy: %+v %+v", d, d.Signature)
	}
	table, _ := mountinfo.Parse(r.Mountinfo)
	if m, _ := table.At(readOnly); m.Options == "" || func() bool { ro, fs := m.ReadOnly(); return !ro || !fs }() {
		t.Errorf("read-only: %+v", m)
	}
	if u := n.volumeOf(r, "vol-full").Usage; u == nil || u.BytesUsed < u.Bytes/1000*999 {
		t.Errorf("full: %+v", u)
	}
	if u := n.volumeOf(r, "vol-inodes").Usage; u == nil || u.InodesUsed != u.Inodes || u.Inodes == 0 {
		t.Errorf("out of inodes: %+v", u)
	}
	if layers := table.Layers(stacked); len(layers) != 2 {
		t.Errorf("stacked: %d layers", len(layers))
	} else if d := n.deviceOf(r, stacked); d.Signature.UUID != "55555555-5555-5555-5555-555555555552" || d.MajorMinor != layers[1].Device() {
		t.Errorf("stacked: %+v on top", d)
	}
	if p := n.volumeOf(r, "vol-plain").Publishes[0]; p.Entries == nil || *p.Entries != 1 || p.Stat != "ok" {
		t.Errorf("plain folder: %+v", p)
	}
	if p := n.volumeOf(r, "vol-broken").Publishes; len(p) != 1 || !strings.Contains(p[0].VolDataError, "JSON") {
		t.Errorf("broken vol_data.json: %+v", p)
	}
	if p := n.volumeOf(r, "vol-absent").Publishes[0]; p.Exists || p.Stat != "" {
		t.Errorf("absent: %+v", p)
	}
	if v := n.volumeOf(r, "vol-old"); v.PV != "pvc-9" || v.Staging == nil || v.Staging.Stat != "ok" {
		t.Errorf("old layout: %+v", v)
	}
	if v := n.volumeOf(r, "vol-block"); v.Staging == nil || !v.Staging.Exists || len(v.Publishes) != 1 || v.Publishes[0].Type != "block" || v.Publishes[0].PodUID != pod(10) || v.Usage != nil {
		t.Errorf("block: %+v", v)
	}
	for _, v := range r.Volumes {
		if v.Driver == "share.example.com" {
			t.Errorf("an empty folder of a driver that does not stage: %+v", v)
		}
	}
	// Pods have neither cgroup nor process here, and hold something.
	for i := 1; i <= 8; i++ {
		if !slices.ContainsFunc(r.Orphans, func(o nodereport.Orphan) bool { return o.PodUID == pod(i) && o.Entries > 0 }) {
			t.Errorf("orphan %d is missing: %+v", i, r.Orphans)
		}
	}

	narrow := n.probe(Options{Volume: "vol-stacked"})
	if len(narrow.Volumes) != 1 || strings.Contains(narrow.Mountinfo, "pvc-1/") || !strings.Contains(narrow.Mountinfo, stacked) || narrow.Scope == nil || narrow.Scope.Volume != "vol-stacked" {
		t.Errorf("narrowed: %+v\n%s", narrow.Volumes, narrow.Mountinfo)
	}
	if narrow = n.probe(Options{Pod: pod(3)}); len(narrow.Volumes) != 1 || narrow.Volumes[0].Handle != "vol-full" || len(narrow.Orphans) != 1 {
		t.Errorf("narrowed to a pod: %+v", narrow)
	}
}

func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return err.(*os.PathError).Err
		}
	}
}

// TestHeldElsewhere: what the node has unmounted, another process keeps.
func TestHeldElsewhere(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	staging, publish := n.volume("disk.example.com", "vol-held", "pvc-1", pod(1))
	n.mount(n.image(16<<20, "mkfs.ext4", "-q", "-F", "-U", "22222222-2222-2222-2222-222222222222"), staging, "ext4", 0, "")
	n.bind(staging, publish)
	device := n.deviceOf(n.probe(Options{}), publish).MajorMinor
	holder := n.start("holder", syscall.CLONE_NEWNS)
	n.must(unix.Unmount(publish, 0))
	n.must(unix.Unmount(staging, 0))
	r := n.probe(Options{})
	if strings.Contains(r.Mountinfo, staging) {
		t.Error("still mounted on the node")
	}
	found := false
	for _, ns := range r.Namespaces {
		table, gaps := mountinfo.Parse(ns.Mountinfo)
		if len(gaps) > 0 {
			t.Error(gaps)
		}
		if len(table.Of(device)) == 2 && len(ns.Processes) == 1 && ns.Processes[0].PID == holder && ns.Processes[0].Comm == "holder" {
			found = true
		}
	}
	if !found {
		t.Errorf("the holder %d of %s is missing: %+v", holder, device, r.Namespaces)
	}
	if !slices.ContainsFunc(r.Devices, func(d nodereport.Device) bool {
		return d.MajorMinor == device && d.Signature != nil && d.Signature.UUID == "22222222-2222-2222-2222-222222222222"
	}) {
		t.Errorf("the device %s is missing", device)
	}
}

// TestHung: servers that take a request and never answer, a socket that accepts and never speaks.
func TestHung(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	staging, publish := n.volume("disk.example.com", "vol-healthy", "pvc-1", pod(1))
	n.mount("tmpfs", staging, "tmpfs", 0, "size=1m")
	n.bind(staging, publish)
	const servers, paths = 50, 250
	var hung []string
	first := ""
	for i := range paths {
		staging, publish := n.volume("dead.example.com", fmt.Sprintf("dead-%d", i), fmt.Sprintf("pvc-dead-%d", i), pod(100+i))
		switch {
		case i < servers:
			n.deadServer(staging)
			first = staging
		default:
			n.bind(first, staging)
		}
		n.bind(staging, publish)
		hung = append(hung, staging, publish)
	}
	silent := n.listen(n.root + "/plugins/silent.example.com/csi.sock")
	t.Cleanup(func() { silent.Close() })
	go func() {
		var kept []net.Conn
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			kept = append(kept, c)
			_ = kept
		}
	}()
	before := n.children()
	const timeout = 6 * time.Second
	var r *nodereport.NodeReport
	took := within(t, timeout+5*time.Second, func() { r = n.probe(Options{Timeout: timeout}) })
	t.Logf("took %s", took)
	stat := map[string]string{}
	for _, v := range r.Volumes {
		if v.Staging != nil {
			stat[v.Staging.Path] = v.Staging.Stat
		}
		for _, p := range v.Publishes {
			stat[p.Path] = p.Stat
		}
	}
	for _, p := range hung {
		if stat[p] != "hung" {
			t.Errorf("%s: %q, want hung", p, stat[p])
		}
		if !slices.ContainsFunc(r.Gaps, func(g nodereport.Gap) bool { return g.What == p && strings.HasPrefix(g.Reason, "hung") }) {
			t.Errorf("%s is no gap", p)
		}
	}
	if stat[staging] != "ok" || stat[publish] != "ok" {
		t.Errorf("the healthy one: %q %q", stat[staging], stat[publish])
	}
	if !slices.ContainsFunc(r.Drivers, func(d nodereport.Driver) bool {
		return d.Name == "silent.example.com" && d.Socket.State == nodereport.SocketTimeout
	}) {
		t.Errorf("the silent socket: %+v", r.Drivers)
	}
	for pid, state := range n.children() {
		if _, had := before[pid]; !had && state != 'Z' && state != 'D' {
			t.Errorf("process %d is left, in state %c", pid, state)
		}
	}
}

// children are this process's, with their states. One that was killed and cannot end is a zombie whose threads hang.
func (n *testNode) children() map[int]byte {
	out := map[int]byte{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	n.must(err)
	parent := regexp.MustCompile(`\) (\S) ` + fmt.Sprint(os.Getpid()) + ` `)
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if m := parent.FindSubmatch(b); err == nil && m != nil {
			var pid int
			fmt.Sscanf(name, "/proc/%d/stat", &pid)
			out[pid] = m[1][0]
		}
	}
	return out
}

func TestTasks(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	dead := n.dir + "/dead"
	n.mkdir(dead)
	n.deadServer(dead)
	thread := make(chan int)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		os.Stat(dead)
	}()
	id := <-thread
	within(t, 10*time.Second, func() {
		for seen := 0; seen < 5; { // a page that is read in is a moment of it too
			b, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", id))
			if strings.Contains(string(b), ") D ") {
				seen++
				time.Sleep(20 * time.Millisecond)
				continue
			}
			seen = 0
			// After a signal that it had to be told of, FUSE waits for the answer alone: uninterruptibly.
			n.must(unix.Tgkill(os.Getpid(), id, unix.SIGURG))
			time.Sleep(10 * time.Millisecond)
		}
	})
	r := n.probe(Options{})
	i := slices.IndexFunc(r.Tasks, func(k nodereport.Task) bool { return k.PID == os.Getpid() })
	if i < 0 || r.Tasks[i].State != "D" || !strings.Contains(r.Tasks[i].Args, "-test.run") {
		t.Errorf("tasks: %+v", r.Tasks)
	}
}

// TestLinks: the kubelet's root is a link, absolute as the host sees it.
func TestLinkedRoot(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	n.volume("disk.example.com", "vol-1", "pvc-1", pod(1))
	n.must(os.Symlink(n.root, n.dir+"/linked"))
	n.name += "-linked"
	n.must(os.Remove(n.dir + "/bin/kubelet"))
	n.start("kubelet", 0, "--root-dir="+n.dir+"/linked", "--hostname-override="+n.name)
	r := n.probe(Options{})
	if r.Kubelet.RootDir != n.dir+"/linked" || !strings.HasPrefix(n.volumeOf(r, "vol-1").Staging.Path, n.root+"/") {
		t.Errorf("%+v %+v", r.Kubelet, r.Volumes)
	}
	var out bytes.Buffer
	n.must(Write(&out, r, false))
	if !strings.Contains(out.String(), "rootDir") {
		t.Error("no root in the report")
	}
}
