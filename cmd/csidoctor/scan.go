package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/carrier"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func newScan(o *options) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "scan", Args: cobra.NoArgs,
		Short: "All volumes that are not well, by what they have in common",
		Long: `Looks at every claim of the namespace, or with -A of all, and at the pods, volumes, attachments and snapshots that no claim
speaks for, and prints those that are not well, one block for each cause and what explains it, the worst first.

What only waits is shown where nothing is worse, and with -o wide. With --from and without -n all namespaces are looked at.
--probe looks on the nodes to which something points that is wrong, --probe-all on all of them, a few at once.`,
		Example: `  kubectl csidoctor scan -A
  kubectl csidoctor scan -n shop --min-age 10m
  kubectl csidoctor scan -A -o json | jq '.groups[] | {cause, count, command}'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.probing.on = o.probing.on || all
			if err := o.check(); err != nil {
				return err
			}
			if o.minAge < 0 {
				return errors.New("--min-age is no age")
			}
			if o.logs {
				return errors.New("--logs reads what names one volume: ask about that one")
			}
			return o.scan(cmd.Context(), all)
		},
	}
	o.probing.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "probe-all", false, "look on every node, also where nothing is wrong by what the API shows")
	cmd.Flags().DurationVar(&o.minAge, "min-age", 0, "leave out what is not well for a shorter time, such as 10m")
	return cmd
}

func (o *options) scan(ctx context.Context, all bool) error {
	spareMemory()
	opts, err := o.explainOptions()
	if err != nil {
		return err
	}
	opts.MinAge = o.minAge
	src, err := o.source()
	if err != nil {
		return err
	}
	namespace, err := o.scanned()
	if err != nil {
		return err
	}
	kept := collect.Keep(src)
	l, err := o.list(ctx, kept, namespace, opts)
	if err == nil && o.probing.on {
		l, err = o.listProbed(ctx, kept, namespace, opts, l, all)
	}
	if err != nil {
		return err
	}
	if err := o.print(l, func(w io.Writer, r render.Options) error { return render.TextScan(w, l, r) }); err != nil {
		return err
	}
	return o.status(l.Verdict)
}

// Until the heap is that large its garbage is let be; from there on it may be two fifths of what is in use. The objects of a large cluster stay, and as
// much again in garbage would not fit beside them.
const (
	roomy          = 300 << 20
	garbagePercent = 40
)

// spareMemory sets that after each collection of garbage anew.
func spareMemory() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var set func(*[16]byte)
	set = func(canary *[16]byte) { // which is garbage itself
		metrics.Read(live)
		used := max(live[0].Value.Uint64(), 16<<20)
		debug.SetGCPercent(max(garbagePercent, int(100*(roomy-float64(used))/float64(used))))
		runtime.SetFinalizer(canary, set)
	}
	set(new([16]byte))
}

// list reads what a scan wants, and gives what it says.
func (o *options) list(ctx context.Context, src collect.Source, namespace string, opts explain.Options) (l explain.List, err error) {
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	var wanted explain.Wanted
	scanner := explain.NewScanner(namespace, opts)
	s, stats, err := collect.Walk(ctx, src, nil, func(s *snapshot.Snapshot) explain.Wanted {
		l, wanted = scanner.Scan(s)
		return wanted
	})
	if err != nil {
		return l, err
	}
	o.note(stats)
	if len(wanted) > 0 { // what was not read is a gap now
		l, _ = scanner.Scan(s)
	}
	return l, nil
}

// listProbed scans again, with reports of the nodes to which something points, or of all.
func (o *options) listProbed(ctx context.Context, kept *collect.Kept, namespace string, opts explain.Options, l explain.List, all bool) (explain.List, error) {
	c, err := o.carrier()
	if err != nil {
		return l, err
	}
	nodes := l.Nodes()
	if all {
		nodes = nil
		for _, n := range kept.Fetch(ctx, snapshot.Query{Resource: "nodes"}).Objects {
			nodes = append(nodes, n.GetName())
		}
	}
	if len(nodes) == 0 {
		fmt.Fprintln(o.ErrOut, "note: no node has a part in what is wrong, so none is probed")
		return l, nil
	}
	var failed []*carrier.Failure
	for some := range slices.Chunk(nodes, maxProbed) {
		failed = append(failed, o.reports(ctx, c, kept, some)...)
		if ctx.Err() != nil {
			return l, fmt.Errorf("interrupted while nodes were probed: %w", ctx.Err())
		}
	}
	if l, err = o.list(ctx, kept, namespace, opts); err != nil {
		return l, err
	}
	for _, f := range failed {
		if f.Detail != "" {
			g := f.Gap()
			l.NoteGap(explain.Gap{Input: g.Input, Object: &explain.Object{Kind: "Node", Name: f.Node}, Reason: g.Reason, Detail: bundle.RedactText(g.Detail), Remedy: g.Remedy})
		}
	}
	return l, nil
}

// scanned is the namespace that is looked at; empty: all.
func (o *options) scanned() (string, error) {
	switch {
	case o.allNamespaces:
		return "", nil
	case *o.kube.Namespace != "":
		return *o.kube.Namespace, nil
	case len(o.from) > 0:
		return "", nil
	}
	n, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	return n, err
}
