package bundle

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// caseFolders are those of testdata/cases, and every fourth of the others: they differ in what explain makes of them.
func caseFolders(t testing.TB) (dirs []string) {
	t.Helper()
	for folder, step := range map[string]int{"cases": 1, "more": 4} {
		files, err := filepath.Glob("../../testdata/" + folder + "/*/cluster.json")
		if err != nil || len(files) < 100 {
			t.Fatalf("%d cases, %v", len(files), err)
		}
		for i := 0; i < len(files); i += step {
			dirs = append(dirs, filepath.Dir(files[i]))
		}
	}
	return dirs
}

func mustRead(t testing.TB, path string) *snapshot.Snapshot {
	t.Helper()
	s, report, err := Read(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Problems) > 0 {
		t.Fatalf("%s: %q", path, report.Problems)
	}
	return s
}

func fromStdin(t testing.TB, in []byte) (*snapshot.Snapshot, Report) {
	t.Helper()
	s, report, err := Read("-", bytes.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	return s, report
}

// names lists what a Snapshot holds: Kind namespace/name.
func names(s *snapshot.Snapshot) string {
	var out []string
	for _, gk := range s.GroupKinds() {
		for _, o := range s.All(gk) {
			out = append(out, strings.TrimPrefix(fmt.Sprintf("%s %s/%s", gk.String(), o.GetNamespace(), o.GetName()), "/"))
		}
	}
	return strings.Join(out, ", ")
}

func pod(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"ns"}}`
}

func bare(name string) string { return `{"metadata":{"name":"` + name + `","namespace":"ns"}}` }

type member struct {
	name, content string
	kind          byte
}

func tarOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.content)), Typeflag: m.kind}
		if m.kind != 0 {
			h.Size, h.Linkname = 0, m.content
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if m.kind == 0 {
			if _, err := io.WriteString(w, m.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zipOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if m.kind == tar.TypeSymlink {
			h.SetMode(os.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, m.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func utf16Of(s string, order binary.ByteOrder) []byte {
	out := make([]byte, 2)
	order.PutUint16(out, 0xfeff)
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, 0, 0)
		order.PutUint16(out[len(out)-2:], u)
	}
	return out
}

func yamlOf(t testing.TB, in string) string {
	t.Helper()
	out, err := yaml.JSONToYAML([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}`
}

