// Package cluster runs a real Kubernetes cluster on loopback: etcd, API server, controllers, scheduler, kubelet, containerd, CSI sidecars and
// the test driver. It has one node, and more when they are asked for.
//
// All of it lives below one unshare with namespaces of its own for processes, mounts and the machine's name. Whatever ends that, the kernel ends every process,
// takes away every mount, and with the last user of each loop device the device.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// Node is the first node. It is there in every run.
const Node = "node-1"

// MoreNodes can be added. Each has a kubelet, a containerd and node plugins, in a mount namespace of its own.
var MoreNodes = []string{"node-2", "node-3", "node-4"}

// Sidecars are the programs that stand between the API and a driver's controller service.
var Sidecars = []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"}

// Cluster is a run of the lab, seen from outside.
type Cluster struct {
	Dir     string // all its files
	APIOnly bool   // etcd and the API server run, and nothing else
}

// Named returns the run of that name, running or not.
func Named(name string) *Cluster {
	return &Cluster{Dir: filepath.Join(os.TempDir(), "csidoctor-run", name)}
}

// Kubeconfig is for the cluster's administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Start begins a run with the programs in bin, and waits until it is ready. With attached it ends with this process, or else with Stop.
func (c *Cluster) Start(ctx context.Context, bin string, attached bool) error {
	for _, program := range []string{"unshare", "runc", "busybox", "mount", "blkid", "mkfs.ext4", "mkfs.xfs"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: the lab needs the Debian packages util-linux, mount, e2fsprogs, xfsprogs, runc and busybox-static", err)
		}
	}
	if err := removeDead(filepath.Dir(c.Dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "log"), 0o755); err != nil {
		return err
	}
	lock, err := c.lock()
	if err != nil {
		return fmt.Errorf("%s is running already, or held: %w", c.Dir, err)
	}
	defer lock.Close()
	self, err := c.install()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.Dir, "log/lab"))
	if err != nil {
		return err
	}
	defer log.Close()
	run := exec.Command("unshare", "--fork", "--pid", "--mount", "--uts", "--mount-proc", "--kill-child", self, "inside", c.Dir, bin, strconv.FormatBool(c.APIOnly))
	run.Stdout, run.Stderr = log, log
	run.ExtraFiles = []*os.File{lock} // every process of the run inherits it: a lock that is free tells that all are gone
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if attached {
		run.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	if err := os.WriteFile(c.pidFile(), []byte(strconv.Itoa(run.Process.Pid)), 0o644); err != nil {
		return err
	}
	for {
		answer, err := c.call(ctx, c.socket(), http.MethodGet, "/ready", nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) { // these two: it does not listen yet
			run.Process.Kill()
			return fmt.Errorf("start: %w %s; see %s", err, answer, filepath.Join(c.Dir, "log"))
		}
		select {
		case err := <-ended:
			return fmt.Errorf("ended while it started: %w; see %s", err, log.Name())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the run, waits until all of it is gone, and removes its files.
func (c *Cluster) Stop() error {
	b, err := os.ReadFile(c.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return removeDead(filepath.Dir(c.Dir))
	} else if err != nil {
		return err
	}
	lock, err := c.lock()
	if err != nil { // held, so the run is alive and the id is its own
		pid, err := strconv.Atoi(string(b))
		if err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return err
		}
		for end := time.Now().Add(time.Minute); lock == nil; time.Sleep(50 * time.Millisecond) {
			if lock, err = c.lock(); err != nil && time.Now().After(end) {
				return fmt.Errorf("processes of %s do not end: %w", c.Dir, err)
			}
		}
	}
	lock.Close()
	return removeDead(filepath.Dir(c.Dir))
}

// StartProcess and StopProcess act on one program of the cluster: kubelet, kube-scheduler, ..., or csi-attacher@DRIVER.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	_, err := c.call(ctx, c.socket(), http.MethodPut, "/processes/"+name, nil)
	return err
}

func (c *Cluster) StopProcess(ctx context.Context, name string) error {
	_, err := c.call(ctx, c.socket(), http.MethodDelete, "/processes/"+name, nil)
	return err
}

// Command is a command on a node, in its mount namespace and among the lab's processes. What it mounts there ends with the run.
func (c *Cluster) Command(ctx context.Context, node string, args ...string) (*exec.Cmd, error) {
	unshare, err := os.ReadFile(c.pidFile())
	if err != nil {
		return nil, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", unshare))
	if err != nil {
		return nil, fmt.Errorf("the run's first process: %w", err)
	}
	first, _, _ := strings.Cut(string(children), " ")
	enter := []string{"--target=" + first, "--mount", "--pid", "--"}
	if node != Node {
		answer, err := c.call(ctx, c.socket(), http.MethodGet, "/processes", nil)
		if err != nil {
			return nil, err
		}
		pids := map[string]int{}
		if err := json.Unmarshal(answer, &pids); err != nil {
			return nil, err
		}
		enter = append(enter, "nsenter", fmt.Sprintf("--target=%d", pids[at("namespace", node)]), "--mount", "--")
	}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...), nil
}

// AddNode makes one of MoreNodes, with the default driver on it, and waits until it is ready. Raw block volumes do not work there.
func (c *Cluster) AddNode(ctx context.Context, node string) error {
	_, err := c.call(ctx, c.socket(), http.MethodPut, "/nodes/"+node, nil)
	return err
}

// PutDriver makes a driver, or sets all of its config.
func (c *Cluster) PutDriver(ctx context.Context, name string, config driver.Config) error {
	_, err := c.call(ctx, c.DriverSocket(Node), http.MethodPut, "/drivers/"+name, config)
	return err
}

// PutNodePlugin makes the node plugin of a driver on one of MoreNodes, or sets all of its config. Its controller is where PutDriver made it.
func (c *Cluster) PutNodePlugin(ctx context.Context, node, name string, config driver.Config) error {
	config.Controller = driver.Absent
	_, err := c.call(ctx, c.DriverSocket(node), http.MethodPut, "/drivers/"+name, config)
	return err
}

// ChangeDriver changes those fields of a driver's config that are not empty.
func (c *Cluster) ChangeDriver(ctx context.Context, name string, fields driver.Config) error {
	_, err := c.call(ctx, c.DriverSocket(Node), http.MethodPatch, "/drivers/"+name, fields)
	return err
}

// Driver tells how a driver stands.
func (c *Cluster) Driver(ctx context.Context, name string) (state driver.State, err error) {
	answer, err := c.call(ctx, c.DriverSocket(Node), http.MethodGet, "/drivers/"+name, nil)
	if err == nil {
		err = json.Unmarshal(answer, &state)
	}
	return state, err
}

// Inject puts a fault in the place of a driver's RPC; Recover takes it back.
func (c *Cluster) Inject(ctx context.Context, name, rpc string, fault driver.Fault) error {
	_, err := c.call(ctx, c.DriverSocket(Node), http.MethodPut, "/drivers/"+name+"/faults/"+rpc, fault)
	return err
}

func (c *Cluster) Recover(ctx context.Context, name, rpc string) error {
	_, err := c.call(ctx, c.DriverSocket(Node), http.MethodDelete, "/drivers/"+name+"/faults/"+rpc, nil)
	return err
}

// AddDriver makes a driver with all that belongs to it: its CSIDriver, the classes NAME-now and NAME-wait, the snapshot
// class NAME, and those of the Sidecars.
func (c *Cluster) AddDriver(ctx context.Context, name string, config driver.Config, sidecars ...string) error {
	if err := c.PutDriver(ctx, name, config); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, strings.ReplaceAll(driverObjects, "NAME", name), "apply", "-f", "-"); err != nil {
		return err
	}
	for _, s := range sidecars {
		if err := c.StartProcess(ctx, s+"@"+name); err != nil {
			return err
		}
	}
	return nil
}

