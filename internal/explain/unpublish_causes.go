package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// oldFinding begins a finding about a terminating pod.
func (v *View) oldFinding(o old, why string, ev ...Evidence) Finding {
	f := Finding{Where: o.Node, Why: why, Evidence: append([]Evidence{fact(ref(o.Pod), "metadata.deletionTimestamp", o.Pod.DeletionTimestamp.UTC().Format(time.RFC3339), o.Pod.DeletionTimestamp.Time)}, ev...)}
	if !v.at(HopUnpublish) {
		f.Why = sentence(f.Why) + fmt.Sprintf(" Volume %s stays attached to node %s meanwhile.", v.volumeName(), o.Node)
	}
	return f
}

// firstOld asks about each terminating pod until one fits.
func (v *View) firstOld(fits func(old) (Finding, Truth)) (Finding, Truth) {
	olds, known := v.olds()
	return firstFinding(olds, known, fits)
}

func unpublishInProgress(v *View) (Finding, Truth) {
	if !v.at(HopUnpublish) || v.Pod == nil {
		return Finding{}, No
	}
	until := v.Pod.DeletionTimestamp.Add(normalTeardown)
	if !v.now.Before(until) {
		return Finding{}, No
	}
	o := old{v.Pod, v.Node, v.age(v.Pod.DeletionTimestamp.Time)}
	why := fmt.Sprintf("Pod %s/%s was asked to end, and its deletion time passed %s ago.", v.Pod.Namespace, v.Pod.Name, ago(o.Past))
	if o.Past < 0 {
		why = fmt.Sprintf("Pod %s/%s was asked to end and has until %s.", v.Pod.Namespace, v.Pod.Name, v.Pod.DeletionTimestamp.UTC().Format("15:04:05Z"))
	}
	f := v.oldFinding(o, why)
	f.Status, f.Until, f.Confidence = StatusWaiting, &until, Certain
	f.Fix = []Step{say("Wait: the volume is unmounted when the containers have ended."), v.look("Watch it", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "-o", "wide", "-w")}
	return f, Yes
}

func unpublishNodeDead(v *View) (Finding, Truth) {
	if !v.at(HopUnpublish) {
		return Finding{}, No
	}
	if v.asked.Kind == "PersistentVolumeClaim" && v.waitedFor() {
		return Finding{}, No // attach/multi-attach-node-dead tells it of the pod that waits
	}
	return v.firstOld(func(o old) (Finding, Truth) {
		h := &holder{Name: o.Node, Pods: []*corev1.Pod{o.Pod}}
		v.readiness(h)
		if h.known == No && len(o.Pod.Finalizers) > 0 {
			return Finding{}, No // of a node that is gone the finalizer is all that keeps the pod
		}
		if h.Ready != No {
			return Finding{}, min(h.Ready.not(), Unknown)
		}
		state := "is not Ready"
		if h.known == No {
			state = "does not exist any more"
		} else if !h.Since.IsZero() {
			state += " since " + ago(v.age(h.Since))
		}
		f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s is terminating on node %s, which %s: nobody can say that it has ended.", o.Pod.Namespace, o.Pod.Name, o.Node, state), h.Why)
		f.Confidence = Certain
		if h.known == Unknown {
			f.Confidence = Likely // it may be back
		}
		if h.known == No {
			f.Fix = []Step{say("Wait: pods of a node that is gone are removed by the kube-controller-manager within minutes."), v.look("See the pod", "-n", o.Pod.Namespace, "get", "pod", o.Pod.Name, "-o", "yaml")}
			return f, Yes
		}
		f.Fix = v.freeFromDead(h)
		return v.living(f, o.Node), Yes
	})
}

// waitedFor: another pod of the claim waits on another node.
func (v *View) waitedFor() bool {
	pods, _ := v.podsOfClaim()
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil && p.Spec.NodeName != "" && p.Spec.NodeName != v.Node && !mounted(p)
	})
}

// kubeletSays gives the newest line of the kubelet's log that names one of the words and matches.
func kubeletSays(r *nodereport.NodeReport, pattern *regexp.Regexp, words ...string) *nodereport.LogLine {
	for i := len(r.KubeletLog) - 1; i >= 0; i-- {
		l := &r.KubeletLog[i]
		if pattern.MatchString(l.Message) && slices.ContainsFunc(words, func(w string) bool { return w != "" && strings.Contains(l.Message, w) }) {
			return l
		}
	}
	return nil
}

