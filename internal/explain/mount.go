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

// What stage, publish and start share: the error in force of mounting a volume into a pod, and whom it blames.

// Kubelet's prefixes of what fails before or in NodePublishVolume (pkg/volume/util/operationexecutor/operation_generator.go);
// all others are of NodeStageVolume or come before it.
var publishWords = regexp.MustCompile(`MountVolume\.SetUp failed|MapVolume\.MapPodDevice failed|MapVolume\.(MapBlockVolume|EvalHostSymlinks) failed|MountVolume\.NewMounter initialization failed|MapVolume failed|Unable to attach or mount volumes`)

// mountTrouble is the kubelet's error in force for the view's volume.
func (v *View) mountTrouble() *trouble {
	if v.Pod == nil {
		return nil
	}
	var after time.Time
	if mounted(v.Pod) {
		if after = v.stopped(); after.IsZero() {
			return nil
		}
	}
	events, _ := v.podEvents()
	t := v.inForce(troubleIn(events, func(r report) bool {
		return (r.Reason == "FailedMount" || r.Reason == "FailedMapVolume") && r.Last.After(after) && (v.names(r.Message) || v.waitsFor(r.Message)) && !v.claimRead(r)
	}, func(r report) bool { return r.Reason == "SuccessfulMountVolume" && v.names(r.Message) }))
	if t != nil && !after.IsZero() && v.taken.Sub(t.At) > recent {
		return nil
	}
	if t == nil && v.onNode() {
		t = v.mountLogged(after)
	}
	if t != nil && v.publishedSince(t) {
		return nil
	}
	return t
}

// publishedSince: the pod has not run yet, its kubelet failed to stage the volume, and the node's report, taken since, shows it mounted for
// the pod, which comes after.
func (v *View) publishedSince(t *trouble) bool {
	if !strings.Contains(t.Text, "MountVolume.MountDevice failed") || !mountedBy(v.Pod).IsZero() {
		return false
	}
	r := v.reportAtHand(v.Node)
	if r == nil || !r.CollectedAt.After(t.At) {
		return false
	}
	n := v.factsOf(r, v.Node)
	_, mounted := n.published()
	return mounted && n.publish.Stat == "ok"
}

// onNode: the volume may be attached to the pod's node; before that nothing points there.
func (v *View) onNode() (may bool) {
	v.ahead(func() {
		at, known := v.attachment(v.Node)
		may = v.attachRequired() == No || known == Unknown || at != nil && at.Status.Attached
	})
	return may
}

var mountFails = regexp.MustCompile(`(MountVolume|MapVolume)\.\w+ failed|failed to process volumes|unmounted volumes=`)

// mountLogged is what the kubelet's log says of the pod's volume where no event does: it does not tell the API all of it.
func (v *View) mountLogged(after time.Time) *trouble {
	since := latest(after, v.Pod.CreationTimestamp.Time)
	return v.kubeletLogged(func(text string, at time.Time) bool {
		return mountFails.MatchString(text) && !at.Before(since) && (v.names(text) || strings.Contains(text, string(v.Pod.UID)) && v.waitsFor(text))
	})
}

// kubeletLogged is the trouble of the recent lines that fit in the kubelet's log, where the report of the view's node is at hand; nil:
// there are none.
func (v *View) kubeletLogged(fits func(text string, at time.Time) bool) *trouble {
	r := v.reportAtHand(v.Node)
	if r == nil {
		return nil
	}
	var t *trouble
	for _, l := range r.KubeletLog {
		text := strings.ReplaceAll(l.Message, `\"`, `"`) // an error stands quoted in a structured line
		if r.CollectedAt.Sub(l.At) > recent || !fits(text, l.At) {
			continue
		}
		if t == nil {
			t = &trouble{Since: l.At, Source: "kubelet"}
		}
		t.Text, t.At, t.Count, t.Evidence = text, l.At, t.Count+1, fact(Object{Kind: "NodeReport", Name: v.Node}, "kubeletLog", text, r.CollectedAt)
	}
	return t
}

