package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func modifyFailed(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.modifying() {
		return Finding{}, No
	}
	target := v.wantedAttributes()
	status := corev1.PersistentVolumeClaimModifyVolumeStatus("")
	if s := v.Claim.Status.ModifyVolumeStatus; s != nil {
		target, status = cmp.Or(s.TargetVolumeAttributesClassName, target), s.Status
	}
	events, known := v.claimEvents()
	t := troubleIn(events, func(r report) bool { return r.Reason == "VolumeModifyFailed" }, func(r report) bool {
		return r.Reason == "VolumeModifySuccessful" || r.Reason == "VolumeModifyCanceled"
	})
	if c := claimCondition(v.Claim, corev1.PersistentVolumeClaimVolumeModifyVolumeError); t == nil && c != nil {
		t = &trouble{Text: c.Message, Since: c.LastTransitionTime.Time, At: c.LastTransitionTime.Time, Count: 1, Evidence: fact(v.claimObject(), "status.conditions[ModifyVolumeError]", c.Message, c.LastTransitionTime.Time)}
	}
	f := Finding{Evidence: []Evidence{fact(v.claimObject(), "spec.volumeAttributesClassName", target, time.Time{})}}
	if status != "" {
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "status.modifyVolumeStatus", string(status)+" "+target, time.Time{}))
	}
	class, classKnown := get[*storagev1.VolumeAttributesClass](v.world, inAttributes, "", target)
	if class != nil {
		f.Evidence = append(f.Evidence, fact(ref(class), "parameters", parameters(class.Parameters), time.Time{}))
	}
	who := fmt.Sprintf("The claim asks for the attributes of class %s", target)
	switch {
	case target != "" && classKnown == No:
		f.Confidence, f.Why = Certain, who+", and there is no VolumeAttributesClass of that name."
	case class != nil && v.Driver != "" && class.DriverName != v.Driver:
		f.Confidence, f.Why = Certain, fmt.Sprintf("%s, which is of the driver %s; the volume is of %s.", who, class.DriverName, v.Driver)
	case t != nil:
		f.Why = fmt.Sprintf("%s, and the backend of %s refuses: %s", who, v.Driver, plainWords(t.Text))
		f.Evidence = append(f.Evidence, t.Evidence)
		f.Status, f.Confidence = v.settled(t), Certain // whatever it says, it is the change that fails
		if status == corev1.PersistentVolumeClaimModifyVolumeInfeasible || excludesSuccess(t.Text) {
			f.Status = StatusStuck
		}
	case status == corev1.PersistentVolumeClaimModifyVolumeInfeasible:
		f.Confidence, f.Why = Certain, who+", and the backend says that it can never have them."
	case v.hop(HopExpand).Status == StatusStuck:
		s := v.sidecar(resizerSidecar)
		f.Why = who + ", and nothing happens since " + ago(v.age(v.expansionSince())) + "."
		if s.Works == No {
			f.Why = fmt.Sprintf("%s, and nobody works on it: %s.", who, s.Why)
			f.Evidence = append(f.Evidence, s.Evidence...)
		}
		if known == Unknown || s.Works == Unknown {
			return Finding{}, Unknown
		}
	default:
		return Finding{}, min(known.and(read(classKnown)).not(), Unknown)
	}
	f.Fix = []Step{v.look("See the classes", "get", "volumeattributesclass"), v.look("See how far it is", "-n", v.Namespace, "get", "pvc", v.ClaimName, "-o", "yaml"),
		say("Correct the class's parameters (make a new class: they cannot be changed), or set the claim's spec.volumeAttributesClassName back to the one it has. The volume works on meanwhile.")}
	return f, Yes
}

