package carrier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// receive runs in the shell of whatever image is there: it finds a folder in which a program can be made and run, says whether
// it can unpack, takes the program from its input, and becomes it. The file has no name any more before anything is in it, so
// that nothing is left wherever this ends. Whoever else is in the container is not to be ended for want of memory before it.
// It needs cat, chmod and rm, and no file of the image that can be written.
const receive = `{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
for p in cat chmod rm; do command -v $p >/dev/null 2>&1 || { echo "there is no $p" >&2; exit 1; }; done
for d in FOLDERS; do
	f=$d/.csidoctor-probe-$$
	{ echo exit >$f && chmod 700 $f && $f && break; rm -f $f; f=; } 2>/dev/null
done
[ "$f" ] || { echo "no program can be put into any of FOLDERS" >&2; exit 1; }
exec 3>$f 4<$f && rm $f || exit
if command -v gzip >/dev/null 2>&1; then echo packed; gzip -dc >&3
else echo plain; cat >&3; fi && exec 3>&- && exec `

// executor runs a command in a container. It returns when the command has ended.
type executor func(ctx context.Context, at place, command []string, in io.Reader, out, errs io.Writer) error

// send brings the program into a running container, and gives what it writes there.
func (c *Carrier) send(ctx context.Context, at place, node string, packed []byte) ([]byte, error) {
	in := &sender{packed: packed, answered: make(chan struct{})}
	defer in.answer("")
	errs := &limited{limit: 64 << 10}
	folders, remedy := inMemory, another
	if c.Exec {
		folders, remedy = usualFolders, ownPod
	}
	script := strings.ReplaceAll(receive, "FOLDERS", folders) + strings.Join(arguments("/proc/self/fd/4", node, "frame"), " ")
	err := c.exec(ctx, at, []string{"sh", "-c", script}, in, in, errs)
	switch {
	case err == nil:
		return in.output.kept, nil
	case apierrors.IsForbidden(err):
		return nil, &Failure{Detail: err.Error(), Remedy: "ask for the right to create pods/exec in namespace " + at.namespace + " (deploy/prober.yaml has the role); or " + byHand}
	case !in.begun():
		err = fmt.Errorf("a shell in its pod %s: %w %s", at.pod, err, lastWords(errs.kept))
	}
	if ctx.Err() == nil && len(errs.kept) > 0 {
		return nil, &Failure{Detail: fmt.Sprintf("the program could not run there: %s (%s)", lastWords(errs.kept), err), Remedy: remedy + "; or " + byHand}
	}
	return nil, err
}

// sender is both sides of the conversation: what is read from it is the program, in the form that the first line written to it
// asks for; what is written behind that is the output.
type sender struct {
	packed   []byte
	answered chan struct{} // closed when the form is known, or will never be
	once     sync.Once
	source   io.Reader

	mu     sync.Mutex
	line   []byte
	output limited
}

func (s *sender) answer(form string) {
	s.once.Do(func() {
		defer close(s.answered)
		switch form {
		case "packed":
			s.source = bytes.NewReader(s.packed)
		case "plain":
			s.source = unpack(s.packed)
		}
	})
}

func (s *sender) begun() bool {
	select {
	case <-s.answered:
		return true
	default:
		return false
	}
}

func (s *sender) Read(b []byte) (int, error) {
	<-s.answered
	if s.source == nil {
		return 0, io.EOF
	}
	return s.source.Read(b)
}

func (s *sender) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := b
	if !s.begun() {
		s.line = append(s.line, b...)
		form, after, whole := bytes.Cut(s.line, []byte("\n"))
		if !whole {
			if len(s.line) > 1<<10 {
				return 0, errors.New("what answers is no shell")
			}
			return len(b), nil
		}
		s.answer(string(form))
		rest = after
	}
	s.output.limit = maxStream
	if _, err := s.output.Write(rest); err != nil {
		return 0, err
	}
	return len(b), nil
}

// limited keeps so many bytes, and refuses more: who sends them may mean ill.
type limited struct {
	kept  []byte // no buffer, which would offer io.Copy a way past the limit
	limit int
}

func (l *limited) Write(b []byte) (int, error) {
	if len(l.kept)+len(b) > l.limit {
		return 0, fmt.Errorf("more than %d bytes came", l.limit)
	}
	l.kept = append(l.kept, b...)
	return len(b), nil
}

// stream is the executor of a cluster: by WebSocket, or by SPDY where a server or a proxy between does not know it.
func (c *Carrier) stream(ctx context.Context, at place, command []string, in io.Reader, out, errs io.Writer) error {
	address := c.core.RESTClient().Post().Resource("pods").Namespace(at.namespace).Name(at.pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: at.container, Command: command, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", address.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", address)
	if err != nil {
		return err
	}
	var refused error
	both, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		// Perhaps the other, which wants another right, is allowed; its own refusal is a text and no more.
		if upgrade := (*httpstream.UpgradeFailureError)(nil); errors.As(err, &upgrade) && apierrors.IsForbidden(upgrade.Cause) {
			refused = upgrade.Cause
		}
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	if err = both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errs}); err != nil && refused != nil {
		return refused
	}
	return err
}
