package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// proofs are what the node's report can prove of a volume that is not mounted, or whose containers do not run, in the order in
// which one explains the other. The error in force may be nil.
var proofs = []func(*View, *nodeFacts, *trouble) *blame{
	proveTask, proveOwnership, proveLink, proveStale, proveUnreadable, proveHolder, proveDuplicate, proveUnsupported, proveRefused,
	proveReadOnlyDevice, proveCorrupt, proveMismatch, proveServer, proveHost, proveNotStaged, proveFull, provePermission,
}

// subject is the device that the volume's failing call is about: the one that carries the volume's identity, or a link leads
// to, else the only one of the report that the error names.
func (n *nodeFacts) subject(t *trouble) *nodereport.Device {
	if d := n.knownDevice(); d != nil || t == nil {
		return d
	}
	var found *nodereport.Device
	for i := range n.Devices {
		d := &n.Devices[i]
		if !names(t.Text, "/dev/"+d.Name) && !slices.ContainsFunc(d.Links, func(l string) bool { return names(t.Text, l) }) {
			continue
		}
		if found != nil {
			return nil
		}
		found = d
	}
	return found
}

// failing tells whether the chain stops at mounting, so that what the kernel says of the device explains it.
func (v *View) failing() bool { return v.at(HopStage, HopPublish) }

// during: a kernel line is of the time in which the pod waits.
func (v *View) during(l nodereport.LogLine) bool {
	return l.At.IsZero() || !l.At.Before(v.scheduledAt().Add(-normalMount)) // a remount can go before the pod's own
}

// kernelOn finds the newest kernel line of the waiting time about a device.
func (v *View) kernelOn(n *nodeFacts, d *nodereport.Device, words phrases) *nodereport.LogLine {
	return n.kernelSays(func(l nodereport.LogLine) bool { return about(l, d) && v.during(l) && words.in(l.Message) })
}

// The programs of the node side of a mount, by what they do.
var (
	formatting = regexp.MustCompile(`^(mkfs|mke2fs|mkfs\..*|mkswap)$`)
	checking   = regexp.MustCompile(`^(fsck|e2fsck|fsck\..*|xfs_repair|xfs_db|btrfs|blkid|wipefs|resize2fs|xfs_growfs|cryptsetup|dd|blkdiscard)$`)
	mounting   = regexp.MustCompile(`^(mount|mount\..*|umount|umount\..*|iscsiadm|nvme|rbd|ceph-fuse)$`)
	walking    = regexp.MustCompile(`^(chown|chgrp|chmod|chcon|restorecon|setfiles|setfacl)$`)
)

// proveTask: a call for this volume is still running on the node.
func proveTask(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() {
		return nil
	}
	d := n.subject(t)
	for i := range n.Tasks {
		task := &n.Tasks[i]
		if !v.taskIs(n, task, d) {
			continue
		}
		age := time.Duration(task.Seconds) * time.Second
		b := &blame{Evidence: []Evidence{n.seenTask(task)}, Confidence: Certain}
		what := strings.TrimSpace(task.Comm + " " + task.Args)
		switch {
		case walking.MatchString(task.Comm):
			b.Cause, b.Status = "start/ownership-slow", StatusWaiting
			b.Why = fmt.Sprintf("On node %s %s (pid %d) has been walking over the files of volume %s for %s.", n.node, task.Comm, task.PID, v.volumeName(), ago(age))
		case mounting.MatchString(task.Comm) && task.State == "D" && (age >= errorSettled || t != nil):
			b.Cause = "stage/server-unreachable"
			b.Why = fmt.Sprintf("On node %s %q (pid %d) has been waiting in the kernel for %s: the server or device does not answer.", n.node, what, task.PID, ago(age))
			if d != nil && d.Kind != "" && !strings.Contains(task.Comm, "nfs") && !strings.Contains(task.Comm, "cifs") && n.broken(d) != "" {
				b.Cause = "stage/device-unreadable"
			}
		case (formatting.MatchString(task.Comm) || checking.MatchString(task.Comm) || mounting.MatchString(task.Comm)) && age < normalMount:
			b.Cause, b.Status = "stage/in-progress", StatusWaiting
			until := n.CollectedAt.Add(normalMount - age)
			b.Until = &until
			b.Why = fmt.Sprintf("On node %s %q (pid %d) is at work for volume %s since %s.", n.node, what, task.PID, v.volumeName(), ago(age))
		case formatting.MatchString(task.Comm) || checking.MatchString(task.Comm) || mounting.MatchString(task.Comm):
			b.Cause, b.Status = "stage/operation-pending", StatusStuck
			b.Why = fmt.Sprintf("On node %s the first call for volume %s still runs: %q (pid %d) since %s. Until it ends every further call is refused.", n.node, v.volumeName(), what, task.PID, ago(age))
		default:
			continue
		}
		return b
	}
	return nil
}

