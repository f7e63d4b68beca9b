package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	maxDriverNodes  = 10 // with a fault, shown one by one; of the others the number is said
	maxDriverClaims = 50 // that are not well, asked one by one
)

// driver asks about a CSI driver: its controller's sidecars in one chain, each node that lacks it or where it does not run in a
// chain of its own, then every claim of it that is not well.
func (a *answer) driver(name string) {
	v := &View{world: a.world, Driver: name}
	object, known := v.csiDriver()
	classes := a.classesOf(name)
	nodes, nodesKnown := list[*corev1.Node](a.world, inNodes, snapshot.Query{})
	_, csiNodesKnown := list[*storagev1.CSINode](a.world, inCSINodes, snapshot.Query{})
	_, podsKnown := list[*corev1.Pod](a.world, inPods, snapshot.Query{})
	attachments, _ := list[*storagev1.VolumeAttachment](a.world, inAttachments, snapshot.Query{})
	claims, claimsKnown := list[*corev1.PersistentVolumeClaim](a.world, inClaims, snapshot.Query{})
	volumes, volumesKnown := list[*corev1.PersistentVolume](a.world, inVolumes, snapshot.Query{})
	mine := slices.DeleteFunc(volumes, func(pv *corev1.PersistentVolume) bool { return pv.Spec.CSI == nil || pv.Spec.CSI.Driver != name })

	installed := v.installed()
	a.Missing = known == No && installed == No && len(classes)+len(mine) == 0
	for resource, known := range map[string]Truth{inNodes.Resource: nodesKnown, inCSINodes.Resource: csiNodesKnown, inPods.Resource: podsKnown,
		inClaims.Resource: claimsKnown, inVolumes.Resource: volumesKnown} {
		if known == Unknown {
			a.unseen(snapshot.Query{Resource: resource})
		}
	}
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inDrivers.Resource, Name: name})
	}
	if a.Missing || known == Unknown {
		return
	}
	if object == nil {
		a.Notes = append(a.Notes, fmt.Sprintf("there is no CSIDriver object %s: Kubernetes takes its defaults, so every volume must be attached", name))
	} else {
		a.Notes = append(a.Notes, consequences(object)...)
	}
	switch installed {
	case Unknown:
		a.unseen(snapshot.Query{Resource: inDaemonSets.Resource})
	case No:
		a.Notes = append(a.Notes, fmt.Sprintf("nothing of the driver is installed: %d classes and %d volumes name it", len(classes), len(mine)))
		a.Verdict = Worst(a.Verdict, VerdictDegraded)
	}
	a.controllerOf(v, object, classes, len(mine))
	if podsKnown == Unknown {
		return // asking node by node, or claim by claim, would be a flood
	}
	if nodesKnown == Yes && csiNodesKnown == Yes {
		a.nodesOf(v, nodes)
	}
	a.claimsOf(v, claims, classes, mine, attachments)
}

// consequences are what a CSIDriver's fields mean, in words, where they are not what most drivers have.
func consequences(d *storagev1.CSIDriver) []string {
	var out []string
	say := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	is := func(b *bool) bool { return b != nil && *b }
	say(d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired, "attachRequired: false: volumes are not attached, and nothing keeps two nodes from using one at once but the driver itself")
	say(is(d.Spec.PodInfoOnMount), "podInfoOnMount: true: the driver is told which pod it mounts for")
	say(is(d.Spec.StorageCapacity), "storageCapacity: true: a pod is placed only where the driver has published enough room")
	say(is(d.Spec.RequiresRepublish), "requiresRepublish: true: the kubelet repeats NodePublishVolume about every 100 seconds")
	say(is(d.Spec.SELinuxMount), "seLinuxMount: true: with SELinux, volumes for one pod are mounted with its label")
	say(len(d.Spec.TokenRequests) > 0, "tokenRequests: the driver is given tokens of the pod's service account")
	if p := d.Spec.FSGroupPolicy; p != nil {
		say(*p == storagev1.NoneFSGroupPolicy, "fsGroupPolicy: None: a pod's fsGroup is not applied to the files")
		say(*p == storagev1.FileFSGroupPolicy, "fsGroupPolicy: File: a pod's fsGroup is applied to all files of every volume")
	}
	say(slices.Contains(d.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral), "volumeLifecycleModes: inline volumes of pods are allowed")
	say(len(d.Spec.VolumeLifecycleModes) > 0 && !slices.Contains(d.Spec.VolumeLifecycleModes, storagev1.VolumeLifecyclePersistent), "volumeLifecycleModes: only inline volumes, no claims")
	return out
}

