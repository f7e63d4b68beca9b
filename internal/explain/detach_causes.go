package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// goingAt are the attachments being deleted that hold up the view's hop.
func (v *View) goingAt() ([]*storagev1.VolumeAttachment, Truth) {
	if !v.at(HopAttach, HopDetach, HopUnstage) {
		return nil, Yes
	}
	if v.at(HopAttach) && !v.exclusive() {
		at, known := v.attachment(v.Node)
		if known != Yes || at.DeletionTimestamp == nil {
			return nil, read(known)
		}
		return []*storagev1.VolumeAttachment{at}, Yes
	}
	return v.leavings()
}

// firstGoing asks about each attachment that is being deleted until one fits.
func (v *View) firstGoing(fits func(*storagev1.VolumeAttachment) (Finding, Truth)) (Finding, Truth) {
	going, known := v.goingAt()
	return firstFinding(going, known, fits)
}

// goingFinding begins a finding about an attachment that is being deleted.
func (v *View) goingFinding(at *storagev1.VolumeAttachment, why string, ev ...Evidence) Finding {
	f := Finding{Where: at.Spec.NodeName, Why: why, Evidence: append([]Evidence{fact(ref(at), "metadata.deletionTimestamp", at.DeletionTimestamp.UTC().Format(time.RFC3339), at.DeletionTimestamp.Time)}, ev...)}
	if t := v.detachTold(at); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	if v.Pod != nil && v.at(HopAttach) {
		f.Why = sentence(f.Why) + fmt.Sprintf(" Pod %s/%s waits for it on node %s.", v.Pod.Namespace, v.Pod.Name, v.Node)
	}
	f.Fix = []Step{v.look("See the attachment, its error and what holds it", "get", "volumeattachment", at.Name, "-o", "yaml")}
	return f
}

func detachPVGone(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		if at.Spec.Source.PersistentVolumeName == nil {
			return Finding{}, No
		}
		name := *at.Spec.Source.PersistentVolumeName
		_, known := v.volumeNamed(name)
		if known != No {
			return Finding{}, known.not()
		}
		f := v.goingFinding(at, fmt.Sprintf("The attachment of volume %s to node %s is being deleted for %s and cannot end: PersistentVolume %s does not exist any more, so the attacher does not know what to detach.",
			name, at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time)), name), fact(Object{Kind: "PersistentVolume", Name: name}, "metadata", "does not exist", time.Time{}))
		f.Confidence = Certain
		if v.age(at.DeletionTimestamp.Time) < normalAttach {
			f.Status, f.Until = StatusWaiting, moment(at.DeletionTimestamp.Add(normalAttach))
		}
		f.Fix = append(f.Fix, say(fmt.Sprintf("Find the volume's handle: in the driver's log, a backup of the PersistentVolume, or the backend, where it is the disk attached to node %s that no PersistentVolume names.", at.Spec.NodeName)),
			say(fmt.Sprintf("Make PersistentVolume %s again with that driver and handle and the reclaim policy Retain: the detach goes through by itself. Delete that object afterwards.", name)))
		return f, Yes
	})
}

func waitingForceDetach(v *View) (Finding, Truth) {
	var held []holder
	var known Truth
	switch {
	case v.at(HopAttach):
		held, known = v.heldElsewhere()
	case v.at(HopDetach):
		held, known = v.holders()
	default:
		return Finding{}, No
	}
	h, t := firstHolder(held, known, func(h holder) Truth {
		_, pending := v.forceDetach(h)
		return pending
	})
	if h == nil {
		return Finding{}, t
	}
	until, _ := v.forceDetach(*h)
	state := "is not Ready"
	if h.known == No {
		state = "does not exist any more"
	}
	f := Finding{Status: StatusWaiting, Until: &until, Confidence: Likely,
		Why:      fmt.Sprintf("Volume %s is still attached to node %s, which %s and where no pod needs it: Kubernetes detaches it without the node's word after about 6 minutes, by %s at the latest.", v.volumeName(), h.Name, state, until.UTC().Format("15:04:05Z")),
		Evidence: []Evidence{h.evidence(), h.Why}}
	if t := v.attachEventOf(); t != nil {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{say("Wait: the detach, and then the attach, follow by themselves. Do not delete the attachment by hand."), v.look("Watch the attachments", "get", "volumeattachments")}
	return f, Yes
}

// attachEventOf is what the attach-detach controller said of the view's pod, where it has one.
func (v *View) attachEventOf() *trouble {
	if v.Pod == nil {
		return nil
	}
	return v.attachEvent()
}

// installed: something in the cluster still claims the driver's name: its object, a node, or a node plugin.
func (v *View) installed() Truth {
	_, known := v.csiDriver()
	if known != No {
		return known
	}
	nodes, all := list[*storagev1.CSINode](v.world, inCSINodes, snapshot.Query{})
	for _, n := range nodes {
		if slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == v.Driver }) {
			return Yes
		}
	}
	sets, setsKnown := v.daemonSets()
	if len(sets) > 0 {
		return Yes
	}
	return truth(all != Yes || setsKnown != Yes).and(Unknown)
}

