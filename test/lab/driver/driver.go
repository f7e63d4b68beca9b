// Package driver is a CSI driver whose volumes are files behind loop devices, and whose every call can be told to fail, hang or lie.
//
// One process serves any number of drivers, each by its own name with sockets of its own, so that faults of one never touch another.
// It keeps its attachments in memory: a volume that is attached and not mounted is lost with the process.
package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// How a service of a driver stands.
const (
	Running = "running"
	Dead    = "dead"   // ended, its sockets left behind: what a crash leaves
	Absent  = "absent" // no sockets: never there, or uninstalled
	InPods  = "pods"   // it runs in pods of its own (ServePod), which ask here for their config and faults
)

// Config says what a driver is like. Putting a new one changes a running driver.
type Config struct {
	Node       string            `json:"node,omitempty"`       // the node service and its registration with kubelet; empty: running
	Controller string            `json:"controller,omitempty"` // the controller service; empty: running
	Without    []string          `json:"without,omitempty"`    // capabilities that it does not have: PUBLISH_UNPUBLISH_VOLUME, STAGE_UNSTAGE_VOLUME, EXPAND_VOLUME, ...
	Topology   map[string]string `json:"topology,omitempty"`   // where the node is; empty: the driver knows no topology
	MaxVolumes int64             `json:"maxVolumes,omitempty"` // a node can have so many; 0: no limit
	Capacity   int64             `json:"capacity,omitempty"`   // bytes of all volumes together; 0: 1 TiB
}

// State is what a driver tells of itself.
type State struct {
	Config Config            `json:"config"`
	Faults map[string]*Fault `json:"faults"`
	Calls  map[string]int    `json:"calls"` // how often each RPC was called
}

// Server holds the drivers of this process.
type Server struct {
	Node        string   // the Kubernetes node that this is
	Nodes       []string // all of them, to which volumes can be attached from here
	State       string   // where volumes are kept
	KubeletRoot string
	Sockets     string // where controller sockets lie

	mu      sync.Mutex
	plugins map[string]*plugin
}

// plugin is one driver.
type plugin struct {
	*Server
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	name     string
	services map[string]*service
	called   func(ctx context.Context, rpc string, names []string) (*Fault, error) // comes before each call

	mu       sync.Mutex
	config   Config
	faults   map[string]*Fault
	calls    map[string]int
	attached map[string]attachment // by the volume's handle
	inline   map[string]*os.File   // the devices of inline volumes
}

// attachment is a volume's device, which is not cleared as long as it is open, and the one node that has it.
type attachment struct {
	*os.File
	node string
}

type httpError struct {
	status int
	text   string
}

func (e httpError) Error() string { return e.text }

// ControllerSocket is where the sidecars of a driver find it.
func (s *Server) ControllerSocket(name string) string { return filepath.Join(s.Sockets, name+".sock") }

