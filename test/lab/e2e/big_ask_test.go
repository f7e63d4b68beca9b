//go:build big

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	maxMemory = 500 << 20
	tries     = 3 // of what is timed; the best counts, for others work on this machine too
)

// working is a claim that is well, in a namespace that is alike in every one of the clusters; its pod and node are the first.
const working = "pvc data-database-00000 -n team-000"

// stuck are claims that are not.
var stuck = map[string]string{
	"schedule": "pvc import-state -n second-importer-wants-exclusive-claim",
	"attach":   "pvc mysql -n attacher-may-not-sign-the-volume",
	"detach":   "pvc world-4 -n cbs-disk-is-being-copied-and-may-not-be-detached",
}

// TestBig asks clusters of four sizes, of which the smallest has nothing but what is asked about. What must hold is a failure; how long it takes,
// and how long it should, is told.
func TestBig(t *testing.T) {
	var empty *sized
	scans := map[int]time.Duration{}
	for _, claims := range []int{50, 2500, 5000, 10000} {
		t.Run(fmt.Sprint(claims), func(t *testing.T) {
			b := startBig(t, claims)
			lists := b.scanFindsAll()
			scans[claims] = b.timeScan(lists)
			if half := scans[claims/2]; half > 0 {
				t.Logf("twice the claims: %.2f times as long, goal 2.2", ratio(scans[claims], half))
			}
			now := b.askWorking()
			if claims == 50 {
				empty = now
			} else if empty != nil { // the smallest ran too
				now.compare(t, empty)
			}
			if claims == 10000 {
				b.timeStuck(now.kubectl)
			}
		})
	}
}

// scanFindsAll: a scan finds every fault among what is well, says its cause, and nothing else. It gives the lists that were read.
func (b *big) scanFindsAll() (lists []string) {
	w := b.wire()
	r := b.csidoctor(w.kubeconfig, "scan", "-A")
	check := b.tool("-check")
	check.Stdin = bytes.NewReader(r.out)
	if err := check.Run(); err != nil {
		b.t.Errorf("the scan is not what it should be: %v", err)
	}
	var l struct {
		Counts map[string]int
		Gaps   []struct{ Input, Reason, Detail string }
	}
	if err := json.Unmarshal(r.out, &l); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("scan: %v", l.Counts)
	for _, g := range l.Gaps {
		if g.Reason != "not-probed" {
			b.t.Errorf("not read: %+v", g)
		}
	}
	for _, asked := range slices.Sorted(maps.Keys(w.asked)) {
		b.t.Logf("scan: %9d bytes of %s", w.asked[asked], asked)
		if isList(asked) {
			lists = append(lists, asked)
		}
	}
	return lists
}

// isList: the path is that of a kind, in a namespace or in all, with no selector.
func isList(path string) bool {
	return regexp.MustCompile(`^/(api/v1|apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/[^/ ]+$`).MatchString(path)
}

// timeScan measures a scan, and the same lists asked for all at once.
func (b *big) timeScan(lists []string) time.Duration {
	scan := best(func() ran { return b.csidoctor(b.kubeconfig, "scan", "-A") })
	raw := best(func() ran {
		begin := time.Now()
		var all sync.WaitGroup
		for _, path := range lists {
			all.Go(func() { b.raw(path) })
		}
		all.Wait()
		return ran{took: time.Since(begin)}
	})
	b.t.Logf("scan: %v and %d MB; its %d lists by kubectl: %v; %.2f times as long, goal 1.3", scan.took, scan.memory>>20, len(lists), raw.took, ratio(scan.took, raw.took))
	if scan.memory > maxMemory {
		b.t.Errorf("a scan takes %d MB, want at most %d", scan.memory>>20, maxMemory>>20)
	}
	return scan.took
}

// sized is how the question about the working claim went in a cluster of one size.
type sized struct {
	asked   map[string]int64
	took    time.Duration
	kubectl time.Duration // for what one would look at by hand
}

func (b *big) askWorking() *sized {
	w := b.wire()
	var d struct{ Verdict string }
	if err := json.Unmarshal(b.csidoctor(w.kubeconfig, strings.Fields(working)...).out, &d); err != nil || d.Verdict != "healthy" {
		b.t.Errorf("%s: %q %v, want healthy", working, d.Verdict, err)
	}
	s := &sized{asked: w.asked}
	s.took = best(func() ran { return b.csidoctor(b.kubeconfig, strings.Fields(working)...) }).took
	s.kubectl = best(func() (sum ran) {
		for _, what := range []string{"describe pvc data-database-00000 -n team-000", "describe pv pvc-1b1f7a52-3c55-4a0e-9c1d-000400000000",
			"describe pod database-00000 -n team-000", "get volumeattachments", "describe node big-00000"} {
			sum.took += b.kubectl(strings.Fields(what)...).took
		}
		return sum
	}).took
	b.t.Logf("%s: %v, by hand with kubectl %v", working, s.took, s.kubectl)
	return s
}

