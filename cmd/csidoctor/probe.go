package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csidoctor/csidoctor/internal/probe"
)

func newProbe(o *options) *cobra.Command {
	var p probe.Options
	var file string
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "On a node, as root: write what its volumes depend on, to be diagnosed anywhere with --from",
		Long: `Runs on the node itself, as root, and writes a NodeReport: sockets of drivers, the kubelet's folders, mounts of every namespace,
devices and what they hold, tasks that hang, lines of the kernel's and the kubelet's logs. It needs no cluster and changes
nothing. A mount or a device that hangs does not hold it: what did not answer is said in the report.

The report is read beside a bundle, or beside any dump of the cluster's objects. The binary csidoctor-probe does the same, is
small, and needs nothing else on the node.`,
		Example: `  csidoctor probe --output-file node-1.yaml
  kubectl csidoctor pvc data-0 -n shop --from data-0.tar.gz --from node-1.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if p.Timeout <= 0 {
				return fmt.Errorf("--timeout %s is no time to wait", p.Timeout)
			}
			r, err := probe.Run(cmd.Context(), p)
			if err != nil {
				return err
			}
			return probe.WriteTo(o.Out, file, r, o.output == "json")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Volume, "volume", "", "only this volume: its handle, or its PV's name")
	flags.StringVar(&p.Pod, "pod", "", "only the volumes of the pod with this UID")
	flags.StringVar(&p.Node, "node", "", "the Node object's name, where the kubelet's flags and the host's name do not tell")
	flags.DurationVar(&p.Timeout, "timeout", probe.Timeout, "the end of the whole probe; what is not done by then is a gap")
	flags.StringVar(&file, "output-file", "", "write to this file, which must not exist yet, not to standard output")
	return cmd
}
