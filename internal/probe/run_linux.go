package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// prober is one run. Its parts run side by side and each writes its own fields of the report.
type prober struct {
	Options
	ctx      context.Context
	gaps     gaps
	w        *worker       // sees what the kubelet sees
	hostside *worker       // sees what PID 1 sees: the same one, unless the kubelet runs in a container
	patience time.Duration // for one call; whoever is silent longer hangs

	procDir    string
	proc       fs.FS
	processes  []mountinfo.Process
	namespaces []*namespace
	kubelet    *kubelet
	contained  bool                 // none but a container's own processes are to be seen: neither the kubelet nor the host
	reference  *namespace           // whose mounts are the node's: the kubelet's, else PID 1's
	mounts     *mounts              // of the reference
	root       string               // the kubelet's root folder without links; empty: none found
	disk       string               // who serves the root folder: its calls need no turns
	podFolders map[string]podFolder // by the pod's UID

	mu    sync.Mutex
	turns map[string]*sync.Mutex
	hung  map[string]bool // by server or device

	report *nodereport.NodeReport
}

// namespace is a mount namespace with its table, and the container that it is of.
type namespace struct {
	*mountinfo.Namespace
	table             mountinfo.Table
	podUID, container string
}

// Run probes the node that the process is on, and always ends within the timeout and half a second more. The error is of the
// probe itself; what the node does not show is a gap of the report.
func Run(ctx context.Context, o Options) (*nodereport.NodeReport, error) {
	o.Timeout = cmp.Or(o.Timeout, Timeout)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of what is read lives to the end
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	w, err := startWorker()
	if err != nil {
		return nil, err
	}
	defer w.stop()
	p := &prober{Options: o, ctx: ctx, w: w, patience: min(max(o.Timeout/10, 100*time.Millisecond), 2*time.Second), turns: map[string]*sync.Mutex{}, hung: map[string]bool{},
		report: &nodereport.NodeReport{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind, CollectedAt: time.Now().UTC().Truncate(time.Second)}}
	if !o.whole() {
		p.report.Scope = &nodereport.Scope{Volume: o.Volume, Pod: o.Pod}
	}
	tables := make(chan struct{})
	go func() { // in a goroutine of its own: a /proc that blocks must not hold the probe
		defer close(tables)
		p.readTables()
	}()
	select {
	case <-tables:
	case <-ctx.Done():
		return nil, fmt.Errorf("the mount tables below /proc could not be read within %s", seconds(o.Timeout))
	}
	p.enter()
	defer p.enterHost()()
	p.findRoot()
	p.facts()
	return p.report, nil
}

// hostProcesses is the namespace of the host's own processes, the same on every machine (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const hostProcesses = "pid:[4026531836]"

// errContained is why a container without hostPID does not show the node's own parts.
var errContained = errors.New("only a container's own view is to be had here; with the host's processes (hostPID), or on the node itself, it is seen")

// readTables reads what /proc tells before any path is touched: processes, which one is the kubelet, every mount namespace.
func (p *prober) readTables() {
	p.procDir = p.Proc
	for _, dir := range []string{"/proc", "/host/proc"} {
		if p.Proc != "" {
			dir = p.Proc
		}
		if _, err := os.Stat(dir + "/1/stat"); err != nil && dir != "/proc" {
			continue
		}
		proc := mountinfo.Files(dir)
		processes, more := mountinfo.Processes(proc)
		k := p.findKubelet(dir, processes)
		// Below /host is the host's own: kubectl debug puts it there, and without hostPID it alone shows the host's processes.
		if p.procDir == "" || p.kubelet == nil && (k != nil || dir == "/host/proc") {
			p.procDir, p.proc, p.processes, p.kubelet = dir, proc, processes, k
			p.gaps.put(more...)
		}
		if p.kubelet != nil || p.Proc != "" {
			break
		}
	}
	if p.proc == nil {
		p.proc = mountinfo.Files(p.procDir)
	}
	processes := p.link(1, "ns/pid")
	p.contained = p.kubelet == nil && processes != "" && processes != hostProcesses
	p.namespaces = p.parse(mountinfo.Namespaces(p.proc, p.processes))
}

