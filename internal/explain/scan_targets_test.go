package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// listed are the items of a scan, in short.
func listed(l List) []string {
	var out []string
	for _, d := range l.Items {
		out = append(out, fmt.Sprintf("%s %s: %s %s", d.Target.Word(), d.Target.Name, d.Verdict, d.fault()))
	}
	return out
}

// TestScanFinds: beside the claims there are objects that no claim's answer speaks of.
func TestScanFinds(t *testing.T) {
	gone := "pvc-gone"
	for _, c := range []struct {
		name string
		set  func(*scene)
		want []string
	}{
		{"nothing", func(s *scene) { s.pod("web", "node-1", time.Hour, running); s.attached("node-1", stays) }, nil},
		{"a claim that waits", func(s *scene) { s.pod("web", "node-1", time.Hour, waits); s.attached("node-1", untaken(time.Hour)) },
			[]string{"pvc data: stuck attach/attacher-not-running"}},
		{"a pod whose claim does not exist", func(s *scene) {
			s.pod("web", "", time.Hour, func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "datum" })
		}, []string{"pod web: stuck claim/pvc-missing"}},
		{"a claim that was refused", func(s *scene) {
			s.event("StatefulSet", "db", "FailedCreate", `create Claim data-db-0 Pod db-0 in StatefulSet db failed error: persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: storage, requested: requests.storage=10Gi, used: requests.storage=95Gi, limited: requests.storage=100Gi`, 10*time.Minute)
		}, []string{"pvc data-db-0: stuck claim/quota-exceeded"}},
		{"a volume that was left by its claim", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.Status.Phase, pv.Status.Message = corev1.VolumeFailed, "rpc error: code = Internal desc = array says no"
			})
		}, []string{"pv pvc-5cbe: stuck delete/backend-error"}},
		{"a volume that is kept", func(s *scene) {
			s.released(time.Hour, func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			})
		}, nil},
		{"an attachment of a volume that is gone", func(s *scene) {
			s.attached("node-2", func(at *storagev1.VolumeAttachment) {
				leaves(time.Hour, `persistentvolume "pvc-gone" not found`)(at)
				at.Spec.Source.PersistentVolumeName = &gone
			})
		}, []string{"pv pvc-gone: stuck detach/pv-gone"}},
		{"an attachment that no pod needs beside one that works", func(s *scene) {
			shared := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			s.claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = shared })
			s.pv(func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes = shared })
			s.pod("web", "node-1", time.Hour, running)
			s.node("node-1", true, sceneHandle)
			s.attached("node-1", stays)
			s.attached("node-2", stays)
		}, []string{"volumeattachment csi: degraded detach/orphaned-attachment"}},
		{"a snapshot that is not made", func(s *scene) {
			claim := "data"
			s.put("snapshot.storage.k8s.io/v1", "VolumeSnapshot", &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "cut", CreationTimestamp: before(time.Hour)},
				Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}}})
		}, []string{"snapshot nightly: stuck snapshot/controller-missing", "pvc data: degraded snapshot/controller-missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.set(s)
			l := s.scan(Options{})
			got := listed(l)
			for i := range got {
				got[i] = strings.Replace(got[i], attachmentName(sceneHandle, sceneDriver, "node-2"), "csi", 1)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if len(l.Gaps) > 0 {
				t.Error("gaps: ", l.Gaps)
			}
		})
	}
}

// many makes n claims, each with a volume of the scene's driver and a pod on one of two nodes.
func (s *scene) many(n int, pod func(*corev1.Pod)) {
	for i := range n {
		name, handle := fmt.Sprintf("data-%d", i), fmt.Sprintf("vol-%04d", i)
		s.claim(func(c *corev1.PersistentVolumeClaim) {
			c.Name, c.UID, c.Spec.VolumeName = name, types.UID(name), "pvc-"+name
		})
		s.pv(func(pv *corev1.PersistentVolume) {
			pv.Name, pv.UID, pv.Spec.CSI.VolumeHandle = "pvc-"+name, types.UID("pv-"+name), handle
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name, UID: types.UID(name)}
		})
		s.pod("web-"+name, fmt.Sprintf("node-%d", i%2+1), time.Duration(i+20)*time.Minute, func(p *corev1.Pod) {
			p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = name
			pod(p)
		})
	}
}

