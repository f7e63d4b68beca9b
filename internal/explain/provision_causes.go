package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

var provisionCauses = []Cause{{
	ID:    "provision/waiting-for-first-consumer",
	Title: "The claim waits for a pod that uses it",
	Doc: `The class binds with WaitForFirstConsumer: the volume is made when a pod uses the claim and the scheduler has chosen its node, so
that it is made in the right place. Until then Pending is normal, however long it takes.

To be sure: no pod (Completed ones do not count) names the claim.`,
	Match: waitingForConsumer,
}, {
	ID:    "provision/scheduler-bypassed",
	Title: "The pod was placed by nodeName, so nobody chooses a node for the volume",
	Doc: `With WaitForFirstConsumer the scheduler writes the chosen node on the claim. A pod made with spec.nodeName never passes the
scheduler, so the claim waits for ever, and kubelet waits for the claim.

To be sure: the pod has a node and the claim has no volume.kubernetes.io/selected-node.

Use a nodeSelector in place of nodeName. Setting the annotation by hand works once and hides the fault.`,
	Match: schedulerBypassed,
}, {
	ID:    "provision/in-progress",
	Title: "The volume is being made",
	Doc: `The claim was handed to its provisioner, which makes the volume, within the time that is normal for it. After one refusal for lack
of room the scheduler may have chosen another node.`,
	Match: provisioning,
}, {
	ID:    "provision/selected-node-gone",
	Title: "The node that was chosen for the volume does not exist any more",
	Doc: `The scheduler chose a node and wrote it on the claim; then the node went (scale-down, spot). The volume should be made for that
node, and the pod is held to it.

To be sure: volume.kubernetes.io/selected-node of the claim names a node that ` + "`kubectl get nodes`" + ` does not list.

The claim was never bound, so nothing is lost when the annotation is removed: the scheduler then chooses again.`,
	Match: selectedNodeGone,
}, {
	ID:    "provision/plugin-not-found",
	Title: "The class names a built-in volume plugin that this Kubernetes does not have",
	Doc: `Classes with provisioner kubernetes.io/... were served by Kubernetes itself. These plugins are gone; for some a CSI driver takes
over, for others nothing does.

To be sure: the claim's event says "no volume plugin matched".

A class cannot be changed: make one for a CSI driver and make the claim again with it.`,
	Match: pluginNotFound,
}, {
	ID:    "provision/driver-not-installed",
	Title: "Nothing in the cluster serves the provisioner that the class names",
	Doc: `No CSIDriver, no CSINode entry and no pod goes by that name. The driver was never installed, was removed, or is called otherwise
(a typing error in the class). After the migration of a built-in plugin the CSI driver has to be installed as well.

To be sure: ` + "`kubectl get csidrivers,csinodes`" + ` does not show it. Leases and old volumes stay behind and prove nothing.

Installing the driver is enough: claims that wait are served then.`,
	Match: driverNotInstalled,
}, {
	ID:    "provision/provisioner-not-running",
	Title: "The driver is known, and no provisioner works for it",
	Doc: `csi-provisioner makes the calls to the driver's controller. It does not run, crashes, or has lost its leadership: its lease is not
renewed and no event of it is recent. A pod that looks ready proves nothing when the lease is stale.

To be sure: the lease named like the driver, and the controller's pods.

Existing volumes go on working; do not delete pods of the node plugin for this.`,
	Match: provisionerNotRunning,
}, {
	ID:    "provision/source-not-ready",
	Title: "The snapshot or claim that the volume is copied from cannot be used yet",
	Doc: `The claim's dataSource must be there, finished, of the same driver, not larger than the claim and of the same volume mode. For a
populator its controller must run.

To be sure: the claim's event names the source; look at that object's own status.

Do not delete the source to start again: it may be the only copy.`,
	Match: saidOr("provision/source-not-ready", sourceStructure, sourceNotReady),
}, {
	ID:    "provision/no-topology",
	Title: "The node that was chosen has no topology of this driver, or the place is not allowed",
	Doc: `A driver with topology makes the volume for the chosen node's zone or host. That needs the driver's entry in the node's CSINode and
the labels that it names. They are missing when the node plugin does not run there, or the place is not in the class's
allowedTopologies.

To be sure: compare CSINode.spec.drivers (topologyKeys) with the node's labels.

Do not write the labels by hand: kubelet sets them when the plugin registers.`,
	Match: saidOr("provision/no-topology", topologyStructure, topologyMissing),
}, {
	ID:    "provision/rbac",
	Title: "The provisioner may not do its work in the API",
	Doc: `The provisioner's service account lacks a permission, often after an upgrade of the driver with an old ClusterRole. Where it may not
write events or volumes, no object says so.

To be sure: the event or the provisioner's log says "is forbidden: User ... cannot ..."; ` + "`kubectl auth can-i`" + ` as that user
confirms it.`,
	Match: saidOr("provision/rbac", provisionerLacks, provisionRBAC),
}, {
	ID:    "provision/secret-missing",
	Title: "The secret that the class names for provisioning cannot be had",
	Doc: `The class names a secret for CreateVolume (csi.storage.k8s.io/provisioner-secret-name). It does not exist, lacks the key that the
driver reads, or the class names none although the driver needs one.

To be sure: the event names the secret; look whether it exists in that namespace.

An operator (Rook) often makes the secret itself once its cluster is up: look why it has not, before you make one by hand.`,
	Match: said("provision/secret-missing", provisionError, provisionWords, secretMissing),
}, {
	ID:    "provision/quota",
	Title: "The backend's quota or limit is used up",
	Doc: `The storage backend refuses CreateVolume since the account, project or tenant may have no more volumes or space.
The claim is retried by itself as soon as there is room.

To be sure: the driver's words name a quota or limit; compare with what the backend's own console shows.

Deleting volumes to make room loses their data: look for released and unattached ones first, and snapshot what you are not sure of.`,
	Match: said("provision/quota", provisionError, provisionWords, func(v *View, t *trouble) Finding {
		return v.refused(t, fmt.Sprintf("The backend of %s refuses to make the volume, its limit is reached: %s", v.Driver, driverSays(t)),
			say("Raise the limit in the backend, or free volumes that nobody needs. The claim is tried again by itself, within 5 minutes."),
			v.look("Released volumes may hold room that nobody uses", "get", "pv"))
	}),
}, {
	ID:    "provision/permission",
	Title: "The backend refuses the driver's credentials",
	Doc: `The driver reached the backend and was refused: wrong or expired credentials, a role without the permission, an export that does not
allow the client.

To be sure: the driver's words (401, 403, not authorized, access denied) name the action or the user.

Give the one permission that is named, not an administrator's.`,
	Match: said("provision/permission", provisionError, provisionWords, func(v *View, t *trouble) Finding {
		return v.refused(t, fmt.Sprintf("The backend does not let driver %s make the volume: %s", v.Driver, driverSays(t)),
			say("Give the driver's role, user or key the permission that the text names (or the export the client's address), or renew the credentials. The claim is tried again by itself, within 5 minutes."),
			v.look("See which secret and parameters the class uses", "get", "storageclass", v.className(), "-o", "yaml"))
	}),
}, {
	ID:    "provision/access-mode",
	Title: "The driver does not support the access mode or volume mode that is asked for",
	Doc: `A block device serves one node at a time: most disk drivers refuse ReadWriteMany, and some refuse raw block volumes.

To be sure: the driver's words name the mode; compare with the claim's accessModes and volumeMode.

The claim was never bound, so it can be made again with another mode or class.`,
	Match: said("provision/access-mode", provisionError, provisionWords, func(v *View, t *trouble) Finding {
		f := v.refused(t, fmt.Sprintf("Driver %s does not make volumes with what the claim asks for (%s, volumeMode %s): %s", v.Driver, modes(v.Claim.Spec.AccessModes), modeOf(v.Claim.Spec.VolumeMode), driverSays(t)),
			say("Make the claim again with a mode that the driver supports, or with a class of a driver for shared files when several nodes must write. This claim was never bound, so it holds no data."))
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.accessModes", modes(v.Claim.Spec.AccessModes)+", volumeMode "+string(modeOf(v.Claim.Spec.VolumeMode)), time.Time{}))
		return f
	}),
}, {
	ID:    "provision/out-of-capacity",
	Title: "The backend has no room for the volume",
	Doc: `The pool, volume group, datastore or zone that the class leads to has not enough free space, or too few places for the replicas.

To be sure: the driver's words; compare with the pool's own numbers.

Deleting volumes to make room loses their data: look for released and unattached ones first.`,
	Match: said("provision/out-of-capacity", provisionError, provisionWords, func(v *View, t *trouble) Finding {
		asked := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		f := v.refused(t, fmt.Sprintf("The backend of %s has no room for a volume of %s: %s", v.Driver, asked.String(), driverSays(t)),
			v.look("See what capacity the driver publishes, if it does", "get", "csistoragecapacities", "-A"),
			v.look("Released volumes may hold room that nobody uses", "get", "pv"),
			say("Enlarge the pool or add a backend, ask for less, or use another class or zone. The claim is tried again by itself, within 5 minutes."))
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.resources.requests.storage", asked.String(), time.Time{}))
		return f
	}),
}, {
	ID:    "provision/invalid-parameters",
	Title: "The class, the claim or its size ask for something that the backend cannot make",
	Doc: `The driver refuses what the class's parameters or the claim ask for: an unknown parameter, a pool or type that does not exist, a size
below the minimum, a selector on a class that makes volumes.

To be sure: the driver's words name the field. Trying again cannot help.

A class cannot be changed: delete and make it again (volumes that exist keep working), or make another one. The claim was never
bound, so it can be made again.`,
	Match: invalidParameters,
}, {
	ID:    "provision/backend-unreachable",
	Title: "The storage backend does not answer the driver",
	Doc: `CreateVolume ends in timeouts or in network errors: the backend is down or unhealthy, its name is not resolved, or a firewall or proxy
stands between it and the driver's controller.

To be sure: the first call's DeadlineExceeded or the network error; later calls often only say that an operation already runs.

Restarting the driver does not help before the backend answers, and may leave half-made volumes.`,
	Match: backendUnreachable,
}, {
	ID:    "provision/operation-pending",
	Title: "An earlier CreateVolume of this claim still runs",
	Doc: `The driver or backend still works on the first call, and refuses a second one for the same volume meanwhile. Why the first takes so
long is not to be seen any more.

To be sure: only "already exists" or Aborted is said. The driver's log has the first call.

Do not make the claim again in a hurry: the half-made volume then stays behind in the backend.`,
	Match: saidOr("provision/operation-pending", callWithoutEnd, func(v *View, t *trouble) Finding {
		f := v.refused(t, fmt.Sprintf("Driver %s says that an earlier call for this volume still runs: %s", v.Driver, driverSays(t)),
			say("Find the first call in the log of the driver's controller, and whether the backend is making the volume."))
		f.Fix = append(f.Fix, v.controllerLogs()...)
		return f
	}),
}, {
	ID:    "provision/not-acted-on",
	Title: "The provisioner runs, and does nothing for this claim",
	Doc: `The provisioner's lease is fresh or its pod is ready, and there is no event of it on the claim: it does not see the claim (another name
in the annotation, a permission to list or watch), waits for something without a word, or hangs.

To be sure: its log is the place to look.`,
	Match: notActedOn,
}, {
	ID:    "provision/backend-error",
	Title: "The driver cannot make the volume",
	Doc: `CreateVolume fails with an error that is none of the known ones. The driver's own words are in the answer; its log and the backend's
have more.`,
	Match: func(v *View) (Finding, Truth) {
		t, known := provisionError(v)
		if t == nil {
			return Finding{}, min(known.not(), Unknown)
		}
		if _, class := v.class(); class == Unknown && t.Source == pvController {
			return Finding{}, Unknown // no driver was asked, and whether one would be is in the class
		}
		if word := v.told(provisionWords, t.Text); word != "" && word != "provision/backend-error" {
			return Finding{}, No
		}
		f := v.refused(t, fmt.Sprintf("Driver %s cannot make the volume: %s", v.Driver, driverSays(t)),
			say("The text is the driver's or the backend's: look it up in the driver's documentation and in its log. The claim is tried again by itself, within 5 minutes."))
		f.Fix = append(f.Fix, v.controllerLogs()...)
		f.Status, f.Evidence = v.troubleStatus(t), append([]Evidence{t.Evidence}, f.Evidence...)
		return f, Yes
	},
}}

