package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// startHop: the containers run with the volume.
func startHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case v.Pod.DeletionTimestamp != nil:
		return skippedHop("the pod is terminating")
	case finished(v.Pod):
		return okHop(string(v.Pod.Status.Phase))
	case !v.mounted():
		return laterHop("")
	}
	if h := v.silentHop(HopStart); h.Status != StatusOK || ready(v.Pod) {
		return h
	}
	since := v.Pod.CreationTimestamp.Time
	if c := podCondition(v.Pod, "Ready"); c != nil && !c.LastTransitionTime.IsZero() {
		since = c.LastTransitionTime.Time
	}
	return v.openHop(since, normalMount, ref(v.Pod), "mounted, and the pod is not ready")
}

var startCauses = []Cause{{
	ID:    "start/ownership-slow",
	Title: "The files of the volume are being given to the pod's group or label",
	Doc: `With fsGroup set, the kubelet (or the driver) walks over every file of the volume before the pod starts; the runtime does the same for SELinux labels. A volume
with millions of files takes long.

To be sure: the pod's events count the files; the count grows. When the count begins again, the walk is broken off each time and never ends.

Wait while it advances. fsGroupChangePolicy: OnRootMismatch skips the walk when the top folder fits already.`,
	Match: ownershipSlow,
}, {
	ID:    "start/subpath",
	Title: "A subPath of the volume cannot be made or is broken",
	Doc: `The container mounts a folder or file inside the volume by subPath. It could not be made (permission, read-only, a file where a folder should be), or it was
replaced or deleted on the volume while the pod runs.

To be sure: look at that path on the volume.

The volume itself is mounted rightly. A new pod is given the path anew.`,
	Match: subPathBroken,
}, {
	ID:    "start/mount-broken",
	Title: "The mount under the container is dead",
	Doc: `The container keeps the mount that it was started with. When the FUSE process behind it ends or the server forgets it, every access fails, though the driver may
have mounted the volume anew on the node since.

To be sure: in the container ls on the path says "Transport endpoint is not connected" or "Stale file handle"; on the node it works.

A new pod gets the new mount. Restarting only the driver's plugin can kill the mounts of all other pods.`,
	Match: mountCause("start/mount-broken", "The mount of volume VOLUME under pod POD is dead", fixMountBroken),
}, {
	ID:    "start/read-only",
	Title: "The filesystem went read-only after an error",
	Doc: `The kernel stops writing to a filesystem after an I/O error or when it finds its metadata damaged. The device may be back; the filesystem stays read-only until it
is unmounted, checked and mounted again.

To be sure: the mount shows ro, or the kernel's log "Remounting filesystem read-only" or "shutting down filesystem".

Find out what broke the device before you use it again, and take a copy before a repair.`,
	Match: mountCause("start/read-only", "The filesystem of volume VOLUME is read-only for pod POD", fixReadOnly),
}, {
	ID:    "start/full",
	Title: "The volume has no space or no inodes left",
	Doc: `The filesystem is full, or has no inodes left for new files though there is space.

To be sure: df and df -i in the container at the volume's path.

Grow the claim, or delete what is not needed. Databases often need some space to start before they can free any.`,
	Match: mountCause("start/full", "There is no space left for pod POD, which has volume VOLUME", fixFull),
}, {
	ID:    "start/not-the-volume",
	Title: "The volume is there; the pod does not run for another reason",
	Doc: `The kubelet has mounted the volume. The pod does not run or is not ready since its image cannot be pulled, its program ends, its sandbox cannot be made, another of
its volumes is at fault, or it is not ready yet.

To be sure: the finding quotes what the container or the kubelet says.

Nothing on the volume has to be changed.`,
	Match: containerFails,
}, {
	ID:    "start/in-progress",
	Title: "The volume is being mounted",
	Doc: `The kubelet mounts the volume and starts the containers. That is normal for up to 3 minutes; nothing tells which call runs.

Wait.`,
	Match: startInProgress,
}}

// walksFiles is the kubelet's event while it gives files to a group (pkg/volume, VolumeOwnership.logWarning).
const walksFiles = "VolumePermissionChangeInProgress"

