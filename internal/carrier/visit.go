package carrier

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// place is a container that a program can be sent into.
type place struct{ namespace, pod, container string }

func (p place) String() string { return fmt.Sprintf("%s/%s (%s)", p.namespace, p.pod, p.container) }

// usualFolders are those in which a container can have a program that is none of its image's.
const usualFolders = "/tmp /var/tmp /run /dev/shm"

// roomy are the containers of a node that the program may be sent into: they run privileged, and their memory's limit has room
// for it, since beyond that the kernel ends all that is in the container. From one that sees the host's processes all is to be
// seen, so these come first, then those with the kubelet's folders.
func roomy(pods []*corev1.Pod) (out []place) {
	room := resource.MustParse(needs)
	for _, r := range privileged(pods, func(p *corev1.Pod) bool { return p.Spec.HostPID }, mountsKubelet) {
		if limit, ok := r.container.Resources.Limits[corev1.ResourceMemory]; (!ok || limit.Cmp(room) >= 0) && len(out) < maxImages {
			out = append(out, place{r.pod.Namespace, r.pod.Name, r.container.Name})
		}
	}
	return out
}

// visit takes the report from a program in a container that is there; from the first that it can run in.
func (c *Carrier) visit(ctx context.Context, p Plan) (*nodereport.NodeReport, error) {
	var said []string
	remedy := "try again; or " + byHand
	for _, at := range p.places {
		c.Say(p.Name, "is sent the program, into "+at.String())
		output, err := c.send(ctx, at, p.Name, program(p.Node.Status.NodeInfo.Architecture))
		if err == nil {
			return read(output, p)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		var f *Failure
		if errors.As(err, &f) && len(said) == 0 { // the first is the one that shows most
			remedy = f.Remedy
		}
		said = append(said, at.String()+": "+err.Error())
	}
	return nil, &Failure{Detail: strings.Join(said, "; "), Remedy: remedy}
}
