package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// snapshotWords are the words of snapshot-controller, csi-snapshotter and drivers when a snapshot cannot be made.
var snapshotWords = []signature{
	sig("snapshot/class-missing",
		`volumesnapshotclass\S* "[^"]*" not found|failed to (retrieve|get) snapshot class|default snapshot class`,
		`without a snapshot class`),
	sig("snapshot/rbac", `is forbidden: User "|cannot (get|list|watch|create|update|patch|delete) resource "`),
	sig("snapshot/secret-missing",
		`failed to get (credentials|secret)|cannot (get credentials|retrieve secrets)|error getting secret`,
		`secrets? "[^"]+" not found`,
		`\bsecrets? (\S+ ){0,3}(is|are|was|were) (empty|missing|nil|not (found|set|provided|specified))`,
		`(empty|missing|nil|no) (\S+ )?secrets?\b|in secrets? (is |are )?(missing|empty|not found)`),
	sig("snapshot/source-not-ready",
		`not yet bound to a PV|failed to retrieve PVC?\b|PVC source for snapshot|non-CSI volumes is not supported`,
		`cannot find CSI PersistentVolumeSource|claim in dataSource not bound|cannot get (claim|volume) from snapshot`,
		`VolumeSnapshotContent is (missing|not bound|dynamically provisioned)|is pre-provisioned while expecting`,
		`non-existing content|VolumeSnapshotRef does not match|not bound to the VolumeSnapshot`,
		`can ?not find snapshot for snapshotID|volume name is empty`),
}

var snapshotCauses = []Cause{{
	ID:    "snapshot/class-missing",
	Title: "The snapshot names a VolumeSnapshotClass that does not exist",
	Doc: `A VolumeSnapshot needs a class of its driver. It names one that is not there, or names none and there is no default (or more than
one) for the driver.

To be sure: ` + "`kubectl get volumesnapshotclasses`" + `; the default carries snapshot.storage.kubernetes.io/is-default-class=true.

The snapshot was never cut: what counts on it as a backup has none.`,
	Match: snapshotClassMissing,
}, {
	ID:    "snapshot/rbac",
	Title: "The snapshot's controllers may not do their work in the API",
	Doc: `snapshot-controller or csi-snapshotter lacks a permission, often after an upgrade with old roles.

To be sure: the error says "is forbidden: User ... cannot ...".`,
	Match: aboutCut("snapshot/rbac", func(v *View, t *trouble) Finding {
		f := Finding{Why: fmt.Sprintf("The API server does not let the snapshot's controllers do their work: %s", driverSays(t))}
		if m := forbiddenUser.FindStringSubmatch(t.Text); m != nil {
			f.Fix = append(f.Fix, v.look("Ask whether it may, as that user", "auth", "can-i", m[2], m[3], "--as", m[1]))
		}
		f.Fix = append(f.Fix, say("Apply the RBAC of the snapshot controller's or driver's installed version. It is tried again by itself."))
		return f
	}),
}, {
	ID:    "snapshot/secret-missing",
	Title: "The secret for making the snapshot cannot be had",
	Doc: `The VolumeSnapshotClass names a secret that does not exist or lacks a key, or names none although the driver needs one
(csi.storage.k8s.io/snapshotter-secret-name). The StorageClass's secret is not used for snapshots.

To be sure: the error names the secret; compare the parameters of the VolumeSnapshotClass with the driver's example.`,
	Match: aboutCut("snapshot/secret-missing", snapshotSecretMissing),
}, {
	ID:    "snapshot/source-not-ready",
	Title: "What the snapshot is to be made from is not there or cannot be used",
	Doc: `The claim does not exist or is not bound, its volume is not of a CSI driver, or the VolumeSnapshotContent that the snapshot names is
missing or belongs to another snapshot.

To be sure: look at the object that the error names.`,
	Match: aboutCut("snapshot/source-not-ready", snapshotSource),
}, {
	ID:    "snapshot/controller-missing",
	Title: "Nobody works on the snapshot",
	Doc: `snapshot-controller (one for the cluster, installed apart from the drivers) makes the VolumeSnapshotContent; csi-snapshotter (a sidecar
of each driver) has the driver cut it. One of them is not installed or does not run.

To be sure: without a content it is snapshot-controller; with an untouched content it is csi-snapshotter.

Nothing is lost: the snapshot is cut when the controller runs, of the data as it is then.`,
	Match: snapshotController,
}, {
	ID:    "snapshot/in-progress",
	Title: "The snapshot is being made",
	Doc:   `The driver cuts the snapshot and the backend copies it; for large volumes that takes minutes, without a sign of progress.`,
	Match: snapshotInProgress,
}, {
	ID:    "snapshot/driver-error",
	Title: "The driver cannot make or delete the snapshot",
	Doc: `CreateSnapshot, its status or DeleteSnapshot fails in the driver. The driver's own words are in the answer.

The controllers try again by themselves. Do not remove finalizers of the snapshot or its content: the snapshot then stays in the
backend and costs.`,
	Match: snapshotDriverError,
}}

