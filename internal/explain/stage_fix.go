package explain

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func fixWrongDevice(v *View, b *blame) []Step {
	steps := []Step{onNode(v.Node, "compare the mounted device with the serial or WWID of each volume", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,SERIAL,WWN,MOUNTPOINTS"),
		onNode(v.Node, "see where the links lead", "ls", "-l", "/dev/disk/by-id")}
	if v.mounted() {
		return append(steps, hazard(DangerDisruptive, "the steps before show that the mounted device is another volume's", "Stop the pods that use the two volumes (scale their owners to 0) before more is written to the wrong one, and keep a copy of what is on the device now."),
			say("When the volume is unmounted and detached from the node, let the pod start again: it is mounted from its own device then. Check the data of both volumes."))
	}
	return append(steps, say("Renew the stale link (udevadm trigger for the device) or move the pod to another node; the kubelet tries again by itself."))
}

func fixStaleStaging(v *View, b *blame) []Step {
	steps := []Step{onNode(v.Node, "see what is mounted for the volume, and whether its device is still there", "findmnt", "-o", "TARGET,SOURCE,MAJ:MIN,FSTYPE,OPTIONS")}
	if b.Facts != nil && b.Facts.volume != nil && b.Facts.volume.Staging != nil {
		staging := b.Facts.volume.Staging.Path
		steps = append(steps, onNode(v.Node, "see who still uses it", "fuser", "-vm", staging))
		unmount := onNode(v.Node, "unmount the dead mount, once for each layer; the kubelet then stages the volume anew", "umount", staging)
		unmount.Danger, unmount.Unless = DangerDisruptive, "the step before shows no process, and no pod on the node uses the volume any more"
		steps = append(steps, unmount)
	}
	return append(steps, say("Pods that were given the dead mount must be deleted and made anew after it is gone; what they wrote into it while it was dead is not on the volume."))
}

func fixBusy(v *View, b *blame) []Step {
	steps := []Step{onNode(v.Node, "see what stands on the device, and who has it mounted", "lsblk", "-o", "NAME,MAJ:MIN,TYPE,FSTYPE,MOUNTPOINTS")}
	text := b.Why
	if b.Trouble != nil {
		text += b.Trouble.Text
	}
	if strings.Contains(text, "multipath") || strings.Contains(text, "mpath") {
		return append(steps, onNode(v.Node, "see which devices multipath took", "multipath", "-ll"),
			say("Exclude the driver's devices in /etc/multipath.conf (a blacklist entry for their kind, such as devnode \"^sd[a-z0-9]+\" or \"^drbd[0-9]+\") on every node, reload multipathd, and flush the map that has no other use. The volume is mounted by itself then."))
	}
	if others := v.othersOnNode(); len(others) > 0 {
		return append(steps, say("The volume is in use on the node by "+strings.Join(others, ", ")+". A driver that mounts the device for each pod cannot serve a second one: wait for that pod to end, or use a claim that may be shared. Do not check or repair the filesystem while it is mounted."))
	}
	return append(steps, say("Release what holds the device. Do not unmount the volume of a pod that runs, and do not format or repair the device."), v.pluginLogs())
}

// othersOnNode are other pods of the claim that run on the view's node.
func (v *View) othersOnNode() []string {
	var out []string
	v.ahead(func() {
		for _, p := range v.neighbours() {
			if mounted(p) {
				out = append(out, "pod "+p.Namespace+"/"+p.Name)
			}
		}
	})
	return out
}

func fixUnreadable(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "read what the kernel says of the device", "dmesg", "--ctime", "--level=err,warn"),
		onNode(v.Node, "see its state", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,STATE,SERIAL,FSTYPE"),
		v.pluginLogs(),
		say("Mend the connection to the storage (session, path, target, replica), then let the volume be detached and attached again by deleting the pod that waits. Do not format, repair or wipe it: its data is as it was.")}
}

