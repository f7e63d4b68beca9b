package explain

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stageHop: NodeStageVolume mounted the device or share on the node.
func stageHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case mounted(v.Pod):
		return v.silentHop(HopStage)
	case !v.passed(HopClaim, HopProvision, HopBind, HopSchedule, HopRegister, HopAttach):
		return laterHop("")
	case v.Inline != nil:
		return skippedHop("inline volumes are published only")
	}
	t := v.mountTrouble()
	if t == nil {
		return v.openHop(v.scheduledAt(), normalMount, ref(v.Pod), "mounting")
	}
	if publishWords.MatchString(t.Text) {
		return okHop("")
	}
	return v.troubledHop(t, v.settled(t), "kubelet cannot stage it")
}

var stageCauses = []Cause{{
	ID:    "stage/wrong-device",
	Title: "The volume leads to another volume's device",
	Doc: `A driver finds its device by a link below /dev/disk or by a name. When a disk was detached and another took its place, a link that udev
did not renew, or a mount that stayed, leads to the other one. A pod may then read and write another volume's data.

To be sure: compare the serial number or WWID of the mounted device (lsblk -o NAME,MAJ:MIN,SERIAL,WWN) with the volume's handle, not
the name: names are given anew at each boot.

Stop the pods that use either volume before anything else. Do not repair, format or grow anything on the device until you know whose it is.`,
	Match: mountCause("stage/wrong-device", "On node NODE the driver DRIVER finds another device where volume VOLUME should be", fixWrongDevice),
}, {
	ID:    "stage/stale-staging-mount",
	Title: "The staging path is mounted from a device that is gone or not the volume's",
	Doc: `The volume was detached, or its device failed, while it was still mounted at the staging path; the mount stayed. New pods are given this
dead mount, or the driver takes it for the volume and does not mount the right one.

To be sure: findmnt at the staging path names a device that lsblk does not list any more, or that has another serial.

What was not written when the device went away is lost; a new mount does not bring it back. Unmount it only when no pod uses it.`,
	Match: mountCause("stage/stale-staging-mount", "The staging path of volume VOLUME on node NODE is dead", fixStaleStaging),
}, {
	ID:    "stage/device-busy",
	Title: "Something else holds the volume's device",
	Doc: `A device can be mounted or formatted only when nothing else has it open for itself: a multipath map, an LVM volume, a LUKS mapping, a RAID, a
process, another mount, or for a replicated volume another node.

To be sure: lsblk shows what stands on the device; fuser -vm or lsof who has it open.

Take the holder away, not the data: exclude the driver's devices from multipath or LVM, stop the pod that has it mounted. Never format
it, and never unmount the volume of a pod that runs.`,
	Match: mountCause("stage/device-busy", "Something holds the device of volume VOLUME on node NODE, so the driver DRIVER cannot take it", fixBusy),
}, {
	ID:    "stage/device-unreadable",
	Title: "The volume's device is there and cannot be read",
	Doc: `The device exists and answers with I/O errors: its connection broke (iSCSI session, path, target, a backing process that died), or the disk
is failing. A failing mkfs on an old volume is the same: what cannot be read looks empty.

To be sure: the kernel's log names the device with I/O errors; reading its first block fails.

Do not format or repair: there is nothing wrong with the data as far as anybody knows. Mend the connection, then let the driver attach it again.`,
	Match: mountCause("stage/device-unreadable", "On node NODE the device of volume VOLUME cannot be read", fixUnreadable),
}, {
	ID:    "stage/device-missing",
	Title: "The volume's device does not appear on the node",
	Doc: `The backend says that the volume is attached, and the node has no such device: the attach went to another machine, the bus was not scanned,
udev makes no link, the virtual machine hides the disk's identity (disk.EnableUUID on vSphere), or the LUN is not mapped to this host.

To be sure: look at the node for the serial or WWN that the driver waits for (lsblk -o NAME,SERIAL,WWN; ls -l /dev/disk/by-id).

A disk of the right size is not proof that it is the volume.`,
	Match: deviceMissing,
}, {
	ID:    "stage/duplicate-uuid",
	Title: "A filesystem with the same UUID is mounted already",
	Doc: `XFS does not mount two filesystems of one UUID. A clone or a restored snapshot has its source's UUID, so the two cannot be on one node.

To be sure: the kernel's log says "duplicate UUID".

Mounting the copy with the option nouuid, or on another node, harms nothing. Giving it a new UUID (xfs_admin) writes to it and needs a clean log.`,
	Match: mountCause("stage/duplicate-uuid", "The filesystem of volume VOLUME has the UUID of one that is mounted on node NODE", fixDuplicate),
}, {
	ID:    "stage/filesystem-mismatch",
	Title: "The disk holds something else than the volume asks for",
	Doc: `Drivers format only what is empty. When the disk holds another filesystem than the PV's fsType, a partition table, or a part of LVM, RAID or
LUKS, mounting it as the wanted type fails, and the driver does not overwrite it.

To be sure: blkid on the node against spec.csi.fsType of the PV.

What is on it may be somebody's data. Find out whose before anything is changed; the cure is mostly a PV with the right fsType.`,
	Match: mountCause("stage/filesystem-mismatch", "The disk of volume VOLUME does not hold the filesystem that the volume asks for", fixMismatch),
}, {
	ID:    "stage/read-only-device",
	Title: "The device is read-only and something must be written",
	Doc: `Mounting has to write: to make a filesystem, or to replay its log. The device refuses writes: it was attached read-only, it is a secondary of a
replicated volume, write-protected in the backend, or the PV asks for read-only while the disk is still empty.

To be sure: /sys/block/<device>/ro is 1; the backend shows how it is attached.

Do not clear the log to get around it: the log holds the newest data. Attach it writable once.`,
	Match: mountCause("stage/read-only-device", "The device of volume VOLUME is read-only on node NODE, and mounting it has to write", fixReadOnlyDevice),
}, {
	ID:    "stage/filesystem-unsupported",
	Title: "The node's kernel does not know this filesystem or a feature of it",
	Doc: `The driver's mkfs is newer than the node's kernel and turns features on that the kernel does not know, or the kernel lacks the filesystem
altogether. The same volume mounts on nodes with another kernel.

To be sure: the kernel's log names the feature; compare uname -r of the nodes.

The data is whole. Run the pod on a newer kernel, or make new volumes without the feature.`,
	Match: mountCause("stage/filesystem-unsupported", "Node NODE cannot mount the filesystem of volume VOLUME", fixUnsupported),
}, {
	ID:    "stage/filesystem-corrupt",
	Title: "The filesystem needs repair or replay",
	Doc: `The filesystem was not left clean and cannot be mounted as it is: fsck found what it does not dare to mend by itself, or the kernel refuses its
metadata. A power cut, a forced detach and two writers at once are the usual reasons.

To be sure: the driver's words or the kernel's log ("Structure needs cleaning", "UNEXPECTED INCONSISTENCY").

Take a snapshot or a copy of the disk first; repair changes it. A dirty log wants one mount on a kernel that can replay it: zeroing it throws the newest data away.`,
	Match: mountCause("stage/filesystem-corrupt", "The filesystem of volume VOLUME cannot be mounted on node NODE as it is", fixCorrupt),
}, {
	ID:    "stage/tool-missing",
	Title: "A program that mounting needs is not in the driver's image",
	Doc: `Node plugins bring mkfs, fsck and mount helpers in their image. For a filesystem that the image has no tools for (often xfs or btrfs) the step fails.

To be sure: the driver's words name the program.

Nothing was written. Use a filesystem that the driver knows, or an image of it with the tools.`,
	Match: mountCause("stage/tool-missing", "The driver DRIVER lacks a program that it needs to mount volume VOLUME", fixTool),
}, {
	ID:    "stage/host-requirement",
	Title: "The node lacks something that the driver needs",
	Doc: `Some drivers use programs, daemons or modules of the host: iscsid and iscsiadm, multipathd, rpc.statd, NFS or CIFS helpers, kernel modules, FUSE.
Minimal and immutable systems do not have them, or only as an extension.

To be sure: other nodes with it mount the same class; the driver's documentation lists what a node needs.

Install it on every node where such volumes may go, or keep the pods on those that have it.`,
	Match: mountCause("stage/host-requirement", "Node NODE lacks something that the driver DRIVER needs to mount volume VOLUME", fixHost),
}, {
	ID:    "stage/bad-mount-options",
	Title: "The mount options are refused",
	Doc: `Options come from the StorageClass at the time when the volume was made (and stay in the PV), or from the PV itself. The filesystem or the
server does not take one of them: options of SMB on a disk, an NFS version that the server does not speak, a typing error.

To be sure: mount prints only "wrong fs type, bad option"; the kernel's log names the option.

The data is not touched. spec.mountOptions of a PV can be changed in place; the class only for new volumes.`,
	Match: badMountOptions,
}, {
	ID:    "stage/permission",
	Title: "The storage refuses the node or its credentials",
	Doc: `The server, export or backend answered and refused: wrong or expired credentials, an export that does not allow this node's address, a Ceph user
without the caps, a CHAP secret that differs, a passphrase that does not open the disk.

To be sure: the driver's words, and the server's own log at that moment.

Correct the rights on the server or the secret that the volume names; nothing on the volume has to change.`,
	Match: mountCause("stage/permission", "The storage refuses to let node NODE mount volume VOLUME", fixPermission),
}, {
	ID:    "stage/secret-missing",
	Title: "The secret for mounting the volume does not exist or lacks its key",
	Doc: `The PV names a secret with the credentials for the node. It does not exist (a deleted namespace, another cluster, a typing error), it lacks the key
that the driver looks for, or the class named none, so the driver gets nothing.

To be sure: the kubelet's words name the secret and its namespace.

Make the secret again with the right keys; the kubelet tries again by itself. The names in a PV cannot be changed.`,
	Match: mountCause("stage/secret-missing", "The secret that mounting volume VOLUME needs cannot be had", fixSecret),
}, {
	ID:    "stage/server-unreachable",
	Title: "The storage server does not answer the node",
	Doc: `The node does not reach the file or block server (NFS, SMB, iSCSI, Ceph): it is down, a firewall or routing is in between, the name does not resolve,
or it listens elsewhere.

To be sure: try the server's port from this node; other nodes may reach it.

Programs that already wait for it cannot be killed; they go on when it answers again.`,
	Match: mountCause("stage/server-unreachable", "The server of volume VOLUME does not answer node NODE", fixServer),
}, {
	ID:    "stage/operation-pending",
	Title: "An earlier call for the same volume still runs",
	Doc: `The kubelet gives a call up after 2 minutes, and the driver goes on with it. Every new call for that volume is refused meanwhile ("already exists",
Aborted). The cause is whatever the first call waits for: a slow format or check, a server, a device, a walk over all files.

To be sure: look for a process that mounts, formats or checks on the node, and at the driver's log for the first call.

Restarting the driver's pod ends the call, not what it waited for; and it must not be done in the middle of a format or repair.`,
	Match: mountCause("stage/operation-pending", "An earlier call for volume VOLUME still runs in the driver DRIVER on node NODE, and what it waits for is not to be seen", fixPending),
}, {
	ID:    "stage/in-progress",
	Title: "The volume is being staged",
	Doc: `NodeStageVolume is at work: a first format, a check, a login. That is normal for minutes.

Do not restart the driver now: a format or repair would be broken off.`,
	Match: mountCause("stage/in-progress", "", func(v *View, _ *blame) []Step { return []Step{say("Wait: the kubelet goes on by itself.")} }),
}, {
	ID:    "stage/timeout",
	Title: "The driver's call on the node does not end in time",
	Doc: `The kubelet waits 2 minutes for a call of the driver. It did not end, and neither the driver's words nor the node tell why.

To be sure: the driver's log on the node between the call and its deadline; processes in state D; the kernel's log.

The call may still be running: look before you restart anything.`,
	Match: mountCause("stage/timeout", "The call of the driver DRIVER for volume VOLUME on node NODE does not end in time", fixPending),
}, {
	ID:    "stage/driver-error",
	Title: "The driver cannot stage the volume on the node",
	Doc: `NodeStageVolume fails with an error that has no other name here. The driver's own words are in the finding.

To be sure: the driver's log on the node has more than the event.`,
	Match: driverError("stage/driver-error"),
}}

