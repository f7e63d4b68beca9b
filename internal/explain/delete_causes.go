package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

var deleteCauses = []Cause{{
	ID:    "delete/in-use",
	Title: "A pod still uses the claim that was asked to go",
	Doc: `A claim is protected as long as the object of any pod that has a node names it, completed and failed pods too. It then stays Terminating.

To be sure: list the namespace's pods whose volumes name the claim, in every phase.

A deletion cannot be taken back. If the data is needed, set the volume's reclaim policy to Retain before the last pod goes. Do not remove
the finalizer: it keeps a volume from being deleted under a pod.`,
	Match: deleteInUse,
}, {
	ID:    "delete/retained",
	Title: "The volume is kept on purpose",
	Doc: `With reclaim policy Retain a volume outlives its claim: it is Released, keeps its data and the name of its old claim, and nobody else
gets it.

This is as designed.`,
	Match: deleteRetained,
}, {
	ID:    "delete/still-attached",
	Title: "A VolumeAttachment keeps the volume from being deleted",
	Doc: `The provisioner does not delete a volume while a VolumeAttachment names it, and this one was not asked to go.

To be sure: the VolumeAttachment names the PV and has no deletion time.

Find out why the node keeps it; delete the attachment by hand only when nothing on the node is mounted from the volume.`,
	Match: deleteStillAttached,
}, {
	ID:    "delete/has-snapshots",
	Title: "Snapshots or clones hold the volume",
	Doc: `Some backends do not delete a volume that snapshots or clones depend on; and a claim whose snapshot or clone is being made is kept until
that is done.

To be sure: the driver's words, or the claim's source-protection finalizer; list the snapshots.

Decide whether they are still needed. Deleting them deletes backups.`,
	Match: deleteHasSnapshots,
}, {
	ID:    "delete/node-gone",
	Title: "Only the driver on a node that is gone could delete the volume",
	Doc: `A local volume is deleted by the driver's own instance on its node. That node does not exist any more, so nobody can.

To be sure: the volume's node affinity names only nodes that are gone.

If the node's disks are gone with it, there is nothing left to delete: the PersistentVolume's finalizer may then be removed. If the
machine comes back under its name, the deletion goes on.`,
	Match: deleteNodeGone,
}, {
	ID:    "delete/driver-gone",
	Title: "Nothing of the driver is left to delete the volume",
	Doc: `The volume's finalizer is the external-provisioner's, and no provisioner of the driver works in the cluster: the driver was removed, or its
controller does not run.

To be sure: no CSIDriver, no pod, no fresh lease of the driver's name.

Bring the driver back until its volumes are gone. Removing the finalizer by hand leaves the volume in the backend, where it costs money and
nobody knows it: note its handle before.`,
	Match: deleteDriverGone,
}, {
	ID:    "delete/rbac",
	Title: "The provisioner may not finish the deletion",
	Doc: `The provisioner deletes the volume in the backend and must then delete the PersistentVolume and take its finalizer off. With too small a
ClusterRole that fails, in its log only.

To be sure: its log; its ClusterRole needs persistentvolumes with delete and patch.

Give the role what it lacks. The data is gone already; do not recycle the object.`,
	Match: deleteRBAC,
}, {
	ID:    "delete/secret-missing",
	Title: "The driver gets no credentials to delete the volume",
	Doc: `DeleteVolume needs the secret that the class named. It is noted on the volume, in an annotation, since some version of the provisioner; of
older volumes it is looked up in the class, which may be gone by now.

To be sure: the volume's annotations volume.kubernetes.io/provisioner-deletion-secret-name and -namespace, the class, the secret.

Note the secret on the volume or make the class again with the same parameters.`,
	Match: deleteSays("delete/secret-missing", "gets no credentials", "Note the secret on the volume (annotations volume.kubernetes.io/provisioner-deletion-secret-name and -namespace), as newer volumes of the driver have it, or make the class again under its old name with its secret parameters. The deletion is repeated by itself."),
}, {
	ID:    "delete/permission",
	Title: "The backend refuses the driver's credentials for the deletion",
	Doc: `The driver's account may not delete volumes, its token or password has expired, or a lock in the backend protects the volume.

To be sure: the driver's own words; try the same call with its account.`,
	Match: deleteSays("delete/permission", "is refused by the backend", "Give the driver's account the permission that it lacks, or renew its credentials, then restart the driver's controller pod. See too whether a lock or policy in the backend protects the volume."),
}, {
	ID:    "delete/finalizer",
	Title: "A finalizer holds the object",
	Doc: `An object with a deletion time stays until the last finalizer is off. Each belongs to a component that takes it off when its own work is
done; one whose owner is gone, or overlooked it, stays for ever.

To be sure: the object's finalizers; the part before the slash names the owner.

Ask the owner first. Remove a finalizer by hand only when what it protects is proved to be done.`,
	Match: deleteFinalizer,
}, {
	ID:    "delete/in-progress",
	Title: "The deletion is within its normal time",
	Doc: `The object was asked to go, and what has to happen before takes a moment.

Do nothing but wait.`,
	Match: deleteInProgress,
}, {
	ID:    "delete/backend-error",
	Title: "The driver cannot delete the volume",
	Doc: `DeleteVolume fails, or does not end, for a reason that is none of the known ones. The provisioner repeats it, at least every 5 minutes.

To be sure: the events of the PersistentVolume and the log of the driver's controller.

Removing the finalizer by hand leaves the volume in the backend.`,
	Match: deleteBackendError,
}}

