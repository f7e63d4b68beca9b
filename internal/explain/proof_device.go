package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

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

// foreignLink: a linked device that has an identity of its own and is no part of the volume's, or stands on such ones: a mapper's
// name is what somebody gave it.
func (n *nodeFacts) foreignLink(d, own *nodereport.Device) bool {
	if parts := n.parts(d, 4); len(parts) > 0 && parts[0] != d {
		return !slices.ContainsFunc(parts, func(p *nodereport.Device) bool {
			return p.Serial == "" && p.WWID == "" || slices.Contains(n.own, p) || slices.Contains(n.linked, p)
		})
	}
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

var ioError = phrase(
	`I/O error|rejecting I/O|offline device|unaligned|lost (page )?write|medium error|blk_update_request`,
	`critical (target|medium|nexus) error|device not ready|session recovery timed out|no usable path`,
	`remaining active paths: 0|hard resetting|Unrecovered read error|transport failure`)

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
		for i := range n.Devices {
			if p := &n.Devices[i]; slices.Contains(p.Holders, d.Name) && n.broken(p) != "" {
				b.Why += fmt.Sprintf("; of %s below it %s", describe(p), n.broken(p))
				b.Evidence = append(b.Evidence, n.seenDevice(p))
			}
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
	busyWords = phrase(
		`busy|in use|being used|readwrite|read-write|is mounted|already mounted|exclusive|read-only|wrong medium type`,
		`wrong fs type|held|opened`,
		`non-retryable iSCSI login failure`) // the target answered: one that takes a single session has it already
	heldOpen  = regexp.MustCompile(`[Hh]eld open by (\S+)`)
	refusedBy = phrase(
		`refused by peer|declined by peer|peer may not become primary|multiple primaries not allowed|held open`,
		`need access to uptodate data`)
)

// proveHolder: something holds the device, on this node or, of a replicated one, on another.
func proveHolder(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil || told(kubeletWords, t.Text) != "" { // its own words are of pods, not of devices
		return nil
	}
	d := n.subject(t)
	if !busyWords.in(t.Text) && (d == nil || v.kernelOn(n, d, refusedBy) == nil) {
		return nil
	}
	if d == nil {
		return v.heldThere(n)
	}
	if below := n.spoken(t.Text); len(below) == 1 && d.Kind != "dm-mpath" && slices.Contains(d.Slaves, below[0].Name) {
		d = below[0] // what stands on the device that the driver wants is who holds it
	}
	holder := n.named(d.Holders)
	switch {
	case holder == nil && d.Kind == "dm-mpath": // the subject is already the map on top of its paths
		for i := range n.Devices {
			if p := &n.Devices[i]; slices.Contains(p.Holders, d.Name) && (slices.Contains(n.linked, p) || names(t.Text, "/dev/"+p.Name)) {
				holder, d = d, p
			}
		}
	case holder == nil:
	case strings.Contains(t.Text, "/dev/"+holder.Name) || slices.ContainsFunc(holder.Links, func(l string) bool { return strings.Contains(t.Text, l) }):
		holder = nil // the driver itself uses the one on top
	}
	b := &blame{Cause: "stage/device-busy", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)}}
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
		} else if slices.ContainsFunc(n.Orphans, func(o nodereport.Orphan) bool { return strings.HasPrefix(m.Mountpoint, o.Path+"/") }) {
			who = "the folder of a pod that is gone (" + m.Mountpoint + ")"
		}
		b.Why = fmt.Sprintf("On node %s the device %s of volume %s is mounted already, by %s.", n.node, describe(d), v.volumeName(), who)
		b.Evidence = append(b.Evidence, n.seenMount(m))
		return b
	}
	for _, ns := range n.Namespaces {
		table, _ := mountinfo.Parse(ns.Mountinfo)
		if mounts := table.Of(d.MajorMinor); len(mounts) > 0 {
			who := processes(ns)
			for _, p := range ns.Processes {
				if name := v.podByUID(p.PodUID); name != "" {
					who += " of pod " + name
					break
				}
			}
			b.Why = fmt.Sprintf("On node %s the device %s of volume %s is still mounted in the mount namespace of %s.", n.node, describe(d), v.volumeName(), who)
			b.Evidence = append(b.Evidence, n.seen(fmt.Sprintf("namespaces[%d] %s", ns.Inode, mounts[0].Mountpoint), who))
			return b
		}
	}
	if refused := v.kernelOn(n, d, refusedBy); refused != nil {
		b.Evidence = append(b.Evidence, n.seenLine(refused))
		for _, peer := range v.peers(n, d) {
			for i := range peer.Devices {
				o := &peer.Devices[i]
				mounts := peer.table.Of(o.MajorMinor)
				if o.Kind != d.Kind || len(mounts) == 0 || !slices.ContainsFunc(o.Links, func(l string) bool { return slices.Contains(d.Links, l) }) {
					continue
				}
				b.Why = fmt.Sprintf("The replicated device %s of volume %s cannot become writable on node %s, since on node %s it is mounted at %s.", d.Name, v.volumeName(), n.node, peer.node, mounts[0].Mountpoint)
				b.Evidence = append(b.Evidence, peer.seenMount(mounts[0]))
				if slices.ContainsFunc(peer.Orphans, func(o nodereport.Orphan) bool { return strings.HasPrefix(mounts[0].Mountpoint, o.Path+"/") }) {
					b.Why = strings.TrimSuffix(b.Why, ".") + ", the orphaned folder of a pod that is gone."
				}
				return b
			}
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
		list[*snapshot.NodeReport](v.world, inReports, snapshot.Query{}) // the peer's report would tell who
		b.Confidence = Likely
		b.Why = fmt.Sprintf("The replicated device %s of volume %s cannot become writable on node %s, since another node holds it: %s.", d.Name, v.volumeName(), n.node, refused.Message)
		return b
	}
	return v.heldThere(n)
}

