package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// saidOr makes the Match of a cause that an error's words tell, or structure alone where nothing is said.
func saidOr(id string, structure func(*View) (Finding, Truth), finding func(*View, *trouble) Finding) func(*View) (Finding, Truth) {
	words := said(id, provisionError, provisionWords, finding)
	return func(v *View) (Finding, Truth) {
		if f, known := words(v); known == Yes {
			return f, known
		}
		return structure(v)
	}
}

func provisionRBAC(v *View, t *trouble) Finding {
	f := v.refused(t, fmt.Sprintf("The API server does not let the provisioner of %s do its work: %s", v.Driver, driverSays(t)))
	if m := forbiddenUser.FindStringSubmatch(t.Text); m != nil {
		f.Fix = append(f.Fix, v.look("Ask whether it may, as that user", "auth", "can-i", m[2], m[3], "--as", m[1]))
	}
	f.Fix = append(f.Fix, say("Apply the driver's RBAC of the version that is installed (ClusterRole and binding of the provisioner's service account). The claim is tried again by itself."))
	return f
}

// Rights that external-provisioner needs to see a claim and to save its volume (deploy/kubernetes/rbac.yaml of v6.4).
var provisionerRights = []right{
	{"", "persistentvolumeclaims", "list"},
	{"storage.k8s.io", "storageclasses", "list"},
	{"", "persistentvolumes", "create"},
}

// provisionerLacks: a provisioner at work that did nothing, or ended in nothing, and may not do it.
func provisionerLacks(v *View) (Finding, Truth) {
	if !v.at(HopProvision) || v.Driver == "" || !v.unprovisioned() || v.hop(HopProvision).Status != StatusStuck {
		return Finding{}, No
	}
	events, known := v.claimEvents()
	if known == Unknown || provisionFailures(events) != nil {
		return Finding{}, min(known.not(), Unknown)
	}
	s := v.withPod(v.provisioner())
	if s.Works != Yes || s.Pod == nil {
		return Finding{}, No // that is said elsewhere, or nothing shows whose rights they are
	}
	missing, role, lacking := v.lacks(s.Pod, provisionerRights...)
	if lacking != Yes {
		return Finding{}, No // roles are evidence where they can be read, and never required
	}
	f := v.asBlock(v.rbacFinding(s, missing, role, fmt.Sprintf("Claim %s/%s is left to the provisioner of %s, which cannot make its volume known", v.Namespace, v.ClaimName, v.Driver)))
	f.Evidence = append(f.Evidence, s.Evidence...)
	return f, Yes
}

var forbiddenUser = regexp.MustCompile(`User "([^"]+)" cannot (\w+) resource "([^"]+)"`)

var secretNamed = regexp.MustCompile(`secret (\S+) in namespace ([^:\s]+)`)

func secretMissing(v *View, t *trouble) Finding {
	f := v.refused(t, sentence(fmt.Sprintf("The provisioner of %s does not get the secret that it needs: %s", v.Driver, driverSays(t))))
	class, known := v.class()
	if known == Yes {
		name, namespace := "", ""
		for key, value := range class.Parameters {
			switch {
			case strings.HasSuffix(key, "provisioner-secret-name") || strings.HasSuffix(key, "ProvisionerSecretName"):
				name = value
			case strings.HasSuffix(key, "provisioner-secret-namespace") || strings.HasSuffix(key, "ProvisionerSecretNamespace"):
				namespace = value
			}
		}
		if name == "" {
			f.Why += fmt.Sprintf(" Class %s names no secret for provisioning (csi.storage.k8s.io/provisioner-secret-name).", class.Name)
			f.Evidence = append(f.Evidence, fact(ref(class), "parameters[csi.storage.k8s.io/provisioner-secret-name]", "not set", time.Time{}))
		} else {
			f.Evidence = append(f.Evidence, fact(ref(class), "parameters[csi.storage.k8s.io/provisioner-secret-name]", namespace+"/"+name, time.Time{}))
		}
	}
	if m := secretNamed.FindStringSubmatch(t.Text); m != nil {
		f.Fix = append(f.Fix, v.look("See whether the secret is there", "get", "secret", m[1], "-n", m[2]))
	}
	f.Fix = append(f.Fix, say("Make the secret with the keys that the driver's documentation names, or see why its operator has not made it (a cluster that is still being built makes it last). The claim is tried again by itself, within 5 minutes."))
	return f
}