func fixWrongDevice(v *View, b *blame) []Step {
	steps := []Step{onNode(v.Node, "compare the mounted device with the serial or WWID of each volume", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,SERIAL,WWN,MOUNTPOINTS"),
		onNode(v.Node, "see where the links lead", "ls", "-l", "/dev/disk/by-id")}
	if b.Facts != nil && b.Trouble == nil || v.Pod != nil && mounted(v.Pod) {
		return append(steps, say("Stop the pods that use the two volumes (scale their owners to 0) before more is written to the wrong one, and keep a copy of what is on the device now."),
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
		unmount.Danger, unmount.Unless = DangerDisruptive, "a pod on the node still uses the volume: stop it first"
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
		pods, _ := v.podsOfClaim()
		for _, p := range pods {
			if v.ClaimName != "" && v.Pod != nil && p.UID != v.Pod.UID && p.Spec.NodeName == v.Node && mounted(p) {
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
		say("Stop the pod (scale its owner to 0), then check the filesystem without changing it, with the tool's own dry run, on the node that has it attached and nothing mounted. Repair only the copy, or after the copy is safe. Never zero the log of an XFS: mount it once on a kernel that can replay it."),
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

// Options that only some filesystems know, by the beginning up to "=". A disk's filesystem refuses those of shares, and the
// other way round.
var optionsOf = map[string][]string{
	"smb":  {"dir_mode", "file_mode", "mfsymlinks", "nobrl", "noperm", "serverino", "noserverino", "nosharesock", "cache", "vers", "sec", "uid", "gid", "domain", "actimeo", "seal", "username", "password"},
	"nfs":  {"nfsvers", "vers", "proto", "hard", "soft", "rsize", "wsize", "timeo", "retrans", "nolock", "nconnect", "noresvport", "actimeo", "minorversion", "sec", "lookupcache", "fsc"},
	"fuse": {"allow_other", "allow-other", "allow-delete", "allow_root", "default_permissions", "implicit-dirs", "region", "file-mode", "dir-mode"},
	"xfs":  {"nouuid", "inode64", "logbufs", "logbsize", "wsync", "swalloc", "pquota", "uquota", "gquota", "largeio", "allocsize"},
	"ext4": {"data", "journal_checksum", "journal_async_commit", "commit", "errors", "barrier", "nobarrier", "dioread_nolock", "delalloc", "nodelalloc", "noload", "stripe", "min_batch_time"},
}

// strange are the options of a PV that its filesystem on a disk does not know, since they belong to another kind.
func strange(fsType string, options []string) []string {
	own := fsType
	if sameFilesystem[fsType] == "ext" {
		own = "ext4"
	}
	if own != "ext4" && own != "xfs" {
		return nil
	}
	var out []string
	for _, o := range options {
		for word := range strings.SplitSeq(o, ",") {
			name, _, _ := strings.Cut(word, "=")
			if slices.Contains(optionsOf[own], name) {
				continue
			}
			for kind, names := range optionsOf {
				if kind != own && slices.Contains(names, name) && !slices.Contains(out, word) {
					out = append(out, word)
				}
			}
		}
	}
	return out
}

// badMountOptions: the driver says so, or mount says only that something does not fit, and the PV asks a disk's filesystem for
// options of another kind.
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
	wrong := strange(v.PV.Spec.CSI.FSType, v.PV.Spec.MountOptions)
	if len(wrong) == 0 {
		return Finding{}, No
	}
	return Finding{Status: v.settled(b.Trouble), Evidence: []Evidence{b.Trouble.Evidence, fact(ref(v.PV), "spec.mountOptions", strings.Join(v.PV.Spec.MountOptions, ", "), time.Time{}), fact(ref(v.PV), "spec.csi.fsType", v.PV.Spec.CSI.FSType, time.Time{})},
		Why: fmt.Sprintf("The volume %s asks for options that %s does not know (%s), so mounting it on node %s fails: %s", v.volumeName(), v.PV.Spec.CSI.FSType, strings.Join(wrong, ", "), v.Node, plainWords(b.Trouble.Text)), Fix: fixOptions(v, b)}, Yes
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
		return Finding{Rest: true, Confidence: Possible, Status: v.settled(b.Trouble), Evidence: b.Evidence,
			Why: fmt.Sprintf("The driver %s cannot %s volume %s for pod %s on node %s: %s", v.Driver, what, v.volumeName(), v.say("POD"), v.Node, plainWords(b.Trouble.Text)),
			Fix: []Step{v.pluginLogs(), onNode(v.Node, "read what the kernel says at that time", "dmesg", "--ctime", "--level=err,warn"), say("Mend what the driver says. The kubelet tries again by itself.")}}, Yes
	}
}