// compare: what was read in the empty cluster is read here, and no more of it.
func (s *sized) compare(t *testing.T, empty *sized) {
	for asked, n := range s.asked {
		if was, ok := empty.asked[asked]; !ok || n > was+was/10+100 {
			t.Errorf("%s: %d bytes of %s, and %d in an empty cluster: it grows with the cluster", working, n, asked, was)
		}
	}
	t.Logf("%s: %.2f times as long as in an empty cluster, goal 1.3", working, ratio(s.took, empty.took))
}

// timeStuck measures questions about claims that are stuck, beside the longest list that each reads.
func (b *big) timeStuck(byHand time.Duration) {
	for hop, question := range stuck {
		w := b.wire()
		var d struct{ Verdict, Hop string }
		if err := json.Unmarshal(b.csidoctor(w.kubeconfig, strings.Fields(question)...).out, &d); err != nil || d.Verdict != "stuck" || d.Hop != hop {
			b.t.Errorf("%s: %+v %v, want stuck %s", question, d, err, hop)
		}
		took := best(func() ran { return b.csidoctor(b.kubeconfig, strings.Fields(question)...) }).took
		var longest time.Duration
		which := "none"
		for asked := range w.asked {
			if !isList(asked) {
				continue
			}
			if list := best(func() ran { return b.raw(asked) }).took; list > longest {
				longest, which = list, asked
			}
		}
		b.t.Logf("%s: stuck at %s: %v, its longest list (%s) %v: %.2f times as long, goal 1.3; by hand with kubectl %v", question, hop, took, which, longest, ratio(took, longest), byHand)
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

// ran is what one run of csidoctor or kubectl took.
type ran struct {
	out    []byte
	took   time.Duration
	memory int64 // bytes, at most
}

func (b *big) run(cmd *exec.Cmd) (r ran) {
	b.t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	begin := time.Now()
	err := cmd.Run()
	r.took = time.Since(begin)
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 2) { // these are verdicts
		b.t.Errorf("%v: %v %s", cmd.Args, err, errs.String())
		return r
	}
	r.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	return r
}

// best is the shortest of several runs, with the most memory that one took.
func best(run func() ran) (best ran) {
	for range tries {
		r := run()
		memory := max(r.memory, best.memory)
		if best.took == 0 || r.took < best.took {
			best = r
		}
		best.memory = memory
	}
	return best
}

func (b *big) csidoctor(kubeconfig string, args ...string) ran {
	b.t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), csidoctor, append(args, "-o", "json", "--at", asOf, "--request-timeout=2m", "--kubeconfig", kubeconfig)...)
	cmd.Stdout = &out
	r := b.run(cmd)
	r.out = out.Bytes()
	return r
}

// kubectl throws away what is printed.
func (b *big) kubectl(args ...string) ran {
	b.t.Helper()
	return b.run(exec.CommandContext(b.t.Context(), filepath.Join(b.Dir, "bin/kubectl"), append(args, "--kubeconfig", b.kubeconfig, "--cache-dir", filepath.Join(b.Dir, "kubectl"))...))
}

// raw reads a list as the API server has it at hand.
func (b *big) raw(path string) ran {
	b.t.Helper()
	return b.kubectl("get", "--raw", path+"?resourceVersion=0")
}

// wire stands before the API server. It says that the clock is at asOf, for the objects are kept, and the leases in them are of then; and it
// sees what is asked.
type wire struct {
	kubeconfig string
	mu         sync.Mutex
	asked      map[string]int64 // bytes of the answers, by path and selectors
}

func (b *big) wire() *wire {
	b.t.Helper()
	text, err := os.ReadFile(b.kubeconfig)
	if err != nil {
		b.t.Fatal(err)
	}
	cluster := regexp.MustCompile(`server: "([^"]+)", certificate-authority: [^}]+`)
	target, err := url.Parse(string(cluster.FindSubmatch(text)[1]))
	if err != nil {
		b.t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, asOf)
	if err != nil {
		b.t.Fatal(err)
	}
	w := &wire{kubeconfig: filepath.Join(b.t.TempDir(), "kubeconfig"), asked: map[string]int64{}}
	token := regexp.MustCompile(`token: ([^}]+)`).FindSubmatch(text)[1]
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+string(token)) // no client sends it without TLS
	}}
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", at.Format(http.TimeFormat))
		q := r.Request.URL.Query()
		name := r.Request.URL.Path
		for _, selector := range []string{"fieldSelector", "labelSelector"} {
			if q.Has(selector) {
				name += " " + q.Get(selector)
			}
		}
		r.Body = &counted{r.Body, func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked[name] += int64(n)
		}}
		return nil
	}
	server := httptest.NewServer(proxy)
	b.t.Cleanup(server.Close)
	text = cluster.ReplaceAll(text, []byte(fmt.Sprintf(`server: %q`, server.URL)))
	if err := os.WriteFile(w.kubeconfig, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return w
}

type counted struct {
	io.ReadCloser
	add func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.add(n)
	return n, err
}