func invalidParameters(v *View) (Finding, Truth) {
	t, known := provisionError(v)
	if v.at(HopProvision) && v.Claim.Spec.Selector != nil {
		c, volumes := v.candidates()
		switch {
		case volumes == Unknown:
			return Finding{}, Unknown
		case c.selected:
			return Finding{}, No // the claim means a hand-made volume: bind says what differs
		case t == nil && known == Yes && v.hop(HopProvision).Status == StatusStuck:
			f := v.asBlock(Finding{Confidence: Likely})
			v.aboutSelector(&f)
			return f, Yes
		}
	}
	refused := func(v *View, t *trouble) Finding {
		asked := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		f := v.refused(t, fmt.Sprintf("Driver %s cannot make what class %s and claim %s/%s (%s) ask for: %s", v.Driver, v.className(), v.Namespace, v.ClaimName, asked.String(), driverSays(t)),
			v.look("See the parameters of the class", "get", "storageclass", v.className(), "-o", "yaml"),
			say("Correct the parameter in a new class (a class cannot be changed), or the size or fields of the claim, and make the claim again: it was never bound, so it holds no data."))
		f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec", v.asks(), v.Claim.CreationTimestamp.Time))
		if strings.Contains(t.Text, "claim Selector is not supported") {
			v.aboutSelector(&f)
			f.Confidence = Certain
		}
		return f
	}
	if t != nil && noBackendsSaid.MatchString(t.Text) {
		if online, _ := v.tridentBackends(); len(online) > 0 { // so it is the pools or attributes that the class asks for
			f := refused(v, t)
			f.Evidence = append([]Evidence{t.Evidence, fact(ref(online[0]), "state", "online", time.Time{})}, f.Evidence...)
			return f, Yes
		}
	}
	return said("provision/invalid-parameters", provisionError, provisionWords, refused)(v)
}

// aboutSelector says why a selector and a class that makes volumes do not go together.
func (v *View) aboutSelector(f *Finding) {
	f.Why = fmt.Sprintf("The claim has a selector, and class %s makes volumes: a provisioner does not know selectors, and no hand-made volume matches it.", v.className())
	f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.selector", v.asks(), v.Claim.CreationTimestamp.Time))
	f.Fix = []Step{say("Make the claim again without the selector, or with storageClassName: \"\" if a hand-made volume is meant: it was never bound, so it holds no data.")}
}

func topologyMissing(v *View, t *trouble) Finding {
	f := v.refused(t, sentence(fmt.Sprintf("Driver %s finds no place where it may make the volume: %s", v.Driver, driverSays(t))))
	v.explainTopology(&f)
	return f
}

