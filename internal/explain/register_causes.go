package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pluginFinding begins a finding about the plugin on a node.
func (v *View) pluginFinding(node string, why string, ev ...Evidence) Finding {
	f := Finding{Why: why}
	if _, known := v.registered(node); known == No {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: node}, "spec.drivers", "does not list "+v.Driver, time.Time{}))
	}
	if t := v.mountTrouble(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Evidence = append(f.Evidence, ev...)
	return f
}

func registerInProgress(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" {
		return Finding{}, No
	}
	node, known := v.node(v.Node)
	p := v.plugin(v.Node)
	if _, known := v.registered(v.Node); known == Unknown {
		if t := v.mountTrouble(); t == nil || t.At.Before(p.startedAt()) {
			return Finding{}, Unknown
		}
	}
	since, what := time.Time{}, ""
	if node != nil && v.age(node.CreationTimestamp.Time) < normalRegister {
		since, what = node.CreationTimestamp.Time, fmt.Sprintf("node %s is only %s old", v.Node, ago(v.age(node.CreationTimestamp.Time)))
		for _, d := range p.Sets {
			if why, _ := refuses(d, node); why != "" && len(p.Pods) == 0 {
				return Finding{}, No // it will never come
			}
		}
		if p.told() == Unknown {
			return Finding{}, Unknown
		}
	}
	for _, pod := range p.Pods {
		if born := pod.CreationTimestamp.Time; v.age(born) < normalRegister && born.After(since) && starting(p) {
			since, what = born, fmt.Sprintf("pod %s/%s is only %s old", pod.Namespace, pod.Name, ago(v.age(born)))
		}
	}
	if since.IsZero() {
		return Finding{}, min(p.known.not().or(read(known).not()), Unknown)
	}
	until := since.Add(normalRegister)
	f := v.pluginFinding(v.Node, fmt.Sprintf("The driver %s is still starting on node %s: %s.", v.Driver, v.Node, what))
	f.Status, f.Until, f.Confidence = StatusWaiting, &until, Likely
	f.Fix = []Step{say("Wait: the kubelet tries again by itself."), v.look("Watch the driver's pod", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node)}
	return f, Yes
}

// starting: no container of the plugin has failed yet, it only takes its time.
func starting(p plugin) bool {
	for _, pod := range p.Pods {
		for _, s := range pod.Status.ContainerStatuses {
			if s.RestartCount > 0 || s.State.Terminated != nil || s.State.Waiting != nil && s.State.Waiting.Reason != "" &&
				s.State.Waiting.Reason != "ContainerCreating" && s.State.Waiting.Reason != "PodInitializing" {
				return false
			}
		}
	}
	return true
}

