package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/test/lab/driver"
	"github.com/csidoctor/csidoctor/test/lab/loop"
)

// DefaultDriver is there in every run.
const DefaultDriver = "loop.csidoctor.dev"

// Inside is the run: the first process of its namespaces, which ends with all others when it ends.
func Inside(dir, bin string, apiOnly bool) error {
	if os.Getpid() == 1 {
		return reap()
	}
	if err := errors.Join(unix.Sethostname([]byte(Node)), share(), mounts(dir), hosts(dir)); err != nil {
		return err
	}
	s := &supervisor{Cluster: Cluster{Dir: dir, APIOnly: apiOnly}, bin: bin, running: map[string]*process{}, loops: map[string]*os.File{}, ready: make(chan struct{})}
	if err := s.configure(); err != nil {
		return err
	}
	l, err := net.Listen("unix", s.socket())
	if err != nil {
		return err
	}
	go func() {
		s.failed = s.boot(context.Background())
		close(s.ready)
	}()
	return http.Serve(l, s.handler())
}

// reap runs this program once more as its child, and collects the orphans of the namespace: that is the first process's duty.
func reap() error {
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr, os.NewFile(3, "lock")}})
	if err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == child.Pid {
			return fmt.Errorf("supervisor ended: %v %v", status, err)
		}
	}
}

// supervisor starts and stops the programs, and holds what must not outlive them.
type supervisor struct {
	Cluster
	bin    string
	ports  map[string]int
	ready  chan struct{} // closed when boot has ended
	failed error         // of boot

	images sync.Mutex // held while those of drivers are made

	mu      sync.Mutex
	running map[string]*process
	loops   map[string]*os.File
}

type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// boot brings the cluster up, each part as soon as what it needs is there.
func (s *supervisor) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // it takes 20 s; three runs of this on a busy machine, much longer
	defer cancel()
	first := []string{"etcd", "containerd", "kube-apiserver", "driver"}
	if s.APIOnly {
		first = []string{"etcd", "kube-apiserver"}
	}
	for _, name := range first {
		if err := s.start(name); err != nil {
			return err
		}
	}
	kubectl := func(args ...string) func() error {
		return func() error { _, err := s.Kubectl(ctx, "", args...); return err }
	}
	if err := until(ctx, "the API server", kubectl("get", "--raw", "/readyz")); err != nil {
		return err
	}
	// The snapshots' kinds are there as on many clusters, before and without the controller that works on them.
	if err := kubectl("create", "-f", filepath.Join(s.bin, "crd"))(); err != nil || s.APIOnly {
		return err
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := s.start(name); err != nil {
			return err
		}
	}
	images, err := podImages()
	if err != nil {
		return err
	}
	if err := writeImages(s.archive("pods"), images); err != nil {
		return err
	}
	if err := s.startKubelet(ctx, Node); err != nil {
		return err
	}
	if err := until(ctx, "the driver", func() error { return s.AddDriver(ctx, DefaultDriver, driver.Config{Topology: Topology}, Sidecars...) }); err != nil {
		return err
	}
	if err := s.nodeReady(ctx, Node); err != nil {
		return err
	}
	return until(ctx, "the default service account", kubectl("get", "serviceaccount/default"))
}

func until(ctx context.Context, what string, done func() error) error {
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// handler is the run's control:
//
//	GET /ready                     answers when boot has ended
//	GET /processes                 the names of what runs
//	PUT|DELETE /processes/NAME     start, stop
//	PUT /nodes/NAME                one more node
//	PUT /driver-images             the images of drivers in pods
//	PUT /loops?file=, DELETE /loops?device=   hold a loop device, let it go: for the losetup of kubelet
func (s *supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := f(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			json.NewEncoder(w).Encode(answer)
		})
	}
	handle("GET /ready", func(*http.Request) (any, error) { <-s.ready; return "ready", s.failed })
	handle("GET /processes", func(*http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		pids := map[string]int{}
		for name, p := range s.running {
			pids[name] = p.cmd.Process.Pid
		}
		return pids, nil
	})
	handle("PUT /processes/{name}", func(r *http.Request) (any, error) { return nil, s.start(r.PathValue("name")) })
	handle("DELETE /processes/{name}", func(r *http.Request) (any, error) { return nil, s.stop(r.PathValue("name")) })
	handle("PUT /nodes/{name}", func(r *http.Request) (any, error) { return nil, s.addNode(r.Context(), r.PathValue("name")) })
	handle("PUT /driver-images", func(r *http.Request) (any, error) { return nil, s.putDriverImages(r.Context()) })
	handle("PUT /loops", func(r *http.Request) (any, error) {
		device, err := loop.Attach(r.FormValue("file"))
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loops[device.Name()] = device
		return device.Name(), nil
	})
	handle("DELETE /loops", func(r *http.Request) (any, error) {
		s.mu.Lock()
		device, ok := s.loops[r.FormValue("device")]
		delete(s.loops, r.FormValue("device"))
		s.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("%s is not held", r.FormValue("device"))
		}
		return nil, errors.Join(device.Close(), loop.WaitFree(device.Name(), 5*time.Second))
	})
	return mux
}

func (s *supervisor) start(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[name] != nil {
		return nil
	}
	args, err := s.command(name)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.Dir, log, log
	p.cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(s.Dir, "kubelet-bin")+":"+s.bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LAB_DIR="+s.Dir,
		"NAMESPACE=kube-system", "POD_NAMESPACE=kube-system", "POD_NAME="+strings.ReplaceAll(name, "@", "-"))
	if err := p.cmd.Start(); err != nil {
		return err
	}
	s.running[name] = p
	go func() {
		err := p.cmd.Wait()
		fmt.Fprintf(os.Stdout, "%s %s ended: %v\n", time.Now().Format(time.TimeOnly), name, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, name)
		close(p.ended)
	}()
	return nil
}

func (s *supervisor) stop(name string) error {
	s.mu.Lock()
	p := s.running[name]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s does not run", name)
	}
	p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second): // the API server waits for its watches
		p.cmd.Process.Kill()
		<-p.ended
	}
	return nil
}

// Losetup is the losetup that kubelet finds. Kubelet pins a raw block volume with a loop device that nothing clears by itself and that
// would outlive the lab; so the supervisor makes it and holds it.
func Losetup(args []string) error {
	c := &Cluster{Dir: os.Getenv("LAB_DIR")}
	if len(args) == 2 && args[0] == "-f" {
		return c.loops(http.MethodPut, "file", args[1])
	}
	if len(args) == 2 && args[0] == "-d" {
		return c.loops(http.MethodDelete, "device", args[1])
	}
	return fmt.Errorf("only -f FILE and -d DEVICE are known here, not %q", args)
}

func (c *Cluster) loops(method, key, value string) error {
	_, err := c.call(context.Background(), c.socket(), method, "/loops?"+url.Values{key: {value}}.Encode(), nil)
	return err
}
