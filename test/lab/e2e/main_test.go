// Package e2e asks csidoctor about faults of a real cluster.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// The lab's program and csidoctor, built for this run of the tests.
var lab, csidoctor string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if !canRun() {
		return m.Run() // each test says why it is skipped
	}
	dir, err := os.MkdirTemp("", "csidoctor-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	lab, csidoctor = filepath.Join(dir, "lab"), filepath.Join(dir, "kubectl-csidoctor")
	for _, args := range [][]string{{"-ldflags=-s -w", "-o", lab, "../cmd/lab"}, {"-C", "../../..", "-o", csidoctor, "./cmd/csidoctor"}} {
		build := exec.Command("go", append([]string{"build"}, args...)...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %v: %v\n", args, err)
			return 1
		}
	}
	// Parallel tests here wait for the cluster, not for a processor. -parallel on the command line still decides.
	flag.Set("test.parallel", "64")
	return m.Run()
}

func canRun() bool { return os.Getenv("CSIDOCTOR_TEST_REAL") == "1" }

func needReal(t *testing.T) {
	t.Helper()
	if !canRun() {
		t.Skip("needs root and a machine to run a cluster on: CSIDOCTOR_TEST_REAL=1 says that there is one")
	}
}

// startLab brings up a run that ends with the test, however that ends.
func startLab(t *testing.T, name string, flags ...string) (*cluster.Cluster, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(lab, append(append([]string{"-name", name}, flags...), "run")...)
	cmd.Dir = ".." // where the programs' modules are
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that Ctrl-C ends the test, and the test ends it
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
		if err := cluster.Named(name).Stop(); err != nil {
			t.Error(err)
		}
	})
	if n, err := out.Read(make([]byte, 1024)); n == 0 {
		t.Fatalf("the lab did not start: %v", err)
	}
	go io.Copy(io.Discard, out)
	return cluster.Named(name), cmd
}

// kubectl runs kubectl with that input, and ends the test if it fails.
func kubectl(t *testing.T, c *cluster.Cluster, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := c.Kubectl(ctx, input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits for a condition, and ends the test if it does not come.
func eventually(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}