func detachDriverGone(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		if there := v.installed(); there != No {
			return Finding{}, min(there.not(), Unknown)
		}
		s := v.sidecar(attacherSidecar)
		if s.Works == Yes {
			return Finding{}, No
		}
		f := v.goingFinding(at, fmt.Sprintf("The attachment of volume %s to node %s waits for the driver %s, of which nothing is left in the cluster: no CSIDriver, no node, no DaemonSet.", v.volumeName(), at.Spec.NodeName, v.Driver),
			append(s.Evidence, fact(Object{Kind: "CSIDriver", Name: v.Driver}, "metadata", "does not exist", time.Time{}))...)
		f.Confidence = Certain
		f.Fix = append(f.Fix, say(fmt.Sprintf("Install the driver %s again, in the version that was there: it detaches by itself. Remove it only when no PersistentVolume and no VolumeAttachment names it.", v.Driver)))
		return f, Yes
	})
}

func detachAttacherNotRunning(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		if v.age(at.DeletionTimestamp.Time) < normalUntouched {
			return Finding{}, No
		}
		s := v.sidecar(attacherSidecar)
		if s.Proof == Possible && v.age(at.DeletionTimestamp.Time) < normalAttach {
			return Finding{}, No // a hosted control plane shows neither lease nor pod
		}
		e := at.Status.DetachError
		if e != nil && v.taken.Sub(e.Time.Time) <= attacherBackoff+time.Minute && (s.Works != No || s.Proof != Certain) {
			return Finding{}, No // it spoke of late
		}
		if s.Works != No || v.installed() == Unknown {
			return Finding{}, truth(s.Works != Yes).and(Unknown)
		}
		f := v.goingFinding(at, fmt.Sprintf("The attachment of volume %s to node %s is being deleted for %s, and no attacher of %s works on it: %s.", v.volumeName(), at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time)), v.Driver, s.Why), s.Evidence...)
		f.Confidence = s.Proof
		f.Fix = append(f.Fix, v.restartSidecar(s)...)
		return f, Yes
	})
}

// detachCause is the cause that the words of a detach error tell. A driver that only says that it holds its calls about a machine
// back hides why the earlier ones failed: where the node's object is gone that is why.
func (v *View) detachCause(at *storagev1.VolumeAttachment, t *trouble) string {
	if heldBack.MatchString(t.Text) {
		if _, known := v.node(at.Spec.NodeName); known == No {
			return "detach/node-gone"
		}
	}
	return v.told(detachWords, t.Text)
}

// heldBack: pd.csi.storage.gke.io ControllerUnpublishVolume.
var heldBack = regexp.MustCompile(`not permitted on node .* due to backoff condition`)

