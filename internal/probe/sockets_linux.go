package probe

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

type socketsArg struct {
	Root  string   `json:"root"`
	Avoid []string `json:"avoid"` // mount points not to go into
}

// sockets are what lies below a kubelet's root: of registrars, and of plugins.
type sockets struct {
	Registry []string `json:"registry"`
	Plugins  []string `json:"plugins"`
}

var opSockets = register("sockets", func(a socketsArg) (sockets, error) {
	var s sockets
	// The kubelet watches the registry with its sub-folders and ignores names with a dot (pkg/kubelet/pluginmanager/pluginwatcher).
	err := findSockets(filepath.Join(a.Root, "plugins_registry"), a.Avoid, 3, &s.Registry)
	return s, errors.Join(err, findSockets(filepath.Join(a.Root, "plugins"), a.Avoid, 2, &s.Plugins))
})

func findSockets(dir string, avoid []string, depth int, found *[]string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		err = errors.New(dir + ": " + reason(err))
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."), slices.Contains(avoid, p):
		case e.Type()&fs.ModeSocket != 0:
			*found = append(*found, p)
		case e.Type()&fs.ModeSymlink != 0:
			if info, fault := os.Stat(p); fault == nil && info.Mode()&fs.ModeSocket != 0 {
				*found = append(*found, p)
			}
		case e.IsDir() && depth > 0 && e.Name() != "kubernetes.io":
			err = errors.Join(err, findSockets(p, avoid, depth-1, found))
		}
	}
	return err
}

type dialArg struct {
	Path     string        `json:"path"`
	Patience time.Duration `json:"patience"` // for each call
}

// opRegistrar asks a registration socket what it registers, as the kubelet does.
var opRegistrar = register("registrar", func(a dialArg) (registrar, error) {
	r := registrar{Socket: nodereport.Socket{Path: a.Path}}
	session(a, &r.Socket, func(ctx context.Context, conn *grpc.ClientConn) error {
		info, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{})
		r.Type, r.Name, r.Endpoint = info.GetType(), info.GetName(), info.GetEndpoint()
		return err
	})
	return r, nil
})

type registrar struct {
	Socket   nodereport.Socket `json:"socket"`
	Type     string            `json:"type"`
	Name     string            `json:"name"`
	Endpoint string            `json:"endpoint"`
}

// plugin is what a driver's socket answered.
type plugin struct {
	Socket   nodereport.Socket      `json:"socket"`
	Identity *nodereport.Identity   `json:"identity,omitempty"`
	Node     *nodereport.DriverNode `json:"node,omitempty"`
}

// opPlugin asks a driver who it is, whether it is ready, and what it knows of the node: calls that only read.
var opPlugin = register("plugin", func(a dialArg) (plugin, error) {
	p := plugin{Socket: nodereport.Socket{Path: a.Path}}
	session(a, &p.Socket, func(ctx context.Context, conn *grpc.ClientConn) error {
		identity, node := csi.NewIdentityClient(conn), csi.NewNodeClient(conn)
		info, err := identity.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
		if err != nil {
			return err
		}
		p.Identity = &nodereport.Identity{Name: info.GetName(), VendorVersion: info.GetVendorVersion(), Ready: "unknown"}
		var n nodereport.DriverNode
		served := false
		var wg sync.WaitGroup
		wg.Go(func() {
			ready, err := identity.Probe(ctx, &csi.ProbeRequest{})
			switch {
			case status.Code(err) == codes.FailedPrecondition: // the code for "not healthy" (CSI specification, Probe)
				p.Identity.Ready, p.Identity.Error = "no", say(err)
			case err != nil:
				p.Identity.Error = say(err)
			case ready.GetReady() == nil || ready.GetReady().GetValue(): // not set means ready
				p.Identity.Ready = "yes"
			default:
				p.Identity.Ready = "no"
			}
		})
		wg.Go(func() {
			info, err := node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
			served = served || status.Code(err) != codes.Unimplemented
			if err != nil {
				n.Error = say(err)
				return
			}
			n.ID, n.MaxVolumes, n.Topology = info.GetNodeId(), info.GetMaxVolumesPerNode(), info.GetAccessibleTopology().GetSegments()
		})
		var able []string
		wg.Go(func() {
			r, err := node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
			if err != nil {
				return // NodeGetInfo has its own error, and the capabilities stay unknown
			}
			able = []string{}
			for _, c := range r.GetCapabilities() {
				able = append(able, c.GetRpc().GetType().String())
			}
		})
		wg.Wait()
		if served || able != nil {
			n.Capabilities = able
			p.Node = &n
		}
		return nil
	})
	return p, nil
})

// session dials a socket and runs calls on it; the socket's state is how that ended.
func session(a dialArg, s *nodereport.Socket, calls func(context.Context, *grpc.ClientConn) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*a.Patience)
	defer cancel()
	first, err := dial(ctx, a.Path)
	if err != nil {
		s.State, s.Error = dialState(err), err.Error()
		return
	}
	var once sync.Once
	conn, err := grpc.NewClient("passthrough:///csi", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (c net.Conn, err error) {
			once.Do(func() { c = first })
			if c == nil {
				c, err = dial(ctx, a.Path)
			}
			return c, err
		}))
	if err != nil {
		first.Close()
		s.State, s.Error = nodereport.SocketRefused, err.Error()
		return
	}
	defer conn.Close()
	defer once.Do(func() { first.Close() })
	switch err = calls(ctx, conn); {
	case err == nil:
		s.State = nodereport.SocketOK
	case status.Code(err) == codes.DeadlineExceeded:
		s.State, s.Error = nodereport.SocketTimeout, say(err)
	case status.Code(err) == codes.Unavailable:
		s.State, s.Error = nodereport.SocketRefused, say(err)
	default: // it speaks, and refuses the call
		s.State, s.Error = nodereport.SocketOK, say(err)
	}
}

// say writes a gRPC error as kubelet and drivers do.
func say(err error) string { return maskText(err.Error()) }

func dialState(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nodereport.SocketMissing
	case errors.Is(err, fs.ErrPermission):
		return nodereport.SocketDenied
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return nodereport.SocketTimeout
	}
	return nodereport.SocketRefused
}

// maxSocketPath is what fits into sockaddr_un with its final zero (unix(7)).
const maxSocketPath = 107

// dial connects to a socket; one whose path is too long for the kernel, by its open folder.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	if len(path) <= maxSocketPath {
		return d.DialContext(ctx, "unix", path)
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(fd)
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd)+"/"+filepath.Base(path))
}
