package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// kernelLine is one record of /dev/kmsg.
type kernelLine struct {
	After  time.Duration `json:"after"` // since boot
	Level  int           `json:"level"` // 0 emergency ... 7 debug
	Text   string        `json:"text"`
	Device string        `json:"device,omitempty"` // "8:0": what the kernel itself says the line is about
}

// parseKmsg reads a record (Documentation/ABI/testing/dev-kmsg): "level,sequence,microseconds,flags;text", then lines of
// " KEY=value". What programs wrote there is refused: only the kernel's own lines are facts.
func parseKmsg(record string) (kernelLine, error) {
	head, rest, ok := strings.Cut(record, ";")
	f := strings.Split(head, ",")
	if !ok || len(f) < 4 {
		return kernelLine{}, fmt.Errorf("no head in %q", record)
	}
	priority, err := strconv.Atoi(f[0])
	if err != nil {
		return kernelLine{}, err
	}
	micro, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || micro < 0 || micro > int64(1<<62)/1000 {
		return kernelLine{}, fmt.Errorf("%q is no time", f[2])
	}
	if priority < 0 || priority>>3 != 0 { // another facility than the kernel's
		return kernelLine{}, errNotKernel
	}
	text, tags, _ := strings.Cut(rest, "\n")
	l := kernelLine{After: time.Duration(micro) * time.Microsecond, Level: priority & 7, Text: unescapeKmsg(text)}
	for tag := range strings.Lines(tags) {
		if device, ok := strings.CutPrefix(strings.TrimSpace(tag), "DEVICE=b"); ok {
			l.Device = device
		}
	}
	return l, nil
}

var errNotKernel = fmt.Errorf("not the kernel's own line")

// unescapeKmsg turns \x5c and the like back where that is a character to see.
func unescapeKmsg(s string) string {
	return kmsgEscape.ReplaceAllStringFunc(s, func(m string) string {
		if n, err := strconv.ParseUint(m[2:], 16, 8); err == nil && n >= ' ' && n < 0x7f {
			return string(rune(n))
		}
		return m
	})
}

var kmsgEscape = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// remoteWords are of kernel lines about filesystems and transports that have no block device, or none yet.
var remoteWords = regexp.MustCompile(`(?i)\b(nfs4?|rpc|lockd|cifs|smb3?|libceph|ceph|rbd|fuse|9p|virtiofs|iscsi|connection\d+:\d+|session\d+|nvme|drbd|multipath|device-mapper|ext4-fs|xfs|btrfs|f2fs|vfat|ntfs3?|squashfs|zfs|block nbd\d+|hung_task|blocked for more than)\b|mount option|unknown parameter`)

// aboutVolumes: a line below the level of notices that filesystems and transports write.
func (l kernelLine) aboutVolumes() bool { return l.Level <= 5 && remoteWords.MatchString(l.Text) }

const (
	maxKernelLines = 300 // in a report
	maxDeviceLines = 40  // of one device, or of none: one that fails says the same by the thousand
)

// newest keeps the last lines, and of one device not too many.
func newest(lines []kernelLine) []kernelLine {
	of := map[string]int{}
	kept := 0
	keep := make([]bool, len(lines))
	for i := len(lines) - 1; i >= 0 && kept < maxKernelLines; i-- {
		if of[lines[i].Device]++; of[lines[i].Device] <= maxDeviceLines {
			keep[i] = true
			kept++
		}
	}
	var out []kernelLine
	for i, l := range lines {
		if keep[i] {
			out = append(out, l)
		}
	}
	return out
}