// refused starts a finding of a CreateVolume that fails.
func (v *View) refused(t *trouble, why string, fix ...Step) Finding {
	f := Finding{Status: v.troubleStatus(t), Confidence: sure(v.told(provisionWords, t.Text), t.Text), Why: why, Fix: fix}
	if v.at(HopProvision) && f.Status == StatusWaiting {
		f.Until = v.hop(HopProvision).Until
	}
	if n := len(t.Earlier); n > 0 && t.Earlier[n-1].Message != t.Text { // what the later calls say, which only wait for this one
		f.Evidence = append(f.Evidence, t.Earlier[n-1].evidence())
	}
	if class, known := v.class(); known == Yes {
		f.Evidence = append(f.Evidence, fact(ref(class), "provisioner", class.Provisioner, time.Time{}))
	}
	return f
}

// troubleStatus is the hop's own status where it fails there, else how settled the error is.
func (v *View) troubleStatus(t *trouble) Status {
	if s := v.hop(HopProvision).Status; v.at(HopProvision) && (s == StatusStuck || s == StatusWaiting) {
		return s
	}
	return v.settled(t)
}

// controllerLogs is the way to the log of the driver's controller.
func (v *View) controllerLogs() []Step {
	s := v.sidecar(provisionerSidecar)
	if s.Pod == nil {
		return []Step{v.look("Find the driver's controller by its lease", "get", "leases", "-A", "--field-selector", "metadata.name="+provisionerSidecar.Lease(v.Driver))}
	}
	return []Step{v.look("The driver's log", "logs", s.Pod.Name, "-n", s.Pod.Namespace, "--all-containers", "--since", "1h")}
}