// neighbourTrouble is the kubelet's error in force for another pod of the claim on the node: it mounts one volume for one pod at
// a time, and says nothing to those that wait for their turn (operation_executor.go MountVolume).
func (v *View) neighbourTrouble() *trouble {
	for _, p := range v.neighbours() {
		other := *v
		other.Pod, other.Volume = p, volumeOfClaim(p, v.ClaimName)
		if t := other.mountTrouble(); t != nil {
			return t
		}
	}
	return nil
}

// neighbours are other pods of the claim on the view's node.
func (v *View) neighbours() []*corev1.Pod {
	if v.ClaimName == "" {
		return nil
	}
	var pods []*corev1.Pod
	v.ahead(func() { pods, _ = v.podsOfClaim() })
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.UID == v.Pod.UID || p.Spec.NodeName != v.Node })
}

// stopped is when the last container of a pod that was mounted before ended, where none runs now: after a reboot of its node
// the kubelet mounts all its volumes again. Zero: one runs, or the pod never ran.
func (v *View) stopped() time.Time {
	if ready(v.Pod) || finished(v.Pod) {
		return time.Time{}
	}
	for _, s := range slices.Concat(v.Pod.Status.InitContainerStatuses, v.Pod.Status.ContainerStatuses) {
		if s.State.Running != nil {
			return time.Time{}
		}
	}
	return endedAt(v.Pod)
}

// endedAt is when the last container of the pod ended that has. Zero: none has.
func endedAt(p *corev1.Pod) (last time.Time) {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil {
				last = latest(last, t.FinishedAt.Time)
			}
		}
	}
	return last
}

// mounted: the pod's volumes are, and the kubelet does not fail to mount this one again.
func (v *View) mounted() bool { return v.Pod != nil && mounted(v.Pod) && v.mountTrouble() == nil }

// republishTrouble is the kubelet's error in force of repeating NodePublishVolume for a pod that runs (requiresRepublish of the
// CSIDriver): the mount stays, and what the driver puts there, secrets and tokens, grows old.
func (v *View) republishTrouble() *trouble {
	if v.Pod == nil || v.Driver == "" || finished(v.Pod) || !v.mounted() {
		return nil
	}
	started := mountedBy(v.Pod)
	var events []report
	v.ahead(func() {
		if d, _ := v.csiDriver(); d != nil && d.Spec.RequiresRepublish != nil && *d.Spec.RequiresRepublish {
			events, _ = v.podEvents()
		}
	})
	t := troubleIn(events, func(r report) bool { return r.Reason == "FailedMount" && r.Last.After(started) && v.names(r.Message) }, nil)
	if t == nil || started.IsZero() || v.taken.Sub(t.At) > recent || v.settled(t) != StatusStuck {
		return nil
	}
	return t
}

var unmounted = regexp.MustCompile(`(?:failed to process volumes|unmounted volumes)=\[([^\]]*)\]`)

// claimUnread: the kubelet could not read a claim or its volume (desired_state_of_world_populator.go createVolumeSpec), so it has done nothing
// yet with the volume: whether that is attached is another matter. Some of these errors are of one moment only, such as the node
// authorizer's "no relationship found" right after the pod got its node.
var claimUnread = regexp.MustCompile(`error processing PVC (\S+): `)

// claimRead: it could not read a claim, and can now, since it tries again every 10 to 15 seconds and said it no more.
func (v *View) claimRead(r report) bool {
	return claimUnread.MatchString(r.Message) && v.taken.Sub(r.Last) > time.Minute && r.Count < spamBurst
}

// spamBurst is about how many events of one object are written as they come (client-go's EventSourceObjectSpamFilter: 25, then one in
// five minutes).
const spamBurst = 20

// inForce gives the kubelet's error back unless it should have said it again by now, after its back-off and the time of a call. A
// driver's error stays: that nothing was said since may be another face of it.
func (v *View) inForce(t *trouble) *trouble {
	if t == nil || v.names(t.Text) && !waitForAttach.MatchString(t.Text) && !notRegistered.MatchString(t.Text) {
		return t
	}
	last, until := t.Earlier[len(t.Earlier)-1], kubeletBackoff+normalMount
	if last.Count >= spamBurst {
		until = recent
	}
	if last.Reason != "FailedAttachVolume" && v.taken.Sub(t.At) > until {
		return nil
	}
	return t
}

