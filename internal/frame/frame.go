// Package frame brings a NodeReport through a stream that may be cut, rotated away or mixed with other lines, such as a
// container's log: compressed, as lines of text, with its length and checksum in front. What does not arrive whole is an
// error, never half a report. It knows the report's parts only to leave some out where all of them would be too much.
package frame

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

const (
	// Limit of a frame, in bytes. The kubelet rotates a container's log at 10 MiB (containerLogMaxSize), clusters with small
	// disks at half of that, and what was rotated away is not served any more.
	Limit = 4 << 20
	// A report is never that large: whoever sends more wants to fill the reader's memory.
	maxReport = 256 << 20

	begin = "csidoctor-frame 1 " // and the length and SHA-256 of what is compressed
	end   = "csidoctor-frame end"
	// Container runtimes cut lines of 16 KiB in two.
	lineLength = 4096
)

// ErrNone: the stream has no beginning of a frame.
var ErrNone = errors.New("no report came")

// leftOut are the parts that a report can do without, what tells least first. Without the other namespaces' tables it must not
// be concluded that nothing is mounted elsewhere: whoever reads the report looks for the word mountinfo in its gaps.
var leftOut = []struct {
	what string
	drop func(*nodereport.NodeReport)
}{
	{"kubeletLog", func(r *nodereport.NodeReport) { r.KubeletLog = nil }},
	{"kernelLog", func(r *nodereport.NodeReport) { r.KernelLog = nil }},
	{"deadLinks", func(r *nodereport.NodeReport) { r.DeadLinks = nil }},
	{"tasks", func(r *nodereport.NodeReport) { r.Tasks = nil }},
	{"orphans", func(r *nodereport.NodeReport) { r.Orphans = nil }},
	{"mountinfo of other namespaces", func(r *nodereport.NodeReport) { r.Namespaces = nil }},
}

// Write writes a report as one frame below the limit. Parts that make it too large are left out, and are gaps of the report.
func Write(w io.Writer, r *nodereport.NodeReport) error { return write(w, r, Limit) }

func write(w io.Writer, report *nodereport.NodeReport, limit int) error {
	r := *report
	b, err := encode(&r)
	for _, part := range leftOut {
		if err != nil || len(b) <= limit {
			break
		}
		rest := r
		part.drop(&rest)
		if size(&r)-size(&rest) < limit/64 {
			continue // it is not what makes the report large
		}
		r = rest
		r.Gaps = append(r.Gaps[:len(r.Gaps):len(r.Gaps)], nodereport.Gap{What: part.what, Reason: nodereport.LeftOut})
		b, err = encode(&r)
	}
	switch {
	case err != nil:
		return err
	case len(b) > limit:
		return fmt.Errorf("the report has %d bytes compressed, even without large logs, tasks and other namespaces: more than the %d that can be sent; write it to a file on the node, or ask for one volume", len(b), limit)
	}
	_, err = w.Write(b)
	return err
}

// size is a report's before it is compressed; one that has none fails when it is.
func size(r *nodereport.NodeReport) int {
	b, _ := json.Marshal(r)
	return len(b)
}

func encode(r *nodereport.NodeReport) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := errors.Join(json.NewEncoder(zip).Encode(r), zip.Close()); err != nil {
		return nil, fmt.Errorf("compress the report: %w", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%d %x\n", begin, packed.Len(), sha256.Sum256(packed.Bytes()))
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	for len(text) > 0 {
		n := min(len(text), lineLength)
		out.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	out.WriteString(end + "\n")
	return out.Bytes(), nil
}

// Read finds the last frame in a stream and gives its report. ErrNone: there is none; any other error: it is not whole.
func Read(stream []byte) (*nodereport.NodeReport, error) {
	at := bytes.LastIndex(stream, []byte(begin))
	if at < 0 {
		return nil, ErrNone
	}
	head, body, _ := strings.Cut(string(stream[at+len(begin):]), "\n")
	var length int
	var sum string
	if n, err := fmt.Sscanf(head, "%d %64s", &length, &sum); n != 2 || err != nil || length < 0 || length > Limit {
		return nil, errors.New("the report's first line is broken")
	}
	text, _, whole := strings.Cut(body, end)
	packed, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !whole || err == nil && len(packed) < length:
		return nil, fmt.Errorf("the report was cut: about %d of %d bytes came", min(base64.StdEncoding.DecodedLen(len(text)), length), length)
	case err != nil:
		return nil, fmt.Errorf("the report is damaged: %w", err)
	}
	if have := sha256.Sum256(packed); len(packed) != length || hex.EncodeToString(have[:]) != sum {
		return nil, errors.New("the report is damaged: its checksum is another one")
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("the report is damaged: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(zip, maxReport+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the report is damaged: %w", err)
	case len(raw) > maxReport:
		return nil, fmt.Errorf("the report has more than %d bytes", maxReport)
	}
	var r nodereport.NodeReport
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("the report is none: %w", err)
	}
	if r.APIVersion != nodereport.APIVersion || r.Kind != nodereport.Kind {
		return nil, fmt.Errorf("what came is a %q of %q, not a %s of %s", r.Kind, r.APIVersion, nodereport.Kind, nodereport.APIVersion)
	}
	return &r, nil
}