// theCut is the snapshot that a cause is asked about: the asked one, the claim's that is stuck, or the one that the claim is
// restored from.
func (v *View) theCut() (cut, Truth) {
	switch {
	case v.at(HopSnapshot) && v.cut != nil:
		return *v.cut, Yes
	case v.at(HopProvision):
		c, known := v.sourceSnapshot()
		if known == Yes && c.ready() {
			return cut{}, No
		}
		return c, known
	}
	return cut{}, No
}

// cutFinding gives a finding about a snapshot its status and place. Seen from a claim that is restored from it, the snapshot's
// own state decides.
func (v *View) cutFinding(c cut, f Finding) Finding {
	h := v.hop(HopSnapshot)
	if v.at(HopProvision) {
		h = v.cutHop(c)
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.dataSource", ref(c.VolumeSnapshot).String(), v.Claim.CreationTimestamp.Time))
		f.Why = fmt.Sprintf("Claim %s/%s is restored from snapshot %s. ", v.Namespace, v.ClaimName, c.Name) + f.Why
	}
	if v.asked.Kind != "VolumeSnapshot" && !strings.Contains(f.Why, c.Name) {
		f.Why = fmt.Sprintf("Snapshot %s/%s: ", c.Namespace, c.Name) + f.Why
	}
	if f.Status == "" {
		f.Status, f.Until = h.Status, h.Until
	}
	return f
}

// aboutCut makes the Match of a cause that the error of a snapshot tells.
func aboutCut(id string, finding func(*View, *trouble) Finding) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		c, known := v.theCut()
		if known != Yes {
			return Finding{}, known
		}
		t, all := v.cutTrouble(c)
		if t == nil {
			return Finding{}, min(all.not(), Unknown)
		}
		if v.told(snapshotWords, t.Text) != id || v.at(HopProvision) && v.settled(t) != StatusStuck {
			return Finding{}, No
		}
		f := finding(v, t)
		f.Evidence = append([]Evidence{t.Evidence}, f.Evidence...)
		return v.cutFinding(c, f), Yes
	}
}

const annDefaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"