// heldThere: the report of another node shows the volume mounted there.
func (v *View) heldThere(n *nodeFacts) *blame {
	for _, peer := range v.otherReports(n.node) {
		mounts := peer.mountedFor(v)
		if len(mounts) == 0 {
			continue
		}
		m := mounts[0]
		b := &blame{Cause: "stage/device-busy", Confidence: Likely, Evidence: []Evidence{peer.seenMount(m)},
			Why: fmt.Sprintf("Volume %s cannot be taken on node %s, since on node %s it is still mounted at %s.", v.volumeName(), n.node, peer.node, m.Mountpoint)}
		for _, o := range peer.Orphans {
			if strings.HasPrefix(m.Mountpoint, o.Path+"/") {
				b.Confidence = Certain
				b.Why += " The folder is of a pod that is gone."
			}
		}
		return b
	}
	return nil
}

// otherReports are the facts of the nodes but one whose reports are at hand.
func (v *View) otherReports(than string) []*nodeFacts {
	reports, _ := v.reports()
	var out []*nodeFacts
	for _, r := range reports {
		if r.Name != than {
			out = append(out, v.factsOf(&r.Report, r.Name))
		}
	}
	return out
}

func (v *View) reports() (reports []*snapshot.NodeReport, known Truth) {
	v.ahead(func() { reports, known = list[*snapshot.NodeReport](v.world, inReports, snapshot.Query{}) })
	return reports, known
}

// unlooked: a backend says that something has the volume, and the reports of the nodes, which would tell what, cannot be read.
func (v *View) unlooked(text string) bool {
	_, known := v.reports()
	g := v.facts.GapOf(snapshot.Query{Resource: inReports.Resource})
	if known != Unknown || unprobed(g) || !busyWords.in(text) {
		return false
	}
	list[*snapshot.NodeReport](v.world, inReports, snapshot.Query{}) // now it is a gap
	return true
}

