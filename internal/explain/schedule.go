package explain

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// What the scheduler says when it only waits for the claim: the cause lies at the claim, provision or bind.
var schedulerEcho = regexp.MustCompile(`unbound immediate PersistentVolumeClaims|persistentvolumeclaim "[^"]*" (not found|is being deleted|bound to non-existent)|waiting for ephemeral volume controller|failed to find storage class|no class for claim`)

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
	volumeFirst := !v.passed(HopClaim, HopProvision, HopBind)
	failed := c != nil && c.Status == corev1.ConditionFalse
	if failed && volumeFirst && schedulerEcho.MatchString(c.Message) || volumeFirst && v.selectedNode() != "" {
		return laterHop("waits for the volume")
	}
	if !v.passed(HopClaim) {
		return laterHop("")
	}
	if !failed {
		return v.openHop(since, errorSettled, o, "not scheduled yet")
	}
	return v.openHop(since, errorSettled, o, "no node fits")
}

var scheduleCauses = []Cause{}
