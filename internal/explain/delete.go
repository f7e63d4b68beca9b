package explain

// deleteHop: a claim or volume that was asked to go is gone.
func deleteHop(v *View) Hop {
	if v.Claim == nil || v.Claim.DeletionTimestamp == nil {
		return skippedHop("")
	}
	return v.openHop(v.Claim.DeletionTimestamp.Time, normalTeardown, v.claimObject(), "the claim is being deleted")
}

var deleteCauses = []Cause{}
