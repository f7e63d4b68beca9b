package collect_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// flaky is the demo's cluster behind a server that fails as fail says, and a client of it.
func flaky(t *testing.T, fail func(*http.Request) *metav1.Status) (*snapshot.Snapshot, *collect.Live, *apitest.Server) {
	t.Helper()
	full, _, err := bundle.Read("../../cmd/csidoctor/demo.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	server := apitest.Start(t, full, apitest.Options{Now: full.TakenAt, Inject: fail, Forbid: apitest.AsRecorded(full)})
	return full, live(t, server), server
}

// A server that is too busy or fails now and then is asked again, and nothing of it shows.
func TestServerThatFailsNowAndThen(t *testing.T) {
	busy, untold := apierrors.NewTooManyRequests("busy", 1).ErrStatus, apierrors.NewTooManyRequestsError("busy").ErrStatus
	broken := apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed")).ErrStatus
	gone := apierrors.NewServiceUnavailable("apiserver is shutting down").ErrStatus
	failures := []*metav1.Status{&broken, &gone, &untold, nil, &broken, &busy, nil}
	var mu sync.Mutex
	asked := map[string]int{}
	full, flakyClient, _ := flaky(t, func(r *http.Request) *metav1.Status {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.RequestURI()]++
		if r.URL.Path == "/version" || asked[r.URL.RequestURI()]%2 == 0 {
			return nil
		}
		return failures[len(asked)%len(failures)]
	})
	_, steady, _ := flaky(t, nil)
	for _, name := range []string{"data", "reports", "cache", "uploads"} {
		target := explain.Target{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: name}
		if want, got := answer(t, steady, target, full.TakenAt), answer(t, flakyClient, target, full.TakenAt); want != got {
			t.Errorf("%s: a steady server: %s\na flaky one: %s", name, want, got)
		}
	}
	all, _ := bundled(t, flakyClient, "", full.TakenAt)
	for _, refused := range all.Refused() {
		if !strings.HasPrefix(refused, "clusterrole") { // which the demo does not have
			t.Errorf("not read: %s", refused)
		}
	}
}

// One list that always fails is a gap with the server's words; all else is read and right, and the failing list is not asked for
// more than a few times.
func TestOneListThatAlwaysFails(t *testing.T) {
	broken := apierrors.NewInternalError(fmt.Errorf("conversion webhook is down")).ErrStatus
	attachments := "volumeattachments.storage.k8s.io"
	full, client, server := flaky(t, func(r *http.Request) *metav1.Status {
		if strings.Contains(r.URL.Path, "/volumeattachments") {
			return &broken
		}
		return nil
	})
	s, _ := bundled(t, client, "", full.TakenAt)
	g := s.GapOf(snapshot.Query{Resource: attachments})
	if g == nil || g.Reason != "failed" || !strings.Contains(g.Detail, "conversion webhook is down") || !strings.Contains(g.Remedy, "kubectl get "+attachments) {
		t.Errorf("%+v", g)
	}
	if refused := strings.Join(s.Refused(), " "); !strings.Contains(refused, attachments+" (failed)") {
		t.Error(refused)
	}
	for _, r := range []string{"persistentvolumeclaims", "pods", "events", "nodes"} {
		if !s.Covers(snapshot.Query{Resource: r}) {
			t.Errorf("%s were not read", r)
		}
	}
	tries := 0
	for _, asked := range server.Asked() {
		if strings.Contains(asked, "/volumeattachments?") {
			tries++
		}
	}
	if tries > 3 {
		t.Errorf("the list was asked for %d times", tries)
	}
	_, steady, _ := flaky(t, nil)
	for name, same := range map[string]bool{"uploads": true, "reports": true, "spare": true, "cache": false} {
		target := explain.Target{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: name}
		want, got := answer(t, steady, target, full.TakenAt), answer(t, client, target, full.TakenAt)
		if same && want != got {
			t.Errorf("%s changes, though no attachment matters to it:\n%s\n%s", name, want, got)
		}
		if !same && !strings.Contains(got, "conversion webhook is down") {
			t.Errorf("%s: the gap is not named:\n%s", name, got)
		}
	}
}
