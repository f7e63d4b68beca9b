package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The scheduler's words (pkg/scheduler/framework/plugins of Kubernetes 1.28 to 1.37).
var (
	// It only waits for a claim: the cause lies at the claim, provision or bind.
	schedulerEcho  = regexp.MustCompile(`unbound immediate PersistentVolumeClaims|persistentvolumeclaim "[^"]*" (not found|is being deleted|bound to non-existent)|waiting for ephemeral volume controller|failed to find storage class|no class for claim|pod is not owner|bound to non-existent pv`)
	affinityWords  = regexp.MustCompile(`volume node affinity conflict|didn't match PersistentVolume's node affinity|no available volume zone`)
	capacityWords  = regexp.MustCompile(`did not have enough free storage`)
	limitWords     = regexp.MustCompile(`exceed max volume count`)
	exclusiveWords = regexp.MustCompile(`ReadWriteOncePod access mode (and is )?already in.use by another pod|uses the ReadWriteOncePod access mode and is already in use`)
	timeoutWords   = regexp.MustCompile(`binding volumes: .{0,200}(context deadline exceeded|timed out)`)
	driverAbsent   = regexp.MustCompile(`CSI driver is not installed on the node`)
	// Kubelet refuses a pod that was placed where the volume cannot be reached.
	refusedByNode = regexp.MustCompile(`NodeAffinity check failed|no matching NodeSelectorTerms`)
)

// scheduleHop: the pod has a node.
func scheduleHop(v *View) Hop {
	if v.Pod == nil {
		return skippedHop("no pod uses it")
	}
	if v.Pod.Spec.NodeName != "" {
		return okHop("on " + v.Pod.Spec.NodeName)
	}
	o := ref(v.Pod)
	c := podCondition(v.Pod, corev1.PodScheduled)
	since := v.Pod.CreationTimestamp.Time
	if len(v.Pod.Spec.SchedulingGates) > 0 {
		return Hop{Status: StatusWaiting, Since: moment(since), Object: &o, Note: "held by a scheduling gate", reached: true}
	}
	if v.Pod.DeletionTimestamp != nil {
		return skippedHop("the pod is being deleted and never ran")
	}
	if made := v.madeAt(); made.After(since) {
		since = made // the scheduler waited for it until then
	}
	volumeFirst := v.reached(HopClaim, HopProvision, HopBind)
	failed := c != nil && c.Status == corev1.ConditionFalse
	switch {
	case failed && volumeFirst && (schedulerEcho.MatchString(c.Message) || bindingFailed.MatchString(c.Message)), volumeFirst && v.selectedNode() != "", v.claimGoes():
		return laterHop("waits for the volume")
	case !v.passed(HopClaim):
		return laterHop("")
	case failed && v.others && schedulerEcho.MatchString(c.Message) && v.othersOpen() != No:
		return laterHop("waits for another volume of the pod")
	case !failed:
		return v.openHop(since, errorSettled, o, "not scheduled yet")
	}
	return v.openHop(since, errorSettled, o, "no node fits")
}

// madeAt is when the claim's volume was made: its object is there since, or the provisioner says so.
func (v *View) madeAt() time.Time {
	var made time.Time
	if v.PV != nil {
		made = v.PV.CreationTimestamp.Time
		v.ahead(func() {
			events, _ := v.claimEvents()
			for _, r := range events {
				if r.Reason == "ProvisioningSucceeded" && r.Last.After(made) {
					made = r.Last
				}
			}
		})
	}
	return made
}

// othersOpen: another claim of the pod is not bound, so the scheduler waits for that one.
func (v *View) othersOpen() Truth {
	open := No
	for i := range v.Pod.Spec.Volumes {
		name := claimOfVolume(v.Pod, &v.Pod.Spec.Volumes[i])
		if name == "" || name == v.ClaimName {
			continue
		}
		c, known := get[*corev1.PersistentVolumeClaim](v.world, inClaims, v.Pod.Namespace, name)
		open = open.or(truth(known == No || c != nil && (c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil))).or(min(known.told().not(), Unknown))
	}
	return open
}

// claimGoes: the claim is being deleted, and the scheduler waits for that; the teardown tells the rest.
func (v *View) claimGoes() bool {
	return v.Claim != nil && v.Claim.DeletionTimestamp != nil && strings.Contains(v.unschedulable(), fmt.Sprintf("persistentvolumeclaim %q is being deleted", v.ClaimName))
}