// mountedFor are the mounts of the view's volume in the node's own table, those for pods first.
func (n *nodeFacts) mountedFor(v *View) mountinfo.Table {
	var published, staged mountinfo.Table
	for _, m := range n.table {
		switch pod, staging := v.mountedAt(m.Mountpoint); {
		case pod:
			published = append(published, m)
		case staging:
			staged = append(staged, m)
		}
	}
	return append(published, staged...)
}

// csiVolumes is the folder in a pod's that has one for each volume, by the name of its PersistentVolume.
const csiVolumes = "/volumes/kubernetes.io~csi/"

// blockVolumes is the folder with the raw block volumes: staging/PV, publish/PV/POD, and PV/dev/POD (pkg/volume/csi csi_block.go).
const blockVolumes = csiStaging + "volumeDevices/"

// mountKey tells what is mounted at a path below a kubelet's root: a PersistentVolume, for pods, or what a driver's staging folder is of.
func mountKey(path string) (pod, staging string) {
	if _, rest, ok := strings.Cut(path, csiVolumes); ok {
		pv, _, _ := strings.Cut(rest, "/")
		return pv, ""
	}
	if _, rest, ok := strings.Cut(path, blockVolumes); ok {
		switch parts := strings.SplitN(rest+"/", "/", 3); parts[0] {
		case "publish":
			return parts[1], ""
		case "staging":
			return "", parts[1]
		default:
			return parts[0], ""
		}
	}
	if _, rest, ok := strings.Cut(path, csiStaging); ok {
		return "", csiStaging + strings.Join(strings.SplitN(rest+"/", "/", 3)[:2], "/")
	}
	return "", ""
}

// mountedAt tells whether a path is one of the volume for a pod, and whether it is one of its staging.
func (v *View) mountedAt(path string) (pod, staging bool) {
	p, s := mountKey(path)
	return p != "" && p == v.volumeName(), s != "" && (s == stagingFolder(v.Driver, v.Handle) || s == v.volumeName())
}

