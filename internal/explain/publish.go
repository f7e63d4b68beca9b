package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// publishHop: NodePublishVolume mounted the volume into the pod's folder.
func publishHop(v *View) Hop {
	switch {
	case v.Pod == nil:
		return skippedHop("no pod uses it")
	case v.mounted():
		h := v.silentHop(HopPublish)
		if t := v.republishTrouble(); t != nil && h.Status == StatusOK {
			return v.troubledHop(t, StatusDegraded, "mounted, and the driver's regular NodePublishVolume fails")
		}
		return h
	case !v.passed(HopClaim, HopProvision, HopBind, HopSchedule, HopRegister, HopAttach, HopStage):
		return laterHop("")
	}
	t := v.mountTrouble()
	if t == nil {
		return v.openHop(v.scheduledAt(), normalMount, ref(v.Pod), "mounting")
	}
	if v.putRight(t) {
		return v.openHop(t.At, kubeletBackoff, ref(v.Pod), "what the last try missed is there now")
	}
	return v.troubledHop(t, v.settled(t), "kubelet cannot mount it into the pod")
}

var publishCauses = []Cause{{
	ID:    "publish/ephemeral-not-allowed",
	Title: "The driver does not serve volumes that are written into the pod",
	Doc: `A volume with a csi section in the pod itself is served only when the driver's CSIDriver object lists Ephemeral among its
volumeLifecycleModes. Without a CSIDriver object it never is.

To be sure: kubectl get csidriver; the field cannot be changed, only the object made anew.

Use a claim for that driver. A generic ephemeral volume (ephemeral.volumeClaimTemplate) gives the pod one of its own.`,
	Match: ephemeralNotAllowed,
}, {
	ID:    "publish/selinux-conflict",
	Title: "Another pod uses the volume with another SELinux label",
	Doc: `Where a driver mounts with an SELinux label, all pods on one node that use the volume must have the same label. A second pod with another one
waits until the first is gone.

To be sure: compare seLinuxOptions (or the MCS labels that the runtime gives) of the two pods.

Give both pods the same label, or set seLinuxChangePolicy: Recursive in both.`,
	Match: mountCause("publish/selinux-conflict", "Volume VOLUME is mounted on node NODE with the SELinux label of another pod", fixSELinux),
}, {
	ID:    "publish/object-missing",
	Title: "An object that the volume names does not exist",
	Doc: `The volume names an object that the driver reads when it publishes: a SecretProviderClass in the pod's namespace, a ConfigMap, a secret in an
outside store, an object of the driver's own for this node or volume. It is not there.

To be sure: get the object by the name and namespace in the finding.

Make the object; the kubelet tries again by itself.`,
	Match: objectMissing,
}, {
	ID:    "publish/provider-missing",
	Title: "The provider for the volume's secrets is not on the node",
	Doc: `secrets-store hands each volume to a provider (aws, azure, gcp, vault ...), a DaemonSet of its own with a socket below the kubelet's folder. It is not
installed, does not run on this node, or puts its socket where the driver does not look.

To be sure: the driver says "provider not found"; look for the provider's pod on the node.

Install the provider, or let its DaemonSet run on the node.`,
	Match: mountCause("publish/provider-missing", "On node NODE the driver DRIVER has no provider to get the secrets of volume VOLUME from", fixProvider),
}, {
	ID:    "publish/helper-pod-not-running",
	Title: "The pod that the driver starts to serve the mount cannot run",
	Doc: `FUSE drivers start a pod for a mount (a mount pod, share manager, sidecar). It must run on the same node and needs room there; while it does not run
there is nothing to mount.

To be sure: look at that pod: why it is not scheduled, or why it crashes.

Do not delete a helper pod that runs: it carries the mounts of other pods.`,
	Match: helperPod,
}, {
	ID:    "publish/duplicate-handle",
	Title: "Two volumes share one volume handle",
	Doc: `The kubelet knows a volume by driver and handle. Two PVs with one handle are one volume for it: the second of a pod is never mounted, and a pod on the
same node may be given the other's share.

To be sure: compare spec.csi.volumeHandle of the PVs.

Give each hand-made PV a handle of its own: delete and make the PV again (policy Retain; the share is not touched).`,
	Match: duplicateHandle,
}, {
	ID:    "publish/not-staged",
	Title: "The volume is published without being staged",
	Doc: `Publishing binds the staged mount into the pod's folder. The staging path is no mount: it was unmounted behind the kubelet's back, the node restarted, or
staging reported success without doing it. What the pod gets is an empty folder, or nothing.

To be sure: findmnt at the staging path shows nothing.

If the pod wrote into the empty folder, save those files before anything else: they are on the node's own disk and will be hidden or removed.`,
	Match: notStaged,
}, {
	ID:    "publish/mount-not-propagated",
	Title: "The volume is mounted in the driver's container only",
	Doc: `The driver mounts in its own container; the mount reaches the node only when the kubelet's folder is mounted there at the same path with
mountPropagation: Bidirectional. Without it the driver sees the volume, and the pod an empty folder on the node's disk.

To be sure: the mount is in the plugin's mount table and not in the node's.

What the pods wrote is on the node's disk: save it before the folder is mounted over.`,
	Match: mountCause("publish/mount-not-propagated", "", fixNotPropagated),
}, {
	ID:    "publish/wrong-mount",
	Title: "The pod's folder is not the volume",
	Doc: `The kubelet was told that the volume is published, and its folder is no mount, or a mount of another device. The pod runs and writes elsewhere.

To be sure: findmnt at the pod's path against the volume's device.

Save what the pod wrote before you restart it: a folder that is no mount is on the node's own disk, and is hidden or removed when the volume is mounted.`,
	Match: mountCause("publish/wrong-mount", "", fixWrongMount),
}, {
	ID:    "publish/stale-publish-mount",
	Title: "The pod's mount points at something gone",
	Doc: `What was mounted into the pod's folder has nothing behind it any more: the FUSE process ended, the server forgot the share, the device went away. A
container that starts now cannot be given it.

To be sure: stat on the pod's path says "Stale file handle" or "Transport endpoint is not connected".

A container restart does not help: the folder is mounted once for the life of the pod. The pod has to be made anew.`,
	Match: mountCause("publish/stale-publish-mount", "What is mounted for volume VOLUME into pod POD on node NODE is dead", fixStalePublish),
}, {
	ID:    "publish/permission",
	Title: "The server or the filesystem refuses access to the volume's files",
	Doc: `The volume is mounted, and its files may not be used or given away: the owner and mode on the volume do not fit the container's user, the server maps root to
nobody (root_squash), or the filesystem has no owners.

To be sure: compare the folder's owner and mode with the container's user and groups.

Set the pod's fsGroup or user, or the rights on the server. Opening everything (0777) for everybody is rarely what is wanted.`,
	Match: mountCause("publish/permission", "Access to the files of volume VOLUME is refused", fixFilePermission),
}, {
	ID:    "publish/driver-error",
	Title: "The driver cannot publish the volume to the pod",
	Doc: `NodePublishVolume fails with an error that has no other name here, or reported success without doing the work. The words are in the finding.

To be sure: the driver's log on the node has more than the event.`,
	Match: driverError("publish/driver-error"),
}}

