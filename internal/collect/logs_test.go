package collect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// logServer serves one pod as apitest does, and its containers' logs by name; a container that is not in logs waits to start,
// one whose text is "refused" may not be read.
func logServer(t *testing.T, logs map[string]string, containers ...string) (genericclioptions.RESTClientGetter, *[]string) {
	s := snapshot.New()
	p := pod("csi", "ctrl-0", "1")
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	s.Add(p)
	objects := apitest.Start(t, s, apitest.Options{})
	asked := &[]string{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			objects.ServeHTTP(w, r)
			return
		}
		*asked = append(*asked, r.URL.RequestURI())
		text, ok := logs[r.URL.Query().Get("container")]
		status := func(code int, reason, message string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
		}
		switch {
		case !ok:
			status(400, "BadRequest", "container is waiting to start: ContainerCreating")
		case text == "refused":
			status(403, "Forbidden", `pods "ctrl-0" is forbidden: User "oncall" cannot get resource "pods/log"`)
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(h.Close)
	flags := genericclioptions.NewConfigFlags(true)
	*flags.APIServer = h.URL
	return flags, asked
}

var logQuery = snapshot.Query{Resource: "logexcerpts.csidoctor.dev", Namespace: "csi", Name: "ctrl-0", Lines: "pvc-1,shop/data-0"}

func TestLogs(t *testing.T) {
	getter, asked := logServer(t, map[string]string{
		"csi-provisioner": "cut in its middle pvc-1\n2026-03-01T12:00:00.5Z E0301 provision \"shop/data-0\" failed\n2026-03-01T12:00:01Z about another\n",
		"driver":          "2026-03-01T12:00:02Z nothing of ours\n",
	}, "csi-provisioner", "driver", "starting")
	live, err := collect.NewLive(getter, collect.LiveOptions{Logs: true})
	if err != nil {
		t.Fatal(err)
	}
	a := live.Fetch(t.Context(), logQuery)
	if a.Gap != nil || len(a.Objects) != 1 {
		t.Fatalf("%+v", a)
	}
	got := a.Objects[0].(*snapshot.LogExcerpt)
	want := []snapshot.LogLine{{Text: "cut in its middle pvc-1"}, {At: time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC), Text: `E0301 provision "shop/data-0" failed`}}
	if diff := cmp.Diff(want, got.Lines); diff != "" || got.Container != "csi-provisioner" || got.Namespace != "csi" || got.Name != "ctrl-0" {
		t.Errorf("%+v\n%s", got, diff)
	}
	for _, u := range *asked {
		for _, limit := range []string{"tailLines=2000", "sinceSeconds=1800", "limitBytes=1048576", "timestamps=true"} {
			if !strings.Contains(u, limit) {
				t.Errorf("%s has no %s", u, limit)
			}
		}
	}
}

func TestLogsRefused(t *testing.T) {
	getter, _ := logServer(t, map[string]string{"driver": "refused"}, "driver")
	live, err := collect.NewLive(getter, collect.LiveOptions{Logs: true})
	if err != nil {
		t.Fatal(err)
	}
	a := live.Fetch(t.Context(), logQuery)
	if a.Gap == nil || a.Gap.Reason != "forbidden" || !strings.Contains(a.Gap.Detail, `cannot get resource "pods/log"`) || !strings.Contains(a.Gap.Remedy, "kubectl auth can-i get pods/log") && !strings.Contains(a.Gap.Remedy, "--subresource") {
		t.Errorf("%+v", a.Gap)
	}
}

// TestLogsOnlyWhenAskedFor: without the flag nothing is requested.
func TestLogsOnlyWhenAskedFor(t *testing.T) {
	getter, asked := logServer(t, map[string]string{"driver": "2026-03-01T12:00:00Z pvc-1\n"}, "driver")
	live, err := collect.NewLive(getter, collect.LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a := live.Fetch(t.Context(), logQuery); a.Gap == nil || a.Gap.Reason != "not-collected" || live.Requests() != 0 || len(*asked) != 0 {
		t.Errorf("%+v after %d requests", a, live.Requests())
	}
}

// Two answers that want lines of one pod's log read it once, for the words of both; a refusal is a refusal to both.
func TestWalkReadsALogOnce(t *testing.T) {
	other := logQuery
	other.Lines = "pvc-2,shop/data-1"
	for _, refused := range []bool{false, true} {
		src := &source{answer: func(_ context.Context, q snapshot.Query) collect.Answer {
			if refused {
				return collect.Answer{Gap: &snapshot.Gap{Reason: "forbidden"}}
			}
			return collect.Answer{}
		}}
		s, stats, err := collect.Walk(t.Context(), src, []snapshot.Query{pods("csi", "ctrl-0")}, func(*snapshot.Snapshot) explain.Wanted { return explain.Wanted{other, logQuery} })
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{`pods "ctrl-0" in csi`, `logexcerpts.csidoctor.dev "ctrl-0" in csi, lines with pvc-1 or pvc-2 or shop/data-0 or shop/data-1`}; cmp.Diff(want, src.asked) != "" || stats.Rounds != 2 {
			t.Errorf("%d rounds: %q", stats.Rounds, src.asked)
		}
		for _, q := range []snapshot.Query{logQuery, other} {
			if s.Covers(q) == refused || s.Tried(q) != refused {
				t.Errorf("refused %v: %s: covered %v, tried %v", refused, q, s.Covers(q), s.Tried(q))
			}
		}
		more := logQuery
		more.Lines = "pvc-1,pvc-3"
		if s.Covers(more) || s.Tried(more) {
			t.Error("a word that was not asked for counts as read")
		}
	}
}

// Lines of one log that were read for different words are all there, once and in order.
func TestExcerptsAddUp(t *testing.T) {
	excerpt := func(lines ...int) snapshot.Object {
		l := &snapshot.LogExcerpt{TypeMeta: metav1.TypeMeta{APIVersion: "csidoctor.dev/v1alpha1", Kind: "LogExcerpt"}, ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "ctrl-0"}, Container: "driver"}
		for _, n := range lines {
			l.Lines = append(l.Lines, snapshot.LogLine{At: taken.Add(time.Duration(n) * time.Second), Text: fmt.Sprint("line ", n)})
		}
		return l
	}
	s := snapshot.New()
	s.Add(excerpt(1, 3))
	s.Add(excerpt(2, 3))
	found := s.Select(logQuery)
	if len(found) != 1 {
		t.Fatal(found)
	}
	if diff := cmp.Diff(excerpt(1, 2, 3), found[0]); diff != "" {
		t.Error(diff)
	}
}
