package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
)

// Finalizers that hold claims and volumes, and who takes them off.
const (
	finalizerClaim       = "kubernetes.io/pvc-protection"
	finalizerVolume      = "kubernetes.io/pv-protection"
	finalizerProvisioner = "external-provisioner.volume.kubernetes.io/finalizer"
	finalizerSnapshot    = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
	finalizerClone       = "provisioner.storage.kubernetes.io/cloning-protection"

	annDeletionSecret = "volume.kubernetes.io/provisioner-deletion-secret-name"
)

// deleteHop: a claim or volume that was asked to go is gone.
func deleteHop(v *View) Hop {
	switch {
	case v.Claim != nil && v.Claim.DeletionTimestamp != nil:
		return v.openHop(v.Claim.DeletionTimestamp.Time, normalTeardown, v.claimObject(), "the claim is being deleted")
	case v.PV == nil || v.Pod != nil && !(v.mounted() && v.PV.DeletionTimestamp != nil):
		return skippedHop("")
	case v.Pod != nil && v.asked.Kind != "PersistentVolume":
		o := ref(v.PV)
		return Hop{Status: StatusDegraded, Since: moment(v.PV.DeletionTimestamp.Time), Object: &o, Note: "the volume is being deleted under its claim", reached: true}
	}
	if v.goingPV() && v.Pod == nil {
		v.ahead(func() {
			v.attachments()
			if _, values := oneNode(v.PV); len(values) > 0 {
				list[*corev1.Node](v.world, inNodes, snapshot.Query{})
			}
			if s := v.sidecar(provisionerSidecar); s.Pod != nil && v.deleteTrouble() == nil {
				v.lacks(s.Pod)
				v.logged(s.Pod)
			}
		})
	}
	o := ref(v.PV)
	released := v.PV.Status.Phase == corev1.VolumeReleased
	switch t := v.deleteTrouble(); {
	case t != nil && v.detachedSince(t):
		return Hop{Status: StatusWaiting, Until: moment(t.At.Add(provisionerBackoff)), Since: moment(t.At), Object: &o, Note: "detached since the last try", reached: true}
	case t != nil && (released || v.PV.DeletionTimestamp != nil || v.PV.Status.Phase == corev1.VolumeFailed):
		return v.troubledHop(t, v.settled(t), "DeleteVolume fails")
	case v.PV.DeletionTimestamp != nil:
		return v.openHop(v.PV.DeletionTimestamp.Time, normalTeardown, o, "the volume is being deleted")
	case released && v.PV.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		since := v.releasedSince()
		// Before 1.29 nobody notes since when. A provisioner that works tells of each try that fails.
		if _, known := v.volumeEvents(); since.IsZero() && known == Yes && v.sidecar(provisionerSidecar).Works == Yes {
			return Hop{Status: StatusWaiting, Object: &o, Note: "released, and to be deleted; nothing tells since when", reached: true}
		}
		return v.openHop(since, normalTeardown, o, "released, and to be deleted")
	case released:
		return Hop{Status: StatusWaiting, Since: moment(v.releasedSince()), Object: &o, Note: "released and retained", reached: true}
	case v.PV.Status.Phase == corev1.VolumeFailed:
		return Hop{Status: StatusStuck, Object: &o, Note: "Failed: " + v.PV.Status.Message, reached: true}
	}
	return skippedHop("")
}

// detachedSince: the provisioner's last word was that the volume is still attached, it no longer is, and the next try is to come.
func (v *View) detachedSince(t *trouble) bool {
	if v.told(deleteWords, t.Text) != "delete/still-attached" || v.taken.Sub(t.At) >= provisionerBackoff {
		return false
	}
	all, known := v.attachments()
	return known == Yes && len(all) == 0
}

// saidDetached: the driver itself answered the deletion, which the provisioner asks only of a volume that has no attachment
// (external-provisioner, controller.canDeleteVolume).
func (v *View) saidDetached() bool {
	if !v.goingPV() {
		return false
	}
	t := v.deleteTrouble()
	if t == nil {
		return false
	}
	code, _ := grpc(t.Text)
	return code != ""
}

