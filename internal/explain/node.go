package explain

// node asks about a node.
func (a *answer) node(name string) {}
