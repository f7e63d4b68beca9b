package explain

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// rootOf is the kubelet's root folder that a node plugin was configured for, by its registrar's argument or the folder that it
// registers in; empty: it does not show.
func rootOf(spec *corev1.PodSpec) string {
	for _, c := range spec.Containers {
		for i, a := range c.Args {
			flag, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if flag != "kubelet-registration-path" {
				continue
			}
			if !has && i+1 < len(c.Args) {
				value = c.Args[i+1]
			}
			if root, _, ok := strings.Cut(value, "/plugins/"); ok {
				return path.Clean(root)
			}
		}
	}
	for _, vol := range spec.Volumes {
		if vol.HostPath == nil {
			continue
		}
		if p := path.Clean(vol.HostPath.Path); path.Base(p) == "plugins_registry" {
			return path.Dir(p)
		}
	}
	return ""
}

// distributionRoot is where a distribution is known to keep the kubelet's root when it is not the default. Sources:
// docs.k0sproject.io (kubelet-root-dir), microk8s's args/kubelet, rke's prefix_path for RancherOS and CoreOS.
func distributionRoot(n *corev1.Node) (root string, ev Evidence) {
	info := n.Status.NodeInfo
	switch {
	case strings.Contains(info.KubeletVersion, "+k0s"):
		return "/var/lib/k0s/kubelet", fact(ref(n), "status.nodeInfo.kubeletVersion", info.KubeletVersion, time.Time{})
	case n.Labels["microk8s.io/cluster"] != "":
		return "/var/snap/microk8s/common/var/lib/kubelet", fact(ref(n), "metadata.labels[microk8s.io/cluster]", n.Labels["microk8s.io/cluster"], time.Time{})
	case strings.HasPrefix(info.OSImage, "RancherOS"):
		return "/opt/rke/var/lib/kubelet", fact(ref(n), "status.nodeInfo.osImage", info.OSImage, time.Time{})
	}
	return "", Evidence{}
}

// neighbourRoot is the kubelet's root that another driver, registered on the node, was configured for.
func (v *View) neighbourRoot(node string) (root, driver string, d *appsv1.DaemonSet) {
	n, known := v.csiNode(node)
	if known != Yes {
		return "", "", nil
	}
	sets, _ := list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
	for _, entry := range n.Spec.Drivers {
		if entry.Name == v.Driver {
			continue
		}
		for _, d := range sets {
			if namesDriver(&d.Spec.Template.Spec, entry.Name) {
				if root := rootOf(&d.Spec.Template.Spec); root != "" {
					return root, entry.Name, d
				}
			}
		}
	}
	return "", "", nil
}

// noFolder: the kubelet cannot give the plugin's pod the folder that it made itself, if it were its own.
var noFolder = regexp.MustCompile(`hostPath type check failed: (\S+?)/?(?:plugins_registry|plugins|pods)?/? is not a directory`)

