package probe

import (
	"regexp"
	"strings"
)

// A report may be carried about before a bundle masks it, so what a program was told as a secret is masked here already: in
// arguments and in lines of logs. It masks by the key; a bundle also knows secrets by their shape.
var (
	secretPair = regexp.MustCompile(`(?i)([\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credentials?|api-?key|access-?key|account-?key|user-?key|private-?key|(?:^|[\s,;"'-])key|(?:^|[\s,;"'-])pass|(?:^|[\s,;"'-])pwd)["']?\s*[=:]\s*["']?)([^\s,;"'&]+)`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(?:passw(?:or)?d|passphrase|secret|token|credentials?|-key|^--?key|^--?pass)$`)
	userInfo   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"']+@`)
	chapName   = regexp.MustCompile(`(?i)password`)
)

const masked = "***"

// maskText masks the values of secret keys and the credentials in URLs. A path is no secret: it says where one is.
func maskText(s string) string {
	s = userInfo.ReplaceAllString(s, "${1}"+masked+"@")
	return secretPair.ReplaceAllStringFunc(s, func(m string) string {
		parts := secretPair.FindStringSubmatch(m)
		if strings.HasPrefix(parts[2], "/") || strings.HasPrefix(parts[2], masked) || strings.HasPrefix(parts[2], "<") {
			return m
		}
		return parts[1] + masked
	})
}

// maskArgs joins a program's arguments, masked. iscsiadm -n node.session.auth.password -v SECRET has the value behind -v.
func maskArgs(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		switch {
		case i > 0 && secretFlag.MatchString(args[i-1]) && !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, "-"),
			i > 1 && (args[i-1] == "-v" || args[i-1] == "--value") && chapName.MatchString(args[i-2]):
			out[i] = masked
		default:
			out[i] = maskText(a)
		}
	}
	return strings.Join(out, " ")
}