// classesOf are the StorageClasses of a driver.
func (w *world) classesOf(driver string) []*storagev1.StorageClass {
	all, _ := list[*storagev1.StorageClass](w, inClasses, snapshot.Query{})
	return slices.DeleteFunc(all, func(c *storagev1.StorageClass) bool { return c.Provisioner != driver })
}

// duty is a sidecar that a driver needs, the hop that it serves and the cause that its absence is.
type duty struct {
	Kind  sidecarKind
	Hop   HopName
	Cause string
}

// controllerOf judges the sidecars that the driver's objects ask for.
func (a *answer) controllerOf(v *View, object *storagev1.CSIDriver, classes []*storagev1.StorageClass, volumes int) {
	var duties []duty
	if len(classes) > 0 {
		duties = append(duties, duty{provisionerSidecar, HopProvision, "provision/provisioner-not-running"})
	}
	if (object == nil || object.Spec.AttachRequired == nil || *object.Spec.AttachRequired) && len(classes)+volumes > 0 {
		duties = append(duties, duty{attacherSidecar, HopAttach, "attach/attacher-not-running"})
	}
	if slices.ContainsFunc(classes, func(c *storagev1.StorageClass) bool { return c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion }) {
		duties = append(duties, duty{resizerSidecar, HopExpand, "expand/resizer-not-running"})
	}
	snapshotClasses, _ := list[*snapshotv1.VolumeSnapshotClass](a.world, inSnapClasses, snapshot.Query{})
	if slices.ContainsFunc(snapshotClasses, func(c *snapshotv1.VolumeSnapshotClass) bool { return c.Driver == v.Driver }) {
		duties = append(duties, duty{snapshotterSidecar, HopSnapshot, "snapshot/controller-missing"})
	}
	if len(duties) == 0 {
		return
	}
	chain := Chain{Driver: v.Driver}
	for _, d := range duties {
		var s sidecar
		unread := a.scope(func() { s = v.sidecar(d.Kind) })
		hop := Hop{Hop: d.Hop, Status: StatusOK, Note: d.Kind.Name + " works: " + s.Why}
		switch {
		case s.Works == Unknown:
			hop.Status, hop.Note = StatusUnknown, "whether "+d.Kind.Name+" works could not be read"
			a.Verdict = Worst(a.Verdict, VerdictUndetermined)
			for q := range unread {
				a.gap(q)
			}
		case s.Works == No && s.Proof == Certain:
			hop.Status, hop.Note = StatusDegraded, s.Why
			a.add(catalogue[catalogued(d.Cause)].complete(Finding{Hop: d.Hop, Status: StatusDegraded, Confidence: Certain, Evidence: s.Evidence, Fix: v.restartSidecar(s),
				Why: fmt.Sprintf("%s of driver %s does not work: %s. What it is asked for from now on waits.", d.Kind.Name, v.Driver, s.Why)}))
		case s.Works == No: // a managed control plane shows neither lease nor pod
			hop.Status, hop.Note = StatusSkipped, s.Why
		}
		chain.Hops = append(chain.Hops, hop)
	}
	a.Chains = append(a.Chains, chain)
}

// nodesOf looks at the node plugin on every node that has the driver or whose DaemonSet wants it there.
func (a *answer) nodesOf(v *View, nodes []*corev1.Node) {
	sets, setsKnown := v.daemonSets()
	well, kept, more := 0, 0, 0
	images := map[string]int{}
	for _, n := range nodes {
		_, registered := v.registered(n.Name)
		p := v.plugin(n.Name)
		for _, pod := range p.Pods {
			images[driverImage(pod)]++
		}
		pod, _, _ := p.failing(v.taken)
		wanted := false
		for _, d := range sets {
			why, _ := refuses(d, n)
			satisfied := d.Status.DesiredNumberScheduled > 0 && d.Status.NumberReady == d.Status.DesiredNumberScheduled // by its controller's own count
			wanted = wanted || why == "" && !satisfied
		}
		switch ready, _ := a.nodeReady(n.Name); {
		case registered == Yes && pod == nil && len(p.Pods) > 0:
			well++
			continue
		case registered == No && !wanted && len(p.Pods) == 0:
			kept++
			continue
		case ready == No && registered == Yes:
			a.Notes = append(a.Notes, fmt.Sprintf("node %s is not Ready: its plugin answers nobody", n.Name))
			continue
		}
		if more++; more <= maxDriverNodes {
			a.examine(&View{world: a.world, Driver: v.Driver, Node: n.Name, only: []HopName{HopRegister}})
		}
	}
	if more > maxDriverNodes {
		a.Notes = append(a.Notes, fmt.Sprintf("%d nodes more lack the driver or do not run it; each is like one of those above, or ask about it alone", more-maxDriverNodes))
	}
	a.Notes = append(a.Notes, fmt.Sprintf("its node plugin runs and is registered on %d of %d nodes", well, len(nodes)))
	switch {
	case kept > 0 && setsKnown == Unknown:
		a.unseen(snapshot.Query{Resource: inDaemonSets.Resource}) // it may want to be there
	case kept > 0:
		a.Notes = append(a.Notes, fmt.Sprintf("its DaemonSet leaves %d nodes out by its selector or tolerations: no pod with its volumes can run there", kept))
	}
	if len(images) > 1 {
		var versions []string
		for image, n := range images {
			versions = append(versions, fmt.Sprintf("%s on %d", image, n))
		}
		slices.Sort(versions)
		a.Notes = append(a.Notes, "nodes run different versions of it: "+strings.Join(versions, ", "))
	}
}

