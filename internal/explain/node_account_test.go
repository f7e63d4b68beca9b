package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// limited gives a node room for n volumes.
func (s *scene) limited(node string, n int32) {
	s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: sceneDriver, NodeID: "i-" + node, Allocatable: &storagev1.VolumeNodeResources{Count: &n}}}}})
}

// reported puts the report of a node with these volumes staged.
func (s *scene) reported(node string, volumes ...nodereport.Volume) {
	r := nodereport.NodeReport{CollectedAt: noon}
	r.Metadata.Name = node
	table := []string{"21 1 259:1 / / rw - ext4 /dev/vda rw"}
	for i := range volumes {
		v := &volumes[i]
		v.Driver = sceneDriver
		v.Staging = &nodereport.Staging{Path: "/var/lib/kubelet" + stagingFolder(sceneDriver, v.Handle) + "/globalmount", Exists: true, Stat: "ok"}
		table = append(table, "30 21 259:2 / "+v.Staging.Path+" rw - ext4 /dev/vdb rw")
	}
	r.Mountinfo, r.Volumes = strings.Join(table, "\n")+"\n", volumes
	r.Drivers = []nodereport.Driver{{Name: sceneDriver, Socket: &nodereport.Socket{State: nodereport.SocketOK}, Node: &nodereport.DriverNode{ID: "i-" + node, MaxVolumes: 25}}}
	s.put(nodereport.APIVersion, nodereport.Kind, &snapshot.NodeReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Report: r})
}

// TestNodeAccount: who says which volumes a node has, and what differs.
func TestNodeAccount(t *testing.T) {
	at := func(s *scene, listed, inUse bool) {
		s.pod("web", "node-1", time.Hour, running)
		s.attached("node-1", stays)
		s.nodeWith("node-1", func(n *corev1.Node) {
			name := corev1.UniqueVolumeName(uniqueName(sceneDriver, sceneHandle))
			if listed {
				n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}}
			}
			if inUse {
				n.Status.VolumesInUse = []corev1.UniqueVolumeName{name}
			}
		})
	}
	for _, c := range []struct {
		name    string
		set     func(*scene)
		verdict Verdict
		cause   string
		notes   []string // words of each
	}{
		{"all agree", func(s *scene) { at(s, true, true); s.limited("node-1", 25) }, VerdictHealthy, "", nil},
		{"all agree, and the report", func(s *scene) {
			at(s, true, true)
			s.limited("node-1", 25)
			s.reported("node-1", nodereport.Volume{Handle: sceneHandle, PV: scenePV})
		}, VerdictHealthy, "", nil},
		{"not told", func(s *scene) { at(s, false, true) }, VerdictHealthy, "", []string{"volumesAttached does not list 1 volume (pvc-5cbe)"}},
		{"mounted, and not in use", func(s *scene) {
			at(s, true, false)
			s.reported("node-1", nodereport.Volume{Handle: sceneHandle, PV: scenePV})
		}, VerdictHealthy, "", []string{"does not list 1 volume (pvc-5cbe) in use"}},
		{"in use without an attachment", func(s *scene) {
			at(s, true, true)
			s.drop("VolumeAttachment", attachmentName(sceneHandle, sceneDriver, "node-1"))
		}, VerdictHealthy, "", []string{"the kubelet has 1 volume (" + sceneHandle, "volumesAttached lists 1 volume"}},
		{"mounted without anybody's knowledge", func(s *scene) {
			at(s, true, true)
			s.limited("node-1", 4)
			s.reported("node-1", nodereport.Volume{Handle: sceneHandle, PV: scenePV}, nodereport.Volume{Handle: "vol-lost", PV: "pvc-lost"})
		}, VerdictHealthy, "", []string{"1 volume (vol-lost (disk.example.com)) mounted without", "folders of 1 volume (pvc-lost)", "takes 25 volumes, and the CSINode has 4"}},
		{"no pod, and in use", func(s *scene) { at(s, true, true); s.drop("Pod", "web") }, VerdictStuck, "unstage/never-confirmed", nil},
		{"in use here, and wanted elsewhere", func(s *scene) {
			at(s, true, true)
			s.drop("Pod", "web")
			s.pod("web", "node-2", time.Hour, waits)
		}, VerdictStuck, "unstage/never-confirmed", nil},
		{"in use here, and used elsewhere", func(s *scene) {
			at(s, true, true)
			s.drop("Pod", "web")
			s.pod("web", "node-2", time.Hour, running)
		}, VerdictHealthy, "", []string{"no pod here needs volume pvc-5cbe, and the kubelet has it in use; used elsewhere by: shop/web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.set(s)
			s.want("Node", "node-1", c.verdict, c.cause)
			d := s.ask("Node", "node-1")
			if len(d.Notes) != len(c.notes) || !slices.EqualFunc(d.Notes, c.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", d.Notes, c.notes)
			}
		})
	}
	s := newScene(t)
	at(s, true, true)
	s.limited("node-1", 1)
	if note := s.ask("Node", "node-1").Chains[0].Hops[0].Note; !strings.Contains(note, "1 of 1 volumes attached: no more fits") {
		t.Error(note)
	}
}