// releasedSince is when the volume lost its claim: its own field (since 1.29), else what is known of its last pod.
func (v *View) releasedSince() time.Time {
	if t := v.PV.Status.LastPhaseTransitionTime; t != nil {
		return t.Time
	}
	freed, _ := v.freedSince()
	return freed
}

// deleteTrouble is the provisioner's error in force of deleting the volume.
func (v *View) deleteTrouble() *trouble {
	if v.PV == nil {
		return nil
	}
	events, _ := v.volumeEvents()
	t := troubleIn(events, func(r report) bool { return r.Reason == "VolumeFailedDelete" }, nil)
	if t == nil && v.PV.Status.Phase == corev1.VolumeFailed && v.PV.Status.Message != "" {
		since := v.releasedSince()
		t = &trouble{Text: v.PV.Status.Message, Since: since, At: since, Count: errorSettledCount, Evidence: fact(ref(v.PV), "status.message", v.PV.Status.Message, since)}
	}
	if _, asked, _ := v.deleting(); t != nil && !asked.IsZero() && v.age(asked) >= normalTeardown && asked.Before(t.Since) {
		t.Since = asked // older events have expired, or were never written
	}
	return t
}

// deleteError is deleteTrouble, or what the provisioner's log tells where the volume is stuck for its age alone.
func (v *View) deleteError() *trouble {
	if t := v.deleteTrouble(); t != nil || !v.goingPV() {
		return t
	}
	return v.orLogged(nil, HopDelete, provisionerSidecar)
}

// deleteWords are drivers' and the provisioner's words when a volume cannot be deleted.
var deleteWords = []signature{
	sig("delete/rbac", `is forbidden: User "system:serviceaccount:`),
	sig("delete/finalizer", `failed to remove finalizer`),
	sig("delete/still-attached", `persistentvolume \S+ is still attached to node`),
	sig("delete/has-snapshots",
		`(has|have|with|existing|dependent|contains?|from|of) .{0,40}snapshots?\b`,
		`snapshots? .{0,40}(exist|depend|in use|not deleted|still)|have snapshots|dependent (clones?|children|volumes?|images?)`,
		`has (children|clones|dependents)|linked clones?|(child|parent) (volume|clone|image)`,
		`(used|in use) by .{0,30}(snapshot|clone)|source of .{0,20}(clone|snapshot)|is (a )?parent of|volume has children`,
		`cloned? .{0,30}(depend|exist)`),
	sig("delete/secret-missing",
		`secrets? .{0,80}(not found|is empty|are empty|missing|not provided|does not exist)|provided secret is empty`,
		`(failed|unable|error|cannot) .{0,20}(get|getting|fetch|find) .{0,30}secret|missing .{0,30}(secret|user ?id|credentials?)`,
		`secret(s)? (is|are) (required|missing|empty|nil)|secrets? (cannot|can't|must not|should not) be (nil|empty)|no (secret|credential)s? (given|provided|found)|stripping admin`,
		`missing ID field '\w+' in secrets`),
	sig("delete/permission", denied),
}

// deleteEcho says only that an earlier call still runs: what that one said counts.
var deleteEcho = regexp.MustCompile(`(?i)already exists|already in progress|in progress for`)

// deleteTold gives the cause that the deletion's error tells, and the text that tells it.
func deleteTold(t *trouble) (cause, text string) {
	if deleteEcho.MatchString(t.Text) {
		for _, r := range slices.Backward(t.Earlier) {
			if !deleteEcho.MatchString(r.Message) {
				return told(deleteWords, r.Message), r.Message
			}
		}
	}
	return told(deleteWords, t.Text), t.Text
}

// goingPV: the volume itself was asked to go, by its policy or by somebody.
func (v *View) goingPV() bool {
	return v.PV != nil && (v.PV.DeletionTimestamp != nil || v.PV.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		(v.PV.Status.Phase == corev1.VolumeReleased || v.PV.Status.Phase == corev1.VolumeFailed))
}

