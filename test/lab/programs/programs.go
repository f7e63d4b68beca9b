// Package programs builds a Kubernetes cluster's programs from the Go modules in its folders, once for each set of versions.
package programs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The tools of each module are what is built.
var modules = []struct {
	folder string
	tags   string
	rename [2]string
	data   [3]string // of a module that the tools need: these files, into this folder
}{
	{folder: "k8s", rename: [2]string{"server", "etcd"}}, // etcd's program is the package .../server/v3
	{folder: "csi", data: [3]string{"github.com/kubernetes-csi/external-snapshotter/client/v8", "config/crd/snapshot.storage.k8s.io_*.yaml", "crd"}},
	{folder: "containerd", tags: "no_btrfs,no_devmapper"},
}

// Cache is where built programs are kept.
func Cache() (string, error) {
	user, err := os.UserCacheDir()
	return filepath.Join(user, "csidoctor-lab"), err
}

// Build returns the folder with the programs that the modules in source name, and builds them first if need be.
func Build(ctx context.Context, source, cache string, log io.Writer) (string, error) {
	version, err := version(ctx, source)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, version)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil { // somebody else may be at it
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	part := bin + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	fmt.Fprintln(log, "building the programs of the cluster, which takes about 13 minutes the first time")
	for _, m := range modules {
		flags, err := linkerFlags(ctx, filepath.Join(source, m.folder))
		if err != nil {
			return "", err
		}
		build := command(ctx, filepath.Join(source, m.folder), "build", "-buildvcs=false", "-tags", m.tags, "-ldflags", flags, "-o", part+"/", "tool")
		build.Stdout, build.Stderr = log, log
		if err := build.Run(); err != nil {
			return "", fmt.Errorf("build %s: %w", m.folder, err)
		}
		if m.data[0] != "" {
			if err := copyData(ctx, filepath.Join(source, m.folder), m.data[0], m.data[1], filepath.Join(part, m.data[2])); err != nil {
				return "", err
			}
		}
		if m.rename[0] != "" {
			if err := os.Rename(filepath.Join(part, m.rename[0]), filepath.Join(part, m.rename[1])); err != nil {
				return "", err
			}
		}
	}
	return bin, os.Rename(part, bin)
}

// copyData copies files of a module that folder's module needs.
func copyData(ctx context.Context, folder, module, pattern, to string) error {
	dir, err := command(ctx, folder, "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("go list -m %s in %s: %w", module, folder, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pattern))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no %s: %v", module, pattern, err)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// version is a hash over all that decides what is built.
func version(ctx context.Context, source string) (string, error) {
	hash := sha256.New()
	goVersion, err := command(ctx, source, "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	fmt.Fprintf(hash, "%s%v", goVersion, modules)
	for _, m := range modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			b, err := os.ReadFile(filepath.Join(source, m.folder, name))
			if err != nil {
				return "", err
			}
			hash.Write(b)
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:16], nil
}

// linkerFlags says the version of Kubernetes: without it, kubectl and the API server refuse each other.
func linkerFlags(ctx context.Context, folder string) (string, error) {
	flags := "-s -w"
	list, err := command(ctx, folder, "list", "-m", "-f", "{{.Path}} {{.Version}}", "all").Output()
	if err != nil {
		return "", fmt.Errorf("go list in %s: %w", folder, err)
	}
	for line := range strings.Lines(string(list)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "k8s.io/kubernetes "); ok {
			parts := strings.Split(strings.TrimPrefix(v, "v"), ".")
			const variable = " -X k8s.io/component-base/version.git"
			flags += variable + "Version=" + v + variable + "Major=" + parts[0] + variable + "Minor=" + parts[1]
		}
	}
	return flags, nil
}

// command runs go without cgo, so that the programs need no compiler and no library of the machine.
func command(ctx context.Context, folder string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	return c
}