// taskIs: a process works for the view's volume: its arguments name the volume's device, path or server.
func (v *View) taskIs(n *nodeFacts, task *nodereport.Task, d *nodereport.Device) bool {
	if v.Pod != nil && task.PodUID == string(v.Pod.UID) || strings.Contains(task.Args, v.volumeName()) || v.Handle != "" && strings.Contains(task.Args, v.Handle) {
		return true
	}
	if n.volume != nil && n.volume.Staging != nil && strings.Contains(task.Args, n.volume.Staging.Path) {
		return true
	}
	if d == nil {
		return false
	}
	return names(task.Args, "/dev/"+d.Name) || slices.ContainsFunc(d.Links, func(l string) bool { return names(task.Args, l) })
}

// proveOwnership: the call that runs into its deadline has mounted the volume already, so what it still does is to give the
// files to the pod's group.
func proveOwnership(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || !v.setsGroup() {
		return nil
	}
	if cause := v.mountTells(t.Text); cause != "stage/operation-pending" && cause != "stage/timeout" {
		return nil
	}
	mounts := n.mountsOf()
	if len(mounts) == 0 || n.volume.Staging != nil && n.volume.Staging.Stat != "" && n.volume.Staging.Stat != "ok" {
		return nil
	}
	m := mounts[len(mounts)-1]
	if n.broken(n.device(m)) != "" {
		return nil
	}
	group := *v.Pod.Spec.SecurityContext.FSGroup
	return &blame{Cause: "start/ownership-slow", Status: StatusStuck, Confidence: Likely, Evidence: []Evidence{n.seenMount(m), fact(ref(v.Pod), "spec.securityContext.fsGroup", fmt.Sprint(group), time.Time{})},
		Why: fmt.Sprintf("The volume %s is mounted on node %s already, and the call of the driver %s that mounted it does not end: it is giving every file to the pod's fsGroup %d. The kubelet calls again after 2 minutes and is told: %s",
			v.volumeName(), n.node, v.Driver, group, plainWords(t.Text))}
}

// setsGroup: the pod asks for a group on its volumes.
func (v *View) setsGroup() bool {
	return v.Pod != nil && v.Pod.Spec.SecurityContext != nil && v.Pod.Spec.SecurityContext.FSGroup != nil
}

// proveLink: a link with the volume's identity leads to a device that is another volume's.
func proveLink(v *View, n *nodeFacts, t *trouble) *blame {
	own := n.ownDevice()
	if !v.failing() || own == nil {
		return nil
	}
	for _, d := range n.linked {
		if !n.foreignLink(d, own) {
			continue
		}
		other := "another volume"
		for _, o := range n.others {
			if carries(d, v.identities(o.Driver, o.Handle, o.PV, n.node)) {
				other = "volume " + otherName(o)
			}
		}
		return &blame{Cause: "stage/wrong-device", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d), n.seenDevice(own)},
			Why: fmt.Sprintf("On node %s the link of volume %s leads to device %s, which is %s's; the volume's own device is %s.", n.node, v.volumeName(), describe(d), other, describe(own))}
	}
	return nil
}

// foreignLink: a linked device that has an identity of its own and is no part of the volume's.
func (n *nodeFacts) foreignLink(d, own *nodereport.Device) bool {
	return d != own && (d.Serial != "" || d.WWID != "") && d.Kind == "disk" && own.Kind == "disk" &&
		!slices.Contains(d.Holders, own.Name) && !slices.Contains(own.Holders, d.Name)
}

func proveStale(v *View, n *nodeFacts, _ *trouble) *blame {
	if !v.failing() {
		return nil
	}
	b := staleStaging(v, n)
	if b != nil {
		b.Confidence = Certain
	}
	return b
}