var scheduleCauses = []Cause{idleCause, {
	ID:    "schedule/gated",
	Title: "The pod is held by a scheduling gate",
	Doc: `The scheduler does not look at a pod with spec.schedulingGates until whoever set them takes them away (a queue, an operator).

To be sure: the pod's PodScheduled condition has the reason SchedulingGated.

Ask the gate's owner why it holds the pod. Removing the gate by hand runs the pod outside of its queue.`,
	Match: gated,
}, {
	ID:    "schedule/rwop-in-use",
	Title: "Another pod uses the ReadWriteOncePod claim",
	Doc: `A claim with access mode ReadWriteOncePod serves one pod at a time in the whole cluster. The second pod stays Pending until the
first has ended; a rolling update of a Deployment waits for itself this way.

To be sure: the claim's accessModes, and the other pod in the answer.

Do not force-delete the first pod: it may still write. Let it end, or use the Recreate strategy.`,
	Match: exclusiveInUse,
}, {
	ID:    "schedule/volumes-in-different-zones",
	Title: "Two volumes of the pod can only be reached from different nodes",
	Doc: `Each volume binds the pod to its zone or node. With an Immediate class every volume gets a place by itself, so two volumes of
one pod can end in two zones, and no node reaches both.

To be sure: compare spec.nodeAffinity of the two PersistentVolumes.

Copy one volume's data (snapshot and restore, or a copy job) to the other's zone. Use WaitForFirstConsumer, which chooses one
node for all. Do not edit a volume's nodeAffinity: the disk does not move.`,
	Match: differentZones,
}, {
	ID:    "schedule/volume-node-gone",
	Title: "The node that holds the volume does not exist any more",
	Doc: `A local volume lives on one node, and its nodeAffinity names it. The Node object is gone, so no node fits.

To be sure: spec.nodeAffinity of the volume names a node that ` + "`kubectl get nodes`" + ` does not list.

If the machine still exists, join it again under the same name: the data is on its disk. Deleting the claim gives the data up.`,
	Match: volumeNodeGone,
}, {
	ID:    "schedule/volume-limit",
	Title: "Every node that fits is at its limit of attached volumes",
	Doc: `Kubelet publishes in the CSINode how many volumes of a driver a node takes (the cloud's or the driver's limit). The scheduler
counts the pods' volumes and the VolumeAttachments there, left over ones too.

To be sure: the scheduler says "exceed max volume count"; compare CSINode allocatable.count with the VolumeAttachments.

Do not delete VolumeAttachments to make room: the disk stays attached, and another node may then write to it as well.`,
	Match: volumeLimit,
}, {
	ID:    "schedule/no-capacity",
	Title: "No node has enough free storage by what the driver publishes",
	Doc: `For a driver with storageCapacity the scheduler believes the CSIStorageCapacity objects alone: a node fits when one for its
topology and the class says that the size fits. No objects at all look just like no room.

To be sure: ` + "`kubectl get csistoragecapacities -A`" + ` for the class. None: csi-provisioner runs without --enable-capacity, or cannot
ask the driver.

Real room is seen on the node (vgs, zpool list, the array), not in these objects.`,
	Match: noCapacity,
}, {
	ID:    "schedule/node-affinity-conflict",
	Title: "The volume can only be reached from nodes where the pod cannot run",
	Doc: `The volume's nodeAffinity (its zone, its node) leaves only nodes that the pod may not use or that have no room for it; or the pod was
placed by hand on a node that does not reach the volume.

To be sure: compare spec.nodeAffinity of the volume with the nodes' labels, and read what the scheduler says of the nodes that
remain.

Do not edit the volume's nodeAffinity to get going: the disk does not move with it.`,
	Match: affinityConflict,
}, {
	ID:    "schedule/binding-timeout",
	Title: "The scheduler gave up waiting for the volume",
	Doc: `The scheduler chooses a node and then waits ten minutes for the claims to be bound. After that it starts again.

To be sure: the pod's event says "binding volumes" and "deadline exceeded". The reason why the volume was not ready is at the
claim: look there first.`,
	Match: bindingTimeout,
}, {
	ID:    "schedule/not-the-volume",
	Title: "The pod is not scheduled for a reason that is not this volume",
	Doc: `The scheduler finds no node for reasons of CPU, memory, taints, affinity, another claim of the pod, or it does not run at all.

To be sure: the pod's PodScheduled condition lists a reason for every node; none is about this volume.`,
	Match: notTheVolume,
}}