// deleteSays is a cause that the words of the provisioner's error tell.
func deleteSays(id, what, cure string) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		if !v.at(HopDelete) || v.goingClaim() {
			return Finding{}, No
		}
		t := v.deleteError()
		if t == nil {
			return Finding{}, v.unreadEvents()
		}
		cause, text := deleteTold(t)
		if cause != id {
			return Finding{}, No
		}
		_, words := grpc(text)
		f := v.deleteFinding(fmt.Sprintf("The deletion of volume %s by %s %s: %s", v.PV.Name, v.Driver, what, words), t.Evidence)
		f.Status, f.Confidence = v.settled(t), sure(id, text)
		f.Fix = []Step{v.look("See the volume and its events", "describe", "pv", v.PV.Name)}
		if id == "delete/secret-missing" {
			f.Why += v.whySecret(&f)
		}
		f.Fix = append(f.Fix, say(cure))
		return f, Yes
	}
}

// unreadEvents: without the volume's events it is not known what was said.
func (v *View) unreadEvents() Truth {
	_, known := v.volumeEvents()
	return min(known.not(), Unknown)
}

// whySecret tells where the deletion's secret should have been named.
func (v *View) whySecret(f *Finding) string {
	if name := v.PV.Annotations[annDeletionSecret]; name != "" {
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "metadata.annotations["+annDeletionSecret+"]", name, time.Time{}))
		return fmt.Sprintf(". The volume names secret %s.", name)
	}
	f.Evidence = append(f.Evidence, fact(ref(v.PV), "metadata.annotations["+annDeletionSecret+"]", "", time.Time{}))
	why := ". The volume does not note a secret for its deletion"
	class := v.PV.Spec.StorageClassName
	if _, known := get[*storagev1.StorageClass](v.world, inClasses, "", class); class != "" && known == No {
		f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.storageClassName", class+", which does not exist any more", time.Time{}))
		return why + fmt.Sprintf(", and its class %s, which named it, does not exist any more.", class)
	}
	return why + "."
}

// silentProvisioner: the volume is of a provisioner without a CSI driver, such as one of local folders, and no word of it is there.
func (v *View) silentProvisioner() (Finding, Truth) {
	by := v.PV.Annotations[annProvisionedBy]
	_, known := v.volumeEvents()
	if by == "" || strings.HasPrefix(by, "kubernetes.io/") || v.hop(HopDelete).Status == StatusWaiting || v.deleteTrouble() != nil || known == Unknown {
		return Finding{}, min(known.not(), Unknown)
	}
	f := v.deleteFinding(fmt.Sprintf("Volume %s is to be deleted by the provisioner %s that made it, and there is no word of that: it likely does not run any more.", v.PV.Name, by),
		fact(ref(v.PV), "metadata.annotations["+annProvisionedBy+"]", by, time.Time{}))
	f.Title, f.Rest, f.Confidence = "No provisioner of the driver works on the deletion", true, Possible
	f.Fix = []Step{v.look("See whether it runs, and where", "get", "deployments,statefulsets,daemonsets", "-A", "-o", "wide"),
		say(fmt.Sprintf("Bring the provisioner %s back: it deletes the volume and its object by itself.", by))}
	return f, Yes
}

