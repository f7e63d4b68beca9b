package collect_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// crowd is 400 claims on 40 nodes, each with a pod that waits for its volume.
func crowd() *snapshot.Snapshot {
	full := snapshot.New()
	for i := range 400 {
		claim := typicalClaim(i)
		full.Add(claim)
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID()},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: fmt.Sprint("vol-", i)}}}}
		pv.Name = claim.(*corev1.PersistentVolumeClaim).Spec.VolumeName
		pv.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolume"))
		full.Add(pv)
		p := typicalPod(i).(*corev1.Pod)
		p.CreationTimestamp.Time = taken.AddDate(0, 0, -1)
		p.Spec.NodeName, p.Status = fmt.Sprint("node-", i%40), corev1.PodStatus{Phase: corev1.PodPending}
		full.Add(p)
		full.Add(typicalEvent(i))
	}
	for i := range 40 {
		n := typicalNode(i)
		n.SetName(fmt.Sprint("node-", i))
		full.Add(n)
	}
	return full
}

// TestScanAsksForLists: many objects are a few questions, also where lists are refused.
func TestScanAsksForLists(t *testing.T) {
	for _, refused := range []string{"", "persistentvolumes", "pods", "nodes", "events", "volumeattachments.storage.k8s.io", "persistentvolumeclaims"} {
		for _, namespace := range []string{"", "team-7"} {
			server := apitest.Start(t, crowd(), apitest.Options{Now: taken, Forbid: func(q snapshot.Query) string {
				if q.Resource == refused && q.Name == "" {
					return "you may not list " + refused
				}
				return ""
			}})
			l := scanned(t, live(t, server), namespace, taken)
			if asked := server.Asked(); len(asked) > 70 {
				t.Errorf("namespace %q without %s: %d questions, such as %s", namespace, refused, len(asked), strings.Join(asked[len(asked)-5:], " "))
			}
			if refused != "" && refused != "nodes" && !strings.Contains(l, "you may not list "+refused) { // forty nodes are got one by one
				t.Errorf("namespace %q: no gap for %s", namespace, refused)
			}
		}
	}
}
