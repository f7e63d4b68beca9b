package probe

import (
	"path"
	"strings"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
)

// mounts is a mount table that is asked often: by path without a walk over all lines.
type mounts struct {
	table mountinfo.Table
	at    map[string]int // the last line of each mount point, which covers the earlier ones
}

func indexMounts(table mountinfo.Table) *mounts {
	m := &mounts{table: table, at: make(map[string]int, len(table))}
	for i := range table {
		m.at[table[i].Mountpoint] = i
	}
	return m
}

// on is what is mounted at a path itself.
func (m *mounts) on(p string) (mountinfo.Mount, bool) {
	i, ok := m.at[p]
	if !ok {
		return mountinfo.Mount{}, false
	}
	return m.table[i], true
}

// over is the mount that a path lies on.
func (m *mounts) over(p string) (mountinfo.Mount, bool) {
	for p = path.Clean(p); ; p = path.Dir(p) {
		if i, ok := m.at[p]; ok {
			return m.table[i], true
		}
		if p == "/" || p == "." {
			return mountinfo.Mount{}, false
		}
	}
}

// servedBy names who has to answer for a mount: the server of a share, or the device. Two mounts of one name hang together. A
// FUSE mount's source is often no more than the name of a program, so there each instance stands for itself.
func servedBy(m mountinfo.Mount) string {
	host := ""
	switch {
	case !m.Anonymous():
	case strings.HasPrefix(m.FSType, "nfs"):
		host, _, _ = strings.Cut(m.Source, ":/")
	case m.FSType == "cifs" || m.FSType == "smb3":
		host, _, _ = strings.Cut(strings.TrimLeft(m.Source, "/"), "/")
	case m.FSType == "ceph":
		host, _, _ = strings.Cut(m.Source, ":/") // monitors, or user@cluster.filesystem=
	}
	if host != "" {
		return m.FSType + " " + host
	}
	return m.Device()
}

// remote: a filesystem that somebody else serves, over the network or as a process.
func remote(fstype string) bool {
	for _, prefix := range []string{"nfs", "cifs", "smb", "ceph", "fuse", "9p", "virtiofs", "gluster", "lustre", "gpfs", "beegfs", "afs", "ocfs2", "orangefs", "panfs", "wekafs"} {
		if strings.HasPrefix(fstype, prefix) {
			return true
		}
	}
	return false
}

// Parts of a path that make it one of a volume.
const (
	publishPart = "/kubernetes.io~csi/"
	pluginPart  = "/plugins/kubernetes.io/csi/"
)

func ofVolume(p string) bool {
	return strings.Contains(p, publishPart) || strings.Contains(p, pluginPart)
}

func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// below are the mounts at a path or under it.
func (m *mounts) below(dir string) mountinfo.Table { return m.table.Below(dir) }
