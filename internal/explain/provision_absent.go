package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func pluginNotFound(v *View) (Finding, Truth) {
	if !v.unprovisioned() {
		return Finding{}, No
	}
	class, known := v.class()
	t, eventsKnown := provisionError(v)
	word := t != nil && v.told(provisionWords, t.Text) == "provision/plugin-not-found"
	if known == Yes && class.Provisioner == noProvisioner || word && strings.Contains(t.Text, noProvisioner) {
		return Finding{}, No // a hand-made volume must fit
	}
	if known == Unknown && !word {
		return Finding{}, min(eventsKnown.not(), Unknown)
	}
	builtIn := known == Yes && strings.HasPrefix(class.Provisioner, "kubernetes.io/") && v.Driver == class.Provisioner // no CSI driver took it over
	if !word && !(builtIn && t == nil && v.at(HopProvision)) {
		return Finding{}, No
	}
	f := v.asBlock(Finding{Why: fmt.Sprintf("Class %s names the built-in plugin %s, which this Kubernetes does not have any more, and no CSI driver takes its place.", v.className(), v.Driver)})
	if word {
		f.Confidence, f.Status, f.Until = Certain, v.troubleStatus(t), nil
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Evidence = append(f.Evidence, fact(Object{Kind: "StorageClass", Name: v.className()}, "provisioner", v.Driver, time.Time{}))
	f.Fix = []Step{v.look("See which classes and drivers there are", "get", "storageclass,csidriver"),
		say("Install a CSI driver for this storage, make a class for it, and make the claim again with that class: it was never bound, so it holds no data.")}
	return f, Yes
}

// served tells whether something that works, or should, goes by the provisioner's name. A stale lease is left over.
func (v *View) served() Truth {
	events, eventsKnown := v.claimEvents()
	if v.taken.Sub(v.lastSpoke(events)) < recent {
		return Yes
	}
	_, driver := v.csiDriver()
	csinodes, all := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	_, node := first(csinodes, all, func(n *storagev1.CSINode) bool { return driverOf(n, v.Driver) != nil })
	s := v.provisioner()
	if driver == Yes || node == Yes || s.Works == Yes || s.Pod != nil {
		return Yes
	}
	_, pods := v.workload()
	return driver.or(node).or(s.Works).or(pods).or(min(eventsKnown.not(), Unknown))
}

// workload finds a Deployment, StatefulSet or DaemonSet with pods that goes by the provisioner's name: in an argument, a
// variable or a path, or for a name like vendor/name in that of the workload or its image.
func (v *View) workload() (string, Truth) {
	found, known := allOf(v.world, "workload of "+v.Driver, func() ([]string, Truth) {
		name, known := v.lookedUpWorkload()
		return []string{name}, known
	})
	return found[0], known
}

func (v *View) lookedUpWorkload() (string, Truth) {
	fits := func(name string, spec *corev1.PodSpec) bool {
		if namesDriver(spec, v.Driver) {
			return true
		}
		_, short, ok := strings.Cut(v.Driver, "/")
		return ok && len(short) > 3 && (strings.Contains(name, short) || slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return strings.Contains(c.Image, short) }))
	}
	deployments, a := list[*appsv1.Deployment](v.world, inDeployments, snapshot.Query{})
	if d, has := first(deployments, a, func(d *appsv1.Deployment) bool { return d.Status.Replicas > 0 && fits(d.Name, &d.Spec.Template.Spec) }); has == Yes {
		return ref(d).String(), Yes
	}
	stateful, b := list[*appsv1.StatefulSet](v.world, inStatefulSets, snapshot.Query{})
	if s, has := first(stateful, b, func(s *appsv1.StatefulSet) bool { return s.Status.Replicas > 0 && fits(s.Name, &s.Spec.Template.Spec) }); has == Yes {
		return ref(s).String(), Yes
	}
	daemons, c := list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
	if d, has := first(daemons, c, func(d *appsv1.DaemonSet) bool {
		return d.Status.CurrentNumberScheduled > 0 && fits(d.Name, &d.Spec.Template.Spec)
	}); has == Yes {
		return ref(d).String(), Yes
	}
	return "", a.and(b).and(c).not().and(Unknown)
}

// provisioner is what can be seen of the claim's provisioner; its events on other claims prove that it works, too. One that may not
// be looked at worked while the claim was waiting already.
func (v *View) provisioner() sidecar {
	s := once(v.world, "provisioner "+v.Driver, v.heardProvisioner)
	if s.Works == Unknown && v.Claim != nil {
		events, _ := v.claimEvents()
		if last, _ := v.lastProvisioning(v.heardIn()); last.Last.After(v.provisionSince(events).Add(normalUntouched)) {
			s.worked(last, v.taken)
		}
	}
	return s
}