func pluginPodMissing(v *View) (Finding, Truth) {
	node := v.Node
	switch {
	case v.at(HopRegister) && v.Driver != "":
	case v.at(HopSchedule, HopProvision):
		return pluginNowhere(v)
	default:
		return Finding{}, No
	}
	p := v.plugin(node)
	if len(p.Pods) > 0 {
		return Finding{}, No
	}
	if p.known != Yes || len(p.Sets) == 0 && p.setsKnow != Yes {
		return Finding{}, Unknown
	}
	if _, known := v.node(node); known == Unknown && v.age(v.scheduledAt()) < normalRegister {
		return Finding{}, Unknown // a young node gets it yet
	}
	if _, known := v.registered(node); known == Unknown && len(p.Sets) == 0 {
		return Finding{}, Unknown // nothing says that one should be there, and it may be registered
	}
	why, ev := v.whyNone(p)
	f := v.pluginFinding(node, fmt.Sprintf("No pod of the driver %s runs on node %s: %s.", v.Driver, node, cmp.Or(why, "its DaemonSet has made none")), ev...)
	f.Confidence = Certain
	f.Fix = []Step{v.look("See what is on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+node)}
	for _, d := range p.Sets {
		f.Fix = append(f.Fix, v.look("See what the DaemonSet asks of nodes, and what it says", "-n", d.Namespace, "describe", "daemonset", d.Name))
	}
	if len(p.Sets) == 0 {
		f.Fix = append(f.Fix, say("Install the driver's node plugin, or put it back."))
	} else {
		f.Fix = append(f.Fix, say("Let the DaemonSet run there: add the toleration, change its nodeSelector, or free what it lacks on the node. The pod is mounted by itself as soon as the driver registers."))
	}
	return f, Yes
}

func pluginPodFailing(v *View) (Finding, Truth) {
	switch {
	case v.at(HopRegister) && v.Driver != "":
	case v.at(HopSchedule, HopProvision):
		return pluginFailsEverywhere(v)
	default:
		return Finding{}, No
	}
	p := v.plugin(v.Node)
	pod, why, ev := p.failing(v.taken)
	if pod == nil {
		if len(p.Pods) > 0 {
			return Finding{}, No
		}
		return Finding{}, min(p.known.not(), Unknown)
	}
	if starting(p) && v.age(pod.CreationTimestamp.Time) < normalRegister {
		return Finding{}, No // it only takes its time
	}
	if _, known := v.report(v.Node); known == Unknown && mounted(pod) && allRun(pod, v.taken) {
		return Finding{}, Unknown // it runs and is not ready: the report would tell why
	}
	return v.ofFailing(v.pluginFinding(v.Node, fmt.Sprintf("The driver %s does not run on node %s: %s.", v.Driver, v.Node, why), ev), pod), Yes
}

// ofFailing adds to a finding what shows why a pod of the plugin does not run.
func (v *View) ofFailing(f Finding, pod *corev1.Pod) Finding {
	if r := v.lastWarning(pod); r != nil {
		f.Evidence = append(f.Evidence, r.evidence())
		f.Why = strings.TrimSuffix(f.Why, ".") + " (" + r.Message + ")."
	}
	for _, c := range pod.Status.ContainerStatuses {
		if e := c.LastTerminationState.Terminated; e != nil && e.Message != "" && !c.Ready {
			f.Evidence = append(f.Evidence, fact(ref(pod), "status.containerStatuses["+c.Name+"].lastState.terminated", e.Message, e.FinishedAt.Time))
			f.Why = sentence(f.Why) + " Container " + c.Name + " ended with: " + sentence(e.Message)
		}
	}
	if why, ev := registrarFault(pod); why != "" {
		f.Why = sentence(f.Why) + " " + why
		f.Evidence = append(f.Evidence, ev)
	}
	f.Confidence = Certain
	f.Fix = []Step{v.look("See why", "-n", pod.Namespace, "describe", "pod", pod.Name),
		v.look("Read what it said last", "-n", pod.Namespace, "logs", pod.Name, "--all-containers", "--previous", "--tail=50"),
		say("Mend what it says; the waiting pod is mounted by itself as soon as the driver registers.")}
	return f
}

// allRun: every container of the pod runs, ready or not, and none crashes but the registrar, which does when the driver fails it.
func allRun(p *corev1.Pod, taken time.Time) bool {
	return !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running == nil || s.Name != registrar(p) && crashes(s, taken)
	})
}

// nodeInfoWords: the kubelet asked NodeGetInfo and got an error (pkg/volume/csi RegisterPlugin, nodeinfomanager).
var nodeInfoWords = regexp.MustCompile(`(?i)error getting CSI node info|NodeGetInfo|error updating (Node|CSINode) object with CSI driver node info|driverNodeID must not be empty|detected topology value collision`)

