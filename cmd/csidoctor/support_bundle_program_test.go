//go:build supportbundle

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
)

// TestSupportBundleProgram runs the program itself, and kubectl, against the demo's cluster. With -update it is recorded.
func TestSupportBundleProgram(t *testing.T) {
	program := os.Getenv("CSIDOCTOR_SUPPORT_BUNDLE")
	spec, err := filepath.Abs("../../plugins/troubleshoot/support-bundle.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := demoServer(t)
	made := filepath.Join(t.TempDir(), "made.tar.gz")
	cmd := exec.Command(program, "--interactive=false", "--output", made, spec)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "CANARY=CANARY"}
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	answersAsTheDemo(t, made)
	silent(t, cmd.Args, "the environment in the support bundle", unzipped(t, made))
	if *update {
		record(t, made)
	}
}

// demoServer serves it, and allows everything to whoever asks what may be done.
func demoServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	facts, _, err := bundle.Read(supportBundleDemo(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := apitest.Start(t, facts, apitest.Options{Now: facts.TakenAt})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := map[string]string{"selfsubjectaccessreviews": "SelfSubjectAccessReview", "selfsubjectrulesreviews": "SelfSubjectRulesReview"}[filepath.Base(r.URL.Path)]
		if r.Method != http.MethodPost || kind == "" {
			objects.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"incomplete":false,"nonResourceRules":[],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}}`, kind)
	}))
	t.Cleanup(server.Close)
	objects.URL = server.URL
	return objects.Kubeconfig(t)
}

// record keeps of a support bundle what says nothing of the machine that made it.
func record(t *testing.T, made string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(must(os.ReadFile(made))(t)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	to := tar.NewWriter(packed)
	for from := tar.NewReader(z); ; {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		content := must(io.ReadAll(from))(t)
		if h.Typeflag != tar.TypeReg || !strings.HasPrefix(name, "cluster-resources/") && path.Ext(name) != ".txt" || strings.HasPrefix(name, "execution-data/") || bytes.Contains(content, []byte("127.0.0.1")) {
			continue
		}
		if err := to.WriteHeader(&tar.Header{Name: "support-bundle/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		must(to.Write(content))(t)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