var ioError = phrase(`I/O error|rejecting I/O|offline device|unaligned|lost (page )?write|medium error|blk_update_request|critical (target|medium|nexus) error|device not ready|session recovery timed out|no usable path|remaining active paths: 0|hard resetting|Unrecovered read error|transport failure`)

// proveUnreadable: the device is there and cannot be read.
func proveUnreadable(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() {
		return nil
	}
	for _, d := range append([]*nodereport.Device{n.subject(t)}, append(slices.Clone(n.own), n.linked...)...) {
		why := n.broken(d)
		line := v.kernelOn(n, d, ioError)
		if d == nil || d.Removed || why == "" && (line == nil || t == nil || shutDown.in(line.Message)) {
			continue
		}
		if why == "" && v.mountTells(t.Text) != "stage/device-unreadable" && !vagueMount.in(t.Text) {
			continue // an old I/O error on a device that is read now
		}
		b := &blame{Cause: "stage/device-unreadable", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)}}
		b.Why = fmt.Sprintf("On node %s the device %s of volume %s cannot be read", n.node, describe(d), v.volumeName())
		if why != "" {
			b.Why += ": " + why
		}
		if line != nil {
			b.Why += fmt.Sprintf(" (kernel: %s)", line.Message)
			b.Evidence = append(b.Evidence, n.seenLine(line))
		}
		b.Why += "."
		return b
	}
	return nil
}

var (
	busyWords = phrase(`busy|in use|is mounted|already mounted|exclusive|read-only|wrong medium type|wrong fs type|held|opened`)
	heldOpen  = regexp.MustCompile(`[Hh]eld open by (\S+)`)
	refusedBy = phrase(`refused by peer|peer may not become primary|multiple primaries not allowed|held open|need access to uptodate data`)
)

// proveHolder: something holds the device, on this node or, of a replicated one, on another.
func proveHolder(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || !busyWords.in(t.Text) {
		return nil
	}
	d := n.subject(t)
	if d == nil {
		return nil
	}
	b := &blame{Cause: "stage/device-busy", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)}}
	holder := n.named(d.Holders)
	switch {
	case holder == nil && d.Kind == "dm-mpath": // the subject is already the map on top of its paths
		for i := range n.Devices {
			if p := &n.Devices[i]; slices.Contains(p.Holders, d.Name) && slices.Contains(n.linked, p) {
				holder, d = d, p
			}
		}
	case holder == nil:
	case strings.Contains(t.Text, "/dev/"+holder.Name) || slices.ContainsFunc(holder.Links, func(l string) bool { return strings.Contains(t.Text, l) }):
		holder = nil // the driver itself uses the one on top
	}
	if holder != nil {
		b.Why = fmt.Sprintf("On node %s the device %s of volume %s is held by %s, a %s device%s, so nothing else can mount it.", n.node, describe(d), v.volumeName(), describe(holder), holder.Kind, strings.Join(prefixed(" ", holder.Links), ""))
		b.Evidence = append(b.Evidence, n.seenDevice(holder))
		if holder.Kind == "dm-mpath" {
			b.Why += " The multipath daemon took it" + n.service("multipathd") + "."
		}
		return b
	}
	for _, m := range n.table.Of(d.MajorMinor) {
		if n.volume != nil && n.volume.Staging != nil && strings.HasPrefix(m.Mountpoint, n.volume.Staging.Path) {
			continue
		}
		who := m.Mountpoint
		if p := n.podOf(v, m.Mountpoint); p != "" {
			who = "pod " + p + " (" + m.Mountpoint + ")"
		}
		b.Why = fmt.Sprintf("On node %s the device %s of volume %s is mounted already, by %s.", n.node, describe(d), v.volumeName(), who)
		b.Evidence = append(b.Evidence, n.seenMount(m))
		return b
	}
	if refused := v.kernelOn(n, d, refusedBy); refused != nil {
		b.Evidence = append(b.Evidence, n.seenLine(refused))
		for _, peer := range v.peers(n, d) {
			if line := peer.kernelSays(func(l nodereport.LogLine) bool {
				return l.Device == d.Name && v.during(l) && heldOpen.MatchString(l.Message)
			}); line != nil {
				b.Why = fmt.Sprintf("The replicated device %s of volume %s cannot become writable on node %s, since on node %s it is held open by %s.", d.Name, v.volumeName(), n.node, peer.node, heldOpen.FindStringSubmatch(line.Message)[1])
				b.Evidence = append(b.Evidence, peer.seenLine(line))
				if s := peer.service("multipathd"); s != "" {
					b.Evidence = append(b.Evidence, peer.seen("host.services.multipathd", peer.Host.Services["multipathd"]))
				}
				return b
			}
		}
		b.Confidence = Likely
		b.Why = fmt.Sprintf("The replicated device %s of volume %s cannot become writable on node %s, since another node holds it: %s.", d.Name, v.volumeName(), n.node, refused.Message)
		return b
	}
	return nil
}

