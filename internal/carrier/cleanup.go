package carrier

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stray is a Job or a pod of csidoctor's. Why is empty where it was removed, else why it could not be.
type Stray struct {
	Kind, Namespace, Name string
	Node                  string // of a pod
	Why                   string
}

// Cleanup removes all Jobs and pods of csidoctor's, of one namespace or, where it is empty, of all, and waits until they are
// gone, for as long as the context lasts. The error is of the search: without it no stray is left that is not in the list.
func (c *Carrier) Cleanup(ctx context.Context, namespace string) ([]Stray, error) {
	mine := metav1.ListOptions{LabelSelector: managedBy + "=" + ours}
	jobs, err := c.batch.Jobs(namespace).List(ctx, mine)
	if err != nil {
		return nil, fmt.Errorf("look for Jobs of csidoctor's: %w", err)
	}
	pods, err := c.core.Pods(namespace).List(ctx, mine)
	if err != nil {
		return nil, fmt.Errorf("look for pods of csidoctor's: %w", err)
	}
	var out []Stray
	for _, j := range jobs.Items {
		s := Stray{Kind: "Job", Namespace: j.Namespace, Name: j.Name}
		if err := c.delete(ctx, j.Namespace, j.Name); err != nil {
			s.Why = err.Error()
		}
		out = append(out, s)
	}
	for _, p := range pods.Items {
		s := Stray{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName}
		if err := c.core.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Why = err.Error()
		}
		out = append(out, s)
	}
	for i := range out {
		if s := &out[i]; s.Kind == "Pod" && s.Why == "" {
			s.Why = c.waitGone(ctx, s)
		}
	}
	slices.SortFunc(out, func(a, b Stray) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// waitGone waits for a pod's end, which its kubelet has to confirm. Empty: it is gone.
func (c *Carrier) waitGone(ctx context.Context, s *Stray) string {
	for {
		pod, err := c.core.Pods(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case apierrors.IsForbidden(err):
			return "whether it is gone cannot be seen: " + err.Error()
		}
		select {
		case <-time.After(every):
			continue
		case <-ctx.Done():
		}
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		node, nodeErr := c.core.Nodes().Get(short, s.Node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(nodeErr):
			return fmt.Sprintf("its node %s does not exist any more: the control plane's pod collector removes it soon", s.Node)
		case nodeErr == nil && notReady(node) != "":
			return fmt.Sprintf("its node %s does not answer (Ready is %s), and the kubelet there must confirm its end: it goes when the node is back, or with the Node object", s.Node, notReady(node))
		case err != nil:
			return err.Error()
		}
		return fmt.Sprintf("it is still ending%s", finalizers(pod))
	}
}

func finalizers(p *corev1.Pod) string {
	if len(p.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(", held by %q", p.Finalizers)
}
