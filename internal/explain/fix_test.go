package explain

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// hostile are names as a hostile cluster could send them: the API server allows none of these, files may hold anything.
var hostile = []string{
	"plain-name.example", "", "two words", "$(touch owned)", "`touch owned`", "a;b", "a&b", "a|b", "a>b", "a'b", `a"b`, `a\b`, "*", "~", "#x",
	"a\nb", "a\x00b", "a\x1b[31mb", "-rf", "--all", "=x", "ключ", "{a,b}", "!x", "a\u202eb", "%s", "a\tb", "a\rb", "'; touch owned; '",
}

// FuzzShell: whatever stands in a word, a POSIX shell reads the same words back, on one line, and runs nothing.
func FuzzShell(f *testing.F) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Skip("no sh to ask")
	}
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		words := []string{"get", "pvc", name, "-n", name}
		line := Shell(words...)
		if strings.ContainsAny(line, "\n\r\x00\x1b") {
			t.Fatalf("%q is not one harmless line", line)
		}
		if out, err := exec.Command(sh, "-n", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("sh does not take %q: %v %s", line, err, out)
		}
		// The shell itself splits the words; each is ended by a byte that a word cannot hold.
		out, err := exec.Command(sh, "-c", `printf '%s\001' `+line).Output()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\x01"), "\x01")
		for i := range words {
			words[i] = harmless(words[i])
		}
		if !slices.Equal(got, words) {
			t.Fatalf("%q became %q", words, got)
		}
	})
}
