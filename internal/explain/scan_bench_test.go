package explain

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// crowd is a cluster of n claims on n/20 nodes: each with a pod, and as many pods without a volume; five events a claim. Of twenty
// claims one waits for an attacher that is away, one for a volume to be made, one for a mount that fails, one has a snapshot that is
// not made, one is idle, one is idle and still in use, one shall grow, and one volume was left by its claim.
func crowd(t testing.TB, n, namespaces int) *scene {
	s := newScene(t)
	s.lease("external-attacher-leader-disk-example-com", 3*time.Hour)
	s.lease("disk-example-com", 3*time.Hour)
	mode := storagev1.VolumeBindingImmediate
	s.put("storage.k8s.io/v1", "StorageClass", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: sceneDriver, VolumeBindingMode: &mode})
	inUse := map[string][]string{}
	for i := range n {
		id := fmt.Sprintf("%05d", i)
		node := fmt.Sprintf("worker-%d", i%(n/20))
		name, handle, namespace := "data-"+id, "vol-"+id, fmt.Sprintf("team-%d", i%namespaces)
		if i%20 != 3 {
			s.claim(func(c *corev1.PersistentVolumeClaim) {
				c.Namespace, c.Name, c.UID, c.Spec.VolumeName = namespace, name, types.UID(name), "pvc-"+id
				switch i % 20 {
				case 2:
					c.Spec.VolumeName, c.Status.Phase = "", corev1.ClaimPending
				case 8:
					c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
					c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
				}
			})
		}
		if i%20 != 2 {
			s.pv(func(pv *corev1.PersistentVolume) {
				pv.Name, pv.UID, pv.Spec.CSI.VolumeHandle = "pvc-"+id, types.UID("pv-"+id), handle
				pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name, UID: types.UID(name)}
				if i%20 == 3 {
					pv.Status.Phase = corev1.VolumeReleased
				}
			})
		}
		if i%20 != 3 && i%20 != 4 && i%20 != 7 {
			s.pod("web-"+id, node, time.Hour, func(p *corev1.Pod) {
				p.Namespace, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = namespace, name
				switch i % 20 {
				case 1, 5:
				case 2:
					p.Spec.NodeName, p.Status.Conditions[0].Status = "", corev1.ConditionFalse
					p.Status.Conditions[0].Message = "0/50 nodes are available: pod has unbound immediate PersistentVolumeClaims."
				default:
					running(p)
				}
			})
		}
		s.pod("job-"+id, node, time.Hour, func(p *corev1.Pod) { p.Namespace, p.Spec.Volumes = namespace, nil; running(p) })
		if i%20 > 4 || i%20 < 2 {
			s.attached(node, func(at *storagev1.VolumeAttachment) {
				pv := "pvc-" + id
				at.Name, at.Spec.Source.PersistentVolumeName = attachmentName(handle, sceneDriver, node), &pv
				if i%20 == 1 {
					untaken(time.Hour)(at)
				}
			})
			inUse[node] = append(inUse[node], handle)
		}
		for j := range 5 {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%s.%d", id, j)}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "web-" + id},
				Reason: "Pulled", Message: strings.Repeat("Successfully pulled image ", 4), Type: "Normal", Count: 1, FirstTimestamp: before(time.Hour), LastTimestamp: before(time.Minute)}
			if i%20 == 5 {
				e.Reason, e.Type, e.Source.Component, e.LastTimestamp = "FailedMount", "Warning", "kubelet", before(time.Duration(5-j)*time.Minute)
				e.Message = `MountVolume.MountDevice failed for volume "pvc-` + id + `" : rpc error: code = Internal desc = the array says no ` + id
			}
			s.put("v1", "Event", e)
		}
		if i%20 == 6 {
			s.put("snapshot.storage.k8s.io/v1", "VolumeSnapshot", &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nightly-" + id, UID: types.UID("cut-" + id), CreationTimestamp: before(time.Hour)},
				Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &name}}})
		}
	}
	for node, handles := range inUse {
		s.node(node, true, handles...)
		s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: sceneDriver, NodeID: "i-" + node}}}})
		s.plugin(node)
	}
	s.Gaps = append(s.Gaps, snapshot.Gap{Input: inReports.Resource, Query: &snapshot.Query{Resource: inReports.Resource}, Reason: "not-probed"})
	for _, in := range Inputs {
		if in.Verbs != nil {
			s.Read = append(s.Read, snapshot.Query{Resource: in.Resource})
		}
	}
	named := map[string]bool{}
	for _, o := range s.All(snapshot.ResourceOf(inPods.Resource).Group) {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" && !named[p.Spec.NodeName] {
			named[p.Spec.NodeName] = true
			s.Gaps = append(s.Gaps, snapshot.Gap{Input: inReports.Resource, Query: &snapshot.Query{Resource: inReports.Resource, Name: p.Spec.NodeName}, Reason: "not-probed"})
		}
	}
	return s
}

// TestScanOnAllCores: however many cores answer, the list and what is still wanted are the same, before all is read and after.
func TestScanOnAllCores(t *testing.T) {
	s := crowd(t, 400, 5)
	read := s.Read
	most := slices.DeleteFunc(slices.Clone(read), func(q snapshot.Query) bool { return q.Resource == inLeases.Resource || q.Resource == inQuotas.Resource })
	for i, read := range [][]snapshot.Query{nil, most, read} {
		s.Read = read
		s.Reindex()
		if l, wanted := Scan(s.Snapshot, "", Options{Now: noon}); len(l.Items) > 0 != (i > 0) || len(wanted) > 0 != (i < 2) {
			t.Fatalf("with %v read: %d items, still wanted %v", read, len(l.Items), wanted)
		}
		scan := func(cores int) string {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			l, wanted := Scan(s.Snapshot, "", Options{Now: noon})
			out, err := json.Marshal([]any{l, wanted})
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		one := scan(1)
		for range 3 {
			if all := scan(8); all != one {
				t.Fatalf("on eight cores\n%s\non one\n%s", all, one)
			}
		}
	}
}

// BenchmarkScan: twice the cluster may take 2.2 times as long.
func BenchmarkScan(b *testing.B) {
	for _, namespaces := range []int{50, 1} {
		for _, n := range []int{1000, 2000} {
			s := crowd(b, n, namespaces)
			b.Run(fmt.Sprintf("%d-in-%d", n, namespaces), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.Reindex()
					l, wanted := Scan(s.Snapshot, "", Options{Now: noon})
					if len(wanted) > 0 || l.Counts[VerdictHealthy] != n*13/20+1 {
						b.Fatal(wanted, l.Counts, l.Groups)
					}
				}
			})
		}
	}
}
