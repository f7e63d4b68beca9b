package explain

func unstageHop(v *View) Hop { return skippedHop("") }

var unstageCauses = []Cause{}
