package explain

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// nodeFacts is what a node's report says about the view's volume there. Devices are compared by major:minor, serial, WWID and
// UUID: names are given anew at each boot.
type nodeFacts struct {
	*nodereport.NodeReport
	node    string
	table   mountinfo.Table               // of the kubelet's mount namespace; empty: not read, nothing can be concluded from it
	whole   bool                          // every line of the table was understood: "not mounted" can be concluded
	volume  *nodereport.Volume            // the volume's folders below the kubelet's root; nil: none
	publish *nodereport.Publish           // of the view's pod; nil: none
	own     []*nodereport.Device          // devices that carry the volume's identity themselves: serial, WWID, a resource's name
	linked  []*nodereport.Device          // devices that a link with the volume's identity leads to
	others  []*nodereport.Volume          // the other volumes in the report
	devices map[string]*nodereport.Device // by major:minor
}

// atHand gives a node's facts where its report lies in the input. That nobody probed the node is no gap here: it only matters
// where something points to it.
func (v *View) atHand(node string) (*nodeFacts, Truth) {
	var r *nodereport.NodeReport
	var known Truth
	v.ahead(func() { r, known = v.report(node) })
	return v.factsOf(r, node), known
}

// report is the node's report, where it is of the view's volume: one of another volume tells nothing of this one.
func (v *View) report(node string) (*nodereport.NodeReport, Truth) {
	r, known := v.world.report(node)
	if r != nil && r.Scope != nil && v.volumeName() != "" && !v.covered(r) {
		return nil, Unknown
	}
	return r, known
}

func (v *View) covered(r *nodereport.NodeReport) bool {
	s := *r.Scope
	return s == nodereport.Scope{} || s.Volume != "" && (s.Volume == v.Handle || s.Volume == v.volumeName()) ||
		v.Pod != nil && s.Pod == string(v.Pod.UID) || slices.ContainsFunc(r.Volumes, func(vol nodereport.Volume) bool { return v.isVolume(&vol) })
}

// probed gives a node's facts where the answer needs them, with the truth of report.
func (v *View) probed(node string) (*nodeFacts, Truth) {
	r, known := v.report(node)
	return v.factsOf(r, node), known
}

func (v *View) factsOf(r *nodereport.NodeReport, node string) *nodeFacts {
	if r == nil {
		return nil
	}
	n := &nodeFacts{NodeReport: r, node: node, devices: map[string]*nodereport.Device{}}
	var bad []nodereport.Gap
	n.table, bad = mountinfo.Parse(r.Mountinfo)
	n.whole = len(n.table) > 0 && len(bad)+len(Untold(r)) == 0
	for i := range r.Devices {
		n.devices[r.Devices[i].MajorMinor] = &r.Devices[i]
	}
	for i := range r.Volumes {
		vol := &r.Volumes[i]
		if v.isVolume(vol) {
			n.volume = vol
			continue
		}
		n.others = append(n.others, vol)
	}
	if n.volume != nil && v.Pod != nil {
		for i := range n.volume.Publishes {
			if p := &n.volume.Publishes[i]; p.PodUID == string(v.Pod.UID) {
				n.publish = p
			}
		}
	}
	if n.volume == nil && v.Handle == "" || v.Inline != nil {
		return n
	}
	ids := v.identities(v.Driver, v.Handle, v.volumeName(), node) // also where the kubelet has no folder of it yet
	if n.volume != nil {
		ids = v.identities(n.volume.Driver, n.volume.Handle, n.volume.PV, node)
	}
	ids = append(ids, v.target(node)...)
	for i := range r.Devices {
		d := &r.Devices[i]
		switch {
		case carries(d, ids):
			n.own = append(n.own, d)
		case linkedTo(d, ids):
			n.linked = append(n.linked, d)
		}
	}
	return n
}

