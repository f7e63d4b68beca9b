package main

import (
	"context"
	"errors"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func newScan(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "scan", Args: cobra.NoArgs,
		Short: "All volumes that are not well, by what they have in common",
		Long: `Looks at every claim of the namespace, or with -A of all, and at the pods, volumes, attachments and snapshots that no claim
speaks for, and prints those that are not well, one block for each cause and what explains it, the worst first.

What only waits is shown where nothing is worse, and with -o wide. With --from and without -n all namespaces are looked at.`,
		Example: `  kubectl csidoctor scan -A
  kubectl csidoctor scan -n shop --min-age 10m
  kubectl csidoctor scan -A -o json | jq '.groups[] | {cause, count, command}'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.minAge < 0 {
				return errors.New("--min-age is no age")
			}
			if o.logs {
				return errors.New("--logs reads what names one volume: ask about that one")
			}
			return o.scan(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&o.minAge, "min-age", 0, "leave out what is not well for a shorter time, such as 10m")
	return cmd
}

func (o *options) scan(ctx context.Context) error {
	debug.SetGCPercent(50) // the objects of a large cluster stay: as much again in garbage would not fit beside them
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
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	var l explain.List
	var wanted explain.Wanted
	s, stats, err := collect.Walk(ctx, src, nil, func(s *snapshot.Snapshot) explain.Wanted {
		l, wanted = explain.Scan(s, namespace, opts)
		return wanted
	})
	if err != nil {
		return err
	}
	o.note(stats)
	if len(wanted) > 0 { // what was not read is a gap now
		l, _ = explain.Scan(s, namespace, opts)
	}
	if err := o.print(l, func(w io.Writer, r render.Options) error { return render.TextScan(w, l, r) }); err != nil {
		return err
	}
	return o.status(l.Verdict)
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
