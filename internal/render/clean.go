package render

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sgr is the one escape sequence that is dropped instead of shown: logs are full of it, and it hides nothing.
var sgr = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// Clean makes text from a cluster harmless for a terminal and a log: one line, nothing invisible. White space becomes a
// blank; a control, format (bidi, zero-width), unassigned or private character is spelled out, so that a name that only
// looks like another one does not; what is no UTF-8 becomes U+FFFD. Colours are dropped. Cleaning twice changes nothing.
func Clean(s string) string {
	if strings.IndexFunc(s, unclean) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range sgr.ReplaceAllString(s, "") {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case visible(r):
			b.WriteRune(r)
		case unicode.Is(unicode.Variation_Selector, r): // only picks a glyph
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unclean counts U+FFFD too, for a broken byte reads as one.
func unclean(r rune) bool { return !visible(r) || r == utf8.RuneError }

// visible: a mark on the screen or the ASCII blank. Fillers and selectors count as letters and marks, and show nothing.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