func kubeletRootMismatch(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" || v.Node == "" {
		return Finding{}, No
	}
	p := v.plugin(v.Node)
	if len(p.Pods) == 0 {
		return Finding{}, min(p.known.not(), Unknown)
	}
	pod := p.Pods[0]
	theirs := rootOf(&pod.Spec)
	for _, d := range p.Sets {
		if theirs == "" {
			theirs = rootOf(&d.Spec.Template.Spec)
		}
	}
	if theirs == "" {
		return Finding{}, No
	}
	finding := func(ours string, c Confidence, ev ...Evidence) (Finding, Truth) {
		ours = cmp.Or(ours, "another folder")
		why := fmt.Sprintf("The driver %s was installed for the kubelet's folder %s, and the kubelet of node %s uses %s: they never meet.", v.Driver, theirs, v.Node, ours)
		ev = append(ev, fact(ref(pod), "kubelet's root as the plugin was told", theirs, time.Time{}))
		if !mounted(pod) {
			if r := v.lastWarning(pod); r != nil {
				why += " Its pod there cannot start: " + sentence(r.Message)
				ev = append(ev, r.evidence())
			}
		}
		f := v.pluginFinding(v.Node, why, ev...)
		f.Confidence = c
		f.Fix = []Step{onNode(v.Node, "see the kubelet's root folder", "sh", "-c", "ps -ef | grep -o -e '--root-dir[= ][^ ]*'"),
			v.look("See the folders that the driver uses", "-n", pod.Namespace, "get", "pod", pod.Name, "-o", "yaml"),
			say(fmt.Sprintf("Install the driver with the kubelet's real folder, %s (charts call it kubeletDir, kubelet.rootDir, kubeletRootDir or node.kubeletPath). Do not move the kubelet's own folder.", ours))}
		return f, Yes
	}
	r, known := v.report(v.Node)
	if r != nil && r.Kubelet != nil && r.Kubelet.RootDir != "" {
		if path.Clean(r.Kubelet.RootDir) == theirs {
			return Finding{}, No
		}
		return finding(path.Clean(r.Kubelet.RootDir), Certain, fact(Object{Kind: "NodeReport", Name: v.Node}, "kubelet.rootDir", r.Kubelet.RootDir, r.CollectedAt))
	}
	if root, driver, d := v.neighbourRoot(v.Node); root != "" {
		if root == theirs {
			return Finding{}, No
		}
		return finding(root, Likely, fact(ref(d), "kubelet's root as the driver "+driver+", which is registered there, was told", root, time.Time{}))
	}
	n, nodeKnown := v.node(v.Node)
	if n != nil {
		if root, ev := distributionRoot(n); root != "" && root != theirs {
			return finding(root, Likely, ev)
		}
	}
	if e := v.lastWarning(pod); e != nil && !mounted(pod) {
		if m := noFolder.FindStringSubmatch(e.Message); m != nil && strings.HasPrefix(m[1], theirs) {
			return finding("", Likely)
		}
	}
	if nodeKnown == Unknown || r == nil && known == Unknown {
		return Finding{}, Unknown
	}
	return Finding{}, No
}

// lastWarning is the newest warning about a pod, nil when there is none of late.
func (v *View) lastWarning(pod *corev1.Pod) *report {
	events, _ := v.eventsOf("Pod", pod.Namespace, pod.Name, string(pod.UID))
	for i := len(events) - 1; i >= 0; i-- {
		if r := events[i]; r.Warning && v.taken.Sub(r.Last) < recent {
			return &events[i]
		}
	}
	return nil
}

// registrar is the name of the pod's node-driver-registrar container.
func registrar(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if strings.Contains(c.Name, "registrar") || strings.Contains(c.Image, "node-driver-registrar") {
			return c.Name
		}
	}
	return "node-driver-registrar"
}

// registrarFault is a fault of the registration that the pod's own template shows; empty: none.
func registrarFault(pod *corev1.Pod) (string, Evidence) {
	var reg *corev1.Container
	for i, c := range pod.Spec.Containers {
		if c.Name == registrar(pod) {
			reg = &pod.Spec.Containers[i]
		}
	}
	o := ref(pod)
	if reg == nil {
		return "It has no container that registers it (node-driver-registrar).", fact(o, "spec.containers", fmt.Sprint(len(pod.Spec.Containers))+", none of them a registrar", time.Time{})
	}
	for _, a := range reg.Args {
		flag, socket, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if flag != "kubelet-registration-path" || socket == "" {
			continue
		}
		folder := path.Dir(path.Clean(socket))
		shared, any := false, false
		for _, vol := range pod.Spec.Volumes {
			if vol.HostPath == nil {
				continue
			}
			host := path.Clean(vol.HostPath.Path)
			any = any || strings.Contains(host, "/plugins/")
			shared = shared || host == folder || strings.HasPrefix(folder+"/", host+"/") && !strings.HasSuffix(host, "plugins_registry")
		}
		if any && !shared {
			return fmt.Sprintf("The registrar tells the kubelet to look for the driver at %s, and the pod shares no such folder of the host.", socket),
				fact(o, "spec.containers["+reg.Name+"].args", a, time.Time{})
		}
	}
	return "", Evidence{}
}
