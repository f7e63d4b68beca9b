package collect

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// A page has its objects without their managedFields, and says where the next one begins; one that was cut off is an error wherever that was.
func TestDecodePage(t *testing.T) {
	in := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"app": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}, {Manager: "kubectl"}}}, Spec: corev1.PodSpec{NodeName: "node-1"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
	}}
	in.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	var body bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(in, &body); err != nil {
		t.Fatal(err)
	}
	var got []corev1.Pod
	take := func(o runtime.Object) error {
		got = append(got, *o.(*corev1.Pod))
		return nil
	}
	pods := snapshot.ResourceOf("pods")
	list, err := decodePage(body.Bytes(), pods, take)
	if err != nil || list.Continue != "next" || list.ResourceVersion != "7" || len(got) != 2 {
		t.Fatal(list, got, err)
	}
	if a, b := got[0], got[1]; a.Name != "a" || a.Labels["app"] != "a" || a.ManagedFields != nil || a.Spec.NodeName != "node-1" || b.Name != "b" || b.Status.Phase != corev1.PodRunning {
		t.Error(got)
	}
	for n := len(protobufMagic); n < body.Len()-len("\x1a\x00\x22\x00"); n++ { // behind the list its envelope has two empty fields
		if list, err := decodePage(body.Bytes()[:n], pods, func(runtime.Object) error { return nil }); err == nil {
			t.Errorf("%d bytes of %d are a page: %v", n, body.Len(), list)
		}
	}
}

// Whatever stands in a page, taking it apart ends, and gives no object that still has its managedFields.
func FuzzDecodePage(f *testing.F) {
	var body bytes.Buffer
	list := &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}}}}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := protobuf.NewSerializer(nil, nil).Encode(list, &body); err != nil {
		f.Fatal(err)
	}
	f.Add(body.Bytes()[len(protobufMagic):])
	f.Fuzz(func(t *testing.T, envelope []byte) {
		_, _ = decodePage(slices.Concat(protobufMagic, envelope), snapshot.ResourceOf("pods"), func(o runtime.Object) error {
			if p := o.(*corev1.Pod); p.ManagedFields != nil {
				t.Error(p.ManagedFields)
			}
			return nil
		})
	})
}
