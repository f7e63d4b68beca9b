// Command fuzz runs every fuzzer of the module for a while, as many side by side as there are processors; go test runs one at a time only.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("fuzz: ")
	duration := flag.String("time", "10s", "how long each runs, as for go test -fuzztime")
	flag.Parse()
	fuzzers, err := find()
	if err != nil {
		log.Fatal(err)
	}
	var failed atomic.Int32
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range fuzzers {
		group.Go(func() error {
			output, err := run(f, *duration)
			log.Printf("%s of %s\n%s", f.name, f.pkg, output)
			if err != nil {
				log.Printf("%s: %v", f.name, err)
				failed.Add(1)
			}
			return nil // the others go on
		})
	}
	group.Wait()
	log.Printf("%d fuzzers, %d failed", len(fuzzers), failed.Load())
	if failed.Load() > 0 {
		os.Exit(1)
	}
}

type fuzzer struct{ pkg, name string }

func find() ([]fuzzer, error) {
	out, err := exec.Command("go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []fuzzer
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
					all = append(all, fuzzer{p.ImportPath, f.Name.Name})
				}
			}
		}
	}
}

func run(f fuzzer, duration string) (output string, err error) {
	// Go gives each new input of interest a minute to become smaller, during which it looks for nothing.
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzztime", duration, "-fuzzminimizetime", "1s", "-parallel", "1", f.pkg)
	text, err := cmd.CombinedOutput()
	if endedLate.Match(text) {
		err = nil
	}
	return string(text), err
}

// endedLate matches a fuzzer that found nothing in its time, but whose end Go itself took for a failure (https://go.dev/issue/75804, mended in Go 1.27). An input that fails has more lines than this one.
var endedLate = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([0-9.]+s\)\n    context deadline exceeded\nFAIL$`)
