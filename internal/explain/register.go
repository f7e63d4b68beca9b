package explain

import (
	"regexp"
	"time"
)

// The words of kubelet and gRPC when a registered driver's socket does not answer, and when the driver is not registered.
var (
	socketDead    = regexp.MustCompile(`(?i)code = Unavailable desc = connection error|dial unix \S+: connect: (connection refused|no such file)`)
	notRegistered = regexp.MustCompile(`not found in the list of registered CSI drivers|CSINode \S+ does not contain driver`)
)

// registerHop: kubelet knows the driver on the pod's node, and its socket answers.
func registerHop(v *View) Hop {
	switch {
	case v.Driver == "":
		return skippedHop("no CSI driver")
	case v.Node == "":
		return laterHop("")
	case v.Pod != nil && mounted(v.Pod):
		return okHop("")
	}
	o := Object{Kind: "CSINode", Name: v.Node}
	_, known := v.registered(v.Node)
	t := v.mountTrouble()
	switch {
	case known == Yes && t != nil && socketDead.MatchString(t.Text):
		return v.troubledHop(t, v.settled(t), "registered, and its socket does not answer")
	case known == Yes:
		return okHop("")
	case known == Unknown && t != nil && notRegistered.MatchString(t.Text):
		return v.troubledHop(t, v.settled(t), "kubelet does not know the driver")
	case known == Unknown && t != nil:
		return okHop("kubelet reached the driver")
	case known == Unknown:
		return unknownHop(&o, "which drivers the node has could not be read")
	}
	var since time.Time
	if v.Pod != nil {
		since = v.Pod.CreationTimestamp.Time
	}
	if n, known := v.node(v.Node); known == Yes {
		since = n.CreationTimestamp.Time // a young node still starts its drivers
	}
	return v.openHop(since, normalRegister, o, "the node has no driver "+v.Driver)
}

var registerCauses = []Cause{}
