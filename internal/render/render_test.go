package render_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/render"
	"github.com/csidoctor/csidoctor/internal/render/rendertest"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, diff)
	}
}

func text(t testing.TB, d explain.Diagnosis, o render.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := render.Text(&b, d, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for name, d := range answers {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{80, 100} {
				golden(t, fmt.Sprintf("%s-%d", name, width), text(t, d, render.Options{Width: width, Docs: true}))
			}
			for _, o := range []render.Options{{Width: 60}, {Width: 80, Docs: true}, {}, {Width: 73, Wide: true, Docs: true}} {
				plain := text(t, d, o)
				rendertest.Check(t, d, o, plain)
				o.Color = true
				colored := text(t, d, o)
				rendertest.Check(t, d, o, colored)
				if diff := cmp.Diff(plain, rendertest.Plain(colored)); diff != "" {
					t.Errorf("colour changes more than colour (-without +with):\n%s", diff)
				}
			}
		})
	}
	// Of the colours and of wide one each. To be read, red and bold are written ⟨1;31 so⟩.
	colored := strings.ReplaceAll(text(t, stuck, render.Options{Width: 80, Color: true, Docs: true}), "\x1b[0m", "⟩")
	golden(t, "stuck-80-color", regexp.MustCompile(`\x1b\[([0-9;]+)m`).ReplaceAllString(colored, "⟨$1 "))
	golden(t, "degraded-80-wide", text(t, degraded, render.Options{Width: 80, Wide: true, Docs: true}))
}

func TestTimes(t *testing.T) {
	d := healthy
	o := render.Options{Now: taken.Add(time.Hour), Clock: taken.Add(26 * time.Hour)}
	first, _, _ := strings.Cut(text(t, d, o), "\n")
	if want := "Pod shop/web-0 · seen 2026-03-01 12:00:00 UTC (26h ago) · judged at 2026-03-01 13:00:00 UTC"; first != want {
		t.Errorf("got  %s\nwant %s", first, want)
	}
}

func list() explain.List {
	l := explain.List{APIVersion: explain.APIVersion, Kind: "DiagnosisList", TakenAt: taken, Verdict: explain.VerdictStuck,
		Gaps: []explain.Gap{{Input: "csinodes", Reason: "forbidden", Remedy: "Ask for list on csinodes.storage.k8s.io."}}}
	for _, name := range []string{"healthy", "stuck", "waiting", "undetermined", "degraded", "shared"} {
		l.Items = append(l.Items, answers[name])
	}
	return l
}

func TestTextList(t *testing.T) {
	claims := list()
	claims.Items = []explain.Diagnosis{stuck, shared, unseen}
	for name, c := range map[string]struct {
		list explain.List
		o    render.Options
	}{
		"list-pipe":  {list(), render.Options{}},
		"list-80":    {list(), render.Options{Width: 80, Terminal: 80}},
		"list-140":   {list(), render.Options{Width: 100, Terminal: 140}},
		"list-wide":  {claims, render.Options{Width: 80, Terminal: 80, Wide: true}},
		"list-none":  {explain.List{TakenAt: taken, Verdict: explain.VerdictHealthy}, render.Options{}},
		"list-alike": {claims, render.Options{Width: 80, Terminal: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			print := func(o render.Options) string {
				var b bytes.Buffer
				if err := render.TextList(&b, c.list, o); err != nil {
					t.Fatal(err)
				}
				rendertest.Harmless(t, b.String(), o.Color)
				return b.String()
			}
			plain := print(c.o)
			golden(t, name, plain)
			c.o.Color = true
			if diff := cmp.Diff(plain, rendertest.Plain(print(c.o))); diff != "" {
				t.Errorf("colour changes more than colour (-without +with):\n%s", diff)
			}
		})
	}
}

