package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// csiDriver is the driver's CSIDriver object.
func (v *View) csiDriver() (*storagev1.CSIDriver, Truth) {
	return get[*storagev1.CSIDriver](v.world, inDrivers, "", v.Driver)
}

// csiNode is what kubelet registered on a node.
func (w *world) csiNode(node string) (*storagev1.CSINode, Truth) {
	return get[*storagev1.CSINode](w, inCSINodes, "", node)
}

// registered is the driver's entry in a node's CSINode; No when the CSINode or the entry does not exist.
func (v *View) registered(node string) (*storagev1.CSINodeDriver, Truth) {
	n, known := v.csiNode(node)
	if known != Yes {
		return nil, known
	}
	for i := range n.Spec.Drivers {
		if n.Spec.Drivers[i].Name == v.Driver {
			return &n.Spec.Drivers[i], Yes
		}
	}
	return nil, No
}

// sidecarKind is one of the controller sidecars.
type sidecarKind struct {
	Name  string // of the program, as containers and images are called
	Lease func(driver string) string
}

// The sidecars and their leases (lease names: csi-lib-utils leaderelection and each sidecar's main.go).
var (
	provisionerSidecar = sidecarKind{"csi-provisioner", sanitized}
	attacherSidecar    = sidecarKind{"csi-attacher", func(d string) string { return sanitized("external-attacher-leader-" + d) }}
	resizerSidecar     = sidecarKind{"csi-resizer", func(d string) string { return sanitized("external-resizer-" + d) }}
	snapshotterSidecar = sidecarKind{"csi-snapshotter", func(d string) string { return sanitized("external-snapshotter-leader-" + d) }}
	sidecars           = []sidecarKind{provisionerSidecar, attacherSidecar, resizerSidecar, snapshotterSidecar}
)

// sidecar is what can be seen of one controller sidecar of the driver.
type sidecar struct {
	Kind     sidecarKind
	Works    Truth
	Proof    Confidence // of Works being No or Yes
	Why      string     // half a sentence: "its lease was last renewed 5h ago"
	Evidence []Evidence
	Pod      *corev1.Pod // the leader's, or the one that does not run; nil: not to be seen
	Present  bool        // some trace of it exists: a lease or a pod
	Renewed  time.Time   // its lease's last renewal; zero: there is no lease
	host     string      // that its lease names as the leader, where that is no pod: a pod with the host's network has its name
}

// sidecar judges whether a sidecar of the driver is at work, by its lease, then its pods.
func (v *View) sidecar(kind sidecarKind) sidecar {
	return once(v.world, kind.Name+" of "+v.Driver, func() sidecar {
		s := v.judged(kind)
		s.Evidence = slices.Clip(s.Evidence)
		return s
	})
}

