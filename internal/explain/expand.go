package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// expandHop: an expansion or a change of the attributes class is open.
func expandHop(v *View) Hop {
	if v.Claim == nil || !v.bound() {
		return skippedHop("")
	}
	asked, has := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Claim.Status.Capacity[corev1.ResourceStorage]
	if asked.Cmp(has) <= 0 && len(v.Claim.Status.AllocatedResourceStatuses) == 0 && v.Claim.Status.ModifyVolumeStatus == nil {
		return skippedHop("")
	}
	o := v.claimObject()
	return v.openHop(v.expansionSince(), normalExpand, o, "asked for "+asked.String()+", has "+has.String())
}

// expansionSince is the earliest moment at which the open expansion shows: no field says when it was asked for.
func (v *View) expansionSince() time.Time {
	since := time.Time{}
	earliest := func(t time.Time) {
		if !t.IsZero() && (since.IsZero() || t.Before(since)) {
			since = t
		}
	}
	for _, c := range v.Claim.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			earliest(c.LastTransitionTime.Time)
		}
	}
	events, _ := v.claimEvents()
	for _, r := range events {
		switch r.Reason {
		case "ExternalExpanding", "Resizing", "VolumeResizeFailed", "VolumeModify", "VolumeModifyFailed":
			earliest(r.First)
		}
	}
	if since.IsZero() {
		return v.Claim.CreationTimestamp.Time
	}
	return since
}

var expandCauses = []Cause{}
