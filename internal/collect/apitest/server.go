// Package apitest serves a Snapshot over HTTP as a Kubernetes API server would, so that tests ask it with the real client:
// gets, lists with selectors and pages, discovery, JSON and protobuf, refusals, and any failure a test injects. It knows no
// watches and no writes.
package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Options of a Server. All may be left out.
type Options struct {
	Now time.Time // the server's clock, in the Date header; zero: ours
	// Forbid gives the message with which a query is refused; empty: it is allowed.
	Forbid func(snapshot.Query) string
	// NotServed are resources that the server does not know.
	NotServed []string
	// Versions serves a resource of snapshot.Kinds in another version than Kinds has.
	Versions map[string]string
	// Uncached honours limits always, as real servers do for events only when resourceVersion is 0.
	Uncached bool
	// Inject answers a request with a failure; nil: it is served.
	Inject func(*http.Request) *metav1.Status
}

// Server is the API server. Its zero value is of no use: see Start.
type Server struct {
	URL string

	facts   *snapshot.Snapshot
	options Options
	mu      sync.Mutex
	asked   []string
}

// Start serves the facts until the test ends.
func Start(t testing.TB, facts *snapshot.Snapshot, o Options) *Server {
	t.Helper()
	s := &Server{facts: facts, options: o}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// NotRecorded ends the message with which AsRecorded refuses a kind of which the facts know nothing.
const NotRecorded = "it was not recorded"

// AsRecorded refuses what the facts have a gap for, in its words, and kinds of which they know nothing. Of a kind that has
// objects but was not recorded as read, those objects are all that the server has, unless it was read in one namespace only.
func AsRecorded(facts *snapshot.Snapshot) func(snapshot.Query) string {
	return func(q snapshot.Query) string {
		g := facts.GapOf(q)
		switch {
		case facts.Covers(q) || q.Name != "" && len(facts.Select(q)) > 0:
			return ""
		case g != nil && g.Reason == "forbidden":
			return g.Detail
		case len(facts.Select(snapshot.Query{Resource: q.Resource})) > 0 && !oneNamespace(facts, q):
			return ""
		}
		return q.Resource + " is forbidden: " + NotRecorded
	}
}

// oneNamespace: all of a kind is asked for, and the facts come from someone who may list it in a namespace only.
func oneNamespace(facts *snapshot.Snapshot, q snapshot.Query) bool {
	return q.Namespace == "" && slices.ContainsFunc(facts.Read, func(r snapshot.Query) bool {
		return r == snapshot.Query{Resource: q.Resource, Namespace: r.Namespace} && r.Namespace != ""
	})
}

// Kubeconfig writes a file that points kubectl and its like at the server, and gives its path.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Getter is a client's configuration for the server.
func (s *Server) Getter(t testing.TB) genericclioptions.RESTClientGetter {
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = s.Kubeconfig(t)
	return flags
}

// Asked lists the requests so far, with their queries, in the order in which they came.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.mu.Unlock()
	if !s.options.Now.IsZero() {
		w.Header().Set("Date", s.options.Now.UTC().Format(http.TimeFormat))
	}
	if s.options.Inject != nil {
		if status := s.options.Inject(r); status != nil {
			fail(w, *status)
			return
		}
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "405: Method Not Allowed", http.StatusMethodNotAllowed)
	case r.URL.Path == "/version":
		write(w, map[string]string{"gitVersion": s.facts.Server})
	case len(parts) == 1 && s.serveDiscovery(w, schema.GroupVersion{}, parts[0]):
	case len(parts) == 2 && parts[0] == "api" && s.serveDiscovery(w, schema.GroupVersion{Version: parts[1]}, ""):
	case len(parts) == 3 && parts[0] == "apis" && s.serveDiscovery(w, schema.GroupVersion{Group: parts[1], Version: parts[2]}, ""):
	case len(parts) == 2 && parts[0] == "apis":
		s.serveGroup(w, r, parts[1])
	case len(parts) > 2 && parts[0] == "api":
		s.serveResource(w, r, schema.GroupVersion{Version: parts[1]}, parts[2:])
	case len(parts) > 3 && parts[0] == "apis":
		s.serveResource(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:])
	default:
		http.NotFound(w, r)
	}
}

// serveGroup is the discovery of one group: the version of the objects that the facts have of it.
func (s *Server) serveGroup(w http.ResponseWriter, r *http.Request, group string) {
	for _, gk := range s.facts.GroupKinds() {
		if gk.Group != group || snapshot.KindOf(gk) != nil {
			continue
		}
		gv := s.facts.All(gk)[0].GetObjectKind().GroupVersionKind().GroupVersion()
		write(w, metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: group,
			Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv.String(), Version: gv.Version}}})
		return
	}
	http.NotFound(w, r)
}

