package bundle

import (
	"regexp"
	"strings"
	"sync"
)

// token is a secret that is known by its own shape, wherever it stands.
type token struct {
	guards []string // literals of which one must be there; they spare nearly all texts the regular expression
	re     func() *regexp.Regexp
	with   func(match string) string
}

var tokens = []token{
	{[]string{"-----BEGIN "}, pattern(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----`), wholly},
	{[]string{"-----BEGIN "}, pattern(`-----BEGIN [A-Z0-9 ]+-----(?:\s*[\w-]+: [^\n]*\n)*[A-Za-z0-9+/=\s\\]*`), wholly}, // cut off before its end
	{[]string{"eyJ"}, pattern(`\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?`), wholly},                                        // JWT
	{[]string{"AKIA", "ASIA"}, pattern(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), wholly},                                        // AWS access key ids
	{[]string{"AQ"}, pattern(`\bAQ[A-Za-z0-9+/]{36}==`), wholly},                                                        // CephX keys
	{[]string{"=="}, pattern(`\b[A-Za-z0-9+/]{86}==`), wholly},                                                          // Azure account keys
	{[]string{"gh", "glpat-", "dop_v1_", "hvs.", "ya29.", "AIza"},
		pattern(`\b(?:gh[opusr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|dop_v1_[0-9a-f]{64}|hvs\.[\w-]{20,}|ya29\.[\w-]{20,}|AIza[\w-]{35})`), wholly},
	{[]string{"earer "}, pattern(`\b[Bb]earer +[\w.~+/=-]{16,}`), func(m string) string {
		if strings.ContainsAny(m, "0123456789") { // else it is prose
			return m[:len("bearer ")] + mask
		}
		return m
	}},
	{[]string{"://"}, pattern(`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/"'\\<>]+@(?:sha256:)?`), func(m string) string {
		if strings.HasSuffix(m, "@sha256:") { // docker-pullable://image@sha256:... holds no credentials
			return m
		}
		return m[:strings.Index(m, "://")+len("://")] + mask + "@"
	}},
	{[]string{"DHHC-1:"}, pattern(`\bDHHC-1:\d\d:[A-Za-z0-9+/=]+:?`), wholly}, // NVMe's DH-HMAC-CHAP
	{[]string{"value"}, namedValue, func(m string) string { // of CSI requests as gRPC prints them, and of JSON
		return maskNamed(namedValue().FindStringSubmatch(m))
	}},
	{[]string{"</"}, element, func(m string) string { // of ONTAP and vSphere
		return maskNamed(element().FindStringSubmatch(m))
	}},
	{[]string{":["}, header, func(m string) string { // http.Header as Go prints it
		p := header().FindStringSubmatch(m)
		if k := squash(p[2]); p[3] != "" && (classify(p[2]) == strong || strings.HasSuffix(k, "authorization") || strings.HasSuffix(k, "cookie")) {
			return p[1] + mask + "]"
		}
		return m
	}},
	{[]string{"ookie:"}, pattern(`\b(?:[Ss]et-)?[Cc]ookie: *[^\r\n"'\[\]]+`), func(m string) string {
		return m[:strings.IndexByte(m, ':')+1] + " " + mask
	}},
	{[]string{"-u ", "-u=", "-user"}, userPassword, func(m string) string { // curl -u user:password
		if p := userPassword().FindStringSubmatch(m); !harmless(p[2]) {
			return p[1] + mask
		}
		return m
	}},
}

var (
	namedValue   = pattern(`(\b(?:key|name)\\*"?: *\\*"([^"\\]+)\\*",? *\\*"?value\\*"?: *\\*")([^"\\]+)`)
	element      = pattern(`(<([A-Za-z][\w:.-]*)>)([^<>]+)`)
	header       = pattern(`(\b([A-Za-z][A-Za-z-]*):\[)([^\]]*)\]`)
	userPassword = pattern(`((?:^|\s)(?:-u|--user|--proxy-user)[ =]["']?[^\s:"']+:)([^\s"']+)`)
)

// maskNamed masks the last of: all before the value, the value's name, the value.
func maskNamed(parts []string) string {
	if how := classify(parts[2]); how == strong || how == weak && looksSecret(parts[3]) {
		return parts[1] + mask
	}
	return parts[1] + parts[3]
}

func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func wholly(string) string { return mask }

func maskTokens(s string) string {
	for _, t := range tokens {
		for _, g := range t.guards {
			if strings.Contains(s, g) {
				s = t.re().ReplaceAllStringFunc(s, t.with)
				break
			}
		}
	}
	return s
}