func prefixed(prefix string, words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = prefix + w
	}
	return out
}

// service writes the state of a unit as an aside; empty: not looked at.
func (n *nodeFacts) service(name string) string {
	if n.Host == nil || n.Host.Services[name] == "" {
		return ""
	}
	return " (" + name + " is " + n.Host.Services[name] + ")"
}

// podOf names the pod whose folder a path is in.
func (n *nodeFacts) podOf(v *View, mountpoint string) string {
	for _, vol := range n.Volumes {
		for _, p := range vol.Publishes {
			if p.Path == mountpoint {
				return v.podByUID(p.PodUID)
			}
		}
	}
	return ""
}

// podByUID names a pod of the view's node; empty where it cannot be told.
func (v *View) podByUID(uid string) string {
	name := ""
	v.ahead(func() {
		pods, _ := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + v.Node})
		for _, p := range pods {
			if string(p.UID) == uid {
				name = p.Namespace + "/" + p.Name
			}
		}
	})
	return name
}

// peers are the facts of other nodes that have a device of the same kind and links: the replicas of one volume.
func (v *View) peers(n *nodeFacts, d *nodereport.Device) []*nodeFacts {
	reports, _ := list[*snapshot.NodeReport](v.world, inReports, snapshot.Query{})
	var out []*nodeFacts
	for _, r := range reports {
		if r.Name == n.node {
			continue
		}
		for _, o := range r.Report.Devices {
			if o.Kind == d.Kind && slices.ContainsFunc(o.Links, func(l string) bool { return slices.Contains(d.Links, l) }) {
				out = append(out, v.factsOf(&r.Report, r.Name))
			}
		}
	}
	return out
}

var (
	duplicateUUID = phrase(`duplicate UUID`)
	anyUUID       = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)
)

