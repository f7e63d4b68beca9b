package mountinfo

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Process is what one line of /proc/PID/stat says, and where the process sees its mounts.
type Process struct {
	PID       int
	Comm      string // as the kernel has it, at most 15 bytes
	State     byte   // R S D Z T I ...
	Kernel    bool   // a thread of the kernel
	Threads   int
	Started   uint64 // clock ticks (1/100 s) after boot
	Namespace uint64 // the mount namespace's inode; 0: not readable
}

// Processes are all that a /proc shows, by their number. One that ends meanwhile is left out.
func Processes(proc fs.FS) ([]Process, []nodereport.Gap) {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil, []nodereport.Gap{{What: "the list of processes", Reason: err.Error()}}
	}
	var out []Process
	var gaps []nodereport.Gap
	denied := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := fs.ReadFile(proc, e.Name()+"/stat")
		if err != nil {
			continue // ended
		}
		p, err := parseStat(string(b))
		if err != nil {
			gaps = append(gaps, nodereport.Gap{What: e.Name() + "/stat", Reason: err.Error()})
			continue
		}
		p.PID = pid
		if p.Namespace = namespaceOf(proc, pid); p.Namespace == 0 && !p.Kernel && p.State != 'Z' {
			denied++
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	if denied > 0 {
		gaps = append(gaps, nodereport.Gap{What: "mount namespaces of processes", Reason: fmt.Sprintf("%d processes do not show theirs", denied)})
	}
	return out, gaps
}

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 0x00200000

// parseStat reads proc_pid_stat(5). The name is in parentheses and may hold any character, parentheses too.
func parseStat(s string) (Process, error) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("no name in %q", s)
	}
	f := strings.Fields(s[end+1:]) // from field 3 on
	if len(f) < 20 || len(f[0]) != 1 {
		return Process{}, fmt.Errorf("%d fields behind the name, want 20 or more", len(f))
	}
	flags, err := strconv.ParseUint(f[9-3], 10, 64)
	threads, err2 := strconv.Atoi(f[20-3])
	started, err3 := strconv.ParseUint(f[22-3], 10, 64)
	for _, err := range []error{err, err2, err3} {
		if err != nil {
			return Process{}, err
		}
	}
	return Process{Comm: s[open+1 : end], State: f[0][0], Kernel: flags&kernelThread != 0, Threads: threads, Started: started}, nil
}

// namespaceOf reads the link /proc/PID/ns/mnt, such as mnt:[4026531841].
func namespaceOf(proc fs.FS, pid int) uint64 {
	link, err := fs.ReadLink(proc, strconv.Itoa(pid)+"/ns/mnt")
	if err != nil {
		return 0
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "mnt:["), "]"), 10, 64)
	if err != nil {
		return 0
	}
	return inode
}

// A pod's cgroup is pod<UID> (cgroupfs) or ...-pod<UID with underscores>.slice (systemd); static pods have a UID without dashes.
// A container's is its id of 64 hexadecimal digits behind the runtime's prefix, such as cri-containerd-, crio-, docker-.
var (
	podCgroup       = regexp.MustCompile(`(?:^|[/:-])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:$|[./:])`)
	containerCgroup = regexp.MustCompile(`(?:^|[/:-])([0-9a-f]{64})(?:$|[./:])`)
	monitorCgroup   = regexp.MustCompile(`conmon-[0-9a-f]{64}`)
)

// PodOfCgroup is the UID of the pod that a cgroup's path or name is of; empty: none.
func PodOfCgroup(path string) string {
	m := podCgroup.FindStringSubmatch(path)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], "_", "-")
}

// Owner reads a /proc/PID/cgroup, of version 1 or 2: the pod's UID and the container's id; empty where there is none.
func Owner(cgroup string) (podUID, containerID string) {
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, path, _ := strings.Cut(rest, ":")
		if podUID == "" {
			podUID = PodOfCgroup(path)
		}
		if m := containerCgroup.FindAllStringSubmatch(path, -1); containerID == "" && m != nil && !monitorCgroup.MatchString(path) {
			containerID = m[0][1]
		}
	}
	return podUID, containerID
}

// containerFolder is where the kubelet keeps a container's termination log, which every runtime mounts into the container.
var containerFolder = regexp.MustCompile(`/pods/([0-9a-f-]{32,36})/containers/([^/ ]+)/[^/ ]+(?://deleted)?$`)

// Container tells of a container's own mount table which one of which pod it is; empty: it does not show.
func (t Table) Container() (podUID, name string) {
	for _, m := range t {
		if !strings.Contains(m.Root, "/containers/") {
			continue
		}
		if found := containerFolder.FindStringSubmatch(m.Root); found != nil {
			return found[1], found[2]
		}
	}
	return "", ""
}
