package collect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	vac         = "volumeattributesclasses.storage.k8s.io"
	snapshots   = "volumesnapshots.snapshot.storage.k8s.io"
	attachments = "volumeattachments.storage.k8s.io"
	vendor      = "secretproviderclasses.secrets-store.csi.x-k8s.io"

	manyEvents = 12_000 // three pages
)

// cluster has one of each way in which an object comes over the wire.
func cluster() *snapshot.Snapshot {
	s := snapshot.New()
	s.Server = "v1.33.4"
	for i := range manyEvents {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("e-%04d", i)}, InvolvedObject: corev1.ObjectReference{UID: "u1"}}
		e.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
		s.Add(e)
	}
	for _, name := range []string{"a", "b"} {
		p := pod("shop", name, "1")
		p.Spec.NodeName = "node-" + name
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		s.Add(p)
	}
	s.Add(pod("other", "a", "1"))
	for name, pv := range map[string]string{"csi-1": "pv-1", "csi-10": "pv-10"} {
		at := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}}
		at.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"))
		s.Add(at)
	}
	class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "ebs.csi.aws.com", Parameters: map[string]string{"iops": "4000"}}
	class.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"))
	s.Add(class)
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "snap", CreationTimestamp: metav1.NewTime(taken)}}
	vs.SetGroupVersionKind(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"))
	s.Add(vs)
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "vault"}, "spec": map[string]any{"provider": "vault"}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "secrets-store.csi.x-k8s.io", Version: "v1", Kind: "SecretProviderClass"})
	s.Add(u)
	return s
}

