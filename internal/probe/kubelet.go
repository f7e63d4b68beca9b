package probe

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
)

// kubeletComms are the names of processes that are a kubelet or have one inside: k3s, MicroK8s's kubelite, MicroShift, hyperkube.
var kubeletComms = []string{"kubelet", "k3s-agent", "k3s-server", "k3s", "kubelite", "microshift", "hyperkube"}

// kubelet is a process that is one, or has one inside.
type kubelet struct {
	mountinfo.Process
	args []string
}

// flag is the last value of a flag, given as its own argument, with =, or handed on by k3s (--kubelet-arg=root-dir=/x).
func (k *kubelet) flag(name string) string {
	value := ""
	for i, a := range k.args {
		for _, prefix := range []string{"--" + name, "-" + name, "--kubelet-arg=" + name, "--kubelet-arg=--" + name, name} {
			switch rest, ok := strings.CutPrefix(a, prefix); {
			case !ok, prefix == name && (i == 0 || k.args[i-1] != "--kubelet-arg"):
			case strings.HasPrefix(rest, "="):
				value = rest[1:]
			case rest == "" && i+1 < len(k.args) && strings.HasPrefix(prefix, "-") && !strings.HasPrefix(k.args[i+1], "-"):
				value = k.args[i+1]
			}
		}
	}
	return strings.Trim(value, `"'`)
}

// chooseKubelet: of several (nodes in containers show theirs on their host) the one of that node name, else one that sees the
// mounts of PID 1, else the oldest. Others are those that were passed over.
func chooseKubelet(all []kubelet, node string, host uint64) (chosen *kubelet, others []int) {
	all = slices.DeleteFunc(slices.Clone(all), func(k kubelet) bool { return !k.is() })
	if len(all) == 0 {
		return nil, nil
	}
	rank := func(k *kubelet) int {
		switch {
		case node != "" && (k.flag("hostname-override") == node || k.flag("node-name") == node):
			return 0
		case k.Namespace == host:
			return 1
		}
		return 2
	}
	best := 0
	for i := range all {
		if rank(&all[i]) < rank(&all[best]) {
			best = i
		}
	}
	for i := range all {
		if i != best {
			others = append(others, all[i].PID)
		}
	}
	return &all[best], others
}

// is: the name alone is not enough for those that have other work too (k3s kubectl, hyperkube proxy).
func (k *kubelet) is() bool {
	var words []string
	for _, a := range k.args {
		words = append(words, strings.Fields(a)...) // k3s writes its title over its arguments: "/usr/local/bin/k3s agent"
	}
	if len(words) == 0 {
		return k.Comm == "kubelet" || k.Comm == "kubelite" || strings.HasPrefix(k.Comm, "k3s-")
	}
	switch path.Base(words[0]) {
	case "k3s", "microshift", "hyperkube":
		return len(words) > 1 && slices.Contains([]string{"agent", "server", "run", "kubelet"}, words[1])
	}
	return k.Comm != "k3s" && k.Comm != "hyperkube" && k.Comm != "microshift"
}

// kubeletFiles are where distributions keep the kubelet's flags when they are not its arguments: k3s and RKE2 (kubelet-arg in
// their config.yaml), MicroK8s and other snaps (a file of flags).
var kubeletFiles = []string{"/etc/rancher/k3s/config.yaml", "/etc/rancher/rke2/config.yaml", "/etc/rancher/k3s/config.yaml.d", "/etc/rancher/rke2/config.yaml.d",
	"/var/snap/microk8s/current/args/kubelet", "/var/snap/kubelet/current/args/kubelet"}

var rootInFile = regexp.MustCompile(`(?m)^[^#\n]*\broot-dir[= ]["']?([^\s"',#]+)`)

// rootFromFile finds the root folder in a file of flags. Snaps write their folder as a variable.
func rootFromFile(name, text string) string {
	m := rootInFile.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	root := m[1]
	if rest, ok := strings.CutPrefix(name, "/var/snap/"); ok {
		snap, _, _ := strings.Cut(rest, "/")
		for variable, value := range map[string]string{"SNAP_COMMON": "/var/snap/" + snap + "/common", "SNAP_DATA": "/var/snap/" + snap + "/current"} {
			root = strings.NewReplacer("${"+variable+"}", value, "$"+variable, value).Replace(root)
		}
	}
	return root
}

// resourcesSocket is where the kubelet serves the resources of pods, below its root (pkg/kubelet, getPodResourcesDir).
const resourcesSocket = "/pod-resources/kubelet.sock"

// rootFromSockets finds the root folder in a /proc/PID/net/unix.
func rootFromSockets(text string) string {
	for line := range strings.Lines(text) {
		if root, ok := strings.CutSuffix(strings.TrimSpace(line), resourcesSocket); ok {
			if i := strings.Index(root, " /"); i >= 0 {
				return root[i+1:]
			}
		}
	}
	return ""
}

// usualRoots are where kubelets keep their files: the default (also of k3s, RKE2, Talos and kubeadm), k0s, MicroK8s, old k3s,
// RKE on Container Linux, TKGI, IBM Cloud.
var usualRoots = []string{"/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet", "/var/lib/rancher/k3s/agent/kubelet",
	"/opt/rke/var/lib/kubelet", "/var/vcap/data/kubelet", "/var/data/kubelet"}

var unitOfCgroup = regexp.MustCompile(`/([^/\s]+\.service)(?:/|$)`)

// unitOf is the service that a process runs in, by its cgroup.
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if m := unitOfCgroup.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			return m[1]
		}
	}
	return ""
}

// kubeletUnits are what the kubelet's service is called, asked for its log when no kubelet runs.
var kubeletUnits = []string{"kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker", "snap.microk8s.daemon-kubelite",
	"snap.kubelet.daemon", "snap.kubelet-eks.daemon", "microshift"}

// kubeletLogs are files that have the kubelet's lines where no journal has: RKE2, old kubeadm and kops nodes, syslog.
var kubeletLogs = []string{"/var/lib/rancher/rke2/agent/logs/kubelet.log", "/var/log/kubelet.log", "/var/log/kubelet/kubelet.log", "/var/log/kubernetes/kubelet.log",
	"/var/log/syslog", "/var/log/messages"}