// waitsFor: kubelet's summary lists the pod's volume among those that it could not mount, and says more than that it waited, and not
// of another claim.
func (v *View) waitsFor(message string) bool {
	if claims := claimUnread.FindAllStringSubmatch(message, -1); claims != nil {
		return slices.ContainsFunc(claims, func(m []string) bool { return m[1] == v.Namespace+"/"+v.ClaimName })
	}
	if v.Volume == nil || strings.Contains(message, "timed out waiting for the condition") || strings.Contains(message, "context deadline exceeded") {
		return false
	}
	for _, m := range unmounted.FindAllStringSubmatch(message, -1) {
		for name := range strings.FieldsSeq(m[1]) {
			if strings.Trim(name, ",") == v.Volume.Name {
				return true
			}
		}
	}
	return false
}

// startTrouble is why the pod's containers do not run, in the words of the runtime or of a container that ended. Of several
// containers the ones that mount the volume go first.
func (v *View) startTrouble() *trouble {
	if !v.mounted() || ready(v.Pod) {
		return nil
	}
	var found []*trouble
	uses := containersOf(v.Pod, v.Volume)
	for _, s := range slices.Concat(v.Pod.Status.InitContainerStatuses, v.Pod.Status.ContainerStatuses) {
		t := &trouble{Since: v.Pod.CreationTimestamp.Time, Count: max(1, int(s.RestartCount)), Source: s.Name}
		field := "status.containerStatuses[" + s.Name + "]"
		switch w, ended := s.State.Waiting, cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); {
		case w != nil && w.Message != "" && w.Reason != "CrashLoopBackOff":
			t.Text, t.At = w.Message, v.now
			t.Evidence = fact(ref(v.Pod), field+".state.waiting", w.Reason+": "+w.Message, time.Time{})
		case ended != nil && ended.ExitCode != 0:
			t.Text, t.At = ended.Message, ended.FinishedAt.Time
			if s.State.Running == nil { // the first one ended too, and no restart counts that
				t.Count = int(s.RestartCount) + 1
			}
			t.Evidence = fact(ref(v.Pod), field+".lastState.terminated", strings.TrimSpace(fmt.Sprintf("%s, exit code %d: %s", ended.Reason, ended.ExitCode, ended.Message)), ended.FinishedAt.Time)
		default:
			continue
		}
		if len(found) > 0 && slices.Contains(uses, s.Name) && !slices.Contains(uses, found[0].Source) {
			found = slices.Insert(found, 0, t)
			continue
		}
		found = append(found, t)
	}
	events, _ := v.podEvents()
	ran := mountedBy(v.Pod)
	said := troubleIn(events, func(r report) bool {
		return r.Warning && (r.Reason == "Failed" || r.Reason == "FailedCreatePodSandBox" && r.Last.After(ran) || r.Reason == "Unhealthy" && told(containerWords, r.Message) != "")
	}, func(r report) bool { return r.Reason == "Started" })
	switch {
	case said != nil && (len(found) == 0 || v.containerTells(found[0]) == ""):
		return said // the runtime's own words, where the container's status has none
	case len(found) > 0:
		if t := found[0]; said != nil && strings.Contains(said.Text, t.Text) { // the event of the same error counts it
			t.Count = max(t.Count, said.Count)
		}
		return found[0]
	}
	return nil
}

// containerTells is the cause that a container's end or the runtime tells. What it says of another folder than the volume's is
// not the volume's fault.
func (v *View) containerTells(t *trouble) string {
	cause := v.told(containerWords, t.Text)
	switch cause {
	case "start/read-only", "start/full", "start/mount-broken", "publish/permission", "stage/device-unreadable":
		if strings.Contains(t.Evidence.Field, ".state.waiting") || t.Evidence.Field == "event Failed from kubelet" {
			if !strings.Contains(t.Text, "/volumes/") && cause != "start/mount-broken" {
				return "" // the runtime's own files
			}
			return cause
		}
		if paths := absolute.FindAllString(t.Text, -1); len(paths) > 0 && !slices.ContainsFunc(paths, v.inVolume) {
			return ""
		}
		if cause == "start/read-only" && v.wantsReadOnly() {
			return ""
		}
	}
	return cause
}

