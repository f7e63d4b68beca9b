package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

func TestMaskArgs(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-t cifs -o username=app,password=hunter2,vers=3.0 //srv/share /mnt", "-t cifs -o username=app,password=***,vers=3.0 //srv/share /mnt"},
		{"-t ceph 10.0.0.1:6789:/ /mnt -o name=admin,secret=AQDZ==,x=1", "-t ceph 10.0.0.1:6789:/ /mnt -o name=admin,secret=***,x=1"},
		{"-t ceph a:/ /mnt -o name=admin,secretfile=/etc/ceph/k", "-t ceph a:/ /mnt -o name=admin,secretfile=/etc/ceph/k"},
		{"-m node -T iqn.x -o update -n node.session.auth.password -v topsecret", "-m node -T iqn.x -o update -n node.session.auth.password -v ***"},
		{"-m node -T iqn.x -o update -n node.startup -v automatic", "-m node -T iqn.x -o update -n node.startup -v automatic"},
		{"map pool/image --id admin --key AQDZ== --keyfile /tmp/csi/keys/k-1", "map pool/image --id admin --key *** --keyfile /tmp/csi/keys/k-1"},
		{"open --key-file /run/key /dev/sda luks", "open --key-file /run/key /dev/sda luks"},
		{"--token abc --secret-key=xyz https://me:pw@host/x", "--token *** --secret-key=*** https://***@host/x"},
		{"-F -m0 /dev/vdc", "-F -m0 /dev/vdc"},
		{"--passphrase --verbose", "--passphrase --verbose"},
	} {
		if got := maskArgs(strings.Fields(c.args)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.args, got, c.want)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("password=hunter2 token: x")
	f.Fuzz(func(t *testing.T, s string) {
		once := maskText(s)
		if twice := maskText(once); twice != once {
			t.Errorf("%q: %q, then %q", s, once, twice)
		}
	})
}