// mountedIn tells what mountedFor finds without looking into the report: one index serves all volumes.
func (v *View) mountedIn(r *snapshot.NodeReport) bool {
	reports := grouped(v.world, inReports, "mounted volume", func(r *snapshot.NodeReport) (keys []string) {
		table, _ := mountinfo.Parse(r.Report.Mountinfo)
		for _, m := range table {
			pod, staging := mountKey(m.Mountpoint)
			keys = append(keys, pod, staging)
		}
		return keys
	})
	return slices.Contains(reports[v.volumeName()], r) || slices.Contains(reports[stagingFolder(v.Driver, v.Handle)], r)
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
	return slices.DeleteFunc(v.otherReports(n.node), func(peer *nodeFacts) bool {
		return !slices.ContainsFunc(peer.Devices, func(o nodereport.Device) bool {
			return o.Kind == d.Kind && slices.ContainsFunc(o.Links, func(l string) bool { return slices.Contains(d.Links, l) })
		})
	})
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
	uuid := ""
	line := v.kernelOn(n, d, duplicateUUID)
	switch {
	case line != nil:
		uuid = anyUUID.FindString(line.Message)
	case t == nil || !vagueMount.in(t.Text) || d.Signature == nil || d.Signature.Type != "xfs" || len(n.table.Of(d.MajorMinor)) > 0:
		return nil
	}
	if uuid == "" && d.Signature != nil {
		uuid = d.Signature.UUID
	}
	twin := n.mountedTwin(d, uuid)
	if line == nil && twin == nil {
		return nil
	}
	b := &blame{Cause: "stage/duplicate-uuid", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s the filesystem on %s, the device of volume %s, has the UUID %s, and another with that UUID is mounted", n.node, describe(d), v.volumeName(), uuid)}
	if line != nil {
		b.Evidence = append([]Evidence{n.seenLine(line)}, b.Evidence...)
	}
	if o := twin; o != nil {
		b.Why += fmt.Sprintf(" from %s", describe(o))
		b.Evidence = append(b.Evidence, n.seenDevice(o))
		for _, vol := range n.others {
			for _, p := range vol.Publishes {
				if m, ok := n.table.At(p.Path); ok && m.Device() == o.MajorMinor {
					b.Why += fmt.Sprintf(", volume %s of pod %s", otherName(vol), v.podByUID(p.PodUID))
				}
			}
		}
	}
	b.Why += ". XFS refuses two with the same UUID: the one is a clone or a restored snapshot of the other."
	return b
}

// mountedTwin is another device of the node with a filesystem of the same UUID that is mounted.
func (n *nodeFacts) mountedTwin(d *nodereport.Device, uuid string) *nodereport.Device {
	for i := range n.Devices {
		o := &n.Devices[i]
		if o != d && uuid != "" && o.Signature != nil && o.Signature.UUID == uuid && len(n.table.Of(o.MajorMinor)) > 0 {
			return o
		}
	}
	return nil
}

var unsupported = phrase(
	`unknown (incompatible|incompat|ro-compat|read-only compatible|required|log incompat\w*) features?`,
	`couldn't mount (\w+ )?because of unsupported|cannot be safely mounted by this kernel`,
	`unsupported (feature|version|block ?size|sector)|not supported by this kernel|has unsupported`,
	`sectorsize \d+ not (yet )?supported|unrecognized feature|unknown (or )?unsupported|bad block size`,
	`File system with blocksize \d+ bytes\. Only pagesize|incompatible features|cannot mount because of unsupported`)

var badOption = phrase(
	`(unrecognized|unknown|unsupported|invalid|bad) mount option|unknown parameter|bad value for`,
	`mount option .{0,60}(not supported|incompatible|requires)|option .{0,40}requires`)

// quotedOption is the option in a kernel line that names no device, as the parser of mount options logs it (fs/fs_parser.c).
var quotedOption = regexp.MustCompile(`['"]([\w-]{4,})['"=]`)

// proveOptions: the kernel refuses a mount option.
func proveOptions(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil {
		return nil
	}
	if cause := v.mountTells(t.Text); cause != "" && cause != "stage/bad-mount-options" {
		return nil
	}
	line := n.kernelSays(func(l nodereport.LogLine) bool {
		if !v.during(l) || !badOption.in(l.Message) {
			return false
		}
		option := quotedOption.FindStringSubmatch(l.Message)
		return v.lineIsOurs(n, l, t) || l.Device == "" && option != nil && names(t.Text, option[1])
	})
	if line == nil {
		return nil
	}
	b := &blame{Cause: "stage/bad-mount-options", Confidence: Certain, Evidence: []Evidence{n.seenLine(line)},
		Why: fmt.Sprintf("The kernel of node %s refuses a mount option of volume %s: %s", n.node, v.volumeName(), line.Message)}
	if v.PV != nil && len(v.PV.Spec.MountOptions) > 0 {
		b.Evidence = append(b.Evidence, fact(ref(v.PV), "spec.mountOptions", strings.Join(v.PV.Spec.MountOptions, ", "), time.Time{}))
	}
	return b
}

// proveUnsupported: the node's kernel does not know the filesystem or a feature of it.
func proveUnsupported(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || d == nil {
		return nil
	}
	line := v.kernelOn(n, d, unsupported)
	newer := t != nil && vagueMount.in(t.Text) && d.Signature != nil && len(d.Signature.Unsupported) > 0
	if line == nil && !newer {
		return nil
	}
	b := &blame{Cause: "stage/filesystem-unsupported", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)}}
	release, features := "", ""
	if n.Kernel != nil {
		release = " " + n.Kernel.Release
		b.Evidence = append(b.Evidence, n.seen("kernel.release", n.Kernel.Release))
	}
	if d.Signature != nil && len(d.Signature.Features) > 0 {
		features = " (features: " + strings.Join(d.Signature.Features, ", ") + ")"
	}
	b.Why = fmt.Sprintf("The kernel%s of node %s cannot mount the filesystem on %s, the device of volume %s%s: ", release, n.node, describe(d), v.volumeName(), features)
	if line != nil {
		b.Why += line.Message
		b.Evidence = append(b.Evidence, n.seenLine(line))
		return b
	}
	b.Confidence = Likely // a vendor may have taken them into an old kernel
	b.Why += "by the versions of kernel.org it is too old for " + strings.Join(d.Signature.Unsupported, ", ")
	return b
}