// parameters writes a class's parameters, sorted.
func parameters(p map[string]string) string {
	var out []string
	for k, val := range p {
		out = append(out, k+"="+val)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// sizeFinding begins a finding about the open expansion.
func (v *View) sizeFinding(why string) Finding {
	asked, has := v.sizes()
	o := v.claimObject()
	f := Finding{Why: why, Evidence: []Evidence{fact(o, "spec.resources.requests.storage", asked.String(), time.Time{}), fact(o, "status.capacity.storage", has.String(), time.Time{})}}
	if s := v.resizeState(); s != "" {
		f.Evidence = append(f.Evidence, fact(o, "status.allocatedResourceStatuses.storage", string(s), time.Time{}))
	}
	return f
}

// grows writes what is asked for: "claim x asks for 6Ti and has 4Ti".
func (v *View) grows() string {
	asked, has := v.sizes()
	return fmt.Sprintf("Claim %s/%s asks for %s and has %s", v.Namespace, v.ClaimName, asked.String(), has.String())
}

func growthNotAllowed(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || v.modifying() || v.atNode() {
		return Finding{}, No
	}
	if v.PV != nil && v.Driver == "" {
		return Finding{}, No
	}
	t := v.refusedGrowth()
	class, known := v.class()
	if t == nil && (known != Yes || class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion) {
		return Finding{}, min(read(known).not(), Unknown)
	}
	if t == nil && (v.resizeState() != "" || v.resizerSpoke()) {
		return Finding{}, No // the resizer does not look at the class
	}
	name, _ := className(v.Claim)
	f := v.sizeFinding(fmt.Sprintf("The StorageClass %s does not allow volumes to grow.", name))
	if v.growing() {
		f.Why = fmt.Sprintf("%s, and its StorageClass %s does not allow volumes to grow.", v.grows(), name)
	}
	if t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
		f.Why += " The API server says: " + t.Text
	}
	if known == Yes {
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(ref(class), "allowVolumeExpansion", fmt.Sprint(class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion), time.Time{}))
		if class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return Finding{}, No // it does by now
		}
	}
	f.Fix = []Step{v.look("See whether the class lets volumes grow", "get", "storageclass", name), say("If the driver can grow volumes, set allowVolumeExpansion: true in the class (it can be changed in place); else move the data to a larger claim.")}
	return f, Yes
}

// resizerSpoke: the driver's resizer has taken the claim up.
func (v *View) resizerSpoke() bool {
	events, _ := v.claimEvents()
	return slices.ContainsFunc(events, func(r report) bool {
		return r.Reason == "Resizing" || r.Reason == "FileSystemResizeRequired" || r.Reason == "VolumeResizeFailed" && r.Source != "kubelet" && r.Source != "volume_expand"
	})
}

// resizerLately: an event of the resizer about any claim is too young for it to be gone.
func (v *View) resizerLately() bool {
	events, _ := v.claimEvents()
	return slices.ContainsFunc(events, func(r report) bool {
		return strings.HasPrefix(r.Source, "external-resizer") && v.taken.Sub(r.Last) <= recent
	})
}

func resizerNotRunning(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.growing() || v.atNode() || v.Driver == "" || v.hop(HopExpand).Status != StatusStuck && v.age(v.expansionSince()) < normalUntouched || v.resizerLately() {
		return Finding{}, No
	}
	if t, _ := v.controllerTrouble(); t != nil && v.taken.Sub(t.At) <= recent {
		return Finding{}, No
	}
	s := v.sidecar(resizerSidecar)
	_, known := v.claimEvents()
	untouched := v.resizeState() == "" && claimCondition(v.Claim, corev1.PersistentVolumeClaimResizing) == nil && claimCondition(v.Claim, corev1.PersistentVolumeClaimControllerResizeError) == nil && !v.resizerSpoke()
	switch {
	case s.Works == Unknown && untouched: // the resizer marks a claim as soon as it takes it up
		s.Proof, s.Why = Possible, "the claim has no mark of it (no Resizing condition, no allocatedResourceStatuses); the sidecar itself could not be looked at"
	case s.Works == Unknown || known == Unknown && s.Proof != Certain:
		return Finding{}, Unknown
	case s.Works == Yes && (!untouched || v.hop(HopExpand).Status != StatusStuck):
		return Finding{}, No
	}
	f := v.sizeFinding(fmt.Sprintf("%s, and no csi-resizer (external-resizer) of driver %s works on it: %s.", v.grows(), v.Driver, s.Why))
	f.Confidence = s.Proof
	if s.Works == Yes {
		f.Why = fmt.Sprintf("%s. The csi-resizer (external-resizer) of driver %s is there (%s), and has not taken the claim up in %s.", v.grows(), v.Driver, s.Why, ago(v.age(v.expansionSince())))
		f.Confidence = Possible
	}
	f.Evidence = append(f.Evidence, s.Evidence...)
	f.Fix = []Step{v.look("See whether the driver's controller has a csi-resizer, and whether it runs", "get", "pods", "-A", "-o", "custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,CONTAINERS:.spec.containers[*].name,READY:.status.containerStatuses[*].ready"),
		v.look("See its lease", "get", "leases", "-A", "--field-selector", "metadata.name="+resizerSidecar.Lease(v.Driver)),
		say("Install the resizer with the driver's controller (an option of its chart, mostly), or bring it back. It takes the claim up by itself.")}
	if s.Pod != nil {
		f.Fix = append(f.Fix, v.look("Read what it says", "-n", s.Pod.Namespace, "logs", s.Pod.Name, "--all-containers", "--tail=50"))
	}
	return f, Yes
}

