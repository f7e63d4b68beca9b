package render_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/render"
)

func TestOptionsForTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminals: ", err)
	}
	defer terminal.Close()
	for _, c := range []struct {
		columns     uint16
		color       string
		env         map[string]string
		wantWidth   int
		wantColored bool
	}{
		{72, "auto", map[string]string{"TERM": "xterm"}, 72, true},
		{20, "auto", map[string]string{"NO_COLOR": "no"}, 60, false},
		{180, "auto", map[string]string{"TERM": "dumb"}, 100, false},
		{100, "always", map[string]string{"NO_COLOR": "1", "TERM": "dumb"}, 100, true},
		{100, "never", nil, 100, false},
	} {
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: c.columns}); err != nil {
			t.Fatal(err)
		}
		o, err := render.OptionsFor(terminal, c.color, func(name string) string { return c.env[name] })
		if err != nil || o.Width != c.wantWidth || o.Color != c.wantColored || o.Terminal != int(c.columns) {
			t.Errorf("%+v: got %+v, %v", c, o, err)
		}
	}
}
