package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

var attachCauses = slices.Concat(attachFirst, holdCauses, attachObjects, attachSaid)

// attachObjects are those that the objects show, without words of the driver.
var attachObjects = []Cause{{
	ID:    "attach/not-requested",
	Title: "Nobody asked for the volume to be attached",
	Doc: `The attach-detach controller of the kube-controller-manager makes the VolumeAttachment when a pod gets its node. It makes none when it is
not running, when the node is not marked for it, or when it believes that the volume is attached already.

To be sure: there is no VolumeAttachment of the volume, and the pod has had its node for minutes.

Restarting the kube-controller-manager (or moving its lead) is safe. Do not write a VolumeAttachment by hand.`,
	Match: attachNotRequested,
}, {
	ID:    "attach/not-published-to-node",
	Title: "Attached, and the node was not told",
	Doc: `The attacher has recorded that the volume is attached. The kubelet waits until the node's status.volumesAttached lists it, which the
kube-controller-manager writes.

To be sure: the VolumeAttachment says attached: true, and the node's status does not list the volume.

Restarting the kube-controller-manager is safe.`,
	Match: attachNotPublished,
}, {
	ID:    "attach/limit-reached",
	Title: "The node has no attach slot left",
	Doc: `Machines take a limited number of disks, and some count boot disks and network cards too. The scheduler knows the limit only from
the driver, and volumes that it cannot see count as well.

To be sure: the driver's words name the limit, or the node has as many VolumeAttachments as its CSINode allows.

Move a pod to another node (delete it; its owner makes a new one), or use larger machines. Do not detach disks by hand that are mounted.`,
	Match: attachLimit,
}, {
	ID:    "attach/not-exclusive",
	Title: "A volume meant for one node is used on two",
	Doc: `The driver does not attach, so nothing keeps a ReadWriteOnce volume to one node. The second node is refused by the backend, or worse,
is not.

To be sure: pods on two nodes use the claim, and the CSIDriver says attachRequired: false.

Stop one of the pods. A block device with a plain filesystem that was mounted twice must be checked before it is used again.`,
	Match: attachNotExclusive,
}}