func (v *View) judged(kind sidecarKind) sidecar {
	s := sidecar{Kind: kind, Works: Unknown}
	name := kind.Lease(v.Driver)
	leases, leasesKnown := list[*coordinationv1.Lease](v.world, inLeases, snapshot.Query{Fields: "metadata.name=" + name})
	if leasesKnown == Unknown && len(leases) == 0 {
		v.ahead(func() { v.daemonSets() }) // where there is no lease, or an old one, the pods tell more
	}
	var lease *coordinationv1.Lease
	for _, l := range leases {
		if lease == nil || renewedAt(l).After(renewedAt(lease)) {
			lease = l
		}
	}
	if lease != nil && !renewedAt(lease).IsZero() {
		s.Present = true
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if p, known := get[*corev1.Pod](v.world, inPods, lease.Namespace, holder); known == Yes {
			s.Pod = p
		} else if known == No {
			s.host = holder
		}
		renewed := renewedAt(lease)
		s.Renewed = renewed
		s.Evidence = append(s.Evidence, fact(ref(lease), "spec.renewTime", fmt.Sprintf("%s, held by %s", renewed.UTC().Format(time.RFC3339), holder), renewed))
		if v.taken.Sub(renewed) > normalUntouched {
			s.Works, s.Proof = No, Certain
			s.Why = fmt.Sprintf("the lease %s of %s was last renewed %s ago", name, kind.Name, ago(v.taken.Sub(renewed)))
			v.sidecarDown(&s)
			return s
		}
		s.Works, s.Proof, s.Why = Yes, Certain, fmt.Sprintf("the lease %s is fresh", name)
		return s
	}
	pods, podsKnown := v.sidecarPods(kind)
	for _, p := range pods {
		s.Present = true
		c := sidecarContainer(p.Spec.Containers, kind)
		works, why, ev := containerWorks(p, c.Name)
		for _, status := range p.Status.ContainerStatuses {
			if works && status.Name == c.Name && crashes(status, v.taken) {
				works = false // it happens to run at this moment
				why, ev = howItCrashes(p, status)
			}
		}
		if !works {
			if s.Pod == nil {
				s.Pod, s.Why, s.Evidence = p, why, append(s.Evidence, ev)
			}
			continue
		}
		if elects(c) && leasesKnown == Yes {
			s.Pod, s.Why = p, fmt.Sprintf("%s runs in pod %s/%s and waits for its election: there is no lease %s", kind.Name, p.Namespace, p.Name, name)
			s.Evidence = append(s.Evidence, fact(ref(p), "spec.containers["+c.Name+"].args", strings.Join(c.Args, " "), time.Time{}))
			s.Works, s.Proof = No, Certain
			return s
		}
		if elects(c) { // the lease that would tell could not be read
			s.Pod = p
			s.Works = Unknown
			return s
		}
		if why, ev := driverDown(p); why != "" { // it asks the driver beside it, which does not answer
			if s.Pod == nil {
				s.Pod, s.Why, s.Evidence = p, why, append(s.Evidence, ev)
			}
			continue
		}
		s.Pod, s.Works, s.Proof, s.Why = p, Yes, Likely, fmt.Sprintf("%s runs in pod %s/%s", kind.Name, p.Namespace, p.Name)
		return s
	}
	switch {
	case s.Pod != nil:
		s.Works, s.Proof = No, Certain
	case leasesKnown == Yes && podsKnown == Yes:
		s.Works, s.Proof = No, Possible
		s.Why = fmt.Sprintf("there is no lease %s and no pod with %s is to be seen", name, kind.Name)
		v.sidecarDown(&s)
	}
	return s
}

// driverDown tells why no container of a controller pod that is not a sidecar works; empty: one does.
func driverDown(p *corev1.Pod) (why string, ev Evidence) {
	for _, c := range p.Spec.Containers {
		if slices.ContainsFunc(sidecars, func(k sidecarKind) bool { return sidecarContainer([]corev1.Container{c}, k) != nil }) || strings.Contains(c.Name, "liveness") {
			continue
		}
		works, w, e := containerWorks(p, c.Name)
		if works {
			return "", Evidence{}
		}
		why, ev = w, e
	}
	return why, ev
}

// withPod is the sidecar with its leader's pod, also where the lease knows that by its host alone.
func (v *View) withPod(s sidecar) sidecar {
	if s.Pod != nil || s.host == "" {
		return s
	}
	v.ahead(func() {
		pods, _ := v.sidecarPods(s.Kind)
		for _, p := range pods {
			node := sanitized(p.Spec.NodeName)
			if p.Spec.HostNetwork && (strings.HasPrefix(node+"-", s.host+"-") || strings.HasPrefix(s.host+"-", node+"-")) { // with or without its domain
				s.Pod = p
			}
		}
	})
	return s
}

// sidecarDown adds why a sidecar that does not work does not: its container's state, or the Deployment or StatefulSet that
// has no pods.
func (v *View) sidecarDown(s *sidecar) {
	pods, _ := v.sidecarPods(s.Kind)
	for _, p := range pods {
		s.Present = true
		if works, why, ev := containerWorks(p, sidecarContainer(p.Spec.Containers, s.Kind).Name); !works {
			s.Pod, s.Why, s.Evidence = p, s.Why+"; "+why, append(s.Evidence, ev)
			return
		}
	}
	if len(pods) > 0 {
		return
	}
	workloads, _ := v.sidecarWorkloads(s.Kind)
	for _, w := range workloads {
		if w.ready == 0 {
			s.Present, s.Proof = true, Certain
			s.Why += fmt.Sprintf("; %s wants %d pods and has none ready", w.object, w.wanted)
			s.Evidence = append(s.Evidence, fact(w.object, "spec.replicas", fmt.Sprintf("%d, ready %d", w.wanted, w.ready), time.Time{}))
			return
		}
	}
}

