package explain

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// attachmentName is how the attach-detach controller names a VolumeAttachment (pkg/volume/csi/csi_attacher.go
// getAttachmentName): handle, driver and Node object's name, joined without separators.
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// csiStaging is the folder below the kubelet's root that has one for each driver, and in that one for each staged volume.
const csiStaging = "/plugins/kubernetes.io/csi/"

// stagingFolder is where a kubelet keeps a volume's staging mount and its vol_data.json, below its root (makeDeviceMountPath).
func stagingFolder(driver, handle string) string {
	return fmt.Sprintf("%s%s/%x", csiStaging, driver, sha256.Sum256([]byte(handle)))
}

// uniqueName is the volume's name in a node's volumesInUse and volumesAttached.
func uniqueName(driver, handle string) string { return "kubernetes.io/csi/" + driver + "^" + handle }

var unsafeDriver = regexp.MustCompile(`[^a-zA-Z0-9-]`)

// sanitized driver names stand in finalizers and lease names (external-attacher's SanitizeDriverName, csi-lib-utils'
// leader election).
func sanitized(name string) string {
	name = unsafeDriver.ReplaceAllString(name, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

func attacherFinalizer(driver string) string { return "external-attacher/" + sanitized(driver) }

// attachment is the VolumeAttachment of the view's volume to a node, got by its computed name.
func (v *View) attachment(node string) (*storagev1.VolumeAttachment, Truth) {
	if v.PV == nil && v.pvKnown == Unknown {
		v.complete(attachmentsOf(v.volumeName()), 0) // they name the volume: whoever may read neither is told of both
		return nil, Unknown
	}
	if v.Driver == "" || v.Handle == "" || node == "" {
		return nil, No
	}
	at, known := (*storagev1.VolumeAttachment)(nil), Unknown
	byName := func() {
		at, known = get[*storagev1.VolumeAttachment](v.world, inAttachments, "", attachmentName(v.Handle, v.Driver, node))
	}
	if v.PV == nil || !v.facts.Covers(attachmentsOf(v.PV.Name)) {
		byName()
		return at, known
	}
	// Of the volume's own there is none where none was seen. Another volume with its handle may have one of that name still.
	if v.ahead(byName); known == Unknown {
		_, all := v.attachments()
		return nil, all.not()
	}
	return at, known
}

// attachments are all VolumeAttachments of the view's PV. The server gives the whole list for it.
func (v *View) attachments() ([]*storagev1.VolumeAttachment, Truth) {
	if v.PV == nil {
		return nil, v.pvKnown.not()
	}
	return v.attachmentsOf(v.PV.Name)
}

// attachmentsOf asks for the VolumeAttachments of a PersistentVolume: the reader drops the others as they come.
func attachmentsOf(pv string) snapshot.Query {
	return snapshot.Query{Resource: inAttachments.Resource, Fields: "spec.source.persistentVolumeName=" + pv}
}

func (w *world) attachmentsOf(pv string) ([]*storagev1.VolumeAttachment, Truth) {
	known := Unknown
	if w.complete(attachmentsOf(pv), 0) {
		known = Yes
	}
	return grouped(w, inAttachments, "volume", func(a *storagev1.VolumeAttachment) []string {
		if a.Spec.Source.PersistentVolumeName == nil {
			return nil
		}
		return []string{*a.Spec.Source.PersistentVolumeName}
	})[pv], known
}

// attachmentsTo are all VolumeAttachments to a node.
func (w *world) attachmentsTo(node string) ([]*storagev1.VolumeAttachment, Truth) {
	return list[*storagev1.VolumeAttachment](w, inAttachments, snapshot.Query{Fields: "spec.nodeName=" + node})
}

// attachRequired: without a CSIDriver object attaching is required (pkg/volume/csi/csi_plugin.go skipAttach). Where CSIDrivers may
// not be read, an attachment of the volume shows it.
func (v *View) attachRequired() Truth {
	if v.Driver == "" || v.Inline != nil {
		return No
	}
	d, known := v.csiDriver()
	if known == Unknown && v.unanswered(snapshot.Query{Resource: inDrivers.Resource, Name: v.Driver}) {
		all, _ := v.attachments()
		return Unknown.or(truth(slices.ContainsFunc(all, func(at *storagev1.VolumeAttachment) bool { return at.Spec.Attacher == v.Driver })))
	}
	if known == Unknown {
		return Unknown
	}
	return truth(known == No || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired)
}

// node gets a Node object.
func (w *world) node(name string) (*corev1.Node, Truth) {
	return get[*corev1.Node](w, inNodes, "", name)
}

// nodeReady is the node's Ready condition; No also for a node that does not exist.
func (w *world) nodeReady(name string) (Truth, *corev1.NodeCondition) {
	n, known := w.node(name)
	if known != Yes {
		return known, nil
	}
	for i, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return truth(c.Status == corev1.ConditionTrue), &n.Status.Conditions[i]
		}
	}
	return No, nil
}

// inUse: the kubelet of the node says that it still has, or wants, the volume mounted.
func (v *View) inUse(node string) Truth {
	n, known := v.node(node)
	if known != Yes {
		return known
	}
	for _, u := range n.Status.VolumesInUse {
		if string(u) == uniqueName(v.Driver, v.Handle) {
			return Yes
		}
	}
	return No
}

// listedAttached: the attach-detach controller told the node that the volume is attached.
func (v *View) listedAttached(node string) Truth {
	n, known := v.node(node)
	if known != Yes {
		return known
	}
	for _, a := range n.Status.VolumesAttached {
		if string(a.Name) == uniqueName(v.Driver, v.Handle) {
			return Yes
		}
	}
	return No
}

// volumeNamed gets a PersistentVolume.
func (w *world) volumeNamed(name string) (*corev1.PersistentVolume, Truth) {
	return get[*corev1.PersistentVolume](w, inVolumes, "", name)
}
