package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// node asks about a node: its drivers, each in a chain of the one hop that is the node's own, then every volume of its pods
// that is not mounted or does not go.
func (a *answer) node(name string) {
	pods, podsKnown := list[*corev1.Pod](a.world, inPods, snapshot.Query{Fields: "spec.nodeName=" + name})
	csiNode, csiKnown := a.csiNode(name)
	drivers, driversKnown := list[*storagev1.CSIDriver](a.world, inDrivers, snapshot.Query{})
	attachments, attachmentsKnown := list[*storagev1.VolumeAttachment](a.world, inAttachments, snapshot.Query{})
	node, known := a.world.node(name)
	a.Missing = known == No
	if known == Unknown {
		a.unseen(snapshot.Query{Resource: inNodes.Resource, Name: name})
	}
	if known != Yes {
		return
	}
	if podsKnown == Unknown {
		a.unseen(snapshot.Query{Resource: inPods.Resource, Fields: "spec.nodeName=" + name})
	}
	if csiKnown == Unknown {
		a.unseen(snapshot.Query{Resource: inCSINodes.Resource, Name: name})
	}
	if attachmentsKnown == Unknown {
		a.unseen(snapshot.Query{Resource: inAttachments.Resource})
	}
	if ok, condition := a.nodeReady(name); ok == No {
		since := "never was"
		if condition != nil {
			since = fmt.Sprintf("is %s since %s (%s)", condition.Status, condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"), condition.Reason)
		}
		a.Notes = append(a.Notes, "the node's Ready condition "+since+": its kubelet confirms nothing")
		a.Verdict = Worst(a.Verdict, VerdictDegraded)
	}
	slots := map[string]int{}
	for _, at := range attachments {
		if at.Spec.NodeName == name {
			slots[at.Spec.Attacher]++
		}
	}
	for _, driver := range a.driversOf(name, csiNode, drivers, pods) {
		v := &View{world: a.world, Driver: driver, Node: name, only: []HopName{HopRegister}}
		a.examine(v)
		if entry, known := v.registered(name); known == Yes && entry.Allocatable != nil && entry.Allocatable.Count != nil {
			hop := &a.Chains[len(a.Chains)-1].Hops[0]
			hop.Note = strings.TrimPrefix(fmt.Sprintf("%s; %d of %d volumes attached", hop.Note, slots[driver], *entry.Allocatable.Count), "; ")
			if slots[driver] >= int(*entry.Allocatable.Count) {
				hop.Note += ": no more fits"
			}
		}
	}
	if driversKnown == Unknown && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !ready(p) && registers(&p.Spec) }) {
		a.unseen(snapshot.Query{Resource: inDrivers.Resource}) // of which driver this plugin is
	}
	a.leftOn(node, attachments, pods)
	if podsKnown == Yes && attachmentsKnown == Yes {
		a.stagedOn(node, attachments, pods)
		a.account(node, attachments, drivers, pods)
	}
	a.orphansOn(name)
	seen := a.reportAtHand(name) != nil // it may show a fault under a pod that runs
	sortByCreation(pods)
	for _, p := range pods {
		works := ready(p) && p.DeletionTimestamp == nil
		if finished(p) && p.DeletionTimestamp == nil || works && !seen {
			continue
		}
		own := &answer{world: a.world, gaps: map[snapshot.Query]bool{}}
		own.Verdict = VerdictHealthy
		own.volumesOf(p)
		if works && own.Verdict == VerdictHealthy {
			continue
		}
		a.Chains = append(a.Chains, own.Chains...)
		if !own.nodesOwn() { // stuck for another reason: listed, not counted; one that cannot be told may be the node's
			if own.Verdict == VerdictUndetermined {
				a.Verdict = Worst(a.Verdict, VerdictUndetermined)
				for q := range own.gaps {
					a.gap(q)
				}
			}
			continue
		}
		a.Verdict = Worst(a.Verdict, own.Verdict)
		a.join(own)
	}
	if a.Verdict == VerdictUndetermined { // the node itself would tell
		a.gap(snapshot.Query{Resource: inReports.Resource, Name: name})
	}
}

// join takes over what an answer about a part found, and what it lacks.
func (a *answer) join(part *answer) {
	for _, f := range part.Findings {
		a.add(f)
	}
	for q := range part.gaps {
		a.gap(q)
	}
}

// leftovers asks about what is left on a node of volumes and pods that are gone, where its report lies in the input.
func (a *answer) leftovers(name string) {
	pods, podsKnown := a.podsOn(name)
	attachments, attachmentsKnown := list[*storagev1.VolumeAttachment](a.world, inAttachments, snapshot.Query{})
	node, known := a.world.node(name)
	a.Missing = known == No
	if known == Yes && podsKnown == Yes && attachmentsKnown == Yes {
		a.stagedOn(node, attachments, pods)
	}
	a.orphansOn(name)
}

// nodesOwn: what was found lies at a hop whose owner is on the node.
func (a *answer) nodesOwn() bool {
	onNode := append(slices.Clone(onNodeHops), HopDetach)
	for _, f := range a.Findings {
		thisMachine := f.Cause == "attach/stale-attachment" && f.Where == "" // held by the machine that had the node's name before
		if slices.Contains(onNode, f.Hop) || f.Cause == "attach/limit-reached" || f.Cause == "attach/node-unknown" || f.Cause == "attach/not-published-to-node" || thisMachine {
			return true
		}
	}
	if len(a.Findings) > 0 {
		return false
	}
	for _, c := range a.Chains {
		for _, h := range c.Hops {
			if h.reached && h.Status != StatusOK && h.Status != StatusSkipped && slices.Contains(onNode, h.Hop) {
				return true
			}
		}
	}
	return false
}

// driversOf are the drivers that a node has or should have: those in its CSINode, those whose node plugin runs there, and
// those that its pods' inline volumes name.
func (a *answer) driversOf(node string, csiNode *storagev1.CSINode, all []*storagev1.CSIDriver, pods []*corev1.Pod) []string {
	var out []string
	if csiNode != nil {
		for _, d := range csiNode.Spec.Drivers {
			out = append(out, d.Name)
		}
	}
	for _, d := range all {
		v := &View{world: a.world, Driver: d.Name, Node: node}
		if plugins, _ := v.pluginPods(node); len(plugins) > 0 {
			out = append(out, d.Name)
		}
	}
	for _, p := range pods {
		for _, vol := range p.Spec.Volumes {
			if vol.CSI != nil && !finished(p) {
				out = append(out, vol.CSI.Driver)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
