// Package probe is the node side: it fills a NodeReport with what a volume depends on there. Sockets, the kubelet's folders,
// mounts of every namespace, devices, kernel and kubelet lines, tasks that hang.
//
// It never hangs with its patient: the mount tables are read first, and whatever could block is done by a child process that
// can be given up (see worker). It changes nothing: files and devices are opened for reading, sockets get only calls that
// read, nothing is mounted, made or removed. It judges nothing and knows no Kubernetes API.
package probe

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Timeout is how long a probe takes at most, unless told otherwise.
const Timeout = 10 * time.Second

// Options are what a probe can be told. The zero value probes the whole node.
type Options struct {
	Volume  string        // only this volume, by its handle or its PV's name
	Pod     string        // only this pod, by its UID
	Node    string        // the Node object's name; empty: the kubelet's flags, its files, then the host's name tell
	Timeout time.Duration // 0: Timeout
	Proc    string        // the /proc to look at; empty: /proc, or the host's below /host (kubectl debug) where that one has the kubelet
}

// gaps collects what could not be read, from all sides at once.
type gaps struct {
	mu  sync.Mutex
	all []nodereport.Gap
}

func (g *gaps) add(what string, err error) {
	if err != nil {
		g.put(nodereport.Gap{What: what, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
}

func (g *gaps) put(more ...nodereport.Gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, more...)
}

// sorted gives each gap once. Of many with one reason and kind, such as a node's 250 hung paths, all are named: they are facts.
func (g *gaps) sorted() []nodereport.Gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := slices.Clone(g.all)
	slices.SortFunc(out, func(a, b nodereport.Gap) int {
		return compare(a.What, b.What, a.Reason, b.Reason)
	})
	return slices.Compact(out)
}

// compare orders by pairs of texts, the first that differs decides.
func compare(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		switch {
		case pairs[i] < pairs[i+1]:
			return -1
		case pairs[i] > pairs[i+1]:
			return 1
		}
	}
	return 0
}

// scoped: a volume or pod is inside what was asked for.
func (o Options) scoped(handle, pv string, pods ...string) bool {
	if o.Volume != "" && o.Volume != handle && o.Volume != pv {
		return false
	}
	return o.Pod == "" || slices.Contains(pods, o.Pod)
}

func (o Options) whole() bool { return o.Volume == "" && o.Pod == "" }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3gs", d.Seconds()) }