// explainTopology says which part of the driver's topology is missing, and where.
func (v *View) explainTopology(f *Finding) {
	node := v.selectedNode()
	if node == "" {
		csinodes, known := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
		var without, keys int
		for _, n := range csinodes {
			if d := driverOf(n, v.Driver); d != nil && len(d.TopologyKeys) == 0 {
				without++
			} else if d != nil {
				keys++
			}
		}
		switch {
		case known == Yes && without+keys == 0:
			f.Why += " No CSINode lists the driver: its node plugin is registered nowhere."
			f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode"}, "spec.drivers", "no node has "+v.Driver, time.Time{}))
		case without > 0 && keys == 0:
			f.Confidence = Certain
			f.Why += fmt.Sprintf(" The provisioner works with topology, and the driver's node plugins registered without: no CSINode has topologyKeys for %s.", v.Driver)
			f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode"}, "spec.drivers["+v.Driver+"].topologyKeys", fmt.Sprintf("not set on %d nodes", without), time.Time{}))
		}
		f.Fix = append(f.Fix, v.look("See which topologyKeys the driver registered", "get", "csinodes", "-o", "yaml"),
			say("Make the controller and the node plugin agree on topology (both with it or both without: flags of the driver, --feature-gates=Topology of csi-provisioner), and let the node plugins register again. Check the class's allowedTopologies against the nodes' labels."))
		return
	}
	d, registered := v.registered(node)
	n, has := v.node(node)
	switch {
	case registered == No:
		f.Why += fmt.Sprintf(" Node %s was chosen, and the node plugin of %s is not registered there.", node, v.Driver)
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: node}, "spec.drivers", "no "+v.Driver, time.Time{}))
		pods, _ := v.pluginPods(node)
		for _, p := range pods {
			f.Evidence = append(f.Evidence, fact(ref(p), "status.phase", string(p.Status.Phase), p.CreationTimestamp.Time))
			f.Fix = append(f.Fix, v.look("See why the node plugin is not ready", "describe", "pod", p.Name, "-n", p.Namespace))
		}
		if len(pods) == 0 {
			sets, _ := v.daemonSets()
			for _, s := range sets {
				f.Fix = append(f.Fix, v.look("See why the node plugin has no pod on the node (taints, nodeSelector)", "describe", "daemonset", s.Name, "-n", s.Namespace))
			}
		}
		f.Fix = append(f.Fix, say(fmt.Sprintf("Get the node plugin to run on %s, or keep pods that need the volume away from nodes without it.", node)))
	case registered == Yes && has == Yes:
		var missing []string
		for _, key := range d.TopologyKeys {
			if _, ok := n.Labels[key]; !ok {
				missing = append(missing, key)
			}
		}
		f.Evidence = append(f.Evidence, fact(Object{Kind: "CSINode", Name: node}, "spec.drivers["+v.Driver+"].topologyKeys", strings.Join(d.TopologyKeys, ", "), time.Time{}))
		if len(missing) > 0 {
			f.Confidence = Certain
			f.Why += fmt.Sprintf(" Node %s lacks the labels %s, which the driver registered as its topology.", node, strings.Join(missing, ", "))
			f.Evidence = append(f.Evidence, fact(ref(n), "metadata.labels", "without "+strings.Join(missing, ", "), time.Time{}))
		} else {
			f.Why += fmt.Sprintf(" Node %s carries all labels that the driver registered as its topology by now.", node)
			f.Fix = append(f.Fix, say("If the error goes on, csi-provisioner works with an old copy of the node: let its pod be made anew, and compare the versions of csi-provisioner and Kubernetes."))
		}
		f.Fix = append(f.Fix, v.look("Compare the node's labels with its CSINode", "get", "node/"+node, "csinode/"+node, "-o", "yaml"),
			say("The labels come from the node plugin when it registers: restart the plugin's pod on that node, and see in its log whether it finds its zone."))
	default:
		f.Rest, f.Said = true, true // the node may be gone, or its labels be there by now
		f.Fix = append(f.Fix, v.look("Compare the node's labels with its CSINode", "get", "node/"+node, "csinode/"+node, "-o", "yaml"))
	}
}

// topologyStructure: the class allows only places where no node is, so the scheduler chooses none.
func topologyStructure(v *View) (Finding, Truth) {
	if !v.at(HopSchedule) || !v.unprovisioned() || !noVolumeFits.MatchString(v.unfit()) {
		return Finding{}, No
	}
	class, known := v.class()
	if known != Yes {
		return Finding{}, known
	}
	if len(class.AllowedTopologies) == 0 {
		return Finding{}, No
	}
	nodes, known := v.nodes()
	if known == Unknown {
		return Finding{}, Unknown
	}
	var allowed []string
	for _, t := range class.AllowedTopologies {
		for _, e := range t.MatchLabelExpressions {
			allowed = append(allowed, e.Key+" in "+strings.Join(e.Values, ", "))
		}
	}
	var fitting []string
	for _, n := range nodes {
		if allows(class, n) {
			fitting = append(fitting, n.Name)
		}
	}
	f := v.scheduling()
	f.Confidence = Certain
	list := strings.Join(allowed, "; ")
	f.Evidence = append(f.Evidence, fact(ref(class), "allowedTopologies", list, time.Time{}))
	f.Why = fmt.Sprintf("Class %s allows volumes only where %s, and no node is there.", class.Name, list)
	if len(fitting) > 0 {
		f.Confidence = Likely
		f.Why = fmt.Sprintf("Class %s allows volumes only where %s; that leaves %s, where the scheduler cannot put the pod.", class.Name, list, strings.Join(fitting[:min(5, len(fitting))], ", "))
	}
	f.Fix = []Step{v.look("Compare the class with the nodes' labels", "get", "nodes", "--show-labels"),
		say("Make a class for the places where nodes are (a class cannot be changed), or bring up nodes there.")}
	return f, Yes
}

