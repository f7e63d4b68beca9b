package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// candidates are the volumes that a claim could be bound to, by what stands in the way.
type candidates struct {
	free     []*corev1.PersistentVolume // fit, and are free or reserved for this claim
	broken   []*corev1.PersistentVolume // fit, and their claimRef names no claim that could be
	released []*corev1.PersistentVolume // fit, and still carry a claim that is gone
	claimed  []*corev1.PersistentVolume // fit, and belong to another claim
	near     []nearVolume               // do not fit in one or two things
	barred   bool                       // one of these is free and fits, but for the nodes that the pod may run on
	selected bool                       // the claim has a selector, and it matches one of these
	unsure   bool                       // something that decides where one belongs could not be read
}

// nearVolume is a volume that nearly fits.
type nearVolume struct {
	pv  *corev1.PersistentVolume
	why []string
}

// maxNear is how many things may differ in a volume that is still worth naming.
const maxNear = 2

// candidates judges the volume that the claim names, or else all volumes.
func (v *View) candidates() (candidates, Truth) {
	key := "candidates for " + v.Namespace + "/" + v.ClaimName
	if v.Pod != nil {
		key += " in " + v.Pod.Name
	}
	c, known := allOf(v.world, key, func() ([]candidates, Truth) {
		c, known := v.sortedOut()
		c.near = slices.Clip(c.near)
		return []candidates{c}, known
	})
	return c[0], known
}

func (v *View) sortedOut() (candidates, Truth) {
	var c candidates
	if v.Claim.Spec.VolumeName != "" {
		if v.PV != nil {
			v.sortIn(&c, v.PV, true)
		}
		if v.pvKnown == Unknown {
			return c, Unknown
		}
		return c, Yes
	}
	volumes, known := list[*corev1.PersistentVolume](v.world, inVolumes, snapshot.Query{})
	for _, pv := range volumes {
		if r := pv.Spec.ClaimRef; r != nil && r.Name != v.ClaimName && r.Name != "" && r.Namespace != "" && pv.Status.Phase == corev1.VolumeBound && classOf(pv) != v.className() {
			continue // another claim's, and it would not fit: most volumes of a cluster
		}
		v.sortIn(&c, pv, false)
	}
	slices.SortStableFunc(c.near, func(a, b nearVolume) int { return cmp.Compare(len(a.why), len(b.why)) })
	return c, known
}

// sortIn puts a volume where it belongs; named: the claim asks for it by name, so whatever differs counts.
func (v *View) sortIn(c *candidates, pv *corev1.PersistentVolume, named bool) {
	why, selected := v.misfits(pv)
	barred := false
	if len(why) == 0 && pv.Spec.NodeAffinity != nil {
		switch reach := v.reachable(pv); {
		case reach == No:
			why = append(why, "no node is there that reaches it ("+affinity(pv)+")")
		case reach == Unknown:
			c.unsure = true
		case v.barred(pv):
			barred, why = true, append(why, "no node that the pod's node selector or affinity allows reaches it ("+affinity(pv)+")")
		}
	}
	r := pv.Spec.ClaimRef
	ours := r != nil && r.Namespace == v.Namespace && r.Name == v.ClaimName
	mine := r == nil || ours && (r.UID == "" || r.UID == v.Claim.UID)
	gone := pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
	switch {
	case len(why) > 0:
		if (mine && !gone || named) && (named || ours || selected || len(why) <= maxNear && !dynamic(pv)) {
			c.near = append(c.near, nearVolume{pv, why})
			c.selected = c.selected || selected
			c.barred = c.barred || barred && mine && !gone
		}
		return
	case mine && !gone:
		c.free = append(c.free, pv)
	case gone || ours:
		c.released = append(c.released, pv)
	case r.Name == "" || r.Namespace == "":
		c.broken = append(c.broken, pv)
	default:
		if r.Name == v.ClaimName { // the right name in another namespace, perhaps by mistake
			_, other := get[*corev1.PersistentVolumeClaim](v.world, inClaims, r.Namespace, r.Name)
			if other == No {
				c.broken = append(c.broken, pv)
				break
			}
			c.unsure = c.unsure || other == Unknown
		}
		c.claimed = append(c.claimed, pv)
	}
	c.selected = c.selected || selected
}

