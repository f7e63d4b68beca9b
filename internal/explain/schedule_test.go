package explain

import (
	"regexp"
	"testing"
)

// The scheduler's and the kubelet's words of Kubernetes 1.28 to 1.37.
func TestSchedulerWords(t *testing.T) {
	all := []*regexp.Regexp{schedulerEcho, affinityWords, capacityWords, limitWords, exclusiveWords, timeoutWords, noVolumeFits, driverAbsent, refusedByNode}
	for _, c := range []struct {
		text string
		want *regexp.Regexp
	}{
		{`0/3 nodes are available: 3 node(s) had volume node affinity conflict.`, affinityWords},
		{`0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.`, affinityWords},
		{`0/3 nodes are available: 3 node(s) had no available volume zone.`, affinityWords},
		{`0/3 nodes are available: 3 node(s) did not have enough free storage.`, capacityWords},
		{`0/3 nodes are available: 3 node(s) exceed max volume count.`, limitWords},
		{`0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.`, exclusiveWords},
		{`MountVolume.SetUp failed for volume "v" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`, exclusiveWords},
		{`0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.`, schedulerEcho},
		{`0/3 nodes are available: persistentvolumeclaim "c" not found.`, schedulerEcho},
		{`0/3 nodes are available: persistentvolumeclaim "c" bound to non-existent persistentvolume "v".`, schedulerEcho},
		{`0/3 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v".`, schedulerEcho},
		{`0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).`, schedulerEcho},
		{`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`, timeoutWords},
		{`running PreBind plugin "VolumeBinding": binding volumes: timed out waiting for the condition`, timeoutWords},
		{`0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.`, noVolumeFits},
		{`0/3 nodes are available: 3 d.example.com CSI driver is not installed on the node.`, driverAbsent},
		{`MountVolume.NodeAffinity check failed for volume "v" : no matching NodeSelectorTerms`, refusedByNode},
		{`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}.`, nil},
		{`0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.`, nil},
	} {
		for _, r := range all {
			if r.MatchString(c.text) != (r == c.want) {
				t.Errorf("%s: %s matches: %v", c.text, r, r.MatchString(c.text))
			}
		}
	}
}