func nodeInfoFailing(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" {
		return Finding{}, No
	}
	p := v.plugin(v.Node)
	for _, pod := range p.Pods {
		for _, c := range pod.Status.ContainerStatuses {
			if e := c.LastTerminationState.Terminated; !c.Ready && e != nil && nodeInfoWords.MatchString(e.Message) {
				f := v.pluginFinding(v.Node, fmt.Sprintf("On node %s the driver %s answers the kubelet's question who the node is with an error, so it is not registered: %s", v.Node, v.Driver, e.Message),
					fact(ref(pod), "status.containerStatuses["+c.Name+"].lastState.terminated.message", e.Message, e.FinishedAt.Time))
				f.Fix = []Step{v.pluginLogs(), say("Mend what the driver says (its metadata service, permissions, or the node's labels); it registers by itself then.")}
				return f, Yes
			}
		}
	}
	r, known := v.report(v.Node)
	if r == nil {
		return Finding{}, known
	}
	d := socketOf(r, v.Driver)
	text := ""
	if d != nil && saysNotReady(d) {
		return Finding{}, No // whatever else it is asked, it has said why
	}
	if d != nil && d.Node != nil && (d.Socket == nil || d.Socket.State == "ok") { // a dead socket answers no question
		text = d.Node.Error
	}
	for _, l := range r.KubeletLog {
		if (names(l.Message, v.Driver) || d != nil && d.Registration != nil && strings.Contains(l.Message, d.Registration.Path)) && nodeInfoWords.MatchString(l.Message) {
			text = cmp.Or(text, l.Message)
		}
	}
	if text == "" {
		return Finding{}, No
	}
	f := v.pluginFinding(v.Node, fmt.Sprintf("On node %s the driver %s answers the kubelet's question who the node is with an error, so it is not registered: %s", v.Node, v.Driver, text),
		fact(Object{Kind: "NodeReport", Name: v.Node}, "drivers["+v.Driver+"].node.error", text, r.CollectedAt))
	f.Confidence = Certain
	f.Fix = []Step{v.pluginLogs(), say("Mend what the driver says (its metadata service, permissions, or the node's labels); it registers by itself then.")}
	return f, Yes
}

// pluginLogs is a step that shows what the plugin on the view's node says.
func (v *View) pluginLogs() Step {
	if p := v.plugin(v.Node); len(p.Pods) > 0 {
		return v.look("Read the driver's log on the node", "-n", p.Pods[0].Namespace, "logs", p.Pods[0].Name, "--all-containers", "--tail=100")
	}
	return v.look("Find the driver's pod on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node)
}

func registerSocketDead(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" {
		return Finding{}, No
	}
	r, known := v.report(v.Node)
	unseen := v.plugin(v.Node).known == Unknown // a pod that crashes would be the cause, and one that just started would do
	if r != nil {
		if d := v.driverIn(r); d != nil && deadSocket(d) {
			if unseen {
				return Finding{}, Unknown
			}
			f := v.pluginFinding(v.Node, fmt.Sprintf("On node %s nobody answers at the driver's socket %s (%s).", v.Node, d.Socket.Path, d.Socket.State),
				fact(Object{Kind: "NodeReport", Name: v.Node}, "drivers["+v.Driver+"].socket", d.Socket.Path+" "+d.Socket.State+" "+d.Socket.Error, r.CollectedAt))
			f.Confidence = Certain
			f.Fix = v.restartPlugin(v.Node)
			return f, Yes
		}
	}
	t := v.mountTrouble()
	if t != nil && socketDead.MatchString(t.Text) {
		if unseen {
			return Finding{}, Unknown
		}
		f := v.pluginFinding(v.Node, fmt.Sprintf("On node %s the kubelet knows the driver %s and nobody answers at its socket: %s", v.Node, v.Driver, t.Text))
		f.Fix = v.restartPlugin(v.Node)
		return f, Yes
	}
	if r == nil && known == Unknown {
		return Finding{}, Unknown
	}
	return Finding{}, No
}