// idleCause is said where a claim was asked for, all is in order and no pod uses it.
var idleCause = Cause{
	ID:    "schedule/idle",
	Title: "The claim is bound and no pod uses it",
	Doc: `The volume is made and bound, and nothing is to be done until a pod uses it. That is normal.

A claim that nobody will ever use again still costs its storage.`,
	Match: func(v *View) (Finding, Truth) {
		if !v.at(HopSchedule) || v.Pod != nil || !v.bound() {
			return Finding{}, No
		}
		if pods, known := v.podsOfClaim(); len(pods) > 0 || known != Yes {
			return Finding{}, min(known.not(), Unknown)
		}
		return Finding{Status: StatusOK, Confidence: Certain, Why: fmt.Sprintf("Claim %s/%s is bound to volume %s, and no pod uses it.", v.Namespace, v.ClaimName, v.Claim.Spec.VolumeName),
			Evidence: []Evidence{fact(v.claimObject(), "status.phase", string(v.Claim.Status.Phase), time.Time{})}}, Yes
	},
}

func gated(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.Pod == nil || len(v.Pod.Spec.SchedulingGates) == 0 {
		return Finding{}, No
	}
	var gates []string
	for _, g := range v.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	list := strings.Join(gates, ", ")
	return Finding{Status: StatusWaiting, Confidence: Certain, Why: fmt.Sprintf("Pod %s/%s is not scheduled before its scheduling gates are taken away: %s.", v.Pod.Namespace, v.Pod.Name, list),
		Evidence: []Evidence{fact(ref(v.Pod), "spec.schedulingGates", list, v.Pod.CreationTimestamp.Time)},
		Fix: []Step{v.look("See who made the pod and its gates", "get", "pod", v.Pod.Name, "-n", v.Pod.Namespace, "-o", "yaml"),
			say("Ask the owner of the gates (a queue such as Kueue, an operator) why it holds the pod.")}}, Yes
}

// unfit is what the scheduler says where the chain stops at schedule, or kubelet where it stops on the node.
func (v *View) unfit() string {
	switch {
	case v.Pod == nil:
	case v.at(HopSchedule):
		text, _, _ := strings.Cut(v.unschedulable(), "preemption:")
		return text
	case v.at(HopStage, HopPublish):
		if t := v.mountTrouble(); t != nil {
			return t.Text
		}
	}
	return ""
}

// scheduling starts a finding with what the scheduler or kubelet said.
func (v *View) scheduling() Finding {
	f := v.asBlock(Finding{})
	if c := podCondition(v.Pod, corev1.PodScheduled); v.at(HopSchedule) && c != nil {
		f.Evidence = []Evidence{fact(ref(v.Pod), "status.conditions[PodScheduled]", c.Message, c.LastTransitionTime.Time)}
	} else if t := v.mountTrouble(); t != nil {
		f.Evidence = []Evidence{t.Evidence}
	}
	return f
}

// saidOnly is what the scheduler's words alone tell of a volume that, or whose class, may not be read.
func (v *View) saidOnly(words *regexp.Regexp) (Finding, Truth) {
	word := v.unfit()
	if !v.at(HopSchedule) || !words.MatchString(word) || !(v.bound() && v.pvKnown == Unknown || !v.bound() && v.Claim != nil && v.classUnread()) {
		return Finding{}, No
	}
	f := v.scheduling()
	f.Rest, f.Said, f.Confidence = true, true, Possible
	f.Why = fmt.Sprintf("The scheduler finds no node for pod %s/%s: %s. It may mean this volume, of which nothing more could be read.", v.Pod.Namespace, v.Pod.Name, strings.TrimSuffix(strings.TrimSpace(word), "."))
	f.Fix = []Step{v.look("See all that the scheduler says", "describe", "pod", v.Pod.Name, "-n", v.Pod.Namespace),
		say("Let somebody look who may read the volume, its class and the nodes.")}
	return f, Yes
}

