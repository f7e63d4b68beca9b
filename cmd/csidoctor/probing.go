package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/carrier"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// probeImage is the image that has csidoctor-probe, with its digest; a release's build may set it. None is known by itself.
var probeImage string

const (
	maxProbed = 8 // nodes of one answer: a pod on each is as much as one may make without being asked again
	// The first reports may show that another node matters.
	probeRounds = 2
)

// probing are --probe and its flags.
type probing struct {
	on  bool
	via string // a way of ways
	carrier.Options
}

// ways in which the program comes to a node.
var ways = []string{"job", "exec"}

func (p *probing) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&p.on, "probe", false, "also look on the nodes that matter: makes a privileged pod on each, which reads, changes nothing and is removed when it has reported")
	flags.StringVar(&p.via, "probe-via", ways[0], "job: make a pod on the node; exec: make none, and run the program in a container that runs privileged there already, as the driver's own")
	p.addPodFlags(flags)
}

func (p *probing) addPodFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.Image, "probe-image", probeImage, "the pod's image: with csidoctor-probe, or any with a shell. Without it: one that runs privileged on the node already")
	flags.StringVar(&p.PullSecret, "probe-pull-secret", "", "the Secret to pull --probe-image with, in the pod's namespace")
	flags.StringVar(&p.Namespace, "probe-namespace", carrier.Namespace, "where the pod is made; the namespace must allow privileged pods")
	flags.DurationVar(&p.Timeout, "probe-timeout", carrier.Timeout, "how long to wait for a node's report, beside --request-timeout")
}

func (p *probing) check() error {
	if p.Exec = p.via == ways[1]; p.via != "" && !slices.Contains(ways, p.via) { // empty: the command has no such flag
		return fmt.Errorf("--probe-via %q is none of %s", p.via, strings.Join(ways, ", "))
	}
	if p.Timeout <= 0 || p.Timeout > time.Hour {
		return fmt.Errorf("--probe-timeout %s is no time to wait", p.Timeout)
	}
	return nil
}

// carrier is set up from the same configuration as the source.
func (o *options) carrier() (*carrier.Carrier, error) {
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	settings := o.probing.Options
	settings.UserAgent = "csidoctor/" + version
	settings.Say = o.progress()
	return carrier.New(config, settings)
}

// progress is for who watches; a log gets the announcement alone.
func (o *options) progress() func(node, what string) {
	f, ok := o.ErrOut.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	begun := time.Now()
	var mu sync.Mutex
	return func(node, what string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(f, "  %4.1fs %s: %s\n", time.Since(begun).Seconds(), node, render.Clean(what))
	}
}

// probed asks again, with reports of the nodes that matter. Whatever cannot be probed is a gap: the API's side is answered from
// all the same.
func (o *options) probed(ctx context.Context, kept *collect.Kept, target explain.Target, opts explain.Options, d explain.Diagnosis, s *snapshot.Snapshot) (explain.Diagnosis, *snapshot.Snapshot, error) {
	c, err := o.carrier()
	if err != nil {
		return d, nil, err
	}
	tried := map[string]bool{}
	var failed []*carrier.Failure
	for range probeRounds {
		nodes := slices.DeleteFunc(d.Nodes(), func(n string) bool { return tried[n] })
		if len(nodes) == 0 {
			break
		}
		for _, n := range nodes {
			tried[n] = true
		}
		more := o.reports(ctx, c, kept, nodes)
		failed = append(failed, more...)
		if ctx.Err() != nil {
			return d, nil, fmt.Errorf("interrupted while nodes were probed: %w", ctx.Err())
		}
		var stats collect.Stats
		if s, stats, err = o.walk(ctx, kept, target, opts); err != nil {
			return d, nil, err
		}
		o.note(stats)
		d, _ = explain.Explain(s, target, opts)
	}
	if len(tried) == 0 {
		fmt.Fprintln(o.ErrOut, "note: no node has a part in this, so none is probed")
	}
	for _, f := range failed {
		if f.Detail != "" {
			g := f.Gap()
			d.NoteGap(explain.Gap{Input: g.Input, Object: &explain.Object{Kind: "Node", Name: f.Node}, Reason: g.Reason, Detail: bundle.RedactText(g.Detail), Remedy: g.Remedy})
		}
	}
	return d, s, nil
}

