package collect

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Of a container's log no more is read than this, and of that only the lines that name the volume are kept.
const (
	logLines    = 2000
	logAge      = 30 * time.Minute
	logBytes    = 1 << 20
	logLineSize = 16 << 10 // containerd and CRI-O split longer lines themselves
)

// excerpts reads the logs of a pod's containers: the lines that have one of the query's words. A container whose log cannot
// be read (it has not started) has no lines; a refusal by the server is a gap.
func (l *Live) excerpts(ctx context.Context, q snapshot.Query) Answer {
	pod := snapshot.Query{Resource: "pods", Namespace: q.Namespace, Name: q.Name}
	a := l.Fetch(ctx, pod)
	if a.Gap != nil || len(a.Objects) == 0 {
		return Answer{Gap: a.Gap, Silent: a.Silent}
	}
	words := strings.Split(q.Lines, ",")
	var out []snapshot.Object
	for _, c := range a.Objects[0].(*corev1.Pod).Spec.Containers {
		get := request(l.builtin[corev1.SchemeGroupVersion], corev1.SchemeGroupVersion.WithResource("pods"), q).Name(q.Name).SubResource("log").Param("container", c.Name).Param("timestamps", "true")
		for name, n := range map[string]int{"tailLines": logLines, "sinceSeconds": int(logAge.Seconds()), "limitBytes": logBytes} {
			get.Param(name, strconv.Itoa(n))
		}
		answer := get.Do(ctx)
		err := answer.Error()            // Raw alone does not read what the server says of a refusal
		if apierrors.IsBadRequest(err) { // the container waits to start
			continue
		}
		if err != nil {
			return l.failure(ctx, snapshot.Query{Resource: "pods/log", Namespace: q.Namespace, Name: q.Name}, err)
		}
		body, err := answer.Raw()
		if err != nil {
			return l.failure(ctx, q, err)
		}
		excerpt := &snapshot.LogExcerpt{TypeMeta: metav1.TypeMeta{APIVersion: "csidoctor.dev/v1alpha1", Kind: "LogExcerpt"},
			ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: q.Name}, Container: c.Name, Lines: linesWith(body, words)}
		if len(excerpt.Lines) == 0 {
			continue
		}
		out = append(out, l.redact(excerpt))
	}
	return Answer{Objects: out}
}

// linesWith are the lines of a log with timestamps that have one of some words, each no longer than logLineSize.
func linesWith(log []byte, words []string) []snapshot.LogLine {
	out := []snapshot.LogLine{}
	scan := bufio.NewScanner(bytes.NewReader(log))
	scan.Buffer(nil, logBytes+1) // no line is longer than all
	for scan.Scan() {
		stamp, text, _ := strings.Cut(scan.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			text = scan.Text() // the first line may be cut in its middle
		}
		if slices.ContainsFunc(words, func(w string) bool { return w != "" && strings.Contains(text, w) }) {
			out = append(out, snapshot.LogLine{At: at, Text: strings.ToValidUTF8(text[:min(len(text), logLineSize)], "?")})
		}
	}
	return out
}
