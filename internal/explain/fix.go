package explain

import "strings"

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
	word = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, word)
	if word != "" && strings.Trim(word, plain) == "" && word[0] != '-' && word[0] != '=' || flag(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// flag: a word of ours that begins with a dash. Names from a cluster never do, those that pretend to are quoted and stand
// behind "--" or in a flag's value.
func flag(word string) bool {
	return len(word) > 1 && word[0] == '-' && strings.Trim(word, plain) == ""
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

// onNode is a command for the node's shell, said with the node's name.
func onNode(node, text string, words ...string) Step {
	return Step{Text: "On node " + node + ": " + text, Command: Shell(words...), Danger: DangerNone}
}