func backendUnreachable(v *View) (Finding, Truth) {
	t, known := provisionError(v)
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	word := v.told(provisionWords, t.Text)
	var sick string
	var proof Confidence
	var ev []Evidence
	if word == "provision/backend-unreachable" || word == "provision/operation-pending" {
		sick, proof, ev = v.sickBackend()
	}
	if word != "provision/backend-unreachable" && sick == "" {
		return Finding{}, No
	}
	f := v.refused(t, fmt.Sprintf("Driver %s gets no answer from its backend in time: %s", v.Driver, driverSays(t)),
		say("See whether the storage backend is healthy (its own status, for Ceph HEALTH and the placement groups), and whether the driver's controller pod reaches it: DNS, firewall, proxy, certificate."))
	f.Evidence = append(append([]Evidence{t.Evidence}, ev...), f.Evidence...)
	if sick != "" {
		f.Confidence, f.Why = proof, sentence(f.Why)+" "+sick+"."
	}
	f.Fix = append(f.Fix, v.controllerLogs()...)
	return f, Yes
}

func waitingForConsumer(v *View) (Finding, Truth) {
	if !v.at(HopProvision, HopBind) || v.Claim == nil || v.bound() || v.Claim.Spec.VolumeName != "" || v.Pod != nil || v.selectedNode() != "" {
		return Finding{}, No
	}
	if wait := v.waitsForConsumer(); wait != Yes {
		return Finding{}, wait
	}
	if pods, known := v.podsOfClaim(); known != Yes || len(pods) > 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	return Finding{Status: StatusWaiting, Confidence: Certain, Why: fmt.Sprintf("Class %s makes the volume when a pod uses claim %s/%s, and none does yet.", v.className(), v.Namespace, v.ClaimName),
		Evidence: []Evidence{fact(Object{Kind: "StorageClass", Name: v.className()}, "volumeBindingMode", string(storagev1.VolumeBindingWaitForFirstConsumer), time.Time{})},
		Fix:      []Step{say("Nothing is to be done: make a pod that uses the claim.")}}, Yes
}