// ephemeralNotAllowed: the pod's inline volume is of a driver whose CSIDriver does not list Ephemeral.
func ephemeralNotAllowed(v *View) (Finding, Truth) {
	if !v.at(HopPublish) || v.Inline == nil {
		return Finding{}, No
	}
	d, known := v.csiDriver()
	if known == Unknown {
		return mountCause("publish/ephemeral-not-allowed", "The driver DRIVER does not serve volumes that are written into the pod", fixEphemeral)(v)
	}
	f := Finding{Confidence: Certain, Fix: fixEphemeral(v, nil)}
	switch {
	case known == No:
		f.Why = fmt.Sprintf("Pod %s asks the driver %s for an inline volume (%s), and there is no CSIDriver object of that name: without one inline volumes are refused.", v.say("POD"), v.Driver, v.Volume.Name)
		f.Evidence = []Evidence{fact(Object{Kind: "CSIDriver", Name: v.Driver}, "", "does not exist", time.Time{})}
	case slices.Contains(d.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral):
		return Finding{}, No
	default:
		modes := []string{}
		for _, m := range d.Spec.VolumeLifecycleModes {
			modes = append(modes, string(m))
		}
		f.Why = fmt.Sprintf("Pod %s asks the driver %s for an inline volume (%s), and its CSIDriver allows only %s.", v.say("POD"), v.Driver, v.Volume.Name, strings.Join(modes, ", "))
		f.Evidence = []Evidence{fact(ref(d), "spec.volumeLifecycleModes", strings.Join(modes, ", "), time.Time{})}
	}
	if t := v.mountTrouble(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	return f, Yes
}

func fixEphemeral(v *View, _ *blame) []Step {
	return []Step{v.look("See what the driver allows", "get", "csidriver", v.Driver, "-o", "yaml"),
		say("Use a PersistentVolumeClaim for the volume, or an ephemeral.volumeClaimTemplate in the pod when it shall live and end with it. If the CSIDriver object is missing or wrong, install the driver's own.")}
}

const secretsStore = "secrets-store.csi.k8s.io"

// objectMissing: the SecretProviderClass that an inline volume names does not exist, or the driver says that an object is missing.
func objectMissing(v *View) (Finding, Truth) {
	words := mountCause("publish/object-missing", "An object that volume VOLUME of pod POD names does not exist", fixObject)
	if !v.failing() || v.Driver != secretsStore || v.Inline == nil {
		return words(v)
	}
	name := v.Inline.VolumeAttributes["secretProviderClass"]
	class, known := v.secretProviderClass(name)
	if name == "" || class != nil || known == Unknown {
		return words(v)
	}
	f := Finding{Confidence: Certain, Why: fmt.Sprintf("Volume %s of pod %s names the SecretProviderClass %s, and there is none of that name in namespace %s.", v.Volume.Name, v.say("POD"), name, v.Namespace),
		Evidence: []Evidence{fact(ref(v.Pod), "spec.volumes["+v.Volume.Name+"].csi.volumeAttributes.secretProviderClass", name, time.Time{})},
		Fix:      []Step{v.look("See which there are", "-n", v.Namespace, "get", inProviderClasses.Resource), say("Make it in the pod's own namespace, or correct the name in the pod. The kubelet tries again by itself.")}}
	if t := v.mountTrouble(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	return f, Yes
}

func (v *View) secretProviderClass(name string) (*unstructured.Unstructured, Truth) {
	return get[*unstructured.Unstructured](v.world, inProviderClasses, v.Namespace, name)
}

func fixObject(v *View, _ *blame) []Step {
	steps := []Step{}
	if v.Driver == secretsStore && v.Inline != nil {
		steps = append(steps, v.look("See what the volume asks for", "-n", v.Namespace, "get", inProviderClasses.Resource, v.Inline.VolumeAttributes["secretProviderClass"], "-o", "yaml"))
	} else {
		steps = append(steps, v.look("See what the volume names", "-n", v.Namespace, "get", "pod", v.Pod.Name, "-o", "yaml"))
	}
	return append(steps, say("Make the object that the words name, or correct the name. The kubelet tries again by itself."), v.pluginLogs())
}

func fixSELinux(v *View, _ *blame) []Step {
	steps := []Step{v.look("See the pods on the node and their labels", "get", "pods", "-A", "--field-selector", "spec.nodeName="+v.Node, "-o", "custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,SELINUX:.spec.securityContext.seLinuxOptions")}
	if others := v.othersOnNode(); len(others) > 0 {
		steps = append(steps, say("The volume is in use on the node by "+strings.Join(others, ", ")+"."))
	}
	return append(steps, say("Give both pods the same seLinuxOptions, let them run on different nodes, or set seLinuxChangePolicy: Recursive in the pods of both. The waiting pod goes on when the other is gone."))
}

var providerName = regexp.MustCompile(`provider:? \\?"([a-z0-9-]+)\\?"`)

func fixProvider(v *View, b *blame) []Step {
	name := "the provider"
	if v.Inline != nil {
		if class, _ := v.secretProviderClass(v.Inline.VolumeAttributes["secretProviderClass"]); class != nil {
			if p, _, _ := unstructured.NestedString(class.Object, "spec", "provider"); p != "" {
				name = "the provider " + p
			}
		}
	}
	if m := providerName.FindStringSubmatch(b.Trouble.Text); m != nil {
		name = "the provider " + m[1]
	}
	return []Step{v.look("See which providers run on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node),
		v.look("See their DaemonSets", "get", "daemonsets", "-A"),
		say("Install " + name + ", let its DaemonSet run on node " + v.Node + " (taints, nodeSelector), and give it the kubelet's folder in which the driver looks for sockets."), v.pluginLogs()}
}

// The name of a helper pod in a driver's words, and its namespace where these give a command to look at it.
var (
	helperQuoted    = regexp.MustCompile(`(?i)(?:pod|manager|server)\s+\\?["']([a-z0-9][a-z0-9.-]*[a-z0-9])\\?["']`)
	helperPlain     = regexp.MustCompile(`(?i)\bpods?[: ]+\[?([a-z0-9]+(?:/[a-z0-9-]+)?(?:-[a-z0-9.]+)+)`)
	helperNamespace = regexp.MustCompile(`(?:-n|--namespace)[= ]([a-z0-9-]+)`)
)

// helperPod: the pod that has to serve the mount does not run; the driver's words name it.
func helperPod(v *View) (Finding, Truth) {
	b, known := v.blamed()
	if b == nil {
		return Finding{}, known
	}
	var helper *corev1.Pod
	switch {
	case b.Proven || v.at(HopStart):
		return Finding{}, No
	case b.Cause == "publish/helper-pod-not-running":
		if helper = v.helper(b.Trouble.Text); helper == nil {
			helper, _ = v.helperOf()
		}
	case b.Cause == "":
		if helper, known = v.helperOf(); helper == nil {
			return Finding{}, known
		}
	default:
		return Finding{}, No
	}
	f := Finding{Status: v.settled(b.Trouble), Evidence: b.Evidence,
		Why: fmt.Sprintf("The driver %s waits on node %s for the pod that serves volume %s: %s", v.Driver, v.Node, v.volumeName(), plainWords(b.Trouble.Text))}
	if set, _ := v.helperSet(); helper == nil && set != nil {
		name := set.Namespace + "/" + set.Name
		f.Why = fmt.Sprintf("The driver %s serves volume %s from a pod of DaemonSet %s on the same node, and there is none on node %s", v.Driver, v.volumeName(), name, v.Node)
		f.Evidence = append(f.Evidence, fact(ref(set), "status.desiredNumberScheduled", fmt.Sprint(set.Status.DesiredNumberScheduled), time.Time{}))
		if node, known := v.node(v.Node); known == Yes {
			if why, ev := refuses(set, node); why != "" {
				f.Why += ": the DaemonSet " + why
				f.Evidence = append(f.Evidence, ev)
			}
		}
		f.Why = sentence(f.Why) + " The driver says: " + plainWords(b.Trouble.Text)
		f.Fix = []Step{v.look("See what the DaemonSet asks of nodes", "-n", set.Namespace, "describe", "daemonset", set.Name), v.pluginLogs(),
			say("Let whoever labels the nodes for it (the driver, its operator) put the label on node " + v.Node + "; the kubelet tries again by itself.")}
		return f, Yes
	}
	if helper == nil {
		f.Fix = []Step{v.look("Look for the driver's helper pods", "get", "pods", "-A", "-o", "wide", "--field-selector", "status.phase!=Running"), v.pluginLogs(), say("Let the helper pod run; the kubelet tries again by itself.")}
		return f, Yes
	}
	o := ref(helper)
	name := helper.Namespace + "/" + helper.Name
	works, why, ev := true, "", Evidence{}
	for _, c := range helper.Spec.Containers {
		if ok, w, e := containerWorks(helper, c.Name); !ok {
			works, why, ev = false, w, e
			break
		}
	}
	if works {
		f.Evidence = append(f.Evidence, fact(o, "status.phase", string(helper.Status.Phase), time.Time{}))
	} else {
		f.Why = fmt.Sprintf("The driver %s serves volume %s from pod %s, and that one does not run: %s.", v.Driver, v.volumeName(), name, why)
		f.Evidence = append(f.Evidence, ev)
		f.Confidence = Certain
		if born := helper.CreationTimestamp.Time; v.age(born) < normalMount {
			until := born.Add(normalMount)
			f.Status, f.Until = StatusWaiting, &until
		}
	}
	if r := v.lastWarning(helper); r != nil && !strings.Contains(f.Why, r.Message) {
		f.Evidence = append(f.Evidence, r.evidence())
		f.Why = strings.TrimSuffix(f.Why, ".") + " (" + r.Message + ")."
	}
	f.Fix = []Step{v.look("See why it does not run", "-n", helper.Namespace, "describe", "pod", helper.Name),
		v.look("See what is on the node", "get", "pods", "-A", "-o", "wide", "--field-selector", "spec.nodeName="+v.Node),
		say("Make room for it on node " + v.Node + " (the node's limit of pods, CPU, memory; a taint that it does not tolerate), or let the waiting pod go to another node. Do not delete helper pods that run: they carry mounts.")}
	return f, Yes
}

// helper finds the pod that a driver's words name.
func (v *View) helper(text string) *corev1.Pod {
	name := ""
	for _, find := range []*regexp.Regexp{helperQuoted, helperPlain} {
		if m := find.FindStringSubmatch(text); m != nil && name == "" {
			name = m[1]
		}
	}
	if name == "" {
		return nil
	}
	namespace, bare, found := strings.Cut(name, "/")
	if found {
		name = bare
	} else {
		namespace = ""
		if m := helperNamespace.FindStringSubmatch(text); m != nil {
			namespace = m[1]
		}
	}
	pods, _ := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "metadata.name=" + name})
	for _, p := range pods {
		if p.Name == name && (namespace == "" || p.Namespace == namespace) && p.UID != v.Pod.UID {
			return p
		}
	}
	return nil
}

// helperOf finds a pod that serves the view's volume and does not run, where the driver only says that it waits: its name, or an
// annotation of it, has the volume's name in it. Pods without a node are looked at too.
func (v *View) helperOf() (*corev1.Pod, Truth) {
	if v.PV == nil {
		return nil, min(v.pvKnown, Unknown)
	}
	pods, known := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + v.Node})
	v.ahead(func() {
		nowhere, _ := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName="})
		pods = append(pods, nowhere...)
	})
	return first(pods, known, func(p *corev1.Pod) bool {
		if p.UID == v.Pod.UID || volumeOfClaim(p, v.ClaimName) != nil && p.Namespace == v.Namespace || finished(p) && p.Status.Phase == corev1.PodSucceeded {
			return false
		}
		serves := names(p.Name, v.PV.Name) || strings.Contains(p.Name, v.PV.Name)
		for _, value := range p.Annotations {
			serves = serves || names(value, v.Handle) && len(v.Handle) >= minIdentity
		}
		return serves && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { works, _, _ := containerWorks(p, c.Name); return !works })
	})
}