func (p *prober) parse(all []*mountinfo.Namespace) []*namespace {
	out := make([]*namespace, len(all))
	var wg sync.WaitGroup
	for i, ns := range all {
		wg.Go(func() {
			n := &namespace{Namespace: ns}
			var bad []nodereport.Gap
			n.table, bad = mountinfo.Parse(ns.Text)
			for _, g := range bad { // a bad line of the node's own table counts for more, see enter
				g.What = strings.ReplaceAll(g.What, "mountinfo", fmt.Sprintf("mount namespace %d,", ns.Inode))
				p.gaps.put(g)
			}
			n.podUID, n.container = n.table.Container()
			out[i] = n
		})
	}
	wg.Wait()
	return out
}

// findKubelet asks the processes that have a kubelet's name for their arguments.
func (p *prober) findKubelet(dir string, processes []mountinfo.Process) *kubelet {
	var all []kubelet
	var host uint64
	for _, process := range processes {
		if process.PID == 1 {
			host = process.Namespace
		}
		if !slices.Contains(kubeletComms, process.Comm) {
			continue
		}
		if _, err := ask(p.ctx, p.w, opEnter, enterArg{Proc: dir}, p.patience); err != nil {
			p.gaps.add(dir, err)
			return nil
		}
		args, err := ask(p.ctx, p.w, opArgs, process.PID, p.patience)
		if err != nil && err.Error() != "ENOENT" {
			p.gaps.add(fmt.Sprintf("arguments of process %d (%s)", process.PID, process.Comm), err)
		}
		all = append(all, kubelet{process, args})
	}
	k, others := chooseKubelet(all, p.Node, host)
	if len(others) > 0 {
		p.gaps.add("other kubelets", fmt.Errorf("the processes %v are kubelets too, of nodes inside this one perhaps; --node NAME chooses", others))
	}
	return k
}

// enter makes the view of the kubelet, or of PID 1, the worker's and finds its mount table.
func (p *prober) enter() {
	pid := 1
	if p.kubelet != nil {
		pid = p.kubelet.PID
	}
	for _, ns := range p.namespaces {
		if slices.ContainsFunc(ns.Processes, func(q *mountinfo.Process) bool { return q.PID == pid }) {
			p.reference = ns
		}
	}
	if p.reference == nil {
		// What must be known of "mountinfo" by whoever concludes that something is not mounted.
		p.gaps.add(fmt.Sprintf("%s/%d/mountinfo", p.procDir, pid), errors.New("not readable; is this root?"))
		own, err := mountinfo.Read(p.proc, os.Getpid())
		p.reference = p.parse([]*mountinfo.Namespace{{Text: own, Unread: err}})[0]
	}
	if p.reference.Unread != nil {
		p.gaps.add(fmt.Sprintf("%s/%d/mountinfo", p.procDir, pid), p.reference.Unread)
	}
	if p.contained {
		p.gaps.add("mountinfo of the node", errContained)
	}
	if len(p.reference.table) < strings.Count(p.reference.Text, "\n") {
		p.gaps.add("mountinfo of the node", errors.New("it has lines that are no mounts"))
	}
	p.mounts = indexMounts(p.reference.table)
	view := fmt.Sprintf("%s/%d/root", p.procDir, pid)
	if _, err := ask(p.ctx, p.w, opEnter, enterArg{p.procDir, view}, p.patience); err != nil {
		p.gaps.add("the host's files", err)
	}
}

