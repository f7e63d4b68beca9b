package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// plugins are pods of a node, of which each is less fit than the one before.
func plugins() []*corev1.Pod {
	var out []*corev1.Pod
	for _, like := range []struct {
		name, limit, path string
		hostPID, none     bool
	}{
		{name: "z-sees-processes", hostPID: true, limit: "1Gi"}, {name: "y-has-folders", path: "/var/lib/kubelet/plugins"}, {name: "a-is-privileged"},
		{name: "b-has-no-room", hostPID: true, limit: "128Mi"}, {name: "c-is-not-privileged", none: true},
	} {
		privileged := !like.none
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: like.name}, Spec: corev1.PodSpec{HostPID: like.hostPID,
			Containers: []corev1.Container{{Name: "driver", SecurityContext: &corev1.SecurityContext{Privileged: &privileged}}}}}
		if like.limit != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(like.limit)}
		}
		if like.path != "" {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: like.path}}}}
		}
		out = append([]*corev1.Pod{startedWith(p)}, out...)
	}
	return out
}

func TestRoomy(t *testing.T) {
	if got, want := fmt.Sprint(roomy(plugins())), "[storage/z-sees-processes (driver) storage/y-has-folders (driver) storage/a-is-privileged (driver)]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVisit sends the program into containers that are there: the first that can run it gives the report, and no pod is made.
func TestVisit(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "z-sees-processes", errors.New(`User "jo" cannot create resource "pods/exec"`))
	for name, c := range map[string]struct {
		run            func(at place, out, errs io.Writer) error
		timeout        time.Duration
		detail, remedy string // empty: a report
	}{
		"the first": {run: func(_ place, out, _ io.Writer) error {
			_, err := fmt.Fprintf(out, "packed\n%s", framed(t, "node-1"))
			return err
		}},
		"the second": {run: func(at place, out, errs io.Writer) error {
			if at.pod == "z-sees-processes" {
				fmt.Fprintln(errs, "no program can be put into any of /tmp")
				return errors.New("command terminated with exit code 1")
			}
			_, err := fmt.Fprintf(out, "plain\n%s", framed(t, "node-1"))
			return err
		}},
		"may not": {run: func(place, io.Writer, io.Writer) error { return forbidden }, detail: "storage/z-sees-processes (driver)", remedy: "pods/exec in namespace storage"},
		"no shell": {run: func(place, io.Writer, io.Writer) error { return errors.New(`exec: "sh": executable file not found`) },
			detail: "executable file not found", remedy: "try again"},
		"it fails": {run: func(_ place, out, errs io.Writer) error {
			fmt.Fprintln(out, "plain")
			fmt.Fprintln(errs, "error: the report has 9000000 bytes compressed")
			return errors.New("command terminated with exit code 1")
		}, detail: "9000000 bytes compressed", remedy: "without --probe-via exec"},
		"another node": {run: func(_ place, out, _ io.Writer) error {
			_, err := fmt.Fprintf(out, "packed\n%s", framed(t, "node-2"))
			return err
		}, detail: `"node-2"`, remedy: "csidoctor-probe on the node"},
		"no answer": {timeout: 50 * time.Millisecond, detail: "no report within", remedy: "--probe-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			carrier := s.carrier(Options{Exec: true, Timeout: max(c.timeout, time.Minute*map[bool]time.Duration{true: 1}[c.timeout == 0])})
			carrier.exec = func(ctx context.Context, at place, _ []string, _ io.Reader, out, errs io.Writer) error {
				if c.run == nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.run(at, out, errs)
			}
			target := Target{Name: "node-1", Node: node("node-1", corev1.ConditionTrue), Pods: plugins()}
			reports, failures := carrier.Probe(t.Context(), []Plan{{Target: target, places: roomy(target.Pods)}})
			switch f := failures[0]; {
			case c.detail == "" && (f != nil || reports[0].Metadata.Name != "node-1"):
				t.Errorf("%+v %+v", reports[0], f)
			case c.detail != "" && (f == nil || !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Remedy, c.remedy) || f.Left):
				t.Errorf("%+v\nwant %q and %q", f, c.detail, c.remedy)
			}
			if s.requests > 0 {
				t.Errorf("%d requests besides", s.requests)
			}
		})
	}
}