// Untold are the gaps of a report in its mount tables: with them "mounted nowhere" cannot be concluded.
func Untold(r *nodereport.NodeReport) (out []nodereport.Gap) {
	for _, g := range r.Gaps {
		if strings.Contains(g.What, "mountinfo") {
			out = append(out, g)
		}
	}
	return out
}

// untold are those of a node's report that was looked at, as gaps of the answer.
func (a *answer) untold(node string) (out []Gap) {
	r, _ := a.report(node)
	if r == nil {
		return nil
	}
	if r.Scope != nil && a.Verdict == VerdictUndetermined {
		out = append(out, Gap{Input: "node-report", Object: &Object{Kind: "Node", Name: node}, Reason: "not-collected", Detail: "the node's report was narrowed to one volume or pod",
			Remedy: "run csidoctor-probe on the node for this volume, or without -volume and -pod, and read its report with --from"})
	}
	for _, g := range Untold(r) {
		gap := Gap{Input: "node-report", Object: &Object{Kind: "Node", Name: node}, Reason: "unreadable", Detail: clean(g.What + ": " + g.Reason),
			Remedy: "run csidoctor-probe on the node itself as root, and read its report with --from"}
		if g.Reason == nodereport.LeftOut {
			gap.Reason, gap.Remedy = "truncated", "run csidoctor-probe on the node itself as root, there with -output-file or for one -volume, and read its report with --from"
		}
		out = append(out, gap)
	}
	return out
}

// isVolume: a report's volume is the view's one, by its handle, or by the PV's name where one of the two handles is not known.
// Inline volumes have a handle of kubelet's making: there the pod's folder tells.
func (v *View) isVolume(vol *nodereport.Volume) bool {
	switch {
	case v.Inline != nil:
	case v.Handle != "" && vol.Handle != "":
		return vol.Handle == v.Handle && (vol.Driver == v.Driver || vol.Driver == "")
	default:
		return vol.PV != "" && vol.PV == v.volumeName()
	}
	return v.Pod != nil && v.Volume != nil && slices.ContainsFunc(vol.Publishes, func(p nodereport.Publish) bool {
		return p.PodUID == string(v.Pod.UID) && strings.Contains(p.Path, "/kubernetes.io~csi/"+strings.ReplaceAll(v.Volume.Name, "/", "~")+"/")
	})
}

// minIdentity is the shortest text that is taken for an identity: shorter ones are in too many names.
const minIdentity = 8

