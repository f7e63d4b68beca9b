package explain

import (
	"slices"
	"strings"
	"unicode"
)

// kubectl builds a command to paste: every word quoted for POSIX sh, the user's own --context and --kubeconfig repeated.
func (w *world) command(words ...string) string {
	all := append([]string{"kubectl"}, w.kubectl...)
	return Shell(append(all, words...)...)
}

// Shell quotes words for POSIX sh, on one line: control characters, which no name of Kubernetes has, become "?".
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"

func quote(word string) string {
	word = harmless(word)
	if word != "" && strings.Trim(word, plain) == "" && word[0] != '=' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// flags are those of the commands that are printed. A name that begins with a dash, which no API server takes, could
// otherwise turn "delete pod NAME" into "delete pod --all".
var flags = strings.Fields(`-A -C -F -b -c -czf -e -eo -g -l -ll -n -o -p -u -vm -vz -w --all-containers --as --at --context --ctime --field-selector --from
	--kubeconfig --level --overwrite --previous --show-labels --show-managed-fields --since --subresource --tail --type --watch`)

// harmless replaces what no name of Kubernetes has and a terminal, a shell or kubectl could act on.
func harmless(word string) string {
	if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(word, "-") && !slices.Contains(flags, name) {
		word = "?" + word[1:]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, word)
}

// look is a step that only shows something.
func (w *world) look(text string, words ...string) Step {
	return Step{Text: text, Command: w.command(words...), Danger: DangerNone}
}

// say is a step without a command.
func say(text string) Step { return Step{Text: text, Danger: DangerNone} }

// act is a step that can hurt: only behind a step that shows whether its condition holds.
func (w *world) act(danger Danger, unless, text string, words ...string) Step {
	return Step{Text: text, Command: w.command(words...), Danger: danger, Unless: unless}
}

// hazard is an act that no one command does.
func hazard(danger Danger, unless, text string) Step {
	return Step{Text: text, Danger: danger, Unless: unless}
}

// onNode is a command for the node's shell, said with the node's name.
func onNode(node, text string, words ...string) Step {
	return Step{Text: "On node " + node + ": " + text, Command: Shell(words...), Danger: DangerNone}
}
