package explain

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// scene is a cluster with one driver, one claim and its volume, on which tests place pods and attachments. All is read.
type scene struct {
	*snapshot.Snapshot
	t testing.TB
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// before is a moment that long before the answer.
func before(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func beforePtr(d time.Duration) *metav1.Time { t := before(d); return &t }

const (
	sceneDriver = "disk.example.com"
	sceneHandle = "vol-0a1b2c3d4e5f"
	scenePV     = "pvc-5cbe"
)

func newScene(t testing.TB) *scene {
	s := &scene{snapshot.New(), t}
	s.TakenAt, s.Recorded = noon, true
	s.put("storage.k8s.io/v1", "CSIDriver", &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: sceneDriver}})
	s.put("apps/v1", "DaemonSet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-csi-node", UID: "ds"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: pluginSpec("")}}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 2}})
	for _, n := range []string{"node-1", "node-2"} {
		s.node(n, true)
		s.put("storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: sceneDriver, NodeID: "i-" + n}}}})
		s.plugin(n)
	}
	s.lease("external-attacher-leader-disk-example-com", 5*time.Second)
	s.lease("disk-example-com", 5*time.Second)
	s.claim(func(*corev1.PersistentVolumeClaim) {})
	s.pv(func(*corev1.PersistentVolume) {})
	return s
}

func pluginSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "driver"}, {Name: "node-driver-registrar", Args: []string{"--kubelet-registration-path=/var/lib/kubelet/plugins/" + sceneDriver + "/csi.sock"}}},
		Volumes: []corev1.Volume{{Name: "plugin", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/" + sceneDriver}}}}}
}

func (s *scene) put(apiVersion, kind string, o snapshot.Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	s.Add(o)
}

// drop takes an object away.
func (s *scene) drop(kind, name string) {
	kept := snapshot.New()
	kept.TakenAt, kept.Recorded = s.TakenAt, true
	for _, gk := range s.GroupKinds() {
		for _, o := range s.All(gk) {
			if gk.Kind != kind || o.GetName() != name {
				kept.Add(o)
			}
		}
	}
	s.Snapshot = kept
}

func (s *scene) node(name string, ready bool, inUse ...string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: before(240 * time.Hour), Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionUnknown
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: before(40 * time.Minute)}}
	for _, u := range inUse {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName(uniqueName(sceneDriver, u)))
	}
	s.put("v1", "Node", n)
}

// nodeWith makes a working node anew, changed.
func (s *scene) nodeWith(name string, change func(*corev1.Node)) {
	s.node(name, true)
	n, _ := s.Get(inNodes.Resource, "", name).(*corev1.Node)
	n = n.DeepCopy()
	change(n)
	s.put("v1", "Node", n)
}

func (s *scene) plugin(node string) { s.pluginWith(node, func(*corev1.Pod) {}) }

func (s *scene) pluginWith(node string, change func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-csi-" + node, UID: types.UID("plugin-" + node), CreationTimestamp: before(240 * time.Hour),
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", UID: "ds"}}}, Spec: pluginSpec(node)}
	p.Status.Phase = corev1.PodRunning
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: before(240 * time.Hour)}}})
	}
	change(p)
	s.put("v1", "Pod", p)
}

func (s *scene) lease(name string, old time.Duration) {
	renewed := metav1.NewMicroTime(noon.Add(-old))
	holder := "disk-csi-controller-0"
	s.put("coordination.k8s.io/v1", "Lease", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, HolderIdentity: &holder}})
}

func (s *scene) claim(change func(*corev1.PersistentVolumeClaim)) {
	class := "disk"
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "claim", CreationTimestamp: before(240 * time.Hour), Annotations: map[string]string{annProvisioner: sceneDriver}, Finalizers: []string{finalizerClaim}},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: scenePV, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	change(c)
	s.put("v1", "PersistentVolumeClaim", c)
}

func (s *scene) pv(change func(*corev1.PersistentVolume)) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: scenePV, UID: "pv", CreationTimestamp: before(240 * time.Hour), Annotations: map[string]string{annProvisionedBy: sceneDriver},
		Finalizers: []string{finalizerVolume, finalizerProvisioner, attacherFinalizer(sceneDriver)}},
		Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "disk",
			ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: sceneDriver, VolumeHandle: sceneHandle}}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	change(pv)
	s.put("v1", "PersistentVolume", pv)
}

// released leaves the volume without its claim, since that long.
func (s *scene) released(d time.Duration, change func(*corev1.PersistentVolume)) {
	s.drop("PersistentVolumeClaim", "data")
	s.pv(func(pv *corev1.PersistentVolume) {
		pv.Status.Phase, pv.Status.LastPhaseTransitionTime = corev1.VolumeReleased, beforePtr(d)
		change(pv)
	})
}

// pod puts a pod that uses the claim on a node: waiting since its creation, until a test says otherwise.
func (s *scene) pod(name, node string, age time.Duration, change func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: before(age)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app"}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: before(age)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	change(p)
	s.put("v1", "Pod", p)
}

func running(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}}}}
}

func waits(*corev1.Pod) {}

// dying pods were asked to go that long ago; ended: their containers have.
func dying(d time.Duration, hasEnded bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		running(p)
		p.DeletionTimestamp = beforePtr(d)
		if hasEnded {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: before(d)}}}}
		}
	}
}

// completed pods ended that long ago and their objects stay.
func completed(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: before(d)}}}}
	}
}

