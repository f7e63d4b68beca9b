package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// inTickets are Longhorn's own VolumeAttachments, of its API group: one a volume, with a ticket for each user of the volume.
// They are evidence where they are in the input.
var inTickets = Input{Resource: "volumeattachments.longhorn.io"}

const longhornDriver = "driver.longhorn.io"

// ticket tells of another user of a Longhorn volume than the CSI attacher that holds it to the node that a detach frees; empty: none
// is to be seen.
func (v *View) ticket(at *storagev1.VolumeAttachment) (string, []Evidence) {
	if v.Driver != longhornDriver || at.Status.DetachError == nil && v.age(at.DeletionTimestamp.Time) < normalAttach {
		return "", nil
	}
	var all []*unstructured.Unstructured
	v.ahead(func() { all, _ = list[*unstructured.Unstructured](v.world, inTickets, snapshot.Query{}) })
	for _, o := range all {
		if volume, _, _ := unstructured.NestedString(o.Object, "spec", "volume"); volume != v.Handle {
			continue
		}
		tickets, _, _ := unstructured.NestedMap(o.Object, "spec", "attachmentTickets")
		var names []string
		for name, x := range tickets {
			t, _ := x.(map[string]any)
			if t["nodeID"] == at.Spec.NodeName && t["type"] != "csi-attacher" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			who := strings.Join(names, ", ")
			return fmt.Sprintf("Longhorn itself holds the volume there by its attachment ticket %s", who),
				[]Evidence{fact(ref(o), "spec.attachmentTickets (longhorn.io)", who, time.Time{})}
		}
	}
	return "", nil
}