// identities are what a device of a volume may carry or be linked by: its handle, the last part of it, the PV's name, and
// what ControllerPublishVolume handed on of device names.
func (v *View) identities(driver, handle, pv, node string) []string {
	all := []string{handle, pv, handle[strings.LastIndexAny(handle, "/#:^,")+1:]}
	if uuids := anyUUID.FindAllString(handle, -1); len(uuids) > 0 { // what stands before it is of the driver, the pool, the cluster
		all = append(all, uuids[len(uuids)-1])
	}
	v.ahead(func() {
		if a, known := get[*storagev1.VolumeAttachment](v.world, inAttachments, "", attachmentName(handle, driver, node)); known == Yes {
			for key, value := range a.Status.AttachmentMetadata {
				if strings.HasSuffix(bare(key), "lunserial") { // twelve characters, which a NetApp's NAA identifier ends with
					all = append(all, hex.EncodeToString([]byte(value)))
				}
				id, isLink := strings.CutPrefix(value, "/dev/disk/by-id/")
				if isLink || len(bare(id)) >= 12 && !strings.ContainsAny(id, "/ ") && strings.ContainsAny(id, "0123456789") {
					all = append(all, id)
				}
			}
		}
	})
	var out []string
	for _, id := range all {
		id = strings.TrimPrefix(bare(id), "wwn0x")
		if len(id) >= minIdentity && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// target is how udev's links end for the iSCSI target and LUN, or the LUN of an Azure machine, that the volume's attributes name or
// ControllerPublishVolume gave for the node.
func (v *View) target(node string) []string {
	if v.PV == nil || v.PV.Spec.CSI == nil {
		return nil
	}
	said := []map[string]string{v.PV.Spec.CSI.VolumeAttributes}
	v.ahead(func() {
		if at, known := v.attachment(node); known == Yes {
			said = append(said, at.Status.AttachmentMetadata)
		}
	})
	var iqn, lun string
	for _, attributes := range said {
		for key, value := range attributes {
			switch bare(key) {
			case "iqn", "targetiqn", "iscsitargetiqn":
				iqn = value
			case "lun", "targetlun", "iscsilunnumber":
				lun = value
			}
		}
	}
	switch {
	case lun != "" && v.Driver == "disk.csi.azure.com": // azure-vm-utils' and the agent's udev rules
		return []string{bare("/dev/disk/azure/scsi1/lun" + lun), bare("/dev/disk/azure/data/by-lun/" + lun)}
	case lun == "" || !strings.HasPrefix(iqn, "iqn."):
		return nil
	}
	return []string{bare(iqn + "-lun-" + lun)}
}

// bare is an identity without what udev, drivers and kernels write differently: case and separators.
func bare(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, s)
}

// virtioSerial: virtio-blk cuts a serial to 20 characters.
const virtioSerial = 20

// carries: the device itself says that it is the volume.
func carries(d *nodereport.Device, ids []string) bool {
	serial, cut := bare(d.Serial), ""
	if _, behind, ok := strings.Cut(d.Serial, "-"); ok && len(d.Serial) == virtioSerial {
		cut = bare(behind) // some clouds put the region before it
	}
	wwid := bare(d.WWID)
	for _, prefix := range []string{"naa", "eui", "uuid"} {
		wwid = strings.TrimPrefix(wwid, prefix)
	}
	for _, id := range ids {
		switch {
		case len(serial) >= minIdentity && (serial == id || len(d.Serial) == virtioSerial && strings.HasPrefix(id, serial) || len(serial) >= 12 && strings.HasSuffix(id, serial)):
			return true
		case len(cut) >= 12 && strings.HasPrefix(id, cut):
			return true
		case len(wwid) >= 12 && (strings.Contains(id, wwid) || len(id) >= 12 && strings.HasSuffix(wwid, id)):
			return true
		}
	}
	// The kernel names these by the resource: /dev/drbd/by-res, /dev/rbd/<pool>/<image>, a device mapper's own name.
	return d.Kind == "drbd" && linkedTo(d, ids)
}

// linkedTo: a link whose name ends in the volume's identity, or in a part of it, leads to the device. What goes on behind the
// identity is another volume's: data and data-2.
func linkedTo(d *nodereport.Device, ids []string) bool {
	for _, l := range d.Links {
		for end := range l {
			rest := l[end:]
			if rest != "" && rest[0] != '/' && !strings.HasPrefix(rest, "-part") && !strings.HasPrefix(rest, "-lun-") { // of an iSCSI target for the volume alone
				continue
			}
			if head := bare(l[:end]); slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(head, id) }) {
				return true
			}
		}
		if head := bare(l); slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(head, id) }) {
			return true
		}
	}
	return false
}

// device finds a mount's device; nil for NFS, FUSE and the like, and where the report does not have it.
func (n *nodeFacts) device(m mountinfo.Mount) *nodereport.Device {
	if m.FSType == "devtmpfs" { // a raw block volume: the mount is of the device's node
		return n.named([]string{strings.TrimPrefix(m.Root, "/")})
	}
	if m.Anonymous() {
		return nil
	}
	return n.devices[m.Device()]
}

// ownDevice is the device that is the volume's for certain: the one that carries its identity, of several the one on top.
func (n *nodeFacts) ownDevice() *nodereport.Device {
	return n.top(n.own)
}

// knownDevice is the own device, else the only one that a link leads to.
func (n *nodeFacts) knownDevice() *nodereport.Device {
	if d := n.ownDevice(); d != nil {
		return d
	}
	return n.top(n.linked)
}