// deviceMissing: the driver looks for a device that does not come. Where it cannot be told to which machine the volume was
// attached, that may be the reason.
func deviceMissing(v *View) (Finding, Truth) {
	f, known := mountCause("stage/device-missing", "The driver DRIVER does not find the device of volume VOLUME on node NODE", fixMissing)(v)
	if known != Yes || v.Inline != nil {
		return f, known
	}
	_, registered := v.registered(v.Node)
	_, attached := v.attachment(v.Node)
	if v.pvKnown == Unknown || registered == Unknown || attached == Unknown {
		return Finding{}, Unknown
	}
	return f, Yes
}

func fixMissing(v *View, _ *blame) []Step {
	steps := []Step{}
	if v.Handle != "" && v.attachmentKnown() {
		steps = append(steps, v.look("See what the attach handed to the node", "get", "volumeattachment", attachmentName(v.Handle, v.Driver, v.Node), "-o", "yaml"))
	}
	return append(steps, onNode(v.Node, "look for a disk with that serial or WWN", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,SERIAL,WWN"),
		onNode(v.Node, "look for its link", "ls", "-l", "/dev/disk/by-id"), v.pluginLogs(),
		say("If the disk is there without a serial, the machine hides it (on vSphere set disk.EnableUUID=TRUE in the VM's settings, while it is off). If it is not there, look in the backend on which machine it is, or let it attach again by deleting the pod that waits."))
}

func (v *View) attachmentKnown() bool {
	known := No
	v.ahead(func() { _, known = v.attachment(v.Node) })
	return known == Yes
}

func fixDuplicate(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "see both filesystems", "lsblk", "-o", "NAME,MAJ:MIN,FSTYPE,UUID,MOUNTPOINTS"),
		say("Run the pod on another node than the one of the original, or add the mount option nouuid: in the PV's spec.mountOptions for this volume (a PV's options can be edited), in the StorageClass for new ones."),
		v.look("See the volume's mount options", "get", "pv", v.volumeName(), "-o", "jsonpath={.spec.mountOptions}")}
}

func fixMismatch(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "see what is on the disk", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,SERIAL,FSTYPE,UUID,LABEL"),
		v.look("See what the volume asks for", "get", "pv", v.volumeName(), "-o", "jsonpath={.spec.csi.fsType}"),
		say("If the disk is the right one and its data is wanted, make a PV with the fsType that is on it. Do not format it before you know whose data it is.")}
}

func fixReadOnlyDevice(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "see whether the device is read-only", "lsblk", "-o", "NAME,MAJ:MIN,RO,FSTYPE,MOUNTPOINTS"),
		v.look("See whether the volume asks for it", "get", "pv", v.volumeName(), "-o", "yaml"), v.pluginLogs(),
		say("Let the backend attach it writable, or mount it writable once, so that it is formatted or its log is replayed. Do not zero the log.")}
}

func fixUnsupported(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "read what the kernel refuses", "dmesg", "--ctime", "--level=err,warn"),
		v.look("Compare the kernels of the nodes", "get", "nodes", "-o", "wide"),
		say("Run the pod on nodes with a newer kernel, or update this one. For new volumes choose a driver version or option whose mkfs leaves the feature out; a volume that holds data keeps it.")}
}

func fixCorrupt(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "read what the kernel says of the filesystem", "dmesg", "--ctime", "--level=err,warn"),
		say("Take a snapshot or a copy of the volume in the backend before anything else."),
		hazard(DangerDisruptive, "the copy is safe and the application may stop", "Stop the pod (scale its owner to 0), then check the filesystem without changing it, with the tool's own dry run, on the node that has it attached and nothing mounted."),
		say("Read what the dry run would change. Never zero the log of an XFS: mount it once on a kernel that can replay it."),
		hazard(DangerDataLoss, "the copy is safe, nothing has the device mounted, and the dry run's losses are acceptable", "Repair the filesystem with its own tool, the copy first."),
		v.pluginLogs()}
}

func fixTool(v *View, _ *blame) []Step {
	steps := []Step{}
	if name, _ := v.claimClass(); name != "" {
		steps = append(steps, v.look("See which filesystem the class asks for", "get", "storageclass", name, "-o", "yaml"))
	}
	return append(steps, say("Use a class whose filesystem the driver has the tools for (mostly ext4), or a version of the driver's image that brings them. The volume was not formatted, so a claim that never was mounted can be made again."), v.pluginLogs())
}