// helperSet finds a DaemonSet that is named after the claim, beside it, and has no pod on the view's node: the operators of some
// caches serve a claim from one.
func (v *View) helperSet() (*appsv1.DaemonSet, Truth) {
	if v.ClaimName == "" {
		return nil, No
	}
	sets, known := list[*appsv1.DaemonSet](v.world, inDaemonSets, snapshot.Query{})
	pods, podsKnown := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + v.Node})
	return first(sets, known.and(podsKnown), func(d *appsv1.DaemonSet) bool {
		return podsKnown == Yes && d.Namespace == v.Namespace && strings.HasPrefix(d.Name, v.ClaimName+"-") &&
			!slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return ownedBy(p, string(d.UID)) })
	})
}

// duplicateHandle: another PV has the view's handle, and a pod on the node uses it: the kubelet takes the two for one.
func duplicateHandle(v *View) (Finding, Truth) {
	if !v.failing() || v.PV == nil || v.Handle == "" {
		return Finding{}, No
	}
	t := v.mountTrouble()
	if v.hop(v.block).Status == StatusWaiting || t != nil && !unending(v.mountTells(t.Text)) {
		return Finding{}, No
	}
	volumes, all := list[*corev1.PersistentVolume](v.world, inVolumes, snapshot.Query{})
	for _, pv := range volumes {
		driver, handle := source(pv)
		if pv.Name == v.PV.Name || driver != v.Driver || handle != v.Handle || pv.Spec.ClaimRef == nil {
			continue
		}
		user := v.userOnNode(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
		if user == nil {
			continue
		}
		f := Finding{Confidence: Certain, Evidence: []Evidence{fact(ref(v.PV), "spec.csi.volumeHandle", v.Handle, time.Time{}), fact(ref(pv), "spec.csi.volumeHandle", handle, time.Time{})},
			Why: fmt.Sprintf("The volumes %s and %s have the same handle %q of driver %s, so the kubelet of node %s takes them for one volume: pod %s/%s uses %s, and %s is never mounted for pod %s.",
				v.PV.Name, pv.Name, v.Handle, v.Driver, v.Node, user.Namespace, user.Name, pv.Name, v.PV.Name, v.say("POD"))}
		f.Fix = []Step{v.look("Compare the two", "get", "pv", v.PV.Name, pv.Name, "-o", "yaml"),
			say("Give each PV a volumeHandle of its own (for shares: with the share's name in it). A PV's handle cannot be changed: save both, see that their policy is Retain, then make the one again under a new handle, with its claim.")}
		return f, Yes
	}
	return Finding{}, min(all.not(), Unknown)
}

// userOnNode is a pod on the view's node that uses a claim.
func (v *View) userOnNode(namespace, claim string) *corev1.Pod {
	if namespace == v.Pod.Namespace && volumeOfClaim(v.Pod, claim) != nil {
		return v.Pod
	}
	pods, _ := list[*corev1.Pod](v.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + v.Node})
	for _, p := range pods {
		if p.Namespace == namespace && !finished(p) && volumeOfClaim(p, claim) != nil {
			return p
		}
	}
	return nil
}