func nodeExpandFailed(v *View) (Finding, Truth) {
	if v.Claim == nil || !v.bound() || !v.growing() || !v.at(HopExpand, HopStage, HopPublish) {
		return Finding{}, No
	}
	t, known := v.nodeTrouble()
	if t == nil || !v.at(HopExpand) && !expandsAtMount.in(t.Text) {
		if v.at(HopExpand) && v.resizeState() == corev1.PersistentVolumeClaimNodeResizeInfeasible {
			f := v.sizeFinding(v.grows() + "; the disk has grown, and the driver on the node says that the filesystem can never be.")
			f.Confidence, f.Fix = Certain, v.fixNodeExpand()
			return f, Yes
		}
		if v.at(HopExpand) && t == nil && known == Yes && v.atNode() && v.mounted() && v.hop(HopExpand).Status == StatusStuck {
			return v.silentGrowth(), Yes
		}
		return Finding{}, min(known.not(), Unknown)
	}
	f := v.sizeFinding(fmt.Sprintf("%s. The disk has grown, and growing the filesystem on node %s fails: %s", v.grows(), cmp.Or(v.Node, t.Evidence.Object.Name), plainWords(t.Text)))
	f.Status, f.Confidence = v.settled(t), Certain
	f.Evidence = append(f.Evidence, t.Evidence)
	f.Fix = v.fixNodeExpand()
	return f, Yes
}

// silentGrowth: the disk has grown, a pod uses the volume, and the kubelet of its node neither grows the filesystem nor says why.
func (v *View) silentGrowth() Finding {
	f := v.sizeFinding(fmt.Sprintf("%s. The disk has grown, and the kubelet of node %s has not grown the filesystem in %s, though pod %s uses it, and says nothing of it.", v.grows(), v.Node, ago(v.age(v.expansionSince())), v.say("POD")))
	f.Rest, f.Confidence, f.Fix = true, Possible, v.fixNodeExpand()
	if n, known := v.probed(v.Node); known == Yes {
		if d := n.driver(v.Driver); d != nil && d.Node != nil && d.Node.Capabilities != nil && !slices.Contains(d.Node.Capabilities, "EXPAND_VOLUME") {
			f.Why = strings.TrimSuffix(f.Why, ", and says nothing of it.") + ": the driver on the node cannot expand volumes."
			f.Evidence = append(f.Evidence, n.seen("drivers["+v.Driver+"].node.capabilities", strings.Join(d.Node.Capabilities, ", ")))
			f.Confidence, f.Rest = Certain, false
		}
	}
	return f
}

