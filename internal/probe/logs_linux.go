package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/blockdev"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// opKernel reads the kernel's ring buffer, and keeps what may be about a volume. The kernel hands out one record a call.
var opKernel = register("kernel", func(struct{}) ([]kernelLine, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	defer unix.Close(fd)
	var out []kernelLine
	buf := make([]byte, 8192) // CONSOLE_EXT_LOG_MAX of the kernel
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // overwritten meanwhile: the next is there
			continue
		case errors.Is(err, unix.EAGAIN): // the end
			return out, nil
		case err != nil:
			return out, errors.New(reason(err))
		}
		l, err := parseKmsg(string(buf[:n]))
		if err != nil {
			continue // a program's line, or one that is no line
		}
		if l.Device == "" {
			l.Device = blockdev.Named(os.DirFS("/sys"), blockdev.LogDevice(l.Text))
		} else {
			l.Device = blockdev.Named(os.DirFS("/sys"), l.Device)
		}
		if l.Device != "" || l.aboutVolumes() {
			out = append(out, l)
		}
	}
})

type journalArg struct {
	Units    []string      `json:"units"`
	Patience time.Duration `json:"patience"`
}

const journalLines = "3000" // an hour or more of a kubelet's

// opJournal asks the host's own journalctl, since a journal is no text.
var opJournal = register("journal", func(a journalArg) ([]nodereport.LogLine, error) {
	program := ""
	for _, p := range []string{"/usr/bin/journalctl", "/bin/journalctl"} {
		if _, err := os.Stat(p); err == nil {
			program = p
		}
	}
	if program == "" {
		return nil, fmt.Errorf("the host has no journalctl")
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Patience)
	defer cancel()
	args := []string{"--no-pager", "--quiet", "--output=json", "--output-fields=MESSAGE", "--lines=" + journalLines}
	for _, u := range a.Units {
		args = append(args, "--unit="+u)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"SYSTEMD_COLORS=0"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	var out []nodereport.LogLine
	for line := range bytes.Lines(text) {
		if !mayName(line) {
			continue
		}
		if l, ok := journalLine(line); ok {
			out = append(out, l)
		}
	}
	if err != nil {
		return out, fmt.Errorf("journalctl: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
})

const maxTail = 1 << 20

// opTail reads the end of a log file that the kubelet writes, by itself or through syslog.
var opTail = register("tail", func(path string) ([]nodereport.LogLine, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("no regular file")
	}
	if info.Size() > maxTail {
		if _, err := f.Seek(-maxTail, io.SeekEnd); err != nil {
			return nil, errors.New(reason(err))
		}
	}
	var out []nodereport.LogLine
	lines := bufio.NewScanner(io.LimitReader(f, maxTail))
	lines.Buffer(nil, maxTail)
	now := time.Now()
	for lines.Scan() {
		if !mayName(lines.Bytes()) {
			continue
		}
		if l, ok := kubeletLine(lines.Text(), now); ok {
			out = append(out, l)
		}
	}
	return out, lines.Err()
})

// kernelLog waits for the devices, since a line is kept for the device that it is about.
func (p *prober) kernelLog(booted time.Time) {
	lines, err := ask(p.ctx, p.w, opKernel, struct{}{}, 3*p.patience)
	p.gaps.add("the kernel's log (/dev/kmsg)", err)
	for _, l := range newest(lines) {
		p.report.KernelLog = append(p.report.KernelLog, nodereport.LogLine{At: booted.Add(l.After).UTC().Truncate(time.Millisecond), Device: l.Device, Message: maskText(cut(l.Text))})
	}
}

// kubeletLog reads where the kubelet writes: the file that its error stream is, its unit's journal, the usual files.
func (p *prober) kubeletLog() []nodereport.LogLine {
	var tried []string
	files := kubeletLogs
	units := kubeletUnits
	if p.kubelet != nil {
		// What the kubelet itself has open as its error stream, if that is a file.
		if target := p.link(p.kubelet.PID, "fd/2"); strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/") {
			if lines, err := visit(p, target, opTail, target, 4*p.patience); err == nil && len(lines) > 0 {
				return lines
			}
		}
		if unit := unitOf(p.read(p.kubelet.PID, "cgroup")); unit != "" {
			units = []string{unit}
		}
	}
	lines, err := ask(p.ctx, p.hostside, opJournal, journalArg{units, 3 * p.patience}, 4*p.patience)
	if len(lines) > 0 {
		p.gaps.add("the kubelet's journal", err)
		return lines
	}
	if err != nil {
		tried = append(tried, err.Error())
	} else {
		tried = append(tried, "the journal has no lines of "+strings.Join(units, ", "))
	}
	for _, file := range files {
		lines, err := ask(p.ctx, p.hostside, opTail, file, 4*p.patience)
		if len(lines) > 0 {
			p.gaps.add(file, err)
			return lines
		}
		if err != nil && err.Error() != "ENOENT" {
			tried = append(tried, file+": "+err.Error())
		}
	}
	p.gaps.add("the kubelet's log", fmt.Errorf("%s; no usual log file has lines of it", strings.Join(tried, "; ")))
	return nil
}