// goingClaim: the claim was asked to go.
func (v *View) goingClaim() bool { return v.Claim != nil && v.Claim.DeletionTimestamp != nil }

// deleting is what is asked to go where the chain stops at delete: the claim first, and since when.
func (v *View) deleting() (o Object, since time.Time, finalizers []string) {
	switch {
	case v.goingClaim():
		return v.claimObject(), v.Claim.DeletionTimestamp.Time, v.Claim.Finalizers
	case v.PV.DeletionTimestamp != nil:
		return ref(v.PV), v.PV.DeletionTimestamp.Time, v.PV.Finalizers
	}
	return ref(v.PV), v.releasedSince(), v.PV.Finalizers
}

// deleteFinding begins a finding about a deletion that does not end.
func (v *View) deleteFinding(why string, ev ...Evidence) Finding {
	o, since, finalizers := v.deleting()
	f := Finding{Why: why, Evidence: ev}
	if !since.IsZero() && (v.goingClaim() || v.PV.DeletionTimestamp != nil) {
		f.Evidence = append(f.Evidence, fact(o, "metadata.deletionTimestamp", since.UTC().Format(time.RFC3339), since))
	} else {
		f.Evidence = append(f.Evidence, fact(o, "status.phase", string(v.PV.Status.Phase), since))
	}
	if len(finalizers) > 0 {
		f.Evidence = append(f.Evidence, fact(o, "metadata.finalizers", strings.Join(finalizers, ", "), time.Time{}))
	}
	v.asHop(&f)
	return f
}

// holding are the pods whose objects keep the claim from going (podUsesPVCForDeletion of the pvc-protection controller).
func (v *View) holding() ([]*corev1.Pod, Truth) {
	users, known := v.consumers(v.Namespace, v.ClaimName)
	return slices.DeleteFunc(users, func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || finished(p) && volumeOfClaim(p, v.ClaimName).Ephemeral != nil
	}), known
}

// aside lets a node's or attacher's work that is in its time, or unknown, not stop a claim's deletion which waits for a pod or for
// whoever put another finalizer there than pvc-protection.
func (v *View) aside(h Hop) Hop {
	if (h.Status == StatusWaiting || h.Status == StatusUnknown) && v.Pod == nil && v.goingClaim() {
		holding, _ := v.holding()
		others := slices.ContainsFunc(v.Claim.Finalizers, func(f string) bool { return f != finalizerClaim })
		h.reached = len(holding) == 0 && !others && h.Status != StatusUnknown
	}
	return h
}

