package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// plugin is what can be seen of the driver's node plugin on one node.
type plugin struct {
	Node     string
	Pods     []*corev1.Pod // that kubelet has, but for those below
	Gone     []*corev1.Pod // evicted or failed: their DaemonSet has to make new ones
	known    Truth         // Yes: Pods and Gone are all there are
	Sets     []*appsv1.DaemonSet
	setsKnow Truth
}

// plugin finds the driver's node plugin on a node.
func (v *View) plugin(node string) plugin {
	p := plugin{Node: node}
	p.Sets, p.setsKnow = v.daemonSets()
	pods, known := v.pluginPods(node)
	p.known = known
	for _, pod := range pods {
		if finished(pod) {
			p.Gone = append(p.Gone, pod)
		} else {
			p.Pods = append(p.Pods, pod)
		}
	}
	return p
}

// told is Yes where it is known whether the plugin has a pod on the node.
func (p plugin) told() Truth {
	if len(p.Pods) > 0 || p.known == Yes && p.setsKnow == Yes {
		return Yes
	}
	return Unknown
}

// failing gives the first of the plugin's containers that does not run, or not for long, with why in half a sentence; nil: all run.
func (p plugin) failing(taken time.Time) (pod *corev1.Pod, why string, ev Evidence) {
	for _, pod := range p.Pods {
		for _, c := range pod.Spec.Containers {
			if strings.Contains(c.Name, "liveness") {
				continue // watches the driver, and serves no call
			}
			if works, why, ev := containerWorks(pod, c.Name); !works {
				return pod, why, ev
			}
		}
		for _, s := range pod.Status.ContainerStatuses {
			if crashes(s, taken) {
				why, ev := howItCrashes(pod, s)
				return pod, why, ev
			}
		}
	}
	return nil, "", Evidence{}
}

// howItCrashes tells of a container that crashes, in half a sentence.
func howItCrashes(pod *corev1.Pod, s corev1.ContainerStatus) (why string, ev Evidence) {
	t := s.LastTerminationState.Terminated
	return fmt.Sprintf("%s in pod %s/%s crashes: it was started again %d times, ended last with exit code %d, and runs since a moment ago", s.Name, pod.Namespace, pod.Name, s.RestartCount, t.ExitCode),
		fact(ref(pod), "status.containerStatuses["+s.Name+"].lastState.terminated", strings.TrimSpace(fmt.Sprintf("%s %s", t.Reason, t.Message)), t.FinishedAt.Time)
}

// crashes: the container runs just now, and has not run longer than the last times, which an error ended.
func crashes(s corev1.ContainerStatus, taken time.Time) bool {
	last, now := s.LastTerminationState.Terminated, s.State.Running
	if last == nil || now == nil || last.ExitCode == 0 || s.RestartCount < 2 {
		return false
	}
	ran := last.FinishedAt.Sub(last.StartedAt.Time)
	return ran < crashReset && taken.Sub(now.StartedAt.Time) < ran+crashSlack
}

// nodeSide asks ahead for what tells why a node does not unmount.
func (v *View) nodeSide(node string) {
	v.node(node)
	v.csiNode(node)
	if p := v.plugin(node); len(p.Pods) == 0 && p.known == Yes {
		v.whyNone(p)
	}
	v.report(node)
}

// podsOn are the pods of a node.
func (w *world) podsOn(node string) ([]*corev1.Pod, Truth) {
	return list[*corev1.Pod](w, inPods, snapshot.Query{Fields: "spec.nodeName=" + node})
}

// startedAt is when the youngest container of the plugin started; zero while one has not.
func (p plugin) startedAt() time.Time {
	var youngest time.Time
	for _, pod := range p.Pods {
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Running == nil {
				return time.Time{}
			}
			if s.State.Running.StartedAt.After(youngest) {
				youngest = s.State.Running.StartedAt.Time
			}
		}
	}
	return youngest
}