// attachSaid are read out of the driver's words, and what is left.
var attachSaid = []Cause{
	attachText("attach/rbac", "The attacher may not record what it did",
		`The attacher calls the driver and must write the result into the VolumeAttachment and its status. With too small a ClusterRole the volume
is attached in the backend and Kubernetes never learns it.

To be sure: the attacher's log, or its ClusterRole compared with the one of its version: volumeattachments and
volumeattachments/status with patch, persistentvolumes with patch, csinodes with get, list, watch.

Give the role what it lacks. Do not attach or detach by hand.`,
		"Kubernetes refuses the attacher", say("Give the attacher's ClusterRole the rules of its version (external-attacher, deploy/kubernetes/rbac.yaml).")),
	attachText("attach/throttled", "The backend limits the rate of the driver's calls",
		`Many attaches and detaches at once use up the backend's request quota; the calls are repeated with a growing pause and go through in
the end. Drivers answer with a back-off of their own meanwhile.

To be sure: the driver's words name a rate, a throttle or 429.

Wait, or lower the load: fewer pods that move at a time, lower --worker-threads of the attacher, a higher quota.`,
		"The backend limits the rate of calls", say("Let fewer pods move at a time, and raise the quota of the API if it happens often. The attach is repeated by itself, at least every 5 minutes.")),
	attachText("attach/wrong-zone", "Volume and node are in different zones",
		`The disk can only be attached to machines of its own zone. The pod was placed by nodeName, the PV lacks its node affinity, or the node's
labels are wrong.

To be sure: compare the volume's zone in the backend with the node's topology labels and the PV's nodeAffinity.

Do not edit the PV to please the scheduler: the disk stays where it is.`,
		"Volume and node are in different zones", say("Run the pod on a node in the volume's zone (remove nodeName or a wrong node selector), or copy the data through a snapshot into the other zone.")),
	attachText("attach/volume-not-found", "The backend has no such volume",
		`The PersistentVolume names a volume that the backend does not know: it was deleted there, belongs to another account or region, or the
handle is mistyped.

To be sure: look for the handle in the backend's console, with the account and the region that the driver uses.

Do not delete the PV or the claim while it is unknown where the data is: a snapshot or a backup of the volume can make a new one.`,
		"The backend has no such volume", say("Look for the volume in the backend, in other accounts and regions too, and for its snapshots. Restore it from a snapshot or backup into a new PV if it is gone.")),
	attachText("attach/node-unknown", "The backend does not know the node",
		`The driver asks the backend to attach to a machine that it does not find: the machine was replaced under the same node name, the node id
that the driver registered is wrong, or its account may not see it.

To be sure: compare the nodeID in the CSINode with the machine's id in the backend.

Restarting the node plugin lets it register its id anew. Do not delete the Node object while pods run there.`,
		"The backend does not know the node", say("Restart the driver's node plugin on the node, so that it registers the machine's present id; if the machine is gone, drain and remove the node.")),
	attachText("attach/held-outside", "The backend says that the volume is attached to another machine",
		`The backend refuses since the volume is attached elsewhere, and no VolumeAttachment says so: somebody attached it by hand, a late detach
or attach of the cloud undid what Kubernetes believes, or another cluster uses it.

To be sure: look at the volume in the backend's console: which machine has it, and whether it is mounted there.

Detach it there only when nothing on that machine has it mounted.`,
		"The backend has the volume attached to another machine", say("See in the backend's console which machine has the volume, and on that machine whether it is mounted or open."),
		hazard(DangerDataLoss, "nothing on that machine has it mounted or open", "Detach it there; the attach here follows by itself, within 5 minutes.")),
	attachText("attach/backend-busy", "The volume or the machine is locked by an operation in the backend",
		`The backend works on the volume or the machine (a detach, a snapshot, a resize, a migration), or a failed operation has left a lock. Most end
by themselves. One stuck volume can block a whole machine.

To be sure: the driver's words name the operation or the other volume; look at it in the backend's console.

Do not detach by force what is mounted.`,
		"The backend is busy with the volume or the machine", say("See in the backend's console which operation holds the volume or the machine, and finish or repeat it there. The attach is tried again by itself.")),
	attachText("attach/permission", "The backend refuses the driver's credentials",
		`The driver's account lacks a permission, or its token or password has expired or was changed.

To be sure: the driver's words; try the same call with the driver's account.

Renew the credentials in the driver's secret and restart its controller pod if it reads them only once.`,
		"The backend refuses the driver's credentials", say("Give the driver's account the permission that it lacks, or renew its credentials, then restart the driver's controller pod.")),
	{
		ID:    "attach/in-progress",
		Title: "The volume is being attached",
		Doc: `The attach was asked for and is within its normal time: clouds take up to a minute or two, and after an error the attacher waits at most
5 minutes before it tries again.

Do nothing but wait.`,
		Match: attachInProgress,
	}, {
		ID:    "attach/timeout",
		Title: "The attach does not end in time",
		Doc: `The driver's call takes longer than the attacher waits (15 seconds), again and again, and nothing says why.

To be sure: the driver's controller log at the time of the call; whether its backend answers.

The call is repeated by itself. Look at the volume in the backend before you do anything by hand: it may be attached there.`,
		Match: attachTimeout,
	}, {
		ID:    "attach/backend-error",
		Title: "The driver cannot attach the volume",
		Doc: `ControllerPublishVolume fails for a reason that is none of the known ones. The driver's own words are all there is.

To be sure: the driver's controller log at the time of the error.

The call is repeated by itself, at least every 5 minutes.`,
		Match: attachBackendError,
	},
}

