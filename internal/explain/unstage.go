package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// unstageHop: no kubelet keeps the volume that no pod uses any more. It is asked where no pod uses the claim; where another
// waits its attach asks.
func unstageHop(v *View) Hop {
	if v.Node != "" && len(v.only) > 0 { // left staged, and only the node's report shows it
		freed, known := v.freedSince()
		if known == Unknown {
			return unknownHop(&Object{Kind: "Node", Name: v.Node}, "since when no pod needs it there could not be read")
		}
		h := v.openHop(freed, normalTeardown, Object{Kind: "Node", Name: v.Node}, "still staged on node "+v.Node)
		if h.Status == StatusStuck {
			h.Status = StatusDegraded
		}
		return h
	}
	switch n, known := v.leftOn(); {
	case known == Unknown:
		return unknownHop(&Object{Kind: "Node", Name: n.node}, "mounted there, and whether it is attached could not be read")
	case n != nil:
		h := Hop{Status: StatusDegraded, Object: &Object{Kind: "Node", Name: n.node}, Note: "still mounted on node " + n.node, reached: true}
		if len(n.mountedFor(v)) == 0 || v.goingPV() && v.deleteTrouble() != nil {
			h.Status = StatusStuck // it keeps the detach, or the deletion, from going on
		}
		return h
	}
	if v.Pod == nil && v.bound() && v.pvKnown == Unknown {
		return v.aside(unknownHop(&Object{Kind: "PersistentVolume", Name: v.volumeName()}, "whether a node keeps the volume cannot be told"))
	}
	if !v.idle() {
		return skippedHop("")
	}
	held, known := v.holders()
	for _, h := range held {
		if !h.keeps() {
			continue
		}
		v.ahead(func() { v.nodeSide(h.Name) })
		freed, _ := v.freedSince()
		if freed.IsZero() {
			freed = v.unmountingSince(h.Name)
		}
		return v.aside(v.openHop(freed, normalTeardown, Object{Kind: "Node", Name: h.Name}, "node "+h.Name+" still has the volume in use"))
	}
	for _, h := range held {
		if attached := h.At == nil || h.At.Status.Attached; attached && !h.leaving() && (h.Ready == Unknown || h.InUse == Unknown) {
			return unknownHop(&Object{Kind: "Node", Name: h.Name}, "whether the node keeps the volume could not be read")
		}
	}
	if known == Unknown && !v.saidDetached() {
		return unknownHop(&Object{Kind: "VolumeAttachment"}, "which nodes hold the volume could not be read")
	}
	return skippedHop("")
}

// leftOn is a node whose report is at hand and shows a volume mounted that one node at a time may have, where it is not attached
// any more: the kubelet forgot it, or it was moved by force. Or its detach fails, and only another mount namespace has it still.
func (v *View) leftOn() (found *nodeFacts, known Truth) {
	reports, _ := v.reports()
	if v.PV == nil || v.PV.Spec.CSI == nil || v.At != nil || slices.ContainsFunc(v.PV.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	}) {
		return nil, No
	}
	for _, r := range reports {
		if r.Name == v.Node || !v.mountedIn(r) && !v.detachFails(r.Name) {
			continue
		}
		n := v.factsOf(&r.Report, r.Name)
		m := n.mountedFor(v)
		if n.Mountinfo == "" || len(m) > 0 && m[0].Anonymous() || len(m) == 0 && len(v.leaks(n.NodeReport, n.node)) == 0 {
			continue
		}
		v.ahead(func() {
			at, attached := v.attachment(n.node)
			left := truth(len(m) > 0).and(attached.not())
			if attached == Yes {
				left = truth(len(m) == 0 && at.DeletionTimestamp != nil && at.Status.DetachError != nil)
			}
			if left = left.and(v.attachRequired()); left != No && known != Yes {
				found, known = n, left
			}
		})
	}
	if known == Unknown { // now what is not read is a gap
		v.attachment(found.node)
		v.attachRequired()
	}
	return found, known
}

// detachFails: the detach from a node does, or may for all that is known. It leaves out the others of many nodes' reports before
// any of them is looked into.
func (v *View) detachFails(node string) bool {
	if !v.facts.Covers(attachmentsOf(v.PV.Name)) {
		return true
	}
	failing := grouped(v.world, inAttachments, "failing detach", func(at *storagev1.VolumeAttachment) []string {
		if at.DeletionTimestamp == nil || at.Status.DetachError == nil {
			return nil
		}
		return []string{at.Name}
	})
	return len(failing[attachmentName(v.Handle, v.Driver, node)]) > 0
}