// Handler is the control of the drivers:
//
//	GET|PUT|DELETE /drivers/NAME           State, Config
//	PATCH /drivers/NAME                    only some fields of the Config
//	PUT|DELETE /drivers/NAME/faults/RPC    Fault; RPC by its bare name: NodeStageVolume
//	POST /drivers/NAME/calls/RPC           what a driver in a pod asks before a call: Asked
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := f(r)
			if err != nil {
				code := http.StatusInternalServerError
				if e := (httpError{}); errors.As(err, &e) {
					code = e.status
				}
				http.Error(w, err.Error(), code)
			} else if err := json.NewEncoder(w).Encode(answer); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	handle("GET /drivers/{name}", func(r *http.Request) (any, error) {
		p, err := s.plugin(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		return p.state(), nil
	})
	change := func(r *http.Request, c Config) (any, error) {
		if err := decode(r, &c); err != nil {
			return nil, err
		}
		p, err := s.put(r.PathValue("name"), c)
		if err != nil {
			return nil, err
		}
		return p.state(), nil
	}
	handle("PUT /drivers/{name}", func(r *http.Request) (any, error) { return change(r, Config{}) })
	handle("PATCH /drivers/{name}", func(r *http.Request) (any, error) {
		p, err := s.plugin(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		return change(r, p.state().Config)
	})
	handle("DELETE /drivers/{name}", func(r *http.Request) (any, error) {
		p, err := s.put(r.PathValue("name"), Config{Node: Absent, Controller: Absent})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.plugins, p.name)
		return p.state(), nil
	})
	fault := func(r *http.Request, f *Fault) (any, error) {
		p, err := s.plugin(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		p.setFault(r.PathValue("rpc"), f)
		return p.state(), nil
	}
	handle("PUT /drivers/{name}/faults/{rpc}", func(r *http.Request) (any, error) {
		f := &Fault{over: make(chan struct{})}
		if err := decode(r, f); err != nil {
			return nil, err
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		return fault(r, f)
	})
	handle("DELETE /drivers/{name}/faults/{rpc}", func(r *http.Request) (any, error) { return fault(r, nil) })
	handle("POST /drivers/{name}/calls/{rpc}", func(r *http.Request) (any, error) {
		p, err := s.plugin(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		var names []string
		if err := decode(r, &names); err != nil {
			return nil, err
		}
		f, err := p.count(r.Context(), r.PathValue("rpc"), names)
		return Asked{Config: p.state().Config, Fault: f}, err
	})
	return mux
}

func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return httpError{http.StatusBadRequest, "request body: " + err.Error()}
	}
	return nil
}

func (s *Server) plugin(name string) (*plugin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.plugins[name]; p != nil {
		return p, nil
	}
	return nil, httpError{http.StatusNotFound, fmt.Sprintf("no driver %q", name)}
}

// put makes the driver, or changes it, to be as the config says.
func (s *Server) put(name string, c Config) (*plugin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plugins[name]
	if p == nil {
		p = s.newPlugin(name)
		p.called = p.count
		p.services = map[string]*service{
			"controller": {path: s.ControllerSocket(name)},
			"node":       {path: p.nodeSocket()},
			"register":   {path: filepath.Join(s.KubeletRoot, "plugins_registry", name+"-reg.sock")},
		}
		if err := os.MkdirAll(p.images(), 0o755); err != nil {
			return nil, err
		}
		if s.plugins == nil {
			s.plugins = map[string]*plugin{}
		}
		s.plugins[name] = p
	}
	p.mu.Lock()
	p.config = c
	p.mu.Unlock()
	server := func(register func(*grpc.Server)) *grpc.Server {
		g := grpc.NewServer(grpc.UnaryInterceptor(p.intercept))
		register(g)
		return g
	}
	controller := func(g *grpc.Server) { csi.RegisterIdentityServer(g, p); csi.RegisterControllerServer(g, p) }
	node := func(g *grpc.Server) { csi.RegisterIdentityServer(g, p); csi.RegisterNodeServer(g, p) }
	register := func(g *grpc.Server) { registration.RegisterRegistrationServer(g, p) }
	// The registration comes last: kubelet calls the node service as soon as it sees that socket.
	return p, errors.Join(
		p.services["controller"].set(c.Controller, server(controller)),
		p.services["node"].set(c.Node, server(node)),
		p.services["register"].set(c.Node, server(register)))
}

func (s *Server) newPlugin(name string) *plugin {
	return &plugin{Server: s, name: name, faults: map[string]*Fault{}, calls: map[string]int{},
		attached: map[string]attachment{}, inline: map[string]*os.File{}}
}

func (p *plugin) state() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return State{Config: p.config, Faults: maps.Clone(p.faults), Calls: maps.Clone(p.calls)}
}

func (p *plugin) setFault(rpc string, f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.faults[rpc]; old != nil {
		close(old.over)
		delete(p.faults, rpc)
	}
	if f != nil {
		p.faults[rpc] = f
	}
}

func (p *plugin) lacks(capability string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.config.Without, capability)
}

func (p *plugin) nodeSocket() string {
	return filepath.Join(p.KubeletRoot, "plugins", p.name, "csi.sock")
}

// service is one socket and what listens on it.
type service struct {
	path   string
	server *grpc.Server // nil: not running
}

func (s *service) set(state string, fresh *grpc.Server) error {
	switch state {
	case "", Running:
		if s.server != nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(s.path), 0o750); err != nil {
			return err
		}
		if err := removeSocket(s.path); err != nil {
			return err
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // so that a dead one leaves its socket, as a crash does
		s.server = fresh
		go fresh.Serve(l)
		return nil
	case Dead, Absent, InPods:
		if s.server != nil {
			s.server.Stop()
			s.server = nil
		}
		if state != Absent {
			return nil
		}
		return removeSocket(s.path)
	}
	return httpError{http.StatusBadRequest, fmt.Sprintf("state %q is none of running, dead, absent, pods", state)}
}
