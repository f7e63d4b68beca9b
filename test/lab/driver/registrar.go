package driver

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Register does what node-driver-registrar does beside a driver in a pod: it asks the driver at the socket for its name, and
// tells kubelet through a socket in the folder that the driver is at endpoint. As with the real one (of which the Go proxy has
// no version), a refusal by kubelet ends it with an error, and being told to end takes its socket away.
func Register(ctx context.Context, socket, endpoint, folder string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("ask the driver at %s for its name: %w", socket, err)
	}
	path := filepath.Join(folder, info.Name+"-reg.sock")
	if err := removeSocket(path); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	klog.InfoS("Registration Server started", "socketPath", path)
	r := &registrar{info: &registration.PluginInfo{Type: registration.CSIPlugin, Name: info.Name, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"}},
		refused: make(chan error, 1)}
	g := grpc.NewServer()
	registration.RegisterRegistrationServer(g, r)
	go g.Serve(l)
	select {
	case err := <-r.refused:
		return err
	case <-ctx.Done():
		return removeSocket(path)
	}
}

type registrar struct {
	registration.UnimplementedRegistrationServer
	info    *registration.PluginInfo
	refused chan error
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	klog.InfoS("Received GetInfo call", "info", r.info)
	return r.info, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	klog.InfoS("Received NotifyRegistrationStatus call", "status", s)
	if !s.PluginRegistered {
		select {
		case r.refused <- fmt.Errorf("registration process failed with error, restarting registration container: %s", s.Error):
		default: // it ends already
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}