// barred: the scheduler finds no volume for the pod, and the pod's own node selector or affinity allows no node that reaches
// this one.
func (v *View) barred(pv *corev1.PersistentVolume) bool {
	if v.Pod == nil || v.waitsForConsumer() != Yes || !noVolumeFits.MatchString(v.unschedulable()) {
		return false
	}
	nodes, known := v.nodes()
	wants := nodeaffinity.GetRequiredNodeAffinity(v.Pod)
	_, found := first(nodes, known, func(n *corev1.Node) bool {
		allowed, err := wants.Match(n)
		return (allowed || err != nil) && reaches(pv, n)
	})
	return found == No
}

// dynamic: a provisioner made it for one claim.
func dynamic(pv *corev1.PersistentVolume) bool {
	return strings.HasPrefix(pv.Name, "pvc-") && pv.Annotations[annProvisionedBy] != ""
}

// misfits says in what a volume does not fit the claim, as the PV controller and the scheduler judge
// (component-helpers storage/volume.FindMatchingVolume); selected: the claim has a selector, and the volume matches it.
func (v *View) misfits(pv *corev1.PersistentVolume) (why []string, selected bool) {
	spec := v.Claim.Spec
	differ := func(what, has, asked string) {
		why = append(why, fmt.Sprintf("%s %s, the claim asks for %s", what, cmp.Or(has, `""`), cmp.Or(asked, `""`)))
	}
	if class := classOf(pv); class != v.className() {
		differ("storageClassName", class, v.className())
	}
	asked, has := spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	if has.Cmp(asked) < 0 {
		differ("capacity", has.String(), asked.String())
	}
	for _, m := range spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, m) {
			differ("accessModes", modes(pv.Spec.AccessModes), modes(spec.AccessModes))
			break
		}
	}
	if a, b := modeOf(pv.Spec.VolumeMode), modeOf(spec.VolumeMode); a != b {
		differ("volumeMode", string(a), string(b))
	}
	if a, b := text(pv.Spec.VolumeAttributesClassName), text(spec.VolumeAttributesClassName); a != b {
		differ("volumeAttributesClassName", a, b)
	}
	if spec.Selector != nil {
		s, err := metav1.LabelSelectorAsSelector(spec.Selector)
		selected = err == nil && s.Matches(labels.Set(pv.Labels))
		if !selected && spec.VolumeName == "" {
			differ("labels", labels.Set(pv.Labels).String(), metav1.FormatLabelSelector(spec.Selector))
		}
	}
	if pv.DeletionTimestamp != nil {
		why = append(why, "it is being deleted")
	}
	return why, selected
}

// classOf is the class that a volume carries, by the annotation that goes before the field.
func classOf(pv *corev1.PersistentVolume) string {
	if a, ok := pv.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return a
	}
	return pv.Spec.StorageClassName
}

// className is the class that the claim names, or none.
func (v *View) className() string {
	name, _ := className(v.Claim)
	return name
}

// asks is what the claim asks for, in one line.
func (v *View) asks() string {
	spec := v.Claim.Spec
	size := spec.Resources.Requests[corev1.ResourceStorage]
	out := fmt.Sprintf("storageClassName %q, %s, %s, volumeMode %s", v.className(), size.String(), modes(spec.AccessModes), modeOf(spec.VolumeMode))
	if spec.Selector != nil {
		out += ", selector " + metav1.FormatLabelSelector(spec.Selector)
	}
	return out
}

func modes(m []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, a := range m {
		out = append(out, string(a))
	}
	return strings.Join(out, ",")
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem // the API server's default
	}
	return *m
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// first says of the nearest volume in what it differs.
func (c candidates) first() string {
	if len(c.near) == 0 {
		return "nothing near it"
	}
	return strings.Join(c.near[0].why, "; ")
}

// evidence names the nearest volumes and what stands in their way.
func (c candidates) evidence(most int) []Evidence {
	var out []Evidence
	for i, n := range c.near {
		if i == most {
			break
		}
		out = append(out, fact(ref(n.pv), "does not fit", strings.Join(n.why, "; "), time.Time{}))
	}
	return out
}