func scanned() explain.List {
	claim := func(name string) explain.Target {
		return explain.Target{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: name}
	}
	return explain.List{TakenAt: taken, Verdict: explain.VerdictStuck, Younger: 2,
		Counts: map[explain.Verdict]int{explain.VerdictStuck: 401, explain.VerdictDegraded: 1, explain.VerdictUndetermined: 12, explain.VerdictWaiting: 3, explain.VerdictHealthy: 1180},
		Groups: []explain.Group{
			{Cause: "attach/attacher-not-running", Hop: explain.HopAttach, Title: "No attacher works on the volume's attachment", Confidence: explain.Certain, Verdict: explain.VerdictStuck,
				Object: obj("CSIDriver", "", "ebs.csi.aws.com"), Count: 400, Since: before(3 * time.Hour), Targets: []explain.Target{claim("data-0"), claim("data-1"), claim("data-2"), claim("data-3"), claim("data-4")},
				Command: "kubectl csidoctor --context prod-eu-central-1-payments driver ebs.csi.aws.com"},
			{Cause: "provision/provisioner-not-running", Hop: explain.HopProvision, Title: "Nobody makes the volume: the driver's provisioner does not work", Confidence: explain.Likely, Verdict: explain.VerdictStuck,
				Object: obj("PersistentVolumeClaim", "shop", "uploads"), Count: 1, Targets: []explain.Target{claim("uploads")}, Command: "kubectl csidoctor pvc uploads -n shop"},
			{Cause: "detach/orphaned-attachment", Hop: explain.HopDetach, Title: "The volume is left attached to a node where nothing uses it", Confidence: explain.Certain, Verdict: explain.VerdictDegraded,
				Object: obj("Node", "", "ip-10-44-7-90.eu-central-1.compute.internal"), Count: 1, Since: before(9 * 24 * time.Hour),
				Targets: []explain.Target{{Kind: "VolumeAttachment", Name: "csi-5c1f0e6b3a7d4c2f9e8b1a0d7c6f5e4d3c2b1a09f8e7d6c5b4a3928170615243"}},
				Command: "kubectl csidoctor node ip-10-44-7-90.eu-central-1.compute.internal"},
			{Title: "What is wrong cannot be told without events, pods", Verdict: explain.VerdictUndetermined, Count: 12, Targets: []explain.Target{claim("a"), claim("b\x1b[2J")}, Command: "kubectl csidoctor pvc a -n shop"},
			{Cause: "provision/in-progress", Hop: explain.HopProvision, Title: "The volume is being made", Confidence: explain.Certain, Verdict: explain.VerdictWaiting, Count: 3, Since: before(time.Minute),
				Targets: []explain.Target{claim("new-0"), claim("new-1"), claim("new-2")}, Command: "kubectl csidoctor pvc new-0 -n shop"},
		},
		Gaps: []explain.Gap{{Input: "pods", Reason: "forbidden", Detail: "pods is forbidden", Remedy: "Ask for list on pods."}}}
}

func TestTextScan(t *testing.T) {
	waiting := scanned()
	waiting.Groups = waiting.Groups[4:]
	for name, c := range map[string]struct {
		list explain.List
		o    render.Options
	}{
		"scan-pipe":    {scanned(), render.Options{}},
		"scan-80":      {scanned(), render.Options{Width: 80, Terminal: 80}},
		"scan-120":     {scanned(), render.Options{Width: 100, Terminal: 120, Wide: true}},
		"scan-waiting": {waiting, render.Options{Width: 80, Terminal: 80}},
		"scan-none":    {explain.List{TakenAt: taken, Counts: map[explain.Verdict]int{explain.VerdictHealthy: 7}}, render.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			print := func(o render.Options) string {
				var b bytes.Buffer
				if err := render.TextScan(&b, c.list, o); err != nil {
					t.Fatal(err)
				}
				rendertest.Harmless(t, b.String(), o.Color)
				return b.String()
			}
			plain := print(c.o)
			golden(t, name, plain)
			c.o.Color = true
			if diff := cmp.Diff(plain, rendertest.Plain(print(c.o))); diff != "" {
				t.Errorf("colour changes more than colour (-without +with):\n%s", diff)
			}
		})
	}
}

func TestWideRunes(t *testing.T) {
	d := explain.Diagnosis{Summary: strings.Repeat("磁盘空间 不足 ", 20), Verdict: explain.VerdictUndetermined, TakenAt: taken}
	rendertest.Check(t, d, render.Options{Width: 60}, text(t, d, render.Options{Width: 60}))
}

func TestJSON(t *testing.T) {
	var out, back bytes.Buffer
	if err := render.JSON(&out, stuck); err != nil {
		t.Fatal(err)
	}
	var d explain.Diagnosis
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if err := render.JSON(&back, d); err != nil || back.String() != out.String() {
		t.Errorf("JSON does not come back the same: %v", err)
	}
	if s := out.String(); !strings.HasPrefix(s, "{\n  \"apiVersion\"") || !strings.HasSuffix(s, "}\n") {
		t.Errorf("not indented by two, or without a newline at the end: %s", s)
	}

	out.Reset()
	if err := render.JSON(&out, explain.List{Items: []explain.Diagnosis{{Findings: []explain.Finding{{Why: "<a> & b"}}, Chains: []explain.Chain{{}}}, {}}}); err != nil {
		t.Fatal(err)
	}
	if s := strings.ReplaceAll(out.String(), `"until": null`, ""); strings.Contains(s, "null") || !strings.Contains(s, "<a> & b") {
		t.Errorf("a list is null, or a value is escaped for HTML: %s", s)
	}
}

