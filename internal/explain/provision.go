package explain

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// provisionHop: CreateVolume made a PV. It is skipped for hand-made volumes.
func provisionHop(v *View) Hop {
	if v.Inline != nil {
		return skippedHop("inline volume")
	}
	if !v.passed(HopClaim) || v.Claim == nil {
		return laterHop("")
	}
	if v.goingClaim() && !v.bound() {
		return skippedHop("the claim is being deleted")
	}
	if v.bound() || v.Claim.Spec.VolumeName != "" {
		if v.PV != nil && v.PV.Annotations[annProvisionedBy] != "" {
			return okHop("made by " + v.PV.Annotations[annProvisionedBy])
		}
		return skippedHop("")
	}
	name := v.className()
	if name == "" {
		return skippedHop("no class: only a hand-made volume fits")
	}
	class, known := v.class()
	if known == No {
		return skippedHop("the class has no object: a hand-made volume must fit")
	}
	events, eventsKnown := v.claimEvents()
	waits := v.waitsForConsumer()
	if known == Unknown && waits == Unknown && !v.provisionerSpoke(events) && !v.saidNoProvisioner() {
		return unknownHop(&Object{Kind: "StorageClass", Name: name}, "the class could not be read")
	}
	if known == Yes && class.Provisioner == noProvisioner || known == Unknown && v.saidNoProvisioner() {
		return skippedHop("the class makes no volumes: a hand-made one must fit")
	}
	o := v.claimObject()
	created := v.Claim.CreationTimestamp.Time
	if waits == Yes && v.selectedNode() == "" {
		switch {
		case v.Pod == nil:
			return Hop{Status: StatusWaiting, Since: moment(created), Object: &o, Note: "waits for a pod that uses the claim", reached: true}
		case v.Pod.Spec.NodeName != "":
			return Hop{Status: StatusStuck, Since: moment(created), Object: &o, Note: "nobody chooses a node for a pod that was placed by hand", reached: true}
		}
		// After a refusal the provisioner takes the chosen node back, so that the scheduler can try another one.
		if v.schedulerWasRefused() {
			if t := v.provisionTrouble(events); t != nil {
				return v.troubledHop(t, v.settled(t), "CreateVolume fails")
			}
			if eventsKnown == Unknown {
				return unknownHop(&o, "why the volume was not made could not be read")
			}
		}
		return Hop{Status: StatusWaiting, Since: moment(created), Object: &o, Note: "waits for the scheduler to choose a node"}
	}
	if _, _, made := v.made(); made != No {
		return okHop("made")
	}
	if t := v.provisionTrouble(events); t != nil {
		status := v.settled(t)
		if onlySlow(t) {
			status = StatusWaiting
			if v.age(t.Since) >= normalProvisionSlow {
				status = StatusStuck
			}
		}
		note := "CreateVolume fails"
		if t.Source == pvController {
			note = "kube-controller-manager cannot hand it to its provisioner"
		}
		h := v.troubledHop(t, status, note)
		if onlySlow(t) && status == StatusWaiting {
			h.Until = moment(t.Since.Add(normalProvisionSlow))
		}
		return h
	}
	since := v.provisionSince(events)
	if v.Pod == nil && v.selectedNode() != "" && since.Equal(created) {
		if _, known := v.podsOfClaim(); known == Unknown {
			return unknownHop(&o, "when a pod came to use it could not be read")
		}
	}
	switch {
	case eventsKnown == Unknown && v.age(since) < normalProvision:
		return unknownHop(&o, "whether the volume is being made could not be read")
	case eventsKnown == Yes && !v.provisionerSpoke(events):
		return v.openHop(since, normalUntouched, o, "no provisioner has taken it up")
	}
	return v.openHop(since, normalProvision, o, "the volume is being made")
}

// provisionSince is when the claim was handed to its provisioner, or when a cured error was seen last.
func (v *View) provisionSince(events []report) time.Time {
	since := v.Claim.CreationTimestamp.Time
	if v.selectedNode() != "" { // it was handed over when the scheduler chose the node, for a pod that came later than the claim
		if v.Pod != nil && v.Pod.CreationTimestamp.After(since) {
			since = v.Pod.CreationTimestamp.Time
		}
		for _, m := range v.Claim.ManagedFields {
			if m.Time != nil && strings.Contains(m.Manager, "scheduler") && m.Time.After(since) {
				since = m.Time.Time
			}
		}
	}
	for _, r := range events {
		if r.Reason == "Provisioning" || r.Reason == "ExternalProvisioning" {
			since = r.First
			break
		}
	}
	if t := provisionFailures(events); t != nil && t.At.After(since) {
		since = t.At
	}
	return since
}

const pvController = "persistentvolume-controller" // the source of kube-controller-manager's events on claims