// TestScanGroups: what one thing explains is one group.
func TestScanGroups(t *testing.T) {
	s := newScene(t)
	s.lease("external-attacher-leader-disk-example-com", 3*time.Hour)
	s.many(40, waits)
	for i := range 40 {
		node, volume := fmt.Sprintf("node-%d", i%2+1), fmt.Sprintf("pvc-data-%d", i)
		s.attached(node, func(at *storagev1.VolumeAttachment) {
			untaken(time.Duration(i+20) * time.Minute)(at)
			at.Name, at.Spec.Source.PersistentVolumeName = attachmentName(fmt.Sprintf("vol-%04d", i), sceneDriver, node), &volume
		})
	}
	s.pod("web", "", time.Hour, func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "datum" })
	l := s.scan(Options{Kubectl: []string{"--context", "prod"}})
	if len(l.Groups) != 2 || len(l.Items) != 41 {
		t.Fatalf("%d items in groups %+v", len(l.Items), l.Groups)
	}
	g := l.Groups[0]
	if g.Cause != "attach/attacher-not-running" || g.Count != 40 || *g.Object != (Object{Kind: "CSIDriver", Name: sceneDriver}) || len(g.Targets) != maxTargets ||
		g.Targets[0].Name != "data-39" || g.Command != "kubectl csidoctor --context prod driver "+sceneDriver || !g.Since.Equal(noon.Add(-59*time.Minute)) {
		t.Errorf("%+v", g)
	}
	if g := l.Groups[1]; g.Cause != "claim/pvc-missing" || g.Command != "kubectl csidoctor --context prod pod web -n shop" {
		t.Errorf("%+v", g)
	}
	if l.Counts[VerdictStuck] != 41 || l.Counts[VerdictHealthy] != 1 {
		t.Error(l.Counts)
	}
	if l := s.scan(Options{MinAge: 40 * time.Minute}); l.Counts[VerdictStuck] != 21 || l.Younger != 20 {
		t.Errorf("%d stuck, %d younger", l.Counts[VerdictStuck], l.Younger)
	}
}

// TestScanByNode: a node that explains its volumes is named; of many nodes the driver is.
func TestScanByNode(t *testing.T) {
	s := newScene(t)
	answer := func(i int) Diagnosis {
		return Diagnosis{Target: Target{"PersistentVolumeClaim", "shop", fmt.Sprint("data-", i)}, Verdict: VerdictStuck, Hop: HopStage, Cause: &Named{ID: "stage/tool-missing"}, Findings: []Finding{{}},
			Chains: []Chain{{Driver: sceneDriver, Node: fmt.Sprintf("node-%d", i%10), Hops: []Hop{{Hop: HopStage, Status: StatusStuck}}}}}
	}
	var all []Diagnosis
	for i := range 40 {
		all = append(all, answer(i))
	}
	sc := &scan{world: newWorld(s.Snapshot, Options{}), Scanner: NewScanner("", Options{})}
	if g := sc.groups(all); len(g) != 1 || *g[0].Object != (Object{Kind: "CSIDriver", Name: sceneDriver}) {
		t.Errorf("%+v", g)
	}
	for i := range all[:30] {
		all[i].Chains[0].Node = "node-x"
	}
	if g := sc.groups(all); len(g) != 2 || *g[0].Object != (Object{Kind: "Node", Name: "node-x"}) || g[0].Count != 30 || g[0].Command != "kubectl csidoctor node node-x" {
		t.Errorf("%+v", g)
	}
	s.many(10, waits)
	for _, o := range s.All(snapshot.ResourceOf("persistentvolumes").Group) {
		pv := o.(*corev1.PersistentVolume)
		s.attached("node-1", func(at *storagev1.VolumeAttachment) {
			at.Name, at.Spec.Source.PersistentVolumeName = attachmentName(pv.Spec.CSI.VolumeHandle, sceneDriver, "node-1"), &pv.Name
		})
	}
	s.drop("Pod", "disk-csi-node-2")
	s.drop("CSINode", "node-2")
	l := s.scan(Options{})
	if len(l.Groups) == 0 || l.Groups[0].Object == nil || *l.Groups[0].Object != (Object{Kind: "Node", Name: "node-2"}) || l.Groups[0].Hop != HopRegister {
		t.Errorf("%+v", l.Groups)
	}
}

// TestScanBlind: what cannot be read is named, and all else is right.
func TestScanBlind(t *testing.T) {
	s := newScene(t)
	s.many(60, running)
	s.pod("web", "", time.Hour, func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "datum" })
	for resource, want := range map[string]Verdict{"persistentvolumes": VerdictStuck, "events": VerdictStuck, "volumeattachments.storage.k8s.io": VerdictStuck, "persistentvolumeclaims": VerdictUndetermined, "pods": VerdictUndetermined} {
		l := s.scan(Options{}, snapshot.Query{Resource: resource})
		if !slices.ContainsFunc(l.Gaps, func(g Gap) bool { return g.Input == resource && g.Reason == "forbidden" }) {
			t.Errorf("%s: no gap in %v", resource, l.Gaps)
		}
		if l.Verdict != want {
			t.Errorf("without %s: %s\n%q", resource, l.Verdict, listed(l))
		}
	}
}