func TestYAML(t *testing.T) {
	var asJSON, asYAML bytes.Buffer
	if err := render.JSON(&asJSON, stuck); err != nil {
		t.Fatal(err)
	}
	if err := render.YAML(&asYAML, stuck); err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(asJSON.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(asYAML.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("YAML is not JSON (-json +yaml):\n%s", diff)
	}
}

// What is meant for scripts ends on terminals too.
func TestHostileData(t *testing.T) {
	var asJSON, asYAML bytes.Buffer
	if err := render.JSON(&asJSON, hostile); err != nil {
		t.Fatal(err)
	}
	if err := render.YAML(&asYAML, hostile); err != nil {
		t.Fatal(err)
	}
	rendertest.Harmless(t, asJSON.String(), false)
	rendertest.Harmless(t, asYAML.String(), false)
	var d explain.Diagnosis
	if err := json.Unmarshal(asJSON.Bytes(), &d); err != nil || d.Target != hostile.Target || d.Findings[0].Evidence[0] != hostile.Findings[0].Evidence[0] {
		t.Errorf("JSON changed a value: %v\n%s", err, asJSON.String())
	}
}

func TestOptionsFor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	none := func(string) string { return "" }
	for color, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		if o, err := render.OptionsFor(w, color, none); err != nil || o.Color != want || o.Width != 100 || o.Terminal != 0 {
			t.Errorf("--color %s into a pipe: %+v, %v", color, o, err)
		}
	}
	if _, err := render.OptionsFor(w, "yes", none); err == nil || !strings.Contains(err.Error(), "auto, always, never") {
		t.Errorf("--color yes: %v", err)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünïcode 磁盘 ✓":             "plain ünïcode 磁盘 ✓",
		"a\nb\r\nc\td\u00a0e\u2028f":     "a b  c d e f",
		"\x1b[31mred\x1b[0m":             "red",
		"\x1b[2J\x1b]0;t\x07\x00\x7f":    `\x1b[2J\x1b]0;t\x07\x00\x7f`,
		"\x1b\x1b[0m[31mx":               `\x1b[31mx`,
		"\u009b2J\x9b2J":                 `\u009b2J` + "\ufffd2J",
		"data\u202e0\u2066\u200b\ufeff-": `data\u202e0\u2066\u200b\ufeff-`,
		"\U000e0041\U0010ffff\ue000":     `\U000e0041\U0010ffff\ue000`,
		"⚠\ufe0f \u3164":                 `⚠ \u3164`,
		"bad \xff\xfe":                   "bad \ufffd\ufffd",
	} {
		if got := render.Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"data-0", "\x1b[31mred\x1b[0m", "\x1b\x1b[0m[31m", "\u202e\u009b\xff\x9b", "a\r\nb", "\U000e0041\ufe0f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := render.Clean(s)
		rendertest.Harmless(t, got, false)
		if strings.Contains(got, "\n") || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		if again := render.Clean(got); again != got {
			t.Errorf("cleaned twice %q becomes %q", got, again)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"data-0", "\x1b]0;x\x07", "one two", "`a b` c`", "```", " ", "kubectl get\npod", "\u202e磁 盘", "🇩 🇪 e\u0301", "\u0301 磁 🏽 \u0e33", strings.Repeat("long ", 40), strings.Repeat("x", 120)} {
		f.Add(s, "pod", byte(80), false)
		f.Add("why", s, byte(60), true)
	}
	f.Fuzz(func(t *testing.T, s, name string, width byte, wide bool) {
		o := render.Options{Width: 60 + int(width)%41, Wide: wide, Docs: true, Color: width%2 == 0}
		object := obj(s, name, s)
		d := explain.Diagnosis{
			Target: explain.Target{Kind: s, Namespace: name, Name: s}, TakenAt: taken, Verdict: explain.VerdictStuck, Hop: explain.HopName(name),
			Cause: &explain.Named{ID: s, Title: s, Confidence: explain.Possible}, Summary: name,
			Chains: []explain.Chain{{Claim: object, Pod: obj("Pod", s, name), Node: s, Volume: name, Hops: []explain.Hop{
				{Hop: explain.HopClaim, Status: explain.StatusStuck, Note: s, Object: object, Since: before(time.Hour), Until: before(time.Hour)}}}},
			Findings: []explain.Finding{
				{Cause: s, Title: s, Confidence: explain.Likely, Why: name, Evidence: []explain.Evidence{{Object: *object, Field: s, Value: name, At: before(time.Hour)}},
					Fix: []explain.Step{{Text: s, Command: name, Danger: explain.DangerDataLoss, Unless: name}, {Text: name, Command: s, Danger: explain.DangerNone}}},
				{Cause: name, Title: name, Confidence: explain.Possible, Why: s, Evidence: []explain.Evidence{{Object: *object, Value: s}}}},
			Gaps:  []explain.Gap{{Input: s, Object: object, Reason: name, Detail: s, Remedy: name}, {Input: name, Reason: s, Remedy: s}},
			Notes: []string{s, name},
		}
		rendertest.Check(t, d, o, text(t, d, o))

		d.Chains[0].Hops[0].Hop, d.Chains[0].Hops[0].Status = explain.HopName(s), explain.Status(name) // read from a file, perhaps
		rendertest.Harmless(t, text(t, d, o), o.Color)

		var table bytes.Buffer
		if err := render.TextList(&table, explain.List{Items: []explain.Diagnosis{d, stuck}, Gaps: d.Gaps}, render.Options{Color: o.Color, Terminal: 150}); err != nil {
			t.Fatal(err)
		}
		rendertest.Harmless(t, table.String(), o.Color)
		for _, print := range []func(*bytes.Buffer) error{
			func(b *bytes.Buffer) error { return render.JSON(b, d) },
			func(b *bytes.Buffer) error { return render.YAML(b, d) },
		} {
			var b bytes.Buffer
			if err := print(&b); err != nil {
				t.Fatal(err)
			}
			rendertest.Harmless(t, b.String(), false)
		}
	})
}
