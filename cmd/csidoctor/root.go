package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csidoctor/csidoctor/internal/carrier"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
)

// patience is the deadline of a whole run against a cluster: on call nobody waits longer.
const patience = 20 * time.Second

// options are the flags that all commands share.
type options struct {
	genericiooptions.IOStreams
	kube          *genericclioptions.ConfigFlags
	allNamespaces bool
	from          []string
	at            string
	output        string
	color         string
	failOn        string
	logs          bool
	minAge        time.Duration // of scan
	patience      time.Duration // the deadline where the user gives none
	probing       probing
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, kube: genericclioptions.NewConfigFlags(true), patience: patience, probing: probing{Options: carrier.Options{Timeout: carrier.Timeout}}}
	o.kube.Username, o.kube.Password = nil, nil // long gone from the API server
	root := &cobra.Command{
		Use:         "csidoctor",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl csidoctor"},
		Short:       "Tells why a volume is stuck",
		Long: `csidoctor walks the whole way of a volume, from claim to mount and back, and names the step that is stuck, with the likely
cause, the proof and a fix that loses no data. It only reads, but for --probe, which makes a pod on a node for a moment.

Flags of kubectl stand behind the plugin's name: kubectl csidoctor -n shop pvc data-0.`,
		Example: `  kubectl csidoctor pvc data-0 -n shop
  kubectl csidoctor pod db-0
  kubectl csidoctor node node-1
  kubectl csidoctor scan -A                   # all that is not well in the cluster, by cause
  kubectl csidoctor pvc                       # every claim of the namespace, the worst first
  kubectl csidoctor bundle pvc data-0 -f data-0.tar.gz
  kubectl csidoctor pvc data-0 --from data-0.tar.gz -o json`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is no command or kind of csidoctor; see kubectl csidoctor --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	flags := root.PersistentFlags()
	o.kube.AddFlags(flags)
	flags.Lookup("request-timeout").Usage = "End of the whole run, such as 1m; what was read by then is answered from. 0 means 20s."
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "lists and bundles: of all namespaces")
	flags.StringArrayVar(&o.from, "from", nil, "read a bundle, or any folder, archive or file of Kubernetes objects, in place of a cluster; - is standard input. Again for what lies beside it, such as a node's report")
	flags.StringVar(&o.at, "at", "", "judge ages by this time (RFC 3339), not by when the facts were read")
	flags.BoolVar(&o.logs, "logs", false, "also read the lines of the driver's logs that name the volume, where they can tell more")
	flags.StringVarP(&o.output, "output", "o", "text", "one of text, wide, json, yaml")
	flags.StringVar(&o.color, "color", "auto", "one of auto, always, never")
	flags.StringVar(&o.failOn, "fail-on", "", "exit with a verdict's status only from this one on: degraded, undetermined, waiting, never")
	for name, values := range map[string][]string{"output": {"text", "wide", "json", "yaml"}, "color": {"auto", "always", "never"}, "fail-on": failOnValues} {
		_ = root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	}
	_ = root.RegisterFlagCompletionFunc("namespace", o.completeNamespaces)
	for _, k := range kinds {
		root.AddCommand(newDiagnose(o, k))
	}
	root.CompletionOptions.DisableDefaultCmd = true // it would complete `csidoctor`, not kubectl
	root.AddCommand(newScan(o), newBundle(o), newProbe(o), newProbeManifest(o), newCleanup(o), newDemo(o), newExplain(o), newVersion(o), newCompletion(o))
	return root
}

// kind is one thing that can be asked about, by the names that kubectl has for it.
type kind struct {
	Kind       string
	Resource   string
	Names      []string // the first is the command, the others its aliases
	Namespaced bool
	Short      string
}

var kinds = []kind{
	{"PersistentVolumeClaim", "persistentvolumeclaims", []string{"pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims"}, true, "Why a claim is not bound, mounted, grown or gone"},
	{"Pod", "pods", []string{"pod", "po", "pods"}, true, "Why a pod waits for its volumes, or does not let go of them"},
	{"PersistentVolume", "persistentvolumes", []string{"pv", "pvs", "persistentvolume", "persistentvolumes"}, false, "Why a volume is not used, released or deleted"},
	{"VolumeSnapshot", "volumesnapshots.snapshot.storage.k8s.io", []string{"snapshot", "vs", "snapshots", "volumesnapshot", "volumesnapshots"}, true, "Why a snapshot is not ready"},
	{"Node", "nodes", []string{"node", "no", "nodes"}, false, "What is wrong with a node's drivers and volumes"},
	{"CSIDriver", "csidrivers.storage.k8s.io", []string{"driver", "drivers", "csidriver", "csidrivers"}, false, "What is wrong with a CSI driver: its controller, its nodes, its claims"},
}

