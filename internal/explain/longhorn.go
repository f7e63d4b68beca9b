package explain

import (
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const longhornDriver = "driver.longhorn.io"

// ticket tells of another user of a Longhorn volume than the CSI attacher, which holds it to the node that a detach frees; empty:
// none is to be seen. Longhorn's own VolumeAttachment, of its API group, has a ticket for each user; it is evidence where it
// is in the input.
func (v *View) ticket(at *storagev1.VolumeAttachment) (string, []Evidence) {
	if v.Driver != longhornDriver || at.Status.DetachError == nil && v.age(at.DeletionTimestamp.Time) < normalAttach {
		return "", nil
	}
	var o *unstructured.Unstructured
	v.ahead(func() {
		sets, _ := v.daemonSets()
		for _, d := range sets {
			if o == nil {
				o, _ = get[*unstructured.Unstructured](v.world, inTickets, d.Namespace, v.Handle)
			}
		}
	})
	if o == nil {
		return "", nil
	}
	tickets, _, _ := unstructured.NestedMap(o.Object, "spec", "attachmentTickets")
	var names []string
	for name, x := range tickets {
		if t, _ := x.(map[string]any); t["nodeID"] == at.Spec.NodeName && t["type"] != "csi-attacher" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	who := strings.Join(names, ", ")
	return "Longhorn itself holds the volume there by its attachment ticket " + who,
		[]Evidence{fact(ref(o), "spec.attachmentTickets (longhorn.io)", who, time.Time{})}
}