// restartPlugin: let the DaemonSet make the node's plugin anew.
func (v *View) restartPlugin(node string) []Step {
	p := v.plugin(node)
	if len(p.Pods) == 0 {
		return []Step{v.look("Find the driver's pod on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+node)}
	}
	pod := p.Pods[0]
	return []Step{
		v.look("Read what the driver said last on the node, and see whether its mounts are FUSE mounts served from inside its container", "-n", pod.Namespace, "logs", pod.Name, "--all-containers", "--tail=100"),
		v.act(DangerDisruptive, "no volume of the driver on the node is a FUSE mount that is served from inside its container", "Let the DaemonSet make the plugin's pod on the node anew", "-n", pod.Namespace, "delete", "pod", pod.Name),
	}
}

func registerNotReady(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" {
		return Finding{}, No
	}
	r, known := v.report(v.Node)
	if r == nil {
		return Finding{}, known
	}
	d := v.driverIn(r)
	if d == nil || !saysNotReady(d) {
		return Finding{}, No
	}
	f := v.pluginFinding(v.Node, fmt.Sprintf("On node %s the driver %s answers that it is not ready. %s", v.Node, v.Driver, d.Identity.Error),
		fact(Object{Kind: "NodeReport", Name: v.Node}, "drivers["+v.Driver+"].identity.ready", "no", r.CollectedAt))
	f.Confidence = Certain
	f.Fix = []Step{v.pluginLogs(), say("Give the driver what its log says that it waits for.")}
	return f, Yes
}

func registerNotRegistered(v *View) (Finding, Truth) {
	if !v.at(HopRegister) || v.Driver == "" {
		return Finding{}, No
	}
	p := v.plugin(v.Node)
	if t := v.mountTrouble(); len(p.Pods) == 0 && p.known == Unknown && t != nil && notRegistered.MatchString(t.Text) {
		f := v.pluginFinding(v.Node, fmt.Sprintf("The kubelet of node %s has no registration of the driver %s. Whether the driver's pod runs there could not be read.", v.Node, v.Driver))
		f.Rest, f.Said, f.Confidence, f.Fix = true, true, Possible, []Step{v.pluginLogs()}
		return f, Yes
	}
	if len(p.Pods) == 0 {
		return Finding{}, min(p.known.not(), Unknown)
	}
	if _, known := v.registered(v.Node); known == Unknown {
		if t := v.mountTrouble(); t == nil || !notRegistered.MatchString(t.Text) {
			return Finding{}, Unknown
		}
	}
	pod := p.Pods[0]
	f := v.pluginFinding(v.Node, fmt.Sprintf("Pod %s/%s of the driver %s runs on node %s, and the kubelet there has no registration of the driver.", pod.Namespace, pod.Name, v.Driver, v.Node),
		fact(ref(pod), "status.phase", string(pod.Status.Phase), pod.CreationTimestamp.Time))
	f.Fix = append([]Step{v.look("See whether the registrar was ever asked by the kubelet, and what it says", "-n", pod.Namespace, "logs", pod.Name, "-c", registrar(pod), "--tail=50")},
		append([]Step{onNode(v.Node, "see what the kubelet says of the registration", "journalctl", "-u", "kubelet", "--since=1 hour ago", "-g", "RegisterPlugin|plugins_registry")}, v.restartPlugin(v.Node)[1:]...)...)
	if why, ev := registrarFault(pod); why != "" {
		f.Why += " " + why
		f.Evidence, f.Confidence = append(f.Evidence, ev), Likely
		return f, Yes
	}
	f.Rest, f.Said = true, true
	if r, known := v.report(v.Node); r != nil {
		f.Confidence = Certain
		for _, l := range r.KubeletLog {
			if strings.Contains(l.Message, "RegisterPlugin") && names(l.Message, v.Driver) {
				f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: v.Node}, "kubeletLog", l.Message, l.At))
			}
		}
	} else if known == No {
		f.Confidence = Possible
		f.Why += " Whether its socket answers was not looked at."
	}
	return f, Yes
}