var filesDone = regexp.MustCompile(`processed (\d+) files`)

// ownershipSlow: the kubelet counts the files that it has given to the group; or the report or the words show that a driver or
// the runtime walks over them.
func ownershipSlow(v *View) (Finding, Truth) {
	words := mountCause("start/ownership-slow", "Starting pod POD takes too long, since the files of volume VOLUME are given to its group or label", fixOwnership)
	if !v.at(HopStage, HopPublish) {
		return words(v)
	}
	events, _ := v.podEvents()
	if v.mountTrouble() == nil { // while one pod's walk goes on, the others of the claim wait for it in silence
		for _, p := range v.neighbours() {
			other, _ := v.eventsOf("Pod", p.Namespace, p.Name, string(p.UID))
			events = append(events, other...)
		}
	}
	if r := v.reportAtHand(v.Node); r != nil { // the same words stand in the kubelet's log
		for _, l := range r.KubeletLog {
			if strings.Contains(l.Message, "Setting volume ownership for ") {
				events = append(events, report{Object: Object{Kind: "NodeReport", Name: v.Node}, Reason: walksFiles, Message: l.Message, Source: "kubelet's log", First: l.At, Last: l.At, Count: 1})
			}
		}
	}
	var first, last *report
	walked, again := 0, 0
	for i, r := range events {
		if r.Reason != walksFiles || !names(r.Message, strings.ReplaceAll(v.volumeName(), "/", "~")) {
			continue
		}
		if first == nil {
			first = &events[i]
		}
		last = &events[i]
		n := 0
		if m := filesDone.FindStringSubmatch(r.Message); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		if n < walked && r.Count == 1 {
			again++
		}
		walked = n
	}
	if last == nil || v.age(last.Last) > recent {
		return words(v)
	}
	f := Finding{Status: StatusWaiting, Confidence: Certain, Evidence: []Evidence{first.evidence(), last.evidence()}, Fix: fixOwnership(v, nil)}
	f.Why = fmt.Sprintf("The volume %s is mounted on node %s, and the kubelet is giving its files to the pod's group since %s: %s. The pod starts when it has walked over all of them.",
		v.volumeName(), v.Node, ago(v.age(first.First)), last.Message)
	if again >= 2 {
		f.Status, f.Confidence = StatusStuck, Likely
		f.Why = fmt.Sprintf("The volume %s is mounted on node %s, and the kubelet gives its files to the pod's group, but it began from the start %d times in %s: %s.", v.volumeName(), v.Node, again, ago(v.age(first.First)), last.Message)
	}
	if policy := v.groupPolicy(); policy != "" {
		f.Evidence = append(f.Evidence, fact(ref(v.Pod), "spec.securityContext", policy, time.Time{}))
	}
	return f, Yes
}

// groupPolicy writes the pod's fsGroup and how it is applied.
func (v *View) groupPolicy() string {
	if !v.setsGroup() {
		return ""
	}
	s := v.Pod.Spec.SecurityContext
	policy := "Always (the default)"
	if s.FSGroupChangePolicy != nil {
		policy = string(*s.FSGroupChangePolicy)
	}
	return fmt.Sprintf("fsGroup %d, fsGroupChangePolicy %s", *s.FSGroup, policy)
}

func fixOwnership(v *View, _ *blame) []Step {
	return []Step{v.look("Watch the count of files grow", "-n", v.Pod.Namespace, "get", "events", "--field-selector", "involvedObject.name="+v.Pod.Name, "--watch"),
		say("Wait while it grows. For the next start set fsGroupChangePolicy: OnRootMismatch in the pod's securityContext: it skips the walk when the top folder already has the group and mode. Where it is set already, the top folder does not match, and this walk mends that once. Without need for it, leave fsGroup out; for SELinux set seLinuxOptions so that the driver can mount with the label.")}
}

var aboutSubPath = mountCause("start/subpath", "A subPath of volume VOLUME cannot be given to pod POD on node NODE", fixSubpath)

