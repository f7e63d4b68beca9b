package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// proofs are what the node's report can prove of a volume that is not mounted, or whose containers do not run, in the order in
// which one explains the other. The error in force may be nil.
var proofs = []func(*View, *nodeFacts, *trouble) *blame{
	proveTask, proveOwnership, proveLink, proveStale, proveUnreadable, proveHolder, proveDuplicate, proveOptions, proveUnsupported, proveRefused,
	proveReadOnlyDevice, proveKernelLacks, proveMismatch, proveCorrupt, proveServer, proveHost, proveNotStaged, proveFull, provePermission,
}

// subject is the device that the volume's failing call is about: the one that carries the volume's identity, or a link leads
// to, else the only one of the report that the error names, or that the kernel speaks of.
func (n *nodeFacts) subject(t *trouble) *nodereport.Device {
	if d := n.knownDevice(); d != nil || t == nil {
		return d
	}
	switch found := n.spoken(t.Text); len(found) {
	case 0:
		for _, l := range n.KernelLog { // drivers unmap what they could not mount: the kernel's lines of it stay
			if l.Device != "" && names(t.Text, "/dev/"+l.Device) {
				return &nodereport.Device{Name: l.Device}
			}
		}
	case 1:
		return found[0]
	}
	return nil
}

// brokenIn is the device that a text names, or else the volume's own, where it cannot be read.
func (n *nodeFacts) brokenIn(text string, own *nodereport.Device) *nodereport.Device {
	for _, d := range append(n.spoken(text), own) {
		if n.broken(d) != "" {
			return d
		}
	}
	return nil
}