// provisionFailures are the errors since the last success. The PV controller's own are over once it has handed the claim over.
func provisionFailures(events []report) *trouble {
	handed := -1
	for i, r := range events {
		if pastClass(r) {
			handed = i
		}
	}
	own := func(r report) bool { return r.Source == pvController && r.Reason == "ProvisioningFailed" }
	events = slices.Concat(slices.DeleteFunc(slices.Clone(events[:handed+1]), own), events[handed+1:])
	return troubleIn(events, func(r report) bool { return r.Reason == "ProvisioningFailed" }, func(r report) bool { return r.Reason == "ProvisioningSucceeded" })
}

var bindingFailed = regexp.MustCompile(`binding volumes: (provisioning failed|context deadline exceeded)|selectedNode annotation reset`)

// schedulerWasRefused: the last thing the scheduler says of the pod is that the volume could not be made on the chosen node.
func (v *View) schedulerWasRefused() bool {
	c := podCondition(v.Pod, corev1.PodScheduled)
	return c != nil && bindingFailed.MatchString(c.Message)
}

// provisionTrouble is the error in force of making the volume.
func (v *View) provisionTrouble(events []report) *trouble {
	t := provisionFailures(events)
	if t == nil {
		return nil
	}
	code, _ := grpc(t.Text)
	for _, r := range events {
		if r.Reason == "Provisioning" && r.Last.After(t.At) && code == "ResourceExhausted" && t.Count < errorSettledCount {
			return nil // refused once, and the scheduler chose another node
		}
	}
	if code == "ResourceExhausted" && t.Count < errorSettledCount && v.selectedNode() == "" && v.waitsForConsumer() == Yes || v.provisionCured(t) {
		return nil
	}
	return t
}

// provisionCured: what the error complains of has been put right after it was seen. The provisioner tries again within
// five minutes.
func (v *View) provisionCured(t *trouble) bool {
	if class, known := v.class(); known == Yes && (class.CreationTimestamp.After(t.At) || noSuchClass(t.Text, class.Name)) {
		return true
	}
	switch v.told(provisionWords, t.Text) {
	case "provision/selected-node-gone":
		_, node := v.node(v.selectedNode())
		_, csi := v.csiNode(v.selectedNode())
		return node == Yes && csi == Yes
	case "provision/no-topology":
		d, known := v.registered(v.selectedNode())
		n, nodeKnown := v.node(v.selectedNode())
		return known == Yes && nodeKnown == Yes && len(d.TopologyKeys) > 0 && !slices.ContainsFunc(d.TopologyKeys, func(key string) bool { _, has := n.Labels[key]; return !has }) &&
			strings.Contains(t.Text, "no topology key found")
	case "provision/source-not-ready":
		s, known := v.sourceSnapshot()
		return known == Yes && s.ready() && notReady.MatchString(t.Text)
	}
	return false
}

var notReady = regexp.MustCompile(`(?i)not ready|not bound`)

// provisionerSpoke: an event of the driver's own provisioner is there, so it took the claim up.
func (v *View) provisionerSpoke(events []report) bool { return !v.lastSpoke(events).IsZero() }

// lastSpoke is when the provisioner last said something on the claim.
func (v *View) lastSpoke(events []report) time.Time {
	var last time.Time
	for _, r := range events {
		if (r.Reason == "Provisioning" || r.Reason == "ProvisioningFailed" && r.Source != pvController || strings.HasPrefix(r.Source, v.Driver+"_")) && r.Last.After(last) {
			last = r.Last
		}
	}
	return last
}

var slow = regexp.MustCompile(`code = (DeadlineExceeded|Aborted)\b`)

// onlySlow: nothing but DeadlineExceeded and Aborted, as while a file server is being made.
func onlySlow(t *trouble) bool {
	for _, r := range t.Earlier {
		if !slow.MatchString(r.Message) {
			return false
		}
	}
	return true
}

// unprovisioned: the claim's volume is still to be made, by a provisioner, and this is where the chain stops or what the
// scheduler waits for.
func (v *View) unprovisioned() bool {
	return v.at(HopProvision, HopSchedule) && v.Claim != nil && !v.bound() && v.Claim.Spec.VolumeName == "" && v.className() != ""
}

// provisionError is the error in force where the chain stops at provision, or where the scheduler tries node after node
// because of it. When only a second call's "already running" was said last, the first call's own reason counts.
func provisionError(v *View) (*trouble, Truth) {
	if !v.unprovisioned() {
		return nil, Yes
	}
	events, known := v.claimEvents()
	if v.classNotFound(v.className()) != nil {
		return nil, known // nobody was asked to make it
	}
	t := v.orLogged(v.provisionTrouble(events), HopProvision, provisionerSidecar)
	if t == nil || v.at(HopSchedule) && v.taken.Sub(t.At) > normalProvisionSlow {
		return nil, known
	}
	if v.told(provisionWords, t.Text) == "provision/operation-pending" {
		for _, r := range slices.Backward(t.Earlier) {
			if v.told(provisionWords, r.Message) != "provision/operation-pending" {
				t.Text, t.Source, t.Evidence = r.Message, r.Source, r.evidence()
				break
			}
		}
	}
	return t, known
}