// subPathBroken adds which subPaths there are, and what the kubelet says of them in its log: the container's status has no reason.
func subPathBroken(v *View) (Finding, Truth) {
	f, known := aboutSubPath(v)
	if known != Yes || v.Volume == nil {
		return f, known
	}
	for _, c := range slices.Concat(v.Pod.Spec.InitContainers, v.Pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if path := cmp.Or(m.SubPath, m.SubPathExpr); m.Name == v.Volume.Name && path != "" {
				f.Evidence = append(f.Evidence, fact(ref(v.Pod), "spec.containers["+c.Name+"].volumeMounts["+m.MountPath+"].subPath", path, time.Time{}))
			}
		}
	}
	folder := string(v.Pod.UID) + "/volume-subpaths/"
	if t := v.kubeletLogged(func(text string, _ time.Time) bool { return strings.Contains(text, folder) }); t != nil {
		f.Why = sentence(f.Why) + " The kubelet's log says: " + plainWords(t.Text)
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	return f, Yes
}

func fixSubpath(v *View, _ *blame) []Step {
	return []Step{v.look("See which subPath the containers ask for", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "-o", "jsonpath={.spec.containers[*].volumeMounts}"),
		say("See on the volume, from another pod that mounts it whole, whether that path is there, of the right kind (folder or file) and may be used."),
		hazard(DangerDisruptive, "the path was replaced or deleted while the pod runs, and the pod has an owner", "Let the pod's owner make it anew: delete the pod.")}
}

func fixMountBroken(v *View, _ *blame) []Step {
	return []Step{v.look("See why the driver's process ended", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node),
		v.look("See who makes the pod anew", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "-o", "jsonpath={.metadata.ownerReferences}"),
		v.act(DangerDisruptive, "the step before shows an owner that makes the pod anew, and nothing that the pod has in memory only is wanted", "Delete the pod, so that its successor is given the new mount", "-n", v.Pod.Namespace, "delete", "pod", v.Pod.Name),
		say("Mend what ended the driver's process (memory limit, crash, update), else it happens again to all pods on the node.")}
}

func fixReadOnly(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "read why the kernel stopped it", "dmesg", "--ctime", "--level=err,warn"),
		onNode(v.Node, "see the mount and its device", "findmnt", "-o", "TARGET,SOURCE,MAJ:MIN,FSTYPE,OPTIONS"),
		say("Mend the device or its connection first. Take a snapshot of the volume."),
		hazard(DangerDisruptive, "the device answers again and the snapshot is ready", "Then stop the pod (scale its owner to 0), so that the volume is unmounted; the driver checks the filesystem when it mounts it again.")}
}

func fixFull(v *View, _ *blame) []Step {
	steps := []Step{}
	if v.ClaimName != "" {
		steps = append(steps, v.look("See the size of the claim", "-n", v.Namespace, "get", "pvc", v.ClaimName))
		if name, _ := v.claimClass(); name != "" {
			steps = append(steps, v.look("See whether its class lets it grow", "get", "storageclass", name))
		}
	}
	return append(steps, say("Raise spec.resources.requests.storage of the claim where the class allows it (it grows while in use with most drivers), or free space or inodes on the volume."))
}