// attachText is a cause that the words of the attach error tell.
func attachText(id, title, doc, why string, cure ...Step) Cause {
	return Cause{ID: id, Title: title, Doc: doc, Match: func(v *View) (Finding, Truth) {
		t, known := v.attachSays()
		if t == nil {
			if id == "attach/rbac" && known == Yes {
				return v.attachRBAC()
			}
			return Finding{}, min(known.not(), Unknown)
		}
		cause, text := attachTold(t)
		if cause != id {
			return Finding{}, No
		}
		_, words := grpc(text)
		f := Finding{Confidence: sure(id, text), Why: fmt.Sprintf("%s: volume %s cannot be attached to node %s. %s says: %s", why, v.volumeName(), v.Node, v.Driver, words),
			Evidence: []Evidence{t.Evidence, fact(Object{Kind: "PersistentVolume", Name: v.volumeName()}, "spec.csi.volumeHandle", v.Handle, time.Time{})}}
		if id == v.notFound(text) {
			f.Confidence = Certain
		}
		if id == "attach/held-outside" {
			if _, dead := v.heldByDeadMachine(); dead == Unknown {
				return Finding{}, Unknown
			}
			if names := v.machinesIn(text); len(names) > 0 {
				f.Why = sentence(f.Why) + " That machine is node " + strings.Join(names, ", ") + ", which no VolumeAttachment of the volume names."
			}
		}
		switch id {
		case "attach/node-unknown":
			v.answersAs(&f)
		case "attach/backend-busy":
			if strings.Contains(text, "not ready for workloads") { // Longhorn says so, too, of a volume without a replica that works
				f.Confidence = Likely
			}
			v.alsoWorkedOn(&f)
		}
		if text != t.Text {
			f.Evidence = append(f.Evidence, t.Earlier[len(t.Earlier)-1].evidence())
		}
		f.Status = v.settled(t)
		if f.Status == StatusWaiting {
			f.Until = moment(t.Since.Add(errorSettled))
		}
		f.Fix = []Step{v.look("See the driver's own words", "get", "volumeattachment", attachmentName(v.Handle, v.Driver, v.Node), "-o", "yaml")}
		f.Fix = append(f.Fix, cure...)
		return f, Yes
	}}
}

// alsoWorkedOn names the other volumes that the driver is attaching to the node or detaching from it: one of them may be what
// blocks the machine.
func (v *View) alsoWorkedOn(f *Finding) {
	var all []*storagev1.VolumeAttachment
	v.ahead(func() { all, _ = v.attachmentsTo(v.Node) })
	var also []string
	for _, at := range all {
		pv := text(at.Spec.Source.PersistentVolumeName)
		if at.Spec.Attacher != v.Driver || pv == "" || pv == v.volumeName() || at.DeletionTimestamp == nil && at.Status.Attached {
			continue
		}
		what, since := "attached", at.CreationTimestamp.Time
		if at.DeletionTimestamp != nil {
			what, since = "detached", at.DeletionTimestamp.Time
		}
		also = append(also, fmt.Sprintf("%s is being %s for %s", pv, what, ago(v.age(since))))
		f.Evidence = append(f.Evidence, fact(ref(at), "spec.source.persistentVolumeName", pv+", being "+what, since))
		if len(also) == 3 {
			break
		}
	}
	if len(also) > 0 {
		f.Why = sentence(f.Why) + fmt.Sprintf(" On that node volume %s, which may be what it is busy with.", strings.Join(also, ", volume "))
	}
}

// answersAs adds to a finding that the driver on the node calls it another than the CSINode, where its report shows that.
func (v *View) answersAs(f *Finding) {
	entry, known := v.registered(v.Node)
	r := v.reportAtHand(v.Node)
	if known != Yes || r == nil {
		return
	}
	if d := socketOf(r, v.Driver); d != nil && d.Node != nil && d.Node.ID != "" && d.Node.ID != entry.NodeID {
		f.Why = sentence(f.Why) + fmt.Sprintf(" The CSINode calls the machine %s, and the driver on it answers %s now: the kubelet does not take that over until the driver registers again.", entry.NodeID, d.Node.ID)
		f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: v.Node}, "drivers["+v.Driver+"].node.id", d.Node.ID, r.CollectedAt))
	}
}

// notFound: by the code NotFound and the one name in it, of the volume or of the node, which of the two the backend does not
// know; empty: that is not said so.
func (v *View) notFound(text string) string {
	code, words := grpc(text)
	if code != "NotFound" {
		return ""
	}
	node := names(words, v.Node)
	if entry, known := v.registered(v.Node); known == Yes && names(words, entry.NodeID) {
		node = true
	}
	switch volume := v.Handle != "" && names(words, v.Handle); {
	case volume && !node:
		return "attach/volume-not-found"
	case node && !volume:
		return "attach/node-unknown"
	}
	return ""
}

// attachSays is the driver's error in force at attach: the VolumeAttachment's own, else what the controller repeated.
func (v *View) attachSays() (*trouble, Truth) {
	if !v.at(HopAttach) {
		return nil, Yes
	}
	at, known := v.attachment(v.Node)
	if known == Yes && at.DeletionTimestamp == nil && !at.Status.Attached && at.Status.AttachError != nil && !v.cured(at.Status.AttachError.Message) {
		return v.attachTrouble(at), Yes
	}
	if t := v.attachEvent(); t != nil && known != Yes && strings.Contains(t.Text, "AttachVolume.Attach failed") && !attachEcho.MatchString(t.Text) && !v.cured(t.Text) {
		return t, Yes
	}
	if known == Yes && at.DeletionTimestamp == nil && !at.Status.Attached && at.Status.AttachError == nil {
		return v.orLogged(nil, HopAttach, attacherSidecar), Yes
	}
	if known == No {
		known = Yes
	}
	return nil, known
}