// idle: the view is of a volume that is attached by its driver and that no pod uses.
func (v *View) idle() bool {
	if v.Pod != nil || v.PV == nil || v.Driver == "" || v.Node != "" || v.attachRequired() == No {
		return false
	}
	users, known := v.podsOfClaim()
	return known == Yes && len(users) == 0
}

// keeps: the node works, no pod there uses the volume, and its kubelet lists it in use all the same.
func (h holder) keeps() bool {
	return !h.leaving() && len(h.Pods) == 0 && h.Ready == Yes && h.InUse == Yes
}

// freedSince bounds when the last pod that used the volume went: by the claim's own condition (since 1.37), else by what was
// said of pods that are gone and what those say that have ended. The zero time: long ago.
func (v *View) freedSince() (time.Time, Truth) {
	if v.Claim != nil {
		for _, c := range v.Claim.Status.Conditions {
			if c.Type == "Unused" && c.Status == corev1.ConditionTrue { // pvc-protection controller
				return c.LastTransitionTime.Time, Yes
			}
		}
	}
	if v.Namespace == "" {
		return time.Time{}, No
	}
	gone, known := allOf(v.world, "last pod of "+v.Namespace, func() ([]time.Time, Truth) {
		last, known := v.lastGone()
		return []time.Time{last}, known
	})
	last := gone[0]
	users, usersKnown := v.consumers(v.Namespace, v.ClaimName)
	for _, p := range users { // the object of a pod that has ended may stay for ever; its volumes do not
		if finished(p) {
			last = latest(last, endedAt(p))
		}
	}
	return last, known.and(usersKnown)
}

// lastGone is when the last pod of the namespace went that is known to have gone.
func (v *View) lastGone() (last time.Time, all Truth) {
	events, known := list[*corev1.Event](v.world, inEvents, snapshot.Query{Namespace: v.Namespace, Fields: "involvedObject.kind=Pod"})
	pods, podsKnown := list[*corev1.Pod](v.world, inPods, snapshot.Query{Namespace: v.Namespace})
	there := map[string]bool{}
	for _, p := range pods {
		there[p.Name] = true
	}
	for _, e := range events {
		if e.Reason == "Killing" && !there[e.InvolvedObject.Name] {
			last = latest(last, snapshot.EventTime(e))
		}
	}
	deleted, deletedKnown := list[*corev1.Event](v.world, inEvents, snapshot.Query{Namespace: v.Namespace, Fields: "reason=SuccessfulDelete"})
	for _, e := range deleted {
		if m := podDeleted.FindStringSubmatch(e.Message); m != nil && !there[m[1]] {
			last = latest(last, snapshot.EventTime(e))
		}
	}
	return last, known.and(podsKnown).and(deletedKnown)
}

// podDeleted are the words of the StatefulSet controller, and of those of ReplicaSets, Jobs and DaemonSets, about a pod that they deleted.
var podDeleted = regexp.MustCompile(`(?i)^deleted? pod:? ([a-z0-9.-]+)`)

// unmountingSince is when the unmount of the volume began that still runs on a node; the zero time where its report shows none,
// or earlier ones that failed.
func (v *View) unmountingSince(node string) time.Time {
	n, _ := v.atHand(node)
	if n == nil || kubeletSays(n.NodeReport, unmountDevice, v.Handle, v.volumeName()) != nil {
		return time.Time{}
	}
	age := -1
	for _, t := range n.Tasks {
		if strings.HasPrefix(t.Comm, "umount") && strings.Contains(t.Args, stagingFolder(v.Driver, v.Handle)) {
			age = max(age, int(t.Seconds))
		}
	}
	if age < 0 {
		return time.Time{}
	}
	return n.CollectedAt.Add(-time.Duration(age) * time.Second)
}

// keepers are the nodes that keep the volume without a pod and hold up the view's hop.
func (v *View) keepers() ([]holder, Truth) {
	var held []holder
	var known Truth
	switch {
	case v.at(HopUnstage) && v.idle(): // at a later hop what a node does in its time was set aside
		held, known = v.holders()
	case v.at(HopAttach) && v.age(v.scheduledAt()) >= normalTeardown:
		held, known = v.heldElsewhere()
	default:
		return nil, Yes
	}
	return slices.DeleteFunc(held, func(h holder) bool { return !h.keeps() }), known
}