func snapshotClassMissing(v *View) (Finding, Truth) {
	c, known := v.theCut()
	if known != Yes {
		return Finding{}, known
	}
	t, all := v.cutTrouble(c)
	word := t != nil && v.told(snapshotWords, t.Text) == "snapshot/class-missing"
	name := text(c.Spec.VolumeSnapshotClassName)
	if c.content != nil || c.Spec.Source.PersistentVolumeClaimName == nil || t != nil && !word {
		return Finding{}, No // it was found, or none is needed
	}
	classes, classesKnown := list[*snapshotv1.VolumeSnapshotClass](v.world, inSnapClasses, snapshot.Query{})
	_, named := first(classes, classesKnown, func(k *snapshotv1.VolumeSnapshotClass) bool { return k.Name == name })
	if name != "" && named == Yes || name == "" && !word {
		return Finding{}, min(all.not(), Unknown)
	}
	if named == Unknown && !word {
		return Finding{}, Unknown
	}
	var have []string
	for _, k := range classes {
		what := k.Name + " (" + k.Driver
		if k.Annotations[annDefaultSnapshotClass] == "true" {
			what += ", default"
		}
		have = append(have, what+")")
	}
	list := "there is none"
	if len(have) > 0 {
		list = strings.Join(have[:min(5, len(have))], ", ")
	}
	if n := len(have) - 5; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	f := Finding{Confidence: Certain, Why: fmt.Sprintf("Snapshot %s/%s names class %s, and there is no such VolumeSnapshotClass (there are: %s). It was never cut.", c.Namespace, c.Name, name, list),
		Evidence: []Evidence{fact(ref(c.VolumeSnapshot), "spec.volumeSnapshotClassName", name, c.CreationTimestamp.Time), fact(Object{Kind: "VolumeSnapshotClass"}, "names", list, time.Time{})}}
	if name == "" {
		f.Confidence = Likely
		f.Why = fmt.Sprintf("Snapshot %s/%s names no class, and there is no default for its driver, or more than one (there are: %s). It was never cut.", c.Namespace, c.Name, list)
	}
	switch {
	case named == Unknown:
		f.Confidence = Likely
	case name != "" && v.hop(HopSnapshot).Status != StatusDegraded:
		f.Status = StatusStuck // no try succeeds before somebody acts
	}
	if t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{v.look("See which classes there are and for which drivers", "get", "volumesnapshotclasses"),
		say("Make the missing class, or make the snapshot again with one of its driver. It was never cut, so nothing is lost, and whatever counts on it has no copy.")}
	return v.cutFinding(c, f), Yes
}

var secretOf = regexp.MustCompile(`snapshotter-secret-name$|SnapshotterSecretName$`)

func snapshotSecretMissing(v *View, t *trouble) Finding {
	f := Finding{Why: sentence(fmt.Sprintf("The driver does not get the secret that it needs for the snapshot: %s", driverSays(t)))}
	c, _ := v.theCut()
	name := text(c.Spec.VolumeSnapshotClassName)
	if c.content != nil && c.content.Spec.VolumeSnapshotClassName != nil {
		name = *c.content.Spec.VolumeSnapshotClassName
	}
	if class, known := get[*snapshotv1.VolumeSnapshotClass](v.world, inSnapClasses, "", name); known == Yes {
		secret := ""
		for key, value := range class.Parameters {
			if secretOf.MatchString(key) {
				secret = value
			}
		}
		if secret == "" {
			f.Why += fmt.Sprintf(" VolumeSnapshotClass %s names no secret (csi.storage.k8s.io/snapshotter-secret-name).", name)
			secret = "not set"
		}
		f.Evidence = append(f.Evidence, fact(ref(class), "parameters[csi.storage.k8s.io/snapshotter-secret-name]", secret, time.Time{}))
	}
	f.Fix = []Step{v.look("See the parameters of the class", "get", "volumesnapshotclass", name, "-o", "yaml"),
		say("Name a secret that exists, with the keys that the driver's documentation asks for (snapshotter-secret-name and -namespace; a class cannot be changed, so make it anew). The snapshot is tried again by itself.")}
	return f
}