// detachSays is a cause that the words of the detach error tell.
func detachSays(id, why string) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
			t := v.detachTold(at)
			if t == nil || v.detachCause(at, t) != id {
				return Finding{}, No
			}
			f := v.goingFinding(at, v.detachWhy(why, at, t))
			f.Status, f.Confidence = v.settled(t), sure(id, t.Text)
			switch id {
			case "detach/node-gone":
				_, known := v.node(at.Spec.NodeName)
				if known == No {
					f.Confidence = Certain
					f.Evidence = append(f.Evidence, fact(Object{Kind: "Node", Name: at.Spec.NodeName}, "metadata", "does not exist", time.Time{}))
				}
				f.Fix = append(f.Fix, say(fmt.Sprintf("See in the backend's console that machine %s is gone and that the volume is attached to nothing.", at.Annotations[annNodeID])),
					say("Use a version of the driver that takes a missing machine as detached; it then ends by itself, within 5 minutes."),
					v.act(DangerDataLoss, "the backend shows the volume attached to no machine", "Only then: let the attachment go without the driver", "patch", "volumeattachment", at.Name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`))
			case "detach/permission":
				f.Fix = append(f.Fix, say("Give the driver's account the permission that it lacks, or renew its credentials, then restart the driver's controller pod."))
			default:
				f.Fix = append(f.Fix, say("Wait, and let fewer pods move at a time; the detach is repeated by itself."))
			}
			return f, Yes
		})
	}
}

// detachWhy fills VOLUME and NODE in, and adds the driver's words.
func (v *View) detachWhy(why string, at *storagev1.VolumeAttachment, t *trouble) string {
	_, words := grpc(t.Text)
	return strings.NewReplacer("VOLUME", v.volumeName(), "NODE", at.Spec.NodeName).Replace(why) + ". " + v.Driver + " says: " + words
}

func detachRBAC(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		if t := v.detachTold(at); t != nil {
			if v.told(detachWords, t.Text) != "detach/rbac" {
				return Finding{}, No
			}
			f := v.goingFinding(at, v.detachWhy("Kubernetes refuses the attacher: the detach of volume VOLUME from node NODE is not recorded", at, t))
			f.Status, f.Confidence = v.settled(t), Likely
			f.Fix = append(f.Fix, say("Give the attacher's ClusterRole the rules of its version (external-attacher, deploy/kubernetes/rbac.yaml)."))
			return f, Yes
		}
		if v.age(at.DeletionTimestamp.Time) < normalAttach {
			return Finding{}, No
		}
		s := v.withPod(v.sidecar(attacherSidecar))
		if s.Pod == nil {
			return Finding{}, Unknown
		}
		missing, role, lacking := v.lacks(s.Pod, attacherRights...)
		if lacking != Yes {
			return Finding{}, lacking
		}
		f := v.rbacFinding(s, missing, role, fmt.Sprintf("The attachment of volume %s to node %s is being deleted for %s, and nobody can record that it is detached", v.volumeName(), at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time))))
		f.Evidence = append(f.Evidence, fact(ref(at), "metadata.deletionTimestamp", at.DeletionTimestamp.UTC().Format(time.RFC3339), at.DeletionTimestamp.Time))
		return f, Yes
	})
}

func detachBusy(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		t := v.detachTold(at)
		ticket, ev := v.ticket(at)
		if ticket == "" && (t == nil || v.told(detachWords, t.Text) != "detach/backend-busy") {
			return Finding{}, No
		}
		if t == nil {
			if v.age(at.DeletionTimestamp.Time) < normalAttach {
				return Finding{}, No
			}
			f := v.goingFinding(at, fmt.Sprintf("The attachment %s of volume %s to node %s is being deleted for %s: %s.", at.Name, v.volumeName(), at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time)), ticket), ev...)
			return f, Yes
		}
		if _, left := v.leftOn(); left == Unknown || v.unlooked(t.Text) {
			return Finding{}, Unknown
		}
		f := v.goingFinding(at, v.detachWhy("The backend is busy: the attachment "+at.Name+" of volume VOLUME to node NODE cannot end", at, t), ev...)
		if ticket != "" {
			f.Why = sentence(f.Why) + " " + ticket + "."
		}
		f.Status, f.Confidence = v.settled(t), Likely
		f.Fix = append(f.Fix, say("See in the backend which operation holds the volume or the machine, and let it end or end it there. The detach is repeated by itself, at least every 5 minutes."))
		return f, Yes
	})
}

func detachInProgress(v *View) (Finding, Truth) {
	if !v.at(HopDetach) || v.hop(HopDetach).Status != StatusWaiting {
		return Finding{}, No
	}
	f, t := v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		f := v.goingFinding(at, fmt.Sprintf("Volume %s is being detached from node %s since %s, within the normal time.", v.volumeName(), at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time))))
		return f, Yes
	})
	if t == No {
		held, known := v.holders()
		h, t := firstHolder(held, known, func(h holder) Truth { return h.Ready })
		if h == nil {
			return Finding{}, t
		}
		f = Finding{Why: fmt.Sprintf("The last pod with volume %s has gone from node %s a moment ago; the detach follows.", v.volumeName(), h.Name), Evidence: []Evidence{h.evidence()}}
	} else if t != Yes {
		return Finding{}, t
	}
	f.Status, f.Until, f.Confidence = StatusWaiting, v.hop(HopDetach).Until, Certain
	f.Fix = []Step{say("Wait: it ends by itself."), v.look("Watch the attachments", "get", "volumeattachments")}
	return f, Yes
}

func orphanedAttachment(v *View) (Finding, Truth) {
	if !v.at(HopDetach) || v.hop(HopDetach).Status != StatusDegraded {
		return Finding{}, No
	}
	held, known := v.holders()
	h, t := firstHolder(held, known, func(h holder) Truth { return truth(!h.leaving() && len(h.Pods) == 0) })
	if h == nil {
		return Finding{}, t
	}
	f := Finding{Status: StatusDegraded, Confidence: Certain,
		Why:      fmt.Sprintf("Volume %s is left attached to node %s, though no pod uses it: it takes an attach slot there and will keep the next pod on another node waiting.", v.volumeName(), h.Name),
		Evidence: []Evidence{h.evidence()}}
	if h.Ready == No {
		f.Evidence = append(f.Evidence, h.Why)
		f.Fix = v.freeFromDead(h)
		return f, Yes
	}
	f.Evidence = append(f.Evidence, fact(Object{Kind: "Node", Name: h.Name}, "status.volumesInUse", "does not list it", time.Time{}))
	if down, ev := v.controllerManagerDown(); down {
		f.Why += " The kube-controller-manager, whose work the detach is, is not at work."
		f.Evidence = append(f.Evidence, ev)
	}
	f.Fix = append([]Step{v.look("See the attachment", "get", "volumeattachment", h.At.Name, "-o", "yaml"),
		say("A restart of the kube-controller-manager makes it read all attachments again; it then asks for the detach of those that nobody needs. That is the safe way.")}, v.deleteAttachment(h.At.Name, h.Name)...)
	return f, Yes
}

func detachBackendError(v *View) (Finding, Truth) {
	return v.firstGoing(func(at *storagev1.VolumeAttachment) (Finding, Truth) {
		t := v.detachTold(at)
		if t == nil {
			if v.age(at.DeletionTimestamp.Time) < normalAttach || v.at(HopAttach) && at.Spec.NodeName == v.Node {
				return Finding{}, No
			}
			f := v.goingFinding(at, fmt.Sprintf("The attachment %s of volume %s to node %s is being deleted for %s, and the attacher of %s records neither success nor error.", at.Name, v.volumeName(), at.Spec.NodeName, ago(v.age(at.DeletionTimestamp.Time)), v.Driver))
			f.Rest, f.Said, f.Confidence = true, true, Possible // an attacher that works writes one of the two
			f.Fix = append(f.Fix, say("Read the log of the driver's controller and its csi-attacher, and see in the backend whether the volume is still attached."))
			return f, Yes
		}
		if _, known := v.node(at.Spec.NodeName); known == Unknown && heldBack.MatchString(t.Text) {
			return Finding{}, Unknown
		}
		f := v.goingFinding(at, v.detachWhy("The driver cannot detach volume VOLUME from node NODE (attachment "+at.Name+")", at, t))
		f.Rest, f.Said, f.Status, f.Confidence = true, true, v.settled(t), Likely
		f.Fix = append(f.Fix, say("See in the backend whether the volume is still attached to that machine, and read the driver's controller log. If it is attached, mend what the driver says. If the backend shows it attached to nothing, a newer driver takes that as success."))
		return f, Yes
	})
}
