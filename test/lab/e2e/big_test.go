//go:build big

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
	"github.com/csidoctor/csidoctor/test/lab/programs"
)

const root = "../../.."

// asOf is the moment at which all of the big cluster is as it is.
const asOf = "2026-03-01T12:00:00Z"

// big is a cluster of so many claims, with twice as many pods, a tenth of that nodes, and five times as many events, in which nothing works
// on the objects. Its kubeconfig is that of who is on call.
type big struct {
	*cluster.Cluster
	t          *testing.T
	kubeconfig string
}

func startBig(t *testing.T, claims int) *big {
	needReal(t)
	c, _ := startLab(t, fmt.Sprintf("big-%d", claims), "-api")
	b := &big{Cluster: c, t: t}
	b.fill(claims)
	b.kubeconfig = oncall(t, c, false)
	for path, n := range map[string]int{"/api/v1/persistentvolumeclaims": claims, "/api/v1/persistentvolumes": claims, "/apis/storage.k8s.io/v1/volumeattachments": claims,
		"/api/v1/pods": 2 * claims, "/api/v1/nodes": claims / 10, "/api/v1/events": 5 * claims, "/api/v1/namespaces": claims / 50} {
		var list struct {
			Metadata struct{ RemainingItemCount int }
		}
		if err := json.Unmarshal([]byte(kubectl(t, c, "", "get", "--raw", path+"?limit=1")), &list); err != nil || list.Metadata.RemainingItemCount+1 < n {
			t.Fatalf("%s has %d, want at least %d: %v", path, list.Metadata.RemainingItemCount+1, n, err)
		}
	}
	return b
}

// bigTool is the program that knows what is in the cluster, built once.
var bigTool = sync.OnceValues(func() (string, error) {
	tool := filepath.Join(filepath.Dir(lab), "big")
	out, err := exec.Command("go", "build", "-C", root, "-trimpath", "-buildvcs=false", "-o", tool, "./internal/tools/big").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the tool: %w %s", err, out)
	}
	return tool, nil
})

func (b *big) tool(args ...string) *exec.Cmd {
	b.t.Helper()
	tool, err := bigTool()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.CommandContext(b.t.Context(), tool, args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	return cmd
}

// fill puts the objects into etcd as the API server keeps them, so that they keep their times; or what is kept of an earlier run into its place.
func (b *big) fill(claims int) {
	b.t.Helper()
	begin := time.Now()
	list := b.tool("-list")
	paths, err := list.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	decides := []string{list.Path} // what is filled
	for path := range strings.FieldsSeq(string(paths)) {
		decides = append(decides, filepath.Join(root, path))
	}
	data := filepath.Join(b.Dir, "etcd")
	bin, err := os.Readlink(filepath.Join(b.Dir, "bin/kubectl"))
	cache, cacheErr := programs.Cache()
	if err := errors.Join(err, cacheErr); err != nil {
		b.t.Fatal(err)
	}
	name := fmt.Sprintf("big-%d-", claims)
	kept := filepath.Join(cache, name+hashOf(b.t, bin, decides...))
	b.stopAll("kube-apiserver")
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		old, _ := filepath.Glob(filepath.Join(cache, name+"*"))
		for _, dir := range old {
			os.RemoveAll(dir)
		}
		b.write(b.tool("-claims", fmt.Sprint(claims), "-at", asOf))
		b.stopAll("etcd")
		copyDir(b.t, data, kept+".part")
		if err := os.Rename(kept+".part", kept); err != nil {
			b.t.Fatal(err)
		}
		b.t.Logf("%d claims: filled in %v", claims, time.Since(begin).Round(time.Second))
	} else {
		b.stopAll("etcd")
		if err := os.RemoveAll(data); err != nil {
			b.t.Fatal(err)
		}
		copyDir(b.t, kept, data)
	}
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if err := b.StartProcess(b.t.Context(), program); err != nil {
			b.t.Fatal(err)
		}
	}
	eventually(b.t, "the API server is ready", 2*time.Minute, func() bool {
		_, err := b.Kubectl(b.t.Context(), "", "get", "--raw", "/readyz")
		return err == nil
	})
	b.t.Logf("%d claims: ready after %v", claims, time.Since(begin).Round(time.Second))
}

func (b *big) stopAll(programs ...string) {
	b.t.Helper()
	for _, p := range programs {
		if err := b.StopProcess(b.t.Context(), p); err != nil {
			b.t.Fatal(err)
		}
	}
}

// write puts what the tool prints into etcd, a few transactions at once.
func (b *big) write(tool *exec.Cmd) {
	b.t.Helper()
	address, err := os.ReadFile(filepath.Join(b.Dir, "etcd.url"))
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := tool.StdoutPipe()
	if err == nil {
		err = tool.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	transactions := make(chan []byte)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for tx := range transactions {
				answer, err := http.Post(string(address)+"/v3/kv/txn", "application/json", bytes.NewReader(tx))
				if err == nil {
					body, _ := io.ReadAll(answer.Body)
					answer.Body.Close()
					if answer.StatusCode != http.StatusOK {
						err = errors.New(string(body))
					}
				}
				if err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	const maxOps, maxBytes = 128, 1 << 20 // etcd's own bounds are these, and half as much again
	var tx bytes.Buffer
	ops := 0
	send := func() {
		if ops > 0 {
			transactions <- append([]byte(`{"success":[`), append(bytes.TrimSuffix(slices.Clone(tx.Bytes()), []byte(",")), "]}"...)...)
		}
		tx.Reset()
		ops = 0
	}
	for lines := json.NewDecoder(out); ; {
		var pair json.RawMessage
		if err = lines.Decode(&pair); err != nil {
			break
		}
		if ops == maxOps || tx.Len()+len(pair) > maxBytes {
			send()
		}
		fmt.Fprintf(&tx, `{"requestPut":%s},`, pair)
		ops++
	}
	send()
	close(transactions)
	writers.Wait()
	if err := errors.Join(tool.Wait(), ignoreEOF(err)); err != nil || b.t.Failed() {
		b.t.Fatal("the cluster is not filled: ", err)
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", "--sparse=always", "--reflink=auto", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// hashOf is one over a word and the files in folders.
func hashOf(t *testing.T, word string, paths ...string) string {
	t.Helper()
	hash := sha256.New()
	io.WriteString(hash, word)
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(hash, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:16]
}
