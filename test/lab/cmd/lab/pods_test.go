package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/driver"
)

const name = "a.csi.test"

// startPod serves a driver as its pod does, and its faults as the lab does.
func startPod(t *testing.T) (c *cluster.Cluster, socket string) {
	t.Helper()
	dir := t.TempDir()
	c = &cluster.Cluster{Dir: dir}
	go serveDriver(c, cluster.Node)
	wait(t, "the lab's faults are served", func() bool {
		return c.PutDriver(t.Context(), name, driver.Config{Node: driver.InPods, Controller: driver.InPods, MaxVolumes: 3}) == nil
	})
	socket = filepath.Join(dir, "csi.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // an earlier container left it
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- servePod(ctx, []string{"--driver-name=" + name, "--endpoint=unix://" + socket, "--node=node-2", "--run=" + dir})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, socket
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came that " + what)
		}
	}
}

func TestPodTakesItsFaultsFromTheLab(t *testing.T) {
	c, socket := startPod(t)
	ask := func() (*csi.NodeGetInfoResponse, error) {
		return csi.NewNodeClient(dial(t, socket)).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	}
	if info, err := ask(); err != nil || info.NodeId != "i-node-2" || info.MaxVolumesPerNode != 3 {
		t.Errorf("%v, %v", info, err)
	}
	if err := c.Inject(t.Context(), name, "NodeGetInfo", driver.Fault{Mode: "fail", Code: "Internal", Text: "no metadata"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no metadata") {
		t.Errorf("%v, want the fault", err)
	}
	if state, err := c.Driver(t.Context(), name); err != nil || state.Calls["NodeGetInfo"] != 2 {
		t.Errorf("%+v, %v: want two calls counted", state, err)
	}
}

func TestRegistrar(t *testing.T) {
	_, socket := startPod(t)
	start := func() (kubelet registration.RegistrationClient, path string, stop func(), ended chan error) {
		folder := t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() {
			ended <- register(ctx, []string{"--csi-address=" + socket, "--kubelet-registration-path=/on/the/host/csi.sock", "--plugin-registration-path=" + folder, "--v=2"})
		}()
		t.Cleanup(stop)
		path = filepath.Join(folder, name+"-reg.sock")
		return registration.NewRegistrationClient(dial(t, path)), path, stop, ended
	}

	kubelet, path, stop, ended := start()
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{})
	if err != nil || info.Type != registration.CSIPlugin || info.Name != name || info.Endpoint != "/on/the/host/csi.sock" || len(info.SupportedVersions) == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}

	kubelet, _, _, ended = start()
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such endpoint"}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "no such endpoint") {
		t.Errorf("refused by kubelet, it ended with %v", err)
	}
}
