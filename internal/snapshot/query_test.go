package snapshot

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeAttachments of one volume are a part of all of them, and the server is asked for all.
func TestAttachmentsOfOneVolume(t *testing.T) {
	const resource = "volumeattachments.storage.k8s.io"
	all, one := Query{Resource: resource}, Query{Resource: resource, Fields: "spec.source.persistentVolumeName=pv-1"}
	other, on := Query{Resource: resource, Fields: "spec.source.persistentVolumeName=pv-10"}, Query{Resource: resource, Fields: "spec.nodeName=node-1"}
	byName := Query{Resource: resource, Name: "a"}
	for _, c := range []struct {
		q, p Query
		want bool
	}{{all, one, true}, {one, one, true}, {one, all, false}, {one, other, false}, {one, on, false}, {on, one, false}, {one, byName, false}} {
		if got := c.q.Includes(c.p); got != c.want {
			t.Errorf("%s includes %s: %v", c.q, c.p, got)
		}
	}
	if one.Sent() != all || byName.Sent() != byName {
		t.Error(one.Sent(), byName.Sent())
	}
	if pods := (Query{Resource: "pods", Fields: "spec.nodeName=node-1"}); pods.Sent() != pods {
		t.Error(pods.Sent())
	}

	s := New()
	s.Recorded, s.Gaps = true, []Gap{{Input: resource, Query: &all, Reason: "forbidden"}}
	for name, pv := range map[string]string{"a": "pv-1", "b": "pv-10", "c": ""} {
		at := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-1"}}
		if pv != "" {
			at.Spec.Source.PersistentVolumeName = &pv
		}
		at.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"))
		s.Add(at)
	}
	if got := s.Select(one); len(got) != 1 || got[0].GetName() != "a" || len(s.Select(on)) != 3 {
		t.Error(got)
	}
	if !s.Tried(one) || s.Tried(byName) {
		t.Error("that the list is refused says it of each part, and of no get")
	}
}