var absolute = regexp.MustCompile(`(?:^|[\s"'=:(])(/[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]*)*)`)

// inVolume: a path of a container lies in the view's volume.
func (v *View) inVolume(p string) bool {
	p = strings.TrimLeft(p, " \t\n\"'=:(")
	if v.Volume == nil {
		return false
	}
	for _, c := range slices.Concat(v.Pod.Spec.InitContainers, v.Pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if at := strings.TrimSuffix(m.MountPath, "/"); m.Name == v.Volume.Name && (p == at || strings.HasPrefix(p, at+"/")) {
				return true
			}
		}
	}
	return false
}

// containersOf are the pod's containers that mount a volume.
func containersOf(p *corev1.Pod, vol *corev1.Volume) []string {
	var out []string
	if vol == nil {
		return nil
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if m.Name == vol.Name {
				out = append(out, c.Name)
			}
		}
	}
	return slices.Compact(out)
}

// blame is why the volume is not, or not rightly, in the pod. What the node's report proves goes before what the driver or
// the kubelet said: the node's truth is newer than any event.
type blame struct {
	Cause      string
	Why        string
	Evidence   []Evidence
	Confidence Confidence
	Status     Status // empty: as the error in force has settled
	Until      *time.Time
	Trouble    *trouble   // the error in force; nil: none
	Facts      *nodeFacts // of the pod's node; nil: not probed
	Proven     bool       // by the node's report
}

// blamed finds it, where the chain stops at stage, publish or start. Unknown: the words do not tell, and the node's report,
// which would, could not be read.
func (v *View) blamed() (*blame, Truth) {
	if !v.at(HopStage, HopPublish, HopStart) {
		return nil, No
	}
	if t := v.republishTrouble(); t != nil && v.at(HopPublish) {
		return &blame{Cause: v.tells(t), Status: StatusDegraded, Confidence: sure(v.tells(t), t.Text), Trouble: t, Evidence: []Evidence{t.Evidence}}, Yes
	}
	t := v.startTrouble()
	if !v.at(HopStart) {
		t = v.mountTrouble()
		if t == nil && v.hop(v.block).Status == StatusStuck {
			t = v.neighbourTrouble()
		}
	}
	n, known := v.atHand(v.Node)
	if t != nil || known == Unknown || v.hop(v.block).Status != StatusWaiting {
		n, known = v.probed(v.Node) // now it is a gap
	}
	if n != nil {
		if b := v.silent(); b != nil {
			b.Trouble, b.Facts, b.Proven = t, n, true
			return b, Yes
		}
		told := t
		if t == nil && v.failing() && v.hop(v.block).Status == StatusStuck {
			told = &trouble{} // nothing is said of a call that should have ended: what the report shows counts as of a vague error
		}
		for _, prove := range proofs {
			if b := prove(v, n, told); b != nil {
				b.Trouble, b.Facts, b.Proven = t, n, true
				b.Status = cmp.Or(b.Status, StatusStuck) // the node shows it: trying again does not change it
				if t != nil {
					b.Evidence = append(b.Evidence, t.Evidence)
				}
				return b, Yes
			}
		}
	}
	if t == nil {
		_, events := v.podEvents()
		told := Yes // a kubelet that was not told that the volume is attached waits in silence
		if v.failing() && v.hop(HopAttach).Status == StatusOK {
			told = v.listedAttached(v.Node)
		}
		if known == Unknown || events == Unknown || told == Unknown {
			return nil, Unknown
		}
		return nil, No
	}
	b := &blame{Cause: v.tells(t), Trouble: t, Facts: n, Evidence: []Evidence{t.Evidence}}
	if !v.at(HopStart) && v.putRight(t) {
		v.soon(b, t.At.Add(kubeletBackoff), fmt.Sprintf("What the kubelet of node %s missed at its last try to mount volume %s for pod %s is there since, and it tries again by itself; its last error was", v.Node, v.volumeName(), v.say("POD")))
		return b, Yes
	}
	if unending(b.Cause) {
		v.firstReason(b)
	}
	if v.failing() && v.settled(t) == StatusWaiting {
		v.soon(b, t.Since.Add(errorSettled), fmt.Sprintf("The kubelet of node %s tries to mount volume %s for pod %s since %s, and will try again by itself; it said so far", v.Node, v.volumeName(), v.say("POD"), ago(v.age(t.Since))))
		return b, Yes
	}
	if unending(b.Cause) && !v.at(HopStart) {
		_, away := v.helperOf()
		if away == No {
			_, away = v.helperSet()
		}
		switch away {
		case Yes:
			b.Cause = "publish/helper-pod-not-running"
		case Unknown:
			if v.hop(v.block).Status != StatusStuck {
				return nil, Unknown
			}
			b.Confidence = Possible // a pod that could not be seen may be what the call waits for
			return b, Yes
		}
	}
	if n != nil && n.knownDevice() == nil && (unending(b.Cause) || b.Cause == "" || vague[b.Cause] || busyWords.in(t.Text)) {
		if _, at := v.attachment(v.Node); at == Unknown || v.pvKnown == Unknown {
			return nil, Unknown // they would tell the device, and the report what is wrong with it
		}
	}
	b.Confidence = sure(b.Cause, b.Trouble.Text)
	if known == Unknown && (b.Cause == "" || vague[b.Cause] || b.ambiguous()) {
		return nil, Unknown
	}
	return b, Yes
}

