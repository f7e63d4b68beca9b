package driver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Asked is what a driver in a pod gets to know before a call.
type Asked struct {
	Config Config `json:"config"`
	Fault  *Fault `json:"fault,omitempty"`
}

// ServePod serves one driver at a socket until it is told to end, as the program of a driver does in a container of its own.
// Faults and config come from ask, so that they are set in one place and outlive the container.
func (s *Server) ServePod(ctx context.Context, name, socket string, ask func(ctx context.Context, rpc string, names []string) (Asked, error)) error {
	p := s.newPlugin(name)
	p.called = func(ctx context.Context, rpc string, names []string) (*Fault, error) {
		a, err := ask(ctx, rpc, names)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		p.config = a.Config
		p.mu.Unlock()
		if a.Fault == nil {
			return nil, nil
		}
		return a.Fault, a.Fault.check()
	}
	if err := errors.Join(os.MkdirAll(p.images(), 0o755), removeSocket(socket)); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(p.intercept))
	csi.RegisterIdentityServer(g, p)
	csi.RegisterControllerServer(g, p)
	csi.RegisterNodeServer(g, p)
	context.AfterFunc(ctx, g.Stop)
	return g.Serve(l)
}

// removeSocket takes away what an earlier container may have left.
func removeSocket(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