// top is the one of several devices that stands on the others (a multipath map on its paths); nil where they are not one stack.
func (n *nodeFacts) top(devices []*nodereport.Device) *nodereport.Device {
	tops := map[string]*nodereport.Device{}
	for _, d := range devices {
		t := d
		for range 4 { // partition, multipath, LUKS, LVM: no stack is higher
			if up := n.named(t.Holders); up != nil {
				t = up
			}
		}
		tops[t.MajorMinor] = t
	}
	if len(tops) == 1 {
		for _, d := range tops {
			return d
		}
	}
	return nil
}

// named is the one device of these names; nil for none and for several.
func (n *nodeFacts) named(names []string) *nodereport.Device {
	if len(names) != 1 {
		return nil
	}
	for i := range n.Devices {
		if n.Devices[i].Name == names[0] {
			return &n.Devices[i]
		}
	}
	return nil
}

// inStack: a device is one of the volume's own, or lies below one of them.
func (n *nodeFacts) inStack(d *nodereport.Device) bool {
	if slices.Contains(n.own, d) || slices.Contains(n.linked, d) {
		return true
	}
	for _, o := range append(slices.Clone(n.own), n.linked...) {
		if slices.Contains(o.Holders, d.Name) || slices.Contains(d.Slaves, o.Name) || slices.Contains(o.Slaves, d.Name) || slices.Contains(d.Holders, o.Name) {
			return true
		}
	}
	return false
}

// States of block devices in sysfs in which nothing can be read any more (SCSI, NVMe, device mapper).
var deadStates = []string{"offline", "dead", "transport-offline", "deleting", "deleting (no IO)", "failed", "faulty", "cancel", "del"}

// broken tells what is wrong with a device in half a sentence; empty: nothing is known to be.
func (n *nodeFacts) broken(d *nodereport.Device) string {
	switch {
	case d == nil:
		return ""
	case d.Removed:
		return "the kernel has no such device any more"
	case slices.Contains(deadStates, d.State):
		return "the device is " + d.State
	}
	paths, dead := 0, 0
	for i := range n.Devices {
		if p := &n.Devices[i]; slices.Contains(p.Holders, d.Name) || slices.Contains(d.Slaves, p.Name) {
			paths++
			if p.Removed || slices.Contains(deadStates, p.State) {
				dead++
			}
		}
	}
	if paths > 0 && dead == paths {
		return "all devices below it are gone or offline"
	}
	if unread(d.Signature) {
		return "reading it fails with " + d.Signature.Error
	}
	return ""
}

// deviceErrors are what a device gives that cannot be read (the kernel's table blk_errors, and what opening a dead one gives), and
// one that does not answer in time. Others are of who reads (EPERM, ENOENT) or of another holder (EMEDIUMTYPE, of a DRBD).
var deviceErrors = []string{"EIO", "ENXIO", "ENODEV", "ENODATA", "EREMOTEIO", "ENOLINK", "EBADE", "ETIMEDOUT", "EILSEQ", "ENOMEDIUM", "ESHUTDOWN", "hung"}

func unread(s *nodereport.Signature) bool {
	return s != nil && (slices.Contains(deviceErrors, s.Error) || strings.HasSuffix(strings.ToLower(s.Error), "input/output error"))
}

var oneWord = regexp.MustCompile(`^\w+$`)

// damaged: it was read, and what was read is not right; that is said in words.
func damaged(s *nodereport.Signature) bool { return s.Error != "" && !oneWord.MatchString(s.Error) }

// deadStats are the errors of stat on a mount that has nothing behind it any more (mount-utils IsCorruptedMnt, and ENXIO).
var deadStats = []string{"ENOTCONN", "ESTALE", "EIO", "EHOSTDOWN", "ENODEV", "ENXIO", "ESHUTDOWN", "EUCLEAN"}

