// Package krew tests a release as krew's users get it: the manifest, an archive, and the plugin started by kubectl.
package krew

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	root    = "../.." // of the repository
	version = "v0.0.1-test"
)

func TestInstall(t *testing.T) {
	kubectl := kubectl(t)
	dist, store := t.TempDir(), t.TempDir()
	// krew wants one platform at least to install; its validator wants to see them all.
	run(t, root, nil, "go", "run", "./internal/tools/dist", "-version", version, "-out", dist,
		"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64")
	manifest := filepath.Join(dist, "csidoctor.yaml")
	run(t, ".", nil, "go", "tool", "validate-krew-manifest", "-manifest", manifest, "-skip-install")

	archive := filepath.Join(dist, "csidoctor_"+version+"_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	env := []string{
		"KREW_ROOT=" + store,
		"KREW_NO_UPGRADE_CHECK=1", // it would ask the network
		"PATH=" + strings.Join([]string{filepath.Join(store, "bin"), filepath.Dir(kubectl), os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	run(t, ".", env, "go", "tool", "krew", "install", "--manifest="+manifest, "--archive="+archive)
	if out := run(t, ".", env, kubectl, "csidoctor", "version"); !strings.Contains(out, version) {
		t.Errorf("kubectl csidoctor version printed %q, want %s in it", out, version)
	}
}

func TestCompletion(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not here, and it installs the completion")
	}
	kubectl := kubectl(t)
	prefix := t.TempDir()
	run(t, root, nil, "make", "install", "PREFIX="+prefix)
	env := []string{"PATH=" + strings.Join([]string{filepath.Join(prefix, "bin"), filepath.Dir(kubectl), os.Getenv("PATH")}, string(os.PathListSeparator))}
	if out := run(t, ".", env, kubectl, "__complete", "csidoctor", "p"); !strings.Contains(out, "pvc") || !strings.Contains(out, "pod") {
		t.Errorf("kubectl csidoctor p<TAB> offers %q, want pvc and pod", out)
	}
}

// kubectl is the one that CSIDOCTOR_KUBECTL names, else the machine's, else one built here.
func kubectl(t *testing.T) string {
	t.Helper()
	if k := os.Getenv("CSIDOCTOR_KUBECTL"); k != "" {
		return k
	}
	if k, err := exec.LookPath("kubectl"); err == nil {
		return k
	}
	path := filepath.Join(t.TempDir(), "kubectl")
	run(t, ".", nil, "go", "build", "-o", path, "./kubectl")
	return path
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	t.Logf("%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}