func snapshotSource(v *View, t *trouble) Finding {
	f := Finding{Why: fmt.Sprintf("What the snapshot is to be made from cannot be used: %s", driverSays(t))}
	c, _ := v.theCut()
	if claim := c.Spec.Source.PersistentVolumeClaimName; claim != nil {
		o := Object{"PersistentVolumeClaim", c.Namespace, *claim}
		switch pvc, known := get[*corev1.PersistentVolumeClaim](v.world, inClaims, c.Namespace, *claim); {
		case known == No:
			f.Confidence = Certain
			f.Why = fmt.Sprintf("The snapshot is of claim %s, which does not exist.", *claim)
			f.Evidence = append(f.Evidence, fact(o, "", "not found", time.Time{}))
		case known == Yes && pvc.Status.Phase != corev1.ClaimBound:
			f.Confidence = Certain
			f.Why = fmt.Sprintf("The snapshot is of claim %s, which is %s itself.", *claim, pvc.Status.Phase)
			f.Evidence = append(f.Evidence, fact(o, "status.phase", string(pvc.Status.Phase), pvc.CreationTimestamp.Time))
			if pods, all := v.consumers(c.Namespace, *claim); all == Yes && len(pods) == 0 && unusedYet(v.world, pvc) == Yes {
				f.Status = StatusWaiting // as the claim does: no pod has used it yet
				f.Why += " It gets its volume when a pod first uses it, and the snapshot is cut after that."
			}
			f.Fix = append(f.Fix, Step{Text: "Ask why the claim is not bound", Command: v.command("csidoctor", "pvc", *claim, "-n", c.Namespace), Danger: DangerNone})
		}
		f.Fix = append(f.Fix, v.look("See the state of the claim and its volume", "get", "pvc", *claim, "-n", c.Namespace, "-o", "wide"))
	} else {
		f.Fix = append(f.Fix, v.look("See the content that the snapshot names, and whose it is", "get", "volumesnapshotcontent", c.contentName(), "-o", "yaml"))
	}
	f.Fix = append(f.Fix, say("Put the source right; the snapshot is tried again by itself."))
	return f
}

// unusedYet: the claim's class makes the volume for its first pod, and none has been given a node.
func unusedYet(w *world, c *corev1.PersistentVolumeClaim) Truth {
	if c.Annotations[annSelectedNode] != "" || c.Spec.VolumeName != "" {
		return No
	}
	v := View{world: w, Claim: c, claimKnown: Yes}
	return v.waitsForConsumer()
}

func snapshotController(v *View) (Finding, Truth) {
	c, known := v.theCut()
	if known != Yes {
		return Finding{}, known
	}
	if v.cutHop(c).Status == StatusWaiting {
		return Finding{}, No
	}
	t, all := v.cutTrouble(c)
	if c.DeletionTimestamp != nil {
		if t != nil || c.content == nil {
			return Finding{}, truth(t == nil).and(c.contentKnown)
		}
		return v.nobodyDeletes(c)
	}
	if t != nil || !v.untouchedCut(c) {
		return Finding{}, No
	}
	if all == Unknown || c.content == nil && c.contentKnown == Unknown {
		return Finding{}, Unknown
	}
	f := Finding{Rest: true, Evidence: []Evidence{fact(ref(c.VolumeSnapshot), "status", "not touched", c.CreationTimestamp.Time)}}
	if c.content == nil {
		works, proof, why, ev := v.snapshotControllerWorks()
		if works == Unknown {
			return Finding{}, Unknown
		}
		f.Confidence, f.Evidence = proof, append(f.Evidence, ev...)
		f.Why = fmt.Sprintf("snapshot-controller has made no VolumeSnapshotContent for snapshot %s/%s: %s.", c.Namespace, c.Name, why)
		f.Fix = snapshotControllerFix(v, "The snapshot is then cut by itself.")
		return v.cutFinding(c, f), Yes
	}
	w := *v
	w.Driver = c.content.Spec.Driver
	s := w.sidecar(snapshotterSidecar)
	if s.Works == Unknown {
		return Finding{}, Unknown
	}
	f.Confidence, f.Evidence = s.Proof, append(append(f.Evidence, fact(ref(c.content), "status", "not touched", c.content.CreationTimestamp.Time)), s.Evidence...)
	f.Why = fmt.Sprintf("csi-snapshotter of driver %s has not touched content %s: %s.", w.Driver, c.content.Name, s.Why)
	if s.Works == Yes {
		f.Confidence = Likely
	}
	f.Fix = append(f.Fix, v.look("See whether the driver's controller has the sidecar csi-snapshotter", "get", "deployments,statefulsets", "-A", "-o", "wide"),
		say("Add csi-snapshotter to the driver's controller (an option of its chart), or get it to run. The snapshot is then cut by itself."))
	return v.cutFinding(c, f), Yes
}