// logged writes a line of a node's log as evidence.
func logged(node, field string, l *nodereport.LogLine) Evidence {
	return fact(Object{Kind: "NodeReport", Name: node}, field, l.Message, l.At)
}

// Words of the kubelet's log when it does not know what it mounted, cannot unmount, and cannot unstage
// (pkg/volume/csi, pkg/volume/util/operationexecutor).
var (
	volDataWords  = regexp.MustCompile(`(?i)failed to (load|open|parse|read) volume data|vol_data\.json|loadVolumeData`)
	tearDownWords = regexp.MustCompile(`UnmountVolume\.TearDown failed|UnmapVolume\.UnmapPodDevice failed|UnmapVolume\.UnmapBlockVolume failed|Unmounter\.TearDownAt failed|error cleaning subPath mounts|orphaned pod .* found`)
	unmountWords  = regexp.MustCompile(`(?i)unpublish|un?mount`)
	targetBusy    = regexp.MustCompile(`(?i)target is busy|device or resource busy|device is busy|\bEBUSY\b`)
)

// publishOf is what the report knows of the volume's folder of one pod.
func (v *View) publishOf(r *nodereport.NodeReport, pod *corev1.Pod) *nodereport.Publish {
	for i := range r.Volumes {
		vol := &r.Volumes[i]
		if !v.isVolume(vol) {
			continue
		}
		for j := range vol.Publishes {
			if vol.Publishes[j].PodUID == string(pod.UID) {
				return &vol.Publishes[j]
			}
		}
	}
	return nil
}

func volDataBroken(v *View) (Finding, Truth) {
	return v.firstOld(func(o old) (Finding, Truth) {
		r, known := v.report(o.Node)
		if r == nil || o.Past < normalTeardown {
			return Finding{}, known
		}
		p := v.publishOf(r, o.Pod)
		broken := p != nil && p.VolDataError != ""
		line := kubeletSays(r, volDataWords, string(o.Pod.UID))
		if !broken && line == nil {
			return Finding{}, No
		}
		f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s stays on node %s since the kubelet cannot read its vol_data.json about volume %s, so it does not know which driver to ask for the unmount.", o.Pod.Namespace, o.Pod.Name, o.Node, v.volumeName()))
		file := "vol_data.json"
		if p != nil {
			file = strings.TrimSuffix(p.Path, "/mount") + "/vol_data.json"
			f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: o.Node}, file, p.VolDataError, r.CollectedAt))
		}
		if line != nil {
			f.Evidence = append(f.Evidence, logged(o.Node, "kubeletLog", line))
		}
		f.Confidence = Certain
		f.Fix = []Step{onNode(o.Node, "see the file, and what is mounted beside it", "sh", "-c", "cat "+quote(file)+"; grep -F "+quote(string(o.Pod.UID))+" /proc/self/mountinfo"),
			say(fmt.Sprintf(`Write the file anew: {"driverName":%q,"nodeName":%q,"specVolID":%q,"volumeHandle":%q,"volumeLifecycleMode":"Persistent","attachmentID":%q}. The kubelet then unmounts by itself.`, v.Driver, o.Node, v.volumeName(), v.Handle, attachmentName(v.Handle, v.Driver, o.Node))),
			say("Make room on the node's disk if it is full. Do not remove the pod's folder.")}
		return f, Yes
	})
}