// dead: stat of a mount fails since there is nothing behind it. A client that a Ceph server has evicted is refused.
func dead(stat string, m mountinfo.Mount) bool {
	return slices.Contains(deadStats, stat) || stat == "EACCES" && m.FSType == "ceph"
}

// describe writes a device for a human who then looks at the node.
func describe(d *nodereport.Device) string {
	if d.MajorMinor == "" {
		return d.Name
	}
	s := d.Name + " (" + d.MajorMinor
	if d.Serial != "" {
		s += ", serial " + d.Serial
	} else if d.WWID != "" {
		s += ", " + d.WWID
	}
	return s + ")"
}

// staged are all mounts at the staging path, the buried ones first, and those that the driver made below it (ceph-csi).
func (n *nodeFacts) staged() mountinfo.Table {
	if n.volume == nil || n.volume.Staging == nil {
		return nil
	}
	return n.table.Below(n.volume.Staging.Path)
}

// published is what is mounted at the pod's path.
func (n *nodeFacts) published() (mountinfo.Mount, bool) {
	if n.publish == nil {
		return mountinfo.Mount{}, false
	}
	return n.table.At(n.publish.Path)
}

// mountsOf are the mounts of the volume: staged ones, then the pod's.
func (n *nodeFacts) mountsOf() mountinfo.Table {
	out := slices.Clone(n.staged())
	if m, ok := n.published(); ok {
		out = append(out, m)
	}
	return out
}

// driver is what the sockets of the view's driver answered.
func (n *nodeFacts) driver(name string) *nodereport.Driver { return socketOf(n.NodeReport, name) }

// stages: the driver has NodeStageVolume; Unknown when its capabilities were not read.
func (n *nodeFacts) stages(driver string) Truth {
	d := n.driver(driver)
	if d == nil || d.Node == nil || d.Node.Error != "" || d.Node.Capabilities == nil {
		return Unknown
	}
	return truth(slices.Contains(d.Node.Capabilities, "STAGE_UNSTAGE_VOLUME"))
}

// kernelSays finds the newest kernel line that fits; about the devices where a line names one.
func (n *nodeFacts) kernelSays(fits func(nodereport.LogLine) bool) *nodereport.LogLine {
	for i := range slices.Backward(n.KernelLog) {
		if fits(n.KernelLog[i]) {
			return &n.KernelLog[i]
		}
	}
	return nil
}

// seen is evidence from the report.
func (n *nodeFacts) seen(field, value string) Evidence {
	return fact(Object{Kind: "NodeReport", Name: n.node}, field, value, n.CollectedAt)
}

func (n *nodeFacts) seenMount(m mountinfo.Mount) Evidence {
	return n.seen("mountinfo "+m.Mountpoint, fmt.Sprintf("%s %s %s, root %s", m.Device(), m.FSType, m.Source, m.Root))
}

func (n *nodeFacts) seenDevice(d *nodereport.Device) Evidence {
	value := fmt.Sprintf("%s, state %s", describe(d), d.State)
	if d.Removed {
		value += ", removed"
	}
	if s := d.Signature; s != nil {
		value += ", holds " + s.Type
		if s.UUID != "" {
			value += " " + s.UUID
		}
		if damaged(s) {
			value += ", " + s.Error
		} else if s.Error != "" {
			value += ", reading fails with " + s.Error
		}
	}
	if len(d.Links) > 0 {
		value += ", links " + strings.Join(d.Links, " ")
	}
	return n.seen("devices["+d.Name+"]", value)
}

func (n *nodeFacts) seenLine(l *nodereport.LogLine) Evidence {
	return fact(Object{Kind: "NodeReport", Name: n.node}, "kernelLog", l.Message, l.At)
}

func (n *nodeFacts) seenTask(t *nodereport.Task) Evidence {
	return n.seen(fmt.Sprintf("tasks[%d]", t.PID), fmt.Sprintf("%s %s, state %s, %s old", t.Comm, t.Args, t.State, ago(time.Duration(t.Seconds)*time.Second)))
}