// worked: the sidecar said something on another object.
func (s *sidecar) worked(last report, now time.Time) {
	s.Works, s.Proof, s.Why = Yes, Likely, fmt.Sprintf("it worked on claim %s/%s %s ago", last.Object.Namespace, last.Object.Name, ago(now.Sub(last.Last)))
	s.Evidence = slices.Clip([]Evidence{last.evidence()})
}

// lastProvisioning is the last that the driver's provisioner said when it took a claim up, of any claim of a namespace, or of all.
func (v *View) lastProvisioning(namespace string) (latest report, known Truth) {
	events, known := list[*corev1.Event](v.world, inEvents, snapshot.Query{Namespace: namespace, Fields: "reason=Provisioning"})
	for _, e := range events {
		if r := newReport(e); strings.HasPrefix(r.Source, v.Driver+"_") && r.Last.After(latest.Last) {
			latest = r
		}
	}
	return latest, known
}

// heardIn is where the provisioner can be heard: in the claim's own namespace where no more is allowed, else in all.
func (v *View) heardIn() string {
	if v.unanswered(snapshot.Query{Resource: inEvents.Resource, Fields: "reason=Provisioning"}) {
		return v.Namespace
	}
	return ""
}

// listened: what the provisioner said on other claims was read.
func (v *View) listened() bool {
	_, known := v.lastProvisioning(v.heardIn())
	return known == Yes
}

func (v *View) heardProvisioner() sidecar {
	s := v.sidecar(provisionerSidecar)
	if s.Works == Yes {
		return s
	}
	latest, known := v.lastProvisioning("")
	if !latest.Last.IsZero() && v.taken.Sub(latest.Last) < recent && latest.Last.After(s.Renewed.Add(normalUntouched)) {
		s.worked(latest, v.taken)
	} else if known == Unknown && s.Proof == Possible {
		s.Works = Unknown
	}
	return s
}

func driverNotInstalled(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || v.Driver == "" || !v.unprovisioned() {
		return Finding{}, No
	}
	events, _ := v.claimEvents()
	switch {
	case v.taken.Sub(v.lastSpoke(events)) < recent:
		return Finding{}, No
	case v.hop(HopProvision).Status == StatusUnknown:
		return Finding{}, Unknown
	}
	if served := v.served(); served != No {
		return Finding{}, served.not()
	}
	f := v.asBlock(Finding{Confidence: Certain, Why: fmt.Sprintf("Class %s leaves the volume to provisioner %s, and nothing in the cluster goes by that name: no CSIDriver, no CSINode entry, no pod.", v.className(), v.Driver),
		Evidence: []Evidence{fact(Object{Kind: "CSIDriver", Name: v.Driver}, "", "not found", time.Time{}), fact(Object{Kind: "CSINode"}, "spec.drivers", "no node has "+v.Driver, time.Time{})}})
	if strings.Contains(v.Driver, "/") { // an external provisioner without CSI has no objects of its own
		f.Confidence = Likely
	}
	if class, known := v.class(); known == Yes {
		f.Evidence = append(f.Evidence, fact(ref(class), "provisioner", class.Provisioner, class.CreationTimestamp.Time))
		if class.Provisioner != v.Driver {
			f.Why += fmt.Sprintf(" (The class names %s, whose work moved to the CSI driver %s.)", class.Provisioner, v.Driver)
		}
	}
	if s := v.sidecar(provisionerSidecar); len(s.Evidence) > 0 {
		f.Evidence = append(f.Evidence, s.Evidence...)
	}
	if all, _ := list[*storagev1.CSIDriver](v.world, inDrivers, snapshot.Query{}); len(all) > 0 {
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSIDriver"}, "", "installed: "+someOf(names, "driver"), time.Time{}))
	}
	f.Fix = []Step{v.look("See which drivers are installed", "get", "csidrivers,csinodes"),
		say(fmt.Sprintf("Install the driver %s (an add-on in managed clusters), or correct the provisioner's name: make the class again with the right one. The claim is served as soon as the provisioner runs.", v.Driver))}
	return f, Yes
}

