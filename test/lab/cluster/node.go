package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// nodeDir is where the files of a node are: those of the first node lie among the cluster's.
func (c *Cluster) nodeDir(node string) string {
	if node == Node {
		return c.Dir
	}
	return filepath.Join(c.Dir, "nodes", node)
}

// at names a program of a node.
func at(program, node string) string {
	if node == Node {
		return program
	}
	return program + "@" + node
}

// addNode brings up one of MoreNodes.
func (s *supervisor) addNode(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if !slices.Contains(MoreNodes, node) {
		return fmt.Errorf("no node %q, only %v", node, MoreNodes)
	}
	if err := s.start(at("namespace", node)); err != nil {
		return err
	}
	if err := until(ctx, "its mount namespace", func() error { _, err := os.Stat(s.mountedFile(node)); return err }); err != nil {
		return err
	}
	if err := errors.Join(s.start(at("containerd", node)), s.start(at("driver", node)), s.startKubelet(ctx, node)); err != nil {
		return err
	}
	if err := until(ctx, "its driver", func() error { return s.PutNodePlugin(ctx, node, DefaultDriver, driver.Config{Topology: Topology}) }); err != nil {
		return err
	}
	return s.nodeReady(ctx, node)
}

// startKubelet does so when containerd is there, with the images that the pods need.
func (s *supervisor) startKubelet(ctx context.Context, node string) error {
	if err := until(ctx, "containerd", func() error { return s.importImages(ctx, node) }); err != nil {
		return err
	}
	return s.start(at("kubelet", node))
}

func (s *supervisor) nodeReady(ctx context.Context, node string) error {
	wait := func(object, what string) func() error {
		return func() error { _, err := s.Kubectl(ctx, "", "wait", object, "--for="+what, "--timeout=1s"); return err }
	}
	if err := until(ctx, "the node", wait("node/"+node, "condition=Ready")); err != nil {
		return err
	}
	return until(ctx, "the driver's registration", wait("csinode/"+node, "jsonpath={.spec.drivers[0].name}="+DefaultDriver))
}

// nodeCommand is the command line of a program of a node.
func (s *supervisor) nodeCommand(program, node string) ([]string, error) {
	if program == "namespace" && node != Node {
		return []string{"unshare", "--mount", "--uts", filepath.Join(s.Dir, "bin/lab"), "namespace", s.Dir, node}, nil
	}
	enter, err := s.enter(node)
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(s.nodeDir(node), name) }
	switch program {
	case "containerd":
		return append(enter, filepath.Join(s.bin, program), "-c", file("containerd.toml")), nil
	case "kubelet":
		return append(enter, filepath.Join(s.bin, program), "--config="+file("kubelet.yaml"), "--kubeconfig="+file("kubelet.kubeconfig"),
			"--hostname-override="+node, "--root-dir="+KubeletRoot, "--v=3"), nil
	case "driver":
		return append(enter, filepath.Join(s.Dir, "bin/lab"), program, s.Dir, node), nil
	}
	return nil, fmt.Errorf("no program %q of %s", program, node)
}

// enter is what comes before a command of a node. The caller holds the lock.
func (s *supervisor) enter(node string) ([]string, error) {
	if node == Node {
		return nil, nil
	}
	p := s.running[at("namespace", node)]
	if p == nil {
		return nil, fmt.Errorf("%s was not added", node)
	}
	namespaces := fmt.Sprintf("/proc/%d/ns/", p.cmd.Process.Pid)
	return []string{"nsenter", "--mount=" + namespaces + "mnt", "--uts=" + namespaces + "uts", "--"}, nil
}

// NodeNamespace is one of MoreNodes: the mount namespace, made by unshare, into which the programs of the node are started.
func NodeNamespace(dir, node string) error {
	c := &Cluster{Dir: dir}
	for _, target := range []string{KubeletRoot, "/var/log", "/run"} { // the first node's, with all that it has mounted there
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
	if err := errors.Join(unix.Sethostname([]byte(node)), share(), mounts(c.nodeDir(node)), os.WriteFile(c.mountedFile(node), nil, 0o644)); err != nil {
		return err
	}
	return unix.Pause()
}

func (c *Cluster) mountedFile(node string) string { return filepath.Join(c.nodeDir(node), "mounted") }

func mount(source, target, fs string, flags uintptr) error {
	if err := unix.Mount(source, target, fs, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// share makes mounts be seen in the namespaces of containers, as systemd has it on a node.
func share() error { return mount("", "/", "", unix.MS_REC|unix.MS_SHARED) }

// hosts lets the API server reach kubelets by their nodes' names.
func hosts(dir string) error {
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "hosts")
	if err := os.WriteFile(file, fmt.Appendf(nil, "127.0.0.1 %s %s\n%s", Node, strings.Join(MoreNodes, " "), hosts), 0o644); err != nil {
		return err
	}
	return mount(file, "/etc/hosts", "", unix.MS_BIND)
}

// mounts puts a node's own folders where programs have fixed paths.
func mounts(dir string) error {
	if err := mount("tmpfs", "/run", "tmpfs", 0); err != nil {
		return err
	}
	for source, target := range map[string]string{"kubelet": KubeletRoot, "logs": "/var/log"} {
		source = filepath.Join(dir, source)
		if err := errors.Join(os.MkdirAll(source, 0o755), os.MkdirAll(target, 0o755)); err != nil {
			return err
		}
		if err := mount(source, target, "", unix.MS_BIND); err != nil {
			return err
		}
		// Out of the root's peer group and into one of its own, or every mount below it would be seen below the run's folder too.
		if err := errors.Join(mount("", target, "", unix.MS_PRIVATE), mount("", target, "", unix.MS_SHARED)); err != nil {
			return err
		}
	}
	return nil
}
