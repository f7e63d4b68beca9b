package explain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// silent finds what is wrong under a pod whose volume was mounted: a wrong, dead or full mount that no event tells of. It asks
// nothing: it looks where a report lies in the input. Nil also where the report does not show the pod's volume.
func (v *View) silent() *blame {
	if v.Pod == nil || v.Driver == "" && v.pvKnown != Unknown || finished(v.Pod) || !v.mounted() {
		return nil
	}
	n, _ := v.atHand(v.Node)
	if n == nil || n.publish == nil || !n.publish.Exists || !n.whole || n.CollectedAt.Before(mountedBy(v.Pod)) {
		return nil
	}
	for _, prove := range []func(*View, *nodeFacts) *blame{wrongDevice, notPropagated, unstagedMount, unreadableMount, staleStaging, wrongMount, stalePublish,
		containerMount, readOnlyMount, fullVolume, damagedMount} {
		if b := prove(v, n); b != nil {
			b.Confidence, b.Proven, b.Facts = cmp.Or(b.Confidence, Certain), true, n
			return b
		}
	}
	return nil
}

// silentHop is the state of a hop under a pod whose volume was mounted.
func (v *View) silentHop(name HopName) Hop {
	b := v.silent()
	if b == nil || (Cause{ID: b.Cause}).Hop() != name {
		return okHop("")
	}
	h := Hop{Status: StatusStuck, Object: &Object{Kind: "NodeReport", Name: v.Node}, Note: "the node's report shows it wrong", reached: true}
	if ready(v.Pod) {
		h.Status = StatusDegraded
	}
	return h
}

// mountedBy is when the pod's volumes were mounted at the latest: its first container has started.
func mountedBy(p *corev1.Pod) time.Time {
	var first time.Time
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		started := time.Time{}
		switch {
		case s.LastTerminationState.Terminated != nil:
			started = s.LastTerminationState.Terminated.StartedAt.Time
		case s.State.Running != nil:
			started = s.State.Running.StartedAt.Time
		case s.State.Terminated != nil:
			started = s.State.Terminated.StartedAt.Time
		}
		if !started.IsZero() && (first.IsZero() || started.Before(first)) {
			first = started
		}
	}
	return first
}

// wrongDevice: the volume is mounted from a device that is another volume's.
func wrongDevice(v *View, n *nodeFacts) *blame {
	own := n.ownDevice()
	for _, m := range n.mountsOf() {
		d := n.device(m)
		misled := d != nil && own != nil && slices.Contains(n.linked, d) && n.foreignLink(d, own)
		if d == nil || !misled && (n.inStack(d) || own != nil && !n.foreign(d, own)) {
			continue
		}
		other := v.otherVolumeOn(n, d, m)
		if other == nil || own == nil && !n.tooSmall(v, d) && !carries(d, v.identities(other.Driver, other.Handle, other.PV, n.node)) {
			continue
		}
		b := &blame{Cause: "stage/wrong-device", Evidence: []Evidence{n.seenMount(m), n.seenDevice(d)}}
		for _, part := range n.parts(d, 4) {
			if part != d {
				b.Evidence = append(b.Evidence, n.seenDevice(part))
			}
		}
		b.Why = fmt.Sprintf("On node %s the volume %s is mounted from device %s, which belongs to volume %s", n.node, v.volumeName(), describe(d), otherName(other))
		if own != nil {
			b.Why += fmt.Sprintf("; its own device is %s", describe(own))
			b.Evidence = append(b.Evidence, n.seenDevice(own))
		}
		b.Why += fmt.Sprintf(". Pod %s reads and writes another volume's data.", v.say("POD"))
		return b
	}
	return nil
}