func attachNotRequested(v *View) (Finding, Truth) {
	if !v.at(HopAttach) || v.hop(HopAttach).Status == StatusWaiting || v.Pod.Status.Reason == reasonLimit {
		return Finding{}, No
	}
	if _, known := v.attachment(v.Node); known != No {
		return Finding{}, known.not()
	}
	if t := v.attachEvent(); t != nil && !attachEcho.MatchString(t.Text) {
		return Finding{}, No
	}
	if v.exclusive() {
		if held, known := v.holders(); len(held) > 0 || known == Unknown {
			return Finding{}, min(truth(len(held) == 0), Unknown)
		}
	}
	if required := v.attachRequired(); required != Yes {
		return Finding{}, required
	}
	name := attachmentName(v.Handle, v.Driver, v.Node)
	f := Finding{Confidence: Certain, Evidence: []Evidence{fact(Object{Kind: "VolumeAttachment", Name: name}, "metadata", "does not exist", time.Time{}),
		fact(ref(v.Pod), "status.conditions[PodScheduled]", v.Node, v.scheduledAt())}}
	f.Why = fmt.Sprintf("Pod %s/%s has been on node %s for %s, and there is no VolumeAttachment %s of volume %s to it: the attach-detach controller has not asked for the attach.",
		v.Pod.Namespace, v.Pod.Name, v.Node, ago(v.age(v.scheduledAt())), name, v.volumeName())
	n, _ := v.node(v.Node)
	down, ev := v.controllerManagerDown()
	switch {
	case down:
		f.Why += " The kube-controller-manager is not at work."
		f.Evidence = append(f.Evidence, ev)
	case n != nil && n.Annotations["volumes.kubernetes.io/controller-managed-attach-detach"] == "":
		f.Why += " The node is not marked for it: its kubelet runs with enableControllerAttachDetach: false, or the annotation was lost."
		f.Evidence = append(f.Evidence, fact(ref(n), "metadata.annotations[volumes.kubernetes.io/controller-managed-attach-detach]", "", time.Time{}))
	case v.listedAttached(v.Node) == Yes:
		f.Why += " It believes that the volume is attached: the node's status says so."
		f.Evidence = append(f.Evidence, fact(Object{Kind: "Node", Name: v.Node}, "status.volumesAttached", uniqueName(v.Driver, v.Handle), time.Time{}))
	}
	if t := v.mountTrouble(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{v.look("See who leads the controllers, and since when", "-n", "kube-system", "get", "lease", "kube-controller-manager", "-o", "yaml"),
		say("Restart the kube-controller-manager, or let its lead move: it then reads pods, nodes and attachments anew and asks for the attach. Do not write a VolumeAttachment by hand.")}
	return f, Yes
}

func attachNotPublished(v *View) (Finding, Truth) {
	if !v.at(HopAttach) || v.hop(HopAttach).Status == StatusWaiting {
		return Finding{}, No
	}
	at, known := v.attachment(v.Node)
	if known != Yes || !at.Status.Attached || at.DeletionTimestamp != nil {
		return Finding{}, min(known.not(), Unknown)
	}
	if listed := v.listedAttached(v.Node); listed != No {
		return Finding{}, listed.not()
	}
	f := Finding{Confidence: Certain, Why: fmt.Sprintf("Volume %s is attached to node %s, and the node's status.volumesAttached does not list it, so its kubelet waits in silence.", v.volumeName(), v.Node),
		Evidence: []Evidence{fact(ref(at), "status.attached", "true", at.CreationTimestamp.Time), fact(Object{Kind: "Node", Name: v.Node}, "status.volumesAttached", "does not list "+uniqueName(v.Driver, v.Handle), time.Time{})}}
	if down, ev := v.controllerManagerDown(); down {
		f.Why += " The kube-controller-manager, which writes that, is not at work."
		f.Evidence = append(f.Evidence, ev)
	}
	f.Fix = []Step{v.look("See who leads the controllers, and since when", "-n", "kube-system", "get", "lease", "kube-controller-manager", "-o", "yaml"),
		say("Restart the kube-controller-manager, or let its lead move: it then writes the node's status anew.")}
	return f, Yes
}

// slots are what a node's CSINode allows of the driver's attachments; 0: it tells none.
func (v *View) slots(node string) int {
	if entry, known := v.registered(node); known == Yes && entry.Allocatable != nil && entry.Allocatable.Count != nil {
		return int(*entry.Allocatable.Count)
	}
	return 0
}

// slotsUsed counts the driver's attachments to a node; one of them may be going.
func (v *View) slotsUsed(node string) (used int, leaving *storagev1.VolumeAttachment, all Truth) {
	attachments, all := v.attachmentsTo(node)
	for _, at := range attachments {
		if at.Spec.Attacher != v.Driver {
			continue
		}
		if at.Status.Attached {
			used++
		}
		if at.DeletionTimestamp != nil && at.Status.DetachError == nil && v.age(at.DeletionTimestamp.Time) < normalAttach {
			leaving = at
		}
	}
	return used, leaving, all
}

func attachLimit(v *View) (Finding, Truth) {
	if !v.at(HopAttach) {
		return Finding{}, No
	}
	f := Finding{Fix: []Step{v.look("See what is attached to the node", "get", "volumeattachments", "-o", "wide"),
		v.look("See the pods on the node, and which of them could run elsewhere", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node),
		hazard(DangerDisruptive, "one of the pods may move", "Let a pod move to another node: cordon this one, then delete the pod so that its owner makes a new one elsewhere."),
		say("If volumes that the driver does not count take slots, lower the limit that it reports.")}}
	if v.Pod.Status.Reason == reasonLimit {
		f.Confidence = Certain
		f.Why = fmt.Sprintf("Node %s has no attach slot left for volume %s; the kubelet rejected pod %s/%s, which is Failed and never starts: only a new pod can.", v.Node, v.volumeName(), v.Pod.Namespace, v.Pod.Name)
		f.Evidence = []Evidence{fact(ref(v.Pod), "status.reason", v.Pod.Status.Reason+": "+v.Pod.Status.Message, time.Time{})}
		if t := v.attachEvent(); t != nil {
			f.Evidence = append(f.Evidence, t.Evidence)
		}
		return f, Yes
	}
	t, known := v.attachSays()
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	cause, text := attachTold(t)
	_, words := grpc(text)
	limit := v.slots(v.Node)
	if cause != "attach/limit-reached" && (limit == 0 || cause != "attach/timeout" && cause != "") {
		return Finding{}, No
	}
	used, leaving, all := v.slotsUsed(v.Node)
	full := limit > 0 && used >= limit
	switch {
	case cause == "attach/limit-reached":
		f.Confidence = sure(cause, text)
		if full {
			f.Confidence = Certain
		}
		f.Why = fmt.Sprintf("Node %s has no attach slot left for volume %s. %s says: %s", v.Node, v.volumeName(), v.Driver, words)
	case full:
		f.Confidence = Certain
		f.Why = fmt.Sprintf("Node %s has %d volumes of %s attached and allows %d, so volume %s finds no slot. %s says: %s", v.Node, used, v.Driver, limit, v.volumeName(), v.Driver, words)
	default:
		return Finding{}, all.not()
	}
	f.Evidence = []Evidence{t.Evidence}
	if limit > 0 {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: v.Node}, "spec.drivers["+v.Driver+"].allocatable.count", fmt.Sprintf("%d, %d attached", limit, used), time.Time{}))
	}
	f.Status = v.settled(t)
	if leaving != nil {
		until := latest(leaving.DeletionTimestamp.Add(normalAttach), t.At.Add(attacherBackoff))
		f.Status, f.Until = StatusWaiting, &until
		f.Why = sentence(f.Why) + fmt.Sprintf(" A slot is coming free: %s is being detached from it.", *leaving.Spec.Source.PersistentVolumeName)
		f.Evidence = append(f.Evidence, fact(ref(leaving), "metadata.deletionTimestamp", leaving.DeletionTimestamp.UTC().Format(time.RFC3339), leaving.DeletionTimestamp.Time))
		f.Fix = []Step{say("Wait: the attach is tried again by itself."), f.Fix[0]}
	}
	return f, Yes
}

