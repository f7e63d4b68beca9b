package explain

// startHop: the containers run with the volume.
func startHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case finished(v.Pod) || ready(v.Pod):
		return okHop(string(v.Pod.Status.Phase))
	case !mounted(v.Pod):
		return laterHop("")
	}
	since := v.Pod.CreationTimestamp.Time
	if c := podCondition(v.Pod, "Ready"); c != nil && !c.LastTransitionTime.IsZero() {
		since = c.LastTransitionTime.Time
	}
	return v.openHop(since, normalMount, ref(v.Pod), "mounted, and the pod is not ready")
}

var startCauses = []Cause{}