func schedulerBypassed(v *View) (Finding, Truth) {
	if !v.at(HopProvision, HopBind) || v.Claim == nil || v.bound() || v.Claim.Spec.VolumeName != "" || v.Pod == nil || v.Node == "" || v.selectedNode() != "" {
		return Finding{}, No
	}
	if wait := v.waitsForConsumer(); wait != Yes {
		return Finding{}, wait
	}
	return Finding{Confidence: Certain, Why: fmt.Sprintf("Pod %s/%s was placed on node %s without the scheduler, so nobody writes the chosen node on claim %s, and class %s waits for that.", v.Pod.Namespace, v.Pod.Name, v.Node, v.ClaimName, v.className()),
		Evidence: []Evidence{fact(ref(v.Pod), "spec.nodeName", v.Node, v.Pod.CreationTimestamp.Time), fact(v.claimObject(), "metadata.annotations["+annSelectedNode+"]", "not set", time.Time{})},
		Fix: []Step{v.look("See who made the pod with nodeName", "get", "pod", v.Pod.Name, "-n", v.Pod.Namespace, "-o", "yaml"),
			say(fmt.Sprintf("Take nodeName out of the pod's template and use nodeSelector kubernetes.io/hostname: %s (or an affinity) in its place, then make the pod again.", v.Node))}}, Yes
}

