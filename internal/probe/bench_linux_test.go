package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// A large node: mounts of the host, mount namespaces that have them all and small ones, processes, volumes on loop devices.
const (
	benchMounts = 5000
	benchLarge  = 8
	benchSmall  = 42
	benchLines  = 40
	benchProcs  = 2000
	benchDisks  = 250
	benchRounds = 5 // of which the best counts
)

// BenchmarkNode measures the probe against findmnt, lsblk and blkid one after another on such a node, and with twice the
// mounts. What it checks in the same runs is that the report has every volume, holder and signature.
func BenchmarkNode(t *testing.B) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	binary := filepath.Join(n.dir, "csidoctor-probe")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", binary, "../../cmd/csidoctor-probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(binary); err != nil || info.Size() >= 10<<20 {
		t.Errorf("csidoctor-probe: %v bytes, %v", info.Size(), err)
	} else {
		t.Logf("csidoctor-probe: %.1f MB", float64(info.Size())/1e6)
	}
	for i := range benchSmall {
		n.start(fmt.Sprintf("holder-%d/holder", i), syscall.CLONE_NEWNS, strconv.Itoa(benchLines))
	}
	for range benchProcs {
		cmd := exec.Command("sleep", "1000")
		n.must(cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	uuids := map[string]string{} // by staging path
	for i := range benchDisks {
		uuid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1)
		staging, publish := n.volume("disk.example.com", fmt.Sprintf("vol-%d", i), fmt.Sprintf("pvc-%d", i), pod(i))
		n.mount(n.image(4<<20, "mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-U", uuid), staging, "ext4", 0, "")
		n.bind(staging, publish)
		uuids[staging] = uuid
	}
	made := 0
	grow := func(to int) (holders []int) {
		table, err := mountinfo.Read(mountinfo.Files("/proc"), os.Getpid())
		n.must(err)
		for have := strings.Count(table, "\n"); have < to; have++ {
			dir := fmt.Sprintf("%s/pods/%s/volumes/kubernetes.io~empty-dir/e-%d", n.root, pod(made%benchDisks), made)
			n.mkdir(dir)
			n.mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=8")
			made++
		}
		for i := range benchLarge {
			holders = append(holders, n.start(fmt.Sprintf("large-%d-%d/holder", to, i), syscall.CLONE_NEWNS))
		}
		return holders
	}
	holders := grow(benchMounts)
	tools, one, memory := n.race(binary, uuids, holders)
	t.Logf("%d mounts: tools %s, probe %s, %d MB at the highest", benchMounts, tools, one, memory)
	t.ReportMetric(one.wall/tools.wall, "times-the-tools")
	t.ReportMetric(one.processors/tools.processors, "times-the-tools'-processor-time")
	t.ReportMetric(float64(memory), "MB")
	holders = append(holders, grow(2*benchMounts)...)
	_, two, memory := n.race(binary, uuids, holders)
	t.Logf("%d mounts, %d namespaces with the volumes: probe %s, %d MB", 2*benchMounts, len(holders), two, memory)
	t.ReportMetric(two.wall/one.wall, "times-with-twice-the-mounts")
	t.ReportMetric(two.processors/one.processors, "times-the-processor-time-with-twice-the-mounts")
}

// cost is what a run takes, in seconds. Where the machine has other work too, the time of the processors tells more.
type cost struct{ wall, processors float64 }

func (c cost) String() string { return fmt.Sprintf("%.3f s (processors %.3f s)", c.wall, c.processors) }

// best keeps the lower of each.
func (c *cost) best(start time.Time, used float64) {
	wall := time.Since(start).Seconds()
	if c.wall == 0 || wall < c.wall {
		c.wall = wall
	}
	if c.processors == 0 || used < c.processors {
		c.processors = used
	}
}