// otherVolumeOn is another volume of the report that the device is of: it carries that one's identity, or that one is mounted
// from it as a whole too.
func (v *View) otherVolumeOn(n *nodeFacts, d *nodereport.Device, m mountinfo.Mount) *nodereport.Volume {
	for _, o := range n.others {
		if carries(d, v.identities(o.Driver, o.Handle, o.PV, n.node)) {
			return o
		}
	}
	for _, o := range n.others {
		var paths mountinfo.Table
		if o.Staging != nil {
			paths = n.table.Below(o.Staging.Path)
		}
		for _, p := range o.Publishes {
			if at, ok := n.table.At(p.Path); ok {
				paths = append(paths, at)
			}
		}
		if slices.ContainsFunc(paths, func(other mountinfo.Mount) bool {
			return other.Device() == m.Device() && other.Root == m.Root && m.Root == "/"
		}) {
			return o
		}
	}
	return nil
}

// otherName is how to call another volume: by its PV and handle.
func otherName(o *nodereport.Volume) string {
	switch {
	case o.PV == "" || o.PV == o.Handle:
		return o.Handle
	case o.Handle == "":
		return o.PV
	}
	return o.PV + " (" + o.Handle + ")"
}

// tooSmall: the volume's capacity cannot be on the device.
func (n *nodeFacts) tooSmall(v *View, d *nodereport.Device) bool {
	if v.PV == nil || d.Bytes == 0 {
		return false
	}
	capacity := v.PV.Spec.Capacity[corev1.ResourceStorage]
	return d.Bytes < capacity.Value()-capacity.Value()/10
}

// foreign: a device is not the volume's own, nor stands on it. Of stacked devices (LVM, LUKS, RAID, loop) whose parts were not
// seen that cannot be told.
func (n *nodeFacts) foreign(d, own *nodereport.Device) bool {
	if d == nil || own == nil {
		return false
	}
	parts := n.parts(d, 4)
	return len(parts) > 0 && !slices.ContainsFunc(append(parts, d), func(d *nodereport.Device) bool {
		return n.inStack(d) || d.Kind == "part" && strings.HasPrefix(d.Name, own.Name)
	})
}

// parts are the devices at the foot of a stack of no more than so many layers; none where one of them was not seen.
func (n *nodeFacts) parts(d *nodereport.Device, layers int) []*nodereport.Device {
	if slices.Contains([]string{"disk", "part", "rbd", "nbd", "drbd"}, d.Kind) {
		return []*nodereport.Device{d}
	}
	var all []*nodereport.Device
	for _, name := range d.Slaves {
		below := n.named([]string{name})
		if below == nil || layers == 0 {
			return nil
		}
		parts := n.parts(below, layers-1)
		if len(parts) == 0 {
			return nil
		}
		all = append(all, parts...)
	}
	return all
}

// notPropagated: the pod's path is mounted in the driver's container and not on the node.
func notPropagated(v *View, n *nodeFacts) *blame {
	if _, ok := n.published(); ok {
		return nil
	}
	at := strings.Index(n.publish.Path, "/pods/")
	if at < 0 {
		return nil
	}
	for _, ns := range n.Namespaces {
		if n.ofPod(ns, string(v.Pod.UID)) {
			continue
		}
		table, _ := mountinfo.Parse(ns.Mountinfo)
		for _, m := range table {
			if !strings.HasSuffix(m.Mountpoint, n.publish.Path[at:]) {
				continue
			}
			confidence := Certain
			switch v.isDrivers(n, ns) {
			case No:
				continue
			case Unknown:
				confidence = Likely
			}
			who := processes(ns)
			cause := "publish/mount-not-propagated"
			if m.Mountpoint != n.publish.Path { // the plugin has the kubelet's folder under another name
				cause = "register/kubelet-root-mismatch"
			}
			return &blame{Cause: cause, Confidence: confidence, Evidence: []Evidence{n.seen("mountinfo", "nothing is mounted at "+n.publish.Path),
				n.seen("namespaces["+fmt.Sprint(ns.Inode)+"] "+m.Mountpoint, fmt.Sprintf("%s %s, only seen by %s", m.FSType, m.Source, who))},
				Why: fmt.Sprintf("The driver %s mounted the volume at %s, but only inside its own container (%s): on node %s nothing is mounted there. Pod %s sees an empty folder of the node's disk and writes into it.",
					v.Driver, m.Mountpoint, who, n.node, v.say("POD"))}
		}
	}
	return nil
}