func provisioning(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || v.hop(HopProvision).Status == StatusUnknown && v.age(v.Claim.CreationTimestamp.Time) < normalProvision {
		return Finding{}, min(v.eventsOfClaimKnown().not(), Unknown)
	}
	h := v.hop(HopProvision)
	if h.Status != StatusWaiting || !h.reached || v.Pod == nil && v.selectedNode() == "" && v.waitsForConsumer() == Yes {
		return Finding{}, No
	}
	events, known := v.claimEvents()
	t := v.provisionTrouble(events)
	if t != nil && !onlySlow(t) {
		return Finding{}, No
	}
	if known == Unknown {
		return Finding{}, Unknown
	}
	f := v.asBlock(Finding{Confidence: Likely, Why: fmt.Sprintf("Provisioner %s was asked for the volume %s ago, and that is within its normal time.", v.Driver, ago(v.age(v.provisionSince(events))))})
	if t != nil {
		f.Why = fmt.Sprintf("Provisioner %s is making the volume since %s; its calls end before that is done, which is normal for %s: %s", v.Driver, ago(v.age(t.Since)), ago(normalProvisionSlow), driverSays(t))
		f.Evidence = []Evidence{t.Evidence}
	} else if old := provisionFailures(events); old != nil {
		f.Why = fmt.Sprintf("What provisioner %s last complained of is over, and it tries again by itself.", v.Driver)
		f.Evidence = []Evidence{old.Evidence}
	}
	if node := v.selectedNode(); node != "" {
		f.Why = sentence(f.Why) + fmt.Sprintf(" The scheduler chose node %s for it.", node)
	}
	f.Evidence = append(f.Evidence, fact(v.claimObject(), "status.phase", string(v.Claim.Status.Phase), v.Claim.CreationTimestamp.Time))
	f.Fix = []Step{v.look("Look again in a few minutes", "get", "pvc", v.ClaimName, "-n", v.Namespace)}
	return f, Yes
}

func (v *View) eventsOfClaimKnown() Truth {
	_, known := v.claimEvents()
	return known
}

func selectedNodeGone(v *View) (Finding, Truth) {
	name := v.selectedNode()
	if !v.unprovisioned() || name == "" {
		return Finding{}, No
	}
	n, known := v.node(name)
	csi, csiKnown := v.csiNode(name)
	t, _ := provisionError(v)
	word := t != nil && v.told(provisionWords, t.Text) == "provision/selected-node-gone"
	gone := ""
	switch {
	case known == No:
		gone = "the node"
	case known == Yes && csiKnown == No && v.age(n.CreationTimestamp.Time) > normalUntouched:
		gone = "the CSINode of the node"
	case known == Unknown && word:
		gone = "the node (by the provisioner's words)"
	case known == Yes && (csiKnown == Yes || csi != nil), known == Yes && csiKnown == No:
		return Finding{}, No
	default:
		return Finding{}, Unknown
	}
	f := v.asBlock(Finding{Confidence: Certain, Why: fmt.Sprintf("The scheduler chose node %s for claim %s/%s, and %s does not exist any more. The volume would be made for it, and the pod is held to it.", name, v.Namespace, v.ClaimName, gone),
		Evidence: []Evidence{fact(v.claimObject(), "metadata.annotations["+annSelectedNode+"]", name, time.Time{}), fact(Object{Kind: "Node", Name: name}, "", "not found", time.Time{})}})
	if gone != "the node" {
		f.Evidence = f.Evidence[:1]
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: name}, "", "not found", time.Time{}))
	}
	if known == Unknown {
		f.Confidence, f.Evidence = Likely, f.Evidence[:1]
	}
	if t != nil {
		f.Status, f.Until = v.troubleStatus(t), nil
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{v.look("See that the node is not listed and the claim is not bound", "get", "node/"+name, "pvc/"+v.ClaimName, "-n", v.Namespace),
		v.act(DangerDisruptive, "the node is gone for good and the claim is still Pending", "Let the scheduler choose again: remove the annotation. The claim was never bound, so nothing is lost", "annotate", "pvc", v.ClaimName, "-n", v.Namespace, annSelectedNode+"-"),
		say("csi-provisioner removes the annotation itself in current versions: if that happens often, update the driver.")}
	return f, Yes
}
