package carrier

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell is an executor that runs the command here, with only these programs, and wants nothing to be left of it.
func shell(t *testing.T, programs ...string) executor {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no POSIX shell is here, as in the containers that this is for")
	}
	bin, memory := t.TempDir(), t.TempDir()
	for _, p := range programs {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Skipf("%s is not here", p)
		}
		if err := os.Symlink(path, filepath.Join(bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(memory); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	})
	return func(ctx context.Context, _ place, command []string, in io.Reader, out, errs io.Writer) error {
		script := strings.ReplaceAll(command[2], inMemory, memory)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
		cmd.Env = []string{"PATH=" + bin}
		cmd.Stdout, cmd.Stderr = out, errs
		stdin, err := cmd.StdinPipe() // as in a cluster, the input is copied by itself
		if err != nil {
			return err
		}
		go func() { io.Copy(stdin, in); stdin.Close() }()
		return cmd.Run()
	}
}

func packed(t *testing.T, program string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := io.WriteString(zip, program); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSend(t *testing.T) {
	// Larger than a pipe holds, so that a side that does not read is seen.
	program := "#!/bin/sh\necho \"$@\"; exit\n" + strings.Repeat("# padding\n", 20000)
	for name, programs := range map[string][]string{"with gzip": {"sh", "cat", "chmod", "rm", "gzip"}, "without": {"sh", "cat", "chmod", "rm"}} {
		t.Run(name, func(t *testing.T) {
			c := &Carrier{exec: shell(t, programs...)}
			out, err := c.send(t.Context(), place{}, "node-1", packed(t, program))
			if want := "-node node-1 -timeout 10s -o frame\n"; err != nil || string(out) != want {
				t.Errorf("%q %v, want %q", out, err, want)
			}
		})
	}
	t.Run("the program fails", func(t *testing.T) {
		c := &Carrier{exec: shell(t, "sh", "cat", "chmod", "rm")}
		_, err := c.send(t.Context(), place{}, "node-1", packed(t, "#!/bin/sh\necho no such mount >&2; exit 1\n"))
		var f *Failure
		if !errors.As(err, &f) || !strings.Contains(f.Detail, "no such mount") {
			t.Errorf("%v", err)
		}
	})
	t.Run("without cat", func(t *testing.T) {
		c := &Carrier{exec: shell(t, "sh", "chmod", "rm")}
		if _, err := c.send(t.Context(), place{}, "node-1", packed(t, program)); err == nil || !strings.Contains(err.Error(), "cat") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		here := shell(t, "sh", "cat", "chmod", "rm")
		c := &Carrier{exec: func(ctx context.Context, at place, command []string, in io.Reader, out, errs io.Writer) error {
			return here(ctx, at, []string{"", "", strings.ReplaceAll(command[2], inMemory, "/proc/1/none")}, in, out, errs)
		}}
		if _, err := c.send(t.Context(), place{}, "node-1", packed(t, program)); err == nil || !strings.Contains(err.Error(), "no program can be put into any of /proc/1/none") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no shell", func(t *testing.T) {
		c := &Carrier{exec: func(context.Context, place, []string, io.Reader, io.Writer, io.Writer) error {
			return errors.New("container not running")
		}}
		if _, err := c.send(t.Context(), place{}, "node-1", packed(t, program)); err == nil || !strings.Contains(err.Error(), "not running") {
			t.Errorf("%v", err)
		}
	})
	t.Run("more than a report", func(t *testing.T) {
		c := &Carrier{exec: func(_ context.Context, _ place, _ []string, _ io.Reader, out, _ io.Writer) error {
			fmt.Fprintln(out, "plain")
			_, err := io.Copy(out, zeros{})
			return err
		}}
		if _, err := c.send(t.Context(), place{}, "node-1", packed(t, program)); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%v", err)
		}
	})
}

// zeros never end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestLimited(t *testing.T) {
	l := &limited{limit: 1 << 20}
	if _, err := io.Copy(l, zeros{}); err == nil || len(l.kept) > 1<<20 {
		t.Errorf("%d bytes were kept, %v", len(l.kept), err)
	}
}