// proveDuplicate: a filesystem with the same UUID is mounted on the node.
func proveDuplicate(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || d == nil {
		return nil
	}
	line := v.kernelOn(n, d, duplicateUUID)
	if line == nil {
		return nil
	}
	uuid := anyUUID.FindString(line.Message)
	if uuid == "" && d.Signature != nil {
		uuid = d.Signature.UUID
	}
	b := &blame{Cause: "stage/duplicate-uuid", Confidence: Certain, Evidence: []Evidence{n.seenLine(line), n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s the filesystem on %s, the device of volume %s, has the UUID %s, and another with that UUID is mounted", n.node, describe(d), v.volumeName(), uuid)}
	for i := range n.Devices {
		o := &n.Devices[i]
		mounts := n.table.Of(o.MajorMinor)
		if o == d || o.Signature == nil || o.Signature.UUID != uuid || len(mounts) == 0 {
			continue
		}
		b.Why += fmt.Sprintf(" from %s", describe(o))
		b.Evidence = append(b.Evidence, n.seenDevice(o))
		for _, vol := range n.others {
			for _, p := range vol.Publishes {
				if m, ok := n.table.At(p.Path); ok && m.Device() == o.MajorMinor {
					b.Why += fmt.Sprintf(", volume %s of pod %s", otherName(vol), v.podByUID(p.PodUID))
				}
			}
		}
		break
	}
	b.Why += ". XFS refuses two with the same UUID: the one is a clone or a restored snapshot of the other."
	return b
}

var unsupported = phrase(`unknown (incompatible|incompat|ro-compat|required|log incompat\w*) features?|couldn't mount because of unsupported optional features|cannot be safely mounted by this kernel|unsupported (feature|version|block ?size|sector)|not supported by this kernel|has unsupported|unrecognized (mount option|feature)|unknown (or )?unsupported|bad block size|File system with blocksize \d+ bytes\. Only pagesize|incompatible features|cannot mount because of unsupported`)

// proveUnsupported: the node's kernel does not know the filesystem or a feature of it.
func proveUnsupported(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || d == nil {
		return nil
	}
	line := v.kernelOn(n, d, unsupported)
	if line == nil {
		return nil
	}
	b := &blame{Cause: "stage/filesystem-unsupported", Confidence: Certain, Evidence: []Evidence{n.seenLine(line), n.seenDevice(d)}}
	release, features := "", ""
	if n.Kernel != nil {
		release = " " + n.Kernel.Release
		b.Evidence = append(b.Evidence, n.seen("kernel.release", n.Kernel.Release))
	}
	if d.Signature != nil && len(d.Signature.Features) > 0 {
		features = " (features: " + strings.Join(d.Signature.Features, ", ") + ")"
	}
	b.Why = fmt.Sprintf("The kernel%s of node %s cannot mount the filesystem on %s, the device of volume %s%s: %s", release, n.node, describe(d), v.volumeName(), features, line.Message)
	return b
}

var kernelRefuses = phrase(`failed to (blocklist|blacklist|acquire lock).{0,40}-13|: -13$|authenticat\w* (error|fail)|auth protocol .{0,40}(fail|error)|STATUS_(ACCESS_DENIED|LOGON_FAILURE)|login (failed|rejected)|rejected.{0,40}(authorization|credential)|access denied|permission denied|CIFS.{0,80}(-13|logon)`)

// proveRefused: the kernel was refused by the server.
func proveRefused(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || v.mountTells(t.Text) != "stage/permission" && !vagueMount.in(t.Text) {
		return nil
	}
	line := n.kernelSays(func(l nodereport.LogLine) bool {
		return v.during(l) && kernelRefuses.in(l.Message) && v.lineIsOurs(n, l, t)
	})
	if line == nil {
		return nil
	}
	return &blame{Cause: "stage/permission", Confidence: Certain, Evidence: []Evidence{n.seenLine(line)},
		Why: fmt.Sprintf("The storage refuses node %s the volume %s. The kernel says: %s; the driver %s: %s", n.node, v.volumeName(), line.Message, v.Driver, plainWords(t.Text))}
}

// lineIsOurs: a kernel line is about the volume's device, or no volume that is mounted has the device, so that it is of the
// call that failed.
func (v *View) lineIsOurs(n *nodeFacts, l nodereport.LogLine, t *trouble) bool {
	if d := n.subject(t); d != nil {
		return about(l, d)
	}
	if l.Device == "" {
		return true
	}
	for i := range n.Devices {
		if n.Devices[i].Name == l.Device {
			return len(n.table.Of(n.Devices[i].MajorMinor)) == 0
		}
	}
	return true
}

var readOnlyWords = phrase(`write access unavailable|write-protect|read-only|readonly|recovery required`)

// proveReadOnlyDevice: the device does not take writes, and the mount needs one.
func proveReadOnlyDevice(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || t == nil || d == nil || !d.ReadOnly {
		return nil
	}
	line := v.kernelOn(n, d, readOnlyWords)
	if line == nil && !readOnlyWords.in(t.Text) && !vagueMount.in(t.Text) {
		return nil
	}
	b := &blame{Cause: "stage/read-only-device", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d), n.seen("devices["+d.Name+"].readOnly", "true")},
		Why: fmt.Sprintf("On node %s the device %s of volume %s is read-only, and mounting it needs to write.", n.node, describe(d), v.volumeName())}
	if line != nil {
		b.Evidence = append(b.Evidence, n.seenLine(line))
	}
	return b
}

var corruptWords = phrase(`corrupt|bad (geometry|magic|superblock|inode|header|CRC)|structure needs cleaning|invalid (journal|superblock|checksum)|checksum (error|mismatch|invalid|verify)|error loading journal|error (count|-117|-74|117)|log mount/recovery failed|log mount failed|failed to recover|metadata|unmount and run xfs_repair|can't find ext4 filesystem|group descriptors corrupted|open_ctree failed|no journal found|mounting with errors|EXT[234]-fs error`)