func unpublishPluginGone(v *View) (Finding, Truth) {
	return v.firstOld(func(o old) (Finding, Truth) {
		if o.Past < normalTeardown || v.Driver == "" || !ended(o.Pod) {
			return Finding{}, No
		}
		_, registered := v.registered(o.Node)
		p := v.plugin(o.Node)
		var why string
		var ev []Evidence
		if pod, reason, e := p.failing(v.taken); pod != nil && !starting(p) {
			why, ev = reason, []Evidence{e}
		} else if len(p.Pods) == 0 && p.known == Yes && (len(p.Sets) > 0 || p.setsKnow == Yes && registered == No) {
			reason, e := v.whyNone(p)
			why, ev = "no pod of its node plugin is there", e
			if reason != "" {
				why += ": " + reason
			}
		} else if r, _ := v.report(o.Node); r != nil {
			d := socketOf(r, v.Driver)
			line := kubeletSays(r, regexp.MustCompile(notRegistered.String()+"|"+socketDead.String()), string(o.Pod.UID), v.Handle)
			switch {
			case d != nil && d.Socket != nil && d.Socket.State != nodereport.SocketOK && d.Socket.State != nodereport.SocketDenied:
				why, ev = fmt.Sprintf("its socket %s is %s", d.Socket.Path, d.Socket.State), []Evidence{fact(Object{Kind: "NodeReport", Name: o.Node}, "drivers["+v.Driver+"].socket", d.Socket.State+" "+d.Socket.Error, r.CollectedAt)}
			case line != nil:
				why, ev = "the kubelet says so", []Evidence{logged(o.Node, "kubeletLog", line)}
			}
		}
		if why == "" && registered == No {
			why, ev = "the node's CSINode does not list it", []Evidence{fact(Object{Kind: "CSINode", Name: o.Node}, "spec.drivers", "does not list "+v.Driver, time.Time{})}
		}
		if why == "" {
			return Finding{}, registered.told().and(p.told()).not()
		}
		f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s stays on node %s since the kubelet cannot reach the driver %s there to unmount volume %s: %s.", o.Pod.Namespace, o.Pod.Name, o.Node, v.Driver, v.volumeName(), why), ev...)
		f.Confidence = Certain
		f.Fix = append([]Step{v.look("See what is on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+o.Node)},
			say(fmt.Sprintf("Bring the node plugin of %s back on node %s; the kubelet repeats the unmount by itself, at least every two minutes. Do not force the pod's deletion: the mount would stay.", v.Driver, o.Node)))
		return f, Yes
	})
}

// hungTask is a process that waits in the kernel and has to do with the path.
func hungTask(r *nodereport.NodeReport, words ...string) *nodereport.Task {
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if inKernel(t) && slices.ContainsFunc(words, func(w string) bool { return w != "" && strings.Contains(t.Args, w) || w != "" && t.PodUID == w }) {
			return t
		}
	}
	return nil
}

func mountBusy(v *View) (Finding, Truth) {
	return v.firstOld(func(o old) (Finding, Truth) {
		r, known := v.report(o.Node)
		if r == nil || o.Past < normalTeardown {
			return Finding{}, known
		}
		p := v.publishOf(r, o.Pod)
		task := hungTask(r, string(o.Pod.UID))
		line := kubeletSays(r, targetBusy, string(o.Pod.UID))
		hung := p != nil && p.Stat == "hung"
		if task == nil && line == nil && !hung {
			return Finding{}, No
		}
		var ev []Evidence
		server := ""
		if p != nil {
			table, _ := mountinfo.Parse(r.Mountinfo)
			if m, ok := table.At(p.Path); ok {
				server = m.Source
				ev = append(ev, fact(Object{Kind: "NodeReport", Name: o.Node}, "mountinfo", fmt.Sprintf("%s is mounted from %s (%s, %s)", p.Path, m.Source, m.FSType, m.VFSOptions), r.CollectedAt))
			}
			if hung {
				ev = append(ev, fact(Object{Kind: "NodeReport", Name: o.Node}, p.Path, "does not answer", r.CollectedAt))
			}
		}
		if task != nil {
			ev = append(ev, fact(Object{Kind: "NodeReport", Name: o.Node}, fmt.Sprintf("tasks[%d]", task.PID), fmt.Sprintf("%s %s: state %s in %s for %s", task.Comm, task.Args, task.State, task.Wchan, ago(time.Duration(task.Seconds)*time.Second)), r.CollectedAt))
		}
		if line != nil {
			ev = append(ev, logged(o.Node, "kubeletLog", line))
		}
		for i := range r.KernelLog {
			if l := &r.KernelLog[i]; strings.Contains(l.Message, "not responding") && (server == "" || strings.Contains(server, hostIn(l.Message)) || hostIn(l.Message) == "") {
				ev = append(ev, logged(o.Node, "kernelLog", l))
			}
		}
		what := "something has it open"
		n := v.factsOf(r, o.Node)
		for i := range r.Devices {
			d := &r.Devices[i]
			if d.BackingFile == "" || !strings.Contains(d.BackingFile, string(o.Pod.UID)) && (p == nil || !strings.HasPrefix(d.BackingFile, p.Path)) {
				continue
			}
			what = fmt.Sprintf("device %s is set up on it", describe(d))
			ev = append(ev, n.seenDevice(d))
			if top := n.named(d.Holders); top != nil {
				what += fmt.Sprintf(", and %s (%s%s) stands on that", describe(top), top.Kind, strings.Join(prefixed(" ", top.Links), ""))
				ev = append(ev, n.seenDevice(top))
			}
		}
		if hung || task != nil {
			what = "what is behind it does not answer, and the unmount waits in the kernel"
			if server != "" {
				what = fmt.Sprintf("%s, which is behind it, does not answer, and the unmount waits in the kernel", server)
			}
		}
		f := v.oldFinding(o, fmt.Sprintf("The mount of volume %s of pod %s/%s on node %s cannot be undone: %s.", v.volumeName(), o.Pod.Namespace, o.Pod.Name, o.Node, what), ev...)
		f.Confidence = Certain
		f.Fix = []Step{onNode(o.Node, "see what is mounted and who waits", "sh", "-c", "grep -F "+quote(string(o.Pod.UID))+" /proc/self/mountinfo; ps -eo pid,stat,wchan,args | grep ' D'")}
		if server != "" && (hung || task != nil) {
			f.Fix = append(f.Fix, say(fmt.Sprintf("Bring the server of %s back, if only for a moment and empty under the same name and address: the unmount then goes through by itself.", server)))
		} else {
			f.Fix = append(f.Fix, onNode(o.Node, "see which processes have it open", "fuser", "-vm", mountOf(p, o)),
				hazard(DangerDisruptive, "a process of the list is of no pod that runs", "End that process; the unmount then goes through by itself."),
				say("Ask again when it has ended."))
		}
		f.Fix = append(f.Fix, hazard(DangerDataLoss, "the server never comes back, and what was not written yet may be lost", "Only then: force the unmount on the node (umount -f), or drain and reboot the node."))
		return f, Yes
	})
}

func mountOf(p *nodereport.Publish, o old) string {
	if p != nil {
		return p.Path
	}
	return "/var/lib/kubelet/pods/" + string(o.Pod.UID)
}

var serverWord = regexp.MustCompile(`server (\S+?),? not responding`)

// hostIn is the server that a line of the kernel's log names.
func hostIn(message string) string {
	if m := serverWord.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// nodeGone: the node's object does not exist.
func (v *View) nodeGone(name string) bool {
	_, known := v.node(name)
	return known == No
}

// killTrouble is the kubelet's error in force of ending a pod: its containers or its sandbox do not go (pkg/kubelet killPod), which
// it does before it lets any volume go.
func (v *View) killTrouble(pod *corev1.Pod) (*report, Truth) {
	if r := v.lastWarning(pod); r != nil && r.Reason == "FailedKillPod" {
		return r, Yes
	}
	_, known := v.eventsOf("Pod", pod.Namespace, pod.Name, string(pod.UID))
	return nil, known.not()
}

func unpublishNotTheVolume(v *View) (Finding, Truth) {
	return v.firstOld(func(o old) (Finding, Truth) {
		if o.Past < normalTeardown {
			return Finding{}, No
		}
		if r, _ := v.killTrouble(o.Pod); r != nil {
			f := v.oldFinding(o, fmt.Sprintf("The kubelet of node %s cannot end pod %s/%s, and unmounts its volumes only when it has: %s", o.Node, o.Pod.Namespace, o.Pod.Name, plainWords(r.Message)), r.evidence())
			f.Confidence = Certain
			f.Fix = []Step{v.look("See what the kubelet says of it", "-n", o.Pod.Namespace, "describe", "pod", o.Pod.Name),
				say("Mend what it says (the network plugin, the container runtime); the kubelet repeats it by itself, and the volume follows.")}
			return f, Yes
		}
		switch {
		case len(o.Pod.Finalizers) > 0 && (ended(o.Pod) || v.nodeGone(o.Node)):
			f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s has ended and is kept by its finalizer %s.", o.Pod.Namespace, o.Pod.Name, strings.Join(o.Pod.Finalizers, ", ")),
				fact(ref(o.Pod), "metadata.finalizers", strings.Join(o.Pod.Finalizers, ", "), time.Time{}))
			f.Confidence = Likely
			if v.attachRequired() == Yes && v.inUse(o.Node) == No {
				f.Confidence = Certain // its node has let the volume go
			}
			f.Fix = []Step{v.look("See the pod and who put the finalizer there", "-n", o.Pod.Namespace, "get", "pod", o.Pod.Name, "-o", "yaml", "--show-managed-fields"),
				say("Ask the finalizer's owner (the part before the slash names it) why it does not let the pod go. Do not take it away by hand.")}
			return f, Yes
		case !ended(o.Pod):
			_, known := v.report(o.Node)
			if ready, _ := v.nodeReady(o.Node); ready == Unknown || ready == Yes && known == Unknown {
				return Finding{}, Unknown
			} else if ready == No {
				return Finding{}, No // its kubelet cannot say that they have ended
			}
			f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s should have ended %s ago, and a container of it still runs on node %s: the volume's turn has not come.", o.Pod.Namespace, o.Pod.Name, ago(o.Past), o.Node),
				fact(ref(o.Pod), "status.containerStatuses", "running", time.Time{}))
			f.Confidence = Likely
			if r := v.lastWarning(o.Pod); r != nil {
				f.Why = sentence(f.Why) + " Its kubelet says: " + sentence(r.Message)
				f.Evidence = append(f.Evidence, r.evidence())
			}
			f.Fix = []Step{v.look("See what the kubelet says of it", "-n", o.Pod.Namespace, "describe", "pod", o.Pod.Name),
				onNode(o.Node, "see whether its processes wait in the kernel (state D) or the runtime does not end them", "sh", "-c", "crictl ps -a | grep "+quote(o.Pod.Name)+"; ps -eo pid,stat,wchan,args | grep ' D'")}
			return f, Yes
		}
		return Finding{}, No
	})
}

