package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func volumeLimit(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.Driver == "" || !limitWords.MatchString(v.unfit()) {
		return v.saidOnly(limitWords)
	}
	f := v.scheduling()
	csinodes, known := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	attachments, _ := list[*storagev1.VolumeAttachment](v.world, inAttachments, snapshot.Query{})
	var full []string
	most, unlimited, freed := int32(-1), false, false
	for _, n := range csinodes {
		d := driverOf(n, v.Driver)
		if d == nil {
			continue
		}
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			unlimited = true
			continue
		}
		most = max(most, *d.Allocatable.Count)
		var attached int
		var leaving *storagev1.VolumeAttachment
		for _, a := range attachments {
			if a.Spec.Attacher == v.Driver && a.Spec.NodeName == n.Name {
				attached++
				if a.DeletionTimestamp != nil && a.Status.DetachError == nil && v.age(a.DeletionTimestamp.Time) < normalTeardown {
					leaving = a
				}
			}
		}
		if attached < int(*d.Allocatable.Count) {
			continue
		}
		full = append(full, fmt.Sprintf("%s (%d of %d)", n.Name, attached, *d.Allocatable.Count))
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: n.Name}, "spec.drivers["+v.Driver+"].allocatable.count", fmt.Sprintf("%d, and %d volumes are attached", *d.Allocatable.Count, attached), time.Time{}))
		if leaving != nil {
			freed = true
			f.Status, f.Until = StatusWaiting, moment(leaving.DeletionTimestamp.Add(normalTeardown))
			f.Evidence = append(f.Evidence, fact(ref(leaving), "metadata.deletionTimestamp", leaving.DeletionTimestamp.UTC().Format(time.RFC3339), leaving.DeletionTimestamp.Time))
		}
	}
	if known == Yes && most < 0 {
		return Finding{}, No // this driver sets no limit: another volume of the pod meets one
	}
	if own := v.ownVolumes(); known == Yes && most > 0 && !unlimited && own > int(most) {
		f.Confidence, f.Status, f.Until = Certain, StatusStuck, nil
		f.Why = fmt.Sprintf("Pod %s/%s alone needs %d volumes of driver %s, and no node takes more than %d.", v.Pod.Namespace, v.Pod.Name, own, v.Driver, most)
		f.Evidence = append(f.Evidence, fact(ref(v.Pod), "spec.volumes", fmt.Sprintf("%d of driver %s", own, v.Driver), v.Pod.CreationTimestamp.Time),
			fact(Object{Kind: "CSINode"}, "spec.drivers["+v.Driver+"].allocatable.count", fmt.Sprintf("%d at most", most), time.Time{}))
		f.Fix = []Step{v.look("See the limits", "get", "csinodes", "-o", "yaml"),
			say("Give the pod fewer and larger volumes, share them among several pods, or add a machine type that takes more. New nodes of the same type do not help.")}
		return f, Yes
	}
	f.Why = fmt.Sprintf("Every node that the pod could use already has as many volumes of driver %s as it takes.", v.Driver)
	if len(full) > 0 {
		f.Confidence = Certain
		f.Why = fmt.Sprintf("Pod %s/%s finds no node with a free slot for a volume of driver %s; full: %s.", v.Pod.Namespace, v.Pod.Name, v.Driver, strings.Join(full[:min(5, len(full))], ", "))
	}
	if freed {
		f.Why += " A volume is being detached there, which frees a slot."
	}
	f.Fix = []Step{v.look("See what is attached where, and what is left over", "get", "volumeattachments", "-o", "wide"),
		v.look("See the limits", "get", "csinodes", "-o", "yaml"),
		say("Add a node (or a larger machine type where the limit follows the type), or move pods with volumes away. Do not delete VolumeAttachments by hand.")}
	return f, Yes
}

// ownVolumes counts the volumes of the view's driver that its pod needs: so many at least.
func (v *View) ownVolumes() (n int) {
	for i := range v.Pod.Spec.Volumes {
		vol := &v.Pod.Spec.Volumes[i]
		if name := claimOfVolume(v.Pod, vol); name != "" && v.view(v.Pod.Namespace, name, v.Pod, vol).Driver == v.Driver {
			n++
		}
	}
	return n
}