// proveCorrupt: the filesystem is damaged.
func proveCorrupt(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || t == nil || d == nil {
		return nil
	}
	cause := v.mountTells(t.Text)
	if cause != "stage/filesystem-corrupt" && cause != "" && !vagueMount.in(t.Text) {
		return nil
	}
	line := v.kernelOn(n, d, corruptWords)
	errors := d.Signature != nil && (d.Signature.State == "errors" || d.Signature.Errors > 0)
	if line == nil && !errors {
		return nil
	}
	b := &blame{Cause: "stage/filesystem-corrupt", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s the filesystem on %s, the device of volume %s, is damaged", n.node, describe(d), v.volumeName())}
	if line != nil {
		b.Why += ": " + line.Message
		b.Evidence = append(b.Evidence, n.seenLine(line))
	} else {
		b.Why += fmt.Sprintf(": its superblock counts %d errors, the last %s", d.Signature.Errors, d.Signature.LastError)
	}
	return b
}

// Filesystems that one kernel driver mounts under any of these names.
var sameFilesystem = map[string]string{"ext2": "ext", "ext3": "ext", "ext4": "ext", "vfat": "vfat", "msdos": "vfat", "ntfs3": "ntfs", "ntfs": "ntfs"}

// proveMismatch: the device holds something else than the volume asks for.
func proveMismatch(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || t == nil || d == nil || d.Signature == nil || v.PV == nil || v.PV.Spec.CSI == nil {
		return nil
	}
	if v.PV.Spec.VolumeMode != nil && *v.PV.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return nil
	}
	have, want := d.Signature.Type, v.PV.Spec.CSI.FSType
	family := func(fs string) string {
		if f := sameFilesystem[fs]; f != "" {
			return f
		}
		return fs
	}
	known := slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "ntfs", "iso9660", "f2fs", "zfs_member", "linux_raid_member", "ceph_bluestore", "crypto_LUKS", "LVM2_member", "dos", "gpt", "swap"}, have)
	if !known || want == "" || family(have) == family(want) || have == "crypto_LUKS" && len(d.Holders) > 0 {
		return nil
	}
	if cause := v.mountTells(t.Text); cause != "stage/filesystem-mismatch" && cause != "" && !vagueMount.in(t.Text) {
		return nil
	}
	what := "holds " + have
	if have == "dos" || have == "gpt" {
		what = "has a partition table (" + have + ")"
	}
	return &blame{Cause: "stage/filesystem-mismatch", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d), fact(ref(v.PV), "spec.csi.fsType", want, time.Time{})},
		Why: fmt.Sprintf("On node %s the device %s of volume %s %s, and the volume asks for %s.", n.node, describe(d), v.volumeName(), what, want)}
}

var serverSilent = phrase(`not responding|timed out|connection (refused|reset)|socket (closed|error)|no route to host|unreachable|error connecting to socket|connect error|host is down|reconnect|session (lost|recovery timed out)|detected conn error|keep[- ]?alive`)

// proveServer: the kernel waits for a server.
func proveServer(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil {
		return nil
	}
	if cause := v.mountTells(t.Text); cause != "stage/server-unreachable" && cause != "stage/timeout" && cause != "stage/operation-pending" && cause != "" {
		return nil
	}
	line := n.kernelSays(func(l nodereport.LogLine) bool {
		if !v.during(l) || !serverSilent.in(l.Message) {
			return false
		}
		return about(l, n.subject(t)) || slices.ContainsFunc(v.servers(), func(s string) bool { return strings.Contains(l.Message, s) })
	})
	if line == nil {
		return nil
	}
	return &blame{Cause: "stage/server-unreachable", Confidence: Certain, Evidence: []Evidence{n.seenLine(line)},
		Why: fmt.Sprintf("The server of volume %s does not answer node %s. The kernel says: %s", v.volumeName(), n.node, line.Message)}
}