var unstageCauses = []Cause{{
	ID:    "unstage/in-progress",
	Title: "The node is letting the volume go, within the normal time",
	Doc: `After the last pod has gone the kubelet unmounts the volume from the node; then it leaves the node's volumesInUse and is detached.

Do nothing but wait.`,
	Match: unstageInProgress,
}, {
	ID:    "unstage/plugin-gone",
	Title: "The kubelet cannot reach the driver to let the volume go",
	Doc: `Unmounting the volume from the node is the driver's work there. Without its node plugin the node keeps the volume, and it stays attached.

To be sure: the driver is not in the node's CSINode, or its plugin's pod there is missing or crashes.

Bring the plugin back; the kubelet repeats the call by itself.`,
	Match: unstagePluginGone,
}, {
	ID:    "unstage/vol-data-broken",
	Title: "The kubelet's own file about the staged volume is missing or broken",
	Doc: `Beside the staging mount the kubelet keeps vol_data.json with the driver's name and the volume's handle. When it is empty or gone the
kubelet cannot ask the driver to let the volume go.

To be sure: the kubelet's log; look at the file beside globalmount.

Write the file anew; do not remove the folder while it is mounted.`,
	Match: unstageVolDataBroken,
}, {
	ID:    "unstage/mount-leaked",
	Title: "Another process on the node keeps the volume mounted",
	Doc: `A process with a mount namespace of its own copied the node's mounts while the volume was mounted: an agent that mounts the host's root
without propagation, a container that started then. The device stays open there, so the driver cannot close it.

To be sure: the path or the device is in /proc/PID/mountinfo of that process and not in the host's.

End or restart that process or pod; the unmount goes through then. Mount the host's root with mountPropagation HostToContainer. Do not
delete the attachment: the device would be pulled from under a mount.`,
	Match: mountLeaked,
}, {
	ID:    "unstage/driver-error",
	Title: "The driver cannot let the volume go on the node",
	Doc: `NodeUnstageVolume fails, or never ends. The kubelet repeats it at least every two minutes and says it in its log only.

To be sure: the kubelet's log on the node, "UnmountDevice failed", and the driver's log there.

Do not detach the volume while the node has its device open.`,
	Match: unstageDriverError,
}, {
	ID:    "unstage/never-confirmed",
	Title: "The node lists the volume in use, though nothing uses it",
	Doc: `The attach-detach controller detaches only what the node's kubelet has taken off its status.volumesInUse. A Ready node that does not is
waited for without end: the six-minute timer is for nodes that are not Ready.

To be sure: no pod of the claim on the node, and the node's status.volumesInUse lists the volume. The kubelet's log says why; a kubelet
that was restarted between the two unmounts may have forgotten the staging mount.

Prove on the node that nothing is mounted, then restart its kubelet: it writes the list anew. Do not delete the attachment before.`,
	Match: neverConfirmed,
}}

// firstKeeper asks about each node that keeps the volume until one fits.
func (v *View) firstKeeper(fits func(*holder) (Finding, Truth)) (Finding, Truth) {
	held, known := v.keepers()
	best := min(known.not(), Unknown)
	for i := range held {
		switch f, t := fits(&held[i]); t {
		case Yes:
			return f, Yes
		case Unknown:
			best = Unknown
		}
	}
	return Finding{}, best
}

// keeperFinding begins a finding about a node that keeps the volume.
func (v *View) keeperFinding(h *holder, why string, ev ...Evidence) Finding {
	f := Finding{Where: h.Name, Why: why, Evidence: append([]Evidence{fact(Object{Kind: "Node", Name: h.Name}, "status.volumesInUse", uniqueName(v.Driver, v.Handle), time.Time{}),
		h.evidence()}, ev...)}
	if v.Pod != nil {
		f.Why = strings.TrimPrefix(sentence(f.Why), ".") + fmt.Sprintf(" Pod %s/%s waits for it on node %s.", v.Pod.Namespace, v.Pod.Name, v.Node)
	}
	return f
}