func (v *View) fixNodeExpand() []Step {
	steps := []Step{}
	if v.Node != "" {
		steps = append(steps, onNode(v.Node, "compare the size of the disk with the filesystem's", "lsblk", "-o", "NAME,MAJ:MIN,SIZE,FSTYPE,FSSIZE,MOUNTPOINTS"), v.pluginLogs())
	}
	return append(steps, say("Mend what the words say: an image of the driver with the tool, a rescan of the disk, a filesystem that is writable and clean. The kubelet tries again by itself; a driver that grows offline only needs the pod to be stopped and started once."))
}

// The words of drivers that grow a volume only while nobody uses it.
var offlineOnly = phrase(
	`only supports offline expansion`,
	`only (be )?(supported|possible|allowed|done) (on|for|with|when|while|if) .{0,30}(unattached|detached|offline|stopped|unmounted|not attached)`,
	`offline (volume )?(expansion|resize)|online (volume )?(expansion|resize|extend)\w* (is )?(not |un)supported`,
	`not support(ed)? online`,
	`(must|should|needs? to|has to) (first )?be (detached|unpublished|offline|unmounted|stopped|shut ?down|deallocated)`,
	`(cannot|can't|can not|unable to|not allowed to|could not) (be )?(expand|resize|extend|grow)\w*.{0,80}(while|when|since|because|as).{0,40}(attached|in[- ]use|published|mounted|online|running)`,
	`(detach|unpublish|scale down|shut ?down|stop).{0,60}(before|and|then|to) .{0,30}(expand|resiz|extend|grow)`,
	`(currently|still|already) (published|attached|staged|mounted)( \S+){0,2} (on|to|at) (a |the )?(node|server|instance|machine|vm)\b`,
	`(currently )?in[- ]use.{0,60}(expand|resize|extend)|attached to (a )?running|status must be available`,
	`(invalid|unexpected|wrong|illegal|incorrect) (\S+ )?(state|status)\b\W*(attached|in[- ]use|published|mounted|online)`,
	`\b(state|status) (\S+ )?\W?(attached|in[- ]use|published|mounted|online)\b.{0,60}(expand|expansion|resiz|extend|grow)`)

func needsDetach(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.growing() {
		return Finding{}, No
	}
	t, known := v.controllerTrouble()
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	if !offlineOnly.in(t.Text) || snapshotsHold.in(t.Text) {
		return Finding{}, No
	}
	f := v.sizeFinding(fmt.Sprintf("%s. Driver %s grows the volume only while no pod uses it: %s", v.grows(), v.Driver, plainWords(t.Text)))
	f.Evidence = append(f.Evidence, t.Evidence)
	f.Status = StatusStuck // the driver's answer does not change by trying again
	users := []string{}
	pods, podsKnown := v.podsOfClaim()
	for _, p := range pods {
		users = append(users, p.Namespace+"/"+p.Name)
	}
	attachments, attachmentsKnown := v.attachments()
	switch free := podsKnown.and(attachmentsKnown); {
	case len(users) > 0:
		f.Why += ". It is used by " + strings.Join(users, ", ") + "."
	case len(attachments) > 0 || free != Yes && v.age(t.At) >= resizerBackoff:
	case free != Yes:
		return Finding{}, Unknown
	case v.age(t.At) < resizerBackoff:
		return Finding{}, No // it was let go of since: the resizer has not tried again yet
	default:
		f.Why += fmt.Sprintf(". No pod uses it and it is attached nowhere, and the resizer has not tried again in %s.", ago(v.age(t.At)))
		f.Confidence = Possible
	}
	f.Fix = []Step{v.look("See who uses the claim", "-n", v.Namespace, "describe", "pvc", v.ClaimName),
		hazard(DangerDisruptive, "the application may stop now", "Scale the owner of these pods to 0, wait until the volume is detached and the claim shows FileSystemResizePending or its new size, then scale it up again.")}
	return f, Yes
}