// refusedTwice: the backend or the filesystem refuses a second node.
var refusedTwice = regexp.MustCompile(`(?i)still (being )?(used|mapped|open)|is in use|in use by|already (mapped|mounted|attached|open|exported) (on|to|by|at)|exclusive|has watchers|lock(ed)? by (an?other|node)|multi-?attach`)

func attachNotExclusive(v *View) (Finding, Truth) {
	if v.at(HopAttach) && v.hop(HopAttach).Status == StatusDegraded {
		return v.writtenTwice()
	}
	if !v.at(HopStage, HopPublish) || !v.exclusive() {
		return Finding{}, No
	}
	t := v.mountTrouble()
	if t == nil {
		return Finding{}, No
	}
	if _, found := t.says(refusedTwice); !found {
		return Finding{}, No
	}
	users, known := v.consumers(v.Namespace, v.ClaimName)
	i := slices.IndexFunc(users, func(p *corev1.Pod) bool { return !finished(p) && p.Spec.NodeName != "" && p.Spec.NodeName != v.Node })
	if i < 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	if required := v.attachRequired(); required != No {
		return Finding{}, required.not()
	}
	other := users[i]
	f := Finding{Confidence: Likely, Status: v.settled(t),
		Why: fmt.Sprintf("Volume %s is meant for one node, the driver %s attaches nothing, and pod %s/%s has it on node %s: node %s is refused. %s", v.volumeName(), v.Driver, other.Namespace, other.Name, other.Spec.NodeName, v.Node, t.Text),
		Evidence: []Evidence{fact(ref(v.PV), "spec.accessModes", accessModes(v.PV.Spec.AccessModes), time.Time{}), fact(Object{Kind: "CSIDriver", Name: v.Driver}, "spec.attachRequired", "false", time.Time{}),
			fact(ref(other), "spec.nodeName", other.Spec.NodeName, other.CreationTimestamp.Time), t.Evidence}}
	f.Fix = []Step{v.look("See which pods use the claim, and who owns them", "-n", v.Namespace, "get", "pods", "-o", "wide"),
		say("Let only one of the pods run: strategy Recreate and one replica for a Deployment, a claim each for several replicas.")}
	return f, Yes
}

