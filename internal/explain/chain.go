package explain

import (
	"slices"
	"time"
)

// hopOrder is causal: a hop is this volume's turn when all before it are in order or do not apply.
var setUp = []struct {
	name HopName
	hop  func(*View) Hop
}{
	{HopClaim, claimHop}, {HopProvision, provisionHop}, {HopBind, bindHop}, {HopSchedule, scheduleHop}, {HopRegister, registerHop},
	{HopAttach, attachHop}, {HopStage, stageHop}, {HopPublish, publishHop}, {HopStart, startHop},
}

// sideChains stand beside the way to a pod: each is in order or not by itself.
var sideChains = []struct {
	name HopName
	hop  func(*View) Hop
}{{HopExpand, expandHop}, {HopSnapshot, snapshotHop}}

var tearDown = []struct {
	name HopName
	hop  func(*View) Hop
}{{HopUnpublish, unpublishHop}, {HopUnstage, unstageHop}, {HopDetach, detachHop}, {HopDelete, deleteHop}}

// shown is the order of the contract, in which a chain is printed.
var shown = []HopName{HopClaim, HopProvision, HopBind, HopSchedule, HopAttach, HopRegister, HopStage, HopPublish, HopStart,
	HopExpand, HopSnapshot, HopUnpublish, HopUnstage, HopDetach, HopDelete}

// chain fills in the view's hops from structure alone and gives the hops at which it stops: one of the set-up chain, one of
// the teardown chain, and each side chain that is not in order.
func (v *View) chain() []HopName {
	var blocks []HopName
	v.hops = make([]Hop, 0, len(shown))
	run := func(name HopName, hop func(*View) Hop) Hop {
		var h Hop
		if len(v.only) > 0 && !slices.Contains(v.only, name) {
			h = skippedHop("")
			h.Hop = name
			v.hops = append(v.hops, h)
			return h
		}
		before := len(v.wanted)
		unread := v.scope(func() { h = hop(v) })
		h.Hop, h.unread, h.pending = name, unread, len(v.wanted) > before && h.Status != StatusOK && h.Status != StatusSkipped
		v.hops = append(v.hops, h)
		return h
	}
	open := func(h Hop) bool { return h.Status != StatusOK && h.Status != StatusSkipped }
	stopped := v.Pod != nil && v.Pod.DeletionTimestamp != nil // a terminating pod is not set up any more
	for _, s := range setUp {
		if h := run(s.name, s.hop); open(h) && h.reached && !stopped {
			stopped, blocks = true, append(blocks, s.name)
		}
	}
	for _, s := range sideChains {
		if h := run(s.name, s.hop); open(h) {
			blocks = append(blocks, s.name)
		}
	}
	stopped = false
	for _, s := range tearDown {
		if h := run(s.name, s.hop); open(h) && h.reached && !stopped {
			stopped, blocks = true, append(blocks, s.name)
		}
	}
	return blocks
}

// passed tells whether all of these hops, already judged, are in order or do not apply.
func (v *View) passed(names ...HopName) bool {
	for _, n := range names {
		if s := v.hop(n).Status; s != StatusOK && s != StatusSkipped {
			return false
		}
	}
	return true
}

// reached tells whether one of these hops, already judged, is where the chain stops.
func (v *View) reached(names ...HopName) bool {
	for _, n := range names {
		if h := v.hop(n); h.reached && h.Status != StatusOK && h.Status != StatusSkipped {
			return true
		}
	}
	return false
}

func okHop(note string) Hop      { return Hop{Status: StatusOK, Note: note} }
func skippedHop(note string) Hop { return Hop{Status: StatusSkipped, Note: note} }
func unknownHop(o *Object, note string) Hop {
	return Hop{Status: StatusUnknown, Object: o, Note: note, reached: true}
}

// laterHop is not reached: something before it has to happen first.
func laterHop(note string) Hop { return Hop{Status: StatusWaiting, Note: note} }

// openHop is reached and not in order: waiting while it is younger than its normal time, stuck after.
func (v *View) openHop(since time.Time, normal time.Duration, o Object, note string) Hop {
	h := Hop{Status: StatusWaiting, Since: moment(since), Object: &o, Note: note, reached: true}
	if v.age(since) >= normal {
		h.Status = StatusStuck
	} else {
		h.Until = moment(since.Add(normal))
	}
	return h
}

// troubledHop is reached and fails.
func (v *View) troubledHop(t *trouble, status Status, note string) Hop {
	return Hop{Status: status, Since: moment(t.Since), Object: &t.Evidence.Object, Note: note, reached: true, said: t.Text}
}

// asBlock gives a finding the status of the hop at which the chain stops, where nothing but its age decides.
func (v *View) asBlock(f Finding) Finding {
	h := v.hop(v.block)
	f.Status, f.Until = h.Status, h.Until
	return f
}