// tells is the cause that the words of an error tell where the chain stops.
func (v *View) tells(t *trouble) string {
	if v.at(HopStart) {
		return v.containerTells(t)
	}
	cause := v.mountTells(t.Text)
	if v.Inline != nil && cause == "stage/timeout" && waitsForObject.in(t.Text) {
		return "publish/driver-error"
	}
	if v.Driver != secretsStore {
		return cause
	}
	switch cause { // a store of secrets mounts neither device nor share: what it refuses or lacks is what is published
	case "stage/permission":
		return "publish/permission"
	case "stage/secret-missing":
		if v.told(kubeletWords, t.Text) == "" {
			return "publish/object-missing"
		}
	}
	return cause
}

// waitsForObject: the driver looked at an object of Kubernetes again and again until its time was over (apimachinery, wait.ErrWaitTimeout).
// Inline volumes have no device or server to wait for: drivers ask others for what is published (a certificate, a token).
var waitsForObject = phrase(`desc = (\S+ ){0,12}timed out waiting for the condition`)

// unending: the cause is that a call does not end, which has a reason.
func unending(cause string) bool {
	return cause == "stage/operation-pending" || cause == "stage/timeout"
}

// firstReason looks for why the first call of several does not end: an earlier error since the last success, then the lines of
// the driver's log.
func (v *View) firstReason(b *blame) {
	better := func(text string) string {
		cause := v.mountTells(text)
		hop := (Cause{ID: cause}).Hop()
		if cause == "" || hop != HopStage && hop != HopPublish && hop != HopStart || unending(cause) {
			return ""
		}
		return cause
	}
	defer func() { // that it ran out of time is a reason too, where no better one is to be seen
		late := func(r report) bool { return v.mountTells(r.Message) == "stage/timeout" }
		if i := slices.IndexFunc(b.Trouble.Earlier, late); i >= 0 && b.Cause == "stage/operation-pending" {
			b.Cause, b.Evidence = "stage/timeout", append([]Evidence{b.Trouble.Earlier[i].evidence()}, b.Evidence...)
		}
	}()
	for _, r := range slices.Backward(b.Trouble.Earlier) {
		if cause := better(r.Message); cause != "" {
			first := *b.Trouble
			first.Text = r.Message
			b.Cause, b.Trouble, b.Evidence = cause, &first, append([]Evidence{r.evidence()}, b.Evidence...)
			return
		}
	}
	v.ahead(func() {
		for _, p := range v.plugin(v.Node).Pods {
			for _, line := range slices.Backward(v.logged(p)) {
				if cause := better(line.words()); cause != "" && b.Trouble.Since.Sub(line.At) < normalMount {
					first := *b.Trouble
					first.Text = line.words()
					b.Cause, b.Trouble, b.Evidence = cause, &first, append(b.Evidence, line.evidence(p))
					return
				}
			}
		}
	})
}