var (
	snapshotsHold = phrase(`snapshot`)
	// What excludes success without an infeasible code: the backend names a limit or a kind that cannot grow.
	neverGrows = phrase(
		`not support(ed)?|does(n't| not) support|unsupported|is only supported|only .{0,60} (is|are) supported`,
		`exceed\w*.{0,60}(max|limit)|(max|maximum|upper) .{0,40}(size|capacity|limit)|greater than .{0,20}\d`,
		`larger than (the )?(max|allowed)|(cannot|can't|can not) (be )?(shrink|shrunk|decrease)|smaller than`,
		`not (allowed|permitted) for|invalid (size|parameter|argument|request|value)|must be (a )?(multiple|between|less)`,
		`BadRequest|InvalidParameter|incompatible|not expandable|immutable`)
	// What passes by itself or by making room, whatever else the text says.
	passes = phrase(
		`quota|rate (limit|exceed)|throttl|too many requests|\b429\b|try again|retry|temporar|timed? ?out|timeout|deadline`,
		`unavailable|busy|in progress|pending|modification.{0,80}(hour|cooldown|wait)|VolumeModificationRateExceeded`,
		`IncorrectModificationState|no space|not enough|insufficient|out of`)
)

func infeasible(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.growing() || v.atNode() {
		return Finding{}, No
	}
	if v.PV != nil && v.Driver == "" {
		f := v.sizeFinding(fmt.Sprintf("%s. Its volume %s has no CSI driver (%s), so nothing can grow it.", v.grows(), v.PV.Name, sourceKind(v.PV)))
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec", sourceKind(v.PV), time.Time{}))
		if class, known := v.class(); known == Yes {
			f.Evidence = append(f.Evidence, fact(ref(class), "provisioner", class.Provisioner, time.Time{}))
		}
		f.Fix = []Step{v.look("See the volume", "get", "pv", v.PV.Name, "-o", "yaml"),
			say("Set the claim's request back to what it has. A hand-made volume is made larger by hand: grow the folder, disk or share itself, then make a PV with the new capacity, or move the data to a larger claim.")}
		return f, Yes
	}
	t, known := v.controllerTrouble()
	status := v.resizeState() == corev1.PersistentVolumeClaimControllerResizeInfeasible
	if t == nil && !status {
		return Finding{}, min(known.not(), Unknown)
	}
	f := v.sizeFinding(v.grows() + ", and the backend says that this can never be.")
	if t != nil {
		code, _ := grpc(t.Text)
		byCode := slices.Contains([]string{"InvalidArgument", "OutOfRange", "Unimplemented"}, code)
		if !status && !byCode && (!neverGrows.in(plainWords(t.Text)) || passes.in(plainWords(t.Text)) || snapshotsHold.in(t.Text) || offlineOnly.in(t.Text)) {
			return Finding{}, No
		}
		f.Why = fmt.Sprintf("%s, and the backend of %s says that this can never be: %s", v.grows(), v.Driver, plainWords(t.Text))
		f.Evidence = append(f.Evidence, t.Evidence)
		if byCode {
			f.Confidence = Certain
		}
	}
	if status {
		f.Confidence = Certain
	}
	f.Fix = []Step{v.look("See what the resizer says", "-n", v.Namespace, "describe", "pvc", v.ClaimName),
		say("Ask for a size that the backend can make: set the claim's request to that (not below what it has), or change the setting that excludes it, or move the data to a new claim of another class.")}
	return f, Yes
}

// sourceKind names what a PV without a CSI driver is.
func sourceKind(pv *corev1.PersistentVolume) string {
	s := pv.Spec.PersistentVolumeSource
	switch {
	case s.Local != nil:
		return "local " + s.Local.Path
	case s.HostPath != nil:
		return "hostPath " + s.HostPath.Path
	case s.NFS != nil:
		return "nfs " + s.NFS.Server + ":" + s.NFS.Path
	case s.ISCSI != nil:
		return "iscsi " + s.ISCSI.TargetPortal
	case s.FC != nil:
		return "fc"
	}
	return "in-tree"
}

func waitsForPod(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.growing() || !v.atNode() || v.Pod != nil {
		return Finding{}, No
	}
	pods, known := v.consumers(v.Namespace, v.ClaimName)
	if active := slices.DeleteFunc(pods, finished); len(active) > 0 || known != Yes {
		return Finding{}, min(known.not(), Unknown)
	}
	f := v.sizeFinding(v.grows() + ". The disk has grown; the filesystem is grown when a pod mounts the volume, and no pod uses the claim.")
	f.Status, f.Confidence = StatusWaiting, Certain
	f.Fix = []Step{say("Nothing needs to be done: start a pod that uses the claim when it is wanted.")}
	return f, Yes
}

