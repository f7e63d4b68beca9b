// Command gotest runs go test and counts what it skipped. Where CSIDOCTOR_TEST_REAL is set every test must run: there a skip fails.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gotest: ")
	dir := flag.String("dir", ".", "module to test")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: gotest [-dir DIR] -- ARGUMENTS OF GO TEST")
		flag.PrintDefaults()
	}
	flag.Parse()
	cmd := exec.Command("go", append([]string{"test", "-json"}, flag.Args()...)...)
	cmd.Dir = *dir
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	r, err := report(events, os.Stdout)
	if err != nil {
		cmd.Process.Kill()
		log.Fatal(err)
	}
	err = cmd.Wait()
	log.Printf("%d tests passed, %d failed, %d skipped", r.passed, r.failed, r.skipped)
	if err != nil {
		log.Fatal(err)
	}
	if r.skipped > 0 && os.Getenv("CSIDOCTOR_TEST_REAL") != "" {
		log.Fatal("with CSIDOCTOR_TEST_REAL a skipped test counts as failed")
	}
}

type result struct{ passed, failed, skipped int }

// report prints what go test would print by itself, and the output of skipped tests too: it holds the reason.
func report(events io.Reader, w io.Writer) (result, error) {
	var r result
	type test struct{ pkg, name string }
	output := map[test]*strings.Builder{}
	for d := json.NewDecoder(bufio.NewReader(events)); ; {
		var e struct{ Action, Package, Test, Output string } // as in go doc test2json
		if err := d.Decode(&e); err == io.EOF {
			return r, nil
		} else if err != nil {
			return r, fmt.Errorf("read the events of go test: %w", err)
		}
		id := test{e.Package, e.Test}
		switch {
		case e.Action == "build-output" || e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" {
				io.WriteString(w, e.Output)
			}
		case e.Action == "output":
			if output[id] == nil {
				output[id] = &strings.Builder{}
			}
			output[id].WriteString(e.Output)
		case e.Test == "":
			// A package that ends by a panic or its timeout leaves tests without an end; theirs is the output that tells why.
			for id, o := range output {
				if e.Action == "fail" && id.pkg == e.Package {
					io.WriteString(w, o.String())
				}
			}
		case e.Action == "pass":
			r.passed++
			delete(output, id)
		case e.Action == "fail" || e.Action == "skip":
			if e.Action == "fail" {
				r.failed++
			} else {
				r.skipped++
			}
			if output[id] != nil {
				io.WriteString(w, output[id].String())
			}
			delete(output, id)
		}
	}
}
