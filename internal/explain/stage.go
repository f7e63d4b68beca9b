package explain

import (
	"regexp"
	"strings"
)

// Kubelet's prefixes of what fails before or in NodeStageVolume, and before or in NodePublishVolume
// (pkg/volume/util/operationexecutor/operation_generator.go).
var (
	stageWords   = regexp.MustCompile(`MountVolume\.MountDevice failed|MapVolume\.SetUpDevice failed|MountVolume\.WaitForAttach failed|MapVolume\.WaitForAttach failed`)
	publishWords = regexp.MustCompile(`MountVolume\.SetUp failed|MapVolume\.MapPodDevice failed|MapVolume\.(MapBlockVolume|EvalHostSymlinks) failed|MountVolume\.NewMounter initialization failed|MapVolume failed`)
)

// mountTrouble is the kubelet's error in force for the view's volume.
func (v *View) mountTrouble() *trouble {
	if v.Pod == nil || mounted(v.Pod) {
		return nil
	}
	events, _ := v.podEvents()
	return troubleIn(events, func(r report) bool {
		return (r.Reason == "FailedMount" || r.Reason == "FailedMapVolume") && (v.names(r.Message) || v.waitsFor(r.Message))
	}, func(r report) bool { return r.Reason == "SuccessfulMountVolume" && v.names(r.Message) })
}

var unmounted = regexp.MustCompile(`(?:failed to process volumes|unmounted volumes)=\[([^\]]*)\]`)

// waitsFor: kubelet's summary lists the pod's volume among those that it could not mount, and says more than that it waited.
func (v *View) waitsFor(message string) bool {
	if v.Volume == nil || strings.Contains(message, "timed out waiting for the condition") || strings.Contains(message, "context deadline exceeded") {
		return false
	}
	for _, m := range unmounted.FindAllStringSubmatch(message, -1) {
		for name := range strings.FieldsSeq(m[1]) {
			if strings.Trim(name, ",") == v.Volume.Name {
				return true
			}
		}
	}
	return false
}

// stageHop: NodeStageVolume mounted the device or share on the node.
func stageHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case mounted(v.Pod):
		return okHop("")
	case !v.passed(HopClaim, HopProvision, HopBind, HopSchedule, HopRegister, HopAttach):
		return laterHop("")
	case v.Inline != nil:
		return skippedHop("inline volumes are published only")
	}
	t := v.mountTrouble()
	if t == nil {
		return v.openHop(v.scheduledAt(), normalMount, ref(v.Pod), "mounting")
	}
	if publishWords.MatchString(t.Text) {
		return okHop("")
	}
	return v.troubledHop(t, v.settled(t), "kubelet cannot stage it")
}

var stageCauses = []Cause{}