// isDrivers: the namespace is of the driver's plugin, and of no other pod, which may have copied the mounts of the node.
func (v *View) isDrivers(n *nodeFacts, ns nodereport.Namespace) Truth {
	var p plugin
	v.ahead(func() { p = v.plugin(v.Node) })
	ofPod := slices.ContainsFunc(ns.Processes, func(q nodereport.Process) bool { return q.PodUID != "" })
	switch {
	case slices.ContainsFunc(p.Pods, func(pod *corev1.Pod) bool { return n.ofPod(ns, string(pod.UID)) }):
		return Yes
	case ofPod && p.known != Yes:
		return Unknown
	}
	return truth(!ofPod && len(p.Pods) == 0) // a plugin may run outside of any pod
}

func (n *nodeFacts) ofPod(ns nodereport.Namespace, uid string) bool {
	return slices.ContainsFunc(ns.Processes, func(p nodereport.Process) bool { return p.PodUID == uid })
}

func processes(ns nodereport.Namespace) string {
	var out []string
	for _, p := range ns.Processes {
		out = append(out, fmt.Sprintf("%s, pid %d", p.Comm, p.PID))
	}
	if len(out) > 3 {
		out = append(out[:3], "...")
	}
	return strings.Join(out, "; ")
}

// unstagedMount: what is mounted into the pod is the empty staging folder itself, on the node's own disk.
func unstagedMount(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	if !ok || n.volume.Staging == nil || len(n.staged()) > 0 || m.Root == "/" || !strings.HasPrefix(m.Root, "/") {
		return nil
	}
	staging := n.volume.Staging.Path
	_, folder, _ := strings.Cut(staging, "/plugins/") // the kubelet's root may itself be a mount of any folder of the disk
	if folder == "" || !strings.Contains(m.Root, "/plugins/"+folder) && !strings.Contains(m.Root, "/volumeDevices/staging/") {
		return nil
	}
	what := "an empty folder of the node's own disk"
	if n.publish.Type == "file" {
		what = "a regular file on the node's own disk, not a device node"
	}
	return &blame{Cause: "publish/not-staged", Evidence: []Evidence{n.seen("volumes.publishes.type", n.publish.Type), n.seenMount(m), n.seen("mountinfo", "nothing is mounted at the staging path "+staging)},
		Why: fmt.Sprintf("On node %s the volume %s is not staged: what pod %s gets at %s is %s (%s).", n.node, v.volumeName(), v.say("POD"), n.publish.Path, what, m.Device())}
}

