package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// csiFolders are what lies below the kubelet's root, as it was read.
type csiFolders struct {
	mu     sync.Mutex
	staged map[string][]stagingFolder // by driver; pv: of a kubelet before 1.24
	blocks []blockFolder
	pods   map[string]podFolder // by UID
}

const oldStaging = "pv" // kubernetes.io/csi/pv/<name of the PV>/globalmount

// volumes reads the CSI folders and then looks at the paths in them.
func (p *prober) volumes() {
	if p.root == "" {
		return
	}
	f := p.readFolders()
	p.podFolders = f.pods
	all := p.merge(f)
	all = slices.DeleteFunc(all, func(v *nodereport.Volume) bool {
		var pods []string
		for _, pub := range v.Publishes {
			pods = append(pods, pub.PodUID)
		}
		return !p.scoped(v.Handle, v.PV, pods...)
	})
	var wg sync.WaitGroup
	for _, v := range all {
		if p.Pod != "" {
			v.Publishes = slices.DeleteFunc(v.Publishes, func(pub nodereport.Publish) bool { return pub.PodUID != p.Pod })
		}
		wg.Go(func() { p.lookAt(v) })
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b *nodereport.Volume) int {
		return compare(a.Driver, b.Driver, a.Handle, b.Handle, a.PV, b.PV, stagingOf(a), stagingOf(b))
	})
	for _, v := range all {
		p.report.Volumes = append(p.report.Volumes, *v)
	}
}

func stagingOf(v *nodereport.Volume) string {
	if v.Staging == nil {
		return ""
	}
	return v.Staging.Path
}

func (p *prober) readFolders() *csiFolders {
	f := &csiFolders{staged: map[string][]stagingFolder{}, pods: map[string]podFolder{}}
	csi := p.root + "/plugins/kubernetes.io/csi"
	pods := p.root + "/pods"
	var wg sync.WaitGroup
	wg.Go(func() {
		names, err := visit(p, csi, opNames, csi, p.patience)
		p.gaps.add(csi, err)
		for _, name := range names {
			wg.Go(func() {
				dir := path.Join(csi, name)
				if name == "volumeDevices" {
					blocks, err := visit(p, dir, opBlocks, dir, 2*p.patience)
					p.gaps.add(dir, err)
					f.blocks = blocks // nobody else writes it
					return
				}
				staged, err := visit(p, dir, opStaging, dir, 2*p.patience)
				p.gaps.add(dir, err)
				f.mu.Lock()
				defer f.mu.Unlock()
				f.staged[name] = staged
			})
		}
	})
	wg.Go(func() {
		names, err := visit(p, pods, opNames, pods, p.patience)
		p.gaps.add(pods, err)
		for _, uid := range names {
			wg.Go(func() {
				dir := path.Join(pods, uid)
				pod, err := visit(p, dir, opPod, dir, p.patience)
				p.gaps.add(dir, err)
				f.mu.Lock()
				defer f.mu.Unlock()
				f.pods[uid] = pod
			})
		}
	})
	wg.Wait()
	return f
}