// enterHost gives the host its own worker where the kubelet runs in a container: its system, services and logs are PID 1's. The
// function ends it.
func (p *prober) enterHost() (stop func()) {
	p.hostside = p.w
	stop = func() {}
	if p.kubelet == nil || p.namespaceOf(1) == p.kubelet.Namespace || p.namespaceOf(1) == 0 {
		return stop
	}
	w, err := startWorker()
	if err == nil {
		if _, err = ask(p.ctx, w, opEnter, enterArg{p.procDir, p.procDir + "/1/root"}, p.patience); err == nil {
			p.hostside = w
			return w.stop
		}
		w.stop()
	}
	p.gaps.add("the files of PID 1", err)
	return stop
}

// ofHost runs a part that is the host's alone, unless the host is not to be seen.
func (p *prober) ofHost(what string, part func()) {
	if p.contained {
		p.gaps.add(what, errContained)
		return
	}
	part()
}

// findRoot finds the kubelet's root folder: its flags, the files of flags of distributions, the socket that it serves there,
// then whichever usual folder is in use.
func (p *prober) findRoot() {
	k := &nodereport.Kubelet{}
	p.ofHost("the kubelet", func() { p.report.Kubelet = k })
	var candidates []string
	if p.kubelet != nil {
		k.Running, k.PID = true, p.kubelet.PID
		if host := p.namespaceOf(1); host != 0 && p.kubelet.Namespace != 0 {
			same := host == p.kubelet.Namespace
			k.SameMountNamespace = &same
		}
		candidates = append(candidates, p.kubelet.flag("root-dir"))
		if candidates[0] == "" && p.kubelet.Comm != "kubelet" {
			for _, file := range kubeletFiles {
				if text, err := visit(p, file, opRead, file, p.patience); err == nil {
					candidates = append(candidates, rootFromFile(file, text))
				}
			}
		}
		candidates = append(candidates, rootFromSockets(p.read(p.kubelet.PID, "net/unix")))
	}
	candidates = slices.DeleteFunc(candidates, func(c string) bool { return !path.IsAbs(c) })
	told := len(candidates) > 0
	for _, c := range append(candidates, usualRoots...) {
		r, err := visit(p, path.Clean(c), opRoot, path.Clean(c), p.patience) // so that a dead disk costs one patience, not one a folder
		if err != nil {
			p.gaps.add(c, err)
			if told && c == candidates[0] { // the kubelet says so, whether it answers or not
				k.RootDir, p.root = path.Clean(c), path.Clean(c)
				break
			}
		}
		if r.Used || told && c == candidates[0] && r.Real != "" {
			k.RootDir, p.root = r.Path, r.Real
			break
		}
	}
	if p.root == "" {
		p.gaps.add("the kubelet's root folder", errors.New("no kubelet runs that says where it is, and none of the usual folders has pods and plugins"))
		return
	}
	if m, ok := p.mounts.over(p.root); ok {
		p.disk = servedBy(m)
	}
}

// facts runs the parts side by side.
func (p *prober) facts() {
	booted, uptime := p.times()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		p.gaps.add("uname", err)
	}
	p.report.Kernel = &nodereport.Kernel{Release: unix.ByteSliceToString(uts.Release[:]), BootedAt: booted.UTC().Truncate(time.Second)}
	var wg sync.WaitGroup
	var hostName string
	var lines []nodereport.LogLine
	var waiting []waiting
	wg.Go(p.drivers)
	wg.Go(p.volumes)
	wg.Go(p.devices)
	wg.Go(func() { p.kernelLog(booted) })
	wg.Go(func() { p.ofHost("the kubelet's log", func() { lines = p.kubeletLog() }) })
	wg.Go(func() { p.ofHost("the host", func() { hostName = p.host() }) })
	wg.Go(func() { p.ofHost("tasks", func() { waiting = p.tasks(uptime) }) })
	wg.Wait()
	p.tables()
	p.ofHost("orphans", p.orphans)
	p.confirm(waiting)
	p.name(hostName)
	p.report.KubeletLog = naming(lines, p.words())
	p.report.Gaps = p.gaps.sorted()
}

