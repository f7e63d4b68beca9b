package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintf(o.Out, "csidoctor %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}}
}

func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "explain [CAUSE]", Short: "Say what a cause means, how to be sure of it and what never to do", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, c := range explain.Catalogue() {
				ids = append(ids, c.ID+"\t"+c.Title)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var b strings.Builder
			for _, c := range explain.Catalogue() {
				switch {
				case len(args) == 0:
					fmt.Fprintf(&b, "%-36s %s\n", c.ID, c.Title)
				case c.ID == args[0]:
					fmt.Fprintf(&b, "%s: %s\n\n%s\n", c.ID, c.Title, c.Doc)
				}
			}
			if b.Len() == 0 {
				return fmt.Errorf("there is no cause %q; kubectl csidoctor explain lists them", args[0])
			}
			_, err := fmt.Fprint(o.Out, b.String())
			return err
		},
	}
}

// completer is what kubectl runs to complete a plugin's words, in every shell that kubectl itself completes in.
const completer = `#!/bin/sh
exec kubectl csidoctor __complete "$@"
`

func newCompletion(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "completion", Short: "Print the program with which kubectl completes this plugin's words", Args: cobra.NoArgs,
		Long: `Prints the program with which kubectl completes the words behind "kubectl csidoctor": kinds, flags, names and namespaces.
It has to be executable, be called kubectl_complete-csidoctor, and be on the PATH (make install does that):

  kubectl csidoctor completion > ~/.local/bin/kubectl_complete-csidoctor
  chmod +x ~/.local/bin/kubectl_complete-csidoctor`,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(o.Out, completer)
			return err
		},
	}
}

// completeNames lists the objects of a kind for the shell; a cluster that does not answer completes nothing.
func (o *options) completeNames(k kind) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.names(cmd.Context(), k), cobra.ShellCompDirectiveNoFileComp
	}
}

func (o *options) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return o.names(cmd.Context(), kind{Resource: "namespaces"}), cobra.ShellCompDirectiveNoFileComp
}

func (o *options) names(ctx context.Context, k kind) []string {
	src, err := o.source()
	if err != nil {
		return nil
	}
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	namespace, err := o.namespace(ctx, src, k, "")
	if err != nil {
		return nil
	}
	var out []string
	for _, obj := range src.Fetch(ctx, snapshot.Query{Resource: k.Resource, Namespace: namespace}).Objects {
		out = append(out, obj.GetName())
	}
	return out
}