// claimClass is the name of the claim's class.
func (v *View) claimClass() (string, bool) {
	if v.Claim == nil {
		return "", false
	}
	return className(v.Claim)
}

func fixHost(v *View, _ *blame) []Step {
	return []Step{v.pluginLogs(), v.look("Compare the systems of the nodes", "get", "nodes", "-o", "wide"),
		say("Install or start what the words above name on node " + v.Node + " (on immutable systems as an extension of the image), or keep pods with such volumes on nodes that have it. The kubelet tries again by itself.")}
}

func fixWait(*View, *blame) []Step { return []Step{say("Wait: the kubelet goes on by itself.")} }

func fixPermission(v *View, _ *blame) []Step {
	steps := []Step{}
	if v.PV != nil {
		steps = append(steps, v.look("See which share and secret the volume names", "get", "pv", v.PV.Name, "-o", "yaml"))
	}
	return append(steps, say("Correct the export, share, user or secret: allow node "+v.Node+", renew the credentials, or give the user the right that is missing. The kubelet tries again by itself within 2 minutes."), v.pluginLogs())
}

func fixSecret(v *View, _ *blame) []Step {
	steps := []Step{}
	if v.PV != nil && v.PV.Spec.CSI != nil {
		for _, r := range []*corev1.SecretReference{v.PV.Spec.CSI.NodeStageSecretRef, v.PV.Spec.CSI.NodePublishSecretRef} {
			if r != nil {
				steps = append(steps, v.look("See whether the secret is there and which keys it has", "-n", r.Namespace, "describe", "secret", r.Name))
			}
		}
	}
	if len(steps) == 0 {
		steps = append(steps, v.look("See which secrets there are", "-n", v.Namespace, "get", "secrets"))
	}
	return append(steps, say("Make the secret with the keys that the driver's documentation names, in that namespace. The kubelet tries again by itself."))
}

func fixServer(v *View, b *blame) []Step {
	steps := []Step{}
	if host, port := v.serverOf(b); host != "" {
		steps = append(steps, onNode(v.Node, "try the server's port", "nc", "-vz", "-w", "5", host, port))
	}
	return append(steps, v.pluginLogs(),
		say("Open the way from node "+v.Node+" to the server (firewall, security group, route, DNS), or bring the server back. The kubelet tries again by itself."))
}

func fixPending(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "see which call still runs, and what it waits for", "ps", "-eo", "pid,stat,etime,wchan:30,args"),
		v.pluginLogs(), onNode(v.Node, "read what the kernel says", "dmesg", "--ctime", "--level=err,warn"),
		say("Mend what the first call waits for. The kubelet tries again by itself.")}
}

// Ports of file and block servers, by a mark of the protocol in the error or the volume.
var serverPorts = []struct {
	mark *regexp.Regexp
	port string
}{
	{regexp.MustCompile(`(?i)cifs|smb|mount error\(|//`), "445"},
	{regexp.MustCompile(`(?i)iscsi|iqn\.`), "3260"},
	{regexp.MustCompile(`(?i)nfs`), "2049"},
	{regexp.MustCompile(`(?i)ceph|rbd|\bmon`), "6789"},
	{regexp.MustCompile(`(?i)nvme`), "4420"},
}

var (
	hostPort = regexp.MustCompile(`\b((?:\d{1,3}\.){3}\d{1,3}|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)+):(\d{2,5})\b`)
	uncHost  = regexp.MustCompile(`//([A-Za-z0-9.-]+)/`)
	nfsHost  = regexp.MustCompile(`\s([A-Za-z0-9.-]+):/`)
)