// spoken are the devices that a text names.
func (n *nodeFacts) spoken(text string) (found []*nodereport.Device) {
	for i := range n.Devices {
		d := &n.Devices[i]
		if names(text, d.Name) || slices.ContainsFunc(d.Links, func(l string) bool { return names(text, l) }) {
			found = append(found, d)
		}
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

// inKernel: the task waits in the kernel, and no signal ends it (state D of proc(5)).
func inKernel(t *nodereport.Task) bool { return strings.HasPrefix(t.State, "D") }

// proveTask: a call for this volume is still running on the node.
func proveTask(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() {
		return nil
	}
	d := n.subject(t)
	// A mount program waits for its helper: the one that waits in the kernel tells why.
	var tasks, others []*nodereport.Task
	for i := range n.Tasks {
		if task := &n.Tasks[i]; inKernel(task) {
			tasks = append(tasks, task)
		} else {
			others = append(others, task)
		}
	}
	for _, task := range append(tasks, others...) {
		logsIn := t == nil && v.hop(v.block).Status == StatusWaiting && v.logsIn(n, task)
		onDead := d == nil && t != nil && unending(v.mountTells(t.Text)) && v.readsDead(n, task)
		if !logsIn && !onDead && !v.taskIs(n, task, d) {
			continue
		}
		age := time.Duration(task.Seconds) * time.Second
		b := &blame{Evidence: []Evidence{n.seenTask(task)}, Confidence: Certain}
		if logsIn || onDead {
			b.Confidence = Likely
		}
		what := strings.TrimSpace(task.Comm + " " + task.Args)
		unreadable := n.brokenIn(task.Args, d)
		switch {
		case walking.MatchString(task.Comm):
			b.Cause, b.Status = "start/ownership-slow", StatusWaiting
			b.Why = fmt.Sprintf("On node %s %s (pid %d) has been walking over the files of volume %s for %s.", n.node, task.Comm, task.PID, v.volumeName(), ago(age))
		case mounting.MatchString(task.Comm) && inKernel(task) && (age >= errorSettled || t != nil):
			b.Cause = "stage/server-unreachable"
			b.Why = fmt.Sprintf("On node %s %q (pid %d) has been waiting in the kernel for %s: the server or device does not answer.", n.node, what, task.PID, ago(age))
			if d != nil && d.Kind != "" && !strings.Contains(task.Comm, "nfs") && !strings.Contains(task.Comm, "cifs") && n.broken(d) != "" {
				b.Cause = "stage/device-unreadable"
			}
		case inKernel(task) && unreadable != nil:
			b.Cause = "stage/device-unreadable"
			b.Why = fmt.Sprintf("On node %s %q (pid %d) has been waiting in the kernel for %s, since the device %s of volume %s cannot be read: %s.", n.node, what, task.PID, ago(age), describe(unreadable), v.volumeName(), n.broken(unreadable))
			b.Evidence = append(b.Evidence, n.seenDevice(unreadable))
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

var login = regexp.MustCompile(`^(iscsiadm .*(--login|-l\b|--rescan|-R\b|discovery)|nvme (connect|discover))`)

// readsDead: a process that began while the pod waits hangs on a device that cannot be read and is no other volume's: very likely the
// view's, for which the call does not end.
func (v *View) readsDead(n *nodeFacts, task *nodereport.Task) bool {
	d := n.brokenIn(task.Args, nil)
	return d != nil && inKernel(task) && v.Pod != nil && !n.CollectedAt.Add(-time.Duration(task.Seconds)*time.Second).Before(v.scheduledAt()) &&
		len(n.table.Of(d.MajorMinor)) == 0 && n.otherOf(v, d) == nil
}

// logsIn: a login names a target, not a volume. It may well be the view's volume's where it began while the pod waits.
func (v *View) logsIn(n *nodeFacts, task *nodereport.Task) bool {
	age := time.Duration(task.Seconds) * time.Second
	return v.Pod != nil && age < normalMount && login.MatchString(task.Comm+" "+task.Args) && !n.CollectedAt.Add(-age).Before(v.scheduledAt())
}

// proveOwnership: the call that runs into its deadline has mounted the volume already, so what it still does is to give the
// files to the pod's group.
func proveOwnership(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || !v.setsGroup() {
		return nil
	}
	if !unending(v.mountTells(t.Text)) {
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

var serverSilent = phrase(
	`not responding|timed out|connection (refused|reset)|socket (closed|error)|no route to host|unreachable`,
	`error connecting to socket|connect error|host is down|reconnect|session (lost|recovery timed out)|detected conn error`,
	`keep[- ]?alive`)

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
		return about(l, n.subject(t)) || slices.ContainsFunc(v.servers(), func(s string) bool { return strings.Contains(l.Message, s) }) ||
			l.Device == "" && sameProtocol(l.Message, v.Driver+" "+t.Text)
	})
	if line == nil {
		return nil
	}
	return &blame{Cause: "stage/server-unreachable", Confidence: Certain, Evidence: []Evidence{n.seenLine(line)},
		Why: fmt.Sprintf("The server of volume %s does not answer node %s. The kernel says: %s", v.volumeName(), n.node, line.Message)}
}

// Marks of protocols, in kernel lines and in the words and names of drivers.
var protocols = []phrases{phrase(`\bnfs`), phrase(`cifs|smb`), phrase(`ceph|\brbd`), phrase(`iscsi|\biqn\.|connection\d+:\d+|session\d+:`), phrase(`\bnvme`)}

func sameProtocol(a, b string) bool {
	return slices.ContainsFunc(protocols, func(p phrases) bool { return p.in(a) && p.in(b) })
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
	for _, part := range strings.FieldsFunc(v.Handle, func(r rune) bool { return strings.ContainsRune("#/:,^", r) }) {
		if strings.Count(part, ".") >= 2 && !slices.Contains(out, part) {
			out = append(out, part) // nfs.example.org#exports#a
		}
	}
	slices.Sort(out)
	return out
}

var kernelLacks = phrase(`unknown target type|module \S+ (is )?not found|request_module.{0,40}fail|unknown symbol|no handler found for transport`)

// nvmeTransport is what nvmf_create_ctrl (drivers/nvme/host/fabrics.c) logs where no module has the transport.
var nvmeTransport = regexp.MustCompile(`no handler found for transport (\w+)`)

// proveKernelLacks: the kernel misses a part of itself that the call needs.
func proveKernelLacks(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil {
		return nil
	}
	line := n.kernelSays(func(l nodereport.LogLine) bool {
		return v.during(l) && kernelLacks.in(l.Message) && (l.Device == "" || v.lineIsOurs(n, l, nil))
	})
	if line == nil {
		return nil
	}
	said := line.Message
	if m := nvmeTransport.FindStringSubmatch(said); m != nil {
		said += " (that is its module nvme-" + m[1] + ")"
	}
	return &blame{Cause: "stage/host-requirement", Confidence: Likely, Evidence: []Evidence{n.seenLine(line)},
		Why: fmt.Sprintf("The kernel of node %s lacks what the driver %s needs for volume %s. It says: %s", n.node, v.Driver, v.volumeName(), said)}
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
	stopped := func(unit string) bool {
		return slices.Contains([]string{"missing", "inactive", "failed"}, n.Host.Services[unit])
	}
	if strings.Contains(strings.ToLower(t.Text), "multipath") && stopped("multipathd") {
		if one, two := n.twins(); one != nil {
			return &blame{Cause: "stage/host-requirement", Confidence: Certain, Evidence: []Evidence{n.seen("host.services.multipathd", n.Host.Services["multipathd"]), n.seenDevice(one), n.seenDevice(two)},
				Why: fmt.Sprintf("On node %s the paths %s and %s of one disk are there and nothing makes a multipath device of them%s: %s", n.node, describe(one), describe(two), n.service("multipathd"), plainWords(t.Text))}
		}
	}
	if cause != "stage/host-requirement" && cause != "stage/timeout" && cause != "" && cause != "stage/server-unreachable" {
		return nil
	}
	for _, need := range hostNeeds {
		state := n.Host.Services[need.unit]
		if !need.words.MatchString(t.Text) || !stopped(need.unit) || cause != "stage/host-requirement" && need.unit != "iscsid" {
			continue
		}
		return &blame{Cause: "stage/host-requirement", Confidence: Certain, Evidence: []Evidence{n.seen("host.services."+need.unit, state)},
			Why: fmt.Sprintf("On node %s %s is %s, and the driver %s needs it for volume %s: %s", n.node, need.unit, state, v.Driver, v.volumeName(), plainWords(t.Text))}
	}
	return nil
}

// twins are two disks of one WWID with no multipath device on top.
func (n *nodeFacts) twins() (one, two *nodereport.Device) {
	seen := map[string]*nodereport.Device{}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Kind != "disk" || d.WWID == "" || len(d.Holders) > 0 {
			continue
		}
		if other := seen[d.WWID]; other != nil {
			return other, d
		}
		seen[d.WWID] = d
	}
	return nil, nil
}

// proveNotStaged: the kubelet publishes a volume whose staging path is no mount.
func proveNotStaged(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.at(HopPublish) || t == nil || !n.whole || n.volume == nil || n.volume.Staging == nil || n.stages(v.Driver) != Yes || len(n.staged()) > 0 {
		return nil
	}
	cause := v.mountTells(t.Text)
	if cause != "publish/not-staged" && (cause != "" || !strings.Contains(t.Text, path.Dir(n.volume.Staging.Path))) {
		return nil
	}
	return &blame{Cause: "publish/not-staged", Confidence: Certain, Evidence: []Evidence{n.seen("mountinfo", "nothing is mounted at "+n.volume.Staging.Path)},
		Why: fmt.Sprintf("On node %s nothing is mounted at the staging path of volume %s, so it cannot be published to pod %s: %s", n.node, v.volumeName(), v.say("POD"), plainWords(t.Text))}
}

// crowdedPermille is from where on a full volume explains a container's own "no space left": ext4 keeps 5 percent for root.
const crowdedPermille = 930

// proveFull: a container that ended for want of space, on a volume that is full.
func proveFull(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.at(HopStart) || t == nil || v.told(containerWords, t.Text) != "start/full" {
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
	if !v.at(HopStart) || t == nil || n.publish == nil || v.told(containerWords, t.Text) != "publish/permission" || n.publish.Mode == "" {
		return nil
	}
	owner := "?"
	if n.publish.UID != nil && n.publish.GID != nil {
		owner = fmt.Sprintf("%d:%d", *n.publish.UID, *n.publish.GID)
	}
	return &blame{Cause: "publish/permission", Confidence: Likely, Status: StatusStuck, Evidence: []Evidence{n.seen("volumes.publishes.mode", n.publish.Mode+", owner "+owner)},
		Why: fmt.Sprintf("The volume %s is mounted rightly on node %s, its folder has mode %s and owner %s, and a container of pod %s may not use it: %s", v.volumeName(), n.node, n.publish.Mode, owner, v.say("POD"), plainWords(t.Text))}
}
