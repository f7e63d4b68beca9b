// Package carrier brings the node's side of csidoctor to nodes through the API: it makes a Job with one privileged pod on a
// node, takes the report that comes back, and removes the Job, however that ends. Or it makes nothing, and sends the program
// into a container that runs privileged there already.
//
// It is the only part of csidoctor that changes anything in a cluster, and it changes no more than that. It knows how such a
// pod is made, why one does not start, and what a report that came must look like; it draws no conclusion from a report. It
// refuses nodes that are not Ready, and, where no image is named, every image that does not run privileged on the node already.
package carrier

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Usual settings of Options.
const (
	Namespace = "kube-system" // privileged pods are allowed there on almost every cluster
	Timeout   = time.Minute   // an image may have to be pulled
)

// Options are what a Carrier is made with.
type Options struct {
	Namespace  string        // where Jobs are made
	Image      string        // has csidoctor-probe or a shell; empty: images that run privileged on the node already
	PullSecret string        // of Namespace, for Image
	Exec       bool          // make no pod: send the program into a container that runs privileged on the node; the three above do not matter
	Timeout    time.Duration // until the report is there
	UserAgent  string
	// Say tells how far a node is, in a few words; from several goroutines. It may be nil.
	Say func(node, what string)
}

// Carrier talks to one cluster.
type Carrier struct {
	Options
	config *rest.Config
	core   coreclient.CoreV1Interface
	batch  batchclient.BatchV1Interface
	auth   authorizationclient.AuthorizationV1Interface
	exec   executor
}

// New makes a Carrier with the client's configuration; nothing is sent yet.
func New(found *rest.Config, o Options) (*Carrier, error) {
	config := rest.CopyConfig(found)
	config.UserAgent = o.UserAgent
	config.QPS = -1
	config.Timeout = 0 // it would end streams too
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w", config.Host, err)
	}
	c := &Carrier{Options: o, config: config}
	c.exec = c.stream
	if c.Say == nil {
		c.Say = func(string, string) {}
	}
	core, err := coreclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	batch, err := batchclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	auth, err := authorizationclient.NewForConfigAndClient(config, client)
	c.core, c.batch, c.auth = core, batch, auth
	return c, err
}

// Target is one node to be probed, with the pods that run there.
type Target struct {
	Name string
	Node *corev1.Node // nil: there is none of that name
	Pods []*corev1.Pod
}

// Failure is why a node was not probed, and what can be done.
type Failure struct {
	Node, Detail, Remedy string
	// Left: the Job could not be removed; it ends by itself, and Job says which one it is.
	Left bool
	Job  string
}

// Error is the detail.
func (f *Failure) Error() string { return f.Detail }

// Gap is the failure as the snapshot has it. A node that could not be probed is no more than one that nobody probed: the
// API's side is judged as without.
func (f *Failure) Gap() *snapshot.Gap {
	return &snapshot.Gap{Input: "node-report", Reason: "not-probed", Detail: fmt.Sprintf("node %s could not be probed: %s", f.Node, f.Detail), Remedy: f.Remedy}
}

// Remedies that more than one failure has.
const (
	byHand  = "run csidoctor-probe on the node as root (over ssh, or with kubectl debug), and read its report with --from"
	another = "name another image with --probe-image, one that is on the node or can be pulled there, and has csidoctor-probe or a shell"
	ownPod  = "let a pod be made for it, without --probe-via exec"
)

// Plan is what will be made for one node: see Carrier.Plan.
type Plan struct {
	Target
	images  []image
	secrets []corev1.LocalObjectReference
	places  []place // of Options.Exec, the best first
}

// Images that the pod's containers have.
func (p Plan) Images() []string {
	var out []string
	for _, i := range p.images {
		out = append(out, i.name)
	}
	return out
}

// Places are the containers that the program may be sent into.
func (p Plan) Places() []string {
	var out []string
	for _, at := range p.places {
		out = append(out, at.String())
	}
	return out
}