// workload is a Deployment or StatefulSet that should run a sidecar of the driver.
type workload struct {
	object        Object
	wanted, ready int32
}

// sidecarWorkloads are the Deployments and StatefulSets with the sidecar that name the driver, or that are called like its
// node plugin and stand beside it.
func (v *View) sidecarWorkloads(kind sidecarKind) ([]workload, Truth) {
	var out []workload
	daemons, _ := v.daemonSets()
	mine := func(o snapshot.Object, spec *corev1.PodSpec) bool {
		return sidecarContainer(spec.Containers, kind) != nil && (namesDriver(spec, v.Driver) || slices.ContainsFunc(daemons, func(d *appsv1.DaemonSet) bool {
			return d.Namespace == o.GetNamespace() && alikeNames(o.GetName(), d.Name)
		}))
	}
	replicas := func(n *int32) int32 {
		if n == nil {
			return 1 // the API server's default
		}
		return *n
	}
	deployments, a := list[*appsv1.Deployment](v.world, inDeployments, snapshot.Query{})
	for _, d := range deployments {
		if mine(d, &d.Spec.Template.Spec) {
			out = append(out, workload{ref(d), replicas(d.Spec.Replicas), d.Status.ReadyReplicas})
		}
	}
	sets, b := list[*appsv1.StatefulSet](v.world, inStatefulSets, snapshot.Query{})
	for _, d := range sets {
		if mine(d, &d.Spec.Template.Spec) {
			out = append(out, workload{ref(d), replicas(d.Spec.Replicas), d.Status.ReadyReplicas})
		}
	}
	return out, a.and(b)
}

func renewedAt(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

func elects(c *corev1.Container) bool {
	return flagged(c, "leader-election") || flagged(c, "enable-leader-election")
}

// flagged tells whether a container's program is started with a flag, not set to false.
func flagged(c *corev1.Container, flag string) bool {
	for _, a := range append(slices.Clone(c.Command), c.Args...) {
		if name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); name == flag && value != "false" {
			return true
		}
	}
	return false
}

// sidecarContainer finds a sidecar's container by name or image.
func sidecarContainer(containers []corev1.Container, kind sidecarKind) *corev1.Container {
	short := strings.TrimPrefix(kind.Name, "csi-")
	for i := range containers {
		c := &containers[i]
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		if c.Name == kind.Name || strings.HasPrefix(image, kind.Name) || strings.HasSuffix(c.Name, kind.Name) || strings.HasPrefix(c.Name, "csi-") && strings.HasSuffix(c.Name, short) || c.Name == "external-"+short {
			return c
		}
	}
	return nil
}

