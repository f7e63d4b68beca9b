package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// holding is who says that a node has one volume.
type holding struct {
	name       string // for a human: the volume's, else handle and driver
	inUse      bool   // the kubelet, in status.volumesInUse
	listed     bool   // the attach-detach controller, in status.volumesAttached
	attachment *storagev1.VolumeAttachment
	mounted    *nodereport.Volume // the node's report shows it staged
}

// account compares what the kubelet, the attach-detach controller, the VolumeAttachments and, where the node's report lies in the
// input, its mounts say of the volumes on a node. What differs is noted: what is wrong with a volume is found elsewhere.
func (a *answer) account(node *corev1.Node, attachments []*storagev1.VolumeAttachment, drivers []*storagev1.CSIDriver, pods []*corev1.Pod) {
	held := map[string]*holding{} // by the attachment's computed name
	at := func(driver, handle string) *holding {
		key := attachmentName(handle, driver, node.Name)
		if held[key] == nil {
			held[key] = &holding{name: fmt.Sprintf("%s (%s)", handle, driver)}
		}
		return held[key]
	}
	for _, u := range node.Status.VolumesInUse {
		if driver, handle, ok := ofUnique(u); ok {
			at(driver, handle).inUse = true
		}
	}
	for _, u := range node.Status.VolumesAttached {
		if driver, handle, ok := ofUnique(u.Name); ok {
			at(driver, handle).listed = true
		}
	}
	report := a.reportAtHand(node.Name)
	if report != nil {
		table, _ := mountinfo.Parse(report.Mountinfo)
		for i, vol := range report.Volumes {
			if vol.Handle != "" && vol.Staging != nil && len(table.Below(vol.Staging.Path)) > 0 && attaches(vol.Driver, drivers) {
				at(vol.Driver, vol.Handle).mounted = &report.Volumes[i]
			}
		}
	}
	for _, v := range attachments {
		if v.Spec.NodeName != node.Name || v.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if held[v.Name] == nil {
			held[v.Name] = &holding{}
		}
		held[v.Name].name, held[v.Name].attachment = *v.Spec.Source.PersistentVolumeName, v
	}
	// While a pod comes or goes the four differ for a moment.
	moving := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || !mounted(p) })
	settled := func(h *holding) bool {
		return h.attachment != nil && h.attachment.Status.Attached && h.attachment.DeletionTimestamp == nil && a.age(h.attachment.CreationTimestamp.Time) >= normalAttach
	}
	a.differ(held, "the kubelet has %s in use without a VolumeAttachment", func(h *holding) bool { return h.inUse && h.attachment == nil && !moving })
	a.differ(held, "volumesAttached lists %s without a VolumeAttachment", func(h *holding) bool { return h.listed && h.attachment == nil && !moving })
	a.differ(held, "volumesAttached does not list %s, whose VolumeAttachment says attached", func(h *holding) bool { return !h.listed && settled(h) })
	a.differ(held, "the kubelet does not list %s in use, which stands mounted: its detach would not wait for the unmount", func(h *holding) bool { return h.mounted != nil && !h.inUse && settled(h) })
	a.differ(held, "the node has %s mounted without a VolumeAttachment: no limit counts it", func(h *holding) bool { return h.mounted != nil && h.attachment == nil })
	if report != nil {
		a.unknownOn(report)
	}
}

// ofUnique splits a unique volume name of a CSI volume.
func ofUnique(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	rest, ok := strings.CutPrefix(string(name), "kubernetes.io/csi/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "^")
}

// attaches: the driver's CSIDriver does not say that its volumes need no attachment.
func attaches(driver string, all []*storagev1.CSIDriver) bool {
	return !slices.ContainsFunc(all, func(d *storagev1.CSIDriver) bool {
		return d.Name == driver && d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired
	})
}

const maxNamed = 3 // volumes of a note

// differ notes the volumes that fit, a few by name.
func (a *answer) differ(held map[string]*holding, text string, fits func(*holding) bool) {
	var names []string
	for _, h := range held {
		if fits(h) {
			names = append(names, h.name)
		}
	}
	if len(names) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf(text, someOf(names, "volume")))
	}
}

// someOf names a few of many: "5 volumes (a, b, c and 2 more)".
func someOf(names []string, what string) string {
	slices.Sort(names)
	n := len(names)
	said := fmt.Sprintf("%d %ss", n, what)
	if n == 1 {
		said = "1 " + what
	}
	more := ""
	if n > maxNamed {
		more = fmt.Sprintf(" and %d more", n-maxNamed)
	}
	return said + " (" + strings.Join(names[:min(maxNamed, n)], ", ") + more + ")"
}

// inlineHandle is the handle that the kubelet makes for an inline volume (pkg/volume/csi makeVolumeHandle).
var inlineHandle = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

// unknownOn notes the volumes of a report whose PersistentVolume does not exist, and limits that the driver now says otherwise.
func (a *answer) unknownOn(r *nodereport.NodeReport) {
	var gone []string
	for _, vol := range r.Volumes {
		if vol.PV == "" || inlineHandle.MatchString(vol.Handle) { // of an inline volume it is the name in the pod
			continue
		}
		if _, known := a.volumeNamed(vol.PV); known == No {
			gone = append(gone, vol.PV)
		}
	}
	if len(gone) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("the node has folders of %s that Kubernetes does not know any more", someOf(gone, "volume")))
	}
	for _, d := range r.Drivers {
		v := &View{world: a.world, Driver: d.Name}
		entry, known := v.registered(r.Metadata.Name)
		if known == Yes && d.Node != nil && d.Node.Error == "" && d.Node.MaxVolumes > 0 && entry.Allocatable != nil && entry.Allocatable.Count != nil && int64(*entry.Allocatable.Count) != d.Node.MaxVolumes {
			a.Notes = append(a.Notes, fmt.Sprintf("driver %s says now that the node takes %d volumes, and the CSINode has %d", d.Name, d.Node.MaxVolumes, *entry.Allocatable.Count))
		}
	}
}

// reportAtHand is a node's report where it lies in the input: that nobody probed the node is no gap here.
func (w *world) reportAtHand(node string) *nodereport.NodeReport {
	var r *nodereport.NodeReport
	w.ahead(func() { r, _ = w.report(node) })
	return r
}
