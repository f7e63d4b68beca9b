// Package arch knows which package may import which, and holds the tree to it. A new package of ours needs a row here.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/csidoctor/csidoctor"

// Groups of the tables below.
const (
	anyOfOurs  = "*"
	kubernetes = "k8s.io"
	client     = "k8s.io/client-go"
)

// mayImport says which packages of ours each one may import itself. nodereport is the vocabulary of the
// node's facts, and snapshot hands it on: who may import snapshot may name those types. mountinfo reads one of these facts,
// a mount table, so explain may ask it. Packages named like apitest help tests: they may import all, and only tests them.
var mayImport = map[string][]string{
	"cmd/csidoctor":       {anyOfOurs},
	"cmd/csidoctor-probe": {"internal/probe", "internal/nodereport", "internal/frame"},
	"internal/nodereport": {},
	"internal/frame":      {"internal/nodereport"},
	"internal/mountinfo":  {"internal/nodereport"},
	"internal/blockdev":   {"internal/nodereport"},
	"internal/probe":      {"internal/nodereport", "internal/mountinfo", "internal/blockdev"},
	"internal/snapshot":   {"internal/nodereport"},
	"internal/bundle":     {"internal/snapshot", "internal/nodereport"},
	"internal/collect":    {"internal/snapshot", "internal/nodereport", "internal/explain"},
	"internal/carrier":    {"internal/snapshot", "internal/nodereport", "internal/frame"},
	"internal/explain":    {"internal/snapshot", "internal/nodereport", "internal/mountinfo"},
	"internal/render":     {"internal/explain"},

	"internal/arch":         {},
	"internal/tools/big":    {"internal/snapshot", "internal/bundle"},
	"internal/tools/cases":  {},
	"internal/tools/dist":   {},
	"internal/tools/fuzz":   {},
	"internal/tools/gotest": {},
	"internal/tools/rbac":   {"internal/explain", "internal/carrier"},
}

// neverReach says what a package must not depend on, not even through others.
var neverReach = map[string][]string{
	"cmd/csidoctor-probe": {client, "k8s.io/api", "k8s.io/apimachinery", module + "/internal/explain"},
	"internal/nodereport": {"k8s.io/api"},
	"internal/frame":      {kubernetes},
	"internal/mountinfo":  {kubernetes},
	"internal/blockdev":   {kubernetes},
	"internal/probe":      {client, "k8s.io/api", "k8s.io/apimachinery"},
	"internal/snapshot":   {client},
	"internal/bundle":     {module + "/internal/explain"},
	"internal/carrier":    {module + "/internal/explain"},
	"internal/explain":    {client},
	"internal/render":     {client},
}

// What a diagnosis must not use: it is the same for the same Snapshot, at any time and on any machine.
var (
	impureImports = []string{"os", "log", "math/rand", "crypto/rand", "net/http", "syscall", "k8s.io/klog"}
	impureCalls   = map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	}
)

type pkg struct {
	ImportPath    string
	Imports, Deps []string
}

func TestImports(t *testing.T) {
	// go list reads the tree in a process of its own, unseen by the cache of test results: look at the folders here too.
	for _, dir := range []string{"../../cmd", "../../internal"} {
		filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { return nil })
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, fault := range importFaults(list(t, goos)) {
			t.Errorf("%s: %s", goos, fault)
		}
	}
}

func TestExplainIsPure(t *testing.T) {
	files, err := filepath.Glob("../explain/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range impurities(t, name, string(source)) {
			t.Error(fault)
		}
	}
}

func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func importFaults(pkgs []pkg) []string {
	var faults []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := mayImport[name]
		if !known && helpsTests(name) {
			allowed, known = []string{anyOfOurs}, true
		}
		if !known {
			faults = append(faults, fmt.Sprintf("%s has no row in mayImport", name))
			continue
		}
		for _, i := range p.Imports {
			ours, ok := strings.CutPrefix(i, module+"/")
			free := slices.Contains(allowed, anyOfOurs) && (helpsTests(name) || !helpsTests(ours))
			if ok && !free && !slices.Contains(allowed, ours) {
				faults = append(faults, fmt.Sprintf("%s must not import %s", name, ours))
			}
		}
		for _, d := range p.Deps {
			if within(d, neverReach[name]) {
				faults = append(faults, fmt.Sprintf("%s must not depend on %s", name, d))
			}
		}
	}
	return faults
}

func helpsTests(name string) bool { return strings.HasSuffix(name, "test") }

// within tells whether a package is one of those named, or below one.
func within(importPath string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return importPath == n || strings.HasPrefix(importPath, n+"/") })
}

func impurities(t *testing.T, name, source string) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	fault := func(n ast.Node, what string) {
		faults = append(faults, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	local := map[string]string{} // the name in this file: the path
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if within(p, impureImports) {
			fault(i, "import of "+p)
		}
		as := path.Base(p)
		if i.Name != nil {
			as = i.Name.Name
		}
		if as == "." {
			fault(i, "dot import of "+p+", which hides what is called")
		}
		local[as] = p
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains(impureCalls[local[x.Name]], s.Sel.Name) {
			fault(s, local[x.Name]+"."+s.Sel.Name)
		}
		return true
	})
	return faults
}

// The checks must bite: each line is one fault.
func TestFaultsAreFound(t *testing.T) {
	in := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, module+"/"+n)
		}
		return all
	}
	for _, c := range []struct {
		pkg  pkg
		want string
	}{
		{pkg{ImportPath: module + "/internal/new"}, "internal/new has no row"},
		{pkg{ImportPath: module + "/cmd/csidoctor", Imports: in("internal/collect", "internal/collect/apitest")}, "must not import internal/collect/apitest"},
		{pkg{ImportPath: module + "/internal/render", Imports: in("internal/explain", "internal/bundle")}, "must not import internal/bundle"},
		{pkg{ImportPath: module + "/internal/bundle", Deps: in("internal/explain")}, "must not depend on"},
		{pkg{ImportPath: module + "/internal/explain", Deps: []string{"k8s.io/api/core/v1", "k8s.io/client-go/rest"}}, "must not depend on k8s.io/client-go/rest"},
		{pkg{ImportPath: module + "/internal/mountinfo", Deps: []string{"k8s.io/mount-utils"}}, "must not depend on k8s.io/mount-utils"},
	} {
		got := importFaults([]pkg{c.pkg})
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%+v: got %q, want one with %q", c.pkg, got, c.want)
		}
	}
	for source, want := range map[string]string{
		`import "os"`:                                 "import of os",
		`import "os/exec"`:                            "import of os/exec",
		`import "log/slog"`:                           "import of log/slog",
		`import "math/rand/v2"`:                       "import of math/rand/v2",
		`import . "strings"`:                          "dot import of strings",
		`import "time"; var x = time.Now()`:           "time.Now",
		`import clock "time"; var x = clock.Since`:    "time.Since",
		`import "fmt"; func f() { fmt.Println("x") }`: "fmt.Println",
	} {
		got := impurities(t, "x.go", "package x; "+source)
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, want one with %q", source, got, want)
		}
	}
	harmless := `package x; import "time"; import "fmt"; import "math"; var x = fmt.Sprint(time.Minute, math.Pi)`
	if got := impurities(t, "x.go", harmless); len(got) != 0 {
		t.Errorf("harmless source: %q", got)
	}
}