// notStaged: but a staging folder that only the driver's pod does not see is another fault, and its pod may be unread.
func notStaged(v *View) (Finding, Truth) {
	if b, _ := v.blamed(); b != nil && b.Cause == "publish/not-staged" && !b.Proven {
		if _, hidden := kubeletRootMismatch(v); hidden == Unknown {
			return Finding{}, Unknown
		}
	}
	return mountCause("publish/not-staged", "Volume VOLUME is to be published on node NODE and is not staged there", fixNotStaged)(v)
}

func fixNotStaged(v *View, b *blame) []Step {
	steps := []Step{onNode(v.Node, "see what is mounted for the volume", "findmnt", "-o", "TARGET,SOURCE,MAJ:MIN,FSTYPE")}
	if v.mounted() {
		steps = append(steps, saveFirst(v, b))
	}
	return append(steps, hazard(DangerDisruptive, "the driver's plugin on the node runs, and what the pod wrote is saved", "Let the pod's owner make it anew: delete the pod; the kubelet then unmounts and stages the volume again."), v.pluginLogs())
}

// saveFirst: what the pod wrote is on the node's own disk.
func saveFirst(v *View, b *blame) Step {
	if b.Facts != nil && b.Facts.publish != nil && b.Facts.publish.Type == "dir" {
		return onNode(v.Node, "save what the pod wrote into the folder, which is not on the volume, before anything is mounted or restarted", "tar", "-czf", "/var/tmp/"+v.volumeName()+".tar.gz", "-C", b.Facts.publish.Path, ".")
	}
	return say("Before anything is restarted, see whether the pod wrote anything that is not on the volume, and save it.")
}