func deleteDriverGone(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || !v.goingPV() {
		return Finding{}, No
	}
	if v.Driver == "" {
		return v.silentProvisioner()
	}
	if v.PV.DeletionTimestamp != nil && !slices.Contains(v.PV.Finalizers, finalizerProvisioner) &&
		(!slices.Contains(v.PV.Finalizers, attacherFinalizer(v.Driver)) || v.installed() == Yes) {
		return Finding{}, No // a running attacher that overlooks its finalizer is another fault
	}
	if t := v.deleteTrouble(); t != nil && v.taken.Sub(t.At) < recent {
		return Finding{}, No // somebody works on it
	}
	s := v.sidecar(provisionerSidecar)
	if s.Works == Yes {
		return Finding{}, No
	}
	there := v.installed()
	if s.Works == Unknown && there != No || there == Unknown && s.Works != No {
		return Finding{}, Unknown
	}
	if v.hop(HopDelete).Status == StatusWaiting && there != No {
		return Finding{}, No
	}
	f := v.deleteFinding(fmt.Sprintf("Volume %s is to be deleted by the driver %s, and nothing of that driver is left in the cluster: no CSIDriver, no node, no DaemonSet, no provisioner.", v.PV.Name, v.Driver), s.Evidence...)
	f.Confidence = Certain
	f.Fix = []Step{v.look("Note the volume's handle", "get", "pv", v.PV.Name, "-o", "yaml"),
		say(fmt.Sprintf("Install the driver %s again, in the version that was there: it deletes the volume and takes its finalizer off by itself. Remove it only when no PersistentVolume names it.", v.Driver))}
	if there != No {
		f.Rest = true
		f.Title = "No provisioner of the driver works on the deletion"
		f.Why = fmt.Sprintf("Volume %s is to be deleted by the driver %s, and no provisioner of it works: %s.", v.PV.Name, v.Driver, s.Why)
		f.Confidence = s.Proof
		f.Fix = append(f.Fix[:1], v.restartSidecar(s)...)
	}
	return f, Yes
}

func deleteNodeGone(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || !v.goingPV() {
		return Finding{}, No
	}
	key, values := oneNode(v.PV)
	if len(values) == 0 {
		return Finding{}, No
	}
	sets, _ := v.daemonSets()
	perNode := slices.ContainsFunc(sets, func(d *appsv1.DaemonSet) bool {
		return sidecarContainer(d.Spec.Template.Spec.Containers, provisionerSidecar) != nil
	})
	identity := ""
	if v.PV.Spec.CSI != nil {
		identity = v.PV.Spec.CSI.VolumeAttributes["storage.kubernetes.io/csiProvisionerIdentity"] // ends in the node where there is one provisioner a node
	}
	t := v.deleteTrouble()
	perNode = perNode || slices.ContainsFunc(values, func(n string) bool { return strings.HasSuffix(identity, "-"+n) || t != nil && names(t.Text, n) })
	nodes, known := list[*corev1.Node](v.world, inNodes, snapshot.Query{})
	for _, n := range nodes {
		if slices.Contains(values, n.Labels[key]) || slices.Contains(values, n.Name) {
			return Finding{}, No
		}
	}
	if known != Yes {
		return Finding{}, Unknown
	}
	where := strings.Join(values, ", ")
	f := v.deleteFinding(fmt.Sprintf("Volume %s lies on node %s, which does not exist any more, and only the driver's own instance there could delete it.", v.PV.Name, where),
		fact(ref(v.PV), "spec.nodeAffinity", key+" in "+where, time.Time{}))
	f.Status, f.Until = StatusStuck, nil // nobody comes to do it, however long ago it was asked for
	if t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Confidence = Likely
	if perNode {
		f.Confidence = Certain
	}
	f.Fix = []Step{v.look("See that the node is gone", "get", "nodes", "-o", "wide"),
		say("If the machine exists and can come back under its old name, bring it back: the deletion goes on by itself."),
		v.act(DangerDataLoss, "the node's machine and its disks are gone for ever, so that nothing is left to delete", "Only then: let the object go", "patch", "pv", v.PV.Name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)}
	return f, Yes
}

// oneNode is the label and the values of a volume that lies on one node: its affinity asks for a host name or a topology of the driver.
func oneNode(pv *corev1.PersistentVolume) (key string, values []string) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return "", nil
	}
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if e.Operator == corev1.NodeSelectorOpIn && (strings.Contains(e.Key, "host") || strings.Contains(e.Key, "node")) {
				key, values = e.Key, append(values, e.Values...)
			}
		}
	}
	return key, values
}

