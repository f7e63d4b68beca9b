package snapshot

import (
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func somePod(name string) *corev1.Pod {
	text := func(s string) string { return string([]byte(s)) } // a copy of its own, as decoders make them
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: text("shop"), Labels: map[string]string{text("app"): text("db")}, OwnerReferences: []metav1.OwnerReference{{Kind: text("ReplicaSet"), Name: text("db-1")}}},
		Spec: corev1.PodSpec{NodeName: text("node-1"), Containers: []corev1.Container{{Name: text("app"), Image: text("app:1"), Env: []corev1.EnvVar{{Name: text("A"), Value: text("b")}}}},
			Volumes: []corev1.Volume{{Name: text("data"), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPhase(text("Running")), Conditions: []corev1.PodCondition{{Type: corev1.PodConditionType(text("Ready")), Message: text("m")}}},
	}
}

// What objects say alike they share, and they say what they said.
func TestShare(t *testing.T) {
	var s Shared
	a, b := somePod("a"), somePod("b")
	wantA, wantB := a.DeepCopy(), b.DeepCopy()
	s.Share(a)
	s.Share(b)
	if !equality.Semantic.DeepEqual(a, wantA) || !equality.Semantic.DeepEqual(b, wantB) {
		t.Errorf("changed: %+v, %+v", a, b)
	}
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("two pods of one template have containers of their own")
	}
	for name, of := range map[string]func(*corev1.Pod) string{
		"namespace": func(p *corev1.Pod) string { return p.Namespace }, "label": func(p *corev1.Pod) string { return p.Labels["app"] },
		"owner": func(p *corev1.Pod) string { return p.OwnerReferences[0].Name }, "node": func(p *corev1.Pod) string { return p.Spec.NodeName },
		"label's key": func(p *corev1.Pod) string {
			for key := range p.Labels {
				return key
			}
			return ""
		},
		"phase": func(p *corev1.Pod) string { return string(p.Status.Phase) }, "condition": func(p *corev1.Pod) string { return string(p.Status.Conditions[0].Type) },
		"volume": func(p *corev1.Pod) string { return p.Spec.Volumes[0].Name },
	} {
		if unsafe.StringData(of(a)) != unsafe.StringData(of(b)) {
			t.Errorf("%s: two copies", name)
		}
	}
	other := somePod("c")
	other.Spec.Containers[0].Image = "app:2"
	s.Share(other)
	if other.Spec.Containers[0].Image != "app:2" || a.Spec.Containers[0].Image != "app:1" {
		t.Error("another template is not the same")
	}
}

// Containers of one template are redacted once, and then they are what they would be by themselves.
func TestRedactOnce(t *testing.T) {
	var s Shared
	times := 0
	redact := func(o Object) Object {
		p := o.(*corev1.Pod)
		for i := range p.Spec.Containers {
			times++
			p.Spec.Containers[i].Env = []corev1.EnvVar{{Name: "A", Value: "masked"}}
		}
		if p.Spec.NodeName != "" {
			p.Spec.NodeName = "masked"
		}
		return p
	}
	for _, name := range []string{"a", "b", "c"} {
		got, want := s.Redact(somePod(name), redact), somePod(name)
		want.Spec.NodeName, want.Spec.Containers[0].Env[0].Value = "masked", "masked"
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if times != 1 {
		t.Errorf("containers of one template were redacted %d times", times)
	}
}

// Trimmed is what no answer is made from; what answers need stays.
func TestTrim(t *testing.T) {
	p := somePod("a")
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "x", "volume.kubernetes.io/a": "b"}
	c := &p.Spec.Containers[0]
	c.LivenessProbe, c.Lifecycle, c.ImagePullPolicy = &corev1.Probe{}, &corev1.Lifecycle{}, "Always"
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "kube-api-access-x7x2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x7x2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		corev1.Volume{Name: "kube-api-access-own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	want := somePod("a")
	want.Annotations = map[string]string{"volume.kubernetes.io/a": "b"}
	want.Spec.Containers[0].VolumeMounts = c.VolumeMounts[:1:1]
	want.Spec.Volumes = append(want.Spec.Volumes, p.Spec.Volumes[2])
	want = want.DeepCopy()
	Trim(p)
	if !equality.Semantic.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}, VolumesInUse: []corev1.UniqueVolumeName{"v"}}}
	if Trim(n); n.Status.Images != nil || len(n.Status.VolumesInUse) != 1 {
		t.Errorf("%+v", n.Status)
	}
}
