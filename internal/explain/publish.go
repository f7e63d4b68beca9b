package explain

// publishHop: NodePublishVolume mounted the volume into the pod's folder.
func publishHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case mounted(v.Pod):
		return okHop("")
	case !v.passed(HopClaim, HopProvision, HopBind, HopSchedule, HopRegister, HopAttach, HopStage):
		return laterHop("")
	}
	t := v.mountTrouble()
	if t == nil {
		return v.openHop(v.scheduledAt(), normalMount, ref(v.Pod), "mounting")
	}
	return v.troubledHop(t, v.settled(t), "kubelet cannot mount it into the pod")
}

var publishCauses = []Cause{}
