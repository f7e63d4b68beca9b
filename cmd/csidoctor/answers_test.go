package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/render/rendertest"
)

var update = flag.Bool("update", false, "write the goldens")

// golden cases are kept as the text that a person sees; the others are held against the rules of every text.
var golden = []string{
	"array-volume-refused-after-power-cut", "claim-held-by-finished-build-pods", "first-attach-half-a-minute-in", "forum-database-works",
	"fresh-node-topology-printed-as-empty-map", "leases-hidden-attachment-untouched", "notebook-pipeline-disks-in-two-zones",
	"oncall-may-not-see-attachments-and-events-are-gone", "operator-claim-asks-fast-by-annotation", "permission-denied-in-database-after-boot",
	"vm-off-pod-still-shown-running", "k0s-plugin-registers-where-nobody-looks",
}

// TestAnswers asks the command about every case, as a script and as a person would.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("../../testdata/*/*/case.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases:", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Args []string
				At   time.Time
			}
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			args := slices.Concat(c.Args, []string{"--from", dir, "--at", c.At.Format(time.RFC3339)})
			answer, status := ask(t, append(args, "-o", "json")...)
			var d explain.Diagnosis
			decoder := json.NewDecoder(bytes.NewReader(answer))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&d); err != nil {
				t.Fatalf("the answer is no Diagnosis: %v\n%s", err, answer)
			}
			if status != d.Verdict.Exit() {
				t.Errorf("exit status %d with verdict %s", status, d.Verdict)
			}
			var again bytes.Buffer
			if err := render.JSON(&again, d); err != nil || again.String() != string(answer) {
				t.Errorf("the answer changes when it is read and written again: %v", err)
			}
			for _, width := range []int{80, 100} {
				o := render.Options{Width: width, Docs: true, Now: c.At}
				var text bytes.Buffer
				if err := render.Text(&text, d, o); err != nil {
					t.Fatal(err)
				}
				rendertest.Check(t, d, o, text.String())
				if !slices.Contains(golden, name) {
					continue
				}
				want := fmt.Sprintf("testdata/golden/%s-%d.txt", name, width)
				if *update {
					if err := os.WriteFile(want, text.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				have, err := os.ReadFile(want)
				if err != nil {
					t.Fatal(err)
				}
				if text.String() != string(have) {
					t.Errorf("the text is not %s (-update writes it):\n%s", want, text.String())
				}
			}
		})
	}
}

// ask runs the command and gives its output and exit status.
func ask(t *testing.T, args ...string) ([]byte, int) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	status := run(t.Context(), args, streams)
	if status == 1 {
		t.Fatalf("csidoctor failed: %s", errOut)
	}
	return out.Bytes(), status
}