// nobodyDeletes: snapshot-controller marks a content and deletes it, csi-snapshotter then deletes what it stands for. The one whose
// turn it is does not work.
func (v *View) nobodyDeletes(c cut) (Finding, Truth) {
	asked := c.DeletionTimestamp.Time
	f := Finding{Evidence: []Evidence{fact(ref(c.VolumeSnapshot), "metadata.deletionTimestamp", asked.UTC().Format(time.RFC3339), asked)}}
	if c.content.DeletionTimestamp == nil && c.content.Annotations[annBeingDeleted] == "" {
		works, proof, why, ev := v.snapshotControllerWorks()
		if works != No {
			return Finding{}, truth(works != Yes).and(Unknown)
		}
		f.Confidence, f.Evidence = proof, append(f.Evidence, ev...)
		f.Why = fmt.Sprintf("Snapshot %s/%s was asked to go %s ago, and snapshot-controller, which does that, does not work: %s.", c.Namespace, c.Name, ago(v.age(asked)), why)
		f.Fix = snapshotControllerFix(v, "The snapshot then goes by itself.")
		return v.cutFinding(c, f), Yes
	}
	w := *v
	w.Driver = c.content.Spec.Driver
	s := w.sidecar(snapshotterSidecar)
	if s.Works != No || c.content.DeletionTimestamp == nil {
		return Finding{}, truth(s.Works != Yes && c.content.DeletionTimestamp != nil).and(Unknown)
	}
	f.Confidence, f.Evidence = s.Proof, append(f.Evidence, s.Evidence...)
	f.Why = fmt.Sprintf("Content %s of snapshot %s/%s is to be deleted by csi-snapshotter of driver %s, which does not work: %s.", c.content.Name, c.Namespace, c.Name, w.Driver, s.Why)
	f.Fix = append(w.restartSidecar(s), say("Do not take finalizers off: the snapshot would stay in the backend and cost."))
	return v.cutFinding(c, f), Yes
}

func snapshotControllerFix(v *View, then string) []Step {
	return []Step{v.look("See whether snapshot-controller runs", "get", "pods,leases", "-A", "-l", "app.kubernetes.io/name=snapshot-controller"),
		say("Install snapshot-controller of external-snapshotter (one for the cluster; many distributions have it as an add-on), or get it to run. " + then)}
}

// snapshotControllerWorks judges snapshot-controller by its lease, which it has in every usual installation.
func (v *View) snapshotControllerWorks() (Truth, Confidence, string, []Evidence) {
	const name = "snapshot-controller-leader"
	leases, known := list[*coordinationv1.Lease](v.world, inLeases, snapshot.Query{Fields: "metadata.name=" + name})
	if len(leases) > 0 {
		l := slices.MaxFunc(leases, func(a, b *coordinationv1.Lease) int { return renewedAt(a).Compare(renewedAt(b)) })
		renewed := renewedAt(l)
		ev := []Evidence{fact(ref(l), "spec.renewTime", renewed.UTC().Format(time.RFC3339), renewed)}
		if v.taken.Sub(renewed) > normalUntouched {
			return No, Certain, fmt.Sprintf("its lease %s was last renewed %s ago", name, ago(v.taken.Sub(renewed))), ev
		}
		return Yes, Likely, "its lease is fresh, so its log is the place to look", ev
	}
	if known == Unknown {
		return Unknown, "", "", nil
	}
	return No, Likely, "there is no lease " + name, []Evidence{fact(Object{Kind: "Lease", Name: name}, "", "not found", time.Time{})}
}

