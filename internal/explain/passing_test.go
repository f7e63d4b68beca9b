package explain_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// passing are errors that a kubelet says once, right after a pod got its node, and that go by themselves: the node authorizer does not
// know yet what is on the node, its caches are empty, the plugins of the driver and of the network start.
var passing = []struct {
	name   string
	over   time.Duration // after so long it counts no more
	reason string
	words  string
}{
	{"claim", time.Minute, "FailedMount", `Unable to attach or mount volumes: unmounted volumes=[VOLUME], unattached volumes=[], failed to process volumes=[VOLUME]: error processing PVC NAMESPACE/CLAIM: failed to fetch PVC from API server: persistentvolumeclaims "CLAIM" is forbidden: User "system:node:NODE" cannot get resource "persistentvolumeclaims" in API group "" in the namespace "NAMESPACE": no relationship found between node 'NODE' and this object`},
	{"token", 6 * time.Minute, "FailedMount", `MountVolume.SetUp failed for volume "kube-api-access-x7k2p" : failed to sync configmap cache: timed out waiting for the condition`},
	{"attachment", 6 * time.Minute, "FailedMount", `MountVolume.WaitForAttach failed for volume "PERSISTENT" : volumeattachments.storage.k8s.io "csi-2f" is forbidden: User "system:node:NODE" cannot get resource "volumeattachments" in API group "storage.k8s.io" at the cluster scope: no relationship found between node 'NODE' and this object`},
	{"driver", 6 * time.Minute, "FailedMount", `MountVolume.MountDevice failed for volume "PERSISTENT" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name DRIVER not found in the list of registered CSI drivers`},
	{"sandbox", 6 * time.Minute, "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "3f1c": plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized`},
}

// TestPassingErrors: they stay to be seen for an hour, and change no answer.
func TestPassingErrors(t *testing.T) {
	for _, p := range passing {
		t.Run(p.name, func(t *testing.T) {
			for _, c := range loadCases(t) {
				full := c.load(t)
				late := slices.Contains([]explain.HopName{explain.HopStage, explain.HopPublish, explain.HopStart}, c.Want.Hop)
				if _, ok := disputed[c.ID]; ok || p.name == "driver" && !late || !saidOnce(full, cmp.Or(full.TakenAt, c.At), p.over, p.reason, p.words) {
					continue
				}
				t.Run(c.ID, func(t *testing.T) {
					t.Parallel()
					if d := walk(t, full, c.target(), c.At, nil); len(c.wrong(d)) > 0 {
						t.Errorf("%s\nsummary: %s", strings.Join(c.wrong(d), "; "), d.Summary)
					}
				})
			}
		})
	}
}

// saidOnce adds the event to the pods of claims that do not run and got their node so long ago, and tells whether there
// are such, and events were read.
func saidOnce(full *snapshot.Snapshot, now time.Time, over time.Duration, reason, words string) (any bool) {
	if len(full.All(schema.GroupKind{Kind: "Event"})) == 0 {
		return false
	}
	volumes := map[string]*corev1.PersistentVolume{}
	for _, o := range full.All(schema.GroupKind{Kind: "PersistentVolume"}) {
		if pv := o.(*corev1.PersistentVolume); pv.Spec.ClaimRef != nil && pv.Spec.CSI != nil {
			volumes[pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name] = pv
		}
	}
	for _, o := range full.All(schema.GroupKind{Kind: "Pod"}) {
		p := o.(*corev1.Pod)
		at := p.CreationTimestamp.Time
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
		if at = at.Add(time.Second); p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending || now.Sub(at) <= over {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			pv := volumes[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
			if pv == nil {
				continue
			}
			any = true
			words := strings.NewReplacer("PERSISTENT", pv.Name, "DRIVER", pv.Spec.CSI.Driver, "VOLUME", v.Name, "CLAIM", v.PersistentVolumeClaim.ClaimName, "NAMESPACE", p.Namespace, "NODE", p.Spec.NodeName).Replace(words)
			full.Add(once(p, "Pod", v.Name, corev1.EventSource{Component: "kubelet", Host: p.Spec.NodeName}, at, reason, words))
		}
	}
	return any
}

// once is a warning about an object that was said one time; suffix makes its name.
func once(o snapshot.Object, kind, suffix string, source corev1.EventSource, at time.Time, reason, words string) *corev1.Event {
	return &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName() + "." + suffix, CreationTimestamp: metav1.NewTime(at)},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Source:         source, Type: "Warning", Reason: reason, Count: 1, FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Message: words}
}

// TestConflicts: that two writers of an object met, as controllers say now and then and write into a status, changes no answer.
func TestConflicts(t *testing.T) {
	for _, c := range loadCases(t) {
		full := c.load(t)
		nobody := slices.Contains(c.Want.Cause, "expand/resizer-not-running") // no writer is there
		if _, ok := disputed[c.ID]; ok || nobody || !met(full, cmp.Or(full.TakenAt, c.At).Add(-time.Minute)) {
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

// met lets the writers of what is not done meet: pods without a node, claims that grow, snapshots that are cut.
func met(full *snapshot.Snapshot, at time.Time) (any bool) {
	const words = ": the object has been modified; please apply your changes to the latest version and try again"
	say := func(o snapshot.Object, kind, from, reason, message string) {
		any = true
		full.Add(once(o, kind, "met", corev1.EventSource{Component: from}, at, reason, message+words))
	}
	events := len(full.All(schema.GroupKind{Kind: "Event"})) > 0
	for _, o := range full.All(schema.GroupKind{Kind: "Pod"}) {
		if p := o.(*corev1.Pod); events && p.Spec.NodeName == "" && p.Status.Phase == corev1.PodPending {
			say(o, "Pod", "default-scheduler", "FailedScheduling", `running PreBind plugin "VolumeBinding": binding volumes: Operation cannot be fulfilled on persistentvolumeclaims "data"`)
		}
	}
	for _, o := range full.All(schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		wants, has := o.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests.Storage(), o.(*corev1.PersistentVolumeClaim).Status.Capacity.Storage()
		if events && wants.Cmp(*has) > 0 && !has.IsZero() {
			say(o, "PersistentVolumeClaim", "external-resizer disk.example.com", "VolumeResizeFailed", `mark pvc as resizing failed: can't patch status of PVC: Operation cannot be fulfilled on persistentvolumeclaims`)
		}
	}
	for _, o := range full.All(schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}) {
		if s := o.(*snapshotv1.VolumeSnapshot); s.Status != nil && s.Status.Error == nil && s.Status.ReadyToUse != nil && !*s.Status.ReadyToUse {
			any = true
			text, when := "snapshot controller failed to update shop/s on API server: Operation cannot be fulfilled on volumesnapshots.snapshot.storage.k8s.io"+words, metav1.NewTime(at)
			s.Status.Error = &snapshotv1.VolumeSnapshotError{Message: &text, Time: &when}
		}
	}
	return any
}