func deleteInUse(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || !v.goingClaim() {
		return Finding{}, No
	}
	holding, known := v.holding()
	if len(holding) == 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	var who []string
	ended := true
	for _, p := range holding {
		who = append(who, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Status.Phase))
		ended = ended && finished(p)
	}
	f := v.deleteFinding(fmt.Sprintf("Claim %s/%s was asked to go and is kept as long as a pod names it: %s.", v.Namespace, v.ClaimName, strings.Join(who, ", ")))
	for _, p := range holding {
		f.Evidence = append(f.Evidence, fact(ref(p), "status.phase", string(p.Status.Phase)+", uses the claim", p.CreationTimestamp.Time))
	}
	f.Confidence, f.Status, f.Until = Certain, StatusStuck, nil
	look := v.look("See the pods and who owns them", "-n", v.Namespace, "get", "pods", "-o", "wide")
	if v.PV != nil && v.PV.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		f.Fix = append(f.Fix, v.look("To keep the data when the claim goes, set the volume's policy to Retain first", "patch", "pv", v.PV.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`))
	}
	if !ended {
		f.Why += " A deletion cannot be taken back; the claim goes as soon as the pods do."
		f.Fix = append(f.Fix, look, hazard(DangerDisruptive, "the claim may go and nobody needs these pods", "Stop the pods through their owner (scale it to zero)."))
		return f, Yes
	}
	words := []string{"-n", v.Namespace, "delete", "pod"}
	for _, p := range holding {
		words = append(words, p.Name)
	}
	f.Fix = append(f.Fix, look, v.act(DangerDisruptive, "the pods have ended, as the step before shows, and nobody needs their logs", "Delete the pods that have ended; the claim goes with the last of them", words...))
	return f, Yes
}

func deleteRetained(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || v.PV == nil || v.PV.DeletionTimestamp != nil || v.PV.Status.Phase != corev1.VolumeReleased || v.PV.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return Finding{}, No
	}
	was := "its claim"
	if r := v.PV.Spec.ClaimRef; r != nil {
		was = "claim " + r.Namespace + "/" + r.Name
	}
	f := Finding{Status: StatusOK, Confidence: Certain, Evidence: []Evidence{fact(ref(v.PV), "spec.persistentVolumeReclaimPolicy", "Retain", time.Time{}), fact(ref(v.PV), "status.phase", "Released", v.releasedSince())},
		Why: fmt.Sprintf("Volume %s is kept on purpose: its policy is Retain, and %s, which it belonged to, is gone. Nothing is deleted and no other claim gets it.", v.PV.Name, was)}
	f.Fix = []Step{v.look("See its handle", "get", "pv", v.PV.Name, "-o", "yaml"),
		say("To use it again, clear spec.claimRef.uid and resourceVersion so that a new claim of the same name can have it, or make a new PersistentVolume with the same handle."),
		v.look("See that no machine has it attached", "get", "volumeattachments"),
		hazard(DangerDataLoss, "nobody wants its data any more, and no attachment names it", "To drop it: delete the volume in the backend, and then this object.")}
	return f, Yes
}

func deleteStillAttached(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || !v.goingPV() || v.PV.Status.Phase == corev1.VolumeBound {
		return Finding{}, No
	}
	held, known := v.holders()
	if known == Unknown && v.saidDetached() {
		known = Yes
	}
	h, t := firstHolder(held, known, func(h holder) Truth { return truth(!h.leaving()) })
	if h == nil {
		return Finding{}, t
	}
	f := v.deleteFinding(fmt.Sprintf("Volume %s is to be deleted and is still attached to node %s: the provisioner waits until the VolumeAttachment is gone, and nobody has asked for that.", v.PV.Name, h.Name),
		h.evidence())
	if t := v.deleteError(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Confidence = Certain
	if h.Ready == No {
		f.Why += fmt.Sprintf(" Node %s does not answer.", h.Name)
		f.Evidence = append(f.Evidence, h.Why)
		f.Fix = v.freeFromDead(h)
		return f, Yes
	}
	f.Fix = append([]Step{v.look("See the attachment", "get", "volumeattachment", h.At.Name, "-o", "yaml"),
		say("A restart of the kube-controller-manager makes it read all attachments again; it then asks for the detach of those that nobody needs. That is the safe way.")}, v.deleteAttachment(h.At.Name, h.Name)...)
	return f, Yes
}

func deleteHasSnapshots(v *View) (Finding, Truth) {
	if !v.at(HopDelete) {
		return Finding{}, No
	}
	o, _, finalizers := v.deleting()
	bySnapshot, byClone := slices.Contains(finalizers, finalizerSnapshot), slices.Contains(finalizers, finalizerClone)
	t := v.deleteError()
	said, text := false, ""
	if t != nil && !v.goingClaim() {
		var cause string
		cause, text = deleteTold(t)
		said = cause == "delete/has-snapshots"
	}
	if !bySnapshot && !byClone && !said {
		return Finding{}, No
	}
	names, ev := v.snapshotsOf()
	clones, cloneEv := v.clonesOf(byClone || said)
	what := cmp.Or(strings.Join(append(names, clones...), ", "), "ones that are not in the cluster")
	if !said {
		kind := "a snapshot that is being cut"
		if byClone {
			kind = "a clone that is being made"
		}
		f := v.deleteFinding(fmt.Sprintf("%s %s was asked to go and is kept by %s of it: %s.", o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), kind, what), append(ev, cloneEv...)...)
		f.Confidence = Certain
		f.Fix = []Step{v.look("See the snapshots and clones, and what they wait for", "-n", v.Namespace, "get", "volumesnapshots,pvc", "-o", "wide"),
			say("Let the snapshot or clone get ready: the claim goes then. Ask about the snapshot itself when it does not get ready."),
			hazard(DangerDataLoss, "nobody needs the snapshot or clone", "Or delete the snapshot or clone.")}
		return f, Yes
	}
	_, words := grpc(text)
	f := v.deleteFinding(fmt.Sprintf("The backend does not delete volume %s as long as snapshots or clones of it exist: %s. %s says: %s", v.PV.Name, what, v.Driver, words), append([]Evidence{t.Evidence}, append(ev, cloneEv...)...)...)
	f.Status, f.Confidence = v.settled(t), Likely
	f.Fix = []Step{v.look("See the snapshots", "get", "volumesnapshots", "-A", "-o", "wide"),
		v.look("To keep them, keep the volume: with the policy Retain it stays in the backend", "patch", "pv", v.PV.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`),
		hazard(DangerDataLoss, "nobody needs the snapshots and clones of the list", "Or delete the snapshots and clones; the volume is then deleted by itself.")}
	return f, Yes
}