// attached puts a VolumeAttachment that says attached.
func (s *scene) attached(node string, change func(*storagev1.VolumeAttachment)) {
	name := scenePV
	at := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(sceneHandle, sceneDriver, node), CreationTimestamp: before(100 * time.Hour), Finalizers: []string{attacherFinalizer(sceneDriver)},
		Annotations: map[string]string{annNodeID: "i-" + node}},
		Spec:   storagev1.VolumeAttachmentSpec{Attacher: sceneDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	change(at)
	s.put("storage.k8s.io/v1", "VolumeAttachment", at)
}

func stays(*storagev1.VolumeAttachment) {}

func leaves(d time.Duration, detachError string) func(*storagev1.VolumeAttachment) {
	return func(at *storagev1.VolumeAttachment) {
		at.DeletionTimestamp = beforePtr(d)
		if detachError != "" {
			at.Status.DetachError = &storagev1.VolumeError{Message: detachError, Time: before(time.Minute)}
		}
	}
}

func asked(d time.Duration, attachError string) func(*storagev1.VolumeAttachment) {
	return func(at *storagev1.VolumeAttachment) {
		at.CreationTimestamp, at.Status.Attached = before(d), false
		if attachError != "" {
			at.Status.AttachError = &storagev1.VolumeError{Message: attachError, Time: before(time.Minute)}
		}
	}
}

func untaken(d time.Duration) func(*storagev1.VolumeAttachment) {
	return func(at *storagev1.VolumeAttachment) {
		at.CreationTimestamp, at.Status.Attached, at.Finalizers, at.Annotations = before(d), false, nil, nil
	}
}

func (s *scene) event(kind, name, reason, message string, ago time.Duration) {
	namespace := "shop"
	if kind == "Node" || kind == "PersistentVolume" {
		namespace = "default"
	}
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%s.%d", name, reason, ago)}, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name},
		Reason: reason, Message: message, Type: "Warning", Count: 1, FirstTimestamp: before(ago), LastTimestamp: before(ago)}
	if namespace == "shop" {
		e.InvolvedObject.Namespace = "shop"
	}
	s.put("v1", "Event", e)
}

// ask gives the answer about an object of the scene, as a cluster gives it: what is wanted is read, but for what is hidden.
func (s *scene) ask(kind, name string, hidden ...snapshot.Query) (d Diagnosis) {
	t := Target{Kind: kind, Name: name}
	if kind == "Pod" || kind == "PersistentVolumeClaim" {
		t.Namespace = "shop"
	}
	s.walk(hidden, func(facts *snapshot.Snapshot) (wanted Wanted) {
		d, wanted = Explain(facts, t, Options{Now: noon})
		return wanted
	})
	return d
}

// scan gives what is not well in the scene.
func (s *scene) scan(o Options, hidden ...snapshot.Query) (l List) {
	o.Now = noon
	s.walk(hidden, func(facts *snapshot.Snapshot) (wanted Wanted) {
		l, wanted = Scan(facts, "", o)
		return wanted
	})
	return l
}

func (s *scene) walk(hidden []snapshot.Query, answer func(*snapshot.Snapshot) Wanted) {
	facts := snapshot.New()
	facts.TakenAt, facts.Recorded = noon, true
	for round := 0; ; round++ {
		wanted := answer(facts)
		if len(wanted) == 0 {
			return
		}
		if round == 5 {
			s.t.Errorf("still wanted after %d rounds: %v", round, wanted)
			return
		}
		if os.Getenv("ROUNDS") != "" && len(hidden) == 0 {
			fmt.Println(round, wanted)
		}
		for _, q := range wanted {
			found := s.Select(q)
			switch {
			case slices.ContainsFunc(hidden, func(h snapshot.Query) bool { return h.Includes(q) }):
				facts.Gaps = append(facts.Gaps, snapshot.Gap{Input: q.Resource, Query: &q, Reason: "forbidden"})
			case q.Resource == inReports.Resource && len(found) == 0:
				facts.Gaps = append(facts.Gaps, snapshot.Gap{Input: q.Resource, Query: &q, Reason: "not-probed"})
			default:
				for _, o := range found {
					facts.Add(o)
				}
				facts.Read = append(facts.Read, q)
			}
		}
	}
}

func causeOf(d Diagnosis) string {
	if d.Cause == nil {
		return ""
	}
	return d.Cause.ID
}

// want checks the answer, and that no other cause is taken for it when one thing that it rests on cannot be read.
func (s *scene) want(kind, name string, verdict Verdict, cause string) {
	s.t.Helper()
	d := s.ask(kind, name)
	if d.Verdict != verdict || causeOf(d) != cause {
		s.t.Errorf("%s %s: %s %q, want %s %q\n%s", kind, name, d.Verdict, causeOf(d), verdict, cause, d.Summary)
		return
	}
	for _, q := range d.Used {
		blind := s.ask(kind, name, q.Sent())
		report := q.Resource == inReports.Resource
		named := slices.ContainsFunc(blind.Gaps, func(g Gap) bool { return g.Input == q.Resource || report && g.Input == "node-report" })
		switch got := causeOf(blind); {
		case got == cause && (got != "" || blind.Verdict == verdict):
		case got != "" && named && blind.Verdict == VerdictStuck && blind.Cause.Confidence == Possible: // what is unread could hide a better one
		case got == "" && named && (blind.Verdict == VerdictStuck || blind.Verdict == VerdictUndetermined):
		default:
			s.t.Errorf("%s %s without %s: %s %q, was %s %q\n%s", kind, name, q, blind.Verdict, got, verdict, cause, blind.Summary)
		}
	}
}
