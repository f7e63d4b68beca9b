package render

import (
	"fmt"
	"os"
	"time"

	"github.com/muesli/termenv"
	"golang.org/x/term"
)

// The width at which prose wraps: narrower is unreadable, wider is tiring, and a pipe (a ticket, a chat) gets the widest.
const (
	minWidth = 60
	maxWidth = 100
)

// Options say how an answer is printed as text.
type Options struct {
	Width    int       // prose wraps here; 0: 100
	Terminal int       // columns of the terminal, at which a table's last column is cut; 0: no terminal, nothing is cut
	Color    bool      // 16 colours, which follow the user's theme; without them nothing is lost but the colours
	Wide     bool      // also the object of each hop, the age of what is ok, the evidence of every finding
	Docs     bool      // end with the command that explains the cause
	Now      time.Time // by which ages are told; zero: when the answer's facts were read
	Clock    time.Time // the reader's time, to say how old the facts are; zero: not said
}

// OptionsFor fits the text to where it goes. color is auto, always or never; env is os.Getenv.
func OptionsFor(out *os.File, color string, env func(string) string) (Options, error) {
	o := Options{Width: maxWidth, Docs: true}
	if columns, _, err := term.GetSize(int(out.Fd())); err == nil && columns > 0 {
		o.Terminal = columns
		o.Width = min(max(columns, minWidth), maxWidth)
	}
	switch color {
	case "auto":
		o.Color = term.IsTerminal(int(out.Fd())) && env("NO_COLOR") == "" && env("TERM") != "dumb"
	case "always":
		o.Color = true
	case "never":
	default:
		return Options{}, fmt.Errorf("color %q is none of auto, always, never", color)
	}
	if o.Color { // on Windows colours have to be switched on; elsewhere, or when it fails, nothing happens
		_, _ = termenv.EnableVirtualTerminalProcessing(termenv.NewOutput(out, termenv.WithProfile(termenv.ANSI)))
	}
	return o, nil
}