// allows tells whether a class makes volumes for a node: one of its allowedTopologies must match.
func allows(class *storagev1.StorageClass, n *corev1.Node) bool {
	for _, t := range class.AllowedTopologies {
		all := true
		for _, e := range t.MatchLabelExpressions {
			in := false
			for _, v := range e.Values {
				in = in || n.Labels[e.Key] == v
			}
			all = all && in
		}
		if all {
			return true
		}
	}
	return false
}

// sourceRef is what the claim's volume is to be filled from; nil: nothing.
func (v *View) sourceRef() *corev1.TypedObjectReference {
	if v.Claim == nil {
		return nil
	}
	if r := v.Claim.Spec.DataSourceRef; r != nil {
		return r
	}
	if r := v.Claim.Spec.DataSource; r != nil {
		return &corev1.TypedObjectReference{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
	}
	return nil
}

// sourceSpace is the namespace of the claim's source.
func (v *View) sourceSpace(r *corev1.TypedObjectReference) string {
	if r.Namespace != nil && *r.Namespace != "" {
		return *r.Namespace
	}
	return v.Namespace
}

// sourceNotReady judges the source itself: that the provisioner waits for it is no error of its own.
func sourceNotReady(v *View, t *trouble) Finding {
	f := v.refused(t, "")
	r := v.sourceRef()
	if r == nil {
		f.Why = fmt.Sprintf("Driver %s cannot use the source of the volume: %s", v.Driver, driverSays(t))
		return f
	}
	namespace := v.sourceSpace(r)
	source := Object{r.Kind, namespace, r.Name}
	var why string
	switch r.Kind {
	case "VolumeSnapshot":
		why = v.snapshotUnfit(&f)
		_, known := v.sourceSnapshot()
		f.Rest, f.Said = known == Unknown, true // it may have a fault of its own
	case "PersistentVolumeClaim":
		why = v.cloneUnfit(&f, namespace, r.Name)
	}
	if why == "" {
		why = "the provisioner cannot use it yet: " + driverSays(t)
	}
	f.Why = fmt.Sprintf("Claim %s/%s is to be filled from %s, and %s.", v.Namespace, v.ClaimName, source, strings.TrimSuffix(why, "."))
	f.Evidence = append(f.Evidence, fact(v.claimObject(), "spec.dataSource", source.String(), v.Claim.CreationTimestamp.Time))
	f.Fix = append(f.Fix, v.look("See the state of the source", "get", strings.ToLower(r.Kind), r.Name, "-n", namespace, "-o", "yaml"))
	if f.Status == StatusWaiting {
		f.Fix = append(f.Fix, say("Nothing is to be done yet: the volume is made by itself once the source is ready."))
	} else {
		f.Fix = append(f.Fix, say("Put the source right, or make the claim again from another one (it was never bound, so it holds no data). Keep the source: it may be the only copy."))
	}
	return f
}

// cloneUnfit says why a claim cannot be cloned.
func (v *View) cloneUnfit(f *Finding, namespace, name string) string {
	c, known := get[*corev1.PersistentVolumeClaim](v.world, inClaims, namespace, name)
	if known == No {
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(Object{"PersistentVolumeClaim", namespace, name}, "", "not found", time.Time{}))
		return "there is no such claim"
	}
	if known == Unknown {
		return ""
	}
	if c.Status.Phase != corev1.ClaimBound {
		f.Evidence = append(f.Evidence, fact(ref(c), "status.phase", string(c.Status.Phase), c.CreationTimestamp.Time))
		f.Status, f.Until = StatusStuck, nil
		if age := v.age(c.CreationTimestamp.Time); age < normalProvision && c.Status.Phase == corev1.ClaimPending {
			f.Status, f.Until = StatusWaiting, moment(c.CreationTimestamp.Add(normalProvision))
		}
		f.Fix = append(f.Fix, Step{Text: "Ask why that claim is not bound", Command: v.command("csidoctor", "pvc", name, "-n", namespace), Danger: DangerNone})
		return fmt.Sprintf("that claim is %s itself", c.Status.Phase)
	}
	pv, known := get[*corev1.PersistentVolume](v.world, inVolumes, "", c.Spec.VolumeName)
	if known != Yes {
		return ""
	}
	f.Confidence = Certain
	asked, has := v.Claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	driver, _ := source(pv)
	switch {
	case driver != v.Driver:
		kind := volumeKind(pv)
		f.Evidence = append(f.Evidence, fact(ref(pv), "spec", kind, pv.CreationTimestamp.Time))
		return fmt.Sprintf("its volume %s is %s, not of driver %s: only a volume of the same driver can be cloned", pv.Name, kind, v.Driver)
	case has.Cmp(asked) > 0:
		f.Evidence = append(f.Evidence, fact(ref(pv), "spec.capacity", has.String(), time.Time{}))
		return fmt.Sprintf("its volume has %s, more than the %s that are asked for", has.String(), asked.String())
	case modeOf(c.Spec.VolumeMode) != modeOf(v.Claim.Spec.VolumeMode):
		f.Evidence = append(f.Evidence, fact(ref(c), "spec.volumeMode", string(modeOf(c.Spec.VolumeMode)), time.Time{}))
		return fmt.Sprintf("its volumeMode is %s, and %s is asked for", modeOf(c.Spec.VolumeMode), modeOf(v.Claim.Spec.VolumeMode))
	}
	f.Confidence = ""
	return ""
}

