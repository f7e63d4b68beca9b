package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
)

func newProbeManifest(o *options) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use:   "probe-manifest NODE",
		Short: "Print the Job, or the pod, that --probe would make on a node",
		Long: `Prints what --probe would make on a node, to be read, or to be made by whoever may: its log is the node's report, to be read with
--from. Without --probe-image it asks the cluster which images run privileged on the node, and such a pod waits in a shell for
csidoctor-probe to be copied into it.`,
		Example: `  kubectl csidoctor probe-manifest node-1 --probe-image registry.example/csidoctor-probe:v1 | kubectl create -f -
  kubectl logs -n kube-system job/csidoctor-probe-node-1 > node-1.yaml
  kubectl csidoctor pvc data-0 -n shop --from data-0.tar.gz --from node-1.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeNames(*kindNamed("node")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if as != "job" && as != "pod" {
				return fmt.Errorf("--as %q is none of job, pod", as)
			}
			ctx, cancel := o.withDeadline(cmd.Context())
			defer cancel()
			src, err := o.source()
			if err != nil {
				return err
			}
			c, err := o.carrier()
			if err != nil {
				return err
			}
			p, err := c.Plan(nodeTarget(ctx, src, args[0]), true)
			if err != nil {
				return errors.New(render.Clean(fmt.Sprintf("node %s: %s", args[0], err)))
			}
			job := c.Job(p, "csidoctor-probe-"+strings.TrimRight(args[0][:min(len(args[0]), 40)], ".-"), "yaml") // a label has 63 characters at most
			var made any = job
			if as == "pod" {
				made = &corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Name: job.Name, Namespace: job.Namespace, Labels: job.Labels},
					Spec:       job.Spec.Template.Spec,
				}
			}
			b, err := yaml.Marshal(made)
			if err != nil {
				return err
			}
			_, err = o.Out.Write(b)
			return err
		},
	}
	cmd.Flags().StringVar(&as, "as", "job", "job or pod; a pod is not removed by the server when it has ended")
	o.probing.addPodFlags(cmd.Flags())
	return cmd
}

func newCleanup(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove Jobs and pods that --probe has left behind",
		Long: `Removes all Jobs and pods with csidoctor's label (app.kubernetes.io/managed-by=csidoctor), also those of a probe that somebody
runs just now, and waits until they are gone. --probe removes its own, and what a killed one leaves ends and goes by itself
within two minutes; this is for who cannot wait, or wants to see that nothing is left.`,
		Example: "  kubectl csidoctor cleanup\n  kubectl csidoctor cleanup -n kube-system    # for who may not list all namespaces",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			ctx, cancel := o.withDeadline(cmd.Context())
			defer cancel()
			c, err := o.carrier()
			if err != nil {
				return err
			}
			strays, err := c.Cleanup(ctx, *o.kube.Namespace)
			if err != nil {
				return fmt.Errorf("%s; where you may not look into all namespaces, name one with -n", render.Clean(err.Error()))
			}
			var removed strings.Builder
			var left []string
			for _, s := range strays {
				what := strings.ToLower(s.Kind) + " " + explain.Shell(s.Namespace+"/"+s.Name)
				if s.Why == "" {
					fmt.Fprintf(&removed, "removed %s\n", what)
				} else {
					left = append(left, render.Clean(what+": "+s.Why))
				}
			}
			if len(strays) == 0 {
				removed.WriteString("nothing of csidoctor's is there\n")
			}
			if len(left) > 0 { // a failed command writes nothing to standard output
				fmt.Fprint(o.ErrOut, removed.String())
				return fmt.Errorf("left: %s", strings.Join(left, "\n  left: "))
			}
			_, err = fmt.Fprint(o.Out, removed.String())
			return err
		},
	}
}