// times are when the kernel booted and how long ago that was.
func (p *prober) times() (booted time.Time, uptime time.Duration) {
	b, err := fs.ReadFile(p.proc, "uptime")
	if err == nil {
		up, _, _ := strings.Cut(string(b), " ")
		var s float64
		if s, err = strconv.ParseFloat(up, 64); err == nil {
			uptime = time.Duration(s * float64(time.Second))
		}
	}
	p.gaps.add("uptime", err)
	return time.Now().Add(-uptime), uptime
}

// name is the Node object's name: as told, as the kubelet was told, as it wrote into its volumes' files, the host's.
func (p *prober) name(host string) {
	name := p.Node
	if name == "" && p.kubelet != nil {
		name = cmp.Or(p.kubelet.flag("hostname-override"), p.kubelet.flag("node-name"))
	}
	for _, v := range p.report.Volumes {
		for _, pub := range v.Publishes {
			name = cmp.Or(name, pub.VolData["nodeName"])
		}
	}
	p.report.Metadata.Name = cmp.Or(name, strings.ToLower(host))
	if p.report.Metadata.Name == "" {
		p.gaps.add("the node's name", errors.New("nothing here tells it; say it with -node"))
	}
}

// words are what names the volumes of the report in a log.
func (p *prober) words() []string {
	out := []string{p.Volume, p.Pod}
	for _, v := range p.report.Volumes {
		out = append(out, v.Handle, v.PV)
		if p.whole() {
			out = append(out, v.Driver)
		}
		for _, pub := range v.Publishes {
			out = append(out, pub.PodUID)
		}
	}
	for _, o := range p.report.Orphans {
		out = append(out, o.PodUID)
	}
	if p.whole() {
		out = append(out, "RegisterPlugin", "plugins_registry")
		for _, d := range p.report.Drivers {
			out = append(out, d.Name)
		}
	}
	return out
}

// visit asks about a path. Paths of one device or server have turns, and after one that hangs the others are not touched.
func visit[A, R any](p *prober, path string, o op[A, R], arg A, patience time.Duration) (R, error) {
	m, ok := p.mounts.over(path)
	if !ok || servedBy(m) == p.disk {
		return ask(p.ctx, p.w, o, arg, patience)
	}
	server := servedBy(m)
	p.mu.Lock()
	turn := p.turns[server]
	if turn == nil {
		turn = &sync.Mutex{}
		p.turns[server] = turn
	}
	p.mu.Unlock()
	turn.Lock()
	defer turn.Unlock()
	p.mu.Lock()
	hung := p.hung[server]
	p.mu.Unlock()
	if hung {
		var none R
		return none, errInherits
	}
	r, err := ask(p.ctx, p.w, o, arg, patience)
	if errors.Is(err, errHung) {
		p.mu.Lock()
		p.hung[server] = true
		p.mu.Unlock()
	}
	return r, err
}

// read gives a small file of a process; empty when it ended.
func (p *prober) read(pid int, name string) string {
	b, err := fs.ReadFile(p.proc, strconv.Itoa(pid)+"/"+name)
	if errors.Is(err, fs.ErrPermission) {
		p.gaps.add(fmt.Sprintf("%s/%d/%s", p.procDir, pid, name), errors.New("EACCES"))
	}
	return string(b)
}

func (p *prober) link(pid int, name string) string {
	target, err := fs.ReadLink(p.proc, strconv.Itoa(pid)+"/"+name)
	if errors.Is(err, fs.ErrPermission) {
		p.gaps.add(fmt.Sprintf("%s/%d/%s", p.procDir, pid, name), errors.New("EACCES"))
	}
	return target
}

func (p *prober) namespaceOf(pid int) uint64 {
	for _, q := range p.processes {
		if q.PID == pid {
			return q.Namespace
		}
	}
	return 0
}