// orphanKeeps: a node keeps the volume since it is mounted still for a pod that does not exist any more.
func (v *View) orphanKeeps() (Finding, Truth) {
	return v.firstKeeper(func(h *holder) (Finding, Truth) {
		r, known := v.report(h.Name)
		if r == nil {
			return Finding{}, known
		}
		gone, podsKnown := v.orphansOf(r, h.Name)
		table, _ := mountinfo.Parse(r.Mountinfo)
		i := slices.IndexFunc(gone, func(o nodereport.Orphan) bool {
			return slices.ContainsFunc(table.Below(o.Path), func(m mountinfo.Mount) bool { pod, _ := v.mountedAt(m.Mountpoint); return pod })
		})
		if i < 0 {
			return Finding{}, No
		}
		left := v.orphanFinding(r, h.Name, gone[i], podsKnown)
		f := v.keeperFinding(h, left.Why+" So node "+h.Name+" keeps volume "+v.volumeName()+".", left.Evidence...)
		f.Confidence, f.Fix = left.Confidence, left.Fix
		if line := kubeletSays(r, unmountDevice, v.Handle, v.volumeName()); line != nil {
			f.Evidence = append(f.Evidence, logged(h.Name, "kubeletLog", line))
		}
		return f, Yes
	})
}

func orphanedPodDir(v *View) (Finding, Truth) {
	if !v.at(HopUnpublish) {
		return v.orphanKeeps()
	}
	if v.Pod != nil || v.Node == "" {
		return Finding{}, No
	}
	r, known := v.report(v.Node)
	if r == nil {
		return Finding{}, known
	}
	gone, podsKnown := v.orphansOf(r, v.Node)
	if len(gone) == 0 {
		return Finding{}, No
	}
	f := v.orphanFinding(r, v.Node, gone[0], podsKnown)
	f.Status = StatusDegraded
	return f, Yes
}