func exclusiveInUse(v *View) (Finding, Truth) {
	if v.Claim == nil || !exclusiveWords.MatchString(v.unfit()) {
		return Finding{}, No
	}
	if !slices.Contains(v.Claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return Finding{}, No // another claim of the pod
	}
	f := v.scheduling()
	f.Confidence = Certain
	f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.accessModes", modes(v.Claim.Spec.AccessModes), time.Time{}))
	pods, _ := v.podsOfClaim()
	var users []string
	for _, p := range pods {
		if p.Name == v.Pod.Name || p.Spec.NodeName == "" {
			continue
		}
		state := string(p.Status.Phase)
		if p.DeletionTimestamp != nil {
			state = "terminating since " + p.DeletionTimestamp.UTC().Format(time.RFC3339)
		}
		users = append(users, fmt.Sprintf("%s (%s on %s)", p.Name, state, p.Spec.NodeName))
		f.Evidence = append(f.Evidence, fact(ref(p), "spec.nodeName", p.Spec.NodeName+", "+state, p.CreationTimestamp.Time))
		f.Fix = append(f.Fix, v.look("See what the pod that has the claim does and who made it", "get", "pod", p.Name, "-n", p.Namespace, "-o", "wide"))
	}
	f.Why = fmt.Sprintf("Claim %s may be used by one pod at a time (ReadWriteOncePod), and pod %s has it.", v.ClaimName, cmp.Or(strings.Join(users, ", "), "another one"))
	f.Fix = append(f.Fix, say("Wait until that pod ends, and give a Deployment the strategy Recreate, so that the new pod waits for the old one to go. Do not force-delete it, it may still write."),
		hazard(DangerDisruptive, "the new pod shall have the volume, and the old one may stop", "Or scale the old pod's owner down."))
	return f, Yes
}

// otherVolumes are the other bound volumes of the view's pod; Unknown when one could not be read.
func (v *View) otherVolumes() ([]*corev1.PersistentVolume, Truth) {
	var out []*corev1.PersistentVolume
	known := Yes
	for i := range v.Pod.Spec.Volumes {
		name := claimOfVolume(v.Pod, &v.Pod.Spec.Volumes[i])
		if name == "" || name == v.ClaimName {
			continue
		}
		c, has := get[*corev1.PersistentVolumeClaim](v.world, inClaims, v.Pod.Namespace, name)
		if has != Yes || c.Spec.VolumeName == "" {
			known = known.and(has.told())
			continue
		}
		pv, has := get[*corev1.PersistentVolume](v.world, inVolumes, "", c.Spec.VolumeName)
		if has == Yes {
			out = append(out, pv)
		}
		known = known.and(has.told())
	}
	return out, known
}

func differentZones(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.PV == nil || v.PV.Spec.NodeAffinity == nil || !affinityWords.MatchString(v.unfit()) {
		return Finding{}, No
	}
	others, known := v.otherVolumes()
	others = slices.DeleteFunc(others, func(pv *corev1.PersistentVolume) bool { return pv.Spec.NodeAffinity == nil })
	if len(others) == 0 {
		return Finding{}, min(known.not(), Unknown)
	}
	nodes, nodesKnown := v.nodes()
	if nodesKnown == Unknown {
		return Finding{}, Unknown
	}
	mine := reachedBy(v.PV, nodes)
	for _, other := range others {
		theirs := reachedBy(other, nodes)
		if len(mine) == 0 || len(theirs) == 0 || slices.ContainsFunc(mine, func(n string) bool { return slices.Contains(theirs, n) }) {
			continue
		}
		f := v.scheduling()
		f.Confidence = Certain
		a, b := v.PV, other
		if b.Name < a.Name { // the same answer from either volume
			a, b = b, a
		}
		f.Why = fmt.Sprintf("Pod %s/%s needs two volumes that no node reaches both: %s (%s; %s) and %s (%s; %s).", v.Pod.Namespace, v.Pod.Name, claimNameOf(a), a.Name, affinity(a), claimNameOf(b), b.Name, affinity(b))
		f.Evidence = append(f.Evidence, fact(ref(a), "spec.nodeAffinity", affinity(a), time.Time{}), fact(ref(b), "spec.nodeAffinity", affinity(b), time.Time{}))
		f.Fix = []Step{v.look("Compare where the two volumes can be reached", "get", "pv", a.Name, b.Name, "-o", "yaml"),
			say("Bring one volume's data to the other's place: snapshot and restore into a new claim there, or copy with a job in each zone. Keep the old volume until the copy is checked."),
			say("For new claims use a class with volumeBindingMode WaitForFirstConsumer: it chooses one node for all volumes of a pod.")}
		return f, Yes
	}
	return Finding{}, min(known.not(), Unknown)
}

func claimNameOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return "unclaimed"
	}
	return "claim " + pv.Spec.ClaimRef.Name
}

func volumeNodeGone(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.PV == nil || v.PV.Spec.NodeAffinity == nil || !affinityWords.MatchString(v.unfit()) {
		return Finding{}, No
	}
	nodes, known := v.nodes()
	if known == Unknown {
		return Finding{}, Unknown
	}
	gone := v.goneNodes(v.PV, nodes)
	if len(reachedBy(v.PV, nodes)) > 0 || len(gone) == 0 {
		return Finding{}, No
	}
	f := v.scheduling()
	f.Confidence = Certain
	f.Why = fmt.Sprintf("Volume %s can only be reached from node %s, and there is no such node any more.", v.PV.Name, strings.Join(gone, ", "))
	f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.nodeAffinity", affinity(v.PV), time.Time{}))
	for _, n := range gone {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "Node", Name: n}, "", "not found", time.Time{}))
	}
	f.Fix = []Step{v.look("See which nodes there are", "get", "nodes", "--show-labels"),
		say(fmt.Sprintf("If the machine of %s still exists, start it and let it join under the same name: the data is on its disk.", strings.Join(gone, ", "))),
		say("If it is lost, the data of this volume is lost with it, unless the driver keeps replicas or there is a backup: restore into a new claim. Keep this claim until that is done.")}
	return f, Yes
}

func affinityConflict(v *View) (Finding, Truth) {
	word := v.unfit()
	byNode := refusedByNode.MatchString(word)
	if f, said := v.saidOnly(affinityWords); said == Yes {
		return f, Yes
	}
	if v.PV == nil || !affinityWords.MatchString(word) && !byNode {
		return Finding{}, No
	}
	if v.PV.Spec.NodeAffinity == nil && zoneLabels(v.PV) == "" {
		return Finding{}, No // another volume of the pod
	}
	f := v.scheduling()
	f.Confidence, f.Rest, f.Said = Certain, !byNode, true // the volume's node may be gone, or another volume exclude it
	where := affinity(v.PV)
	f.Evidence = append(f.Evidence, fact(ref(v.PV), "spec.nodeAffinity", cmp.Or(where, zoneLabels(v.PV)), time.Time{}))
	nodes, known := v.nodes()
	reached := reachedBy(v.PV, nodes)
	switch {
	case byNode:
		f.Why = fmt.Sprintf("Pod %s/%s runs on node %s, from where volume %s cannot be reached (%s): kubelet refuses to mount it.", v.Pod.Namespace, v.Pod.Name, v.Node, v.PV.Name, where)
	case known == Unknown:
		f.Confidence = Likely
		f.Why = fmt.Sprintf("Volume %s can only be reached from some nodes (%s), and the pod fits on none of them.", v.PV.Name, where)
	case len(reached) == 0:
		f.Why = fmt.Sprintf("No node matches the nodeAffinity of volume %s (%s).", v.PV.Name, where)
		for _, n := range alike(v.PV, nodes) {
			f.Why += fmt.Sprintf(" Node %s is there, but its label %s is %q.", n.node, n.key, n.value)
			f.Evidence = append(f.Evidence, fact(Object{Kind: "Node", Name: n.node}, "metadata.labels["+n.key+"]", n.value, time.Time{}))
		}
	default:
		f.Why = fmt.Sprintf("Volume %s can only be reached from %s, and the scheduler cannot put pod %s/%s there: %s", v.PV.Name, strings.Join(reached[:min(5, len(reached))], ", "), v.Pod.Namespace, v.Pod.Name, strings.TrimSpace(word))
		for _, name := range reached[:min(3, len(reached))] {
			if n, known := v.node(name); known == Yes {
				f.Evidence = append(f.Evidence, fact(ref(n), "state", nodeState(n), time.Time{}))
			}
		}
	}
	f.Fix = []Step{v.look("See where the volume can be reached", "get", "pv", v.PV.Name, "-o", "yaml"), v.look("See the nodes and their labels", "get", "nodes", "--show-labels")}
	if len(reached) > 0 && !byNode {
		f.Fix = append(f.Fix, say("Make the pod fit there: room (requests), taints and tolerations, nodeSelector and affinity, a cordoned node. Or add a node in that place."))
	} else {
		f.Fix = append(f.Fix, say("Bring a node with these labels back (or restore the label, if the machine that has the data is still there under another label), or restore the data into a new claim where the pod can run. The volume's nodeAffinity says where the data is: changing it does not move the data."))
	}
	return f, Yes
}