// containerFails: the volume is mounted, and the pod does not run for what its containers, the kubelet or another volume say.
func containerFails(v *View) (Finding, Truth) {
	if !v.at(HopStage, HopPublish, HopStart) || v.Pod == nil {
		return Finding{}, No
	}
	b, known := v.blamed()
	if b != nil && b.Cause == "start/not-the-volume" {
		return Finding{Confidence: Certain, Evidence: b.Evidence, Why: v.say("The pod POD uses volume VOLUME in a way that it cannot be used: ") + plainWords(b.Trouble.Text),
			Fix: []Step{v.look("See the claim's volumeMode", "-n", v.Namespace, "get", "pvc", v.ClaimName, "-o", "jsonpath={.spec.volumeMode}"),
				say("In the pod, list a Block volume under volumeDevices and a Filesystem volume under volumeMounts.")}}, Yes
	}
	if !v.at(HopStart) {
		return v.otherVolume()
	}
	if b == nil && known == Unknown {
		return Finding{}, Unknown
	}
	if b != nil && (b.Proven || b.Cause != "") {
		return Finding{}, No
	}
	f := Finding{Rest: true, Status: v.hop(HopStart).Status, Until: v.hop(HopStart).Until, Confidence: Likely}
	switch {
	case b != nil:
		if f.Status = v.settled(b.Trouble); f.Status == StatusStuck {
			f.Until = nil
		}
		f.Why = fmt.Sprintf("The volume %s is mounted for pod %s on node %s. The pod does not run for another reason: %s", v.volumeName(), v.say("POD"), v.Node, b.Trouble.Evidence.Value)
		f.Evidence = b.Evidence
	case f.Status == StatusWaiting:
		return Finding{}, No // start/in-progress
	default:
		why := "its Ready condition is not true"
		if c := podCondition(v.Pod, "ContainersReady"); c != nil && c.Message != "" {
			why = c.Message
		}
		if ok, c := v.nodeReady(v.Node); ok == No && c != nil {
			why += fmt.Sprintf("; node %s is not Ready since %s (%s)", v.Node, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Reason)
		}
		f.Confidence = Possible
		f.Why = fmt.Sprintf("The volume %s is mounted for pod %s on node %s, and the pod is not ready: %s.", v.volumeName(), v.say("POD"), v.Node, why)
		f.Evidence = []Evidence{fact(ref(v.Pod), "status.conditions[Ready]", why, time.Time{})}
	}
	f.Fix = []Step{v.look("See what the pod waits for", "-n", v.Pod.Namespace, "describe", "pod", v.Pod.Name),
		v.look("Read what its containers said last", "-n", v.Pod.Namespace, "logs", v.Pod.Name, "--all-containers", "--previous", "--tail=50")}
	return f, Yes
}

// otherVolume: the kubelet complains of another volume of the pod, or of its sandbox, and not of this one.
func (v *View) otherVolume() (Finding, Truth) {
	if v.mountTrouble() != nil || v.hop(v.block).Status != StatusStuck {
		return Finding{}, No
	}
	events, known := v.podEvents()
	t := v.inForce(troubleIn(events, func(r report) bool {
		return r.Warning && !v.names(r.Message) && !v.claimRead(r) && (r.Reason == "FailedMount" || r.Reason == "FailedMapVolume" || r.Reason == "FailedCreatePodSandBox" || r.Reason == "FailedAttachVolume")
	}, nil))
	if t == nil {
		return Finding{}, min(known.not(), Unknown)
	}
	f := Finding{Status: v.settled(t), Confidence: Likely, Evidence: []Evidence{t.Evidence},
		Why: fmt.Sprintf("Nothing is said of volume %s; pod %s waits on node %s for something else: %s", v.volumeName(), v.say("POD"), v.Node, t.Text),
		Fix: []Step{v.look("See what the pod waits for", "-n", v.Pod.Namespace, "describe", "pod", v.Pod.Name)}}
	return f, Yes
}

// startInProgress: nothing fails, and the normal time has not passed.
func startInProgress(v *View) (Finding, Truth) {
	if !v.at(HopStage, HopPublish, HopStart) || v.hop(v.block).Status != StatusWaiting {
		return Finding{}, No
	}
	b, known := v.blamed()
	if b != nil {
		return mountCause("start/in-progress", "", fixWait)(v)
	}
	h := v.hop(v.block)
	f := Finding{Rest: true, Status: StatusWaiting, Until: h.Until, Confidence: Likely, Evidence: []Evidence{fact(ref(v.Pod), "status.phase", string(v.Pod.Status.Phase), v.scheduledAt())},
		Why: fmt.Sprintf("Pod %s got node %s %s ago; its volume %s is being mounted, and no error is reported.", v.say("POD"), v.Node, ago(v.age(v.scheduledAt())), v.volumeName()),
		Fix: []Step{say("Wait."), v.look("Watch the pod", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "--watch")}}
	if slices.Contains([]HopName{HopStart}, v.block) {
		f.Why = fmt.Sprintf("Pod %s has its volume %s mounted on node %s and is starting.", v.say("POD"), v.volumeName(), v.Node)
	}
	if known == Unknown || v.pvKnown == Unknown && v.reportAtHand(v.Node) != nil {
		return Finding{}, Unknown // of a volume that cannot be read its report does not tell how far it is
	}
	return f, Yes
}