func driverOf(n *storagev1.CSINode, driver string) *storagev1.CSINodeDriver {
	for i := range n.Spec.Drivers {
		if n.Spec.Drivers[i].Name == driver {
			return &n.Spec.Drivers[i]
		}
	}
	return nil
}

func noCapacity(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.bound() || v.Claim == nil || v.Driver == "" || !capacityWords.MatchString(v.unfit()) {
		return v.saidOnly(capacityWords)
	}
	s := v.sidecar(provisionerSidecar) // asked for early, it saves a round
	d, driverKnown := v.csiDriver()
	if driverKnown == No || driverKnown == Yes && (d.Spec.StorageCapacity == nil || !*d.Spec.StorageCapacity) {
		return Finding{}, No // the scheduler speaks of another volume of the pod
	}
	csinodes, known := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	if _, registered := first(csinodes, known, func(n *storagev1.CSINode) bool { return driverOf(n, v.Driver) != nil }); registered != Yes {
		return Finding{}, min(registered, Unknown) // no plugin anywhere: that is why nobody publishes
	}
	capacities, known := list[*storagev1.CSIStorageCapacity](v.world, inCapacities, snapshot.Query{})
	class := v.className()
	asked := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	f := v.scheduling()
	if known == Unknown { // the scheduler has counted them: only how much there is, and where, stays open
		f.Why = fmt.Sprintf("The scheduler finds no node with room for %s of class %s (driver %s). It counts by CSIStorageCapacity objects, and these could not be read.", asked.String(), class, v.Driver)
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.resources.requests.storage", asked.String(), time.Time{}))
		f.Fix = []Step{v.look("See, with the right to, how much room the driver publishes for each node or zone, or that nobody publishes any", "get", "csistoragecapacities", "-A"),
			say("Make room in the pools of the nodes that the pod may use, ask for less, or let the pod run on nodes that have room.")}
		return f, Yes
	}
	f.Confidence = Certain
	var published int
	for _, c := range capacities {
		if c.StorageClassName != class {
			continue
		}
		published++
		room := c.Capacity
		if c.MaximumVolumeSize != nil {
			room = c.MaximumVolumeSize
		}
		if published <= 5 && room != nil {
			where := "everywhere"
			if c.NodeTopology != nil {
				where = metav1.FormatLabelSelector(c.NodeTopology)
			}
			f.Evidence = append(f.Evidence, fact(ref(c), "capacity", room.String()+" for "+where, c.CreationTimestamp.Time))
		}
	}
	f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.resources.requests.storage", asked.String(), time.Time{}))
	if published == 0 {
		f.Why = fmt.Sprintf("Driver %s has storageCapacity on, so the scheduler counts only what CSIStorageCapacity objects say, and there is none for class %s: every node looks full.", v.Driver, class)
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSIStorageCapacity"}, "storageClassName="+class, "there is none", time.Time{}))
		if s = v.withPod(s); s.Pod != nil {
			if c := sidecarContainer(s.Pod.Spec.Containers, provisionerSidecar); c != nil && !flagged(c, "enable-capacity") {
				f.Why += fmt.Sprintf(" %s in pod %s/%s runs without --enable-capacity, so it publishes none.", c.Name, s.Pod.Namespace, s.Pod.Name)
				f.Evidence = append(f.Evidence, fact(ref(s.Pod), "spec.containers["+c.Name+"].args", strings.Join(c.Args, " "), time.Time{}))
			}
		}
		f.Fix = []Step{v.look("See whether anybody publishes capacity", "get", "csistoragecapacities", "-A"),
			say("Run csi-provisioner with --enable-capacity (and --capacity-ownerref-level, POD_NAME and NAMESPACE set), and see in its log that GetCapacity answers. Or switch storageCapacity off in the CSIDriver, if the driver does not report capacity.")}
		return f, Yes
	}
	f.Why = fmt.Sprintf("Class %s of driver %s has no node with room for %s by what the CSIStorageCapacity objects say.", class, v.Driver, asked.String())
	f.Fix = []Step{v.look("See how much room the driver publishes for each node or zone", "get", "csistoragecapacities", "-A"),
		say("Make room in the pools of the nodes that the pod may use, ask for less, or let the pod run on nodes that have room. The objects are renewed every minute.")}
	return f, Yes
}