var kernelRefuses = phrase(
	`connect for subsystem \S+ is not allowed|failed to (blocklist|blacklist|acquire lock).{0,40}-13|: -13$`,
	`authenticat\w* (error|fail)|auth protocol .{0,40}(fail|error)|STATUS_(ACCESS_DENIED|LOGON_FAILURE)`,
	`login (failed|rejected)|rejected.{0,40}(authorization|credential)|access denied|permission denied|CIFS.{0,80}(-13|logon)`)

// proveRefused: the kernel was refused by the server.
func proveRefused(v *View, n *nodeFacts, t *trouble) *blame {
	if !v.failing() || t == nil {
		return nil
	}
	if cause := v.mountTells(t.Text); cause != "stage/permission" && cause != "stage/server-unreachable" && !vagueMount.in(t.Text) {
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

var corruptWords = phrase(
	`corrupt|bad (geometry|magic|superblock|inode|header|CRC)|structure needs cleaning|invalid (journal|superblock|checksum)`,
	`checksum (error|mismatch|invalid|verify)|error loading journal|recovery failed|error (count|-117|-74|117)`,
	`log mount/recovery failed|log mount failed|failed to recover|metadata|unmount and run xfs_repair`,
	`can't find ext4 filesystem|group descriptors corrupted|open_ctree failed|no journal found|mounting with errors`,
	`EXT[234]-fs error`)

// proveCorrupt: the filesystem is damaged.
func proveCorrupt(v *View, n *nodeFacts, t *trouble) *blame {
	d := n.subject(t)
	if !v.failing() || t == nil || d == nil {
		return nil
	}
	cause := v.mountTells(t.Text)
	readable := cause == "stage/device-unreadable" && d.Signature != nil && d.Signature.Type != "" && !unread(d.Signature) // mount(8) says so of a log too
	if cause != "stage/filesystem-corrupt" && cause != "" && !readable && !vagueMount.in(t.Text) {
		return nil
	}
	line := v.kernelOn(n, d, corruptWords)
	found := damage(d.Signature)
	if line == nil && found == "" {
		return nil
	}
	b := &blame{Cause: "stage/filesystem-corrupt", Confidence: Certain, Evidence: []Evidence{n.seenDevice(d)},
		Why: fmt.Sprintf("On node %s the filesystem on %s, the device of volume %s, is damaged", n.node, describe(d), v.volumeName())}
	if line != nil {
		b.Why += ": " + line.Message
		b.Evidence = append(b.Evidence, n.seenLine(line))
	} else {
		b.Why += ": " + found
	}
	return b
}

// damage is what a filesystem's superblock shows of it by itself; empty: nothing.
func damage(s *nodereport.Signature) string {
	switch {
	case s == nil:
	case s.Errors > 0:
		return fmt.Sprintf("its superblock counts %d errors, the last %s", s.Errors, s.LastError)
	case s.State == "errors":
		return "its superblock says that it has errors"
	case damaged(s) && slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs"}, s.Type):
		return s.Error
	}
	return ""
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
	known := slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "ntfs", "iso9660", "f2fs", "zfs_member", "linux_raid_member", "bcache", "drbd", "ceph_bluestore", "crypto_LUKS", "LVM2_member", "dos", "gpt", "swap"}, have)
	if !known || want == "" || family(have) == family(want) || have == "crypto_LUKS" && (len(d.Holders) > 0 || t.Text == "") { // a driver that encrypts wants it so
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