// whyNone tells why the plugin has no pod on the node, in half a sentence; empty: nothing shows why.
func (v *View) whyNone(p plugin) (string, []Evidence) {
	for _, pod := range p.Gone {
		said := strings.TrimSpace(pod.Status.Reason + ": " + pod.Status.Message)
		return fmt.Sprintf("its pod %s/%s there has ended (%s)", pod.Namespace, pod.Name, strings.Trim(said, ": ")),
			[]Evidence{fact(ref(pod), "status.reason", strings.Trim(said, ": "), time.Time{})}
	}
	if len(p.Sets) == 0 {
		if p.setsKnow == Yes {
			return "no DaemonSet in the cluster runs it", nil
		}
		return "", nil
	}
	node, _ := v.node(p.Node)
	for _, d := range p.Sets {
		who := fmt.Sprintf("DaemonSet %s/%s", d.Namespace, d.Name)
		for _, pod := range v.podsFor(d, p.Node) {
			_, why, ev := containerWorks(pod, "")
			return fmt.Sprintf("%s has made a pod for it, but %s", who, why), []Evidence{ev}
		}
		if node != nil {
			if why, ev := refuses(d, node); why != "" {
				return who + " " + why, []Evidence{ev}
			}
		}
		if d.Status.DesiredNumberScheduled == 0 {
			return who + " wants no pod on any node" + selectors(d), []Evidence{fact(ref(d), "status.desiredNumberScheduled", "0", time.Time{})}
		}
	}
	for _, d := range p.Sets {
		events, _ := v.eventsOf("DaemonSet", d.Namespace, d.Name, string(d.UID))
		for _, r := range slices.Backward(events) {
			if r.Warning && (r.Reason == "FailedCreate" || r.Reason == "FailedDaemonPod") {
				return fmt.Sprintf("DaemonSet %s/%s says: %s", d.Namespace, d.Name, r.Message), []Evidence{r.evidence()}
			}
		}
	}
	return "", nil
}

// podsFor are the DaemonSet's pods that wait for a place on the node: the controller pins each by a node affinity.
func (v *View) podsFor(d *appsv1.DaemonSet, node string) []*corev1.Pod {
	pods, _ := list[*corev1.Pod](v.world, inPods, snapshot.Query{Namespace: d.Namespace})
	var out []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || !ownedBy(pod, string(d.UID)) || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
			continue
		}
		required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if required == nil {
			continue
		}
		for _, t := range required.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				if f.Key == "metadata.name" && slices.Contains(f.Values, node) {
					out = append(out, pod)
				}
			}
		}
	}
	return out
}

func ownedBy(o snapshot.Object, uid string) bool {
	for _, r := range o.GetOwnerReferences() {
		if string(r.UID) == uid {
			return true
		}
	}
	return false
}

// The taints that the DaemonSet controller makes every pod of its own tolerate (pkg/controller/daemon/util AddOrUpdateDaemonPodTolerations).
var daemonTolerates = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
	corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable}

// refuses tells why a DaemonSet's template keeps its pods off a node; empty: it does not.
func refuses(d *appsv1.DaemonSet, node *corev1.Node) (string, Evidence) {
	spec := &d.Spec.Template.Spec
	taint, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(daemonTolerates, t.Key)
	}, true)
	if found {
		return fmt.Sprintf("does not tolerate the taint %s of node %s", taint.ToString(), node.Name),
			fact(ref(node), "spec.taints", taint.ToString(), time.Time{})
	}
	if fits, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(node); err == nil && !fits {
		return fmt.Sprintf("does not choose node %s%s", node.Name, selectors(d)), fact(ref(d), "spec.template.spec.nodeSelector", selectors(d), time.Time{})
	}
	return "", Evidence{}
}

// selectors writes what a DaemonSet asks of nodes.
func selectors(d *appsv1.DaemonSet) string {
	var parts []string
	for k, val := range d.Spec.Template.Spec.NodeSelector {
		parts = append(parts, k+"="+val)
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		if d.Spec.Template.Spec.Affinity != nil && d.Spec.Template.Spec.Affinity.NodeAffinity != nil {
			return " (its node affinity)"
		}
		return ""
	}
	return " (its nodeSelector asks for " + strings.Join(parts, ", ") + ")"
}

// report is the node's report. Yes with it; No where nobody probed the node, which is the usual case: the objects alone must
// tell. Unknown where it is being asked for, or a report could not be read: what it holds may prove a better cause.
func (w *world) report(node string) (*nodereport.NodeReport, Truth) {
	r, known := get[*snapshot.NodeReport](w, inReports, "", node)
	if known == Yes {
		return &r.Report, Yes
	}
	if known == Unknown {
		if !unprobed(w.facts.GapOf(Report(node))) {
			return nil, Unknown
		}
	}
	return nil, No
}

// unprobed: nobody looked at the node, which is the usual case.
func unprobed(g *snapshot.Gap) bool {
	return g != nil && (g.Reason == "not-probed" || g.Reason == "not-collected")
}

// socketOf is what the report says of the driver's sockets; nil: it does not look at them.
func socketOf(r *nodereport.NodeReport, driver string) *nodereport.Driver {
	for i := range r.Drivers {
		if r.Drivers[i].Name == driver {
			return &r.Drivers[i]
		}
	}
	return nil
}
