// Command lab runs a real Kubernetes cluster on this machine for tests. It is run as root, in the folder test/lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
	"github.com/csidoctor/csidoctor/test/lab/programs"
)

const usage = `usage: lab [-name NAME] COMMAND

  programs              build the cluster's programs, if they are not in the cache
  up                    start the cluster, and return when it is ready
  run                   the same, and end it with the end of the standard input
  down                  end it
  start, stop PROGRAM   one program of it: kubelet, kube-scheduler, csi-attacher@DRIVER, ...
  add-node NODE         one more node: node-2, node-3 or node-4
  add-driver DRIVER     one more driver, with its CSIDriver, classes and sidecars
  install-driver DRIVER the same in pods, in a namespace of its own that is named like the driver, with - for each dot
`

func init() {
	// The kernel ends the cluster of "run" with the thread that started it; the main thread lives as long as the process.
	runtime.LockOSThread()
}

func main() {
	if filepath.Base(os.Args[0]) == "losetup" {
		exit(cluster.Losetup(os.Args[1:]))
	}
	name := flag.String("name", "lab", "of the run; runs of other names stand beside it")
	c := &cluster.Cluster{}
	flag.BoolVar(&c.APIOnly, "api", false, "up and run: etcd and the API server alone, without anything that works on the objects")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	flag.Parse()
	c.Dir = cluster.Named(*name).Dir
	exit(run(context.Background(), c, flag.Args()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, c *cluster.Cluster, args []string) error {
	if len(args) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	switch {
	case args[0] == "programs" && len(args) == 1:
		bin, err := build(ctx)
		fmt.Println(bin)
		return err
	case args[0] == "up" && len(args) == 1:
		return up(ctx, c, false)
	case args[0] == "run" && len(args) == 1:
		if err := up(ctx, c, true); err != nil {
			return err
		}
		io.Copy(io.Discard, os.Stdin)
		return c.Stop()
	case args[0] == "down" && len(args) == 1:
		return c.Stop()
	case args[0] == "start" && len(args) == 2:
		return c.StartProcess(ctx, args[1])
	case args[0] == "stop" && len(args) == 2:
		return c.StopProcess(ctx, args[1])
	case args[0] == "add-node" && len(args) == 2:
		return c.AddNode(ctx, args[1])
	case args[0] == "add-driver" && len(args) == 2:
		return c.AddDriver(ctx, args[1], driver.Config{Topology: cluster.Topology}, cluster.Sidecars...)
	case args[0] == "install-driver" && len(args) == 2:
		return c.InstallDriver(ctx, args[1], strings.ReplaceAll(args[1], ".", "-"), driver.Config{Topology: cluster.Topology}, cluster.Sidecars)

	// The cluster itself runs these, and its pods the last two.
	case args[0] == "inside" && len(args) == 4:
		return cluster.Inside(args[1], args[2], args[3] == "true")
	case args[0] == "namespace" && len(args) == 3:
		return cluster.NodeNamespace(args[1], args[2])
	case args[0] == "driver" && len(args) == 3:
		return serveDriver(&cluster.Cluster{Dir: args[1]}, args[2])
	case args[0] == "pod":
		return servePod(ctx, args[1:])
	case args[0] == "registrar":
		return register(ctx, args[1:])
	}
	flag.Usage()
	os.Exit(2)
	return nil
}

func up(ctx context.Context, c *cluster.Cluster, attached bool) error {
	bin, err := build(ctx)
	if err != nil {
		return err
	}
	if err := c.Start(ctx, bin, attached); err != nil {
		return err
	}
	fmt.Printf("ready: export KUBECONFIG=%s; kubectl is %s\n", c.Kubeconfig(), filepath.Join(c.Dir, "bin/kubectl"))
	return nil
}

func build(ctx context.Context) (string, error) {
	cache, err := programs.Cache()
	if err != nil {
		return "", err
	}
	return programs.Build(ctx, "programs", cache, os.Stderr)
}

func serveDriver(c *cluster.Cluster, node string) error {
	l, err := net.Listen("unix", c.DriverSocket(node))
	if err != nil {
		return err
	}
	return http.Serve(l, c.DriverServer(node).Handler())
}