// reports probes nodes, and puts what came where the walk finds it. All that fails comes back.
func (o *options) reports(ctx context.Context, c *carrier.Carrier, kept *collect.Kept, nodes []string) (failed []*carrier.Failure) {
	short, cancel := o.withDeadline(ctx)
	defer cancel()
	missing, mayExec := c.May(short)
	var plans []carrier.Plan
	for i, n := range nodes {
		var why *carrier.Failure
		switch {
		case len(missing) > 0:
			why = c.Lacking(n, missing)
		case i >= maxProbed:
			why = &carrier.Failure{Node: n, Detail: fmt.Sprintf("no more than %d nodes are probed for one answer", maxProbed), Remedy: "ask about one pod, or about the node"}
		default:
			p, err := c.Plan(nodeTarget(short, kept, n), mayExec)
			if err == nil {
				plans = append(plans, p)
			} else if !errors.As(err, &why) {
				why = &carrier.Failure{Node: n, Detail: err.Error()}
			}
		}
		if why != nil {
			failed = append(failed, why)
			fmt.Fprintln(o.ErrOut, render.Clean(fmt.Sprintf("not probed: node %s: %s; %s", n, bundle.RedactText(why.Detail), why.Remedy)))
		}
	}
	if len(plans) > 0 {
		o.announce(plans)
		reports, failures := c.Probe(ctx, plans)
		for i, r := range reports {
			f := failures[i]
			if f != nil {
				failed = append(failed, f)
			}
			if f != nil && f.Left {
				fmt.Fprintln(o.ErrOut, render.Clean(fmt.Sprintf("warning: Job %s could not be removed; it ends by itself and is removed then, or by: kubectl csidoctor cleanup", f.Job)))
			}
			if r != nil {
				o.untold(r)
				report := &snapshot.NodeReport{
					TypeMeta: metav1.TypeMeta{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind}, ObjectMeta: metav1.ObjectMeta{Name: r.Metadata.Name}, Report: *r,
				}
				kept.Put(explain.Report(report.Name), collect.Answer{Objects: []snapshot.Object{bundle.Redact(report)}})
			}
		}
	}
	for _, f := range failed {
		if f.Detail != "" {
			g := f.Gap()
			g.Detail = bundle.RedactText(g.Detail)
			kept.Put(explain.Report(f.Node), collect.Answer{Gap: g})
		}
	}
	return failed
}

// untold says of a report what it lacks that conclusions rest on; the answer has it as a gap where it matters.
func (o *options) untold(r *nodereport.NodeReport) {
	for _, g := range explain.Untold(r) {
		fmt.Fprintln(o.ErrOut, render.Clean(fmt.Sprintf("note: the report of node %s lacks %s: %s", r.Metadata.Name, g.What, g.Reason)))
	}
}

// nodeTarget reads a node and its pods, as the walk would. What cannot be read of them leaves less to choose from.
func nodeTarget(ctx context.Context, src collect.Source, node string) carrier.Target {
	t := carrier.Target{Name: node}
	for _, o := range src.Fetch(ctx, snapshot.Query{Resource: "nodes", Name: node}).Objects {
		t.Node, _ = o.(*corev1.Node)
	}
	for _, o := range src.Fetch(ctx, snapshot.Query{Resource: "pods", Fields: "spec.nodeName=" + node}).Objects {
		if p, ok := o.(*corev1.Pod); ok {
			t.Pods = append(t.Pods, p)
		}
	}
	return t
}

func (o *options) announce(plans []carrier.Plan) {
	var nodes, images, places []string
	for _, p := range plans {
		nodes = append(nodes, p.Name)
		images = append(images, p.Images()...)
		places = append(places, p.Places()...)
	}
	if o.probing.Exec {
		fmt.Fprintf(o.ErrOut, "probing %s: a program is sent into the first that can run it of %s, reads there, changes nothing, and is gone when it has reported, or after %s\n",
			strings.Join(nodes, ", "), render.Clean(strings.Join(places, ", ")), carrier.Within)
		return
	}
	slices.Sort(images)
	fmt.Fprintf(o.ErrOut, "probing %s: a privileged pod in namespace %s (%s) reads there, changes nothing, and is removed when it has reported, or after %s\n",
		strings.Join(nodes, ", "), cmp.Or(o.probing.Namespace, carrier.Namespace), render.Clean(strings.Join(slices.Compact(images), ", ")), o.probing.Timeout)
}