func expandBackendError(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || !v.growing() {
		return Finding{}, No
	}
	t, known := v.controllerTrouble()
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	if offlineOnly.in(t.Text) && !snapshotsHold.in(t.Text) {
		return Finding{}, No
	}
	f := v.sizeFinding(fmt.Sprintf("%s, and the backend of %s fails to grow the volume: %s", v.grows(), v.Driver, plainWords(t.Text)))
	f.Status, f.Rest, f.Said = v.settled(t), true, true
	if notNow.MatchString(t.Text) {
		f.Confidence = Certain
	}
	f.Evidence = append(f.Evidence, t.Evidence)
	f.Fix = []Step{v.look("See what the resizer says", "-n", v.Namespace, "describe", "pvc", v.ClaimName)}
	if snapshotsHold.in(t.Text) {
		f.Fix = append(f.Fix, v.snapshotSteps(&f)...)
	}
	f.Fix = append(f.Fix, say("Mend what the backend says. The resizer tries again by itself, at least every 5 minutes."))
	return f, Yes
}

// notNow are codes with which a backend says that it cannot do it now.
var notNow = regexp.MustCompile(`code = (ResourceExhausted|Aborted|DeadlineExceeded)\b|\b(VolumeModificationRateExceeded|IncorrectModificationState)\b`)

// snapshotSteps name the snapshots of the volume in the cluster, also those whose VolumeSnapshot is gone.
func (v *View) snapshotSteps(f *Finding) []Step {
	steps := []Step{v.look("Find the snapshots of the volume, also those that no VolumeSnapshot leads to", "get", "volumesnapshotcontents", "-o", "custom-columns=NAME:.metadata.name,VOLUME:.spec.source.volumeHandle,SNAPSHOT:.spec.volumeSnapshotRef.name,NAMESPACE:.spec.volumeSnapshotRef.namespace,POLICY:.spec.deletionPolicy")}
	v.ahead(func() {
		contents, _ := list[*snapshotv1.VolumeSnapshotContent](v.world, inContents, snapshot.Query{})
		for _, c := range contents {
			if c.Spec.Source.VolumeHandle == nil || *c.Spec.Source.VolumeHandle != v.Handle || c.Spec.Driver != v.Driver {
				continue
			}
			value := "of " + v.Handle + ", for VolumeSnapshot " + c.Spec.VolumeSnapshotRef.Namespace + "/" + c.Spec.VolumeSnapshotRef.Name
			f.Evidence = append(f.Evidence, fact(ref(c), "spec.source.volumeHandle", value, c.CreationTimestamp.Time))
			f.Why += " In the cluster: VolumeSnapshotContent " + c.Name + "."
		}
	})
	return append(steps, hazard(DangerDataLoss, "nobody needs what the snapshot holds: it is the only copy", "Delete the snapshot where its owner (a backup tool, mostly) made it."))
}

