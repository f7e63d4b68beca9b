package probe

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// tables keeps the lines of the mount tables that matter: of the node's all that concerns the kubelet's folders, block devices
// and what others serve; of the other namespaces those that hold a volume's device or path, and of PID 1's.
func (p *prober) tables() {
	devices := p.volumeDevices()
	disk, _ := p.mounts.over(p.root) // the node's own: where else its folders are mounted does not matter
	p.report.Mountinfo = lines(p.reference.table, func(m mountinfo.Mount) bool {
		switch {
		case p.root != "" && below(p.root, m.Mountpoint): // what the root folder lies on
			return true
		case p.whole():
			return p.root != "" && below(m.Mountpoint, p.root) || !m.Anonymous() && m.Device() != disk.Device() || remote(m.FSType) || devices[m.Device()] || ofVolume(m.Mountpoint)
		}
		return devices[m.Device()] || p.inScope(m.Mountpoint) || p.inScope(m.Root)
	})
	if p.contained {
		p.report.Mountinfo = ""
	}
	disks := p.hostDisks(devices)
	for _, ns := range p.namespaces {
		if ns == p.reference && !p.contained {
			continue
		}
		if gap, unread := ns.Gap(); unread {
			p.gaps.put(gap)
		}
		text := lines(ns.table, func(m mountinfo.Mount) bool {
			if !p.whole() {
				return devices[m.Device()] || p.inScope(m.Mountpoint) || p.inScope(m.Root)
			}
			return devices[m.Device()] || ofVolume(m.Mountpoint) || ofVolume(m.Root) || remote(m.FSType) || !m.Anonymous() && !disks[m.Device()]
		})
		if text != "" || ns.Processes[0].PID == 1 {
			p.report.Namespaces = append(p.report.Namespaces, nodereport.Namespace{Inode: ns.Inode, Processes: p.owners(ns), Mountinfo: text})
		}
	}
}

// lines are those of a table whose mounts fit, unedited and in order.
func lines(table mountinfo.Table, fits func(mountinfo.Mount) bool) string {
	var b strings.Builder
	for _, m := range table {
		if fits(m) {
			b.WriteString(m.Line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// volumeDevices are the devices that volumes of the report are mounted from, by major:minor. The node's own disk is none of
// them, though folders of it lie below the kubelet's root, nor is /dev, from which block volumes are mounted.
func (p *prober) volumeDevices() map[string]bool {
	out := map[string]bool{}
	for _, m := range p.mounts.table {
		if ofVolume(m.Mountpoint) && m.FSType != "devtmpfs" && (p.whole() || p.inScope(m.Mountpoint)) {
			out[m.Device()] = true
		}
	}
	for dir := p.root; dir != ""; dir = path.Dir(dir) {
		if m, ok := p.mounts.on(dir); ok {
			delete(out, m.Device())
		}
		if dir == "/" {
			break
		}
	}
	return out
}

// hostDisks are the devices that the node itself has mounted outside of the kubelet's folders.
func (p *prober) hostDisks(volumes map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, m := range p.mounts.table {
		if !volumes[m.Device()] && !m.Anonymous() && !(p.root != "" && below(m.Mountpoint, p.root+"/plugins")) {
			out[m.Device()] = true
		}
	}
	return out
}

// inScope: a path is of a volume of the report.
func (p *prober) inScope(at string) bool {
	if p.Pod != "" && strings.Contains(at, p.Pod) {
		return true
	}
	for _, v := range p.report.Volumes {
		if v.Staging != nil && below(at, path.Dir(v.Staging.Path)) {
			return true
		}
		for _, pub := range v.Publishes {
			if below(at, pub.Path) {
				return true
			}
		}
	}
	return false
}

const maxProcesses = 64 // named of one namespace; a container has few, a host with hundreds is known by its first

// owners are the processes of a namespace, with what is known of their container.
func (p *prober) owners(ns *namespace) []nodereport.Process {
	var out []nodereport.Process
	for _, q := range ns.Processes[:min(len(ns.Processes), maxProcesses)] {
		uid, container, id := p.owner(ns, q.PID)
		out = append(out, nodereport.Process{PID: q.PID, Comm: q.Comm, PodUID: uid, Container: container, ContainerID: id})
	}
	return out
}

// owner tells whose a process is: by its cgroup, and by the folder that the kubelet mounts into each container.
func (p *prober) owner(ns *namespace, pid int) (podUID, container, containerID string) {
	podUID, containerID = mountinfo.Owner(p.read(pid, "cgroup"))
	return cmp.Or(podUID, ns.podUID), ns.container, containerID
}

func (p *prober) podOf(pid int) string {
	uid, _ := mountinfo.Owner(p.read(pid, "cgroup"))
	if uid != "" {
		return uid
	}
	for _, ns := range p.namespaces {
		if ns != p.reference && slices.ContainsFunc(ns.Processes, func(q *mountinfo.Process) bool { return q.PID == pid }) {
			return ns.podUID
		}
	}
	return ""
}
