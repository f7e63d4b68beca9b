package explain

// snapshotHop: the snapshot that the claim is restored from is ready.
func snapshotHop(v *View) Hop { return skippedHop("") }

var snapshotCauses = []Cause{}

// snapshot asks about a VolumeSnapshot.
func (a *answer) snapshot(namespace, name string) {}
