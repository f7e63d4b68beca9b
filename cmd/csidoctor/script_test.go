package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/probe"
)

func TestMain(m *testing.M) {
	probe.Worker()
	testscript.Main(m, map[string]func(){"kubectl-csidoctor": main})
}

// TestScripts runs the command as a user does. KUBECONFIG points at a server of the demo cluster's objects, whose clock stands.
func TestScripts(t *testing.T) {
	facts, _, err := bundle.Read("-", bytes.NewReader(demoCluster))
	if err != nil {
		t.Fatal(err)
	}
	server := apitest.Start(t, facts, apitest.Options{Now: facts.TakenAt, Forbid: apitest.AsRecorded(facts)})
	kubeconfig := server.Kubeconfig(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("KUBECONFIG", kubeconfig)
			demo, err := filepath.Abs("demo.yaml")
			e.Setenv("DEMO", demo)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits N COMMAND...: runs the command and wants this exit status; stdout and stderr can be looked at afterwards.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := err.(*exec.ExitError); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