// processorTime is that of all children that have been waited for, with theirs.
func (n *testNode) processorTime() float64 {
	var r unix.Rusage
	n.must(unix.Getrusage(unix.RUSAGE_CHILDREN, &r))
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// race runs the tools and the probe by turns and gives the best of each, and the probe's memory with its worker's.
func (n *testNode) race(binary string, uuids map[string]string, holders []int) (tools, probe cost, megabytes int) {
	n.Helper()
	for range benchRounds {
		start, used := time.Now(), n.processorTime()
		for _, tool := range [][]string{{"findmnt", "-J"}, {"lsblk", "-J", "-O"}, {"blkid", "-c", "/dev/null"}} {
			if out, err := exec.Command(tool[0], tool[1:]...).Output(); err != nil || len(out) == 0 {
				n.Fatalf("%v: %v", tool, err)
			}
		}
		tools.best(start, n.processorTime()-used)
		var out, said bytes.Buffer
		cmd := exec.Command(binary, "-node", n.name, "-o", "json")
		cmd.Stdout, cmd.Stderr = &out, &said
		start, used = time.Now(), n.processorTime()
		n.must(cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		peak, err := n.watch(cmd.Process.Pid, done)
		if err != nil {
			n.Fatalf("the probe: %v: %s", err, said.String())
		}
		probe.best(start, n.processorTime()-used)
		megabytes = max(megabytes, peak)
		n.check(out.Bytes(), uuids, holders)
	}
	return tools, probe, megabytes
}

// watch gives the highest memory of a process and its children together, until it ends.
func (n *testNode) watch(pid int, done chan error) (megabytes int, err error) {
	highest := map[string]int{}
	for {
		select {
		case err := <-done:
			total := 0
			for _, kb := range highest {
				total += kb
			}
			return total / 1000, err
		case <-time.After(10 * time.Millisecond):
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for _, p := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
			status, _ := os.ReadFile("/proc/" + p + "/status")
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				kb, _ := strconv.Atoi(strings.Fields(rest)[0])
				highest[p] = max(highest[p], kb)
			}
		}
	}
}

// check: every volume, holder and signature is in the report.
func (n *testNode) check(b []byte, uuids map[string]string, holders []int) {
	n.Helper()
	var r nodereport.NodeReport
	n.must(json.Unmarshal(b, &r))
	table, _ := mountinfo.Parse(r.Mountinfo)
	at := indexMounts(table)
	devices := map[string]*nodereport.Device{}
	for i := range r.Devices {
		devices[r.Devices[i].MajorMinor] = &r.Devices[i]
	}
	found := map[string]bool{}
	for _, v := range r.Volumes {
		if v.Staging == nil || v.Staging.Stat != "ok" || v.Usage == nil || len(v.Publishes) != 1 || v.Publishes[0].Stat != "ok" {
			n.Errorf("volume %s: %+v", v.Handle, v)
			continue
		}
		m, _ := at.on(v.Staging.Path)
		if d := devices[m.Device()]; d == nil || d.Signature == nil || d.Signature.UUID != uuids[v.Staging.Path] {
			n.Errorf("volume %s: device %+v", v.Handle, d)
		}
		found[v.Staging.Path] = true
	}
	if len(found) != len(uuids) {
		n.Errorf("%d of %d volumes", len(found), len(uuids))
	}
	holding := map[int]int{}
	for _, ns := range r.Namespaces {
		table, _ := mountinfo.Parse(ns.Mountinfo)
		have := indexMounts(table)
		for _, p := range ns.Processes {
			for staging := range uuids {
				if _, ok := have.on(staging); ok {
					holding[p.PID]++
				}
			}
		}
	}
	for _, pid := range holders {
		if holding[pid] != len(uuids) {
			n.Errorf("holder %d: %d of %d volumes", pid, holding[pid], len(uuids))
		}
	}
	for _, g := range r.Gaps {
		if strings.HasPrefix(g.Reason, "not done") || strings.HasPrefix(g.Reason, "hung") {
			n.Errorf("gap: %s: %s", g.What, g.Reason)
		}
	}
}

// fillNamespace mounts until there are so many: what a holder in the benchmark does.
func fillNamespace(lines int) error {
	text, err := mountinfo.Read(mountinfo.Files("/proc"), os.Getpid())
	if err != nil {
		return err
	}
	for have := strings.Count(text, "\n"); have < lines; have++ {
		if err := unix.Mount("tmpfs", "/mnt", "tmpfs", 0, "size=1m"); err != nil {
			return err
		}
	}
	return nil
}
