package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// workerArgument makes the binary a worker; nobody but the probe starts it so.
const workerArgument = "__csidoctor-probe-worker"

// Worker turns the process into a worker of a probe if it was started as one, and then does not return. Every binary that
// probes calls it before anything else.
func Worker() {
	if len(os.Args) == 2 && os.Args[1] == workerArgument {
		serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// A worker is a child process that does what may block: in its threads, so that a call that hangs in the kernel takes none of
// the others with it, and can be given up with the process although nothing can end it. A request and its answer are a line of
// JSON each.
type (
	request struct {
		ID  int             `json:"id"`
		Op  string          `json:"op"`
		Arg json.RawMessage `json:"arg"`
	}
	answer struct {
		ID    int             `json:"id"`
		Value json.RawMessage `json:"value,omitempty"`
		Error string          `json:"error,omitempty"`
	}
)

// What becomes of a request that is not answered.
var (
	errHung     = errors.New("hung")
	errNoTime   = errors.New("not done: the probe's time was over")
	errDied     = errors.New("the worker process ended")
	errCrowded  = errors.New("not done: too many other calls hang")
	errInherits = fmt.Errorf("%w: another path of the same device or server does not answer", errHung)
)

// op is a thing that a worker can do. A is the argument, R the result, both as JSON.
type op[A, R any] struct{ name string }

var handlers = map[string]func(json.RawMessage) (any, error){}

func register[A, R any](name string, f func(A) (R, error)) op[A, R] {
	handlers[name] = func(raw json.RawMessage) (any, error) {
		var arg A
		if err := json.Unmarshal(raw, &arg); err != nil {
			return nil, err
		}
		return f(arg)
	}
	return op[A, R]{name}
}

var opPing = register("ping", func(struct{}) (struct{}, error) { return struct{}{}, nil })

func (a answer) unpack(ok bool) (json.RawMessage, error) {
	switch {
	case !ok:
		return nil, errDied
	case a.Error != "":
		return a.Value, errors.New(a.Error)
	}
	return a.Value, nil
}

// serve is the worker's side. It ends with its input, that is with the probe.
func serve(in io.Reader, out io.Writer) {
	var mu sync.Mutex
	enc := json.NewEncoder(out)
	dec := json.NewDecoder(bufio.NewReader(in))
	for {
		var r request
		if dec.Decode(&r) != nil {
			return
		}
		go func() {
			a := answer{ID: r.ID}
			value, err := safely(func() (any, error) {
				h, ok := handlers[r.Op]
				if !ok {
					return nil, fmt.Errorf("no such request: %s", r.Op)
				}
				return h(r.Arg)
			})
			raw, fault := json.Marshal(value) // what could be read comes with the error
			if a.Value = raw; err == nil {
				err = fault
			}
			if err != nil {
				a.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			if enc.Encode(a) != nil {
				os.Exit(1) // nobody listens any more
			}
		}()
	}
}

// safely: one reader's bug costs its own answer, not the others'.
func safely(f func() (any, error)) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bug in the probe: %v", p)
		}
	}()
	return f()
}

const (
	inFlight = 16  // requests at once that are not overdue: the disk's queue, not the processors, is what they wait for
	maxHung  = 500 // threads that may hang in one worker; each costs some kilobytes
)

// worker is the probe's side.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	slots chan struct{}

	mu      sync.Mutex
	next    int
	hung    int
	waiting map[int]chan answer
	ended   bool
}

// startWorker starts one. Its error stream is nobody's: a worker that cannot be ended must not hold a pipe of the caller's.
func startWorker() (*worker, error) {
	w := &worker{cmd: exec.Command("/proc/self/exe", workerArgument), slots: make(chan struct{}, inFlight), waiting: map[int]chan answer{}}
	w.cmd.Env = []string{"GOGC=200"}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in = in
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go w.listen(out)
	return w, nil
}

func (w *worker) listen(out io.Reader) {
	dec := json.NewDecoder(bufio.NewReaderSize(out, 64<<10))
	for {
		var a answer
		if dec.Decode(&a) != nil {
			break
		}
		w.mu.Lock()
		c := w.waiting[a.ID]
		delete(w.waiting, a.ID)
		w.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for id, c := range w.waiting {
		delete(w.waiting, id)
		close(c)
	}
}

// stop ends the process. One that the kernel does not let end is left behind.
func (w *worker) stop() {
	w.in.Close()
	_ = w.cmd.Process.Kill() // it may have ended by itself
	done := make(chan struct{})
	go func() {
		_ = w.cmd.Wait() // killed, as it should be
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(200 * time.Millisecond):
	}
}

// ask sends a request and waits for its answer, at most for the patience given, and to the end of the context. With an error
// of the worker's comes what it could read all the same.
func ask[A, R any](ctx context.Context, w *worker, o op[A, R], arg A, patience time.Duration) (R, error) {
	var result R
	raw, err := json.Marshal(arg)
	if err != nil {
		return result, err
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return result, errNoTime
	}
	defer func() { <-w.slots }()
	value, err := w.exchange(ctx, o.name, raw, patience)
	if len(value) > 0 {
		if fault := json.Unmarshal(value, &result); err == nil {
			err = fault
		}
	}
	return result, err
}

func (w *worker) exchange(ctx context.Context, name string, arg json.RawMessage, patience time.Duration) (json.RawMessage, error) {
	c := make(chan answer, 1)
	w.mu.Lock()
	if w.ended || w.hung >= maxHung || ctx.Err() != nil {
		defer w.mu.Unlock()
		switch {
		case w.ended:
			return nil, errDied
		case ctx.Err() != nil:
			return nil, errNoTime
		}
		return nil, errCrowded
	}
	w.next++
	id := w.next
	w.waiting[id] = c
	line, err := json.Marshal(request{id, name, arg})
	if err == nil {
		_, err = w.in.Write(append(line, '\n')) // under the lock: lines must not mix. The worker reads at once.
	}
	w.mu.Unlock()
	if err != nil {
		return nil, errDied
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a, ok := <-c:
		return a.unpack(ok)
	case <-timer.C:
		err = errHung
	case <-ctx.Done():
		err = errNoTime
	}
	if err == errHung && name != opPing.name {
		// On a crowded machine the worker itself is late: only if it answers something else meanwhile, this call hangs.
		_, _ = w.exchange(ctx, opPing.name, json.RawMessage("{}"), patience)
		select {
		case a, ok := <-c:
			return a.unpack(ok)
		default:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] != nil {
		w.hung++
	}
	delete(w.waiting, id)
	return nil, err
}
