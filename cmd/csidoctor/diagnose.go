package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func newDiagnose(o *options, k kind) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use: k.Names[0] + " [NAME]", Aliases: k.Names[1:], Short: k.Short,
		Long:              k.Short + ".\n\nWithout a name: one line for each, the worst first.",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completeNames(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			switch {
			case len(args) == 0 && keep != "":
				return errors.New("--bundle keeps what the answer about one NAME rests on")
			case len(args) == 0 && o.probing.on:
				return errors.New("--probe looks at what matters to one NAME")
			case len(args) == 0:
				return o.printList(cmd.Context(), k)
			case keep == "-":
				return errors.New("--bundle wants a file: standard output has the answer")
			}
			return o.printOne(cmd.Context(), k, args[0], keep)
		},
	}
	cmd.Flags().StringVar(&keep, "bundle", "", "also write what the answer rests on into this file (.tar.gz), to be asked again with --from")
	if k.Kind != "VolumeSnapshot" { // no node has a part in one
		o.probing.addFlags(cmd.Flags())
	}
	return cmd
}

// source is where facts come from: the input of --from, or the cluster.
func (o *options) source() (collect.Source, error) {
	if len(o.from) == 0 {
		live, err := collect.NewLive(o.kube, collect.LiveOptions{UserAgent: "csidoctor/" + version, Redact: bundle.RedactOwn, Logs: o.logs})
		return masked{live}, err
	}
	full, report, err := bundle.Read(o.from[0], o.In, o.from[1:]...)
	if err != nil {
		return nil, err
	}
	for _, w := range report.Lines() {
		fmt.Fprintln(o.ErrOut, "warning:", w)
	}
	return collect.Files(full), nil
}

// masked says of a refusal what a bundle would: the same text, without secrets.
type masked struct{ collect.Source }

func (m masked) Fetch(ctx context.Context, q snapshot.Query) collect.Answer {
	a := m.Source.Fetch(ctx, q)
	if a.Gap != nil {
		g := *a.Gap
		g.Detail, g.Remedy = bundle.RedactText(g.Detail), bundle.RedactText(g.Remedy)
		a.Gap = &g
	}
	return a
}

// namespace is the one that was given, else the kubeconfig's; of files the one that holds the name, if it is only one.
func (o *options) namespace(ctx context.Context, src collect.Source, k kind, name string) (string, error) {
	if !k.Namespaced {
		return "", nil
	}
	if n := *o.kube.Namespace; n != "" {
		return n, nil
	}
	if len(o.from) == 0 {
		n, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
		return n, err
	}
	have := map[string]bool{}
	for _, found := range src.Fetch(ctx, snapshot.Query{Resource: k.Resource}).Objects {
		if name == "" || found.GetName() == name {
			have[found.GetNamespace()] = true
		}
	}
	if len(have) == 1 {
		for n := range have {
			return n, nil
		}
	}
	return "default", nil
}

// diagnose asks about one target.
func (o *options) diagnose(parent context.Context, k kind, name string) (explain.Diagnosis, *snapshot.Snapshot, error) {
	opts, err := o.explainOptions()
	if err != nil {
		return explain.Diagnosis{}, nil, err
	}
	src, err := o.source()
	if err != nil {
		return explain.Diagnosis{}, nil, err
	}
	ctx, cancel := o.withDeadline(parent)
	defer cancel()
	target := explain.Target{Kind: k.Kind, Name: name}
	if target.Namespace, err = o.namespace(ctx, src, k, name); err != nil {
		return explain.Diagnosis{}, nil, err
	}
	kept := collect.Keep(src)
	s, stats, err := o.walk(ctx, kept, target, opts)
	if err != nil {
		return explain.Diagnosis{}, nil, err
	}
	o.note(stats)
	d, _ := explain.Explain(s, target, opts)
	if d.Missing {
		return d, nil, o.notFound(ctx, src, k, target, d.Gaps)
	}
	if o.probing.on {
		return o.probed(parent, kept, target, opts, d, s)
	}
	return d, s, nil
}

// walk reads what the answer about one target wants.
func (o *options) walk(ctx context.Context, src collect.Source, target explain.Target, opts explain.Options) (*snapshot.Snapshot, collect.Stats, error) {
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	return collect.Walk(ctx, src, nil, func(s *snapshot.Snapshot) explain.Wanted {
		_, wanted := explain.Explain(s, target, opts)
		return wanted
	})
}

func (o *options) note(stats collect.Stats) {
	for _, n := range stats.Notes {
		fmt.Fprintln(o.ErrOut, "note:", n)
	}
}