// serverOf is the server of the volume and the port to try, from the error, else from the volume's attributes.
func (v *View) serverOf(b *blame) (host, port string) {
	text := ""
	if b.Trouble != nil {
		text = b.Trouble.Text
	}
	if m := hostPort.FindStringSubmatch(text); m != nil {
		return m[1], m[2]
	}
	for _, find := range []*regexp.Regexp{uncHost, nfsHost} {
		if m := find.FindStringSubmatch(text); m != nil && host == "" {
			host = m[1]
		}
	}
	if servers := v.servers(); host == "" && len(servers) > 0 {
		host = servers[0]
	}
	if host == "" || net.ParseIP(host) == nil && !strings.Contains(host, ".") {
		return "", ""
	}
	for _, s := range serverPorts {
		if s.mark.MatchString(text + " " + v.Driver) {
			return host, s.port
		}
	}
	return "", ""
}

// mountType is the filesystem in what k8s.io/mount-utils says of a mount that failed.
var mountType = regexp.MustCompile(`Mounting arguments:(?s:.{0,200})-t (\w+) `)

// badMountOptions: the driver says so, or mount says only that something does not fit, and the PV asks a disk's filesystem for
// options that it does not know.
func badMountOptions(v *View) (Finding, Truth) {
	f, known := mountCause("stage/bad-mount-options", "The mount options of volume VOLUME are refused on node NODE", fixOptions)(v)
	if known != No || !v.failing() {
		return f, known
	}
	b, _ := v.blamed()
	if b == nil || b.Proven || b.Cause != "" || !vagueMount.in(b.Trouble.Text) {
		return Finding{}, No
	}
	if v.PV == nil || v.PV.Spec.CSI == nil {
		return Finding{}, min(read(v.pvKnown).not(), Unknown)
	}
	fsType := v.PV.Spec.CSI.FSType
	if m := mountType.FindStringSubmatch(b.Trouble.Text); fsType == "" && m != nil {
		fsType = m[1] // what the driver chose
	}
	wrong := strange(fsType, v.PV.Spec.MountOptions)
	if len(wrong) == 0 {
		return Finding{}, No
	}
	return Finding{Status: v.settled(b.Trouble), Evidence: []Evidence{b.Trouble.Evidence, fact(ref(v.PV), "spec.mountOptions", strings.Join(v.PV.Spec.MountOptions, ", "), time.Time{}), fact(ref(v.PV), "spec.csi.fsType", fsType, time.Time{})},
		Why: fmt.Sprintf("The volume %s asks for options that %s does not know (%s), so mounting it on node %s fails: %s", v.volumeName(), fsType, strings.Join(wrong, ", "), v.Node, plainWords(b.Trouble.Text)), Fix: fixOptions(v, b)}, Yes
}

func fixOptions(v *View, _ *blame) []Step {
	steps := []Step{v.look("See the options of the volume", "get", "pv", v.volumeName(), "-o", "jsonpath={.spec.mountOptions}")}
	if name, _ := v.claimClass(); name != "" {
		steps = append(steps, v.look("See whether they come from the class", "get", "storageclass", name, "-o", "yaml"))
	}
	return append(steps, say("Take the wrong options out of spec.mountOptions of the PV (it can be edited in place) and out of the class, so that new volumes do not get them. The kubelet tries again by itself."))
}

// driverError is what is left when no cause has the driver's words.
func driverError(id string) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		hop := (Cause{ID: id}).Hop()
		b, known := v.blamed()
		switch {
		case b == nil:
			return Finding{}, known
		case b.Cause != id && (b.Cause != "" || v.block != hop):
			return Finding{}, No
		}
		what := "stage"
		if hop == HopPublish {
			what = "publish"
		}
		return Finding{Rest: true, Said: true, Confidence: Possible, Status: cmp.Or(b.Status, v.settled(b.Trouble)), Evidence: b.Evidence,
			Why: b.aside(fmt.Sprintf("The driver %s cannot %s volume %s for pod %s on node %s: %s", v.Driver, what, v.volumeName(), v.say("POD"), v.Node, plainWords(b.Trouble.Text))),
			Fix: []Step{v.pluginLogs(), onNode(v.Node, "read what the kernel says at that time", "dmesg", "--ctime", "--level=err,warn"), say("Mend what the driver says. The kubelet tries again by itself.")}}, Yes
	}
}
