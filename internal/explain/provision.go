package explain

import (
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

var provisionCauses = []Cause{}
