//go:build !race

package explain_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/csidoctor/csidoctor/internal/explain"
)

const share = 1

// TestSafety: docs/safety.md gives the reasoning of every marked step, and of no other.
func TestSafety(t *testing.T) {
	raw, err := os.ReadFile("../../docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, id := range regexp.MustCompile("`([a-z]+/[a-z-]+)`").FindAllStringSubmatch(string(raw), -1) {
		rows[id[1]] = false
	}
	for _, c := range loadCases(t) {
		for _, f := range walk(t, c.load(t), c.target(), c.At, nil).Findings {
			if !slices.ContainsFunc(f.Fix, func(s explain.Step) bool { return s.Danger != explain.DangerNone }) {
				continue
			}
			if _, ok := rows[f.Cause]; !ok {
				t.Errorf("docs/safety.md has no row for %s (%s)", f.Cause, c.ID)
			}
			rows[f.Cause] = true
		}
	}
	for id, met := range rows {
		if !met {
			t.Errorf("docs/safety.md has a row for %s, and no case's answer has such a step", id)
		}
	}
}

// TestInputs: each input is asked for in some case; one that nothing asks for is a right that nobody needs.
func TestInputs(t *testing.T) {
	used := map[string]bool{}
	for _, c := range loadCases(t) {
		for _, q := range walk(t, c.load(t), c.target(), c.At, nil).Used {
			used[q.Resource] = true
		}
	}
	for _, in := range explain.Inputs {
		if !used[in.Resource] && in.Resource != "pods/log" { // excerpts are of these
			t.Errorf("no case asks for %s: is it needed?", in.Resource)
		}
	}
}
