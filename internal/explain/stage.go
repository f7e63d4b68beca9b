package explain

// stageHop: NodeStageVolume mounted the device or share on the node.
func stageHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case v.mounted():
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
	if publishWords.MatchString(t.Text) && !claimUnread.MatchString(t.Text) {
		return okHop("")
	}
	if v.putRight(t) {
		return v.openHop(t.At, kubeletBackoff, ref(v.Pod), "what the last try missed is there now")
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
	Match: mountCause("stage/in-progress", "", fixWait),
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
