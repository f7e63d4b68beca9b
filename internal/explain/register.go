package explain

import (
	"regexp"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// The words of kubelet and gRPC when a registered driver's socket does not answer, and when the driver is not registered.
var (
	socketDead    = regexp.MustCompile(`(?i)code = Unavailable desc = connection error|dial unix \S+: connect: (connection refused|no such file)`)
	notRegistered = regexp.MustCompile(`not found in the list of registered CSI drivers|CSINode \S+ does not contain driver`)
)

// registerHop: kubelet knows the driver on the pod's node, and its socket answers.
func registerHop(v *View) Hop {
	switch {
	case v.Driver == "" && v.Claim != nil && v.pvKnown == Unknown:
		return unknownHop(&Object{Kind: "PersistentVolume", Name: v.volumeName()}, "the volume could not be read, so its driver is not known")
	case v.Driver == "":
		return skippedHop("no CSI driver")
	case v.Node == "" && v.Pod == nil:
		return skippedHop("no pod uses it")
	case v.Node == "":
		return laterHop("")
	case v.mounted():
		return v.silentHop(HopRegister)
	}
	o := Object{Kind: "CSINode", Name: v.Node}
	_, known := v.registered(v.Node)
	t := v.mountTrouble()
	if known == No || t != nil && (socketDead.MatchString(t.Text) || notRegistered.MatchString(t.Text)) {
		v.ahead(func() {
			v.plugin(v.Node)
			v.report(v.Node)
		})
	}
	switch {
	case t != nil && v.putRight(t):
		return okHop("")
	case known == Yes && t != nil && socketDead.MatchString(t.Text):
		return v.troubledHop(t, v.settled(t), "registered, and its socket does not answer")
	case known == Yes && t != nil && notRegistered.MatchString(t.Text):
		return v.troubledHop(t, v.settled(t), "in the CSINode, and kubelet does not know it")
	case known == Yes && v.Pod == nil:
		if why := v.unserving(); why != "" {
			return v.openHop(v.plugin(v.Node).startedAt(), normalRegister, Object{Kind: "NodeReport", Name: v.Node}, why)
		}
		return okHop("")
	case known != No && t != nil && v.unserving() != "" && !v.answeredSince(t):
		return v.troubledHop(t, v.settled(t), v.unserving())
	case known != No && t == nil && v.Pod != nil && v.onNode() && v.unserving() != "": // the events that tell are not there, or not yet
		return v.openHop(v.scheduledAt(), normalMount, Object{Kind: "NodeReport", Name: v.Node}, v.unserving())
	case known == Yes:
		return okHop("")
	case known == Unknown && t != nil && notRegistered.MatchString(t.Text):
		return v.troubledHop(t, v.settled(t), "kubelet does not know the driver")
	case known == Unknown && t != nil:
		return okHop("kubelet reached the driver")
	case known == Unknown && (v.attachAnswered() || v.Pod != nil && v.saidAttached()):
		return okHop("the attacher knows the driver's node")
	case known == Unknown && v.attachTimesOut():
		return laterHop("the attacher's turn comes first")
	case known == Unknown && (v.heldOff() != nil || v.unanswered(snapshot.Query{Resource: inCSINodes.Resource, Name: v.Node}) && v.attachedElsewhere()):
		return laterHop("another node's attachment comes first")
	case known == Unknown:
		return unknownHop(&o, "which drivers the node has could not be read")
	}
	var since time.Time
	if v.Pod != nil {
		since = v.Pod.CreationTimestamp.Time
	}
	if n, known := v.node(v.Node); known == Yes {
		since = n.CreationTimestamp.Time // a young node still starts its drivers
	}
	return v.openHop(since, normalRegister, o, "the node has no driver "+v.Driver)
}

// attachAnswered: the driver answered the attacher about this node, whose id that has from the CSINode's entry.
func (v *View) attachAnswered() bool {
	t := v.attachEvent()
	if t == nil || notRegistered.MatchString(t.Text) {
		return false
	}
	code, _ := grpc(t.Text)
	return code != "" && code != "Unavailable" && code != "DeadlineExceeded"
}

// unserving is what the node's report, where it is in the input, shows of a registered driver that can do no work there.
func (v *View) unserving() string {
	n, _ := v.atHand(v.Node)
	if n == nil {
		return ""
	}
	switch d := v.driverIn(n.NodeReport); {
	case d == nil:
	case deadSocket(d):
		return "registered, and its socket does not answer"
	case saysNotReady(d):
		return "registered, and it says that it is not ready"
	}
	return ""
}

// driverIn is what the sockets of the view's driver on its node answered; nil also where a container of the plugin began after
// the report was taken, which then tells nothing of them.
func (v *View) driverIn(r *nodereport.NodeReport) *nodereport.Driver {
	var restarted bool
	v.ahead(func() { restarted = v.plugin(v.Node).startedAt().After(r.CollectedAt) })
	if restarted {
		return nil
	}
	return socketOf(r, v.Driver)
}

func deadSocket(d *nodereport.Driver) bool {
	return d.Socket != nil && (d.Socket.State == nodereport.SocketRefused || d.Socket.State == nodereport.SocketTimeout ||
		d.Socket.State == nodereport.SocketMissing && d.Registration != nil && d.Registration.State == nodereport.SocketOK)
}

func saysNotReady(d *nodereport.Driver) bool { return d.Identity != nil && d.Identity.Ready == "no" }

// answeredSince: the error is not of the driver's making, or its own answer after the report was taken.
func (v *View) answeredSince(t *trouble) bool {
	if (Cause{ID: told(kubeletWords, t.Text)}).Hop() == HopAttach {
		return true
	}
	n, _ := v.atHand(v.Node)
	code, _ := grpc(t.Text)
	return t.At.After(n.CollectedAt) && code != "" && code != "DeadlineExceeded" && code != "Unavailable"
}

// putRight: the driver, or the object, that the last error misses is there since then, and the kubelet is still between two tries.
func (v *View) putRight(t *trouble) bool {
	if v.taken.Sub(t.At) >= kubeletBackoff {
		return false
	}
	if v.Driver == secretsStore && v.Inline != nil && v.told(mountWords, t.Text) == "publish/object-missing" {
		class, known := v.secretProviderClass(v.Inline.VolumeAttributes["secretProviderClass"])
		return known == Yes && class.GetCreationTimestamp().After(t.At)
	}
	if !notRegistered.MatchString(t.Text) && !socketDead.MatchString(t.Text) {
		return false
	}
	_, known := v.registered(v.Node)
	p := v.plugin(v.Node)
	failing, _, _ := p.failing(v.taken) // one that crashes again and again is there for a moment only
	return known == Yes && failing == nil && p.startedAt().Add(startToRegister).After(t.At) && v.unserving() == ""
}

var registerCauses = []Cause{{
	ID:    "register/kubelet-root-mismatch",
	Title: "The driver and the kubelet use different kubelet folders",
	Doc: `A node plugin talks to the kubelet through sockets and mounts below the kubelet's root folder, /var/lib/kubelet by default. Some
distributions keep it elsewhere: k0s in /var/lib/k0s/kubelet, MicroK8s in /var/snap/microk8s/common/var/lib/kubelet, RKE1 on an OS
with a read-only root in /opt/rke/var/lib/kubelet. A driver installed with the default then waits where the kubelet never looks,
or cannot start since the folder is not there.

To be sure: compare the kubelet's --root-dir on the node (ps -ef) with the plugin's hostPath volumes and the registrar's
--kubelet-registration-path.

Set the driver's own option for it (kubeletDir, kubelet.rootDir, node.kubeletPath: each chart has its name). Do not move or link the
kubelet's folder under running pods: their mounts would be left behind.`,
	Match: orNowhere(kubeletRootMismatch),
}, {
	ID:    "register/in-progress",
	Title: "The node's driver is still starting",
	Doc: `A new node runs pods before its drivers are there: images are pulled, then the registrar tells the kubelet. Until then the kubelet
says many times a minute that the driver is not in its list. It tries again by itself.

To be sure: the node, or the plugin's pod on it, is only minutes old.

Do nothing but wait. Deleting the waiting pod only starts its clock again.`,
	Match: orNowhere(registerInProgress),
}, {
	ID:    "register/plugin-pod-missing",
	Title: "The driver's node plugin does not run on the node",
	Doc: `Every node that mounts a driver's volumes needs a pod of its DaemonSet. It may be kept away by a taint that it does not tolerate, by a
nodeSelector, by lack of room, or it was evicted.

To be sure: the node's CSINode does not list the driver, and no pod of the DaemonSet is on the node.

Other pods with the driver's volumes on the node cannot be unmounted either while it is missing. Do not delete the node or force
their deletion: bring the plugin back.`,
	Match: pluginPodMissing,
}, {
	ID:    "register/node-info-failing",
	Title: "The driver does not tell who the node is, so the kubelet drops it",
	Doc: `At registration the kubelet asks NodeGetInfo for the node's id, limit and topology. When that fails (no metadata service, no permission,
a missing label) the kubelet takes the registration back.

To be sure: the kubelet's log says "plugin registration failed" with the driver's own error; the driver's log has it too.

Restarting pods in a loop does not help before that error is gone.`,
	Match: orNowhere(nodeInfoFailing),
}, {
	ID:    "register/not-ready",
	Title: "The driver says that it is not ready",
	Doc: `The driver answers Probe with not ready: it waits for something of its own (a backend, a kernel module, a daemon on the host). Sidecars
wait for it and do nothing.

To be sure: the driver's log on that node says what it waits for.`,
	Match: orNowhere(registerNotReady),
}, {
	ID:    "register/plugin-pod-failing",
	Title: "The driver's node plugin is on the node and does not run",
	Doc: `The pod of the driver's DaemonSet waits or crashes on this node: its image cannot be pulled, a folder or module of the host is
missing, its configuration is wrong, or it cannot reach its backend.

To be sure: look at the pod's containers and their last logs.

While it is down nothing of this driver is mounted or unmounted on the node; what is mounted keeps working.`,
	Match: pluginPodFailing,
}, {
	ID:    "register/socket-dead",
	Title: "The driver's socket on the node does not answer",
	Doc: `The registrar's socket, or the entry in the CSINode, is there, and nobody answers at the driver's own socket: the process behind it died
or hangs, or a restarted driver made a new socket where nobody looks.

To be sure: dial the socket on the node; "connection refused" means that the file is left over, a timeout that the process hangs.

Restarting the plugin's pod on that node is safe for mounts of kernel filesystems. It kills FUSE mounts that live inside the
plugin's container.`,
	Match: orNowhere(registerSocketDead),
}, {
	ID:    "register/not-registered",
	Title: "The driver runs on the node and the kubelet does not know it",
	Doc: `The plugin's pod runs, and the kubelet has no registration of it. Registration is the registrar's work: it needs the kubelet's
plugins_registry folder, and must name the driver's socket as the kubelet sees it.

To be sure: the kubelet's log on the node names the socket and why it was refused; the registrar's log says whether it was ever asked.

Restarting the plugin's pod on that node repeats the registration. It kills FUSE mounts that live inside the plugin's container.`,
	Match: orNowhere(registerNotRegistered),
}}
