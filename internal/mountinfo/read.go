package mountinfo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// attempts bounds how often a table that changes while it is read is read again.
const attempts = 8

// ErrUnsteady is a table that changed during every attempt to read it; what was read last may lack lines.
var ErrUnsteady = errors.New("it changed each time it was read")

// changer is a file that knows whether the table has changed since it was opened. Only the kernel's own has it.
type changer interface{ Changed() (bool, error) }

// Read gives the mount table of a process, read without a change in between: the kernel hands it out page by page, and a
// mount that comes or goes between two pages may show twice or not at all.
func Read(proc fs.FS, pid int) (string, error) {
	name := strconv.Itoa(pid) + "/mountinfo"
	before := ""
	for i := 0; ; i++ {
		text, steady, err := readTable(proc, name)
		switch {
		case err != nil:
			return "", err
		case steady, i > 0 && text == before:
			return text, nil
		case i == attempts:
			return text, fmt.Errorf("%s: %w", name, ErrUnsteady)
		}
		before = text
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func readTable(proc fs.FS, name string) (text string, steady bool, err error) {
	f, err := proc.Open(name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	if _, err := b.ReadFrom(f); err != nil {
		return "", false, err
	}
	if c, ok := f.(changer); ok {
		changed, err := c.Changed()
		return b.String(), !changed && err == nil, nil
	}
	return b.String(), false, nil
}

// Namespace is one mount namespace: who lives in it, and its table. Unread: why there is no table, or none that can be relied on.
type Namespace struct {
	Inode     uint64
	Processes []*Process
	Text      string
	Unread    error
}

// Namespaces reads every mount namespace that a process is in, once, however many share it; in the order of their oldest
// process. A process that ends meanwhile leaves the reading to the next one.
func Namespaces(proc fs.FS, all []Process) []*Namespace {
	byInode := map[uint64]*Namespace{}
	var out []*Namespace
	for i := range all {
		p := &all[i]
		if p.Namespace == 0 || p.Kernel {
			continue
		}
		ns := byInode[p.Namespace]
		if ns == nil {
			ns = &Namespace{Inode: p.Namespace}
			byInode[p.Namespace] = ns
			out = append(out, ns)
		}
		ns.Processes = append(ns.Processes, p)
	}
	for _, ns := range out {
		slices.SortStableFunc(ns.Processes, func(a, b *Process) int { return a.PID - b.PID })
		for _, p := range ns.Processes {
			ns.Text, ns.Unread = Read(proc, p.PID)
			// The number may be another process by now: then the table is another namespace's.
			if ns.Unread == nil && namespaceOf(proc, p.PID) != ns.Inode {
				ns.Text, ns.Unread = "", fs.ErrNotExist
			}
			if ns.Unread == nil || errors.Is(ns.Unread, ErrUnsteady) || errors.Is(ns.Unread, fs.ErrPermission) {
				break
			}
		}
	}
	return slices.DeleteFunc(out, func(ns *Namespace) bool { return errors.Is(ns.Unread, fs.ErrNotExist) || gone(ns.Unread) })
}

// Gap is the namespace as something that could not be read; false: it was.
func (n *Namespace) Gap() (nodereport.Gap, bool) {
	if n.Unread == nil {
		return nodereport.Gap{}, false
	}
	return nodereport.Gap{What: fmt.Sprintf("mount namespace %d", n.Inode), Reason: n.Unread.Error()}, true
}
