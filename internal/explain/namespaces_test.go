package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Mounts of the scene's volume on node-1, with what stands between its options and its type.
func stagedMount(propagation string) string {
	return fmt.Sprintf("43 42 8:16 / /var/lib/kubelet%s/globalmount rw,relatime %s- ext4 /dev/sdb rw\n", stagingFolder(sceneDriver, sceneHandle), propagation)
}

const (
	publishedAt = "/var/lib/kubelet/pods/app/volumes/kubernetes.io~csi/" + scenePV + "/mount"
	published   = "44 42 8:16 / " + publishedAt + " rw,relatime - ext4 /dev/sdb rw\n"
	rootMount   = "42 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
)

// TestOtherNamespaces: who else than the node has the volume mounted is at fault only where it keeps what the node let go of, and
// only the driver's plugin can have mounted something for itself alone.
func TestOtherNamespaces(t *testing.T) {
	const agent, plugin = "agent", "plugin-node-1"
	for _, c := range []struct {
		name, node, other, owner string
		running                  bool // a pod uses the volume; else the node keeps it for none
		verdict                  Verdict
		cause                    string
	}{
		{"a copy that was left", rootMount, stagedMount(""), agent, false, VerdictStuck, "unstage/mount-leaked"},
		{"a copy beside the node's own", rootMount + stagedMount("shared:7 "), stagedMount(""), agent, false, VerdictStuck, "unstage/mount-leaked"},
		{"one that goes with the node's", rootMount + stagedMount("shared:7 "), stagedMount("master:7 "), plugin, false, VerdictStuck, "unstage/driver-error"},
		{"one that is the node's too", rootMount + stagedMount("shared:7 "), stagedMount("shared:7 "), plugin, false, VerdictStuck, "unstage/driver-error"},
		{"the node's own was not read", "", stagedMount(""), agent, false, VerdictStuck, "unstage/driver-error"},
		{"published in the plugin alone", rootMount + stagedMount("shared:7 "), published, plugin, true, VerdictDegraded, "publish/mount-not-propagated"},
		{"unmounted, and another pod has a copy", rootMount + stagedMount("shared:7 "), published, agent, true, VerdictDegraded, "publish/wrong-mount"},
		{"published", rootMount + stagedMount("shared:7 ") + published, published, plugin, true, VerdictHealthy, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.attached("node-1", stays)
			s.node("node-1", true, sceneHandle)
			if c.running {
				s.pod("app", "node-1", time.Hour, running)
			}
			s.report("node-1", func(r *nodereport.NodeReport) {
				r.Mountinfo = c.node
				r.Namespaces = []nodereport.Namespace{{Inode: 4026532601, Mountinfo: c.other, Processes: []nodereport.Process{{PID: 4711, Comm: "x", PodUID: c.owner}}}}
				v := nodereport.Volume{Driver: sceneDriver, Handle: sceneHandle, PV: scenePV, Staging: &nodereport.Staging{Path: "/var/lib/kubelet" + stagingFolder(sceneDriver, sceneHandle) + "/globalmount", Exists: true, Stat: "ok"}}
				if c.running {
					v.Publishes = []nodereport.Publish{{PodUID: "app", Path: publishedAt, Exists: true, Type: "dir", Stat: "ok"}}
				} else {
					r.KubeletLog = []nodereport.LogLine{{At: noon, Message: "UnmountDevice failed for volume " + scenePV + ": rpc error: code = Internal desc = device is in use"}}
				}
				r.Volumes = []nodereport.Volume{v}
			})
			if !c.running {
				s.want("PersistentVolumeClaim", "data", c.verdict, c.cause)
				return
			}
			cause, d := "", s.ask("PersistentVolumeClaim", "data") // without the report it is healthy: nothing points to the node
			if d.Cause != nil {
				cause = d.Cause.ID
			}
			if d.Verdict != c.verdict || cause != c.cause || cause != "" && d.Cause.Confidence != Certain {
				t.Errorf("%s, want %s %s", d.Summary, c.verdict, c.cause)
			}
		})
	}
}

// Mount tables that a report lacks are a gap of the answer, and nothing is concluded from what is not in them.
func TestUntold(t *testing.T) {
	s := newScene(t)
	s.attached("node-1", stays)
	s.node("node-1", true, sceneHandle)
	s.pod("app", "node-1", time.Hour, running)
	s.report("node-1", func(r *nodereport.NodeReport) {
		r.Mountinfo = rootMount
		r.Gaps = []nodereport.Gap{{What: "mountinfo of other namespaces", Reason: nodereport.LeftOut}, {What: "/dev/sdc", Reason: "EPERM"}}
		r.Volumes = []nodereport.Volume{{Driver: sceneDriver, Handle: sceneHandle, PV: scenePV, Publishes: []nodereport.Publish{{PodUID: "app", Path: publishedAt, Exists: true, Type: "dir", Stat: "ok"}}}}
	})
	d := s.ask("PersistentVolumeClaim", "data")
	if d.Verdict != VerdictHealthy || len(d.Gaps) != 1 || d.Gaps[0].Reason != "truncated" || d.Gaps[0].Object.Name != "node-1" || !strings.Contains(d.Gaps[0].Remedy, "csidoctor-probe") {
		t.Errorf("%s %+v", d.Verdict, d.Gaps)
	}
}
