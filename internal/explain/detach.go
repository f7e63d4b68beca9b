package explain

func detachHop(v *View) Hop { return skippedHop("") }

var detachCauses = []Cause{}
