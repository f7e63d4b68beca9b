package probe

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// drivers asks every registration and plugin socket below the kubelet's root; below the usual roots too, where a driver that
// was installed for another root puts its own.
func (p *prober) drivers() {
	var mu sync.Mutex
	var wg sync.WaitGroup
	roots := []string{p.root}
	for _, usual := range usualRoots {
		wg.Go(func() {
			if r, err := ask(p.ctx, p.w, opRoot, usual, p.patience); err == nil && r.Real != "" && r.Used {
				mu.Lock()
				defer mu.Unlock()
				roots = append(roots, r.Real)
			}
		})
	}
	wg.Wait()
	slices.Sort(roots)
	var registrars []registrar
	plugins := map[string]bool{} // sockets to ask
	for _, root := range slices.Compact(roots) {
		if root == "" {
			continue
		}
		found, err := visit(p, root, opSockets, socketsArg{root, p.avoid(root)}, p.patience)
		p.gaps.add("sockets below "+root, err)
		for _, socket := range found.Plugins {
			plugins[socket] = true
		}
		for _, socket := range found.Registry {
			wg.Go(func() {
				r, err := visit(p, socket, opRegistrar, dialArg{socket, p.patience}, 4*p.patience)
				if err != nil {
					r.Socket = unanswered(socket, err)
				}
				mu.Lock()
				defer mu.Unlock()
				registrars = append(registrars, r)
			})
		}
	}
	wg.Wait()
	for _, r := range registrars {
		if r.Endpoint != "" && r.Type == csiPlugin {
			plugins[path.Clean(r.Endpoint)] = true
		}
	}
	answers := map[string]plugin{}
	for socket := range plugins {
		wg.Go(func() {
			a, err := visit(p, socket, opPlugin, dialArg{socket, p.patience}, 4*p.patience)
			if err != nil {
				a.Socket = unanswered(socket, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[socket] = a
		})
	}
	wg.Wait()
	p.report.Drivers = assemble(p.root, registrars, answers)
}

// csiPlugin is the type that a CSI driver registers as (k8s.io/kubelet/pkg/apis/pluginregistration/v1, CSIPlugin).
const csiPlugin = "CSIPlugin"

// avoid are mounts below a root of which somebody else is the server: no look for sockets goes there.
func (p *prober) avoid(root string) []string {
	var out []string
	for _, m := range p.mounts.table {
		if remote(m.FSType) && (below(m.Mountpoint, root+"/plugins") || below(m.Mountpoint, root+"/plugins_registry")) {
			out = append(out, m.Mountpoint)
		}
	}
	return out
}

// unanswered is a socket that the worker could not tell about.
func unanswered(path string, err error) nodereport.Socket {
	return nodereport.Socket{Path: path, State: nodereport.SocketTimeout, Error: err.Error()}
}

// assemble brings registrations and plugin sockets together, by the endpoint that was registered.
func assemble(root string, registrars []registrar, answers map[string]plugin) []nodereport.Driver {
	var out []nodereport.Driver
	used := map[string]bool{}
	for _, r := range registrars {
		if r.Type != "" && r.Type != csiPlugin {
			continue // a device plugin
		}
		d := nodereport.Driver{Name: r.Name, Registration: &nodereport.Registration{Path: r.Socket.Path, State: r.Socket.State, Endpoint: r.Endpoint, Error: r.Socket.Error}}
		if r.Endpoint != "" {
			endpoint := path.Clean(r.Endpoint)
			used[endpoint] = true
			a := answers[endpoint]
			d.Socket, d.Identity, d.Node = &a.Socket, a.Identity, a.Node
		}
		if d.Name == "" {
			d.Name = nameOfSocket(r.Socket.Path)
		}
		out = append(out, d)
	}
	for socket, a := range answers {
		if used[socket] {
			continue
		}
		d := nodereport.Driver{Socket: &a.Socket, Identity: a.Identity, Node: a.Node}
		switch {
		case a.Identity != nil:
			d.Name = a.Identity.Name
		case strings.HasPrefix(path.Base(socket), "csi") && a.Socket.Error != "" && a.Socket.State != nodereport.SocketOK:
			d.Name = nameOfSocket(socket)
		default:
			continue // another program's
		}
		// A registrar that does not answer may be this driver's.
		if i := slices.IndexFunc(out, func(o nodereport.Driver) bool { return o.Name == d.Name && o.Socket == nil }); i >= 0 {
			out[i].Socket, out[i].Identity, out[i].Node = d.Socket, d.Identity, d.Node
			continue
		}
		// node-driver-registrar names its socket so; under another name it would have been found, and named the driver.
		d.Registration = &nodereport.Registration{Path: root + "/plugins_registry/" + d.Name + "-reg.sock", State: nodereport.SocketMissing}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b nodereport.Driver) int {
		return compare(a.Name, b.Name, registered(a), registered(b), socketOf(a), socketOf(b))
	})
	return out
}

func registered(d nodereport.Driver) string {
	if d.Registration == nil {
		return ""
	}
	return d.Registration.Path
}

func socketOf(d nodereport.Driver) string {
	if d.Socket == nil {
		return ""
	}
	return d.Socket.Path
}

// nameOfSocket guesses the driver of a socket that does not say: <driver>-reg.sock, <driver>/csi.sock.
func nameOfSocket(p string) string {
	if name, ok := strings.CutSuffix(path.Base(p), "-reg.sock"); ok {
		return name
	}
	if dir := path.Base(path.Dir(p)); dir != "plugins" && dir != "plugins_registry" {
		return dir
	}
	return strings.TrimSuffix(path.Base(p), ".sock")
}

// devices reads what sysfs, /dev and the devices themselves tell.
func (p *prober) devices() {
	found, err := ask(p.ctx, p.w, opDevices, struct{}{}, 6*p.patience) // thousands of small files
	p.gaps.add("block devices below /sys", err)
	p.gaps.put(found.Gaps...)
	all := found.Devices
	known := map[string]bool{}
	for _, d := range all {
		known[d.MajorMinor] = true
	}
	unknown := p.namespaces // what is mounted and sysfs does not list: removed
	if err != nil {
		unknown = nil // it was not read, so nothing is known to lack
	}
	for _, ns := range unknown {
		for _, m := range ns.table {
			if m.Anonymous() || known[m.Device()] {
				continue
			}
			known[m.Device()] = true
			d, err := ask(p.ctx, p.w, opDevice, m.Device(), p.patience)
			p.gaps.add("block device "+m.Device(), err)
			if d.MajorMinor != "" {
				if d.Name == "" {
					d.Name = path.Base(m.Source)
				}
				all = append(all, d)
			}
		}
	}
	var wg sync.WaitGroup
	for i := range all {
		if d := &all[i]; !d.Removed && d.Bytes > 0 && d.State != "suspended" {
			wg.Go(func() { p.inspect(d) })
		}
	}
	wg.Wait()
	markMembers(all)
	slices.SortFunc(all, func(a, b nodereport.Device) int { return compare(a.Name, b.Name, a.MajorMinor, b.MajorMinor) })
	p.report.Devices, p.report.DeadLinks = all, found.DeadLinks
}

func (p *prober) inspect(d *nodereport.Device) {
	s, err := ask(p.ctx, p.w, opInspect, inspectArg{d.Name, d.MajorMinor, p.report.Kernel.Release}, 5*p.patience) // some megabytes, of a disk that may be busy
	switch {
	case errors.Is(err, errHung):
		d.Signature = &nodereport.Signature{Type: "unknown", Error: "hung"}
	case err != nil:
		p.gaps.add("/dev/"+d.Name, err)
	default:
		d.Signature = &s
	}
}
