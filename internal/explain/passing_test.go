package explain_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// TestPassingError: what the kubelet said once, right after a pod got its node and before the node authorizer knew of that, changes
// no answer. It is an error like others by its words and stays to be seen for an hour.
func TestPassingError(t *testing.T) {
	for _, c := range loadCases(t) {
		full := c.load(t)
		if _, ok := disputed[c.ID]; ok || !saidOnce(full, cmp.Or(full.TakenAt, c.At)) {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			if d := walk(t, full, c.target(), c.At, nil); len(c.wrong(d)) > 0 {
				t.Errorf("%s\nsummary: %s", strings.Join(c.wrong(d), "; "), d.Summary)
			}
		})
	}
}

// saidOnce adds the event to the pods of claims that got their node more than a minute ago, and tells whether there are such, and
// events were read.
func saidOnce(full *snapshot.Snapshot, now time.Time) (any bool) {
	if len(full.All(schema.GroupKind{Kind: "Event"})) == 0 {
		return false
	}
	for _, o := range full.All(schema.GroupKind{Kind: "Pod"}) {
		p := o.(*corev1.Pod)
		at := p.CreationTimestamp.Time
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
		if at = at.Add(time.Second); p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending || now.Sub(at) <= time.Minute {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			any = true
			full.Add(&corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
				ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "." + v.Name, CreationTimestamp: metav1.NewTime(at)},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				Source:         corev1.EventSource{Component: "kubelet", Host: p.Spec.NodeName}, Type: "Warning", Reason: "FailedMount", Count: 1,
				FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
				Message: fmt.Sprintf(`Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%s]: error processing PVC %s/%s: failed to fetch PVC from API server: persistentvolumeclaims %q is forbidden: User "system:node:%s" cannot get resource "persistentvolumeclaims" in API group "" in the namespace %q: no relationship found between node '%s' and this object`,
					v.Name, v.Name, p.Namespace, v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ClaimName, p.Spec.NodeName, p.Namespace, p.Spec.NodeName),
			})
		}
	}
	return any
}
