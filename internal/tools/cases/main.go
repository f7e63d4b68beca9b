// Command cases makes one folder of cases the mirror of another: it checks each case, copies its JSON files, and removes what is no longer there.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("cases: ")
	from := flag.String("from", "", "folder that holds one folder a case")
	to := flag.String("to", "testdata/cases", "folder to make alike")
	flag.Parse()
	n, err := mirror(*from, *to)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d cases in %s", n, *to)
}

// mirror changes nothing unless every case is sound.
func mirror(from, to string) (int, error) {
	cases, err := readAll(from)
	if err != nil {
		return 0, err
	}
	// A wrong path must not empty the corpus.
	if len(cases) == 0 {
		return 0, fmt.Errorf("no case (a folder with a case.json) in %q", from)
	}
	old, err := filepath.Glob(filepath.Join(to, "*", "*"))
	if err != nil {
		return 0, err
	}
	for _, path := range old {
		dir, name := filepath.Split(path)
		if _, keep := cases[filepath.Base(dir)][name]; !keep {
			if err := os.RemoveAll(path); err != nil {
				return 0, err
			}
			os.Remove(dir) // succeeds with its last file only
		}
	}
	for id, files := range cases {
		if err := write(filepath.Join(to, id), files); err != nil {
			return 0, err
		}
	}
	return len(cases), nil
}

// files is the content of one case by file name.
type files map[string][]byte

func readAll(dir string) (map[string]files, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "case.json"))
	if err != nil {
		return nil, err
	}
	cases := map[string]files{}
	var broken []error
	for _, p := range paths {
		id := filepath.Base(filepath.Dir(p))
		if cases[id], err = read(filepath.Dir(p)); err == nil {
			err = check(id, cases[id]["case.json"])
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", id, err))
		}
	}
	return cases, errors.Join(broken...)
}

func read(dir string) (files, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) < 2 {
		return nil, errors.New("nothing to diagnose beside case.json")
	}
	f := files{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		if !json.Valid(data) {
			return nil, fmt.Errorf("%s is not JSON", filepath.Base(p))
		}
		f[filepath.Base(p)] = data
	}
	return f, nil
}

func check(id string, data []byte) error {
	var c struct {
		ID   string
		Args []string
		At   time.Time
		Want struct{ Verdict string }
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("case.json: %w", err)
	}
	switch {
	case c.ID != id:
		return fmt.Errorf("case.json: id is %q, its folder's name is wanted", c.ID)
	case len(c.Args) == 0:
		return errors.New("case.json: no args")
	case c.At.IsZero():
		return errors.New("case.json: no at")
	case !slices.Contains([]string{"healthy", "stuck", "degraded", "waiting", "undetermined"}, c.Want.Verdict):
		return fmt.Errorf("case.json: want.verdict %q is none", c.Want.Verdict)
	}
	return nil
}

// write leaves equal files alone, so that test results stay cached.
func write(dir string, f files) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range f {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