func unstageInProgress(v *View) (Finding, Truth) {
	if !v.at(HopUnstage) || v.hop(HopUnstage).Status != StatusWaiting {
		return Finding{}, No
	}
	if v.Node != "" {
		f := v.asBlock(Finding{Confidence: Likely, Why: fmt.Sprintf("No pod uses volume %s on node %s any more, and its kubelet is letting it go.", v.volumeName(), v.Node)})
		f.Fix = []Step{say("Wait: it ends by itself.")}
		return f, Yes
	}
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		f := v.keeperFinding(h, fmt.Sprintf("No pod uses volume %s on node %s any more, and its kubelet is letting it go.", v.volumeName(), h.Name))
		f.Status, f.Until, f.Confidence = StatusWaiting, v.hop(HopUnstage).Until, Likely
		f.Fix = []Step{say("Wait: the detach follows by itself.")}
		return f, Yes
	})
}

func unstagePluginGone(v *View) (Finding, Truth) {
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		_, registered := v.registered(h.Name)
		p := v.plugin(h.Name)
		why, ev := "", []Evidence{}
		if pod, reason, e := p.failing(v.taken); pod != nil && !starting(p) {
			why, ev = reason, []Evidence{e}
		} else if len(p.Pods) == 0 && p.known == Yes && (len(p.Sets) > 0 || p.setsKnow == Yes && registered == No) {
			reason, e := v.whyNone(p)
			why, ev = strings.TrimSuffix("no pod of its node plugin is there: "+reason, ": "), e
		} else if registered == No {
			why, ev = "the node's CSINode does not list it", []Evidence{fact(Object{Kind: "CSINode", Name: h.Name}, "spec.drivers", "does not list "+v.Driver, time.Time{})}
		}
		if why == "" {
			return Finding{}, registered.told().and(p.told()).not()
		}
		f := v.keeperFinding(h, fmt.Sprintf("Node %s keeps volume %s since its kubelet cannot reach the driver %s there: %s.", h.Name, v.volumeName(), v.Driver, why), ev...)
		f.Confidence = Certain
		f.Fix = []Step{v.look("See what is on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+h.Name),
			say(fmt.Sprintf("Bring the node plugin of %s back on node %s; the kubelet repeats the call by itself.", v.Driver, h.Name))}
		return f, Yes
	})
}

// unmountDevice: the kubelet could not unstage (pkg/volume/util/operationexecutor).
var unmountDevice = regexp.MustCompile(`UnmountDevice failed|UnmapDevice failed|UnmapVolume\.UnmapDevice|attacher\.UnmountDevice failed|GetDeviceMountRefs check failed`)

func unstageVolDataBroken(v *View) (Finding, Truth) {
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		r, known := v.report(h.Name)
		if r == nil {
			return Finding{}, known
		}
		vol := v.factsOf(r, h.Name).volume
		line := kubeletSays(r, volDataWords, v.Handle, v.volumeName())
		if (vol == nil || vol.Staging == nil || vol.Staging.VolDataError == "") && line == nil {
			return Finding{}, No
		}
		f := v.keeperFinding(h, fmt.Sprintf("Node %s keeps volume %s since its kubelet cannot read its vol_data.json about it, so it does not know which driver to ask.", h.Name, v.volumeName()))
		file := "vol_data.json"
		if vol != nil && vol.Staging != nil {
			file = path.Dir(vol.Staging.Path) + "/vol_data.json"
			f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: h.Name}, file, vol.Staging.VolDataError, r.CollectedAt))
		}
		if line != nil {
			f.Evidence = append(f.Evidence, logged(h.Name, "kubeletLog", line))
		}
		f.Confidence = Certain
		f.Fix = []Step{onNode(h.Name, "see the file", "cat", file),
			say(fmt.Sprintf(`Write it anew: {"driverName":%q,"volumeHandle":%q}. The kubelet then lets the volume go by itself.`, v.Driver, v.Handle))}
		return f, Yes
	})
}

// leak is a mount of the volume in another mount namespace than the kubelet's.
type leak struct {
	Namespace nodereport.Namespace
	Mount     mountinfo.Mount
}

// leaks finds where else the volume is mounted: by its staging path, by its device, or by its pods' paths.
func (v *View) leaks(r *nodereport.NodeReport, node string) []leak {
	n := v.factsOf(r, node)
	var out []leak
	for _, ns := range r.Namespaces {
		table, _ := mountinfo.Parse(ns.Mountinfo)
		for _, m := range table {
			d := n.device(m)
			if n.follows(m) {
				continue
			}
			if pod, staging := v.mountedAt(m.Mountpoint); pod || staging || d != nil && n.inStack(d) {
				out = append(out, leak{ns, m})
				break
			}
		}
	}
	return out
}

