// Command csidoctor tells why a volume is stuck: installed as kubectl-csidoctor, it is `kubectl csidoctor`. This package
// knows flags, commands, streams and exit statuses; what is read, judged and printed is decided elsewhere.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the kubeconfig's ways to log in, as in kubectl
	"k8s.io/klog/v2"

	"github.com/csidoctor/csidoctor/internal/probe"
)

// version is set by the build.
var version = "dev"

func main() {
	probe.Worker()
	klog.SetLogger(logr.Discard()) // the client's libraries log to stderr what they return as errors anyway
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

// verdictStatus ends a command that did its work with the exit status of its verdict.
type verdictStatus int

func (v verdictStatus) Error() string { return fmt.Sprintf("exit status %d", int(v)) }

// run is main without the process: what goes wrong is said on the error stream, with status 1.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := newRoot(streams)
	root.SetArgs(splitKind(root, args))
	err := root.ExecuteContext(ctx)
	var status verdictStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
	return 1
}