// Plan chooses the images for a node; nothing is sent. The error is a *Failure.
func (c *Carrier) Plan(t Target, mayExec bool) (Plan, error) {
	p := Plan{Target: t}
	fail := func(remedy, detail string, args ...any) (Plan, error) {
		return p, &Failure{Node: t.Name, Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
	}
	if t.Node == nil {
		return fail("find out where it went: `kubectl get nodes`", "there is no such node")
	}
	if len(validation.NameIsDNSSubdomain(t.Name, false)) > 0 {
		return fail(byHand, "its name is none that the API server allows")
	}
	info := t.Node.Status.NodeInfo
	if info.OperatingSystem != "linux" && info.OperatingSystem != "" {
		return fail("look on the node itself", "it runs %s, and only Linux nodes can be probed", info.OperatingSystem)
	}
	if why := notReady(t.Node); why != "" {
		return fail(byHand, "it is not Ready (%s), so its kubelet would start no pod", why)
	}
	shells := mayExec && program(info.Architecture) != nil
	if c.Image != "" && !c.Exec {
		p.images = append(p.images, image{name: c.Image, program: true})
		if shells {
			p.images = append(p.images, image{name: c.Image})
		}
		if c.PullSecret != "" {
			p.secrets = []corev1.LocalObjectReference{{Name: c.PullSecret}}
		}
		return p, nil
	}
	switch {
	case program(info.Architecture) == nil:
		return fail("name an image that has csidoctor-probe with --probe-image; plugins that `make build` or a release made carry the program themselves", "this plugin carries no program for the node's processor (%s)", info.Architecture)
	case c.Exec:
		if p.places = roomy(t.Pods); len(p.places) == 0 {
			return fail(ownPod+"; or "+byHand, "no container with room for the program (%s of memory, or no limit) runs privileged there", needs)
		}
		return p, nil
	case !mayExec:
		return fail("ask for the right to create pods/exec there, or name an image that has csidoctor-probe with --probe-image", "sending the program to the node needs the right to create pods/exec in namespace %s", c.Namespace)
	}
	p.images, p.secrets = onNode(t.Pods, c.Namespace)
	if len(p.images) == 0 {
		return fail(another, "no container runs privileged there, and images of others are not trusted with the node")
	}
	return p, nil
}

func notReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return fmt.Sprintf("%s since %s: %s", c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Reason)
		}
	}
	return "its kubelet never said so"
}

// Probe carries out plans side by side. For each node there is a report, or a failure.
func (c *Carrier) Probe(ctx context.Context, plans []Plan) ([]*nodereport.NodeReport, []*Failure) {
	reports, failures := make([]*nodereport.NodeReport, len(plans)), make([]*Failure, len(plans))
	var group sync.WaitGroup
	for i, p := range plans {
		group.Go(func() { reports[i], failures[i] = c.one(ctx, p) })
	}
	group.Wait()
	return reports, failures
}

// one probes one node. Whatever happens, the Job's removal was asked for when it returns, unless it surely never was.
func (c *Carrier) one(ctx context.Context, p Plan) (report *nodereport.NodeReport, failure *Failure) {
	run, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var err error
	if c.Exec {
		report, err = c.visit(run, p)
	} else {
		job := c.Job(p, "csidoctor-probe-"+strings.ToLower(rand.Text()[:8]), "frame")
		made := unsure
		defer func() { // when this panics too
			if made == no {
				return
			}
			if err := c.remove(ctx, job.Name, made); err != nil {
				if failure == nil {
					failure = &Failure{Node: p.Name}
				}
				failure.Left, failure.Job = true, fmt.Sprintf("%s/%s (%s)", c.Namespace, job.Name, err)
			}
		}()
		report, err = c.carry(run, job, p, &made)
	}
	var known *Failure
	switch {
	case err == nil:
		c.Say(p.Name, "has reported")
		return report, nil
	case errors.As(err, &known):
		failure = known
	case ctx.Err() != nil:
		failure = &Failure{Detail: "it was interrupted", Remedy: "try again"}
	case run.Err() != nil:
		failure = &Failure{Detail: fmt.Sprintf("no report within %s: %s", c.Timeout, err), Remedy: "give it more time with --probe-timeout; or " + byHand}
	default:
		failure = &Failure{Detail: err.Error(), Remedy: "try again; or " + byHand}
	}
	failure.Node = p.Name
	return nil, failure
}

// existence of a Job that the API server was asked to make.
type existence int

const (
	unsure existence = iota // no answer came
	yes
	no
)