// merge brings together what belongs to one volume: by driver and handle, or by the PV's name where a file is missing.
func (p *prober) merge(f *csiFolders) []*nodereport.Volume {
	m := merger{p: p, byKey: map[string]*nodereport.Volume{}, byHash: map[string]*nodereport.Volume{}}
	for uid, pod := range f.pods {
		for _, folder := range pod.Volumes {
			dir := path.Join(p.root, "pods", uid, "volumes/kubernetes.io~csi", folder.Name)
			m.publish(folder.VolData, folder.Name, nodereport.Publish{PodUID: uid, Path: dir + "/mount", Exists: folder.Mount})
		}
	}
	devices := p.root + "/plugins/kubernetes.io/csi/volumeDevices"
	for _, b := range f.blocks {
		for _, uid := range b.Pods {
			m.publish(b.VolData, b.Name, nodereport.Publish{PodUID: uid, Path: path.Join(devices, "publish", b.Name, uid), Exists: true})
		}
		if b.Staged || len(b.Pods) == 0 {
			v := m.volume(b.VolData.Data, b.Name)
			v.Staging = &nodereport.Staging{Path: path.Join(devices, "staging", b.Name), Exists: b.Staged, VolData: b.VolData.Data, VolDataError: b.VolData.Error}
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(f.staged)) {
		for _, folder := range f.staged[driver] {
			m.stage(driver, folder)
		}
	}
	m.adopt()
	var out []*nodereport.Volume
	for _, v := range m.all {
		slices.SortFunc(v.Publishes, func(a, b nodereport.Publish) int { return compare(a.PodUID, b.PodUID, a.Path, b.Path) })
		if v.Staging != nil || len(v.Publishes) > 0 {
			out = append(out, v)
		}
	}
	return out
}

type merger struct {
	p      *prober
	all    []*nodereport.Volume
	byKey  map[string]*nodereport.Volume // driver and handle, or the PV
	byHash map[string]*nodereport.Volume // driver and the handle's sum, which names staging folders since Kubernetes 1.24
}

// volume finds the volume of a vol_data.json, or of the folder's name alone.
func (m *merger) volume(data map[string]string, pv string) *nodereport.Volume {
	driver, handle := data["driverName"], data["volumeHandle"]
	if name := data["specVolID"]; name != "" {
		pv = name
	}
	if data["volumeLifecycleMode"] == "Ephemeral" {
		pv = ""
	}
	key := driver + "\n" + handle
	if handle == "" {
		key = "\n\n" + pv
	}
	v := m.byKey[key]
	if v == nil {
		v = &nodereport.Volume{Driver: driver, Handle: handle}
		m.all = append(m.all, v)
		m.byKey[key] = v
		if handle != "" {
			sum := sha256.Sum256([]byte(handle))
			m.byHash[driver+"\n"+hex.EncodeToString(sum[:])] = v
		}
	}
	if v.PV == "" {
		v.PV = pv
	}
	return v
}

func (m *merger) publish(d volData, name string, pub nodereport.Publish) {
	v := m.volume(d.Data, name)
	pub.VolData, pub.VolDataError = d.Data, d.Error
	v.Publishes = append(v.Publishes, pub)
}

// stage adds a staging folder. An empty one without a file is what a driver that does not stage leaves: nothing.
func (m *merger) stage(driver string, folder stagingFolder) {
	dir := path.Join(m.p.root, "plugins/kubernetes.io/csi", driver, folder.Name)
	s := nodereport.Staging{Path: dir + "/globalmount", Exists: folder.Mount, VolData: folder.VolData.Data, VolDataError: folder.VolData.Error}
	var v *nodereport.Volume
	switch {
	case folder.VolData.Data["volumeHandle"] != "":
		pv := ""
		if driver == oldStaging {
			pv = folder.Name
		}
		v = m.volume(folder.VolData.Data, pv)
	case driver == oldStaging:
		v = m.volume(nil, folder.Name)
	default:
		v = m.byHash[driver+"\n"+folder.Name]
		if v == nil {
			if len(m.p.mounts.below(s.Path)) == 0 && folder.VolData.Error == "ENOENT" {
				return
			}
			v = &nodereport.Volume{Driver: driver}
			m.all = append(m.all, v)
		}
	}
	if folder.VolData.Error == "ENOENT" { // not written is not broken: drivers that do not stage have none
		s.VolDataError = ""
		if len(m.p.mounts.below(s.Path)) > 0 {
			s.VolDataError = "ENOENT"
		}
	}
	if v.Staging != nil { // both layouts, or a driver's two folders: each is a fact
		twin := *v
		twin.Publishes = nil
		v = &twin
		m.all = append(m.all, v)
	}
	v.Staging = &s
}

// adopt gives a published volume whose file is lost to the staged one that is mounted from the same device.
func (m *merger) adopt() {
	for _, v := range m.all {
		if v.Handle != "" || v.Staging != nil {
			continue
		}
		for _, o := range m.all {
			if o.Handle != "" && o.Staging != nil && len(v.Publishes) > 0 && m.p.sameSource(o.Staging.Path, v.Publishes[0].Path) {
				o.Publishes = append(o.Publishes, v.Publishes...)
				if o.PV == "" {
					o.PV = v.PV
				}
				v.Publishes = nil
			}
		}
	}
}

// sameSource: two paths are mounted from one filesystem and the same folder of it.
func (p *prober) sameSource(a, b string) bool {
	x, ok := p.mounts.on(a)
	y, ok2 := p.mounts.on(b)
	return ok && ok2 && x.Device() == y.Device() && x.Root == y.Root
}

// lookAt looks at the paths of one volume, where its device or server may not answer.
func (p *prober) lookAt(v *nodereport.Volume) {
	if s := v.Staging; s != nil && s.Exists {
		_, mounted := p.mounts.on(s.Path)
		seen := p.look(s.Path, false, mounted)
		s.Stat = seen.Stat
		v.Usage = seen.Usage
	}
	for i := range v.Publishes {
		pub := &v.Publishes[i]
		if !pub.Exists {
			continue
		}
		_, mounted := p.mounts.on(pub.Path)
		seen := p.look(pub.Path, !mounted, mounted)
		pub.Stat, pub.Type, pub.Mode, pub.Entries = seen.Stat, seen.Type, seen.Mode, seen.Entries
		if seen.Stat == "ok" {
			pub.UID, pub.GID = &seen.UID, &seen.GID
		}
		if seen.Usage != nil && seen.Type == "dir" {
			v.Usage = seen.Usage // what the pod sees: a driver may mount below the staging path only
		}
	}
}

func (p *prober) look(at string, count, usage bool) sight {
	s, err := visit(p, at, opLook, lookArg{at, count, usage}, p.patience)
	switch {
	case errors.Is(err, errHung):
		p.gaps.add(at, err)
		return sight{Stat: "hung"}
	case err != nil:
		p.gaps.add(at, err)
	case s.Error != "":
		p.gaps.add(at, errors.New(s.Error))
	}
	return s
}

// orphans are pods' folders that hold something of a pod that neither has a cgroup nor a process. Whether the API still has the
// pod is not for the node to say.
func (p *prober) orphans() {
	if p.root == "" || p.Volume != "" {
		return
	}
	groups, err := ask(p.ctx, p.w, opCgroups, struct{}{}, 2*p.patience)
	p.gaps.add("the pods' cgroups", err)
	if err != nil {
		return // without it every folder would look like one
	}
	if !groups.Found && len(p.podFolders) > 0 {
		p.gaps.add("orphans", errors.New("the kubelet makes no cgroup for a pod here, so folders of pods that wait for their volumes may be among them"))
	}
	alive := p.alivePods()
	mounts := map[string]int{} // by pod
	for _, m := range p.mounts.table {
		if rest, ok := strings.CutPrefix(m.Mountpoint, p.root+"/pods/"); ok {
			uid, _, _ := strings.Cut(rest, "/")
			mounts[uid]++
		}
	}
	var uids []string
	for uid := range p.podFolders {
		if !slices.Contains(groups.Pods, uid) && !alive[uid] && (p.Pod == "" || p.Pod == uid) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	for _, uid := range uids {
		dir := path.Join(p.root, "pods", uid)
		o := nodereport.Orphan{Path: dir, PodUID: uid, Mounts: mounts[uid], Entries: p.podFolders[uid].Entries}
		for _, v := range p.report.Volumes {
			for _, pub := range v.Publishes {
				if pub.PodUID == uid && pub.Entries != nil && below(pub.Path, dir) {
					o.Entries += *pub.Entries
				}
			}
		}
		if o.Mounts > 0 || o.Entries > 0 {
			p.report.Orphans = append(p.report.Orphans, o)
		}
	}
}

// alivePods are those of which a container runs.
func (p *prober) alivePods() map[string]bool {
	out := map[string]bool{}
	for _, ns := range p.namespaces {
		if ns == p.reference {
			continue
		}
		for _, q := range ns.Processes[:min(len(ns.Processes), 1)] {
			uid, _, _ := p.owner(ns, q.PID)
			out[uid] = true
		}
	}
	delete(out, "")
	return out
}
