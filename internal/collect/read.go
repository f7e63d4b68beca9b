package collect

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	pageSize = 5000 // pages come one after the other: with kubectl's 500 the events of a large cluster are a hundred requests
	// A server that fails for a moment (a change of etcd's leader, say) is asked again. One that says when is so by client-go.
	maxTries = 3
	pause    = 200 * time.Millisecond
)

// read puts a query to one version of its kind.
func (l *Live) read(ctx context.Context, q snapshot.Query, v string) ([]snapshot.Object, error) {
	gvr := schema.ParseGroupResource(q.Resource).WithVersion(v)
	k := snapshot.ResourceOf(q.Resource)
	client, typed := l.builtin[gvr.GroupVersion()]
	typed = typed && k != nil

	if q.Name != "" {
		o, err := again(ctx, func() (runtime.Object, error) {
			if typed {
				return request(client, gvr, q).Name(q.Name).Do(ctx).Get()
			}
			return l.custom.Resource(gvr).Namespace(q.Namespace).Get(ctx, q.Name, metav1.GetOptions{})
		})
		if err != nil {
			return nil, err
		}
		d, err := decoded(k, o)
		if err != nil || !q.Matches(d) {
			return nil, err
		}
		return []snapshot.Object{l.kept(d)}, nil
	}

	var out []snapshot.Object
	sent := q.Sent()
	var dropped []string // the values by which the server does not select
	if sent != q {
		dropped = q.FieldValues()
	}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.Continue == "" { // the first page, or all at once because the pages expired
			out = nil
		}
		body, err := again(ctx, func() (io.ReadCloser, error) {
			r := l.raw.Get().AbsPath(listPath(gvr, q.Namespace)...)
			if typed {
				r = request(client, gvr, q)
			}
			return r.SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).Stream(ctx)
		})
		if err != nil {
			return nil, err
		}
		defer body.Close()
		list, err := decodeList(body, k, func(o snapshot.Object) error {
			if sent == q || q.Matches(o) {
				out = append(out, l.kept(o))
			}
			return nil
		}, dropped...)
		return &list, err
	})
	pages.PageSize = pageSize
	// The API server answers from its cache (resourceVersion=0), all at once, whatever the limit: that is milliseconds old, and costs no read of etcd
	// in any version. Pages are of what it does not cache: events, and all while it starts. Gets, which the target and its own objects are read by,
	// are always the newest.
	_, _, err := pages.List(ctx, metav1.ListOptions{FieldSelector: sent.Fields, LabelSelector: q.Labels, ResourceVersion: "0"})
	return out, err
}

func listPath(gvr schema.GroupVersionResource, namespace string) []string {
	path := []string{"/apis", gvr.Group, gvr.Version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, gvr.Resource)
}

// kept is what is kept of an object: no more than answers are made from, and no secret.
func (l *Live) kept(o snapshot.Object) snapshot.Object {
	snapshot.Trim(o)
	return l.shared.Redact(o, l.redact)
}

// again asks again what the server failed to answer and may answer in a moment.
func again[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		o, err := ask()
		if err == nil || try == maxTries || !passing(err) {
			return o, err
		}
		select {
		case <-time.After(time.Duration(try) * pause):
		case <-ctx.Done():
			return o, err
		}
	}
}

// passing: the server, or what stands before it, failed and did not refuse.
func passing(err error) bool {
	if _, told := apierrors.SuggestsClientDelay(err); told {
		return false // client-go has asked again, ten times
	}
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

func request(client rest.Interface, gvr schema.GroupVersionResource, q snapshot.Query) *rest.Request {
	return client.Get().Resource(gvr.Resource).NamespaceIfScoped(q.Namespace, q.Namespace != "")
}

// decoded gives an object the form that it has in a Snapshot.
func decoded(k *snapshot.Kind, o runtime.Object) (snapshot.Object, error) {
	u, ok := o.(*unstructured.Unstructured)
	if ok && k == nil {
		return u, nil
	}
	if ok {
		raw, err := u.MarshalJSON()
		if err != nil {
			return nil, err
		}
		return snapshot.Decode(raw)
	}
	typed, ok := o.(snapshot.Object)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T", o)
	}
	typed.GetObjectKind().SetGroupVersionKind(k.Group.WithVersion(k.Version)) // wire formats leave it out of lists
	return typed, nil
}