// soon turns an error that has not settled, or that was put right, into what it is until then: the kubelet is still trying.
func (v *View) soon(b *blame, until time.Time, why string) {
	b.Proven, b.Status, b.Until = true, StatusWaiting, &until
	b.Why = why + ": " + plainWords(b.Trouble.Text)
	b.Cause = "start/in-progress"
	if v.at(HopStage) {
		b.Cause = "stage/in-progress"
	}
}

// ambiguous: the words have several reasons that the node's report tells apart.
func (b *blame) ambiguous() bool {
	text := b.Trouble.Text
	switch {
	case b.Cause == "stage/device-missing" && strings.Contains(strings.ToLower(text), "multipath"),
		b.Cause == "publish/stale-publish-mount" && deadTarget.in(text),
		(b.Cause == "stage/device-unreadable" || b.Cause == "start/mount-broken") && b.Trouble.Source != "kubelet":
		return true
	}
	return deadStaging.in(telling(text)) || badSuperblock.in(text) && !ioError.in(text) || fabricsLogin.in(text) && b.Confidence != Certain
}

// vague are causes whose words have several reasons that the node's report tells apart.
var vague = map[string]bool{"stage/operation-pending": true, "stage/timeout": true, "stage/read-only-device": true, "publish/permission": true, "start/read-only": true}

// mountCause makes the Match of a cause that the report proves or the words tell: says is what the words mean, with the
// names of View.say; fix what to do.
func mountCause(id, says string, fix func(*View, *blame) []Step) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		b, known := v.blamed()
		if b == nil {
			return Finding{}, known
		}
		if b.Cause != id {
			return Finding{}, No
		}
		f := Finding{Status: b.Status, Until: b.Until, Confidence: b.Confidence, Why: b.Why, Evidence: b.Evidence, Fix: fix(v, b)}
		if !b.Proven {
			f.Why = b.aside(v.say(says) + ": " + plainWords(b.Trouble.Text))
		}
		if f.Status == "" {
			if f.Status = v.unwell(b.Trouble); f.Status == StatusWaiting {
				f.Until = moment(b.Trouble.Since.Add(errorSettled))
			}
		}
		return f, Yes
	}
}

// aside says besides what a failing repetition of a publish leaves as it is.
func (b *blame) aside(why string) string {
	if b.Status != StatusDegraded || b.Proven {
		return why
	}
	return sentence(why) + " The pod keeps the mount that it has; what the driver puts there is not renewed."
}

// unwell is the status of a fault without one of its own: as its error has settled, else by whether the pod serves.
func (v *View) unwell(t *trouble) Status {
	switch {
	case t != nil:
		return v.settled(t)
	case v.Pod != nil && ready(v.Pod):
		return StatusDegraded
	}
	return StatusStuck
}

// say fills the view's names into a sentence: POD, NODE, VOLUME and DRIVER.
func (v *View) say(sentence string) string {
	pod := ""
	if v.Pod != nil {
		pod = v.Pod.Namespace + "/" + v.Pod.Name
	}
	return strings.NewReplacer("POD", pod, "NODE", v.Node, "VOLUME", v.volumeName(), "DRIVER", cmp.Or(v.Driver, "(none)")).Replace(sentence)
}

// plainWords are what a driver said, without kubelet's and gRPC's frames around it, on one line.
func plainWords(text string) string {
	for {
		code, desc := grpc(text)
		if code == "" {
			break
		}
		text = desc
	}
	if _, after, ok := strings.Cut(text, `" : `); ok && (strings.HasPrefix(text, "MountVolume.") || strings.HasPrefix(text, "MapVolume.") || strings.HasPrefix(text, "AttachVolume.")) {
		text = after
	}
	return strings.Join(strings.Fields(text), " ")
}