const driverObjects = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: NAME}
spec: {attachRequired: true, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-now}
provisioner: NAME
volumeBindingMode: Immediate
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME-wait}
provisioner: NAME
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: NAME}
driver: NAME
deletionPolicy: Delete
`

// Kubectl runs the cluster's own kubectl as its administrator, with that standard input.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	kubectl := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin/kubectl"), append([]string{"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + filepath.Join(c.Dir, "kubectl")}, args...)...)
	kubectl.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	kubectl.Stdout, kubectl.Stderr = &out, &errs
	if err := kubectl.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// call sends a request to a socket. The error of a refused one carries the answer.
func (c *Cluster) call(ctx context.Context, socket, method, path string, body any) ([]byte, error) {
	var dialer net.Dialer
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, strings.TrimSpace(string(text)))
	}
	return text, err
}

func (c *Cluster) pidFile() string { return filepath.Join(c.Dir, "pid") }
func (c *Cluster) socket() string  { return filepath.Join(c.Dir, "lab.sock") }

// lock takes the run's lock, or fails at once where a process of the run is alive.
func (c *Cluster) lock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// install copies this program into the run, which may outlive the file that it was started from.
func (c *Cluster) install() (string, error) {
	for _, dir := range []string{"bin", "kubelet-bin"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return "", err
		}
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer from.Close()
	self := filepath.Join(c.Dir, "bin/lab")
	to, err := os.OpenFile(self, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return self, errors.Join(err, to.Close(), os.Symlink("../bin/lab", filepath.Join(c.Dir, "kubelet-bin/losetup")))
}