func TestForms(t *testing.T) {
	two := "Pod ns/a, Pod ns/b"
	le, be := binary.LittleEndian, binary.BigEndian
	for name, c := range map[string]struct {
		in      string
		want    string
		skipped int
		problem string
	}{
		"one object":               {in: pod("a"), want: "Pod ns/a"},
		"indented":                 {in: "\n  " + strings.ReplaceAll(pod("a"), ",", ",\n  ") + "\n", want: "Pod ns/a"},
		"list":                     {in: list(pod("a"), pod("b")), want: two},
		"kind after the items":     {in: `{"items":[` + pod("a") + `,` + pod("b") + `],"apiVersion":"v1","kind":"List","metadata":{}}`, want: two},
		"typed list":               {in: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + bare("a") + `,` + bare("b") + `]}`, want: two},
		"typed list, kinds last":   {in: `{"items":[` + bare("a") + `,` + pod("b") + `],"kind":"PodList","apiVersion":"v1"}`, want: two},
		"typed vendor list":        {in: `{"kind":"EngineList","apiVersion":"longhorn.io/v1beta2","items":[` + bare("a") + `]}`, want: "Engine.longhorn.io ns/a"},
		"empty typed list":         {in: list(pod("a"), `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`), want: "Pod ns/a", skipped: 1},
		"list in list":             {in: list(list(pod("a")), list(list(pod("b")))), want: two},
		"array":                    {in: "[" + pod("a") + "," + pod("b") + ",3,null]", want: two, skipped: 2},
		"one after the other":      {in: pod("a") + "\n" + pod("b"), want: two},
		"JSON with ---":            {in: pod("a") + "\n---\n" + pod("b"), want: two},
		"YAML":                     {in: yamlOf(t, pod("a")), want: "Pod ns/a"},
		"YAML documents":           {in: "---\n# a\n" + yamlOf(t, pod("a")) + "---\n---\n" + yamlOf(t, pod("b")), want: two},
		"YAML list":                {in: yamlOf(t, list(pod("a"), pod("b"))), want: two},
		"YAML array":               {in: yamlOf(t, "["+pod("a")+","+pod("b")+"]"), want: two},
		"YAML with JSON":           {in: "---\n" + pod("a") + "\n---\n" + yamlOf(t, pod("b")), want: two},
		"YAML in one line":         {in: "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ns}}", want: "Pod ns/a"},
		"YAML with CRLF":           {in: strings.ReplaceAll(yamlOf(t, pod("a"))+"---\n"+yamlOf(t, pod("b")), "\n", "\r\n"), want: two},
		"YAML aliases":             {in: "apiVersion: v1\nkind: Pod\nmetadata: &m {name: a, namespace: ns}\nx: *m\n", want: "Pod ns/a"},
		"one bad YAML document":    {in: yamlOf(t, pod("a")) + "---\nkind: [\n---\n" + yamlOf(t, pod("b")), want: two, problem: "line 1"},
		"byte order mark":          {in: "\xef\xbb\xbf" + pod("a"), want: "Pod ns/a"},
		"PowerShell":               {in: string(utf16Of(pod("a"), le)), want: "Pod ns/a"},
		"UTF-16, other order":      {in: string(utf16Of(pod("a"), be)), want: "Pod ns/a"},
		"cluster-info dump":        {in: list(pod("a")) + "\n==== START logs for container x ====\nstarted {\n[GIN] 1\n{\"level\":\"info\"}\n==== END ====\n" + pod("b"), want: two, skipped: 3},
		"event of the new API":     {in: `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","namespace":"ns"},"note":"x"}`, want: "Event ns/e"},
		"no object of a cluster":   {in: list(pod("a"), `{"apiVersion":"v1","kind":"Config","clusters":[]}`, `{"kind":"X"}`, `{"apiVersion":3,"kind":[]}`, `{}`), want: "Pod ns/a", skipped: 4},
		"secrets":                  {in: list(pod("a"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"aHVudGVyMg=="}}`, `{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"t"}}]}`), want: "Pod ns/a"},
		"one bad object":           {in: list(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":3}}`, pod("a")), want: "Pod ns/a", problem: "Pod: json: cannot unmarshal"},
		"cut list":                 {in: list(pod("a"), pod("b"), pod("c"))[:200], want: two, problem: "unexpected EOF; 2 objects of it are used"},
		"cut list, kind unread":    {in: (`{"items":[` + pod("a") + `,` + pod("b") + `,` + pod("c"))[:180], want: two, problem: "unexpected EOF; 2 objects"},
		"broken, then whole":       {in: `{"apiVersion":"v1",}` + "\n" + pod("a"), want: "Pod ns/a", problem: "invalid character"},
		"nested lists, too deep":   {in: list(pod("a"), deep(12)), want: "Pod ns/a", problem: "more than 8 deep"},
		"newer resourceVersion":    {in: list(pod("a"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns","resourceVersion":"9"}}`), want: "Pod ns/a"},
		"report of a node":         {in: `{"apiVersion":"csidoctor.dev/v1alpha1","kind":"NodeReport","metadata":{"name":"n1"},"collectedAt":"2026-01-01T00:00:00Z"}`, want: "NodeReport.csidoctor.dev /n1"},
		"lines of two containers":  {in: list(excerpt("c1"), excerpt("c2")), want: "LogExcerpt.csidoctor.dev ns/p/c1, LogExcerpt.csidoctor.dev ns/p/c2"},
		"only when, nothing there": {in: `{"apiVersion":"csidoctor.dev/v1alpha1","kind":"Collection","takenAt":"2026-01-01T00:00:00Z","read":["pods"]}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, report := fromStdin(t, []byte(c.in))
			if got := names(s); got != c.want {
				t.Errorf("got %s, want %s; %+v", got, c.want, report)
			}
			if report.Skipped != c.skipped && c.problem == "" {
				t.Errorf("skipped %d, want %d", report.Skipped, c.skipped)
			}
			problems := strings.Join(report.Problems, "\n")
			if (c.problem == "") != (problems == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("problems %q, want %q", problems, c.problem)
			}
		})
	}
}

func excerpt(container string) string {
	return `{"apiVersion":"csidoctor.dev/v1alpha1","kind":"LogExcerpt","metadata":{"name":"p","namespace":"ns"},"container":"` + container + `","lines":[{"text":"x"}]}`
}

func deep(n int) string {
	if n == 0 {
		return pod("deep")
	}
	return list(deep(n - 1))
}

func TestSecretsAreDropped(t *testing.T) {
	_, report := fromStdin(t, []byte(list(pod("a"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, `{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"t"}}]}`)))
	if report.Secrets != 2 || report.Objects != 1 {
		t.Errorf("%+v", report)
	}
}

// All ways to pack the same files give the same Snapshot.
func TestPackings(t *testing.T) {
	files := []member{{name: "./a.json", content: pod("a")}, {name: "deep/er/b.yaml", content: yamlOf(t, pod("b"))}, {name: "logs/x.log", content: "kind: of a log\n"}, {name: "bin", content: "\x00\x01"}}
	want := "Pod ns/a, Pod ns/b"
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, f := range files {
		write(filepath.Join("folder", f.name), []byte(f.content))
	}
	packings := map[string][]byte{"x.tar": tarOf(t, files...), "x.tar.gz": gzipOf(t, tarOf(t, files...)), "x.zip": zipOf(t, files...), "wrong-name.json": zipOf(t, files...), "no-extension": gzipOf(t, tarOf(t, files...))}
	paths := []string{filepath.Join(dir, "folder")}
	for name, data := range packings {
		paths = append(paths, write(name, data))
		s, report := fromStdin(t, data)
		if got := names(s); got != want || report.Skipped != 2 {
			t.Errorf("%s from stdin: %s, %+v", name, got, report)
		}
	}
	for _, p := range paths {
		s, report, err := Read(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(s); got != want || report.Skipped != 2 || report.Files != 4 || report.Objects != 2 || len(report.Problems) > 0 {
			t.Errorf("%s: %s, %+v", p, got, report)
		}
	}
	archives := t.TempDir()
	for _, p := range []string{"x.tar.gz", "x.zip"} {
		if err := os.WriteFile(filepath.Join(archives, p), packings[p], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(archives, "c.json.gz"), gzipOf(t, []byte(pod("c"))), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := mustRead(t, archives); names(s) != want+", Pod ns/c" {
		t.Errorf("a folder of archives: %s", names(s))
	}
}

// A support bundle of troubleshoot.sh: old ones are arrays without kinds, and some files have no extension.
func TestSupportBundle(t *testing.T) {
	in := gzipOf(t, tarOf(t,
		member{name: "support-bundle-1/cluster-resources/pods/n.json", content: "[" + bare("p") + "]"},
		member{name: "support-bundle-1/cluster-resources/pods/logs/n/p/c.log", content: "{\"kind\": \"of log\"}\nmore\n"},
		member{name: "support-bundle-1/cluster-resources/pods-errors.json", content: "null"},
		member{name: "support-bundle-1/cluster-resources/pvcs/n.json", content: `{"kind":"PersistentVolumeClaimList","apiVersion":"v1","metadata":{},"items":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"c","namespace":"ns"}}]}`},
		member{name: "support-bundle-1/cluster-resources/pvs", content: `{"kind":"PersistentVolumeList","apiVersion":"v1","items":[{"metadata":{"name":"v"}}]}`},
		member{name: "support-bundle-1/cluster-resources/storage-classes.json", content: `[{"metadata":{"name":"fast"},"provisioner":"x"}]`},
		member{name: "support-bundle-1/cluster-resources/nodes.json", content: `[{"metadata":{"name":"n1"}}]`},
		member{name: "support-bundle-1/cluster-resources/namespaces.json", content: `{"metadata":{"name":"n"}}`},
		member{name: "support-bundle-1/cluster-resources/events/n.json", content: `[{"metadata":{"name":"e","namespace":"ns"},"message":"m"}]`},
		member{name: "support-bundle-1/cluster-resources/statefulsets-errors.json", content: `{}`},
		member{name: "support-bundle-1/cluster-resources/statefulsets-errors.json/n.json", content: "[" + bare("rs") + "]"},
		member{name: "support-bundle-1/cluster-resources/volumeattachments.json", content: `{"items":[{"metadata":{"name":"va"}}]}`},
		member{name: "support-bundle-1/cluster-resources/custom-resources/engines.longhorn.io/n.yaml", content: "- apiVersion: longhorn.io/v1beta2\n  kind: Engine\n  metadata: {name: g, namespace: ns}\n"},
		member{name: "support-bundle-1/cluster-resources/auth-cani-list/n.json", content: `[{"verbs":["get"]}]`},
		member{name: "support-bundle-1/cluster-resources/image-pull-secrets/n/s.json", content: `{"registry":"user"}`},
		member{name: "support-bundle-1/cluster-resources/groups.json", content: `[{"name":"apps"}]`},
		member{name: "support-bundle-1/version.yaml", content: "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec: {versionNumber: 1}\n"}))
	s, report := fromStdin(t, in)
	want := "Namespace /n, Node /n1, PersistentVolumeClaim ns/c, PersistentVolume /v, Pod ns/p, Event ns/e, StorageClass.storage.k8s.io /fast, VolumeAttachment.storage.k8s.io /va, ReplicaSet.apps ns/rs, Engine.longhorn.io ns/g"
	if got := names(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(report.Problems) > 0 || s.Recorded {
		t.Errorf("%+v, recorded %v", report, s.Recorded)
	}
}

// A support bundle says by its files what was read: a list that is there and empty is no gap. Of all namespaces it has a list where
// it has all namespaces, and that list of each.
func TestSupportBundleLists(t *testing.T) {
	const in = "b/cluster-resources/"
	pods := func(ns, items string) member {
		return member{name: in + "pods/" + ns + ".json", content: `{"kind":"PodList","apiVersion":"v1","items":[` + items + `]}`}
	}
	namespaces := member{name: in + "namespaces.json", content: `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"ns"}},{"metadata":{"name":"other"}}]}`}
	some := member{name: in + "namespaces.json", content: `[{"metadata":{"name":"ns"}},{"metadata":{"name":"other"}}]`}
	pvs := member{name: in + "pvs.json", content: `{"kind":"PersistentVolumeList","apiVersion":"v1","items":[]}`}
	failed := member{name: in + "volumeattachments.json"}
	csiNodes := member{name: "b/host-collectors/run-host/csinodes.txt", content: `{"kind":"CSINodeList","apiVersion":"storage.k8s.io/v1","metadata":{},"items":[]}`}
	crds := member{name: in + "custom-resource-definitions.json", content: `[{"metadata":{"name":"x"}}]`}
	drivers := member{name: "b/host-collectors/run-host/csidrivers.txt"}
	for name, c := range map[string]struct {
		members []member
		read    []string
	}{
		"all namespaces": {[]member{namespaces, pods("ns", bare("p")), pods("other", ""), pvs, failed, csiNodes, drivers}, []string{"namespaces", "pods in ns", "pods in other", "persistentvolumes", "csinodes.storage.k8s.io", "pods"}},
		"custom kinds": {[]member{namespaces, pods("ns", bare("p")), pods("other", ""), crds}, []string{"namespaces", "pods in ns", "pods in other", "pods",
			"volumesnapshots.snapshot.storage.k8s.io", "volumesnapshotcontents.snapshot.storage.k8s.io", "volumesnapshotclasses.snapshot.storage.k8s.io"}},
		"custom kinds that failed": {[]member{namespaces, pods("ns", bare("p")), pods("other", ""), crds, {name: in + "custom-resources/custom-resources-errors.json", content: `{"volumesnapshots": "forbidden"}`}},
			[]string{"namespaces", "pods in ns", "pods in other", "pods"}},
		"one is not readable": {[]member{namespaces, pods("ns", bare("p")), pvs}, []string{"namespaces", "pods in ns", "persistentvolumes"}},
		"namespaces by name":  {[]member{some, pods("ns", bare("p")), pods("other", "")}, []string{"pods in ns", "pods in other"}},
		"one is cut":          {[]member{namespaces, pods("ns", bare("p")), {name: in + "pvs.json", content: `{"kind":"PersistentVolumeList","items":[`}}, []string{"namespaces", "pods in ns"}},
	} {
		s, _ := fromStdin(t, gzipOf(t, tarOf(t, c.members...)))
		var read []string
		for _, q := range s.Read {
			read = append(read, q.String())
		}
		if !slices.Equal(read, c.read) {
			t.Errorf("%s: read %q, want %q", name, read, c.read)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	members := []member{{name: "../../up.json", content: pod("up")}, {name: "/etc/abs.json", content: pod("abs")}, {name: "x\x1b[31m\nname.json", content: "{broken"},
		{name: "link.json", content: "/etc/passwd", kind: tar.TypeSymlink}, {name: "empty.json"}, {name: "ok.json", content: pod("ok")}}
	tarOnly := []member{{name: "hard.json", content: "ok.json", kind: tar.TypeLink}, {name: "null", kind: tar.TypeChar}, {name: "fifo", kind: tar.TypeFifo}}
	for name, in := range map[string][]byte{"tar": gzipOf(t, tarOf(t, append(members, tarOnly...)...)), "zip": zipOf(t, members...)} {
		s, report := fromStdin(t, in)
		if got := names(s); got != "Pod ns/abs, Pod ns/ok, Pod ns/up" {
			t.Errorf("%s: %s", name, got)
		}
		if want := map[string]int{"tar": 4, "zip": 1}[name]; report.Links != want {
			t.Errorf("%s: %d links, want %d", name, report.Links, want)
		}
		if len(report.Problems) != 1 || strings.ContainsAny(report.Problems[0], "\x1b\n") {
			t.Errorf("%s: %q", name, report.Problems)
		}
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

func TestFolderLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{filepath.Join(outside, "o.json"): pod("outside"), filepath.Join(dir, "a.json"): pod("a"), filepath.Join(dir, ".hidden.json"): pod("hidden")} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out.json": filepath.Join(outside, "o.json"), "outdir": outside, "loop": dir, "in.json": "a.json", "dead": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s, report, err := Read(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if names(s) != "Pod ns/a, Pod ns/hidden" || report.Links != 5 {
		t.Errorf("%s, %+v", names(s), report)
	}
	link := filepath.Join(outside, "root")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if s := mustRead(t, link); s.Len() != 2 {
		t.Errorf("a link that the user gives is followed: %s", names(s))
	}
}

func TestLimits(t *testing.T) {
	small := limits{total: 64 << 10, file: 2 << 10, files: 5, objects: 6, depth: 3, problems: 3}
	big := pod("big-" + strings.Repeat("x", 3<<10))
	zeros := strings.Repeat(" ", 1<<20)
	var many []member
	for i := range 10 {
		many = append(many, member{name: fmt.Sprintf("%d.json", i), content: pod(fmt.Sprint(i))})
	}
	var objects []string
	for i := range 10 {
		objects = append(objects, pod(fmt.Sprint(i)))
	}
	for name, c := range map[string]struct {
		in      []byte
		objects int
		problem string
	}{
		"file size":  {tarOf(t, member{name: "a.json", content: list(pod("a"), big)}, member{name: "b.json", content: pod("b")}), 2, "larger than 0 MiB"},
		"total":      {gzipOf(t, tarOf(t, member{name: "a.json", content: pod("a")}, member{name: "z.json", content: zeros}, member{name: "b.json", content: pod("b")})), 1, "input is larger than"},
		"zip bomb":   {zipOf(t, member{name: "a.json", content: pod("a")}, member{name: "z.json", content: zeros}, member{name: "z2.json", content: zeros}), 1, "larger than"},
		"gzip bomb":  {gzipOf(t, append([]byte(pod("a")), zeros...)), 1, "larger than"},
		"files":      {tarOf(t, many...), 5, "more than 5 files"},
		"objects":    {[]byte(list(objects...)), 6, "more than 6 objects"},
		"list depth": {[]byte(list(pod("a"), deep(5))), 1, "more than 3 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			s, report, err := read([]string{"-"}, bytes.NewReader(c.in), small)
			if err != nil {
				t.Fatal(err)
			}
			if report.Objects != c.objects || !strings.Contains(strings.Join(report.Lines(), "\n"), c.problem) {
				t.Errorf("%+v", report)
			}
			if q := (snapshot.Query{Resource: "pods", Namespace: "ns"}); s.Covers(q) || s.GapOf(q) == nil {
				t.Errorf("pods count as read though some are missing; gap %v", s.GapOf(q))
			}
		})
	}
	var broken []member
	for i := range 5 {
		broken = append(broken, member{name: fmt.Sprintf("%d.json", i), content: "{"})
	}
	_, report, err := read([]string{"-"}, bytes.NewReader(tarOf(t, append([]member{{name: "a.json", content: pod("a")}}, broken[:4]...)...)), small)
	if err != nil || len(report.Problems) != 3 || !slices.Contains(report.Lines(), "1 more files or objects cannot be read") {
		t.Errorf("%v %q", err, report.Lines())
	}
}

func TestAliasBombs(t *testing.T) {
	laughs := "apiVersion: v1\nkind: Pod\nmetadata: {name: bomb}\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	wide := "apiVersion: v1\nkind: Pod\nmetadata: {name: bomb}\na: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", 50_000), ",") + "]\n"
	for name, in := range map[string]string{"deep": laughs, "wide": wide} {
		start := time.Now()
		s, report := fromStdin(t, []byte(in+"---\n"+yamlOf(t, pod("a"))))
		if names(s) != "Pod ns/a" || !strings.Contains(strings.Join(report.Problems, ""), "alias") {
			t.Errorf("%s: %s, %q", name, names(s), report.Problems)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// What is cut off is used as far as it goes, and from what is missing nothing is concluded.
func TestTruncated(t *testing.T) {
	s := mustRead(t, "../../testdata/cases/host-inspector-keeps-the-rbd-mount")
	var buf bytes.Buffer
	if err := Write(&buf, s); err != nil {
		t.Fatal(err)
	}
	plainTar, err := gzip.NewReader(bytes.NewReader(buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(plainTar)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(unpacked, []byte("pods.json")) + 2000
	for name, in := range map[string][]byte{"tar": unpacked[:at], "tar.gz": buf.Bytes()[:buf.Len()/2]} {
		cut, report := fromStdin(t, in)
		if cut.Len() == 0 || cut.Len() >= s.Len() || len(report.Problems) == 0 {
			t.Errorf("%s: %d objects of %d, %q", name, cut.Len(), s.Len(), report.Problems)
		}
		if !cut.TakenAt.Equal(s.TakenAt) || !cut.Covers(snapshot.Query{Resource: "nodes"}) {
			t.Errorf("%s: what came before the cut is not used", name)
		}
		q := snapshot.Query{Resource: "volumeattachments.storage.k8s.io"}
		if g := cut.GapOf(q); cut.Covers(q) || g == nil || g.Reason != "truncated" {
			t.Errorf("%s: attachments: covers %v, gap %v", name, cut.Covers(q), g)
		}
	}
	for _, in := range [][]byte{buf.Bytes()[:5], buf.Bytes()[:15], gzipOf(t, nil), {}, []byte("PK\x03\x04 and no more")} {
		if _, _, err := Read("-", bytes.NewReader(in)); err == nil || !strings.Contains(err.Error(), "no Kubernetes object") {
			t.Errorf("%q: %v", in, err)
		}
	}
	zipped := zipOf(t, member{name: "dir/"}, member{name: "a.json", content: pod("a")}, member{name: "b.json", content: pod("b")}, member{name: "c.json", content: list(pod("c"), pod("d"))})
	for cut, want := range map[int]string{bytes.Index(zipped, []byte("PK\x01\x02")) + 20: "Pod ns/a, Pod ns/b, Pod ns/c, Pod ns/d", bytes.Index(zipped, []byte("c.json")) + 3: "Pod ns/a, Pod ns/b", bytes.Index(zipped, []byte("b.json")) + 20: "Pod ns/a"} {
		s, report := fromStdin(t, zipped[:cut])
		if names(s) != want || len(report.Problems) == 0 || s.Covers(snapshot.Query{Resource: "pods"}) {
			t.Errorf("zip cut at %d: %s, %q", cut, names(s), report.Problems)
		}
	}
	cutYAML := yamlOf(t, list(pod("a"), pod("b"), pod("c")))
	_, report, err := read([]string{"-"}, strings.NewReader(cutYAML), limits{total: 1 << 20, file: int64(len(cutYAML) - 30), files: 9, objects: 9, depth: 9, problems: 9})
	if err != nil || report.Objects == 0 || report.Objects == 3 {
		t.Errorf("%v, %+v", err, report)
	}
}

// What opens and never closes is looked at a few times, not once for each.
func TestHostileNesting(t *testing.T) {
	const size = 4 << 20
	for _, in := range []string{
		pod("a") + "\n" + strings.Repeat("{\"a\":[\n", size/7), pod("a") + "\n" + strings.Repeat("{\n", size/2), pod("a") + "\n" + strings.Repeat("{\"items\":[\n", size/11),
		yamlOf(t, pod("a")) + "---\nkind: " + strings.Repeat("{a: ", size/4), yamlOf(t, pod("a")) + "---\nkind: " + strings.Repeat("[", size),
	} {
		start := time.Now()
		_, report := fromStdin(t, []byte(in))
		if took := time.Since(start); report.Objects != 1 || len(report.Problems) == 0 || took > 30*time.Second {
			t.Errorf("%.150q...: %s, %+v", in, took, report)
		}
	}
}

func TestCollections(t *testing.T) {
	collection := func(takenAt, rest string) string {
		return `{"apiVersion":"csidoctor.dev/v1alpha1","kind":"Collection","takenAt":"` + takenAt + `"` + rest + `}`
	}
	s, _ := fromStdin(t, []byte(collection("2026-01-02T00:00:00Z", `,"server":{"version":"v2"},"read":["pods",{"resource":"events","namespace":"ns"}],"gaps":[{"input":"nodes","reason":"forbidden","detail":"token=hunter2"}]`)+
		collection("2026-01-01T00:00:00Z", `,"server":{"version":"v1"},"read":["nodes","pods"]`)+pod("a")))
	if got := fmt.Sprintf("%s %s %t %s %s", s.TakenAt.Format(time.DateOnly), s.Server, s.Recorded, s.Read, s.Gaps[0].Detail); got != "2026-01-02 v2 true [pods events in ns nodes] token=***" {
		t.Error(got)
	}
	s, _ = fromStdin(t, []byte(collection("2026-01-02T00:00:00Z", "")+pod("a")))
	if s.Recorded || s.TakenAt.IsZero() {
		t.Error("a Collection without read does not say what was read, only when")
	}
	s, _ = fromStdin(t, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m","time":"2026-01-03T00:00:00Z"}]}}`))
	if s.TakenAt.Format(time.DateOnly) != "2026-01-03" {
		t.Errorf("without one, the newest moment: %s", s.TakenAt)
	}
}

func TestNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "case.json"), []byte(`{"id":"x"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := Read(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "kubectl csidoctor bundle") || !strings.Contains(err.Error(), "1 files") {
		t.Error(err)
	}
	if _, _, err := Read(filepath.Join(dir, "missing"), nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Error(err)
	}
	if _, _, err := Read(filepath.Join(dir, "case.json"), nil); err == nil {
		t.Error("a file without an object is no input")
	}
}

var podKind = schema.GroupKind{Kind: "Pod"}

// BenchmarkRead reads the largest case, as a folder, as a bundle, and 2,000 pods with and without redaction worth the name.
func BenchmarkRead(b *testing.B) {
	const dir = "../../testdata/cases/ebs-twenty-sixth-volume-keeps-attaching"
	b.Run("folder", func(b *testing.B) {
		for b.Loop() {
			mustRead(b, dir)
		}
	})
	s := mustRead(b, dir)
	var packed bytes.Buffer
	if err := Write(&packed, s); err != nil {
		b.Fatal(err)
	}
	b.Run("bundle", func(b *testing.B) {
		for b.Loop() {
			fromStdin(b, packed.Bytes())
		}
	})
	one := asJSON(b, s.All(podKind)[0])
	var pods []string
	for i := range 2000 {
		pods = append(pods, strings.Replace(one, `"name":"`, fmt.Sprintf(`"name":"p%d-`, i), 1))
	}
	large := []byte(list(pods...))
	b.Run("2000 pods", func(b *testing.B) {
		b.SetBytes(int64(len(large)))
		for b.Loop() {
			fromStdin(b, large)
		}
	})
}