// living adds to a finding about a node that does not answer what its own report, where one could be had, shows of the volume.
func (v *View) living(f Finding, node string) Finding {
	r := v.reportAtHand(node)
	if r == nil {
		return f
	}
	n := v.factsOf(r, node)
	if r.Kubelet != nil && !r.Kubelet.Running {
		f.Why = sentence(f.Why) + fmt.Sprintf(" The node's own report of %s shows that the machine works and its kubelet does not run.", r.CollectedAt.UTC().Format("15:04:05Z"))
		f.Evidence = append(f.Evidence, n.seen("kubelet.running", "false"))
		f.Fix = append([]Step{onNode(node, "see why the kubelet does not run", "systemctl", "status", "kubelet"), say("Start the kubelet: it then finishes by itself what it was asked to.")}, f.Fix...)
	}
	mounted := n.mountedFor(v)
	ofVolume := func(m mountinfo.Mount) bool {
		d := n.device(m)
		_, staging := v.mountedAt(m.Mountpoint)
		return staging || d != nil && n.inStack(d) || !m.Anonymous() && len(mounted.Of(m.Device())) > 0
	}
	for _, ns := range r.Namespaces {
		table, _ := mountinfo.Parse(ns.Mountinfo)
		if i := slices.IndexFunc(table, ofVolume); i >= 0 && len(ns.Processes) > 0 {
			m := table[i]
			f.Why = sentence(f.Why) + fmt.Sprintf(" The node's own report of %s shows that %s has it mounted: it may still write.", r.CollectedAt.UTC().Format("15:04:05Z"), processes(ns))
			f.Evidence = append(f.Evidence, n.seen(fmt.Sprintf("namespaces[%d] %s", ns.Inode, m.Mountpoint), processes(ns)))
			return f
		}
	}
	return f
}

// follows: a mount of another namespace goes when the node's own goes, which is still there.
func (n *nodeFacts) follows(m mountinfo.Mount) bool {
	shared, master := m.Propagation()
	return slices.ContainsFunc(n.table, func(own mountinfo.Mount) bool {
		group, _ := own.Propagation()
		return group != 0 && (group == shared || group == master) && own.Device() == m.Device()
	})
}

func mountLeaked(v *View) (Finding, Truth) {
	if v.at(HopUnstage) {
		if n, known := v.leftOn(); known == Yes {
			found := v.leaks(n.NodeReport, n.node)
			if len(found) == 0 {
				return Finding{}, No
			}
			f := Finding{Status: v.hop(HopUnstage).Status, Where: n.node}
			if at, known := v.attachment(n.node); known == Yes && at.Status.DetachError != nil {
				f.Evidence = append(f.Evidence, detachTrouble(at).Evidence)
			}
			return v.leakedTo(f, n.NodeReport, n.node, found), Yes
		}
	}
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		r, known := v.report(h.Name)
		if r == nil {
			return Finding{}, known
		}
		found := v.leaks(r, h.Name)
		if r.Mountinfo == "" { // who has it besides the node cannot be told without the node's own table
			return Finding{}, No
		}
		if len(found) == 0 {
			return v.mountedTwice(h, r)
		}
		return v.leakedTo(v.keeperFinding(h, ""), r, h.Name, found), Yes
	})
}

// refused: the kubelet asks no driver while the device is mounted elsewhere on the node too (mount.GetDeviceMountRefs).
var refused = regexp.MustCompile(`GetDeviceMountRefs check failed`)

// mountedTwice: the kubelet says that it does not unstage, since the device is mounted at another path of the node, and the report shows where.
func (v *View) mountedTwice(h *holder, r *nodereport.NodeReport) (Finding, Truth) {
	line := kubeletSays(r, refused, v.Handle, v.volumeName())
	if line == nil {
		return Finding{}, No
	}
	n := v.factsOf(r, h.Name)
	staged := n.staged()
	for _, m := range n.table {
		if len(staged) == 0 || m.Device() != staged[len(staged)-1].Device() || m.Mountpoint == n.volume.Staging.Path || !names(line.Message, m.Mountpoint) {
			continue
		}
		f := v.keeperFinding(h, fmt.Sprintf("The kubelet of node %s does not unstage volume %s while its device is mounted a second time there, at %s.", h.Name, v.volumeName(), m.Mountpoint), n.seenMount(m), logged(h.Name, "kubeletLog", line))
		f.Confidence = Certain
		f.Fix = []Step{onNode(h.Name, "see both mounts, and what has the second one open", "sh", "-c", "grep -F "+quote(m.Mountpoint)+" /proc/[0-9]*/mountinfo; fuser -vm "+quote(m.Mountpoint)),
			hazard(DangerDisruptive, "no process of the list is of a pod that is needed", fmt.Sprintf("Unmount %s (umount, without force); the kubelet goes on by itself.", m.Mountpoint)),
			say("Where the kubelet's folder is itself a bind mount of another folder, make that mount private or a mount of its own: each mount below it appears twice otherwise.")}
		return f, Yes
	}
	return Finding{}, No
}