// unreadableMount: the volume's device is there and answers with errors.
func unreadableMount(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	d := n.device(m)
	if !ok || d == nil || d.Removed || slices.Contains(deadStates, d.State) || !unread(d.Signature) {
		return nil
	}
	b := &blame{Cause: "stage/device-unreadable", Evidence: []Evidence{n.seenMount(m), n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s pod %s has volume %s mounted from %s, and reading that fails with %s", n.node, v.say("POD"), v.volumeName(), mountSource(m, d), d.Signature.Error)}
	if line := n.kernelSays(func(l nodereport.LogLine) bool { return about(l, d) && ioError.in(l.Message) }); line != nil {
		b.Why += " (kernel: " + line.Message + ")"
		b.Evidence = append(b.Evidence, n.seenLine(line))
	}
	b.Why += "."
	return b
}

// staleStaging: a layer of the staging path, a buried one too, is of a device that is gone, dead or not the volume's.
func staleStaging(v *View, n *nodeFacts) *blame {
	layers := n.staged()
	own := n.ownDevice()
	for i, m := range layers {
		d := n.device(m)
		why := n.broken(d)
		if why == "" && n.foreign(d, own) {
			why = "it is not the volume's device, which is " + describe(own)
		}
		if why == "" && i == len(layers)-1 && dead(n.volume.Staging.Stat, m) {
			why = "stat says " + n.volume.Staging.Stat
		}
		if why == "" {
			continue
		}
		b := &blame{Cause: "stage/stale-staging-mount", Evidence: []Evidence{n.seenMount(m)},
			Why: fmt.Sprintf("On node %s the staging path of volume %s is mounted from %s, and %s", n.node, v.volumeName(), mountSource(m, d), why)}
		if own != nil && own != d && !strings.Contains(why, describe(own)) {
			b.Why += ". The volume's device is " + describe(own) + " now"
			b.Evidence = append(b.Evidence, n.seenDevice(own))
		}
		if i < len(layers)-1 {
			b.Why += ". A newer mount lies on top of it"
		}
		b.Why += "."
		if d != nil {
			b.Evidence = append(b.Evidence, n.seenDevice(d))
		}
		if n.volume.Staging.Stat != "" && n.volume.Staging.Stat != "ok" {
			b.Evidence = append(b.Evidence, n.seen("volumes.staging.stat", n.volume.Staging.Stat))
		}
		return b
	}
	return nil
}

func mountSource(m mountinfo.Mount, d *nodereport.Device) string {
	if d != nil {
		return "device " + describe(d)
	}
	return fmt.Sprintf("%s %s (%s)", m.FSType, m.Source, m.Device())
}

// wrongMount: the pod's path is no mount, or of another device than the staged one.
func wrongMount(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	staged := n.staged()
	block := v.PV != nil && modeOf(v.PV.Spec.VolumeMode) == corev1.PersistentVolumeBlock || v.PV == nil && v.Claim != nil && modeOf(v.Claim.Spec.VolumeMode) == corev1.PersistentVolumeBlock
	var linked, shared *nodereport.Volume
	if block && ok {
		linked, shared = n.otherLinks(v, n.device(m)), n.otherBlockOn(m)
	}
	b := &blame{Cause: "publish/wrong-mount"}
	switch {
	case block && n.publish.Type == "file" && m.FSType != "devtmpfs":
		b.Why = fmt.Sprintf("On node %s the block volume %s is published to pod %s as a regular file on the node's own disk, not as a device node.", n.node, v.volumeName(), v.say("POD"))
		b.Evidence = []Evidence{n.seen("volumes.publishes.type", n.publish.Type+" "+n.publish.Path)}
		if ok {
			b.Evidence = append(b.Evidence, n.seenMount(m))
		}
	case block && ok && linked != nil:
		b.Why = fmt.Sprintf("On node %s pod %s was given the device %s for volume %s, and that is the device of volume %s.", n.node, v.say("POD"), describe(n.device(m)), v.volumeName(), otherName(linked))
		b.Evidence = []Evidence{n.seenMount(m), n.seenDevice(n.device(m))}
		if known := n.knownDevice(); known != nil {
			b.Why = strings.TrimSuffix(b.Why, ".") + "; its own is " + describe(known) + "."
			b.Evidence = append(b.Evidence, n.seenDevice(known))
		}
	case block && ok && shared != nil:
		b.Why = fmt.Sprintf("On node %s pod %s was given the device node %s for volume %s, which volume %s is published from too: one of the two pods writes into the other's volume.", n.node, v.say("POD"), m.Root, v.volumeName(), otherName(shared))
		b.Evidence, b.Confidence = []Evidence{n.seenMount(m)}, Likely
	case block:
		return nil
	case !ok && n.mounts(v):
		b.Why = fmt.Sprintf("On node %s the folder of volume %s is not mounted: pod %s reads and writes a folder of the node's own disk.", n.node, v.volumeName(), v.say("POD"))
		b.Evidence = []Evidence{n.seen("mountinfo", "nothing is mounted at "+n.publish.Path)}
		if n.publish.Entries != nil {
			b.Evidence = append(b.Evidence, n.seen("volumes.publishes.entries", fmt.Sprint(*n.publish.Entries)))
		}
		if s := n.volume.Staging; s != nil && len(staged) == 0 && n.stages(v.Driver) == Yes {
			b.Cause = "publish/not-staged"
			b.Why = sentence(b.Why) + " Nor is the volume staged at " + s.Path + "."
			b.Evidence = append(b.Evidence, n.seen("mountinfo", "nothing is mounted at the staging path "+s.Path))
		}
	case ok && len(staged) > 0 && !m.Anonymous() && !slices.ContainsFunc(staged, func(s mountinfo.Mount) bool { return s.Device() == m.Device() }):
		top := staged[len(staged)-1]
		b.Why = fmt.Sprintf("On node %s the volume %s is staged from %s, and pod %s has %s mounted.", n.node, v.volumeName(), mountSource(top, n.device(top)), v.say("POD"), mountSource(m, n.device(m)))
		b.Evidence = []Evidence{n.seenMount(top), n.seenMount(m)}
	case ok && len(staged) == 0 && m.FSType == "tmpfs" && v.Inline == nil && n.stages(v.Driver) == Yes:
		b.Why = fmt.Sprintf("On node %s the volume %s is not staged, and what pod %s has mounted for it is a tmpfs: files in memory, not the volume's.", n.node, v.volumeName(), v.say("POD"))
		b.Evidence, b.Confidence = []Evidence{n.seen("mountinfo", "nothing is mounted at the staging path"), n.seenMount(m)}, Likely
	case ok && len(staged) == 0 && n.onRoot(m) && v.spread():
		b.Why = fmt.Sprintf("On node %s pod %s has a folder of the node's own root filesystem for volume %s (%s, %s), and pods on other nodes use the same volume: what it writes is seen by none of them.", n.node, v.say("POD"), v.volumeName(), m.Root, mountSource(m, n.device(m)))
		b.Evidence, b.Confidence = []Evidence{n.seenMount(m)}, Likely
	case ok && len(staged) == 0 && n.foreign(n.device(m), n.ownDevice()):
		b.Why = fmt.Sprintf("On node %s pod %s has %s mounted for volume %s, whose device is %s.", n.node, v.say("POD"), mountSource(m, n.device(m)), v.volumeName(), describe(n.ownDevice()))
		b.Evidence = []Evidence{n.seenMount(m), n.seenDevice(n.ownDevice())}
	default:
		return nil
	}
	return b
}

// onRoot: the mount shows a folder of the node's root filesystem, to be written to.
func (n *nodeFacts) onRoot(m mountinfo.Mount) bool {
	root, ok := n.table.At("/")
	readOnly, _ := m.ReadOnly()
	return ok && m.Device() == root.Device() && m.Root != "/" && !readOnly
}

// spread: a pod on another node uses the view's volume, which is said to be the same one there.
func (v *View) spread() bool {
	users, _ := v.podsOfClaim()
	return slices.ContainsFunc(users, func(p *corev1.Pod) bool { return ready(p) && p.Spec.NodeName != v.Node })
}

// otherLinks is another volume whose device a device is by its links, and which is not the view's volume's.
func (n *nodeFacts) otherLinks(v *View, d *nodereport.Device) *nodereport.Volume {
	if d == nil || n.inStack(d) || n.knownDevice() == nil {
		return nil
	}
	if o := n.otherOf(v, d); o != nil {
		return o
	}
	m, _ := n.published()
	return n.otherBlockOn(m)
}

// otherOf is another volume whose identity a device carries or is linked by.
func (n *nodeFacts) otherOf(v *View, d *nodereport.Device) *nodereport.Volume {
	for _, o := range n.others {
		if ids := v.identities(o.Driver, o.Handle, o.PV, n.node); carries(d, ids) || linkedTo(d, ids) {
			return o
		}
	}
	return nil
}

// otherBlockOn is another volume of the report that is published from the same device node.
func (n *nodeFacts) otherBlockOn(m mountinfo.Mount) *nodereport.Volume {
	if m.FSType != "devtmpfs" {
		return nil
	}
	for _, o := range n.others {
		for _, p := range o.Publishes {
			if at, ok := n.table.At(p.Path); ok && at.FSType == m.FSType && at.Root == m.Root {
				return o
			}
		}
	}
	return nil
}

// mounts: the driver serves this volume by a mount, so that a path without one is wrong. Some drivers of inline volumes only fill a
// folder.
func (n *nodeFacts) mounts(v *View) bool {
	persistent := n.publish.VolData["volumeLifecycleMode"] == string(storagev1.VolumeLifecyclePersistent)
	if len(n.staged()) > 0 || n.knownDevice() != nil || n.stages(v.Driver) == Yes && v.Inline == nil || persistent {
		return true
	}
	for _, o := range n.others {
		for _, p := range o.Publishes {
			if _, ok := n.table.At(p.Path); ok && o.Driver == v.Driver {
				return true
			}
		}
	}
	return false
}

// stalePublish: what is mounted into the pod's path has nothing behind it any more.
func stalePublish(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	if !ok {
		return nil
	}
	d := n.device(m)
	b := &blame{Cause: "publish/stale-publish-mount", Evidence: []Evidence{n.seenMount(m), n.seen("volumes.publishes.stat", n.publish.Stat)}}
	switch why := n.broken(d); {
	case m.Deleted() && n.publish.Type == "block":
		node := strings.Trim(strings.TrimSuffix(m.Root, "//deleted"), "/")
		b.Why = fmt.Sprintf("On node %s the block device that pod %s was given for volume %s, %s, does not exist any more.", n.node, v.say("POD"), v.volumeName(), node)
		if own := n.ownDevice(); own != nil && own.Name != node && !own.Removed {
			b.Why += fmt.Sprintf(" The volume is there as %s now.", describe(own))
			b.Evidence = append(b.Evidence, n.seenDevice(own))
		}
	case n.publish.Stat == "hung" && m.Anonymous():
		b.Cause = "stage/server-unreachable"
		b.Why = fmt.Sprintf("On node %s the mount of volume %s hangs: the server of %s does not answer.", n.node, v.volumeName(), m.Source)
	case n.publish.Stat == "hung":
		b.Cause = "stage/device-unreadable"
		b.Why = fmt.Sprintf("On node %s the mount of volume %s hangs: %s does not answer.", n.node, v.volumeName(), mountSource(m, d))
	case why != "":
		b.Why = fmt.Sprintf("On node %s pod %s has volume %s mounted from %s, and %s.", n.node, v.say("POD"), v.volumeName(), mountSource(m, d), why)
		b.Evidence = append(b.Evidence, n.seenDevice(d))
	case dead(n.publish.Stat, m) && (d == nil || !n.stopped(d)):
		b.Why = fmt.Sprintf("On node %s the mount of volume %s for pod %s is dead: looking at it fails with %s.", n.node, v.volumeName(), v.say("POD"), n.publish.Stat)
	default:
		return nil
	}
	return b
}

// containerMount: the node's mount is right, and the container has another one, from before it was made anew.
func containerMount(v *View, n *nodeFacts) *blame {
	host, ok := n.published()
	if !ok || v.Volume == nil {
		return nil
	}
	for _, m := range n.table.Below(strings.Replace(strings.TrimSuffix(n.publish.Path, "/mount"), csiVolumes, "/volume-subpaths/", 1)) {
		if m.Deleted() { // POD/volume-subpaths/VOLUME/CONTAINER/INDEX, what the container gets
			return &blame{Cause: "start/subpath", Evidence: []Evidence{n.seenMount(host), n.seenMount(m)},
				Why: fmt.Sprintf("The folder that container %s of pod %s mounts by subPath was deleted on the volume, and made anew since if it is there: the container has the old one.", path.Base(path.Dir(m.Mountpoint)), v.say("POD"))}
		}
	}
	for _, ns := range n.Namespaces {
		if !n.ofPod(ns, string(v.Pod.UID)) {
			continue
		}
		table, _ := mountinfo.Parse(ns.Mountinfo)
		for _, c := range slices.Concat(v.Pod.Spec.InitContainers, v.Pod.Spec.Containers) {
			for _, mount := range c.VolumeMounts {
				if mount.Name != v.Volume.Name || !slices.ContainsFunc(ns.Processes, func(p nodereport.Process) bool { return p.Container == c.Name || p.Container == "" }) {
					continue
				}
				m, ok := table.At(mount.MountPath)
				if !ok {
					continue
				}
				b := &blame{Cause: "start/mount-broken", Evidence: []Evidence{n.seenMount(host),
					n.seen(fmt.Sprintf("namespaces[%d] %s", ns.Inode, m.Mountpoint), fmt.Sprintf("%s %s %s, root %s", m.Device(), m.FSType, m.Source, m.Root))}}
				switch {
				case m.Deleted() && (mount.SubPath != "" || mount.SubPathExpr != ""):
					b.Cause = "start/subpath"
					b.Why = fmt.Sprintf("The folder that container %s of pod %s mounts by subPath at %s was deleted on the volume.", c.Name, v.say("POD"), mount.MountPath)
				case m.Device() != host.Device() && m.FSType == host.FSType && (strings.HasPrefix(m.FSType, "fuse") || !m.Anonymous()):
					b.Why = fmt.Sprintf("Container %s of pod %s still has the old mount of volume %s (%s %s) at %s; on node %s it was mounted anew since (%s). The container's own mount is dead until it is started again.",
						c.Name, v.say("POD"), v.volumeName(), m.FSType, m.Device(), mount.MountPath, n.node, host.Device())
					why, ev := v.restarted()
					b.Why += why
					b.Evidence = append(b.Evidence, ev...)
				default:
					continue
				}
				return b
			}
		}
	}
	return nil
}

// restarted tells of a restart of the driver's plugin on the node after the pod began.
func (v *View) restarted() (string, []Evidence) {
	var why string
	var evidence []Evidence
	v.ahead(func() {
		for _, p := range v.plugin(v.Node).Pods {
			for _, s := range p.Status.ContainerStatuses {
				if t := s.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(mountedBy(v.Pod)) {
					why = fmt.Sprintf(" The driver's container %s in pod %s/%s had restarted at %s (%s).", s.Name, p.Namespace, p.Name, t.FinishedAt.UTC().Format(time.RFC3339), t.Reason)
					evidence = []Evidence{fact(ref(p), "status.containerStatuses["+s.Name+"].lastState.terminated", fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode), t.FinishedAt.Time)}
				}
			}
		}
	})
	return why, evidence
}

// stopped: the filesystem of a living device was shut down by the kernel after an error.
func (n *nodeFacts) stopped(d *nodereport.Device) bool {
	return n.kernelSays(func(l nodereport.LogLine) bool { return about(l, d) && shutDown.in(l.Message) }) != nil
}

var shutDown = phrase(
	`remounting filesystem read-only|forced readonly|shutting down filesystem|filesystem has been shut down`,
	`please (unmount|umount) the filesystem|aborting journal|detected aborted journal|log I/O error`)

// about tells whether a kernel line is about a device.
func about(l nodereport.LogLine, d *nodereport.Device) bool {
	return d != nil && (l.Device == d.Name || l.Device == "" && names(l.Message, d.Name))
}

// readOnlyMount: the volume was mounted for writing, and its filesystem takes no writes any more.
func readOnlyMount(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	if !ok || v.wantsReadOnly() {
		return nil
	}
	d := n.device(m)
	mountRO, fsRO := m.ReadOnly()
	line := n.kernelSays(func(l nodereport.LogLine) bool { return about(l, d) && shutDown.in(l.Message) })
	dead := slices.Contains(deadStats, n.publish.Stat) && line != nil
	if mountRO && (!fsRO || line == nil) || !fsRO && !m.Has("emergency_ro") && !m.Has("shutdown") && !dead {
		return nil
	}
	if m.Anonymous() && m.FSType != "btrfs" || slices.Contains(imageFilesystems, m.FSType) {
		return nil // a share that is exported read-only has not failed
	}
	b := &blame{Cause: "start/read-only", Evidence: []Evidence{n.seen("mountinfo "+m.Mountpoint, fmt.Sprintf("%s %s, mounted %s, filesystem %s", m.Device(), m.FSType, m.Options, m.VFSOptions))},
		Why: fmt.Sprintf("On node %s the filesystem of volume %s (%s) was mounted for writing and is read-only now: the kernel stopped it after an error.", n.node, v.volumeName(), mountSource(m, d))}
	if d != nil {
		b.Evidence = append(b.Evidence, n.seenDevice(d))
	}
	if line != nil {
		b.Why = strings.TrimSuffix(b.Why, ".") + ": " + line.Message
		b.Evidence = append(b.Evidence, n.seenLine(line))
	}
	return b
}

// damagedMount: the filesystem takes writes, and its superblock counts errors: it goes on until one of them stops it.
func damagedMount(v *View, n *nodeFacts) *blame {
	m, ok := n.published()
	d := n.device(m)
	if !ok || d == nil || d.Signature == nil || d.Signature.Errors == 0 && d.Signature.State != "errors" {
		return nil
	}
	b := &blame{Cause: "stage/filesystem-corrupt", Evidence: []Evidence{n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s the filesystem of volume %s (%s) is mounted and damaged: %s.", n.node, v.volumeName(), mountSource(m, d), damage(d.Signature))}
	if line := n.kernelSays(func(l nodereport.LogLine) bool { return about(l, d) && corruptWords.in(l.Message) }); line != nil {
		b.Why = strings.TrimSuffix(b.Why, ".") + " (kernel: " + line.Message + ")."
		b.Evidence = append(b.Evidence, n.seenLine(line))
	}
	return b
}

// imageFilesystems are never written to, and always full.
var imageFilesystems = []string{"squashfs", "erofs", "iso9660", "cramfs", "composefs"}

// wantsReadOnly: the pod, the PV or its options ask for a mount that cannot be written.
func (v *View) wantsReadOnly() bool {
	if v.PV != nil {
		if v.PV.Spec.CSI != nil && v.PV.Spec.CSI.ReadOnly || slices.Contains(v.PV.Spec.MountOptions, "ro") || v.PV.Spec.CSI != nil && v.PV.Spec.CSI.VolumeAttributes["readOnly"] == "true" {
			return true
		}
		if len(v.PV.Spec.AccessModes) == 1 && v.PV.Spec.AccessModes[0] == corev1.ReadOnlyMany {
			return true
		}
	}
	return v.Volume != nil && (v.Volume.PersistentVolumeClaim != nil && v.Volume.PersistentVolumeClaim.ReadOnly || v.Volume.CSI != nil && v.Volume.CSI.ReadOnly != nil && *v.Volume.CSI.ReadOnly)
}

// fullPermille is from where on a volume is full: what is left is less than the filesystem's own rounding.
const fullPermille = 999

// fullVolume: no space or no inodes are left.
func fullVolume(v *View, n *nodeFacts) *blame {
	what, ev := n.full(fullPermille)
	m, ok := n.published()
	mountRO, fsRO := m.ReadOnly()
	if what == "" || v.wantsReadOnly() || ok && (mountRO || fsRO || slices.Contains(imageFilesystems, m.FSType)) {
		return nil
	}
	return &blame{Cause: "start/full", Evidence: []Evidence{ev}, Why: fmt.Sprintf("On node %s the volume %s of pod %s has no %s left.", n.node, v.volumeName(), v.say("POD"), what)}
}

// full tells what has run out, from that share of use on.
func (n *nodeFacts) full(permille int64) (string, Evidence) {
	if n.volume == nil || n.volume.Usage == nil {
		return "", Evidence{}
	}
	u := n.volume.Usage
	switch {
	case u.Bytes > 0 && u.BytesUsed >= u.Bytes/1000*permille:
		return "space", n.seen("volumes.usage", fmt.Sprintf("%d of %d bytes used", u.BytesUsed, u.Bytes))
	case u.InodesUsed <= u.Inodes && u.InodesUsed >= u.Inodes/1000*permille && u.Inodes >= 1000: // more used than there are: they are not limited (CephFS)
		return "inodes", n.seen("volumes.usage", fmt.Sprintf("%d of %d inodes used", u.InodesUsed, u.Inodes))
	}
	return "", Evidence{}
}