func provisionerNotRunning(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || v.Driver == "" || !v.unprovisioned() {
		return Finding{}, No
	}
	t, known := provisionError(v)
	if t != nil && v.told(provisionWords, t.Text) == "provision/provisioner-not-running" {
		f := v.refused(t, fmt.Sprintf("csi-provisioner runs, and the controller of driver %s behind its socket does not answer: %s", v.Driver, driverSays(t)), v.controllerLogs()...)
		f.Evidence = append([]Evidence{t.Evidence}, f.Evidence...)
		return f, Yes
	}
	events, _ := v.claimEvents()
	last := v.lastSpoke(events)
	if v.taken.Sub(last) < normalProvision {
		return Finding{}, No
	}
	if v.hop(HopProvision).Status == StatusUnknown {
		return Finding{}, Unknown
	}
	s := v.provisioner()
	if known == Unknown && s.Proof != Certain {
		return Finding{}, Unknown // its events may say that it works
	}
	unseen := s.Works == Unknown && s.Pod == nil && !s.Present && last.IsZero() && v.hop(HopProvision).Status == StatusStuck && v.seesNothingOf() && v.listened()
	if unseen {
		s.Works, s.Proof = No, Possible
		s.Why = "the claim was handed to it, and there is no word of it; whether it runs could not be read"
	}
	if s.Works != No || last.After(s.Renewed.Add(normalUntouched)) && v.taken.Sub(last) < recent {
		return Finding{}, min(s.Works.not(), Unknown)
	}
	if served := v.served(); served == No || served == Unknown && !unseen {
		return Finding{}, served
	}
	f := v.asBlock(Finding{Confidence: s.Proof, Evidence: s.Evidence, Why: fmt.Sprintf("Class %s leaves the volume to driver %s, and its provisioner does not work: %s.", v.className(), v.Driver, s.Why)})
	if t != nil {
		f.Status, f.Until = v.troubleStatus(t), nil
	}
	if s.Pod != nil {
		f.Fix = append(f.Fix, v.look("See the state of the controller's pod", "describe", "pod", s.Pod.Name, "-n", s.Pod.Namespace),
			v.look("See what csi-provisioner said last", "logs", s.Pod.Name, "-n", s.Pod.Namespace, "-c", sidecarName(s), "--tail", "50"))
	} else {
		f.Fix = append(f.Fix, v.look("Find the driver's controller", "get", "deployments,statefulsets,daemonsets", "-A"))
	}
	f.Fix = append(f.Fix, say("Get the controller to run (replicas, image, crash, permissions, room on a node). The claim is then served by itself."))
	return f, Yes
}

// seesNothingOf: neither leases nor the driver's pods can be read, so that the claim's own silence is all there is.
func (v *View) seesNothingOf() bool {
	_, leases := list[*coordinationv1.Lease](v.world, inLeases, snapshot.Query{Fields: "metadata.name=" + provisionerSidecar.Lease(v.Driver)})
	_, daemons := v.daemonSets()
	return leases == Unknown && daemons == Unknown
}

func sidecarName(s sidecar) string {
	if c := sidecarContainer(s.Pod.Spec.Containers, s.Kind); c != nil {
		return c.Name
	}
	return s.Kind.Name
}

// callWithoutEnd: the provisioner took the claim up and said no more, neither success nor error.
func callWithoutEnd(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || !v.unprovisioned() || v.hop(HopProvision).Status != StatusStuck {
		return Finding{}, No
	}
	events, known := v.claimEvents()
	last := v.lastSpoke(events)
	if known == Unknown || last.IsZero() || provisionFailures(events) != nil || v.sourceRef() != nil {
		return Finding{}, min(known.not(), Unknown)
	}
	f := v.asBlock(Finding{Confidence: Possible, Rest: true, Why: fmt.Sprintf("The provisioner of %s took claim %s/%s up, said so last %s ago, and neither success nor an error since: its call to the driver has not ended.", v.Driver, v.Namespace, v.ClaimName, ago(v.age(last)))})
	for _, r := range events {
		if r.Last.Equal(last) {
			f.Evidence = append(f.Evidence, r.evidence())
		}
	}
	f.Fix = append(v.controllerLogs(), say("See in the backend whether the volume is being made. The provisioner's --timeout says when a call is given up."))
	return f, Yes
}

func notActedOn(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || v.Driver == "" || !v.unprovisioned() || v.hop(HopProvision).Status == StatusWaiting {
		return Finding{}, No
	}
	events, known := v.claimEvents()
	if v.hop(HopProvision).Status == StatusUnknown {
		return Finding{}, Unknown
	}
	if known == Unknown || v.provisionerSpoke(events) {
		return Finding{}, min(known.not(), Unknown)
	}
	s := v.provisioner()
	if s.Works != Yes {
		return Finding{}, min(s.Works, Unknown)
	}
	f := v.asBlock(Finding{Confidence: Likely, Rest: true, Why: fmt.Sprintf("The provisioner of driver %s works (%s), and there is no word of it on claim %s/%s.", v.Driver, s.Why, v.Namespace, v.ClaimName), Evidence: s.Evidence})
	ann := v.Claim.Annotations[annProvisioner]
	switch {
	case ann == "":
		f.Why += " kube-controller-manager has not handed the claim over: " + annProvisioner + " is not set."
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "metadata.annotations["+annProvisioner+"]", "not set", v.Claim.CreationTimestamp.Time))
	case ann != v.Driver:
		f.Why += fmt.Sprintf(" The claim was handed to %s, which is not what its class names now.", ann)
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "metadata.annotations["+annProvisioner+"]", ann, v.Claim.CreationTimestamp.Time))
	default:
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "metadata.annotations["+annProvisioner+"]", ann, v.Claim.CreationTimestamp.Time))
	}
	f.Fix = append(v.controllerLogs(), say("The provisioner's log says why it passes the claim over: a permission to list or watch, a wait for the driver, a hung call."))
	return f, Yes
}
