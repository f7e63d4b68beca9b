package explain

// unpublishHop: the terminating pod's volume is unmounted.
func unpublishHop(v *View) Hop {
	if v.Pod == nil || v.Pod.DeletionTimestamp == nil {
		return skippedHop("")
	}
	return v.openHop(v.Pod.DeletionTimestamp.Time, normalTeardown, ref(v.Pod), "the pod is terminating")
}

var unpublishCauses = []Cause{}
