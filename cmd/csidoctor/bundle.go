package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func newBundle(o *options) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "bundle KIND NAME",
		Short: "Write what a diagnosis reads into one archive, to be diagnosed anywhere with --from",
		Long: `Writes every object that the diagnosis of KIND NAME reads, and what could not be read, into one .tar.gz. Secrets are never
read; tokens, keys, passwords, and annotations, arguments and parameters that are not known to be harmless are masked.`,
		Example: "  kubectl csidoctor bundle pvc data-0 -n shop -f data-0.tar.gz",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			k := kindNamed(args[0])
			if k == nil || len(args) != 2 {
				return fmt.Errorf("bundle wants a kind and a name, such as: kubectl csidoctor bundle pvc data-0")
			}
			o.logs = true // whoever reads it later cannot ask for them
			_, s, err := o.diagnose(cmd.Context(), *k, args[1])
			if err != nil {
				return err
			}
			if file == "" {
				file = "csidoctor-" + k.Names[0] + "-" + strings.ReplaceAll(args[1], "/", "_") + ".tar.gz"
			}
			return o.writeBundle(file, s)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the archive to write; - is standard output (default csidoctor-KIND-NAME.tar.gz)")
	o.probing.addFlags(cmd.Flags())
	return cmd
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
	fmt.Fprintf(o.ErrOut, "wrote %s: %d objects, %d inputs that could not be read\n", file, s.Len(), len(s.Gaps))
	return nil
}
