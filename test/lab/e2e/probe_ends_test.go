//go:build carrier

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// moments are so many, evenly spread over the time that a run takes, which it gives too.
func (p *prober) moments(n int) (all []time.Duration) {
	p.t.Helper()
	whole := p.ask("pvc data", "--probe").took
	p.nothingLeft(5 * time.Second)
	for i := range n {
		all = append(all, whole*time.Duration(i+1)/time.Duration(n))
	}
	return all
}

// cut begins a run and sends it a signal after so long. It tells whether there was a Job then.
func (p *prober) cut(after time.Duration, signal syscall.Signal, flags ...string) (had bool) {
	p.t.Helper()
	cmd := p.command(context.WithoutCancel(p.t.Context()), "pvc data", append(flags, "--probe", "--probe-timeout", "10s")...)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	ended := time.Now()
	had = len(p.ours()) > 0
	cmd.Wait()
	if took := time.Since(ended); took > 6*time.Second {
		p.t.Errorf("%v after the signal it still ran", took)
	}
	return had
}

// interrupted: Ctrl-C at any moment, and nothing is left after 5 s.
func (p *prober) interrupted() {
	hit := 0
	for _, m := range p.moments(20) {
		cut := time.Now().Add(m)
		if p.cut(m, syscall.SIGINT) {
			hit++
		}
		p.nothingLeft(time.Until(cut.Add(5*time.Second)) + time.Second) // the second is for kubectl to look
	}
	p.t.Logf("interrupted 20 times, %d of them with a Job or a pod", hit)
}

// killed: nobody cleans up behind a client that is killed but the server.
func (p *prober) killed() {
	hit := 0
	for _, m := range p.moments(20) {
		if p.cut(m, syscall.SIGKILL) {
			hit++
		}
	}
	p.t.Logf("killed 20 times, %d of them with a Job or a pod", hit)
	if hit < 10 {
		p.t.Errorf("only %d of 20 kills met a Job", hit)
	}
	p.nothingLeft(10*time.Second + deadAfter + pace)
}

// serverAway: the API server is gone for 10 s in the middle of a run. It answers or says why not, and nothing is left.
func (p *prober) serverAway() {
	var errs bytes.Buffer
	cmd := p.command(p.t.Context(), "pvc data", "--probe", "--probe-timeout", "40s")
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the Job is made", 20*time.Second, func() bool { return len(p.ours()) > 0 })
	if err := p.StopProcess(p.t.Context(), "kube-apiserver"); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if err := p.StartProcess(p.t.Context(), "kube-apiserver"); err != nil {
		p.t.Fatal(err)
	}
	err := cmd.Wait()
	p.t.Logf("ended with %v\n%s", err, errs.String())
	eventually(p.t, "the API server is back", time.Minute, func() bool {
		_, err := p.Kubectl(p.t.Context(), "", "get", "--raw", "/readyz")
		return err == nil
	})
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} { // they end when they lose their leases
		if err := p.StartProcess(p.t.Context(), name); err != nil {
			p.t.Fatal(err)
		}
	}
	p.nothingLeft(40*time.Second + deadAfter + time.Minute) // the controllers begin anew
}

func (p *prober) cleanup() {
	// Killed as soon as there is a Job.
	cmd := p.command(p.t.Context(), "pvc data", "--probe")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "a Job is made", 20*time.Second, func() bool { return len(p.ours()) > 0 })
	cmd.Process.Kill()
	cmd.Wait()
	out, err := exec.CommandContext(p.t.Context(), csidoctor, "cleanup", "--kubeconfig", p.Kubeconfig()).Output()
	if err != nil || !strings.Contains(string(out), "removed job kube-system/csidoctor-probe-") {
		p.t.Errorf("%v: %s", err, out)
	}
	p.nothingLeft(2 * time.Second)
}
