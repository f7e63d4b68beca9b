package bundle

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// mask stands in place of what was taken out.
const mask = "***"

// Most texts of a cluster are the same few short ones, again and again: phases, policies, images, paths. Of each slot the last that had
// nothing to mask is known; two that meet in one slot are only slower.
var (
	known     [1 << 12]atomic.Pointer[string]
	knownSeed = maphash.MakeSeed()
)

const maxKnown = 128 // bytes; longer texts are rarely the same, and would be kept from the garbage

// RedactText masks what grants access in a text of a cluster or a node: keys, passwords, tokens, signatures, URLs with
// credentials, PEM blocks. What tells a fault stays: names (of secrets too), gRPC codes, paths, devices, mount options.
func RedactText(s string) string {
	if len(s) > maxKnown {
		return redactText(s)
	}
	slot := &known[maphash.String(knownSeed, s)%uint64(len(known))]
	if k := slot.Load(); k != nil && *k == s {
		return s
	}
	masked := redactText(s)
	if masked == s {
		clean := s // of its own, or each call would allocate
		slot.Store(&clean)
	}
	return masked
}

func redactText(s string) string {
	for {
		masked := maskPairs(maskTokens(s))
		if masked == s { // twice must give the same as once, and one mask can lay bare the next
			return s
		}
		s = masked
	}
}

// maxWeak bounds how far the value of a weak key is judged. Without it, key=key=key=... would take the square of its length.
const maxWeak = 128

// maskPairs masks the values of secret keys: password=x, "token": "x", --secret x, Authorization: Basic x.
func maskPairs(s string) string {
	if !containsAny(strings.ToLower(s), stems) {
		return s
	}
	var out strings.Builder
	done := 0
	for i := 1; i < len(s)-1; i++ {
		if s[i] != '=' && s[i] != ':' && s[i] != ' ' {
			continue
		}
		key, quoted := keyBefore(s[done:i], s[i])
		if key == "" {
			continue
		}
		how := classify(key)
		if how == plain {
			continue
		}
		start, end, inQuotes := valueAfter(s[:min(len(s), i+maxWeak)], i)
		if how == strong {
			start, end, inQuotes = valueAfter(s, i)
		}
		if start == end {
			continue
		}
		if strings.HasSuffix(squash(key), "authorization") && schemeWord(s[start:end]) {
			if rest := strings.TrimLeft(s[end:], " "); rest != "" {
				start = len(s) - len(rest)
				end = start + wordLength(rest)
			}
			how = strong
		}
		if start == end || how == weak && !weakValue(key, s[start:end], s[i], quoted && inQuotes, inQuotes) {
			continue
		}
		if how == weak {
			start, end, _ = valueAfter(s, i)
		}
		out.WriteString(s[done:start])
		out.WriteString(mask)
		done, i = end, end-1
	}
	if done == 0 {
		return s
	}
	return out.String() + s[done:]
}

// weakValue tells whether the value of a key that often is secret is to be masked, by how and where it is written.
func weakValue(key, value string, separator byte, asJSON, inQuotes bool) bool {
	if harmless(value) {
		return false
	}
	if looksSecret(value) {
		return true
	}
	switch {
	case separator == ':' && !asJSON: // prose: "cannot fetch token: timeout"
		return false
	case strings.HasSuffix(squash(key), "key"), strings.HasSuffix(squash(key), "keys"): // key="shop/data-0" of klog, {"key": "node-role"}
		return false
	case inQuotes: // secret="shop/credentials"
		return !isReference(key, value)
	}
	return true
}

// keyBefore gives the key that ends at the end of s, and whether it is in quotes. Before a space only a flag is one.
func keyBefore(s string, separator byte) (key string, quoted bool) {
	end := len(s)
	if separator != ' ' {
		for end > 0 && s[end-1] == ' ' {
			end--
		}
		for end > 0 && (s[end-1] == '"' || s[end-1] == '\'' || s[end-1] == '\\') {
			end--
			quoted = true
		}
	}
	start := end
	for start > 0 && keyByte(s[start-1]) {
		start--
	}
	key = s[start:end]
	switch {
	case quoted && strings.HasSuffix(strings.ToLower(strings.TrimRight(s[:start], `\'"`)), "secret "):
		return "", false // the name of a Secret, and what went wrong with it
	case separator != ' ':
		return key, quoted
	case key == "-v", key == "--value": // iscsiadm -n node.session.auth.password -v x
		before := strings.TrimRight(s[:start], " ")
		from := len(before)
		for from > 0 && keyByte(before[from-1]) {
			from--
		}
		return before[from:], false
	case strings.HasPrefix(key, "--"):
		return key, false
	}
	return "", false
}

func keyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// valueAfter gives the bounds of the value behind the separator at i, without its quotes. Nothing: a URL's //, a comparison's
// second =, an object or list, another flag.
func valueAfter(s string, i int) (start, end int, quoted bool) {
	start = i + 1
	if s[i] != '=' || s[i-1] == ' ' {
		for start < len(s) && s[start] == ' ' {
			start++
		}
	}
	rest := s[start:]
	switch {
	case rest == "",
		s[i] == ':' && (strings.HasPrefix(rest, "//") || strings.IndexByte(":{[(", rest[0]) >= 0),
		s[i] == '=' && rest[0] == '=',
		s[i] == ' ' && rest[0] == '-':
		return start, start, false
	}
	escaped := len(rest) - len(strings.TrimLeft(rest, `\`))
	if escaped == len(rest) || rest[escaped] != '"' && rest[escaped] != '\'' {
		return start, start + wordLength(rest), false
	}
	quote := rest[escaped]
	start += escaped + 1
	for end = start; end < len(s) && s[end] != quote; end++ {
		if s[end] == '\\' && escaped == 0 {
			end++
		}
	}
	end = min(end, len(s))
	return start, start + len(strings.TrimRight(s[start:end], `\`)), true
}

func wordLength(s string) int {
	if n := strings.IndexAny(s, " \t\r\n,;&\"'`)]}<>|\\"); n >= 0 {
		return n
	}
	return len(s)
}

// schemeWord tells whether a value is only the scheme of the credentials behind it.
func schemeWord(s string) bool {
	switch strings.ToLower(s) {
	case "bearer", "basic", "digest", "negotiate", "token":
		return true
	}
	return false
}

// class is how likely the value of a key is a secret.
type class int

const (
	plain  class = iota
	weak         // secret, token, key, ...: names and paths stand there too
	strong       // password and the like
)

// stems: every key that is not plain has one of them. Nearly no text does, which makes this fast.
var stems = []string{"auth", "connection", "cookie", "cred", "key", "pass", "pw", "sas", "secret", "sig", "token"}

var (
	secretIDs   = []string{"accesskeyid", "secretid"}
	nameEndings = []string{"name", "names", "namespace", "ref", "refs", "file", "files", "path", "paths", "dir", "class", "type", "provider",
		"policy", "id", "ids", "mode", "enabled", "required", "size", "length", "seconds", "timeout", "url", "uri", "endpoint", "endpoints",
		"version", "count", "requests", "audience", "audiences", "algorithm", "cipher", "rotation", "interval", "expiry", "expiration", "template"}
	strongParts = []string{"password", "passwd", "passphrase", "secretkey", "accesskey", "accountkey", "apikey", "privatekey", "userkey", "adminkey",
		"storagekey", "sharedkey", "authkey", "keydata", "encryptionkey", "signingkey", "masterkey", "clientsecret", "appsecret", "sharedsecret", "chapsecret", "initiatorsecret", "targetsecret",
		"secretvalue", "secretstring", "accesstoken", "authtoken", "refreshtoken", "sessiontoken", "securitytoken", "bearertoken", "idtoken",
		"apitoken", "sastoken", "connectionstring", "sharedaccesssignature", "amzsignature", "amzcredential", "googsignature"}
	weakEndings = []string{"secret", "secrets", "token", "tokens", "key", "keys", "cred", "creds", "credential", "credentials", "signature", "pass",
		"pwd", "cookie", "authorization"}
	weakWords = []string{"sig", "sas", "auth", "pw"}
)

// classify judges a key by its letters: secretAccessKey, secret_access_key and my.secret-access-key are one.
func classify(key string) class {
	if len(key) < 2 {
		return plain
	}
	k := squash(key)
	switch {
	case !containsAny(k, stems):
		return plain
	case containsAny(k, secretIDs):
		return strong
	case endsInAny(k, nameEndings):
		return plain
	case containsAny(k, strongParts):
		return strong
	case endsInAny(k, weakEndings):
		return weak
	}
	for _, w := range weakWords {
		if k == w {
			return weak
		}
	}
	return plain
}