// leakedTo completes a finding about mounts that other mount namespaces of a node keep.
func (v *View) leakedTo(f Finding, r *nodereport.NodeReport, node string, found []leak) Finding {
	pods, _ := v.podsOn(node)
	var who []string
	for _, l := range found {
		for _, p := range l.Namespace.Processes {
			name := fmt.Sprintf("process %d (%s)", p.PID, p.Comm)
			f.Fix = append(f.Fix, onNode(node, fmt.Sprintf("see process %d", p.PID), "ps", "-o", "pid,stat,wchan,args", "-p", fmt.Sprint(p.PID)))
			step := hazard(DangerDisruptive, "the process may end", fmt.Sprintf("End process %d.", p.PID))
			if i := slices.IndexFunc(pods, func(q *corev1.Pod) bool { return p.PodUID != "" && string(q.UID) == p.PodUID }); i >= 0 {
				name += fmt.Sprintf(" of pod %s/%s", pods[i].Namespace, pods[i].Name)
				f.Fix = append(f.Fix, v.look("See what the pod mounts of the host, and who owns it", "-n", pods[i].Namespace, "get", "pod", pods[i].Name, "-o", "yaml"))
				step = v.act(DangerDisruptive, "the pod may be restarted", "Restart the pod that keeps the mount", "-n", pods[i].Namespace, "delete", "pod", pods[i].Name)
			}
			who, f.Fix = append(who, name), append(f.Fix, step)
			break // the others of the namespace share it
		}
		f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: node}, fmt.Sprintf("namespaces[%d].mountinfo", l.Namespace.Inode), fmt.Sprintf("%s is mounted from %s", l.Mount.Mountpoint, l.Mount.Source), r.CollectedAt))
	}
	f.Why = strings.TrimSpace(fmt.Sprintf("Node %s cannot let volume %s go: %s still has it mounted in a mount namespace of its own. %s", node, v.volumeName(), strings.Join(who, ", "), strings.TrimSpace(f.Why)))
	if line := kubeletSays(r, unmountDevice, v.Handle, v.volumeName()); line != nil {
		f.Evidence = append(f.Evidence, logged(node, "kubeletLog", line))
	}
	f.Confidence = Certain
	f.Fix = append(f.Fix, say("To prevent it, let such pods mount the host's folders with mountPropagation: HostToContainer, or not at all."))
	return f
}

// hungUnstage: the unmount of a staging path waits in the kernel.
func (v *View) hungUnstage() (Finding, Truth) {
	n, known := v.probed(v.Node)
	if n == nil || n.volume == nil || n.volume.Staging == nil {
		return Finding{}, known.not()
	}
	for i := range n.Tasks {
		t := &n.Tasks[i]
		age := time.Duration(t.Seconds) * time.Second
		if !strings.HasPrefix(t.Comm, "umount") || !inKernel(t) || !strings.Contains(t.Args, n.volume.Staging.Path) || age < normalTeardown {
			continue
		}
		return Finding{Confidence: Certain, Evidence: []Evidence{n.seenTask(t)},
			Why: fmt.Sprintf("On node %s the unmount of volume %s from its staging path (pid %d) has been waiting in the kernel for %s: what is behind it does not answer.", v.Node, v.volumeName(), t.PID, ago(age)),
			Fix: []Step{onNode(v.Node, "see what waits in the kernel", "ps", "-o", "pid,stat,wchan,args", "-p", fmt.Sprint(t.PID)),
				say("Bring the server back, if only for a moment: the unmount then goes through by itself.")}}, Yes
	}
	return Finding{}, No
}

