package explain

import (
	"fmt"
	"regexp"

	storagev1 "k8s.io/api/storage/v1"
)

// provisionHop: CreateVolume made a PV. It is skipped for hand-made volumes.
func provisionHop(v *View) Hop {
	if v.Inline != nil {
		return skippedHop("inline volume")
	}
	if !v.passed(HopClaim) || v.Claim == nil {
		return laterHop("")
	}
	if v.bound() || v.Claim.Spec.VolumeName != "" {
		if v.PV != nil && v.PV.Annotations[annProvisionedBy] != "" {
			return okHop("made by " + v.PV.Annotations[annProvisionedBy])
		}
		return skippedHop("")
	}
	name, _ := className(v.Claim)
	if name == "" {
		return skippedHop("no class: only a hand-made volume fits")
	}
	class, known := v.class()
	if known != Yes {
		return unknownHop(&Object{Kind: "StorageClass", Name: name}, "the class could not be read")
	}
	if class.Provisioner == noProvisioner {
		return skippedHop("the class makes no volumes: a hand-made one must fit")
	}
	o := v.claimObject()
	created := v.Claim.CreationTimestamp.Time
	if *bindingMode(class) == storagev1.VolumeBindingWaitForFirstConsumer && v.selectedNode() == "" {
		h := Hop{Status: StatusWaiting, Since: moment(created), Object: &o, Note: "waits for a pod that uses the claim", reached: v.Pod == nil}
		if v.Pod != nil {
			h.Note = "waits for the scheduler to choose a node"
			if v.Pod.Spec.NodeName != "" {
				h.Status, h.reached = StatusStuck, true
			}
		}
		return h
	}
	events, eventsKnown := v.claimEvents()
	if t := provisionTrouble(events); t != nil {
		status := v.settled(t)
		if onlySlow(t) {
			status = StatusWaiting
			if v.age(t.Since) >= normalProvisionSlow {
				status = StatusStuck
			}
		}
		return v.troubledHop(t, status, "CreateVolume fails")
	}
	since := created
	for _, r := range events {
		if r.Reason == "Provisioning" || r.Reason == "ExternalProvisioning" {
			since = r.First
			break
		}
	}
	if eventsKnown == Yes && !provisionerSpoke(events) {
		return v.openHop(since, normalUntouched, o, "no provisioner has taken it up")
	}
	return v.openHop(since, normalProvision, o, "the volume is being made")
}

// provisionTrouble is the error in force of making the volume.
func provisionTrouble(events []report) *trouble {
	return troubleIn(events, func(r report) bool { return r.Reason == "ProvisioningFailed" }, func(r report) bool { return r.Reason == "ProvisioningSucceeded" })
}

// provisionerSpoke: an event of the driver's own provisioner is there, so it took the claim up.
func provisionerSpoke(events []report) bool {
	for _, r := range events {
		if r.Reason == "Provisioning" || r.Reason == "ProvisioningFailed" && r.Source != "persistentvolume-controller" {
			return true
		}
	}
	return false
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

func bindingMode(c *storagev1.StorageClass) *storagev1.VolumeBindingMode {
	if c.VolumeBindingMode != nil {
		return c.VolumeBindingMode
	}
	immediate := storagev1.VolumeBindingImmediate // the API server's default
	return &immediate
}

// provisionWords are drivers' and the provisioner's words when a volume cannot be made.
var provisionWords = []signature{
	sig("provision/quota", `quota.{0,40}exceeded|exceed.{0,40}(quota|limit)|volume limit|LimitExceeded`),
}

var provisionCauses = []Cause{{
	ID:    "provision/quota",
	Title: "The backend's quota or limit is used up",
	Doc: `The storage backend refuses CreateVolume since the account, project or tenant may have no more volumes or space.
The claim is retried by itself as soon as there is room.

To be sure: the driver's words name a quota or limit; compare with what the backend's own console shows.

Deleting volumes to make room loses their data: look for released and unattached ones first, and snapshot what you are not sure of.`,
	Match: said("provision/quota", provisionError, provisionWords, func(v *View, t *trouble) Finding {
		_, words := grpc(t.Text)
		return Finding{Why: fmt.Sprintf("The backend of %s refuses to make the volume, its limit is reached: %s", v.Driver, words),
			Fix: []Step{say("Raise the limit in the backend, or free volumes that nobody needs. The claim is tried again by itself, within 5 minutes."),
				v.look("Released volumes may hold room that nobody uses", "get", "pv")}}
	}),
}}

// provisionError is the error in force where the chain stops at provision.
func provisionError(v *View) (*trouble, Truth) {
	if !v.at(HopProvision) {
		return nil, Yes
	}
	events, known := v.claimEvents()
	return provisionTrouble(events), known
}
