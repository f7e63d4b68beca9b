package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// LiveOptions are what a cluster is asked with.
type LiveOptions struct {
	UserAgent string // csidoctor/VERSION
	// Redact sees every object before anything else does, from several goroutines, and may change it; nil: as it is.
	Redact func(snapshot.Object) snapshot.Object
	// Logs: the logs of pods that an answer asks for are read; without it they are gaps.
	Logs bool
}

// Live asks a cluster. It is not limited on the client's side: the server's fairness rules know better.
type Live struct {
	host    string
	redact  func(snapshot.Object) snapshot.Object
	logs    bool
	shared  snapshot.Shared
	wire    *wire
	builtin map[schema.GroupVersion]rest.Interface // protobuf
	raw     rest.Interface                         // JSON, any path
	custom  dynamic.Interface                      // JSON: custom kinds, and versions of built-in ones that have no Go type here
}

// NewLive reads the client's configuration as kubectl does; nothing is sent yet.
func NewLive(getter genericclioptions.RESTClientGetter, o LiveOptions) (*Live, error) {
	found, err := getter.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w; name one with --kubeconfig or --context, or read files with --from", err)
	}
	config := rest.CopyConfig(found)
	config.UserAgent = o.UserAgent
	config.QPS = -1
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil
	if o.Redact == nil {
		o.Redact = func(o snapshot.Object) snapshot.Object { return o }
	}
	l := &Live{host: config.Host, redact: o.Redact, logs: o.Logs, wire: &wire{}, builtin: map[schema.GroupVersion]rest.Interface{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		l.wire.next = next
		return l.wire
	})
	// One client of HTTP for all groups, so that they share connections.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w; check the kubeconfig's certificates and user", config.Host, err)
	}
	codecs := serializer.NewCodecFactory(builtins).WithoutConversion()
	for _, gv := range builtins.PrioritizedVersionsAllGroups() {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &gv, "/apis", codecs
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		if l.builtin[gv], err = rest.RESTClientForConfigAndClient(c, client); err != nil {
			return nil, fmt.Errorf("set up the client for %s: %w", gv, err)
		}
	}
	if l.raw, err = rest.UnversionedRESTClientForConfigAndClient(dynamic.ConfigFor(config), client); err != nil {
		return nil, fmt.Errorf("set up the client for custom objects: %w", err)
	}
	l.custom = dynamic.New(l.raw)
	return l, nil
}

// builtins has no more than the kinds that are asked for: the whole of client-go's scheme takes longer to start than an answer.
var builtins = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two Go types under one name: cannot happen with these
		}
	}
	return s
}()

// Requests counts what went over the wire, retries and pages too.
func (l *Live) Requests() int { return int(l.wire.requests.Load()) }

// Clock is the earliest Date that the server gave: by a later one a lease that was read first would look staler than it was.
func (l *Live) Clock() (time.Time, []string) { return l.wire.clock() }

// Version is worth no failure: an answer stands without it.
func (l *Live) Version(ctx context.Context) string {
	body, err := l.raw.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return ""
	}
	var info version.Info
	if json.Unmarshal(body, &info) != nil {
		return ""
	}
	return info.GitVersion
}

// Fetch puts one query to the API.
func (l *Live) Fetch(ctx context.Context, q snapshot.Query) Answer {
	if q.Resource == logExcerpts && l.logs {
		return l.excerpts(ctx, q)
	}
	if g := unasked(q); g != nil {
		return Answer{Gap: g}
	}
	if len(content.IsPathSegmentName(q.Name))+len(content.IsPathSegmentName(q.Namespace)) > 0 {
		return Answer{} // a name that no object can have, out of a broken reference: there is none
	}
	versions, err := l.versions(ctx, q)
	var objects []snapshot.Object
	for _, v := range versions {
		if objects, err = l.read(ctx, q, v); err == nil || !noSuchType(err) {
			break
		}
	}
	switch {
	case err != nil && noSuchType(err) && optional(q.Resource):
		return Answer{} // not served: there is none
	case err != nil && apierrors.IsNotFound(err) && !noSuchType(err):
		return Answer{} // served, and there is none of that name
	case err != nil:
		return l.failure(ctx, q, err)
	}
	return Answer{Objects: objects}
}

// optional: a cluster may do without it, and then has no object of it.
func optional(resource string) bool {
	k := snapshot.ResourceOf(resource)
	return k == nil || !builtins.IsGroupRegistered(k.Group.Group) || resource == "volumeattributesclasses.storage.k8s.io"
}

// versions gives those to try. A vendor's kind is served in whatever version its group says first.
func (l *Live) versions(ctx context.Context, q snapshot.Query) ([]string, error) {
	if k := snapshot.ResourceOf(q.Resource); k != nil {
		switch {
		case q.Resource == "volumeattributesclasses.storage.k8s.io":
			return []string{k.Version, "v1beta1", "v1alpha1"}, nil // since 1.34, 1.31 and 1.29
		case k.Group.Group == "snapshot.storage.k8s.io":
			return []string{k.Version, "v1beta1"}, nil // until the definitions are those of external-snapshotter 4 or later
		}
		return []string{k.Version}, nil
	}
	var group metav1.APIGroup
	body, err := again(ctx, func() ([]byte, error) {
		return l.raw.Get().AbsPath("/apis", schema.ParseGroupResource(q.Resource).Group).Do(ctx).Raw()
	})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &group); err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", q.Resource, err)
	}
	var versions []string
	for _, v := range group.Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// noSuchType tells a resource that is not served from an object that does not exist: the latter is a Status of the server
// that names the object, the former a bare 404 page.
func noSuchType(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	d := details(err)
	return d == nil || d.Name == "" || bare(err)
}

// bare: no Status came, only an HTTP code; whatever sent it need not be an API server.
func bare(err error) bool {
	d := details(err)
	return d != nil && slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

func details(err error) *metav1.StatusDetails {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return nil
	}
	return s.Status().Details
}

// failure makes a gap of an error.
func (l *Live) failure(ctx context.Context, q snapshot.Query, err error) Answer {
	reason := "failed"
	switch {
	case apierrors.IsForbidden(err):
		reason = "forbidden"
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		reason = "expired"
	case noSuchType(err):
		reason = "not-served"
	case ctx.Err() != nil || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || isTimeout(err):
		reason = "timeout"
	}
	g := &snapshot.Gap{Reason: reason, Detail: err.Error(), Remedy: remedy(reason, q)}

	var status apierrors.APIStatus
	answered := errors.As(err, &status) && (!bare(err) || reason == "forbidden")
	switch {
	case apierrors.IsUnauthorized(err):
		g.Detail = fmt.Sprintf("the API server %s does not accept the credentials: %s", l.host, err)
		g.Remedy = "log in again, and check with: kubectl auth whoami"
		return Answer{Gap: g, Silent: true}
	case !answered:
		var sent *url.Error
		if errors.As(err, &sent) {
			g.Detail = fmt.Sprintf("no answer from the API server %s: %s", l.host, sent.Err)
		} else {
			g.Detail = fmt.Sprintf("%s does not answer as a Kubernetes API server: %s", l.host, err)
		}
		g.Remedy = "check the context and the network to it (kubectl version must answer), or read files with --from"
		switch {
		case reason == "timeout":
			g.Remedy = "give it more time with --request-timeout=60s; " + g.Remedy
		case l.host == "http://localhost:8080": // kubectl's default where nothing is configured
			g.Remedy = "no kubeconfig names a cluster: give one with --kubeconfig or KUBECONFIG, or read files with --from"
		}
		return Answer{Gap: g, Silent: true}
	}
	return Answer{Gap: g}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