func bindingTimeout(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || !timeoutWords.MatchString(v.unschedulable()) {
		return Finding{}, No
	}
	f := v.scheduling()
	f.Rest = true
	f.Why = fmt.Sprintf("The scheduler chose a node for pod %s/%s, waited ten minutes for its volumes to be bound, gave up and starts again.", v.Pod.Namespace, v.Pod.Name)
	if v.bound() {
		f.Why += " This claim is bound: another claim of the pod was not, or it came too late and the scheduler tries again by itself."
	}
	f.Fix = []Step{v.look("See the claims of the pod and what their events say", "describe", "pvc", "-n", v.Pod.Namespace),
		say("Find out why the claim was not bound in time; the pod is scheduled again by itself.")}
	return f, Yes
}

func notTheVolume(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || v.Pod == nil {
		return Finding{}, No
	}
	f := v.scheduling()
	word := v.unfit()
	f.Rest, f.Said = true, word != "" && !aboutVolumes(word)
	switch {
	case word == "":
		f.Confidence = Possible
		f.Why = fmt.Sprintf("No scheduler has looked at pod %s/%s yet (schedulerName %s).", v.Pod.Namespace, v.Pod.Name, cmp.Or(v.Pod.Spec.SchedulerName, corev1.DefaultSchedulerName))
		f.Evidence = []Evidence{fact(ref(v.Pod), "spec.schedulerName", cmp.Or(v.Pod.Spec.SchedulerName, corev1.DefaultSchedulerName), v.Pod.CreationTimestamp.Time)}
		f.Fix = []Step{say("See that a scheduler of this name runs and is the leader; its log names the pod.")}
		return f, Yes
	case aboutVolumes(word) && (v.pvKnown == Unknown || v.claimKnown == Unknown || !v.bound() && v.classUnread()):
		return Finding{}, Unknown
	case schedulerEcho.MatchString(word) && v.bound() && v.othersOpen() == No:
		f.Why = fmt.Sprintf("All claims of pod %s/%s are bound by now, and the scheduler has not looked at it again; it last said: %s", v.Pod.Namespace, v.Pod.Name, strings.TrimSpace(word))
		f.Fix = []Step{say("It tries again within five minutes. If it does not, see that the scheduler runs and is the leader; its log names the pod.")}
		return f, Yes
	case aboutVolumes(word) && claimsOf(v.Pod) < 2:
		return Finding{}, No // it is this volume
	case v.PV != nil && affinityWords.MatchString(word) && v.PV.Spec.NodeAffinity != nil:
		return Finding{}, No
	}
	f.Why = fmt.Sprintf("Pod %s/%s finds no node, and not because of this volume: %s", v.Pod.Namespace, v.Pod.Name, strings.TrimSpace(word))
	f.Fix = []Step{v.look("See all that the scheduler says", "describe", "pod", v.Pod.Name, "-n", v.Pod.Namespace)}
	if aboutVolumes(word) {
		f.Why = fmt.Sprintf("Pod %s/%s waits for another of its volumes: %s", v.Pod.Namespace, v.Pod.Name, strings.TrimSpace(word))
		f.Fix = append(f.Fix, Step{Text: "Ask about the pod: all its volumes are looked at", Command: v.command("csidoctor", "pod", v.Pod.Name, "-n", v.Pod.Namespace), Danger: DangerNone})
	} else {
		f.Fix = append(f.Fix, say("Make room or loosen the pod's requests, tolerations or affinity; the volume waits and loses nothing."))
	}
	return f, Yes
}

// aboutVolumes: the scheduler complains of some volume of the pod.
func aboutVolumes(word string) bool {
	return slices.ContainsFunc([]*regexp.Regexp{schedulerEcho, affinityWords, limitWords, capacityWords, exclusiveWords, noVolumeFits, driverAbsent}, func(r *regexp.Regexp) bool { return r.MatchString(word) })
}

// claimsOf counts the claims that a pod uses.
func claimsOf(p *corev1.Pod) int {
	n := 0
	for i := range p.Spec.Volumes {
		if claimOfVolume(p, &p.Spec.Volumes[i]) != "" {
			n++
		}
	}
	return n
}