// kubeletLine finds time and text in a line of the kubelet's log as klog writes it (Lmmdd hh:mm:ss.uuuuuu thread file:line] text),
// whatever a syslog daemon wrote before it. The time is local and without a year.
func kubeletLine(line string, now time.Time) (nodereport.LogLine, bool) {
	m := klogHead.FindStringSubmatchIndex(line)
	if m == nil {
		return kubeletJSON(line)
	}
	at, err := time.ParseInLocation("2006 0102 15:04:05.999999999", fmt.Sprintf("%d %s", now.Year(), line[m[2]:m[3]]), now.Location())
	if err != nil {
		return nodereport.LogLine{}, false
	}
	if at.After(now.Add(24 * time.Hour)) { // of last December, read in January
		at = at.AddDate(-1, 0, 0)
	}
	return nodereport.LogLine{At: at, Message: strings.TrimSpace(line[m[1]:])}, true
}

var klogHead = regexp.MustCompile(`(?:^|[\s:])[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{1,9})\s+\d+ [^\s\]]+:\d+\] `)

// kubeletJSON reads a line of --logging-format=json.
func kubeletJSON(line string) (nodereport.LogLine, bool) {
	if !strings.HasPrefix(line, `{"ts":`) {
		return nodereport.LogLine{}, false
	}
	var l struct {
		TS  float64 `json:"ts"` // milliseconds
		Msg string  `json:"msg"`
		Err string  `json:"err"`
	}
	if json.Unmarshal([]byte(line), &l) != nil || l.TS < 0 || l.TS > 1e14 {
		return nodereport.LogLine{}, false
	}
	text := l.Msg
	if l.Err != "" {
		text += " err=" + strconv.Quote(l.Err)
	}
	return nodereport.LogLine{At: time.UnixMicro(int64(l.TS * 1000)).UTC(), Message: text}, true
}

// journalLine reads a line of journalctl -o json. A text that is no UTF-8 comes as a list of bytes.
func journalLine(line []byte) (nodereport.LogLine, bool) {
	var l struct {
		At      string          `json:"__REALTIME_TIMESTAMP"` // microseconds
		Message json.RawMessage `json:"MESSAGE"`
	}
	if json.Unmarshal(line, &l) != nil {
		return nodereport.LogLine{}, false
	}
	micro, err := strconv.ParseInt(l.At, 10, 64)
	if err != nil {
		return nodereport.LogLine{}, false
	}
	var text string
	if json.Unmarshal(l.Message, &text) != nil {
		var bytes []byte
		var numbers []int
		if json.Unmarshal(l.Message, &numbers) != nil {
			return nodereport.LogLine{}, false
		}
		for _, n := range numbers {
			bytes = append(bytes, byte(n))
		}
		text = string(bytes)
	}
	if m := klogHead.FindStringIndex(text); m != nil {
		text = text[m[1]:]
	}
	return nodereport.LogLine{At: time.UnixMicro(micro).UTC(), Message: strings.TrimSpace(text)}, true
}

// stems: a line of the kubelet's without one of these names no volume. They spare most lines the parsing.
var stems = [][]byte{[]byte("olume"), []byte("csi"), []byte("lugin"), []byte("rphaned"), []byte("pvc-")}

func mayName(line []byte) bool {
	return slices.ContainsFunc(stems, func(s []byte) bool { return bytes.Contains(line, s) })
}

const (
	maxLines    = 100  // of a log in the report
	maxLineText = 2000 // bytes of one
	minName     = 6    // a shorter handle is in too many words
)

// naming keeps the newest lines that name one of the words; of equal texts, as the kubelet repeats them, the newest.
func naming(lines []nodereport.LogLine, words []string) []nodereport.LogLine {
	seen := map[string]bool{}
	var out []nodereport.LogLine
	for i := len(lines) - 1; i >= 0 && len(out) < maxLines; i-- {
		l := lines[i]
		if seen[l.Message] || !containsAny(l.Message, words) {
			continue
		}
		seen[l.Message] = true
		l.Message = maskText(cut(l.Message))
		out = append(out, l)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if len(w) >= minName && strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func cut(s string) string {
	if len(s) <= maxLineText {
		return s
	}
	return strings.ToValidUTF8(s[:maxLineText], "") + "..."
}