// servers are the hosts that the volume's attributes and handle name.
func (v *View) servers() []string {
	var out []string
	if v.PV == nil || v.PV.Spec.CSI == nil {
		return nil
	}
	for key, value := range v.PV.Spec.CSI.VolumeAttributes {
		switch strings.ToLower(key) {
		case "server", "source", "targetportal", "portal", "monitors", "address", "host", "share", "endpoint", "dsm", "nfsserver", "portals":
			host := strings.Trim(value, "/")
			if i := strings.IndexAny(host, ":/,"); i > 0 {
				host = host[:i]
			}
			if len(host) > 3 {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return out
}

// hostNeeds are the words of an error and the unit of the host that it lacks.
var hostNeeds = []struct {
	words *regexp.Regexp
	unit  string
}{
	{regexp.MustCompile(`(?i)iscsi`), "iscsid"},
	{regexp.MustCompile(`(?i)rpc\.?statd|statd|locking`), "rpc-statd"},
	{regexp.MustCompile(`(?i)multipath`), "multipathd"},
	{regexp.MustCompile(`(?i)rpcbind|portmap`), "rpcbind"},
	{regexp.MustCompile(`(?i)\bnfs`), "rpc-statd"},
}

// proveHost: the host has no running unit of the kind that the error is about.
func proveHost(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || n.Host == nil {
		return nil
	}
	cause := v.mountTells(t.Text)
	if cause != "stage/host-requirement" && cause != "stage/timeout" && cause != "" && cause != "stage/server-unreachable" {
		return nil
	}
	for _, need := range hostNeeds {
		state := n.Host.Services[need.unit]
		if !need.words.MatchString(t.Text) || state != "missing" && state != "inactive" && state != "failed" || cause != "stage/host-requirement" && need.unit != "iscsid" {
			continue
		}
		return &blame{Cause: "stage/host-requirement", Confidence: Certain, Evidence: []Evidence{n.seen("host.services."+need.unit, state)},
			Why: fmt.Sprintf("On node %s %s is %s, and the driver %s needs it for volume %s: %s", n.node, need.unit, state, v.Driver, v.volumeName(), plainWords(t.Text))}
	}
	return nil
}

// proveNotStaged: the kubelet publishes a volume whose staging path is no mount.
func proveNotStaged(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.at(HopPublish) || t == nil || !n.whole || n.volume == nil || n.volume.Staging == nil || n.stages(v.Driver) != Yes || len(n.staged()) > 0 {
		return nil
	}
	cause := v.mountTells(t.Text)
	if cause != "publish/not-staged" && !strings.Contains(t.Text, path.Dir(n.volume.Staging.Path)) {
		return nil
	}
	return &blame{Cause: "publish/not-staged", Confidence: Certain, Evidence: []Evidence{n.seen("mountinfo", "nothing is mounted at "+n.volume.Staging.Path)},
		Why: fmt.Sprintf("On node %s nothing is mounted at the staging path of volume %s, so it cannot be published to pod %s: %s", n.node, v.volumeName(), v.say("POD"), plainWords(t.Text))}
}

// crowdedPermille is from where on a full volume explains a container's own "no space left": ext4 keeps 5 percent for root.
const crowdedPermille = 930

// proveFull: a container that ended for want of space, on a volume that is full.
func proveFull(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.at(HopStart) || t == nil || told(containerWords, t.Text) != "start/full" {
		return nil
	}
	what, ev := n.full(crowdedPermille)
	if what == "" {
		return nil
	}
	return &blame{Cause: "start/full", Confidence: Certain, Status: StatusStuck, Evidence: []Evidence{ev},
		Why: fmt.Sprintf("The volume %s of pod %s has no %s left: %s", v.volumeName(), v.say("POD"), what, plainWords(t.Text))}
}

// provePermission: the container's user may not use the folder that the volume gives it.
func provePermission(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.at(HopStart) || t == nil || n.publish == nil || told(containerWords, t.Text) != "publish/permission" || n.publish.Mode == "" {
		return nil
	}
	owner := "?"
	if n.publish.UID != nil && n.publish.GID != nil {
		owner = fmt.Sprintf("%d:%d", *n.publish.UID, *n.publish.GID)
	}
	return &blame{Cause: "publish/permission", Confidence: Likely, Status: StatusStuck, Evidence: []Evidence{n.seen("volumes.publishes.mode", n.publish.Mode+", owner "+owner)},
		Why: fmt.Sprintf("The volume %s is mounted rightly on node %s, its folder has mode %s and owner %s, and a container of pod %s may not use it: %s", v.volumeName(), n.node, n.publish.Mode, owner, v.say("POD"), plainWords(t.Text))}
}
