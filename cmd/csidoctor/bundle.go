package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// patienceAll is the deadline of reading a cluster or a namespace: nobody waits for an answer meanwhile.
const patienceAll = 2 * time.Minute

func newBundle(o *options) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "bundle [KIND NAME]",
		Short: "Write what a diagnosis reads into one archive, to be diagnosed anywhere with --from",
		Long: fmt.Sprintf(`Writes every object that the diagnosis of KIND NAME reads, and what could not be read, into one .tar.gz. Without KIND NAME all
that can be asked about in the namespace, with -A in the whole cluster; the bundle of a namespace has also the volumes, nodes and
drivers that its claims and pods use, and nothing of what other namespaces' claims and pods say but on those nodes. Reading all
ends after %s unless --request-timeout says otherwise.

Secrets are never read; tokens, keys, passwords, and annotations, arguments and parameters that are not known to be harmless are
masked. The lines of a driver's logs that name a stuck volume are in it too. With --probe and without KIND NAME no more than %d
nodes are probed: those to which most of what is not well points.`, patienceAll, maxProbed),
		Example: `  kubectl csidoctor bundle pvc data-0 -n shop -f data-0.tar.gz
  kubectl csidoctor bundle node node-1 --probe
  kubectl csidoctor bundle -n shop
  kubectl csidoctor bundle -A -f - | ssh elsewhere kubectl csidoctor pvc -A --from -`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if len(args) == 1 {
				args = strings.SplitN(args[0], "/", 2) // pvc/data-0
			}
			o.logs = true // whoever reads it later cannot ask for them
			var s *snapshot.Snapshot
			var err error
			of := "cluster"
			switch {
			case len(args) == 0:
				s, of, err = o.everything(cmd.Context())
			case len(args) != 2 || kindNamed(args[0]) == nil:
				return errors.New("bundle wants a kind and a name, such as: kubectl csidoctor bundle pvc data-0; or neither, for a namespace (-n) or all (-A)")
			case o.allNamespaces:
				return errors.New("-A takes the whole cluster: give it, or a kind and a name")
			default:
				k := kindNamed(args[0])
				of = k.Names[0] + "-" + strings.ReplaceAll(args[1], "/", "_")
				_, s, err = o.diagnose(cmd.Context(), *k, args[1])
			}
			if err != nil {
				return err
			}
			if file == "" {
				file = "csidoctor-" + of + ".tar.gz"
			}
			return o.writeBundle(file, s)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the archive to write; - is standard output (default csidoctor-KIND-NAME.tar.gz, csidoctor-namespace-NAME.tar.gz or csidoctor-cluster.tar.gz)")
	o.probing.addFlags(cmd.Flags())
	return cmd
}

// everything reads what answers about all of a namespace, or of the cluster, want, and says in a word or two whose that is.
func (o *options) everything(parent context.Context) (s *snapshot.Snapshot, of string, err error) {
	o.patience = patienceAll
	opts, err := o.explainOptions()
	if err != nil {
		return nil, "", err
	}
	src, err := o.source()
	if err != nil {
		return nil, "", err
	}
	of, namespace := "cluster", ""
	if !o.allNamespaces {
		ctx, cancel := o.withDeadline(parent)
		defer cancel()
		if namespace, err = o.namespace(ctx, src, *kindNamed("pvc"), ""); err != nil {
			return nil, "", err
		}
		of = "namespace-" + namespace
	}
	kept := collect.Keep(collect.Within(src, namespace))
	walk := func() error {
		ctx, cancel := o.withDeadline(parent)
		defer cancel()
		var stats collect.Stats
		s, stats, err = collect.Walk(ctx, kept, collect.Lists(namespace), collect.Many(namespace, opts))
		o.note(stats)
		return err
	}
	if err := walk(); err != nil || !o.probing.on {
		return s, of, err
	}
	c, err := o.carrier()
	if err != nil {
		return nil, "", err
	}
	nodes := collect.Suspects(s, namespace, opts)
	if more := len(nodes) - maxProbed; more > 0 {
		nodes = nodes[:maxProbed]
		fmt.Fprintf(o.ErrOut, "note: %d nodes more have a part in what is not well and are not probed; of each: kubectl csidoctor bundle node NAME --probe\n", more)
	}
	if len(nodes) == 0 {
		fmt.Fprintln(o.ErrOut, "note: all is well, so no node is probed")
		return s, of, nil
	}
	o.reports(parent, c, kept, nodes)
	if parent.Err() != nil {
		return nil, "", fmt.Errorf("interrupted while nodes were probed: %w", parent.Err())
	}
	return s, of, walk()
}

// writeBundle writes what an answer rests on; "-" is standard output.
func (o *options) writeBundle(file string, s *snapshot.Snapshot) error {
	var b bytes.Buffer
	if err := bundle.Write(&b, s); err != nil {
		return err
	}
	if file == "-" {
		_, err := o.Out.Write(b.Bytes())
		return err
	}
	// Never over what is there: a bundle may be the only record of an incident.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the bundle: %w; name another file", err)
	}
	if _, err = f.Write(b.Bytes()); err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	fmt.Fprintf(o.ErrOut, "wrote %s: %d objects\n", file, s.Len())
	if refused := s.Refused(); len(refused) > 0 {
		fmt.Fprintf(o.ErrOut, "warning: not all could be read: %s\n", render.Clean(strings.Join(refused, ", ")))
	}
	return nil
}