// squash gives the lower-case letters and digits of a key's last segment.
func squash(key string) string {
	key = key[strings.LastIndexByte(key, '/')+1:]
	clean := make([]byte, 0, 64)
	for i := range len(key) {
		switch c := key[i]; {
		case c >= 'A' && c <= 'Z':
			clean = append(clean, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			clean = append(clean, c)
		}
	}
	return string(clean)
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

func endsInAny(s string, endings []string) bool {
	for _, e := range endings {
		if strings.HasSuffix(s, e) {
			return true
		}
	}
	return false
}

// harmless tells whether a value can be no secret, whatever its key: a switch, an amount, a path, a UUID, a reference to a variable.
func harmless(v string) bool {
	switch strings.ToLower(v) {
	case "", mask, "true", "false", "yes", "no", "on", "off", "none", "null", "nil", "default", "hidden", "redacted", "stripped":
		return true
	}
	switch {
	case strings.HasPrefix(v, mask), strings.HasPrefix(v, "<") && strings.IndexAny(v, "> ") == len(v)-1: // ***stripped***, <nil>: masked by others
		return true
	case strings.HasPrefix(v, "$(") && strings.HasSuffix(v, ")"), strings.HasPrefix(v, "${") && strings.HasSuffix(v, "}"):
		return true
	}
	return isAmount(v) || isPath(v) || isUUID(v)
}

// isAmount: 5, 0.5, 100Gi, 3000m, 2m30s.
func isAmount(v string) bool {
	if _, err := time.ParseDuration(v); err == nil {
		return true
	}
	number := strings.TrimLeft(strings.TrimPrefix(v, "-"), "0123456789.")
	return len(v)-len(number) > 0 && len(v) <= 20 && len(number) <= 3 && strings.Trim(number, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%") == ""
}

// roots of paths on nodes and in containers. A base64 text can begin with a slash too, so a slash alone is not enough.
var roots = []string{"/bin/", "/config/", "/csi", "/dev/", "/etc/", "/home/", "/host", "/lib/", "/mnt/", "/opt/", "/plugin", "/proc/", "/registration", "/root/",
	"/run/", "/sbin/", "/sys/", "/tmp/", "/usr/", "/var/"}

func isPath(v string) bool {
	v = strings.TrimPrefix(strings.TrimPrefix(v, "unix:"), "//")
	if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "=+ ") {
		return false
	}
	for _, r := range roots {
		if strings.HasPrefix(v, r) {
			return true
		}
	}
	return false
}

func isUUID(v string) bool {
	v = strings.TrimPrefix(v, "pvc-") // as provisioners name volumes
	if len(v) != 36 {
		return false
	}
	for i := range len(v) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (v[i] == '-') || !dash && !isHex(v[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// isReference tells whether a value may be the name of a Secret, not what is in it: credentialSecret: backup-s3.
func isReference(key, value string) bool {
	return endsInAny(squash(key), []string{"secret", "secrets", "credential", "credentials", "creds", "key", "keys", "auth"}) && nameLike(value)
}

// nameLike tells whether a value may be the name of an object, perhaps with its namespace.
func nameLike(v string) bool {
	if looksSecret(v) {
		return false
	}
	namespace, name, both := strings.Cut(v, "/")
	if !both {
		name = namespace
	}
	return len(validation.IsDNS1123Subdomain(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// looksSecret tells whether a value has the shape of a generated secret: long, of one piece, and mixed or padded or hexadecimal.
func looksSecret(v string) bool {
	if len(v) < 16 {
		return false
	}
	var upper, lower, digit, hex int
	for i := range len(v) {
		switch c := v[i]; {
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= '0' && c <= '9':
			digit++
		case !strings.ContainsRune("+/=_-.~", rune(c)):
			return false
		}
		if isHex(v[i]) {
			hex++
		}
	}
	return upper > 0 && lower > 0 && digit > 0 || strings.HasSuffix(v, "=") || len(v) >= 32 && hex == len(v)
}