// busy are the devices that a driver's error is about: those that it names, the volume's own, or the only one of its kind that
// is held and that no other volume is mounted from.
func (n *nodeFacts) busy(text string) []*nodereport.Device {
	if named := n.spoken(text); len(named) > 0 {
		return named
	}
	if d := n.knownDevice(); d != nil {
		return []*nodereport.Device{d}
	}
	var held []*nodereport.Device
	for i := range n.Devices {
		d := &n.Devices[i]
		mounted := slices.ContainsFunc(n.table, func(m mountinfo.Mount) bool { return n.device(m) == d })
		if slices.Contains([]string{"rbd", "nbd", "drbd"}, d.Kind) && names(text, d.Kind) && len(d.Holders) > 0 && !mounted {
			held = append(held, d)
		}
	}
	if len(held) == 1 {
		return held
	}
	return nil
}

func unstageDriverError(v *View) (Finding, Truth) {
	if v.Node != "" && v.at(HopUnstage) && v.hop(HopUnstage).Status == StatusDegraded {
		return v.hungUnstage()
	}
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		r, known := v.report(h.Name)
		if r == nil {
			return Finding{}, known
		}
		line := kubeletSays(r, unmountDevice, v.Handle, v.volumeName())
		if line == nil {
			return Finding{}, No
		}
		_, words := grpc(line.Message)
		code, _ := grpc(line.Message)
		f := v.keeperFinding(h, fmt.Sprintf("The driver %s cannot let volume %s go on node %s: %s", v.Driver, v.volumeName(), h.Name, strings.TrimSpace(code+" "+words)), logged(h.Name, "kubeletLog", line))
		if n := v.factsOf(r, h.Name); busyWords.in(line.Message) {
			for _, d := range n.busy(line.Message) {
				for _, name := range d.Holders {
					if holder := n.named([]string{name}); holder != nil {
						f.Why = sentence(f.Why) + fmt.Sprintf(" The device %s is held by %s, a %s device%s.", describe(d), describe(holder), holder.Kind, strings.Join(prefixed(" ", holder.Links), ""))
						f.Evidence = append(f.Evidence, n.seenDevice(d), n.seenDevice(holder))
					}
				}
			}
		}
		for _, t := range r.Tasks {
			if inKernel(&t) {
				f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: h.Name}, fmt.Sprintf("tasks[%d]", t.PID), fmt.Sprintf("%s %s: state %s in %s for %s", t.Comm, t.Args, t.State, t.Wchan, ago(time.Duration(t.Seconds)*time.Second)), r.CollectedAt))
				f.Why = sentence(f.Why) + fmt.Sprintf(" Process %d (%s %s) waits in the kernel for %s.", t.PID, t.Comm, t.Args, ago(time.Duration(t.Seconds)*time.Second))
			}
		}
		f.Confidence = Certain
		f.Fix = []Step{onNode(h.Name, "see who has the device open and what waits in the kernel", "sh", "-c", "grep -F "+quote(stagingFolder(v.Driver, v.Handle))+" /proc/*/mountinfo; ps -eo pid,stat,wchan,args | grep ' D'")}
		if p := v.plugin(h.Name); len(p.Pods) > 0 {
			f.Fix = append(f.Fix, v.look("Read the driver's log on the node", "-n", p.Pods[0].Namespace, "logs", p.Pods[0].Name, "--all-containers", "--tail=100"))
		}
		f.Fix = append(f.Fix, say("Mend what it says (close what has the device open, bring dead paths back); the kubelet repeats the call by itself."),
			hazard(DangerDisruptive, "a process of the list waits in the kernel (state D) and neither server nor device comes back", "Drain the node and reboot it."))
		return f, Yes
	})
}

// leftStaged: the kubelet looks for what it has to unmount in the pods' folders when it starts; a volume that is staged only it
// does not find again (pkg/kubelet/volumemanager/reconciler/reconstruct.go).
func (v *View) leftStaged() (Finding, Truth) {
	n, known := v.probed(v.Node)
	if n == nil || len(n.staged()) == 0 {
		return Finding{}, known.not()
	}
	m := n.staged()[0]
	f := Finding{Status: StatusDegraded, Confidence: Likely, Evidence: []Evidence{n.seenMount(m)},
		Why: fmt.Sprintf("Volume %s is still mounted at its staging path on node %s from %s, though no pod there uses it and the kubelet does not list it in use: nobody will unmount it.", v.volumeName(), v.Node, m.Source)}
	if v.ClaimName != "" {
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.claimRef", v.Namespace+"/"+v.ClaimName, time.Time{}))
	}
	f.Fix = []Step{onNode(v.Node, "see that it is mounted at its staging path alone, and that nothing has it open", "sh", "-c", "grep -F -e "+quote(stagingFolder(v.Driver, v.Handle))+" -e "+quote(v.volumeName())+" /proc/self/mountinfo; fuser -vm "+quote(m.Mountpoint)),
		hazard(DangerDisruptive, "the step before shows the staging path alone, and no pod on the node uses the volume", "Unmount the staging path (umount, without force).")}
	return f, Yes
}