// orphanFinding tells of the folder of a pod that is gone.
func (v *View) orphanFinding(r *nodereport.NodeReport, node string, o nodereport.Orphan, podsKnown Truth) Finding {
	what := fmt.Sprintf("%d mounts and %d entries", o.Mounts, o.Entries)
	f := Finding{Confidence: Certain,
		Why:      fmt.Sprintf("On node %s the folder %s of a pod that does not exist any more still holds %s.", node, o.Path, what),
		Evidence: []Evidence{fact(Object{Kind: "NodeReport", Name: node}, "orphans["+o.PodUID+"]", what, r.CollectedAt)}}
	if podsKnown != Yes {
		f.Confidence = Likely // the report's word alone
	}
	table, _ := mountinfo.Parse(r.Mountinfo)
	for _, m := range table.Below(o.Path) {
		f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: node}, "mountinfo", m.Mountpoint+" is mounted from "+m.Source, r.CollectedAt))
	}
	f.Fix = []Step{onNode(node, "see what is mounted there", "grep", "-F", o.Path, "/proc/self/mountinfo"),
		hazard(DangerDisruptive, "no pod of that UID runs on the node", "Unmount each mount below it (umount, without force), until the list is empty."),
		say("If files lie there that are not on a mount, keep a copy: a pod may have written them. Then take the empty folders away one by one with rmdir, which refuses what is not empty. The kubelet does the rest.")}
	return f
}