// oneWriter are filesystems that two kernels must never have mounted at once.
var oneWriter = []string{"ext2", "ext3", "ext4", "xfs", "btrfs"}

// elsewhere is another node where a running pod has the volume too, though it has a filesystem for one kernel or is a raw device,
// and is meant for one node. It is only looked for where the claim or volume is asked about: there its pods are known.
func (v *View) elsewhere() *corev1.Pod {
	if !v.exclusive() || v.PV.Spec.CSI == nil {
		return nil
	}
	raw := v.PV.Spec.VolumeMode != nil && *v.PV.Spec.VolumeMode == corev1.PersistentVolumeBlock
	if !raw && !slices.Contains(oneWriter, v.PV.Spec.CSI.FSType) {
		return nil
	}
	return v.twoNodes()
}

// twoNodes is a ready pod that uses the claim on another node than the view's, whose pod is ready too, where the claim is for one node.
func (v *View) twoNodes() *corev1.Pod {
	if v.asked.Kind == "Pod" || v.Claim == nil || !ready(v.Pod) || !singleNode(v.Claim.Spec.AccessModes) {
		return nil
	}
	users, _ := v.consumers(v.Namespace, v.ClaimName)
	i := slices.IndexFunc(users, func(p *corev1.Pod) bool { return p.Spec.NodeName != v.Node && ready(p) && !finished(p) })
	if i < 0 {
		return nil
	}
	return users[i]
}

func (v *View) writtenTwice() (Finding, Truth) {
	other := v.elsewhere()
	if other == nil {
		return Finding{}, No
	}
	on := []string{v.Node, other.Spec.NodeName}
	slices.Sort(on)
	f := Finding{Status: StatusDegraded, Confidence: Certain,
		Why: fmt.Sprintf("Volume %s is meant for one node and is used on two at once, %s and %s: its driver %s does not attach, so nothing guards it. Two kernels that write to one %s filesystem destroy it.", v.volumeName(), on[0], on[1], v.Driver, v.PV.Spec.CSI.FSType),
		Evidence: []Evidence{fact(ref(v.PV), "spec.accessModes", accessModes(v.PV.Spec.AccessModes), time.Time{}), fact(Object{Kind: "CSIDriver", Name: v.Driver}, "spec.attachRequired", "false", time.Time{}),
			fact(ref(v.Pod), "spec.nodeName", v.Node, v.Pod.CreationTimestamp.Time), fact(ref(other), "spec.nodeName", other.Spec.NodeName, other.CreationTimestamp.Time)}}
	f.Fix = []Step{v.look("See which pods use the claim, and who owns them", "-n", v.Namespace, "get", "pods", "-o", "wide"),
		hazard(DangerDisruptive, "the step before shows several pods on several nodes; every further write makes the damage worse", "Stop all of them but one now, through their owner: strategy Recreate and one replica for a Deployment."),
		say("Then save the data, stop the last one too, and let the filesystem be checked before it is used again: what each node has in its memory contradicts the other.")}
	return f, Yes
}