func snapshotInProgress(v *View) (Finding, Truth) {
	if !v.at(HopSnapshot) || v.cut == nil {
		return Finding{}, No
	}
	c := *v.cut
	t, _ := v.cutTrouble(c)
	switch {
	case v.hop(HopSnapshot).Status == StatusUnknown:
		return Finding{}, Unknown
	case t != nil && !v.cutSlow(t) || v.hop(HopSnapshot).Status != StatusWaiting:
		return Finding{}, No
	}
	f := v.asBlock(Finding{Confidence: Likely, Why: fmt.Sprintf("Snapshot %s/%s was asked for %s ago and is being made; up to %s is normal.", c.Namespace, c.Name, ago(v.age(c.CreationTimestamp.Time)), ago(normalSnapshot)),
		Evidence: []Evidence{fact(ref(c.VolumeSnapshot), "status.readyToUse", "false", c.CreationTimestamp.Time)},
		Fix:      []Step{v.look("Look again in a few minutes", "get", "volumesnapshot", c.Name, "-n", c.Namespace)}})
	if t != nil {
		f.Why = fmt.Sprintf("Snapshot %s/%s was asked for %s ago; the first call ended before it was done, and is repeated: %s", c.Namespace, c.Name, ago(v.age(c.CreationTimestamp.Time)), driverSays(t))
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	if c.DeletionTimestamp != nil {
		f.Why = fmt.Sprintf("Snapshot %s/%s is being deleted.", c.Namespace, c.Name)
	}
	return f, Yes
}

// cutSlow: nothing is said but that a call ran out of time or that one still runs, and that may be all.
func (v *View) cutSlow(t *trouble) bool {
	return v.settled(t) == StatusWaiting && onlySlow(t) && slow.MatchString(t.Text)
}

func snapshotDriverError(v *View) (Finding, Truth) {
	c, known := v.theCut()
	if known != Yes {
		return Finding{}, known
	}
	t, all := v.cutTrouble(c)
	switch {
	case t != nil && (v.told(snapshotWords, t.Text) != "" || v.cutSlow(t) || v.at(HopProvision) && v.settled(t) != StatusStuck):
		return Finding{}, No
	case t != nil:
		f := Finding{Why: fmt.Sprintf("The driver fails with snapshot %s/%s: %s", c.Namespace, c.Name, driverSays(t)), Evidence: []Evidence{t.Evidence}}
		f.Fix = []Step{v.look("See the error of the content, which is the driver's", "get", "volumesnapshotcontent", c.contentName(), "-o", "yaml"),
			say("Mend what the driver or its backend says (limits, permissions, an unhealthy backend, what the volume does not support). It is tried again by itself.")}
		return v.cutFinding(c, f), Yes
	case all == Unknown:
		return Finding{}, Unknown
	case v.at(HopSnapshot) && v.hop(HopSnapshot).Status != StatusWaiting && !v.untouchedCut(c):
		f := Finding{Confidence: Possible, Rest: true, Why: fmt.Sprintf("Snapshot %s/%s is not ready %s after it was asked for, and no error is said.", c.Namespace, c.Name, ago(v.age(c.CreationTimestamp.Time))),
			Evidence: []Evidence{fact(ref(c.VolumeSnapshot), "status.readyToUse", "false", c.CreationTimestamp.Time)}}
		if gone := c.DeletionTimestamp; gone != nil {
			f.Why = fmt.Sprintf("Snapshot %s/%s was asked to go %s ago and is still there, and no error is said.", c.Namespace, c.Name, ago(v.age(gone.Time)))
			f.Evidence = []Evidence{fact(ref(c.VolumeSnapshot), "metadata.deletionTimestamp", gone.UTC().Format(time.RFC3339), gone.Time)}
		}
		f.Fix = []Step{say("See in the backend whether the copy still runs, and what csi-snapshotter and the driver say in their logs.")}
		return v.cutFinding(c, f), Yes
	}
	return Finding{}, No
}