func unpublishDriverError(v *View) (Finding, Truth) {
	return v.firstOld(func(o old) (Finding, Truth) {
		if o.Past < normalTeardown {
			return Finding{}, No
		}
		_, kills := v.killTrouble(o.Pod)
		r, known := v.report(o.Node)
		if r == nil && known == Unknown || v.Driver == "" && (v.claimKnown == Unknown || v.pvKnown == Unknown) {
			return Finding{}, Unknown
		}
		fix := []Step{onNode(o.Node, "read what the kubelet says of the unmount", "journalctl", "-u", "kubelet", "--since=-30min", "-g", string(o.Pod.UID))}
		if p := v.plugin(o.Node); len(p.Pods) > 0 {
			fix = append(fix, v.look("Read the driver's log on the node", "-n", p.Pods[0].Namespace, "logs", p.Pods[0].Name, "--all-containers", "--tail=100"))
		}
		ready, _ := v.nodeReady(o.Node)
		if ready == Unknown {
			return Finding{}, Unknown
		}
		if ready == No {
			return Finding{}, No // no kubelet works on it
		}
		if r == nil {
			if !ended(o.Pod) {
				return Finding{}, No
			}
			if kills != No {
				return Finding{}, min(kills.not(), Unknown)
			}
			f := v.oldFinding(o, fmt.Sprintf("Pod %s/%s has ended on node %s and should be gone since %s, and its volume %s is not let go. Why stands in the log of that node's kubelet only.", o.Pod.Namespace, o.Pod.Name, o.Node, ago(o.Past), v.volumeName()))
			f.Rest, f.Confidence, f.Fix = true, Possible, fix
			if said := v.pluginError(o.Node, unmountWords); said != nil {
				f.Confidence, f.Evidence = Likely, append(f.Evidence, said.Evidence)
				f.Why = strings.Replace(f.Why, "Why stands in the log of that node's kubelet only.", "The driver's log says: "+plainWords(said.Text), 1)
			}
			return f, Yes
		}
		line := kubeletSays(r, tearDownWords, string(o.Pod.UID))
		p := v.publishOf(r, o.Pod)
		if line == nil && p == nil {
			return Finding{}, No
		}
		f := v.oldFinding(o, fmt.Sprintf("The driver %s cannot unmount volume %s from pod %s/%s on node %s.", v.Driver, v.volumeName(), o.Pod.Namespace, o.Pod.Name, o.Node))
		f.Confidence = Likely
		if line != nil {
			_, words := grpc(line.Message)
			f.Why = strings.Replace(f.Why, "on node "+o.Node+".", "on node "+o.Node+": "+words, 1)
			f.Evidence = append(f.Evidence, logged(o.Node, "kubeletLog", line))
			f.Confidence = Certain
		}
		if p != nil {
			state := "is mounted"
			table, _ := mountinfo.Parse(r.Mountinfo)
			if _, ok := table.At(p.Path); !ok && !v.factsOf(r, o.Node).whole {
				state = "may be mounted: not every mount of the node could be seen"
			} else if !ok {
				state = "is not mounted"
				if p.Entries != nil && *p.Entries > 0 {
					state = fmt.Sprintf("is not mounted and holds %d entries: local files, not the volume's", *p.Entries)
					fix = append(fix, say(fmt.Sprintf("The folder %s holds files that were written beside the volume. Copy them to a safe place first; then move them out of the folder, and the unmount goes through.", p.Path)))
				}
			}
			f.Why = sentence(f.Why) + fmt.Sprintf(" The pod's path %s.", state)
			f.Evidence = append(f.Evidence, fact(Object{Kind: "NodeReport", Name: o.Node}, p.Path, state, r.CollectedAt))
		}
		f.Fix = fix
		return f, Yes
	})
}