// leftMounted: the report of a node where the volume is not attached shows it mounted.
func (v *View) leftMounted(n *nodeFacts) (Finding, Truth) {
	m := n.mountedFor(v)[0]
	f := Finding{Title: "A node has the volume mounted where it is not attached", Status: v.hop(HopUnstage).Status, Confidence: Certain, Where: n.node, Evidence: []Evidence{n.seenMount(m)},
		Why: fmt.Sprintf("Volume %s is not attached to node %s any more, and is still mounted there at %s from %s.", v.volumeName(), n.node, m.Mountpoint, m.Source)}
	if v.Node != "" {
		f.Why += fmt.Sprintf(" It is attached to node %s now: what a process on %s still writes damages it.", v.Node, n.node)
	}
	if t := v.deleteTrouble(); t != nil && v.goingPV() {
		f.Why += " So its deletion fails: " + plainWords(t.Text)
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{onNode(n.node, "see who has it mounted or open", "sh", "-c", "grep -sF -e "+quote(stagingFolder(v.Driver, v.Handle))+" -e "+quote(v.volumeName())+" /proc/[0-9]*/mountinfo; fuser -vm "+quote(m.Mountpoint)),
		hazard(DangerDisruptive, "the step before shows no process of a pod that is needed", "Stop what has it open, then unmount it there (umount, without force), or reboot the node while it is cordoned.")}
	return f, Yes
}

func neverConfirmed(v *View) (Finding, Truth) {
	if v.at(HopUnstage) {
		if n, known := v.leftOn(); known == Yes && len(n.mountedFor(v)) > 0 {
			return v.leftMounted(n)
		}
	}
	if v.Node != "" && v.at(HopUnstage) && v.hop(HopUnstage).Status == StatusDegraded {
		return v.leftStaged()
	}
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		if v.at(HopUnstage) && v.hop(HopUnstage).Status == StatusWaiting {
			return Finding{}, No
		}
		r, known := v.report(h.Name)
		if r == nil && known == Unknown {
			return Finding{}, Unknown
		}
		f := v.keeperFinding(h, fmt.Sprintf("No pod uses volume %s on node %s, the node is Ready, and its kubelet still lists the volume in use: so it is not detached, and no timer ends that.", v.volumeName(), h.Name))
		f.Rest, f.Confidence = h.At != nil, Likely // where attachments may not be read the node's word is what there is
		if v.Pod == nil {
			if _, known := v.freedSince(); known == Unknown {
				return Finding{}, Unknown // it may have been used until a moment ago
			}
		}
		if r != nil {
			f.Confidence = Certain
			table, _ := mountinfo.Parse(r.Mountinfo)
			folder := stagingFolder(v.Driver, v.Handle)
			state := "nothing of it is mounted on the node"
			if !v.factsOf(r, h.Name).whole {
				state = "not every mount of the node could be seen"
			}
			for _, m := range table {
				if strings.Contains(m.Mountpoint, folder) {
					state = m.Mountpoint + " is still mounted from " + m.Source
				}
			}
			f.Why += " The node's report says that " + state + "."
			f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: h.Name}, "mountinfo", state, r.CollectedAt))
		}
		f.Fix = []Step{onNode(h.Name, "see what the kubelet says, and what is mounted", "sh", "-c", "journalctl -u kubelet --since=-30min | grep -F "+quote(v.volumeName())+"; grep -F -e "+quote(stagingFolder(v.Driver, v.Handle))+" -e "+quote(v.volumeName())+" /proc/self/mountinfo"),
			hazard(DangerDisruptive, "the step before shows the staging path still mounted, and no pod on the node uses the volume", "Unmount the staging path (umount, without force)."),
			say(fmt.Sprintf("When nothing is mounted from the volume any more, restart the kubelet on node %s: it writes the list anew.", h.Name))}
		return f, Yes
	})
}
