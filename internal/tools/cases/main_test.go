package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sound = `{"id": "ID", "args": ["pvc", "a"], "at": "2026-03-01T12:00:00Z", "want": {"verdict": "stuck"}}`

func TestMirror(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	put(t, from, "new/case.json", strings.Replace(sound, "ID", "new", 1))
	put(t, from, "new/cluster.json", "{}")
	put(t, from, "new/notes.txt", "stays out")
	put(t, from, "README.md", "stays out")
	put(t, to, "new/node-a.json", "{}")
	put(t, to, "gone/case.json", "{}")

	n, err := mirror(from, to)
	if err != nil || n != 1 {
		t.Fatalf("got %d, %v", n, err)
	}
	if got, want := list(t, to), []string{"new/case.json", "new/cluster.json"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMirrorLeavesAllWhenOneIsBroken(t *testing.T) {
	for name, content := range map[string]string{
		"id":      strings.Replace(sound, "ID", "other", 1),
		"args":    `{"id": "args", "at": "2026-03-01T12:00:00Z", "want": {"verdict": "stuck"}}`,
		"at":      `{"id": "at", "args": ["pvc"], "want": {"verdict": "stuck"}}`,
		"at-form": `{"id": "at-form", "args": ["pvc"], "at": "noon", "want": {"verdict": "stuck"}}`,
		"verdict": `{"id": "verdict", "args": ["pvc"], "at": "2026-03-01T12:00:00Z", "want": {"verdict": "sick"}}`,
		"json":    `{`,
		"none":    "",
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			if content != "" {
				put(t, from, name+"/case.json", content)
				put(t, from, name+"/cluster.json", "{}")
			}
			put(t, to, "old/case.json", "{}")
			if _, err := mirror(from, to); err == nil {
				t.Error("no error")
			}
			if got := list(t, to); !slices.Equal(got, []string{"old/case.json"}) {
				t.Errorf("left %v", got)
			}
		})
	}
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		paths[i] = filepath.ToSlash(rel)
	}
	return paths
}