// driverImage is the image of a plugin pod's own container: the first that is no sidecar.
func driverImage(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if !strings.Contains(c.Name, "registrar") && !strings.Contains(c.Name, "liveness") {
			return c.Image
		}
	}
	return ""
}

// driversOwn are causes whose owner is the driver or its installation, by what stands behind the hop. All else that holds a
// claim up is listed, and does not make the driver unwell.
var driversOwn = []string{"provisioner-not-running", "not-acted-on", "attacher-not-running", "resizer-not-running", "controller-missing", "csidriver-missing",
	"driver-not-installed", "driver-gone", "plugin-gone", "rbac", "permission", "backend-unreachable", "kubelet-root-mismatch"}

// claimsOf asks about the driver's claims that are not well, and counts them by the hop at which they stop.
func (a *answer) claimsOf(v *View, claims []*corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass, volumes []*corev1.PersistentVolume, attachments []*storagev1.VolumeAttachment) {
	class, volume := map[string]bool{}, map[string]bool{}
	for _, c := range classes {
		class[c.Name] = true
	}
	for _, pv := range volumes {
		volume[pv.Name] = true
	}
	detaching := map[string]bool{}
	for _, at := range attachments {
		if at.DeletionTimestamp != nil && at.Spec.Attacher == v.Driver {
			detaching[text(at.Spec.Source.PersistentVolumeName)] = true
		}
	}
	stops, asked, total := map[HopName]int{}, 0, 0
	for _, c := range claims {
		name := ""
		if c.Spec.StorageClassName != nil {
			name = *c.Spec.StorageClassName
		}
		if !volume[c.Spec.VolumeName] && !(c.Spec.VolumeName == "" && class[name]) {
			continue
		}
		total++
		if a.looksWell(c) && !detaching[c.Spec.VolumeName] {
			continue
		}
		if asked++; asked > maxDriverClaims {
			continue
		}
		own := &answer{world: a.world, gaps: map[snapshot.Query]bool{}}
		own.Verdict = VerdictHealthy
		own.claim(c.Namespace, c.Name)
		for _, chain := range own.Chains {
			for _, h := range chain.Hops {
				if h.reached && (h.Status == StatusStuck || h.Status == StatusDegraded) {
					stops[h.Hop]++
					break
				}
			}
		}
		for _, f := range own.Findings {
			_, slug, _ := strings.Cut(f.Cause, "/")
			if f.Hop == HopRegister || slices.Contains(driversOwn, slug) {
				a.add(f)
				a.Chains = append(a.Chains, own.Chains...)
				break
			}
		}
	}
	said := fmt.Sprintf("claims of it: %d", total)
	for _, hop := range shown {
		if n := stops[hop]; n > 0 {
			said += fmt.Sprintf(", %d stuck at %s", n, hop)
		}
	}
	if asked > maxDriverClaims {
		said += fmt.Sprintf("; of %d that are not well %d were looked at", asked, maxDriverClaims)
	}
	a.Notes = append(a.Notes, said)
}

// looksWell: the claim is bound, stays, has the size that it asks for, and all its pods are ready.
func (a *answer) looksWell(c *corev1.PersistentVolumeClaim) bool {
	wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	if c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil || wants.Cmp(has) > 0 {
		return false
	}
	pods, _ := a.consumers(c.Namespace, c.Name)
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || !finished(p) && !ready(p) })
}
