package explain

// bindHop: PVC and PV point at each other.
func bindHop(v *View) Hop {
	if v.Inline != nil {
		return skippedHop("inline volume")
	}
	if v.Claim == nil {
		return laterHop("")
	}
	if v.bound() {
		return okHop("")
	}
	if !v.passed(HopClaim, HopProvision) {
		return laterHop("")
	}
	return v.openHop(v.Claim.CreationTimestamp.Time, normalBind, v.claimObject(), "no volume is bound")
}

var bindCauses = []Cause{}