// volumeKind words what kind of volume a PV is: "hostPath" or "of driver x".
func volumeKind(pv *corev1.PersistentVolume) string {
	s := pv.Spec.PersistentVolumeSource
	switch {
	case s.CSI != nil:
		return "of driver " + s.CSI.Driver
	case s.HostPath != nil:
		return "hostPath " + s.HostPath.Path
	case s.Local != nil:
		return "local " + s.Local.Path
	case s.NFS != nil:
		return "nfs " + s.NFS.Server + ":" + s.NFS.Path
	}
	return "of no CSI driver"
}

// sourceStructure: a populator should fill the volume, and has not.
func sourceStructure(v *View) (Finding, Truth) {
	r := v.sourceRef()
	if !v.at(HopProvision) || r == nil || r.Kind == "VolumeSnapshot" || r.Kind == "PersistentVolumeClaim" || v.hop(HopProvision).Status == StatusWaiting {
		return Finding{}, No
	}
	events, known := v.claimEvents()
	var word *report
	for _, e := range events {
		if strings.Contains(e.Message, "external populator") || strings.Contains(strings.ToLower(e.Message), "populator") {
			word = &e
		}
	}
	if word == nil || v.provisionTrouble(events) != nil {
		return Finding{}, min(known.not(), Unknown)
	}
	source := Object{r.Kind, v.sourceSpace(r), r.Name}
	f := v.asBlock(Finding{Confidence: Likely, Why: fmt.Sprintf("The provisioner leaves claim %s/%s to a populator, which should fill it from %s, and no populator has.", v.Namespace, v.ClaimName, source),
		Evidence: []Evidence{word.evidence(), fact(v.claimObject(), "spec.dataSourceRef", source.String(), v.Claim.CreationTimestamp.Time)}})
	for _, e := range slices.Backward(events) { // the populator's own word, if it has said one
		if e.Source != "" && e.Message != word.Message && !slices.Contains([]string{"ExternalProvisioning", "WaitForFirstConsumer", "WaitForPodScheduled", "Provisioning"}, e.Reason) {
			f.Why = sentence(f.Why) + fmt.Sprintf(" %s says: %s", e.Source, e.Message)
			f.Evidence = append(f.Evidence, e.evidence())
			break
		}
	}
	f.Fix = []Step{v.look("See whether a populator for this kind is registered, and whether the source exists", "get", "volumepopulators"),
		say("Install or restart the populator for this kind (its log names the claim), or make the claim again without dataSourceRef.")}
	return f, Yes
}
