package explain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// TestExpansions gives one claim of 20Gi that asks for 30Gi the states and words of resizers, drivers and kubelets.
func TestExpansions(t *testing.T) {
	const base = "growth-blocked-by-leftovers-of-backup-run"
	type change func(*corev1.PersistentVolumeClaim, *snapshot.Snapshot)
	resizer := func(text string) change {
		return func(_ *corev1.PersistentVolumeClaim, s *snapshot.Snapshot) {
			for _, o := range s.Select(snapshot.Query{Resource: "events"}) {
				if e := o.(*corev1.Event); e.Reason == "VolumeResizeFailed" {
					e.Message = `resize volume "pvc-d0c240d4-a206-46fc-aa5c-d00b92cea22c" by resizer "csi.vsphere.vmware.com" failed: rpc error: code = ` + text
				}
			}
		}
	}
	state := func(status corev1.ClaimResourceStatus, condition corev1.PersistentVolumeClaimConditionType) change {
		return func(c *corev1.PersistentVolumeClaim, s *snapshot.Snapshot) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
			if status != "" {
				c.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = status
			}
			c.Status.Conditions = nil
			if condition != "" {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.TakenAt.Add(-20 * time.Minute))}}
			}
		}
	}
	withoutPod := func(_ *corev1.PersistentVolumeClaim, s *snapshot.Snapshot) {
		for _, o := range s.Select(snapshot.Query{Resource: "pods"}) {
			if p := o.(*corev1.Pod); p.Name == "zookeeper-2" {
				p.Status.Phase = corev1.PodSucceeded
			}
		}
		for _, o := range s.Select(snapshot.Query{Resource: "nodes"}) {
			o.(*corev1.Node).Status.VolumesInUse, o.(*corev1.Node).Status.VolumesAttached = nil, nil
		}
		for _, o := range s.Select(snapshot.Query{Resource: "volumeattachments.storage.k8s.io"}) {
			other := "another"
			o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName = &other
		}
	}
	kubelet := func(reason, text string) change {
		return func(_ *corev1.PersistentVolumeClaim, s *snapshot.Snapshot) {
			for _, o := range s.Select(snapshot.Query{Resource: "pods"}) {
				if p := o.(*corev1.Pod); p.Name == "zookeeper-2" {
					s.Add(&corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "node-expand"}, Reason: reason, Type: "Warning", Count: 9,
						InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Source: corev1.EventSource{Component: "kubelet"}, Message: text,
						FirstTimestamp: metav1.NewTime(s.TakenAt.Add(-15 * time.Minute)), LastTimestamp: metav1.NewTime(s.TakenAt.Add(-time.Minute))})
				}
			}
		}
	}
	young := func(c *corev1.PersistentVolumeClaim, s *snapshot.Snapshot) {
		for _, o := range s.Select(snapshot.Query{Resource: "events"}) {
			switch e := o.(*corev1.Event); e.Reason {
			case "VolumeResizeFailed":
				e.InvolvedObject.Name, e.InvolvedObject.UID = "another", "another"
			case "ExternalExpanding", "Resizing":
				e.FirstTimestamp, e.LastTimestamp = metav1.NewTime(s.TakenAt.Add(-time.Minute)), metav1.NewTime(s.TakenAt.Add(-time.Minute))
			}
		}
		for i := range c.Status.Conditions {
			c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(s.TakenAt.Add(-time.Minute))
		}
	}
	done := func(c *corev1.PersistentVolumeClaim, _ *snapshot.Snapshot) {
		c.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("30Gi")
	}
	for _, c := range []struct {
		name    string
		change  []change
		verdict explain.Verdict
		cause   string
	}{
		{"snapshots", nil, "stuck", "expand/backend-error"},
		{"above a maximum", []change{resizer(`OutOfRange desc = requested size exceeds maximum volume size 16TiB`)}, "stuck", "expand/infeasible"},
		{"no such thing", []change{resizer(`Internal desc = this volume type does not support expansion`)}, "stuck", "expand/infeasible"},
		{"recorded as never", []change{resizer(`Internal desc = failed`), state(corev1.PersistentVolumeClaimControllerResizeInfeasible, "")}, "stuck", "expand/infeasible"},
		{"a limit of rate", []change{resizer(`Internal desc = Could not modify volume "vol-1": api error VolumeModificationRateExceeded: You've reached the maximum modification rate per volume limit. Wait at least 6 hours between modifications per EBS volume.`)}, "stuck", "expand/backend-error"},
		{"a quota", []change{resizer(`ResourceExhausted desc = quota exceeded: maximum is 100 GB`)}, "stuck", "expand/backend-error"},
		{"a timeout", []change{resizer(`DeadlineExceeded desc = context deadline exceeded`)}, "stuck", "expand/backend-error"},
		{"offline only", []change{resizer(`Internal desc = failed to resize disk: Cannot resize disk while it is attached to running VM`)}, "stuck", "expand/needs-detach"},
		{"offline only, of an old cloud", []change{resizer(`FailedPrecondition desc = Volume status must be available to extend, but is in-use`)}, "stuck", "expand/needs-detach"},
		{"offline only, by a state", []change{resizer(`FailedPrecondition desc = volume pvc-1 invalid state attached for expansion`)}, "stuck", "expand/needs-detach"},
		{"offline only, by another state", []change{resizer(`Internal desc = the volume is in state 'in-use', which does not let it be resized`)}, "stuck", "expand/needs-detach"},
		{"a state that is none of use", []change{resizer(`FailedPrecondition desc = volume pvc-1 invalid state faulted for expansion`)}, "stuck", "expand/backend-error"},
		{"waits for a pod", []change{state(corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimFileSystemResizePending), withoutPod}, "waiting", "expand/waiting-for-pod"},
		{"waits for a pod, before 1.34", []change{state("", corev1.PersistentVolumeClaimFileSystemResizePending), withoutPod}, "waiting", "expand/waiting-for-pod"},
		{"fails on the node", []change{state(corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimFileSystemResizePending), kubelet("VolumeResizeFailed", `NodeExpandVolume.NodeExpandVolume failed for volume "pvc-d0c240d4-a206-46fc-aa5c-d00b92cea22c" : Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = resize2fs: Superblock checksum does not match superblock`)}, "stuck", "expand/node-failed"},
		{"read-only on the node", []change{state(corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimFileSystemResizePending), kubelet("FileSystemResizeFailed", `MountVolume.NodeExpandVolume failed for volume "pvc-d0c240d4-a206-46fc-aa5c-d00b92cea22c" requested read-only file system`)}, "stuck", "expand/node-failed"},
		{"just asked", []change{young}, "waiting", "expand/in-progress"},
		{"done, with old warnings", []change{state("", ""), done}, "healthy", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := caseNamed(t, base)
			s := base.load(t)
			for _, o := range s.Select(snapshot.Query{Resource: "persistentvolumeclaims"}) {
				if o.GetName() == "zookeeper-data-2" {
					for _, change := range c.change {
						change(o.(*corev1.PersistentVolumeClaim), s)
					}
				}
			}
			d := walk(t, s, base.target(), base.At, nil)
			checkFix(t, d)
			id := ""
			if d.Cause != nil {
				id = d.Cause.ID
			}
			if d.Verdict != c.verdict || id != c.cause {
				t.Errorf("%s %s, want %s %s: %s", d.Verdict, id, c.verdict, c.cause, d.Summary)
			}
		})
	}
}
