package explain

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// rootOf is the kubelet's root folder that a node plugin was configured for, by its registrar's argument or the folder that it
// registers in; empty: it does not show.
func rootOf(spec *corev1.PodSpec) string {
	for _, socket := range registrations(spec) {
		if root, _, found := strings.Cut(socket, "/plugins/"); found {
			return path.Clean(root)
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

// registrations are the sockets that the registrars of a pod give to the kubelet.
func registrations(spec *corev1.PodSpec) (sockets []string) {
	for i := range spec.Containers {
		if socket := argument(&spec.Containers[i], "kubelet-registration-path"); socket != "" {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// distributionRoot is where a distribution is known to keep the kubelet's root when it is not the default. Sources: k0s's
// documentation of kubelet-root-dir, MicroK8s's args/kubelet, RKE's prefix_path for RancherOS and Container Linux, TKGI's and IBM
// Cloud's notes on installing CSI drivers.
func distributionRoot(n *corev1.Node) (root string, ev Evidence) {
	info := n.Status.NodeInfo
	os := fact(ref(n), "status.nodeInfo.osImage", info.OSImage, time.Time{})
	prefixed := strings.HasPrefix(info.OSImage, "Container Linux") || strings.HasPrefix(info.OSImage, "Flatcar")
	switch {
	case strings.Contains(info.KubeletVersion, "+k0s"):
		return "/var/lib/k0s/kubelet", fact(ref(n), "status.nodeInfo.kubeletVersion", info.KubeletVersion, time.Time{})
	case n.Labels["microk8s.io/cluster"] != "":
		return "/var/snap/microk8s/common/var/lib/kubelet", fact(ref(n), "metadata.labels[microk8s.io/cluster]", n.Labels["microk8s.io/cluster"], time.Time{})
	case strings.HasPrefix(info.OSImage, "RancherOS"), prefixed && n.Annotations["rke.cattle.io/internal-ip"] != "":
		return "/opt/rke/var/lib/kubelet", os
	case n.Labels["bosh.id"] != "":
		return "/var/vcap/data/kubelet", fact(ref(n), "metadata.labels[bosh.id]", n.Labels["bosh.id"], time.Time{})
	case n.Labels["ibm-cloud.kubernetes.io/worker-id"] != "" && !strings.Contains(info.OSImage, "CoreOS"):
		return "/var/data/kubelet", fact(ref(n), "metadata.labels[ibm-cloud.kubernetes.io/worker-id]", n.Labels["ibm-cloud.kubernetes.io/worker-id"], time.Time{})
	}
	return "", Evidence{}
}

// neighbourRoot is the kubelet's root that another driver, registered on the node, was configured for.
func (v *View) neighbourRoot(node string) (root, driver string, d *appsv1.DaemonSet, known Truth) {
	n, known := v.csiNode(node)
	if known != Yes {
		return "", "", nil, known
	}
	sets, known := list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
	for _, entry := range n.Spec.Drivers {
		if entry.Name == v.Driver {
			continue
		}
		for _, d := range sets {
			if namesDriver(&d.Spec.Template.Spec, entry.Name) {
				if root := rootOf(&d.Spec.Template.Spec); root != "" {
					return root, entry.Name, d, Yes
				}
			}
		}
	}
	return "", "", nil, known.not()
}

// noFolder: the kubelet cannot give the plugin's pod the folder that it made itself, if it were its own.
var noFolder = regexp.MustCompile(`hostPath type check failed: (\S+?)/?(?:plugins_registry|plugins|pods)?/? is not a directory`)

// What a driver says of a path of the kubelet's that its own container does not have; the path names the kubelet's root.
var (
	notThere   = regexp.MustCompile(`(?i)no such file or directory|read-only file system|does not exist`)
	podsFolder = regexp.MustCompile(`(/[^\s":]*)/pods/[0-9a-f-]{36}/volumes/kubernetes\.io~csi/`)
	// Kubernetes 1.24 moved it from .../csi/pv/VOLUME to .../csi/DRIVER/HASH.
	stagedAt = regexp.MustCompile(`(/[^\s":]*)/plugins/kubernetes\.io/csi/[^\s":]*/globalmount`)
)

func kubeletRootMismatch(v *View) (Finding, Truth) {
	if !v.at(HopRegister, HopStage, HopPublish) || v.Driver == "" || v.Node == "" {
		return Finding{}, No
	}
	if b := v.silent(); b != nil && v.at(HopRegister) {
		f := v.pluginFinding(v.Node, b.Why, b.Evidence...)
		f.Status, f.Confidence = v.unwell(nil), Certain
		return f, truth(b.Cause == "register/kubelet-root-mismatch")
	}
	told, folder, t := "", "", v.mountTrouble()
	if !v.at(HopRegister) { // registered all the same: the path that the kubelet gave is not there for the plugin
		if t == nil || !notThere.MatchString(t.Text) {
			return Finding{}, No
		}
		if m := podsFolder.FindStringSubmatch(t.Text); m != nil {
			told, folder = m[1], m[0]
		} else if m := stagedAt.FindStringSubmatch(t.Text); m != nil {
			told, folder = m[1], m[0]
		}
		if told == "" {
			return Finding{}, No
		}
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
	if told != "" {
		if told == theirs {
			shares := outside(pod, theirs, folder)
			if shares == "" {
				return Finding{}, No
			}
			f := v.pluginFinding(v.Node, fmt.Sprintf("The kubelet of node %s keeps the volume at %s, and the pod of driver %s is given only %s of the kubelet's folder there.", v.Node, folder, v.Driver, shares),
				t.Evidence, fact(ref(pod), "volumeMounts below the kubelet's root", shares, time.Time{}))
			f.Confidence, f.Status = Likely, v.settled(t)
			f.Fix = []Step{v.look("See the folders that the driver's pod is given", "-n", pod.Namespace, "get", "pod", pod.Name, "-o", "yaml"),
				say(fmt.Sprintf("Install a version of the driver that fits the kubelet's version, or give its container the whole of %s/plugins/kubernetes.io/csi (and %s/pods) with mountPropagation Bidirectional.", theirs, theirs))}
			return f, Yes
		}
		f, yes := finding(told, Likely, t.Evidence)
		f.Status = v.settled(t)
		return f, yes
	}
	r, known := v.report(v.Node)
	if r != nil && r.Kubelet != nil && r.Kubelet.RootDir != "" {
		if path.Clean(r.Kubelet.RootDir) == theirs {
			return Finding{}, No
		}
		return finding(path.Clean(r.Kubelet.RootDir), Certain, fact(Object{Kind: "NodeReport", Name: v.Node}, "kubelet.rootDir", r.Kubelet.RootDir, r.CollectedAt))
	}
	root, driver, d, neighbours := v.neighbourRoot(v.Node)
	if root == theirs {
		return Finding{}, No
	}
	if root != "" {
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
	if nodeKnown == Unknown || neighbours == Unknown || r == nil && known == Unknown {
		return Finding{}, Unknown
	}
	return Finding{}, No
}

// outside: the folder is not among what the driver's container is given of the kubelet's root at the same path, where it is given
// anything to mount in; it is that then. Empty: it sees the folder, or has another way to it.
func outside(pod *corev1.Pod, root, folder string) string {
	for _, c := range pod.Spec.Containers {
		var shares []string
		mounts, sees := false, false
		for _, m := range c.VolumeMounts {
			at := path.Clean(m.MountPath)
			sees = sees || strings.HasPrefix(folder+"/", strings.TrimSuffix(at, "/")+"/")
			if strings.HasPrefix(at+"/", root+"/") {
				shares = append(shares, at)
				mounts = mounts || m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional
			}
		}
		if mounts && !sees {
			return strings.Join(shares, " and ")
		}
		if mounts {
			return ""
		}
	}
	return ""
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
	socket := argument(reg, "kubelet-registration-path")
	if !path.IsAbs(socket) {
		return "", Evidence{}
	}
	told := fact(o, "spec.containers["+reg.Name+"]: kubelet-registration-path", socket, time.Time{})
	folder := path.Dir(path.Clean(socket))
	if own := onHost(pod, reg, argument(reg, "csi-address")); own != "" && path.Dir(own) != folder {
		return fmt.Sprintf("The registrar tells the kubelet to look for the driver at %s, and its socket is at %s on the host.", socket, own), told
	}
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
		return fmt.Sprintf("The registrar tells the kubelet to look for the driver at %s, and the pod shares no such folder of the host.", socket), told
	}
	if own := argument(reg, "csi-address"); own != "" && path.Base(own) != path.Base(socket) {
		return fmt.Sprintf("The registrar tells the kubelet to look for the driver at %s, and itself reaches it at %s: the file has another name.", socket, own), told
	}
	return "", Evidence{}
}

// onHost is where a path of a container lies on the host; empty: not there.
func onHost(pod *corev1.Pod, c *corev1.Container, file string) string {
	for _, m := range c.VolumeMounts {
		rest, below := strings.CutPrefix(path.Clean(file)+"/", path.Clean(m.MountPath)+"/")
		if !below || file == "" {
			continue
		}
		for _, vol := range pod.Spec.Volumes {
			if vol.Name == m.Name && vol.HostPath != nil {
				return path.Join(vol.HostPath.Path, m.SubPath, rest)
			}
		}
	}
	return ""
}

// argument is the value of a container's flag, with the variables that the pod's own template sets filled in; empty: not given.
func argument(c *corev1.Container, flag string) string {
	args := append(slices.Clone(c.Command), c.Args...)
	for i, a := range args {
		name, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if name != flag || !strings.HasPrefix(a, "-") {
			continue
		}
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		for _, e := range c.Env {
			value = strings.ReplaceAll(value, "$("+e.Name+")", e.Value)
		}
		return value
	}
	return ""
}