func fixNotPropagated(v *View, b *blame) []Step {
	steps := []Step{saveFirst(v, b)}
	if p := v.plugin(v.Node); len(p.Pods) > 0 {
		pod := p.Pods[0]
		steps = append(steps, v.look("See how the driver's pod mounts the kubelet's folder: it needs mountPropagation: Bidirectional and the kubelet's own path", "-n", pod.Namespace, "get", "pod", pod.Name, "-o", "yaml"))
	}
	root := ""
	if b.Facts != nil && b.Facts.Kubelet != nil {
		root = " (" + b.Facts.Kubelet.RootDir + ")"
	}
	return append(steps, say("Install the driver with this node's kubelet folder"+root+" and Bidirectional propagation for it."),
		hazard(DangerDisruptive, "the driver runs so, and what the pods wrote is saved", "Then delete the pods that use the volume, so that it is mounted anew."))
}

func fixWrongMount(v *View, b *blame) []Step {
	return []Step{onNode(v.Node, "see what is mounted in the pod's folder, and from which device", "findmnt", "-o", "TARGET,SOURCE,MAJ:MIN,FSTYPE"),
		saveFirst(v, b),
		hazard(DangerDisruptive, "what the pod wrote is saved", "Let the pod's owner make it anew, so that the volume is published again: delete the pod, then copy back what was saved."), v.pluginLogs()}
}

func fixStalePublish(v *View, _ *blame) []Step {
	return []Step{onNode(v.Node, "see which mounts there are for the volume", "findmnt", "-o", "TARGET,SOURCE,MAJ:MIN,FSTYPE"),
		v.look("See who makes the pod anew", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "-o", "jsonpath={.metadata.ownerReferences}"),
		hazard(DangerDisruptive, "the server or the driver's mount process is back, and the pod has an owner", "Delete the pod: only a new pod gets a new mount, a restart of the container does not.")}
}

func fixFilePermission(v *View, b *blame) []Step {
	if b.Trouble != nil && pulled.in(b.Trouble.Text) {
		return []Step{say("Give the driver the pull secret or the role that the registry of the volume's image wants, or correct the image's name. The kubelet tries again by itself within 2 minutes."), v.pluginLogs()}
	}
	return []Step{v.look("See the user and groups of the pod", "-n", v.Pod.Namespace, "get", "pod", v.Pod.Name, "-o", "jsonpath={.spec.securityContext}{.spec.containers[*].securityContext}"),
		say("Set the pod's fsGroup (where the driver supports it) or run it as the owner of the files; for a share, correct the owner, mode or root_squash on the server. For secrets from an outside store, give the pod's service account the right to read them.")}
}