// splitKind turns kubectl's pvc/data-0, where a command is expected, into two words.
func splitKind(root *cobra.Command, args []string) []string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") || i > 0 && takesValue(root, args[i-1]) {
			continue
		}
		if name, rest, ok := strings.Cut(a, "/"); ok && rest != "" && kindNamed(name) != nil {
			return slices.Concat(args[:i], []string{name, rest}, args[i+1:])
		}
		break
	}
	return args
}

// takesValue tells whether the word is a flag whose value is the next word.
func takesValue(root *cobra.Command, word string) bool {
	if !strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
		return false
	}
	name := strings.TrimLeft(word, "-")
	f := root.PersistentFlags().Lookup(name)
	if f == nil && len(name) == 1 {
		f = root.PersistentFlags().ShorthandLookup(name)
	}
	return f == nil || f.NoOptDefVal == ""
}

func kindNamed(name string) *kind {
	for i, k := range kinds {
		for _, n := range k.Names {
			if n == name {
				return &kinds[i]
			}
		}
	}
	return nil
}

// explainOptions are the moment that ages are judged by, and the flags that printed commands repeat.
func (o *options) explainOptions() (explain.Options, error) {
	var e explain.Options
	if o.at != "" {
		at, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return e, fmt.Errorf("--at %q is no time such as 2026-03-01T12:00:00Z: %w", o.at, err)
		}
		e.Now = at
	}
	for _, from := range o.from {
		if from != "-" { // it is read only once
			e.Self = append(e.Self, "--from", from)
		}
	}
	if o.at != "" {
		e.Self = append(e.Self, "--at", o.at)
	}
	if c := *o.kube.KubeConfig; c != "" {
		e.Kubectl = append(e.Kubectl, "--kubeconfig", c)
	}
	if c := *o.kube.Context; c != "" {
		e.Kubectl = append(e.Kubectl, "--context", c)
	}
	return e, nil
}

var failOnValues = []string{"degraded", "undetermined", "waiting", "never"}

// status is the error that ends the process with the verdict's exit status, if --fail-on asks for it.
func (o *options) status(v explain.Verdict) error {
	switch o.failOn {
	case "never":
		return nil
	case "":
	default:
		if v.Rank() > explain.Verdict(o.failOn).Rank() {
			return nil
		}
	}
	if code := v.Exit(); code != 0 {
		return verdictStatus(code)
	}
	return nil
}

// check refuses values of shared flags before anything is read.
func (o *options) check() error {
	switch o.output {
	case "text", "wide", "json", "yaml":
	default:
		return fmt.Errorf("--output %q is none of text, wide, json, yaml", o.output)
	}
	ok := o.failOn == ""
	for _, v := range failOnValues {
		ok = ok || o.failOn == v
	}
	if !ok {
		return fmt.Errorf("--fail-on %q is none of %s", o.failOn, strings.Join(failOnValues, ", "))
	}
	if _, err := o.deadline(); err != nil {
		return err
	}
	if o.probing.on && len(o.from) > 0 {
		return errors.New("--probe asks the nodes of a cluster, and --from reads what was kept: give one of the two")
	}
	if err := o.probing.check(); err != nil {
		return err
	}
	_, err := o.renderOptions()
	return err
}

// deadline is --request-timeout, taken for the whole run.
func (o *options) deadline() (time.Duration, error) {
	d, err := clientcmd.ParseTimeout(*o.kube.Timeout)
	if err != nil {
		return 0, fmt.Errorf("--request-timeout: %w", err)
	}
	return cmp.Or(d, o.patience), nil
}

func (o *options) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	d, _ := o.deadline() // checked before anything was read
	return context.WithTimeout(ctx, d)
}

func (o *options) renderOptions() (render.Options, error) { return renderOptions(o.Out, o.color) }
