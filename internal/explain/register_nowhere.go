package explain

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// The scheduler's words when a node is left out for the pod's volume.
var volumeKeepsOff = phrase(
	`free storage|volume node affinity|PersistentVolume's node affinity|available persistent volumes`,
	`CSI driver is not installed|available volume zone`)

// noTopology: the provisioner finds no topology to make the volume for, since no node has the driver.
var noTopology = phrase(`no topology key|no available topology|error generating accessibility requirements|topology.*not found`)

// nowhere: what the scheduler or the provisioner misses is the driver's own, which is registered on no node. Evidence of both, and the
// DaemonSets that should change it; none: Unknown, or not so.
func (v *View) nowhere() ([]Evidence, []*appsv1.DaemonSet, Truth) {
	if v.Driver == "" {
		return nil, nil, No
	}
	var hint Evidence
	switch {
	case v.at(HopSchedule):
		c := podCondition(v.Pod, "PodScheduled")
		if c == nil || !volumeKeepsOff.in(c.Message) {
			return nil, nil, No
		}
		hint = fact(ref(v.Pod), "status.conditions[PodScheduled]", c.Message, c.LastTransitionTime.Time)
	default:
		events, _ := v.claimEvents()
		t := provisionFailures(events)
		if t == nil || !noTopology.in(t.Text) {
			return nil, nil, No
		}
		hint = t.Evidence
	}
	nodes, all := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	if slices.ContainsFunc(nodes, func(n *storagev1.CSINode) bool { return driverOf(n, v.Driver) != nil }) {
		return nil, nil, No
	}
	if all != Yes {
		return nil, nil, Unknown
	}
	sets, known := v.daemonSets()
	if len(sets) == 0 {
		return nil, nil, min(known.not(), Unknown) // not installed: that is provision's to say
	}
	return []Evidence{hint, fact(Object{Kind: "CSINode"}, "spec.drivers", fmt.Sprintf("none of %d lists %s", len(nodes), v.Driver), time.Time{})}, sets, Yes
}

// pluginNowhere: the DaemonSet has no pod that could register.
func pluginNowhere(v *View) (Finding, Truth) {
	ev, sets, known := v.nowhere()
	if known != Yes {
		return Finding{}, known
	}
	var why string
	for _, d := range sets {
		if d.Status.DesiredNumberScheduled > 0 && d.Status.NumberReady > 0 {
			return Finding{}, No // it runs: why it is not registered must be told of a node
		}
		if p, known := v.podsOfSet(d); known == Unknown || len(p.Pods) > 0 {
			return Finding{}, min(known.not(), Unknown)
		}
		ev = append(ev, fact(ref(d), "status.desiredNumberScheduled", fmt.Sprint(d.Status.DesiredNumberScheduled), time.Time{}))
		why = fmt.Sprintf("DaemonSet %s/%s wants %d pods%s and has %d ready", d.Namespace, d.Name, d.Status.DesiredNumberScheduled, selectors(d), d.Status.NumberReady)
	}
	f := Finding{Confidence: Certain, Evidence: ev,
		Why: fmt.Sprintf("The driver %s is registered on no node, so no node can hold the volume: %s.", v.Driver, why)}
	for _, d := range sets {
		f.Fix = append(f.Fix, v.look("See what the DaemonSet asks of nodes", "-n", d.Namespace, "describe", "daemonset", d.Name))
	}
	f.Fix = append(f.Fix, v.look("Compare with the nodes' labels and taints", "get", "nodes", "--show-labels"),
		say("Change the DaemonSet's nodeSelector or tolerations, or label the nodes that should have the driver."))
	return f, Yes
}

// podsOfSet are the pods of a DaemonSet that have a node.
func (v *View) podsOfSet(d *appsv1.DaemonSet) (plugin, Truth) {
	pods, known := list[*corev1.Pod](v.world, inPods, snapshot.Query{Namespace: d.Namespace})
	var p plugin
	for _, pod := range pods {
		if ownedBy(pod, string(d.UID)) && pod.Spec.NodeName != "" && !finished(pod) {
			p.Pods = append(p.Pods, pod)
		}
	}
	return p, known
}

// eachNowhere asks about the pods of each DaemonSet of a driver that no node has, with the evidence of that, until one is all that is
// to be asked.
func (v *View) eachNowhere(ask func(p plugin, ev []Evidence) (f Finding, t Truth, done bool)) (Finding, Truth) {
	ev, sets, known := v.nowhere()
	if known != Yes {
		return Finding{}, known
	}
	all := Yes
	for _, d := range sets {
		p, known := v.podsOfSet(d)
		all = all.and(known)
		if f, t, done := ask(p, ev); done {
			return f, t
		}
	}
	return Finding{}, min(all.not(), Unknown)
}

// pluginFailsEverywhere: the DaemonSet has pods, and those that should register fail.
func pluginFailsEverywhere(v *View) (Finding, Truth) {
	return v.eachNowhere(func(p plugin, ev []Evidence) (Finding, Truth, bool) {
		pod, why, failing := p.failing(v.taken)
		if pod == nil || starting(p) && v.age(pod.CreationTimestamp.Time) < normalRegister {
			return Finding{}, No, false // it only takes its time
		}
		f := Finding{Evidence: append(ev, failing), Why: fmt.Sprintf("The driver %s is registered on no node, so no node can hold the volume: on node %s %s.", v.Driver, pod.Spec.NodeName, why)}
		return v.ofFailing(f, pod), Yes, true
	})
}

// orNowhere asks a cause of register also where the chain stops at the scheduler or the provisioner because no node has the driver: on a
// node where the plugin's pod runs.
func orNowhere(match func(*View) (Finding, Truth)) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		if !v.at(HopSchedule, HopProvision) {
			return match(v)
		}
		return v.eachNowhere(func(p plugin, ev []Evidence) (Finding, Truth, bool) {
			i := slices.IndexFunc(p.Pods, ready)
			if i < 0 {
				return Finding{}, No, false
			}
			there := &View{world: v.world, Driver: v.Driver, Node: p.Pods[i].Spec.NodeName, only: []HopName{HopRegister}}
			there.chain()
			there.block = HopRegister
			f, t := match(there)
			if t == Yes {
				f.Why = fmt.Sprintf("The driver %s is registered on no node, so no node can hold the volume. %s", v.Driver, f.Why)
				f.Evidence = append(ev, f.Evidence...)
			}
			return f, t, true
		})
	}
}
