package main

import (
	"context"
	"flag"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// servePod is the program of the image csi-driver.
func servePod(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	flags := podFlags("csi-driver")
	name := flags.String("driver-name", "", "of the driver")
	endpoint := flags.String("endpoint", "unix:///csi/csi.sock", "where it listens")
	node := flags.String("node", "", "that it runs on")
	run := flags.String("run", "", "folder of the run of the lab")
	flags.Parse(args)
	return (&cluster.Cluster{Dir: *run}).ServePod(ctx, *node, *name, strings.TrimPrefix(*endpoint, "unix://"))
}

// register is the program of the image node-driver-registrar.
func register(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	flags := podFlags("node-driver-registrar")
	socket := flags.String("csi-address", "/run/csi/socket", "of the driver")
	endpoint := flags.String("kubelet-registration-path", "", "of the driver's socket, on the host")
	folder := flags.String("plugin-registration-path", "/registration", "of kubelet, for the registration's socket")
	flags.Parse(args)
	return driver.Register(ctx, *socket, *endpoint, *folder)
}

func podFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	klog.InitFlags(flags)
	return flags
}
