package explain

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxTargets = 5 // of a group are named
	fewObjects = 3 // objects explain a cause one by one even if each has one volume only
)

// groups puts answers together that one cause and one object explain, the worst first, then those that explain most.
func (sc *scan) groups(items []Diagnosis) []Group {
	byCause := map[string][]*Diagnosis{}
	for i := range items {
		key := string(items[i].Verdict) + " " + items[i].fault() + items[i].blinded()
		byCause[key] = append(byCause[key], &items[i])
	}
	out := []Group{}
	for _, same := range byCause {
		narrow := map[Object]int{}
		for _, d := range same {
			if o, _ := d.commons(); o != (Object{}) {
				narrow[o]++
			}
		}
		byObject := map[Object][]*Diagnosis{}
		for _, d := range same {
			o, wide := d.commons()
			enough := 2
			if slices.Contains(onNodeHops, d.Hop) && wide != (Object{}) { // on many nodes it is the driver's fault
				enough = len(same)/2 + 1
			}
			if len(narrow) > fewObjects && narrow[o] < enough {
				o = wide
			}
			byObject[o] = append(byObject[o], d)
		}
		for o, members := range byObject {
			out = append(out, sc.group(o, members))
		}
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Verdict.Rank(), b.Verdict.Rank()), cmp.Compare(b.Count, a.Count), a.older(b), strings.Compare(a.Cause, b.Cause),
			strings.Compare(string(a.Hop), string(b.Hop)), strings.Compare(a.Title, b.Title), strings.Compare(a.Command, b.Command))
	})
	return out
}

// older puts what waits longest first, and last what nothing is known of.
func (g Group) older(h Group) int {
	switch {
	case g.Since == nil || h.Since == nil:
		return boolOrder(g.Since == nil, h.Since == nil)
	}
	return g.Since.Compare(*h.Since)
}

// group describes answers with one cause and one common object; the zero object: they have none.
func (sc *scan) group(o Object, members []*Diagnosis) Group {
	slices.SortStableFunc(members, func(a, b *Diagnosis) int { return Group{Since: a.Since()}.older(Group{Since: b.Since()}) })
	first := members[0]
	g := Group{Hop: first.Hop, Verdict: first.Verdict, Count: len(members), Since: first.Since(), Targets: []Target{}, Title: first.untitled()}
	if c := first.Cause; c != nil {
		g.Cause, g.Title, g.Confidence = c.ID, c.Title, c.Confidence
	}
	if len(members) == 1 && o.Kind != "Node" {
		o = first.where(o)
	}
	if o != (Object{}) {
		g.Object = &o
	}
	for _, d := range members[:min(maxTargets, len(members))] {
		g.Targets = append(g.Targets, d.Target)
	}
	g.Command = sc.more(g, first)
	return g
}

// blinded are the inputs for want of which nothing could be told; empty where a cause was.
func (d *Diagnosis) blinded() string {
	if d.Cause != nil || d.Verdict != VerdictUndetermined {
		return ""
	}
	var inputs []string
	for _, g := range d.Gaps {
		inputs = append(inputs, g.Input)
	}
	slices.Sort(inputs)
	return " " + strings.Join(slices.Compact(inputs), ", ")
}

// untitled says of an answer without a cause what is known.
func (d *Diagnosis) untitled() string {
	if blind := strings.TrimSpace(d.blinded()); blind != "" {
		return "What is wrong cannot be told without " + blind
	}
	return "No known cause explains it"
}

// place is the chain that is not in order at the answer's hop; nil: there is none.
func (d *Diagnosis) place() *Chain {
	for i, c := range d.Chains {
		if slices.ContainsFunc(c.Hops, func(h Hop) bool {
			return h.Hop == d.Hop && h.Status != StatusOK && h.Status != StatusSkipped
		}) {
			return &d.Chains[i]
		}
	}
	return nil
}

// where is the object to look at: the hop's, else what many would have in common.
func (d *Diagnosis) where(common Object) Object {
	if c := d.place(); c != nil {
		for _, h := range c.Hops {
			if h.Hop == d.Hop && h.Object != nil && h.Object.Name != "" {
				return *h.Object
			}
		}
	}
	return common
}

// commonKinds can explain several volumes at once, what tells most first.
var commonKinds = []string{"Namespace", "ResourceQuota", "Node", "CSINode", "NodeReport", "StorageClass", "VolumeSnapshotClass", "VolumeSnapshot", "DaemonSet", "Deployment", "StatefulSet"}

// onNodeHops are those whose owner is on the node.
var onNodeHops = []HopName{HopRegister, HopStage, HopPublish, HopStart, HopUnpublish, HopUnstage}

// commons are what the answer may have in common with others of its cause: an object that the first finding rests on or the node,
// and in a wider sense the driver. The zero object: nothing.
func (d *Diagnosis) commons() (narrow, wide Object) {
	c := d.place()
	if c != nil && c.Driver != "" {
		wide = Object{Kind: "CSIDriver", Name: c.Driver}
	}
	onNode := slices.Contains(onNodeHops, d.Hop)
	if d.Cause == nil {
		return wide, wide
	}
	if _, slug, _ := strings.Cut(d.Cause.ID, "/"); !onNode && slices.Contains(driversOwn, slug) {
		return wide, wide
	}
	best := len(commonKinds)
	for _, e := range d.Findings[0].Evidence {
		o := e.Object
		rank := slices.Index(commonKinds, o.Kind)
		if rank < 0 || o.Name == "" || Target(o) == d.Target {
			continue
		}
		if rank = min(rank, slices.Index(commonKinds, o.nodeKind())); rank == best && o.Name != narrow.Name {
			narrow = Object{} // of several nodes none is the reason
		} else if rank < best {
			best, narrow = rank, o
			narrow.Kind = o.nodeKind()
		}
	}
	if narrow == (Object{}) && onNode && c != nil && c.Node != "" {
		narrow = Object{Kind: "Node", Name: c.Node}
	}
	if narrow == (Object{}) {
		narrow = wide
	}
	return narrow, wide
}

// nodeKind is the object's kind; what stands for a node is a node.
func (o Object) nodeKind() string {
	if o.Kind == "CSINode" || o.Kind == "NodeReport" {
		return "Node"
	}
	return o.Kind
}

// more is the command that shows more of a group: the driver's or node's answer where these are at fault, else its oldest target's.
func (sc *scan) more(g Group, first *Diagnosis) string {
	_, slug, _ := strings.Cut(g.Cause, "/")
	t := first.Target
	switch {
	case g.Count > 1 && g.Object != nil && g.Object.Kind == "CSIDriver" && (g.Hop == HopRegister || slices.Contains(driversOwn, slug)),
		g.Count > 1 && g.Object != nil && g.Object.Kind == "Node" && slices.Contains(onNodeHops, g.Hop):
		t = Target(*g.Object)
	case t.Kind == "VolumeAttachment" && len(first.Chains) > 0:
		t = Target{Kind: "Node", Name: first.Chains[0].Node}
	}
	words := slices.Concat([]string{"kubectl", "csidoctor"}, sc.kubectl, sc.options.Self, []string{t.Word(), t.Name})
	if t.Namespace != "" {
		words = append(words, "-n", t.Namespace)
	}
	return Shell(words...)
}