// snapshotsOf are the snapshots of the claim, or of the volume's handle, by name.
func (v *View) snapshotsOf() ([]string, []Evidence) {
	claim, namespace := v.ClaimName, v.Namespace
	if v.PV != nil && v.PV.Spec.ClaimRef != nil {
		claim, namespace = v.PV.Spec.ClaimRef.Name, v.PV.Spec.ClaimRef.Namespace
	}
	var names []string
	var ev []Evidence
	if namespace != "" {
		all, _ := v.snapshotsOfClaim(namespace, claim)
		for _, s := range all {
			state := "not ready"
			if (cut{VolumeSnapshot: s}).ready() {
				state = "ready"
			}
			names, ev = append(names, "snapshot "+s.Namespace+"/"+s.Name), append(ev, fact(ref(s), "spec.source.persistentVolumeClaimName", claim+" ("+state+")", s.CreationTimestamp.Time))
		}
	}
	contents, _ := list[*snapshotv1.VolumeSnapshotContent](v.world, inContents, snapshot.Query{})
	for _, c := range contents {
		name := "snapshot " + c.Spec.VolumeSnapshotRef.Namespace + "/" + c.Spec.VolumeSnapshotRef.Name
		if c.Spec.Source.VolumeHandle != nil && v.Handle != "" && *c.Spec.Source.VolumeHandle == v.Handle && c.Spec.Driver == v.Driver && !slices.Contains(names, name) {
			names, ev = append(names, name), append(ev, fact(ref(c), "spec.source.volumeHandle", v.Handle, c.CreationTimestamp.Time))
		}
	}
	return names, ev
}

// clonesOf are the claims that are made from the claim.
func (v *View) clonesOf(asked bool) ([]string, []Evidence) {
	if !asked || v.Namespace == "" {
		return nil, nil
	}
	claim := v.ClaimName
	if v.PV != nil && v.PV.Spec.ClaimRef != nil {
		claim = v.PV.Spec.ClaimRef.Name
	}
	all, _ := list[*corev1.PersistentVolumeClaim](v.world, inClaims, snapshot.Query{Namespace: v.Namespace})
	var names []string
	var ev []Evidence
	for _, c := range all {
		if d := c.Spec.DataSource; d != nil && d.Kind == "PersistentVolumeClaim" && d.Name == claim {
			names, ev = append(names, "clone "+c.Namespace+"/"+c.Name), append(ev, fact(ref(c), "spec.dataSource", claim, c.CreationTimestamp.Time))
		}
	}
	return names, ev
}