func live(t *testing.T, server *apitest.Server) *collect.Live {
	t.Helper()
	l, err := collect.NewLive(server.Getter(t), collect.LiveOptions{UserAgent: "csidoctor/test"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLiveReadsEveryKind(t *testing.T) {
	var protobuf atomic.Int32
	server := apitest.Start(t, cluster(), apitest.Options{Now: taken, Inject: func(r *http.Request) *metav1.Status {
		if strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
			protobuf.Add(1)
		}
		if r.UserAgent() != "csidoctor/test" {
			t.Error(r.UserAgent())
		}
		return nil
	}})
	l := live(t, server)
	for _, c := range []struct {
		q    snapshot.Query
		want int
	}{
		{pods("shop", "a"), 1},
		{pods("shop", "none"), 0},
		{pods("shop", "../nodes"), 0},
		{pods("shop", ""), 2},
		{pods("", ""), 3},
		{snapshot.Query{Resource: "pods", Fields: "spec.nodeName=node-b"}, 1},
		{snapshot.Query{Resource: "pods", Namespace: "shop", Labels: "app in (b,c)"}, 1},
		{snapshot.Query{Resource: "events", Namespace: "shop", Fields: "involvedObject.uid=u1"}, manyEvents},
		{query("nodes", "", ""), 0},
		{snapshot.Query{Resource: attachments, Fields: "spec.source.persistentVolumeName=pv-1"}, 1}, // the server refuses to select by it
		{snapshot.Query{Resource: attachments, Fields: "spec.nodeName=node-a"}, 2},
		{query(attachments, "", ""), 2},
		{query(vac, "", "gold"), 1},
		{query(snapshots, "shop", ""), 1},
		{query(snapshots, "shop", "snap"), 1},
		{query(snapshots, "shop", "none"), 0},
		{query(vendor, "shop", "vault"), 1},
		{query(vendor, "", ""), 1},
		{query("cephclusters.ceph.rook.io", "rook-ceph", ""), 0},
	} {
		a := l.Fetch(t.Context(), c.q)
		if a.Gap != nil || len(a.Objects) != c.want {
			t.Errorf("%s: %d objects, want %d, gap %+v", c.q, len(a.Objects), c.want, a.Gap)
		}
		for _, o := range a.Objects {
			gvk := o.GetObjectKind().GroupVersionKind()
			if k := snapshot.ResourceOf(c.q.Resource); k != nil && gvk != k.Group.WithVersion(k.Version) {
				t.Errorf("%s: came as %s", c.q, gvk)
			}
			if o.GetManagedFields() != nil {
				t.Errorf("%s: managedFields kept", c.q)
			}
		}
	}
	if protobuf.Load() == 0 {
		t.Error("built-in kinds were not asked for in protobuf")
	}
	if a := l.Fetch(t.Context(), snapshot.Query{Resource: "replicasets.apps", Fields: "status.replicas=0"}); a.Gap == nil || a.Gap.Reason != "failed" || a.Silent {
		t.Errorf("a field that no server selects by: %+v", a.Gap)
	}
	if l.Requests() != len(server.Asked()) {
		t.Errorf("counted %d requests of %d", l.Requests(), len(server.Asked()))
	}
	pages := slices.DeleteFunc(server.Asked(), func(r string) bool { return !strings.Contains(r, "/events") })
	if len(pages) != 3 {
		t.Errorf("%d events in pages of 5000: %v", manyEvents, pages)
	}
}

func TestLiveWalk(t *testing.T) {
	server := apitest.Start(t, cluster(), apitest.Options{Now: taken})
	l := live(t, server)
	s, stats, err := collect.Walk(t.Context(), l, []snapshot.Query{pods("shop", "a"), query(snapshots, "shop", "snap")}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if s.Server != "v1.33.4" || !s.TakenAt.Equal(taken) || !s.Recorded || s.Len() != 2 {
		t.Error(dump(s))
	}
	if len(stats.Notes) != 1 || !strings.Contains(stats.Notes[0], "behind this machine's") {
		t.Error(stats.Notes)
	}
	if l.Requests() != 3 {
		t.Error(server.Asked())
	}
}

func TestOlderVersionsAndWhatIsNotServed(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		older := live(t, apitest.Start(t, cluster(), apitest.Options{Versions: map[string]string{vac: version}}))
		a := older.Fetch(t.Context(), query(vac, "", "gold"))
		if a.Gap != nil || len(a.Objects) != 1 || a.Objects[0].(*storagev1.VolumeAttributesClass).Parameters["iops"] != "4000" {
			t.Errorf("%s: %+v", version, a)
		}
	}
	older := live(t, apitest.Start(t, cluster(), apitest.Options{Versions: map[string]string{snapshots: "v1beta1"}}))
	for _, q := range []snapshot.Query{query(snapshots, "shop", "snap"), query(snapshots, "", "")} {
		a := older.Fetch(t.Context(), q)
		if a.Gap != nil || len(a.Objects) != 1 || a.Objects[0].GetObjectKind().GroupVersionKind() != snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot") {
			t.Errorf("%s: %+v", q, a)
		}
	}
	all := []string{vendor}
	for _, k := range snapshot.Kinds {
		all = append(all, k.Resource)
	}
	none := live(t, apitest.Start(t, cluster(), apitest.Options{NotServed: all}))
	for _, resource := range all {
		want := "not-served"
		switch {
		case strings.HasSuffix(resource, ".csidoctor.dev"):
			continue
		case resource == vac || resource == vendor || strings.HasSuffix(resource, ".snapshot.storage.k8s.io"):
			want = "" // a cluster may do without: there is none
		}
		for _, q := range []snapshot.Query{query(resource, "", ""), query(resource, "shop", "x")} {
			got := ""
			if a := none.Fetch(t.Context(), q); a.Gap != nil {
				got = a.Gap.Reason
			}
			if got != want {
				t.Errorf("%s: gap %q, want %q", q, got, want)
			}
		}
	}
}

func TestForbidden(t *testing.T) {
	server := apitest.Start(t, cluster(), apitest.Options{Forbid: func(q snapshot.Query) string {
		if q.Namespace == "shop" {
			return ""
		}
		return q.Resource + ` is forbidden: User "oncall" cannot list it`
	}})
	s, _, err := collect.Walk(t.Context(), live(t, server), []snapshot.Query{pods("shop", "a"), pods("other", "a"), query("csinodes.storage.k8s.io", "", "")}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Read) != 1 || len(s.Gaps) != 2 || s.Len() != 1 {
		t.Fatal(dump(s))
	}
	for i, want := range []string{"kubectl auth can-i list csinodes.storage.k8s.io`", "kubectl auth can-i get pods -n other`"} {
		g := s.Gaps[i]
		if g.Reason != "forbidden" || !strings.Contains(g.Detail, `User "oncall"`) || !strings.HasSuffix(g.Remedy, want) || !strings.Contains(g.Remedy, "deploy/rbac.yaml") {
			t.Errorf("%+v", g)
		}
	}
}

func TestPagingThatExpires(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	server := apitest.Start(t, cluster(), apitest.Options{Inject: func(r *http.Request) *metav1.Status {
		if r.URL.Query().Has("continue") {
			return &expired
		}
		return nil
	}})
	events := snapshot.Query{Resource: "events", Namespace: "shop"}
	if a := live(t, server).Fetch(t.Context(), events); a.Gap != nil || len(a.Objects) != manyEvents {
		t.Errorf("no fall back to the full list: %d, %+v", len(a.Objects), a.Gap)
	}
	never := apitest.Start(t, cluster(), apitest.Options{Inject: func(r *http.Request) *metav1.Status {
		if q := r.URL.Query(); q.Has("continue") || !q.Has("limit") {
			return &expired
		}
		return nil
	}})
	if a := live(t, never).Fetch(t.Context(), events); a.Gap == nil || a.Gap.Reason != "expired" || len(a.Objects) != 0 {
		t.Errorf("%+v", a.Gap)
	}
}

func TestServerThatFails(t *testing.T) {
	var n atomic.Int32
	busy := apierrors.NewTooManyRequests("busy", 1).ErrStatus
	once := apitest.Start(t, cluster(), apitest.Options{Inject: func(*http.Request) *metav1.Status {
		if n.Add(1) == 1 {
			return &busy
		}
		return nil
	}})
	if a := live(t, once).Fetch(t.Context(), pods("shop", "a")); a.Gap != nil || len(a.Objects) != 1 {
		t.Errorf("not tried again: %+v", a.Gap)
	}

	broken := apierrors.NewInternalError(fmt.Errorf("etcd is gone")).ErrStatus
	down := apitest.Start(t, cluster(), apitest.Options{Inject: func(r *http.Request) *metav1.Status {
		if strings.Contains(r.URL.Path, "/events") {
			return &broken
		}
		return nil
	}})
	if a := live(t, down).Fetch(t.Context(), query("events", "shop", "")); a.Silent || a.Gap == nil || a.Gap.Reason != "failed" || !strings.Contains(a.Gap.Detail, "etcd is gone") {
		t.Errorf("%+v", a.Gap)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	always := apitest.Start(t, cluster(), apitest.Options{Inject: func(*http.Request) *metav1.Status { return &busy }})
	if a := live(t, always).Fetch(ctx, pods("shop", "a")); a.Gap == nil || a.Gap.Reason != "timeout" {
		t.Errorf("%+v", a.Gap)
	}
}

func TestNoCluster(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	unauthorized := metav1.Status{Code: 401, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Sign in</html>") }))
	defer page.Close()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }))
	defer gateway.Close()
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()

	for _, c := range []struct{ name, url, want string }{
		{"refused", closed.URL, "connection refused; check the context and the network"},
		{"credentials", apitest.Start(t, snapshot.New(), apitest.Options{Inject: func(*http.Request) *metav1.Status { return &unauthorized }}).URL, "provide credentials (get nodes); log in again"},
		{"sign-in page", page.URL, "check the context"},
		{"gateway", gateway.URL, "check the context"},
		{"no API", notFound.URL, "check the context"},
		{"hangs", hangs.URL, "deadline exceeded; give it more time with --request-timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := genericclioptions.NewConfigFlags(false)
			flags.APIServer = &c.url
			l, err := collect.NewLive(flags, collect.LiveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, _, err = collect.Walk(ctx, l, []snapshot.Query{pods("shop", "a"), query("nodes", "", "")}, nothing)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.url) {
				t.Error(err)
			} else {
				t.Log(err)
			}
		})
	}
}

func TestNoConfig(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	l, err := collect.NewLive(genericclioptions.NewConfigFlags(false), collect.LiveOptions{})
	if err == nil {
		_, _, err = collect.Walk(t.Context(), l, []snapshot.Query{pods("shop", "a")}, nothing)
	}
	if err == nil || !strings.Contains(err.Error(), "no kubeconfig names a cluster") {
		t.Error(err)
	}
	t.Log(err)
}

func TestRedaction(t *testing.T) {
	server := apitest.Start(t, cluster(), apitest.Options{})
	l, err := collect.NewLive(server.Getter(t), collect.LiveOptions{Redact: func(o snapshot.Object) snapshot.Object {
		o.SetLabels(nil)
		return o
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.Fetch(t.Context(), pods("shop", "")).Objects {
		if o.GetLabels() != nil {
			t.Error(o.GetName(), o.GetLabels())
		}
	}
}