func deleteRBAC(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || !v.goingPV() {
		return Finding{}, No
	}
	if t := v.deleteError(); t != nil {
		cause, text := deleteTold(t)
		if cause != "delete/rbac" {
			return Finding{}, No
		}
		f := v.deleteFinding(fmt.Sprintf("The deletion of volume %s is not allowed to its own provisioner: %s", v.PV.Name, text), t.Evidence)
		f.Status, f.Confidence = v.settled(t), Likely
		f.Fix = []Step{v.look("See the volume and its events", "describe", "pv", v.PV.Name), say("Give the provisioner's ClusterRole the rules of its version (external-provisioner, deploy/kubernetes/rbac.yaml).")}
		return f, Yes
	}
	if v.hop(HopDelete).Status == StatusWaiting || !slices.Contains(v.PV.Finalizers, finalizerProvisioner) {
		return Finding{}, No
	}
	s := v.withPod(v.sidecar(provisionerSidecar))
	if s.Pod == nil {
		return Finding{}, min(s.Works, Unknown)
	}
	missing, role, lacking := v.lacks(s.Pod, right{"", "persistentvolumes", "delete"}, right{"", "persistentvolumes", "patch"})
	if lacking != Yes {
		return Finding{}, lacking
	}
	o, since, finalizers := v.deleting()
	f := v.rbacFinding(s, missing, role, fmt.Sprintf("Volume %s is to go since %s and is kept by the finalizer %s, which its provisioner cannot take off", v.PV.Name, ago(v.age(since)), finalizerProvisioner))
	f.Evidence = append(f.Evidence, fact(o, "metadata.finalizers", strings.Join(finalizers, ", "), since))
	return f, Yes
}

// finalizerOwner names who takes a finalizer off.
func finalizerOwner(finalizer string) string {
	switch {
	case finalizer == finalizerClaim || finalizer == finalizerVolume || finalizer == "kubernetes.io/pv-controller" || finalizer == "foregroundDeletion" || finalizer == "orphan":
		return "the kube-controller-manager"
	case finalizer == finalizerProvisioner || finalizer == finalizerClone:
		return "the driver's external-provisioner"
	case strings.HasPrefix(finalizer, "external-attacher/"):
		return "the driver's external-attacher"
	case strings.HasPrefix(finalizer, "snapshot.storage.kubernetes.io/"):
		return "the snapshot-controller"
	}
	owner, _, _ := strings.Cut(finalizer, "/")
	return "the owner of " + owner
}

func deleteFinalizer(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.hop(HopDelete).Status == StatusWaiting {
		return Finding{}, No
	}
	var kept *trouble // by the provisioner's finalizer, after its work
	if t := v.deleteError(); t != nil && !v.goingClaim() {
		if cause, _ := deleteTold(t); cause != "delete/finalizer" {
			return Finding{}, No
		}
		kept = t
	}
	o, since, finalizers := v.deleting()
	if !v.goingClaim() && v.PV.DeletionTimestamp == nil || len(finalizers) == 0 {
		return Finding{}, No
	}
	who := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	foreign := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == finalizerClaim || f == finalizerVolume || f == finalizerProvisioner || strings.HasPrefix(f, "external-attacher/")
	})
	var held, why string
	attacher := attacherFinalizer(v.Driver)
	switch {
	case len(foreign) > 0:
		held, why = foreign[0], "it is none of Kubernetes' or the driver's own"
	case !v.goingClaim() && v.PV.Status.Phase == corev1.VolumeBound && slices.Contains(finalizers, finalizerVolume):
		if _, known := v.podsOfClaim(); known == Unknown {
			return Finding{}, Unknown // a pod that waits for it would be told first
		}
		held, why = finalizerVolume, "a volume that is bound is kept until its claim is gone"
		if r := v.PV.Spec.ClaimRef; r != nil {
			why = fmt.Sprintf("a volume that is bound is kept until its claim, %s/%s, is gone", r.Namespace, r.Name)
		}
	case slices.Contains(finalizers, finalizerProvisioner) && kept != nil:
		_, words := grpc(kept.Text)
		held, why = finalizerProvisioner, "it has deleted the volume in the backend and fails to record it: "+words
	case slices.Contains(finalizers, finalizerProvisioner):
		return Finding{}, No // its work is not known to be done
	case slices.Contains(finalizers, attacher):
		all, known := v.attachments()
		if len(all) > 0 || known == Unknown {
			return Finding{}, min(truth(len(all) == 0), Unknown)
		}
		if there := v.installed(); there != Yes {
			return Finding{}, there // without an attacher none could overlook it
		}
		held, why = attacher, "no VolumeAttachment names the volume any more, so the attacher's work is done and it has overlooked its own finalizer"
	default:
		held, why = finalizers[0], "nothing is to be seen that it waits for"
	}
	f := v.deleteFinding(fmt.Sprintf("%s %s was asked to go %s ago and is held by the finalizer %s, which %s takes off: %s.", o.Kind, who, ago(v.age(since)), held, finalizerOwner(held), why))
	f.Confidence = Certain
	if kept != nil {
		f.Evidence = append(f.Evidence, kept.Evidence)
	}
	if v.hop(HopDelete).Status == StatusDegraded {
		f.Status = StatusDegraded
	}
	if held == finalizers[0] && why == "nothing is to be seen that it waits for" {
		f.Confidence, f.Rest = Likely, true
	}
	kind, args := "pv", []string{}
	if v.goingClaim() {
		kind, args = "pvc", []string{"-n", v.Namespace}
	}
	f.Fix = []Step{v.look("See the object, and who put the finalizer there", append(args, "get", kind, o.Name, "-o", "yaml", "--show-managed-fields")...)}
	switch {
	case held == attacher:
		f.Fix = append(f.Fix, v.look("See that no attachment names the volume", "get", "volumeattachments"),
			say("Restart the driver's controller with its csi-attacher, or touch the volume with any label: it looks at it anew."),
			v.act(DangerDataLoss, "the list before has no attachment of the volume, and the backend shows it attached to nothing", "If it still overlooks it: take that one finalizer off", "edit", "pv", o.Name))
	case held == finalizerProvisioner:
		f.Fix = append(f.Fix, say("See in the backend that the volume is gone, and restart the driver's controller with its csi-provisioner: it asks the driver again, which says that there is nothing left to delete, and takes its finalizer off."))
	case held == finalizerVolume:
		f.Fix = append(f.Fix, say("The volume works as before while it is bound, but it will not be attached to another node. If the data is needed, set its reclaim policy to Retain now; the deletion cannot be taken back. It ends when the claim is deleted."))
	default:
		f.Fix = append(f.Fix, say(fmt.Sprintf("Ask %s why it keeps the object, and bring it back if it is gone.", finalizerOwner(held))),
			hazard(DangerDataLoss, "it is known what the finalizer protects, and that this is done or gone", "Otherwise take that one finalizer off by hand."))
	}
	return f, Yes
}