// serveResource answers [namespaces NS] RESOURCE [NAME] of one group and version.
func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion, parts []string) {
	var q snapshot.Query
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Resource = schema.GroupResource{Group: gv.Group, Resource: parts[0]}.String()
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	params := r.URL.Query()
	q.Fields, q.Labels = params.Get("fieldSelector"), params.Get("labelSelector")
	if s.options.Forbid != nil { // a real server too refuses before it says that there is no such kind
		if message := s.options.Forbid(q); message != "" {
			status := apierrors.NewForbidden(schema.ParseGroupResource(q.Resource), q.Name, errors.New(message)).ErrStatus
			status.Message = message
			fail(w, status)
			return
		}
	}
	kind, ok := s.kind(gv, q.Resource)
	if !ok || len(parts) > 2 {
		http.NotFound(w, r)
		return
	}
	if err := selectable(q); err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()).ErrStatus)
		return
	}
	objects := s.facts.Select(q)
	for i, o := range objects {
		if gvk := gv.WithKind(kind); o.GetObjectKind().GroupVersionKind() != gvk { // asked in an older version
			objects[i] = o.DeepCopyObject().(snapshot.Object)
			objects[i].GetObjectKind().SetGroupVersionKind(gvk)
		}
	}
	if q.Name != "" {
		if len(objects) == 0 {
			fail(w, apierrors.NewNotFound(schema.ParseGroupResource(q.Resource), q.Name).ErrStatus)
			return
		}
		s.send(w, r, objects[0], gv.WithKind(kind))
		return
	}
	page, err := s.page(params.Get("continue"), params.Get("limit"), len(objects), q.Resource == "events" || s.options.Uncached || params.Get("resourceVersion") != "0")
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()).ErrStatus)
		return
	}
	list, err := listOf(objects[page.from:page.to], gv.WithKind(kind+"List"), page)
	if err != nil {
		fail(w, apierrors.NewInternalError(err).ErrStatus)
		return
	}
	s.send(w, r, list, gv.WithKind(kind+"List"))
}

// kind of a resource, if it is served in that version. What comes from csidoctor itself no API server has.
func (s *Server) kind(gv schema.GroupVersion, resource string) (string, bool) {
	if slices.Contains(s.options.NotServed, resource) || gv.Group == "csidoctor.dev" {
		return "", false
	}
	if k := snapshot.ResourceOf(resource); k != nil {
		version := k.Version
		if v, ok := s.options.Versions[resource]; ok {
			version = v
		}
		return k.Group.Kind, gv.Version == version
	}
	for _, gk := range s.facts.GroupKinds() {
		if snapshot.VendorResource(gk) == resource {
			return gk.Kind, s.facts.All(gk)[0].GetObjectKind().GroupVersionKind().Version == gv.Version
		}
	}
	return "", false
}

// selectable refuses the fields that a real server does not select by (pkg/apis/core/v1/conversion.go of Kubernetes).
func selectable(q snapshot.Query) error {
	sel, err := fields.ParseSelector(q.Fields)
	if err != nil {
		return err
	}
	known := map[string][]string{
		"pods":   {"spec.nodeName", "status.phase"},
		"events": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason", "type"},
	}[q.Resource]
	for _, r := range sel.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" && !slices.Contains(known, r.Field) {
			return fmt.Errorf("field label not supported: %s", r.Field)
		}
	}
	return nil
}

type page struct {
	from, to, total int
}

func (s *Server) page(token, limit string, total int, paged bool) (page, error) {
	p := page{to: total, total: total}
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n > total {
			return p, fmt.Errorf("continue token %q is not one of this server", token)
		}
		p.from = n
	}
	if n, err := strconv.Atoi(limit); err == nil && n > 0 && paged {
		p.to = min(p.from+n, total)
	}
	return p, nil
}

// listOf makes the list type where the scheme has one, else a plain List of that kind.
func listOf(objects []snapshot.Object, gvk schema.GroupVersionKind, p page) (runtime.Object, error) {
	items := make([]runtime.Object, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	if !builtins.Recognizes(gvk) {
		list := &customList{TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Items: items}
		p.fill(&list.ListMeta)
		return list, nil
	}
	list, err := builtins.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := meta.SetList(list, items); err != nil { // copies
		return nil, err
	}
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // real servers leave it out of built-in lists
		return nil
	}); err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(gvk)
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	p.fill(m)
	return list, nil
}

func (p page) fill(m metav1.ListInterface) {
	m.SetResourceVersion("1")
	if p.to < p.total {
		left := int64(p.total - p.to)
		m.SetContinue(strconv.Itoa(p.to))
		m.SetRemainingItemCount(&left)
	}
}

type customList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []runtime.Object `json:"items"`
}

func (l *customList) DeepCopyObject() runtime.Object { c := *l; return &c }

// send answers in protobuf where the client accepts it and the kind has it, as the real server does.
func (s *Server) send(w http.ResponseWriter, r *http.Request, o runtime.Object, gvk schema.GroupVersionKind) {
	accept, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	if accept == runtime.ContentTypeProtobuf && builtins.Recognizes(gvk) {
		info, _ := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(builtins).SupportedMediaTypes(), accept)
		w.Header().Set("Content-Type", accept)
		if err := info.Serializer.Encode(o, w); err != nil {
			panic(err) // the connection breaks, which the test sees
		}
		return
	}
	write(w, o)
}

func fail(w http.ResponseWriter, status metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	if err := json.NewEncoder(w).Encode(status); err != nil {
		panic(err)
	}
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// builtins are the types that have a protobuf form.
var builtins = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()
