package collect

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	pageSize = 500 // kubectl's
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

	// Of a list no more than one page is held as it came: what is kept of its objects is taken out before the next is asked for.
	var out []snapshot.Object
	keep := func(o runtime.Object) error {
		d, err := decoded(k, o)
		if err == nil {
			out = append(out, l.kept(d))
		}
		return err
	}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.Continue == "" { // the first page, or all at once because the pages expired
			out = nil
		}
		if !typed {
			list, err := again(ctx, func() (*unstructured.UnstructuredList, error) {
				return l.custom.Resource(gvr).Namespace(q.Namespace).List(ctx, o)
			})
			if err != nil {
				return nil, err
			}
			return emptied(list, keep)
		}
		answer, err := again(ctx, func() (rest.Result, error) {
			r := request(client, gvr, q).VersionedParams(&o, metav1.ParameterCodec).Do(ctx)
			return r, r.Error() // Raw alone does not read what the server says of a refusal
		})
		if err != nil {
			return nil, err
		}
		body, err := answer.Raw()
		if err != nil {
			return nil, err
		}
		if isProtobuf(body) {
			list, err := decodePage(body, k, keep)
			return &list, err
		}
		list, err := answer.Get()
		if err != nil {
			return nil, err
		}
		return emptied(list, keep)
	})
	pages.PageSize = pageSize
	// What a selector narrows is answered from the API server's cache (resourceVersion=0): it is milliseconds old and costs no
	// read of etcd, where before 1.31 a list by node would read every pod. A server ignores the limit then, so a list that may
	// be long is not asked for so. Gets, which the target and its own objects are read by, are always the newest.
	o := metav1.ListOptions{FieldSelector: q.Fields, LabelSelector: q.Labels}
	if q.Fields+q.Labels != "" {
		o.ResourceVersion = "0"
	}
	_, _, err := pages.List(ctx, o)
	return out, err
}

// emptied is what is left of a list when each of its objects was taken.
func emptied(list runtime.Object, take func(runtime.Object) error) (runtime.Object, error) {
	if err := meta.EachListItem(list, take); err != nil {
		return nil, err
	}
	return list, meta.SetList(list, nil)
}

// kept is what is kept of an object: no more than answers are made from, and no secret.
func (l *Live) kept(o snapshot.Object) snapshot.Object {
	snapshot.Trim(o)
	if l.redact != nil {
		o = l.redact(o)
	}
	l.shared.Share(o)
	return o
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