// containerWorks tells whether a container runs and is ready, else why not in half a sentence.
func containerWorks(p *corev1.Pod, name string) (bool, string, Evidence) {
	who := fmt.Sprintf("%s in pod %s/%s", name, p.Namespace, p.Name)
	for _, s := range p.Status.ContainerStatuses {
		if s.Name != name {
			continue
		}
		switch {
		case s.Ready && s.State.Running != nil:
			return true, "", Evidence{}
		case s.State.Waiting != nil:
			why := strings.TrimSpace(s.State.Waiting.Reason + " " + s.State.Waiting.Message)
			if last := s.LastTerminationState.Terminated; last != nil {
				why += fmt.Sprintf("; ended last: %s, exit code %d", last.Reason, last.ExitCode)
			}
			return false, who + " waits: " + why, fact(ref(p), "status.containerStatuses["+name+"].state.waiting", why, time.Time{})
		case s.State.Terminated != nil:
			return false, fmt.Sprintf("%s ended: %s, exit code %d", who, s.State.Terminated.Reason, s.State.Terminated.ExitCode), fact(ref(p), "status.containerStatuses["+name+"].state.terminated", fmt.Sprintf("%s %s exit code %d", s.State.Terminated.Reason, s.State.Terminated.Message, s.State.Terminated.ExitCode), s.State.Terminated.FinishedAt.Time)
		}
		return false, who + " is not ready", fact(ref(p), "status.containerStatuses["+name+"].ready", fmt.Sprint(s.Ready), time.Time{})
	}
	why := who + " has not started"
	if p.Status.Message != "" || p.Status.Reason != "" {
		why = fmt.Sprintf("pod %s/%s is %s: %s", p.Namespace, p.Name, p.Status.Phase, strings.TrimSpace(p.Status.Reason+" "+p.Status.Message))
	} else if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		why = fmt.Sprintf("pod %s/%s is not scheduled: %s", p.Namespace, p.Name, c.Message)
	}
	return false, why, fact(ref(p), "status.phase", string(p.Status.Phase), p.CreationTimestamp.Time)
}

// daemonSets are the DaemonSets whose template names the driver: its node plugin.
func (v *View) daemonSets() ([]*appsv1.DaemonSet, Truth) {
	return allOf(v.world, "daemonsets of "+v.Driver, func() ([]*appsv1.DaemonSet, Truth) {
		all, known := list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
		return slices.DeleteFunc(all, func(d *appsv1.DaemonSet) bool { return !namesDriver(&d.Spec.Template.Spec, v.Driver) }), known
	})
}

// namesDriver tells whether a pod is a part of the driver by what it does: a path below plugins/<driver>, or the driver's
// name as a word in an argument or an environment variable.
func namesDriver(spec *corev1.PodSpec, driver string) bool {
	if driver == "" {
		return false
	}
	folder := pluginFolders[driver]
	for _, v := range spec.Volumes {
		if v.HostPath != nil && (names(v.HostPath.Path, driver) || folder != "" && path.Base(v.HostPath.Path) == folder) {
			return true
		}
	}
	for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		for _, a := range append(slices.Clone(c.Command), c.Args...) {
			if names(a, driver) {
				return true
			}
		}
		for _, e := range c.Env {
			if names(e.Value, driver) {
				return true
			}
		}
	}
	return false
}

// pluginFolders are the folders below the kubelet's plugins of drivers whose manifests have their name nowhere: the chart of
// secrets-store-csi-driver, the manifests of csi-driver-nfs, and those of OpenEBS.
var pluginFolders = map[string]string{
	secretsStore:              "csi-secrets-store",
	"nfs.csi.k8s.io":          "csi-nfsplugin",
	"local.csi.openebs.io":    "lvm-localpv",
	"zfs.csi.openebs.io":      "zfs-localpv",
	"io.openebs.csi-mayastor": "io.openebs.mayastor",
}

// endpoint is the socket at which the node's report found the driver, as its registrar gives it to the kubelet; empty: there is none.
func (v *View) endpoint(node string) string {
	if r := v.reportAtHand(node); r != nil {
		if d := socketOf(r, v.Driver); d != nil && d.Registration != nil {
			return d.Registration.Endpoint
		}
	}
	return ""
}

// names tells whether the driver's name stands in the text as a word of its own.
func names(text, driver string) bool {
	for rest := text; ; {
		i := strings.Index(rest, driver)
		if i < 0 {
			return false
		}
		before, after := i == 0 || !nameByte(rest[i-1]), i+len(driver) == len(rest) || !nameByte(rest[i+len(driver)])
		if before && after {
			return true
		}
		rest = rest[i+1:]
	}
}

