package carrier

import (
	"context"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is what must be allowed in the namespace of the Jobs. deploy/prober.yaml is made from these.
type Right struct {
	Group, Resource, Subresource string
	Verbs                        []string
	Why                          string
}

// Rights are all that --probe, and the command cleanup, use. WebSocket connections are a get of pods/exec for servers before
// 1.35, and a create for those since.
var Rights = []Right{
	{"batch", "jobs", "", []string{"create", "delete", "list"}, "the Job that runs the probe, and its removal"},
	{"", "pods", "", []string{"delete", "get", "list"}, "how far its pod is"},
	{"", "pods", "log", []string{"get"}, "the report of an image that has csidoctor-probe"},
	{"", "pods", "exec", []string{"create", "get"}, "sending the program into an image that is on the node, and the report that comes back; alone it is enough for --probe-via exec"},
	{"", "events", "", []string{"list"}, "why a pod is not made, or does not start"},
}

// needed are the rights without which no probe is begun.
var needed = []authorizationv1.ResourceAttributes{
	{Group: "batch", Resource: "jobs", Verb: "create"},
	{Group: "batch", Resource: "jobs", Verb: "delete"},
	{Resource: "pods", Verb: "list"},
}

// May asks the API server for the rights before anything is made. Missing are those without which there is no probe, in words;
// exec tells whether a program may be sent into a container. An API server that does not say is taken for one that allows:
// what it refuses then is said by the refusal.
func (c *Carrier) May(ctx context.Context) (missing []string, exec bool) {
	if c.Exec { // in which namespace is not known yet
		return nil, true
	}
	ask := append(needed[:len(needed):len(needed)], authorizationv1.ResourceAttributes{Resource: "pods", Subresource: "exec", Verb: "create"})
	if c.Image != "" {
		ask = append(ask, authorizationv1.ResourceAttributes{Resource: "pods", Subresource: "log", Verb: "get"})
	}
	denied := make([]bool, len(ask))
	var group sync.WaitGroup
	for i, a := range ask {
		a.Namespace = c.Namespace
		group.Go(func() {
			r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
			answer, err := c.auth.SelfSubjectAccessReviews().Create(ctx, r, metav1.CreateOptions{})
			denied[i] = err == nil && !answer.Status.Allowed
		})
	}
	group.Wait()
	exec = true
	for i, a := range ask {
		switch {
		case denied[i] && a.Subresource == "exec":
			exec = false
		case denied[i]:
			missing = append(missing, fmt.Sprintf("%s %s", a.Verb, strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")))
		}
	}
	return missing, exec
}

// Lacking is the failure of a node that is not probed for want of rights.
func (c *Carrier) Lacking(node string, missing []string) *Failure {
	return &Failure{Node: node,
		Detail: fmt.Sprintf("in namespace %s you may not %s", c.Namespace, strings.Join(missing, ", nor ")),
		Remedy: fmt.Sprintf("ask for the role in deploy/prober.yaml in namespace %s (check with `kubectl auth can-i create jobs.batch -n %s`), or %s", c.Namespace, c.Namespace, byHand)}
}