func TestVolData(t *testing.T) {
	got, err := parseVolData([]byte(`{"driverName":"d","volumeHandle":"h"}` + "\n"))
	if err != nil || !cmp.Equal(got, map[string]string{"driverName": "d", "volumeHandle": "h"}) {
		t.Errorf("%v %v", got, err)
	}
	for in, want := range map[string]string{"": "empty", " \n": "empty", "{": "JSON", "null": "null", `{"a":1}`: "JSON", `["a"]`: "JSON", `{"a":"` + strings.Repeat("x", maxVolData) + `"}`: "larger"} {
		if _, err := parseVolData([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", in, err, want)
		}
	}
}

func FuzzVolData(f *testing.F) {
	f.Add([]byte(`{"driverName":"d","volumeHandle":"h"}`))
	f.Add([]byte(`{"driverName":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseVolData(b); err == nil && got == nil {
			t.Error("neither data nor an error")
		}
	})
}

func TestKmsg(t *testing.T) {
	for _, c := range []struct {
		record string
		want   kernelLine
		err    bool
	}{
		{"3,1339,5140900,-;EXT4-fs error (device sdb): ext4_lookup:1: inode #2\n SUBSYSTEM=block\n DEVICE=b8:16\n", kernelLine{5140900 * time.Microsecond, 3, "EXT4-fs error (device sdb): ext4_lookup:1: inode #2", "8:16"}, false},
		{"5,2,1000000,c;nfs: server a not responding, still trying\n", kernelLine{time.Second, 5, "nfs: server a not responding, still trying", ""}, false},
		{"4,2,0,-;name \\x5cx \\x1b[0m\n DEVICE=+scsi:2:0:0:1\n", kernelLine{0, 4, `name \x \x1b[0m`, ""}, false},
		{"30,7,2,-;systemd[1]: XFS (sda1): Corruption", kernelLine{}, true}, // a program's words
		{"5,2,1000000;old", kernelLine{}, true},
		{"x,2,1,-;x", kernelLine{}, true}, {"3,2,-1,-;x", kernelLine{}, true}, {"", kernelLine{}, true},
	} {
		got, err := parseKmsg(c.record)
		if (err != nil) != c.err || got != c.want {
			t.Errorf("%q: %+v %v", c.record, got, err)
		}
	}
}

func TestNewest(t *testing.T) {
	lines := []kernelLine{{Text: "first", Device: "sdb"}}
	for i := range 100 {
		lines = append(lines, kernelLine{Text: fmt.Sprint(i), Device: "sda"})
	}
	got := newest(lines)
	if len(got) != 1+maxDeviceLines || got[0].Text != "first" || got[1].Text != "60" || got[len(got)-1].Text != "99" {
		t.Errorf("%d lines: %v", len(got), got)
	}
}

func FuzzKmsg(f *testing.F) {
	f.Add("3,1339,5140900,-;EXT4-fs error (device sdb): x\n DEVICE=b8:16\n")
	f.Fuzz(func(t *testing.T, record string) {
		if l, err := parseKmsg(record); err == nil && (l.Level < 0 || l.Level > 7 || l.After < 0) {
			t.Errorf("%q: %+v", record, l)
		}
	})
}

func TestKubeletLines(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ line, at, message string }{
		{`E0102 11:03:10.123456    1234 nestedpendingoperations.go:348] Operation for "x" failed`, "2026-01-02T11:03:10.123456Z", `Operation for "x" failed`},
		{`Jan  2 11:03:10 node-1 kubelet[77]: W0102 11:03:10.5    1234 a.go:1] "RegisterPlugin error" err="x"`, "2026-01-02T11:03:10.5Z", `"RegisterPlugin error" err="x"`},
		{`E1231 23:00:00.000001       1 a.go:1] last year`, "2025-12-31T23:00:00.000001Z", "last year"},
		{`{"ts":1767351790123.4,"caller":"a.go:1","msg":"failed","err":"no"}`, "2026-01-02T11:03:10.1234Z", `failed err="no"`},
		{`Jan  2 11:03:10 node-1 sshd[77]: session opened`, "", ""},
		{`E9902 11:03:10.123456    1234 a.go:1] no such month`, "", ""},
		{`{"ts":"x"}`, "", ""},
	} {
		l, ok := kubeletLine(c.line, now)
		at := ""
		if ok {
			at = l.At.Format(time.RFC3339Nano)
		}
		if at != c.at || l.Message != c.message {
			t.Errorf("%s: %q %q", c.line, at, l.Message)
		}
	}
	l, ok := journalLine([]byte(`{"__REALTIME_TIMESTAMP":"1767351790123456","MESSAGE":"E0102 11:03:10.123456    1234 a.go:1] text"}`))
	if !ok || l.Message != "text" || l.At.Format(time.RFC3339Nano) != "2026-01-02T11:03:10.123456Z" {
		t.Errorf("%+v %v", l, ok)
	}
	if l, ok := journalLine([]byte(`{"__REALTIME_TIMESTAMP":"1","MESSAGE":[104,105,255]}`)); !ok || l.Message != "hi\xff" {
		t.Errorf("bytes: %+v %v", l, ok)
	}
	if _, ok := journalLine([]byte(`{"MESSAGE":"x"}`)); ok {
		t.Error("a line without a time")
	}
}

func FuzzKubeletLine(f *testing.F) {
	f.Add(`E0102 11:03:10.123456    1234 a.go:1] text`)
	f.Add(`{"ts":1767351790123.4,"msg":"failed","err":"no"}`)
	f.Add(`{"__REALTIME_TIMESTAMP":"1","MESSAGE":[104]}`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, year := range []int{1, 2026, 9999} {
			kubeletLine(line, time.Date(year, 2, 28, 0, 0, 0, 0, time.UTC))
		}
		journalLine([]byte(line))
	})
}

func TestNaming(t *testing.T) {
	line := func(s string) nodereport.LogLine { return nodereport.LogLine{Message: s} }
	got := naming([]nodereport.LogLine{line("a vol-0abc failed"), line("of another"), line("b vol-0abc password=x"), line("a vol-0abc failed")}, []string{"vol-0abc", "a", ""})
	if want := []nodereport.LogLine{line("b vol-0abc password=***"), line("a vol-0abc failed")}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func report(name string) *nodereport.NodeReport {
	entries := 0
	return &nodereport.NodeReport{APIVersion: nodereport.APIVersion, Kind: nodereport.Kind, Metadata: nodereport.Metadata{Name: name}, CollectedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Mountinfo: "43 42 259:1 / /a rw - ext4 /dev/x rw\n" + name + "\n", Namespaces: []nodereport.Namespace{{Inode: 1, Mountinfo: "1 2 3:4 / /x rw - xfs /dev/y rw\n"}, {Inode: 2, Processes: []nodereport.Process{{PID: 3, Comm: name}}}},
		Volumes: []nodereport.Volume{{Driver: "d", Handle: name, Publishes: []nodereport.Publish{{PodUID: "u", Path: "/p/" + name, Entries: &entries}}}}, Gaps: []nodereport.Gap{{What: name, Reason: "r"}}}
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, report("node-1"), false); err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: "csidoctor.dev/v1alpha1"
kind: "NodeReport"
metadata: {"name":"node-1"}
collectedAt: "2026-01-02T03:04:05Z"
mountinfo: |
  43 42 259:1 / /a rw - ext4 /dev/x rw
  node-1
namespaces:
- inode: 1
  mountinfo: |
    1 2 3:4 / /x rw - xfs /dev/y rw
- inode: 2
  processes: [{"pid":3,"comm":"node-1"}]
volumes:
- {"driver":"d","handle":"node-1","publishes":[{"podUID":"u","path":"/p/node-1","exists":false,"entries":0}]}
gaps:
- {"what":"node-1","reason":"r"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// FuzzWrite: whatever a file or label is called, both forms read back as the same, and hold nothing that a terminal acts on.
func FuzzWrite(f *testing.F) {
	for _, s := range []string{"node-1", "a\x1b[31m\u009b0m\u202ex\u2028", ": - #\n  x: y", " lead", "\n", "\ufeff", "\x7f\x00", "é\U000e0041", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var asYAML, asJSON bytes.Buffer
		if err := Write(&asYAML, report(name), false); err != nil {
			t.Fatal(err)
		}
		if err := Write(&asJSON, report(name), true); err != nil {
			t.Fatal(err)
		}
		want := report(string([]rune(name))) // one sign for each byte that is none, as encoding/json writes it
		for form, b := range map[string][]byte{"YAML": asYAML.Bytes(), "JSON": asJSON.Bytes()} {
			if i := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' && r != '\n' || unprintable(r) }); i >= 0 {
				t.Errorf("%s: a character that is not to be seen: %q", form, b[i:])
			}
			var got nodereport.NodeReport
			err := json.Unmarshal(b, &got)
			if form == "YAML" {
				err = yaml.Unmarshal(b, &got)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", form, err, b)
			}
			if diff := cmp.Diff(want, &got); diff != "" {
				t.Errorf("%s: %s", form, diff)
			}
		}
	})
}
