package carrier

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// server is as much of an API server, a Job controller and a kubelet as the carrier meets: a created Job has a pod at the next
// look, which is as the test wants it.
type server struct {
	t testing.TB

	mu       sync.Mutex
	requests int
	jobs     map[string]*batchv1.Job
	made     []*batchv1.Job
	looks    int // at pods
	events   []corev1.Event

	// What the test wants, each of them may be left out.
	before func(n int, r *http.Request)              // each request, as it comes
	refuse func(r *http.Request) error               // instead of an answer
	deny   string                                    // the right that is missing: "create pods/exec"
	pod    func(look int, p *corev1.Pod) *corev1.Pod // how far the pod is; nil: there is none
	log    func(w http.ResponseWriter)               // what the pod has written
	stuck  bool                                      // pods do not go
}

func serve(t testing.TB) *server {
	return &server{t: t, jobs: map[string]*batchv1.Job{}}
}

// carrier starts the server and gives a Carrier for it.
func (s *server) carrier(o Options) *Carrier {
	s.t.Helper()
	h := httptest.NewServer(s)
	s.t.Cleanup(h.Close)
	if o.Namespace == "" {
		o.Namespace = Namespace
	}
	c, err := New(&rest.Config{Host: h.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	n, before, refuse := s.requests, s.before, s.refuse
	s.mu.Unlock()
	if before != nil {
		before(n, r)
	}
	if refuse != nil {
		if err := refuse(r); err != nil {
			status := apierrors.NewInternalError(err).Status()
			if known, ok := err.(apierrors.APIStatus); ok {
				status = known.Status()
			}
			answer(w, int(status.Code), status)
			return
		}
	}
	part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := part[len(part)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case last == "selfsubjectaccessreviews":
		var review authorizationv1.SelfSubjectAccessReview
		s.read(r, &review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/") != s.deny
		answer(w, http.StatusCreated, review)
	case last == "jobs" && r.Method == http.MethodPost:
		var job batchv1.Job
		s.read(r, &job)
		s.jobs[job.Name] = &job
		s.made = append(s.made, &job)
		answer(w, http.StatusCreated, job)
	case last == "jobs":
		var all batchv1.JobList
		for _, j := range s.jobs {
			all.Items = append(all.Items, *j)
		}
		answer(w, http.StatusOK, all)
	case part[len(part)-2] == "jobs" && r.Method == http.MethodDelete:
		if s.jobs[last] == nil {
			answer(w, http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, last).Status())
			return
		}
		delete(s.jobs, last)
		answer(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess})
	case last == "pods":
		s.looks++
		var all corev1.PodList
		for _, p := range s.pods() {
			all.Items = append(all.Items, *p)
		}
		answer(w, http.StatusOK, all)
	case last == "events":
		answer(w, http.StatusOK, corev1.EventList{Items: s.events})
	case last == "log":
		s.log(w)
	case part[len(part)-2] == "pods":
		for _, p := range s.pods() {
			if p.Name == last {
				answer(w, http.StatusOK, p)
				return
			}
		}
		answer(w, http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, last).Status())
	case part[len(part)-2] == "nodes":
		answer(w, http.StatusOK, node(last, corev1.ConditionUnknown))
	default:
		s.t.Errorf("nobody asks %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
	}
}

func (s *server) read(r *http.Request, v any) {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
}

// pods are those of the Jobs that are there, and with stuck those of Jobs that were.
func (s *server) pods() (all []*corev1.Pod) {
	for _, j := range s.made {
		if s.jobs[j.Name] == nil && !s.stuck {
			continue
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: j.Name + "-x", Namespace: j.Namespace, Labels: j.Spec.Template.Labels}, Spec: j.Spec.Template.Spec}
		if s.pod != nil {
			p = s.pod(s.looks, p)
		} else {
			p = startedWith(p)
		}
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

func (s *server) left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for n := range s.jobs {
		names = append(names, n)
	}
	return names
}

func answer(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	// The client knows an object by its kind.
	for kind, one := range map[string]bool{"Job": is[batchv1.Job](v), "JobList": is[batchv1.JobList](v), "Pod": is[*corev1.Pod](v), "PodList": is[corev1.PodList](v),
		"EventList": is[corev1.EventList](v), "Status": is[metav1.Status](v), "Node": is[*corev1.Node](v), "SelfSubjectAccessReview": is[authorizationv1.SelfSubjectAccessReview](v)} {
		if one {
			version := map[bool]string{true: "batch/v1", false: "v1"}[strings.HasPrefix(kind, "Job")]
			if kind == "SelfSubjectAccessReview" {
				version = "authorization.k8s.io/v1"
			}
			b = append([]byte(fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, kind, version)), strings.TrimPrefix(string(b), "{")...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(b)
}

func is[T any](v any) bool { _, ok := v.(T); return ok }

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "NodeStatusUnknown"}},
		NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"},
	}}
}

// startedWith has the pod's first container running.
func startedWith(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

// waitingWith has all of the pod's containers wait for a reason.
func waitingWith(p *corev1.Pod, reason, message string) *corev1.Pod {
	p.Status.Phase = corev1.PodPending
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}})
	}
	return p
}