func nameByte(b byte) bool {
	return b == '-' || b == '.' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// sidecarPods are the pods of the driver that hold the sidecar: in the namespaces of its node plugin, those that name the
// driver, else those that share the beginning of their name with the DaemonSet, else the only one there. Where these have
// none, those of a Deployment or StatefulSet elsewhere.
func (v *View) sidecarPods(kind sidecarKind) ([]*corev1.Pod, Truth) {
	sets, all := v.daemonSets()
	if all == Unknown && len(sets) == 0 {
		return nil, Unknown
	}
	var out []*corev1.Pod
	seen := map[string]bool{}
	look := func(namespace string, alike func(p *corev1.Pod) bool) {
		if seen[namespace] {
			return
		}
		seen[namespace] = true
		pods, known := list[*corev1.Pod](v.world, inPods, snapshot.Query{Namespace: namespace})
		leases, _ := list[*coordinationv1.Lease](v.world, inLeases, snapshot.Query{Namespace: namespace})
		all = all.and(known)
		var named, like, rest []*corev1.Pod
		for _, p := range pods {
			switch {
			case finished(p) || sidecarContainer(p.Spec.Containers, kind) == nil:
			case namesDriver(&p.Spec, v.Driver):
				named = append(named, p)
			case v.leadsForAnother(p, leases):
			case alike(p):
				like = append(like, p)
			default:
				rest = append(rest, p)
			}
		}
		switch {
		case len(named) > 0:
			out = append(out, named...)
		case len(like) > 0:
			out = append(out, like...)
		case len(rest) == 1:
			out = append(out, rest...)
		}
	}
	v.ahead(func() { v.sidecarWorkloads(kind) })
	for _, d := range sets {
		look(d.Namespace, func(p *corev1.Pod) bool { return alikeNames(p.Name, d.Name) })
	}
	if len(out) > 0 || all == Unknown {
		return out, all
	}
	workloads, known := v.sidecarWorkloads(kind)
	all = all.and(known)
	for _, w := range workloads {
		look(w.object.Namespace, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, w.object.Name+"-") })
	}
	return out, all
}

// leadsForAnother: the pod holds sidecars' leases, and none of them is of this driver.
func (v *View) leadsForAnother(p *corev1.Pod, leases []*coordinationv1.Lease) bool {
	kinds := []sidecarKind{attacherSidecar, resizerSidecar, snapshotterSidecar}
	another := false
	for _, l := range leases {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != p.Name {
			continue
		}
		if l.Name == provisionerSidecar.Lease(v.Driver) {
			return false
		}
		for _, k := range kinds {
			switch prefix := strings.TrimSuffix(k.Lease("x"), "x"); {
			case l.Name == k.Lease(v.Driver):
				return false
			case strings.HasPrefix(l.Name, prefix):
				another = true
			}
		}
	}
	return another
}

// alikeNames: ebs-csi-controller-0 and ebs-csi-node, by the words that both begin with.
func alikeNames(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n > 0 && len(strings.Join(x[:n], "-")) >= 3 && (n >= 2 || n >= len(y)-1)
}

// pluginPods are the driver's node plugin pods on a node.
func (v *View) pluginPods(node string) ([]*corev1.Pod, Truth) {
	if node == "" {
		return nil, No
	}
	return allOf(v.world, "plugin of "+v.Driver+" on "+node, func() ([]*corev1.Pod, Truth) { return v.lookedUpPlugins(node) })
}

func (v *View) lookedUpPlugins(node string) ([]*corev1.Pod, Truth) {
	pods, known := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + node})
	sets, _ := v.daemonSets()
	owner := map[string]bool{}
	for _, d := range sets {
		owner[string(d.UID)] = true
	}
	endpoint := v.endpoint(node)
	var out []*corev1.Pod
	for _, p := range pods {
		mine := namesDriver(&p.Spec, v.Driver) && registers(&p.Spec) || endpoint != "" && slices.Contains(registrations(&p.Spec), endpoint)
		for _, o := range p.OwnerReferences {
			mine = mine || o.Kind == "DaemonSet" && owner[string(o.UID)]
		}
		if mine {
			out = append(out, p)
		}
	}
	return out, known
}

// registers tells a node plugin from a controller: it reaches kubelet's folders on the host.
func registers(spec *corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.HostPath != nil && (strings.Contains(v.HostPath.Path, "plugins") || strings.Contains(v.HostPath.Path, "kubelet")) {
			return true
		}
	}
	return false
}

// ago writes an age as kubectl does, with at most two units.
func ago(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