func deleteInProgress(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.hop(HopDelete).Status != StatusWaiting {
		return Finding{}, No
	}
	o, since, _ := v.deleting()
	f := v.deleteFinding(fmt.Sprintf("%s %s was asked to go %s ago, within the normal time.", o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), ago(v.age(since))))
	if t := v.deleteTrouble(); t != nil && !v.goingClaim() && v.detachedSince(t) {
		f = v.deleteFinding(fmt.Sprintf("Volume %s was still attached at the provisioner's last try, at %s, and no longer is: the next try follows.", v.PV.Name, t.At.UTC().Format("15:04:05Z")), t.Evidence)
	}
	f.Confidence, f.Rest = Likely, true
	f.Fix = []Step{say("Wait: it ends by itself.")}
	return f, Yes
}

func deleteBackendError(v *View) (Finding, Truth) {
	if !v.at(HopDelete) || v.goingClaim() || !v.goingPV() {
		return Finding{}, No
	}
	t := v.deleteError()
	fix := []Step{v.look("See the volume and its events", "describe", "pv", v.PV.Name), say("Read the log of the driver's controller, and look at the volume in the backend. The deletion is repeated by itself.")}
	if t == nil {
		if v.hop(HopDelete).Status == StatusWaiting {
			return Finding{}, No
		}
		if _, known := v.volumeEvents(); known != Yes {
			return Finding{}, Unknown
		}
		f := v.deleteFinding(fmt.Sprintf("Volume %s is to be deleted by the driver %s, and nothing is said of why it is still there.", v.PV.Name, v.Driver))
		f.Rest, f.Confidence, f.Fix = true, Possible, fix
		return f, Yes
	}
	_, text := deleteTold(t)
	if v.unlooked(text) {
		return Finding{}, Unknown
	}
	_, words := grpc(text)
	f := v.deleteFinding(fmt.Sprintf("The driver %s cannot delete volume %s. It says: %s", v.Driver, v.PV.Name, words), t.Evidence)
	f.Rest, f.Said, f.Status, f.Fix = true, true, v.settled(t), fix
	reports, _ := v.reports()
	for _, r := range reports {
		if found := v.leaks(&r.Report, r.Name); len(found) > 0 {
			f = v.leakedTo(f, &r.Report, r.Name, found)
		}
	}
	f.Confidence = Likely
	return f, Yes
}