func attachInProgress(v *View) (Finding, Truth) {
	h := v.hop(HopAttach)
	if !v.at(HopAttach) || h.Status != StatusWaiting {
		return Finding{}, No
	}
	if t, known := v.attachSays(); t != nil {
		if cause, _ := attachTold(t); cause != "" && cause != "attach/timeout" {
			return Finding{}, No
		}
	} else if known == Unknown {
		return Finding{}, Unknown
	}
	f := Finding{Status: StatusWaiting, Until: h.Until, Confidence: Likely, Rest: true,
		Why: fmt.Sprintf("Volume %s is on its way to node %s, within the normal time: %s.", v.volumeName(), v.Node, h.Note)}
	if at, known := v.attachment(v.Node); known == Yes {
		f.Evidence = append(f.Evidence, fact(ref(at), "status.attached", fmt.Sprint(at.Status.Attached), at.CreationTimestamp.Time))
		if at.Status.AttachError != nil {
			f.Evidence = append(f.Evidence, v.attachTrouble(at).Evidence)
		}
	}
	f.Fix = []Step{say("Wait: the attach goes on, or is tried again, by itself."), v.look("Watch the attachments", "get", "volumeattachments")}
	return f, Yes
}

func attachTimeout(v *View) (Finding, Truth) {
	if !v.at(HopAttach) {
		return Finding{}, No
	}
	f := Finding{Rest: true, Fix: []Step{v.look("See the attachment", "get", "volumeattachment", attachmentName(v.Handle, v.Driver, v.Node), "-o", "yaml"),
		say("Read the log of the driver's controller at the time of the call, and see in the backend whether the volume is attached.")}}
	t, known := v.attachSays()
	if t != nil {
		if cause, _ := attachTold(t); cause != "attach/timeout" {
			return Finding{}, No
		}
		_, words := grpc(t.Text)
		f.Why = fmt.Sprintf("The attach of volume %s to node %s does not end in time. %s says: %s", v.volumeName(), v.Node, v.Driver, words)
		f.Evidence, f.Status, f.Confidence = []Evidence{t.Evidence}, v.settled(t), Likely
		return f, Yes
	}
	at, atKnown := v.attachment(v.Node)
	if atKnown != Yes || at.Status.Attached || at.DeletionTimestamp != nil || untouched(at) {
		return Finding{}, min(known.not(), Unknown)
	}
	f.Why = fmt.Sprintf("The attacher of %s has taken up the attach of volume %s to node %s %s ago, and records neither success nor error.", v.Driver, v.volumeName(), v.Node, ago(v.age(at.CreationTimestamp.Time)))
	f.Evidence, f.Confidence = []Evidence{fact(ref(at), "status", "attached: false, no error", at.CreationTimestamp.Time)}, Possible
	v.asHop(&f)
	return f, Yes
}

func attachBackendError(v *View) (Finding, Truth) {
	t, known := v.attachSays()
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	if _, events := v.podEvents(); events == Unknown && attachEcho.MatchString(t.Text) {
		return Finding{}, Unknown // the events have what it is an echo of
	}
	_, words := grpc(t.Text)
	f := Finding{Rest: true, Said: true, Confidence: Likely, Status: v.settled(t), Evidence: []Evidence{t.Evidence},
		Why: fmt.Sprintf("The driver %s cannot attach volume %s to node %s. It says: %s", v.Driver, v.volumeName(), v.Node, words),
		Fix: []Step{v.look("See the driver's own words", "get", "volumeattachment", attachmentName(v.Handle, v.Driver, v.Node), "-o", "yaml"),
			say("Read the log of the driver's controller at the time of the error, and look at the volume in the backend. The attach is repeated by itself, at least every 5 minutes.")}}
	return f, Yes
}
