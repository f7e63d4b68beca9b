package probe

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// hostFacts are what files of the host tell.
type hostFacts struct {
	Release  string   `json:"release"` // os-release
	Hostname string   `json:"hostname"`
	SELinux  string   `json:"selinux"`
	Units    []string `json:"units"` // those of hostServices that have a unit file
}

// hostServices are the services that mounts depend on, and the programs that are them.
var hostServices = map[string][]string{
	"multipathd": {"multipathd"}, "iscsid": {"iscsid"}, "rpc-statd": {"rpc.statd"}, "rpcbind": {"rpcbind"}, "systemd-udevd": {"systemd-udevd", "udevd"},
}

// listeners are sockets of services that systemd starts on demand: with one of them the service is there although it sleeps.
var listeners = map[string]string{"iscsid": "@ISCSIADM_ABSTRACT_NAMESPACE", "rpcbind": "/run/rpcbind.sock"}

var unitFolders = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

var opHost = register("host", func(struct{}) (hostFacts, error) {
	var h hostFacts
	var err error
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if h.Release, err = readText(name); err == nil {
			break
		}
	}
	h.Hostname, _ = readText("/etc/hostname") // not every system has one
	switch enforce, err := readText("/sys/fs/selinux/enforce"); {
	case err != nil:
		h.SELinux = "disabled"
	case strings.TrimSpace(enforce) == "1":
		h.SELinux = "enforcing"
	default:
		h.SELinux = "permissive"
	}
	for service := range hostServices {
		for _, dir := range unitFolders {
			if _, err := os.Stat(filepath.Join(dir, service+".service")); err == nil && !slices.Contains(h.Units, service) {
				h.Units = append(h.Units, service)
			}
		}
	}
	if err != nil {
		err = errors.New("os-release: " + err.Error())
	}
	return h, err
})

var prettyName = regexp.MustCompile(`(?m)^PRETTY_NAME=["']?([^"'\n]*)`)

// hostModules are modules that volumes depend on; a filesystem that is built in counts as one.
var hostModules = []string{"9p", "bcache", "btrfs", "ceph", "cifs", "dm_crypt", "dm_multipath", "dm_snapshot", "dm_thin_pool", "drbd", "exfat", "ext4", "f2fs", "fuse",
	"iscsi_tcp", "lustre", "nbd", "nfs", "nfsv3", "nfsv4", "ntfs3", "nvme", "nvme_fc", "nvme_rdma", "nvme_tcp", "rbd", "squashfs", "target_core_mod", "ublk_drv",
	"vfat", "virtio_blk", "virtiofs", "xfs", "zfs"}

// host fills the host's facts and gives its name.
func (p *prober) host() string {
	h, err := ask(p.ctx, p.hostside, opHost, struct{}{}, p.patience)
	p.gaps.add("the host's files", err)
	out := &nodereport.Host{SELinux: h.SELinux, Services: map[string]string{}}
	if m := prettyName.FindStringSubmatch(h.Release); m != nil {
		out.OS = m[1]
	}
	listening := p.read(1, "net/unix")
	for service, programs := range hostServices {
		state := "missing"
		if slices.Contains(h.Units, service) {
			state = "inactive"
		}
		socket := listeners[service]
		if socket != "" && strings.Contains(listening, socket) {
			state = "active"
		}
		for _, q := range p.processes {
			if slices.Contains(programs, q.Comm) && q.State != 'Z' {
				state = "active"
			}
		}
		if err == nil || state == "active" {
			out.Services[service] = state
		}
	}
	out.Modules = p.modules()
	p.report.Host = out
	name := strings.TrimSpace(h.Hostname)
	if own, err := os.Hostname(); name == "" && err == nil {
		name = own
	}
	return name
}

func (p *prober) modules() []string {
	var out []string
	for _, file := range []string{"modules", "filesystems"} {
		text := p.readProc(file)
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) == 0 {
				continue
			}
			name := f[0]
			if file == "filesystems" {
				name = f[len(f)-1] // "nodev nfs", "ext4"
			}
			if slices.Contains(hostModules, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
