package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// demoCluster is a small cluster with several stuck claims, as kubectl get -A -o yaml would write it.
//
//go:embed demo.yaml
var demoCluster []byte

func newDemo(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Diagnose a small embedded cluster with several stuck claims", Args: cobra.NoArgs,
		Long: "Diagnoses each claim of a small cluster that is a part of the program. Nothing is read from your cluster.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			full, report, err := bundle.Read("-", bytes.NewReader(demoCluster))
			if err != nil {
				return err
			}
			for _, w := range report.Lines() {
				return fmt.Errorf("the embedded cluster: %s", w)
			}
			src := collect.Files(full)
			l := explain.NewList(full)
			for _, obj := range full.Select(snapshot.Query{Resource: "persistentvolumeclaims"}) {
				target := explain.Target{Kind: "PersistentVolumeClaim", Namespace: obj.GetNamespace(), Name: obj.GetName()}
				s, _, err := collect.Walk(cmd.Context(), src, nil, func(s *snapshot.Snapshot) explain.Wanted {
					_, wanted := explain.Explain(s, target, explain.Options{})
					return wanted
				})
				if err != nil {
					return err
				}
				d, _ := explain.Explain(s, target, explain.Options{})
				l.Add(d)
			}
			return o.print(l, func(w io.Writer, r render.Options) error {
				for i, d := range l.Items {
					if i > 0 {
						fmt.Fprintln(w)
					}
					if err := render.Text(w, d, r); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