// notFound names what the user may have meant, and what could not be read that may tell why it was never made.
func (o *options) notFound(ctx context.Context, src collect.Source, k kind, t explain.Target, gaps []explain.Gap) error {
	found := src.Fetch(ctx, snapshot.Query{Resource: k.Resource})
	if found.Gap != nil && t.Namespace != "" {
		found = src.Fetch(ctx, snapshot.Query{Resource: k.Resource, Namespace: t.Namespace})
	}
	var near, elsewhere []string
	for _, obj := range found.Objects {
		switch {
		case obj.GetName() == t.Name:
			elsewhere = append(elsewhere, obj.GetNamespace())
		case obj.GetNamespace() == t.Namespace && levenshtein.Similarity(obj.GetName(), t.Name, nil) >= 0.6:
			near = append(near, obj.GetName())
		}
	}
	slices.Sort(near)
	slices.Sort(elsewhere)
	msg := fmt.Sprintf("%s %q not found", k.Names[0], t.Name)
	if t.Namespace != "" {
		msg = fmt.Sprintf("%s in namespace %q", msg, t.Namespace)
	}
	if len(elsewhere) > 0 {
		msg += "; it exists in: " + strings.Join(elsewhere, ", ") + " (use -n)"
	}
	if len(near) > 0 {
		msg += "; did you mean: " + strings.Join(near[:min(5, len(near))], ", ") + "?"
	}
	if len(near)+len(elsewhere) == 0 {
		msg += "; kubectl csidoctor " + k.Names[0] + " lists those that exist"
	}
	if i := slices.IndexFunc(gaps, func(g explain.Gap) bool { return g.Reason == "forbidden" }); i >= 0 {
		msg += fmt.Sprintf("; whether it was asked for and refused could not be read: %s; %s", gaps[i].Detail, gaps[i].Remedy)
	}
	return fmt.Errorf("%s", render.Clean(msg))
}

func (o *options) printOne(ctx context.Context, k kind, name, keep string) error {
	d, s, err := o.diagnose(ctx, k, name)
	if err != nil {
		return err
	}
	if keep != "" {
		if err := o.writeBundle(keep, s); err != nil {
			return err
		}
	}
	if err := o.print(d, func(w io.Writer, r render.Options) error { return render.Text(w, d, r) }); err != nil {
		return err
	}
	return o.status(d.Verdict)
}

// print writes an answer in the form that was asked for, whole or not at all.
func (o *options) print(v any, text func(io.Writer, render.Options) error) error {
	var b bytes.Buffer
	var err error
	switch o.output {
	case "json":
		err = render.JSON(&b, v)
	case "yaml":
		err = render.YAML(&b, v)
	default:
		var r render.Options
		if r, err = o.renderOptions(); err != nil {
			return err
		}
		r.Wide = o.output == "wide"
		e, _ := o.explainOptions() // checked before anything was read
		r.Now, r.Clock = e.Now, time.Now()
		err = text(&b, r)
	}
	if err != nil {
		return err
	}
	_, err = o.Out.Write(b.Bytes())
	return err
}

// renderOptions fit the text to where it goes: only a file can be a terminal.
func renderOptions(out io.Writer, color string) (render.Options, error) {
	f, ok := out.(*os.File)
	if !ok {
		f, _ = os.Open(os.DevNull)
		defer f.Close()
	}
	return render.OptionsFor(f, color, os.Getenv)
}

// listed are the lists that answers about many targets need: one request each in place of several a target.
func listed(namespace string) []snapshot.Query {
	var out []snapshot.Query
	for _, r := range []string{"persistentvolumeclaims", "pods", "events"} {
		out = append(out, snapshot.Query{Resource: r, Namespace: namespace})
	}
	for _, r := range []string{"persistentvolumes", "nodes", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io"} {
		out = append(out, snapshot.Query{Resource: r})
	}
	return out
}

func (o *options) printList(ctx context.Context, k kind) error {
	opts, err := o.explainOptions()
	if err != nil {
		return err
	}
	src, err := o.source()
	if err != nil {
		return err
	}
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	namespace := ""
	if !o.allNamespaces {
		if namespace, err = o.namespace(ctx, src, k, ""); err != nil {
			return err
		}
	}
	all := snapshot.Query{Resource: k.Resource, Namespace: namespace}
	targets := func(s *snapshot.Snapshot) []explain.Target {
		var out []explain.Target
		for _, obj := range s.Select(all) {
			out = append(out, explain.Target{Kind: k.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()})
		}
		return out
	}
	s, stats, err := collect.Walk(ctx, src, append(listed(namespace), all), func(s *snapshot.Snapshot) explain.Wanted {
		var wanted explain.Wanted
		for _, t := range targets(s) {
			_, more := explain.Explain(s, t, opts)
			wanted = append(wanted, more...)
		}
		return wanted
	})
	if err != nil {
		return err
	}
	o.note(stats)
	if g := s.GapOf(all); g != nil {
		return fmt.Errorf("%s could not be listed: %s; %s", k.Resource, render.Clean(g.Detail), g.Remedy)
	}
	l := explain.NewList(s)
	var answers []explain.Diagnosis
	for _, t := range targets(s) {
		d, _ := explain.Explain(s, t, opts)
		answers = append(answers, d)
	}
	l.Add(answers...)
	if len(l.Items) == 0 && o.output != "json" && o.output != "yaml" {
		where := ""
		if namespace != "" {
			where = " in " + namespace + " namespace"
		}
		fmt.Fprintf(o.ErrOut, "No resources found%s.\n", where) // as kubectl says it
		return nil
	}
	if err := o.print(l, func(w io.Writer, r render.Options) error { return render.TextList(w, l, r) }); err != nil {
		return err
	}
	return o.status(l.Verdict)
}