func filesystemSmaller(v *View) (Finding, Truth) {
	if !v.at(HopExpand) || v.growing() || v.modifying() {
		return Finding{}, No
	}
	n := v.lagging()
	if n == nil {
		return Finding{}, No
	}
	d := n.smaller(v)
	_, has := v.sizes()
	size := func(bytes int64) string { return resource.NewQuantity(bytes>>20<<20, resource.BinarySI).String() }
	f := Finding{Status: StatusDegraded, Confidence: Certain,
		Why: fmt.Sprintf("Claim %s/%s has %s, and on node %s its device %s has %s; the %s filesystem on it has only %s. Pod %s runs out of space at that.",
			v.Namespace, v.ClaimName, has.String(), n.node, describe(d.Below), size(d.Below.Bytes), d.Device.Signature.Type, size(d.Device.Signature.Bytes), v.say("POD")),
		Evidence: []Evidence{fact(v.claimObject(), "status.capacity.storage", has.String(), time.Time{}), n.seenMount(d.Mount),
			n.seen("devices["+d.Device.Name+"]", fmt.Sprintf("%s, %d bytes, filesystem %s of %d bytes", describe(d.Device), d.Device.Bytes, d.Device.Signature.Type, d.Device.Signature.Bytes))}}
	grow := onNode(n.node, "grow the mounted filesystem to its device (this is safe while it is mounted)", "resize2fs", "/dev/"+d.Device.Name)
	if d.Device.Signature.Type == "xfs" {
		grow = onNode(n.node, "grow the mounted filesystem to its device (this is safe while it is mounted)", "xfs_growfs", d.Mount.Mountpoint)
	}
	if d.Below != d.Device {
		f.Evidence = append(f.Evidence, n.seen("devices["+d.Below.Name+"]", fmt.Sprintf("%s, %d bytes", describe(d.Below), d.Below.Bytes)))
	}
	grow.Danger, grow.Unless = DangerDisruptive, "the first step shows the device larger than its filesystem, and the kernel log has no error of it"
	f.Fix = []Step{onNode(n.node, "compare the size of the device with the filesystem's", "lsblk", "-b", "-o", "NAME,MAJ:MIN,SIZE,FSTYPE,FSSIZE,MOUNTPOINTS"), grow,
		say("Or ask for a little more in the claim, where the class allows it: the kubelet then grows the filesystem to the whole device.")}
	if mapped := mapperName(d.Device); d.Below != d.Device && mapped != "" {
		step := onNode(n.node, "grow the encryption to its device first (this is safe while it is in use)", "cryptsetup", "resize", mapped)
		if d.Device.Kind == "dm-mpath" {
			step = onNode(n.node, "grow the map to its paths first (this is safe while it is in use)", "multipathd", "resize", "map", mapped)
		}
		f.Fix = slices.Insert(f.Fix, 1, step)
	}
	return f, Yes
}

// mapperName is what the device mapper calls a device; empty: the report has no link that tells.
func mapperName(d *nodereport.Device) string {
	for _, l := range d.Links {
		if name, ok := strings.CutPrefix(l, "/dev/mapper/"); ok {
			return name
		}
	}
	return ""
}

func expandInProgress(v *View) (Finding, Truth) {
	h := v.hop(HopExpand)
	if !v.at(HopExpand) {
		return Finding{}, No
	}
	if t, _ := v.controllerTrouble(); v.growing() && t != nil && offlineOnly.in(t.Text) && !snapshotsHold.in(t.Text) {
		f := v.sizeFinding(v.grows() + ". The driver grows it only while no pod uses it, and none does any more: the resizer tries again within 5 minutes of its last try.")
		until := t.At.Add(resizerBackoff)
		f.Status, f.Until, f.Evidence = StatusWaiting, &until, append(f.Evidence, t.Evidence)
		f.Fix = []Step{say("Wait, and keep the pods stopped until the claim shows its new size, or that the filesystem waits for a pod."), v.look("Watch the claim", "-n", v.Namespace, "get", "pvc", v.ClaimName, "--watch")}
		return f, Yes
	}
	if h.Status != StatusWaiting {
		return Finding{}, No
	}
	f := v.sizeFinding(v.grows() + "; it is being grown since " + ago(v.age(v.expansionSince())) + ".")
	if !v.growing() {
		f = Finding{Why: fmt.Sprintf("The claim is being changed to the attributes of class %s since %s.", v.wantedAttributes(), ago(v.age(v.expansionSince()))),
			Evidence: []Evidence{fact(v.claimObject(), "spec.volumeAttributesClassName", v.wantedAttributes(), time.Time{})}}
	}
	f.Rest, f.Status, f.Until = true, StatusWaiting, h.Until
	f.Fix = []Step{say("Wait."), v.look("Watch the claim", "-n", v.Namespace, "get", "pvc", v.ClaimName, "--watch")}
	return f, Yes
}
