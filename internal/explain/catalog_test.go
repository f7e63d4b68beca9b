package explain_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csidoctor/csidoctor/internal/explain"
)

var update = flag.Bool("update", false, "write the files that are made from the catalogue")

// notBuilt are the causes of the contract that this build does not know yet.
var notBuilt = []string{}

// TestCatalogue holds the catalogue against docs/contract.md: no id that is not there, and none missing but those listed.
func TestCatalogue(t *testing.T) {
	raw, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, causes, _ := strings.Cut(string(raw), "\n## Causes\n")
	causes, _, _ = strings.Cut(causes, "\n## Borders")
	var want []string
	for line := range strings.SplitSeq(causes, "\n") {
		// A line of the list names its ids at its beginning; those in the prose behind are references.
		for m := regexp.MustCompile("^(?:- |, )`([a-z]+/[a-z-]+)`"); ; {
			found := m.FindStringSubmatch(line)
			if found == nil {
				break
			}
			want, line = append(want, found[1]), strings.TrimPrefix(line, found[0])
		}
	}
	if len(want) < 100 {
		t.Fatalf("only %d causes in docs/contract.md: was its form changed?", len(want))
	}
	var have []string
	for _, c := range explain.Catalogue() {
		if slices.Contains(have, c.ID) {
			t.Errorf("%s stands twice in the catalogue", c.ID)
		}
		have = append(have, c.ID)
		if !slices.Contains(want, c.ID) {
			t.Errorf("%s is not in docs/contract.md", c.ID)
		}
		if c.Title == "" || strings.HasSuffix(c.Title, ".") || c.Doc == "" || c.Match == nil {
			t.Errorf("%s: a cause has a title without a full stop, a text, and a Match", c.ID)
		}
	}
	for _, id := range want {
		built, listed := slices.Contains(have, id), slices.Contains(notBuilt, id)
		if built && listed {
			t.Errorf("%s is built: take it off notBuilt", id)
		}
		if !built && !listed {
			t.Errorf("%s is in docs/contract.md and not in the catalogue", id)
		}
	}
}

// TestDocs keeps docs/causes, to which every finding points, as the catalogue has it.
func TestDocs(t *testing.T) {
	pages := map[explain.HopName]*strings.Builder{}
	for _, c := range explain.Catalogue() {
		page := pages[c.Hop()]
		if page == nil {
			page = &strings.Builder{}
			fmt.Fprintf(page, "# Causes at the hop %s\n\nMade from the catalogue by `go test ./internal/explain -run TestDocs -update`.\n", c.Hop())
			pages[c.Hop()] = page
		}
		_, slug, _ := strings.Cut(c.ID, "/")
		fmt.Fprintf(page, "\n## %s\n\n**%s.**\n\n%s\n", slug, c.Title, c.Doc)
	}
	for hop, page := range pages {
		file := "../../docs/causes/" + string(hop) + ".md"
		if *update {
			if err := os.MkdirAll("../../docs/causes", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != page.String() {
			t.Errorf("%s is not what the catalogue says: go test ./internal/explain -run TestDocs -update", file)
		}
	}
}
