package explain

// volume asks about a PersistentVolume.
func (a *answer) volume(name string) {}
