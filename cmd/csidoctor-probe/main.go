// Command csidoctor-probe is `kubectl csidoctor probe` alone: static and small, to be sent to a node or into a container. It
// knows flags, streams and exit statuses; internal/probe does the work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csidoctor/csidoctor/internal/frame"
	"github.com/csidoctor/csidoctor/internal/probe"
)

// version is set by the build.
var version = "dev"

func main() {
	probe.Worker()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("csidoctor-probe", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "csidoctor-probe %s writes what volumes depend on, on the node that it runs on, as a NodeReport. Run it as root.\n\n", version)
		flags.PrintDefaults()
	}
	var o probe.Options
	flags.StringVar(&o.Volume, "volume", "", "only this volume: its `HANDLE`, or its PV's name")
	flags.StringVar(&o.Pod, "pod", "", "only the volumes of the pod with this `UID`")
	flags.StringVar(&o.Node, "node", "", "the Node object's `NAME`, where the kubelet's flags and the host's name do not tell")
	flags.DurationVar(&o.Timeout, "timeout", probe.Timeout, "the end of the whole probe; what is not done by then is a gap")
	output := flags.String("o", "yaml", "yaml, json, or frame: compressed, for csidoctor to take from a container's output")
	file := flags.String("output-file", "", "write to this `FILE`, which must not exist yet, not to standard output")
	if len(args) > 0 && args[0] == "probe" { // as kubectl csidoctor has it, so that one command line works with both
		args = args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is no flag; see csidoctor-probe -help", flags.Arg(0))
	case *output != "yaml" && *output != "json" && *output != "frame":
		return fmt.Errorf("-o %q is none of yaml, json, frame", *output)
	case o.Timeout <= 0:
		return fmt.Errorf("-timeout %s is no time to wait", o.Timeout)
	}
	r, err := probe.Run(ctx, o)
	if err != nil {
		return err
	}
	if *output == "frame" {
		return frame.Write(os.Stdout, r)
	}
	return probe.WriteTo(os.Stdout, *file, r, *output == "json")
}
