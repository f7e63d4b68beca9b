package probe

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// toolNames are programs that mount, format, check, grow, map or walk over a volume. Comms are cut to 15 bytes.
var toolNames = regexp.MustCompile(`^(u?mount(\..*)?|mkfs(\..*)?|mke2fs|mkswap|fsck(\..*)?|e2fsck|xfs_(repair|growfs|admin|db|freeze|io)|btrfs|resize2fs|tune2fs|blkid|wipefs|blkdiscard|dd|cryptsetup|veritysetup|` +
	`iscsiadm|nvme|rbd|rbd-nbd|drbdadm|drbdsetup|multipath|mpathpersist|kpartx|dmsetup|losetup|udevadm|parted|sgdisk|sfdisk|growpart|mdadm|zpool|zfs|[lpv]v(create|change|resize|extend|remove|scan|s)|vg(create|change|extend|remove|scan|s)|` +
	`chown|chgrp|chmod|chcon|restorecon|setfiles|setfacl)$`)

// waiting is a task in uninterruptible sleep at the first look: whether it hangs, a second one tells.
type waiting struct {
	task     nodereport.Task
	file     string // PID/task/TID
	switches string
	at       time.Time
}

// tasks reports running tools, and gives the tasks that may hang.
func (p *prober) tasks(uptime time.Duration) []waiting {
	var tools []nodereport.Task
	var hang []waiting
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, q := range p.processes {
		if p.ctx.Err() != nil {
			p.gaps.add("tasks", errNoTime)
			break
		}
		id := strconv.Itoa(q.PID)
		stuck := ""
		if q.State == 'D' {
			stuck = id + "/task/" + id
		} else if q.Threads > 1 && !q.Kernel {
			stuck = p.stuckThread(id)
		}
		tool := toolNames.MatchString(q.Comm) && !p.servesFUSE(id)
		if stuck == "" && !tool {
			continue
		}
		t := nodereport.Task{PID: q.PID, Comm: q.Comm, State: string(q.State), Seconds: int64((uptime - time.Duration(q.Started)*10*time.Millisecond).Seconds())}
		t.Seconds = max(t.Seconds, 0)
		wg.Go(func() {
			t.PodUID = p.podOf(q.PID)
			if !q.Kernel {
				args, err := ask(p.ctx, p.w, opArgs, q.PID, p.patience)
				if err != nil && err.Error() != "ENOENT" {
					p.gaps.add("arguments of process "+id+" ("+q.Comm+")", err)
				}
				if len(args) > 1 {
					t.Args = cut(maskArgs(args[1:]))
				}
			}
			t.Wchan = p.wchan(id + "/task/" + id)
			mu.Lock()
			defer mu.Unlock()
			if stuck == "" {
				tools = append(tools, t)
				return
			}
			t.State, t.Wchan = "D", p.wchan(stuck)
			hang = append(hang, waiting{t, stuck, p.switches(stuck), time.Now()})
		})
	}
	wg.Wait()
	p.report.Tasks = tools
	return hang
}

// secondLook is after how long a task that still sleeps, and was not woken in between, hangs rather than waits for a disk.
const secondLook = 300 * time.Millisecond

// confirm reports the tasks that hang: they have not run since the first look.
func (p *prober) confirm(all []waiting) {
	for _, w := range all {
		select {
		case <-time.After(secondLook - time.Since(w.at)):
		case <-p.ctx.Done():
		}
		hangs := w.switches != "" && p.switches(w.file) == w.switches
		if hangs || toolNames.MatchString(w.task.Comm) {
			p.report.Tasks = append(p.report.Tasks, w.task)
		}
	}
	p.report.Tasks = slices.DeleteFunc(p.report.Tasks, func(t nodereport.Task) bool { return p.Pod != "" && t.PodUID != "" && t.PodUID != p.Pod })
	slices.SortFunc(p.report.Tasks, func(a, b nodereport.Task) int { return a.PID - b.PID })
}

// stuckThread is the first thread of a process that sleeps uninterruptibly; empty: none.
func (p *prober) stuckThread(id string) string {
	threads, err := fs.ReadDir(p.proc, id+"/task")
	if err != nil {
		return "" // ended
	}
	for _, t := range threads {
		name := id + "/task/" + t.Name()
		b, err := fs.ReadFile(p.proc, name+"/stat")
		if err != nil {
			continue
		}
		if i := strings.LastIndexByte(string(b), ')'); i >= 0 && strings.HasPrefix(string(b[i:]), ") D") {
			return name
		}
	}
	return ""
}

var contextSwitches = regexp.MustCompile(`(?m)^(?:non)?voluntary_ctxt_switches:\s*\d+$`)

// switches are the counts of how often a task has gone to sleep; empty when it ended.
func (p *prober) switches(task string) string {
	return strings.Join(contextSwitches.FindAllString(p.readProc(task+"/status"), -1), " ")
}

// wchan is the kernel's function that a task sleeps in; empty: it does not say.
func (p *prober) wchan(task string) string {
	w := strings.TrimSpace(p.readProc(task + "/wchan"))
	if w == "0" {
		return ""
	}
	return w
}

// servesFUSE: a program called mount.x that stays, since it serves the mount.
func (p *prober) servesFUSE(id string) bool {
	fds, err := fs.ReadDir(p.proc, id+"/fd")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(fds, func(e fs.DirEntry) bool {
		target, err := fs.ReadLink(p.proc, id+"/fd/"+e.Name())
		return err == nil && target == "/dev/fuse"
	})
}

// readProc gives a file of /proc; empty where there is none, for a process may end at any time.
func (p *prober) readProc(name string) string {
	b, err := fs.ReadFile(p.proc, name)
	if err != nil {
		return ""
	}
	return string(b)
}
