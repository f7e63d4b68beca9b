package explain

import (
	"slices"
	"strings"
)

// Cause is one row of the catalogue: everything about it stands in its literal and the function below it.
type Cause struct {
	ID    string // hop/slug, as in docs/contract.md
	Title string // a claim in the user's words
	Doc   string // Markdown: why it happens, how to be sure, what never to do
	// Match is asked where the hop is not in order: Yes with the finding, No, or Unknown when it meets something unread
	// without which it cannot tell.
	Match func(*View) (Finding, Truth)
}

// Hop is the part of the id before the slash.
func (c Cause) Hop() HopName {
	hop, _, _ := strings.Cut(c.ID, "/")
	return HopName(hop)
}

// catalogue in causal order: what is broken by itself and makes others fail comes first; within a hop the order of its
// slice, the special before the general. Where a chain stops the first cause that holds is the finding: all behind it are
// its echoes, or are left over when it is excluded.
var catalogue = slices.Concat(claimCauses, snapshotCauses, registerCauses, provisionCauses, bindCauses, scheduleCauses,
	unpublishCauses, unstageCauses, detachCauses, attachCauses, stageCauses, publishCauses, startCauses, expandCauses, deleteCauses)

// Catalogue is every cause that this build knows, in causal order.
func Catalogue() []Cause { return slices.Clone(catalogue) }

// catalogued is a cause's place in the catalogue; -1: there is none of that id.
func catalogued(id string) int {
	return slices.IndexFunc(catalogue, func(c Cause) bool { return c.ID == id })
}

// Docs is where a cause is explained.
func (c Cause) Docs() string {
	hop, slug, _ := strings.Cut(c.ID, "/")
	return "docs/causes/" + hop + ".md#" + slug
}

// asksAt tells for the hop at which a chain stops of which hops the causes are asked: the hop's own and those that break it
// from upstream. Each Match guards itself against being asked in the wrong place.
var asksAt = map[HopName][]HopName{
	HopClaim:     {HopClaim},
	HopProvision: {HopClaim, HopSnapshot, HopRegister, HopProvision, HopBind},
	HopBind:      {HopClaim, HopProvision, HopBind},
	HopSchedule:  {HopClaim, HopRegister, HopProvision, HopSchedule},
	HopAttach:    {HopRegister, HopUnpublish, HopUnstage, HopDetach, HopSchedule, HopAttach},
	HopRegister:  {HopRegister},
	HopStage:     {HopRegister, HopSchedule, HopUnpublish, HopAttach, HopStage, HopPublish, HopStart, HopExpand},
	HopPublish:   {HopRegister, HopSchedule, HopUnpublish, HopAttach, HopStage, HopPublish, HopStart, HopExpand},
	HopStart:     {HopStage, HopPublish, HopStart},
	HopExpand:    {HopExpand},
	HopSnapshot:  {HopSnapshot},
	HopUnpublish: {HopUnpublish},
	HopUnstage:   {HopUnpublish, HopUnstage},
	HopDetach:    {HopUnpublish, HopUnstage, HopDetach},
	HopDelete:    {HopUnpublish, HopUnstage, HopDetach, HopSnapshot, HopDelete},
}

// firstFinding asks about each of several things until one fits: Unknown when none does and one could not be told, or there
// may be others.
func firstFinding[T any](all []T, known Truth, fits func(T) (Finding, Truth)) (Finding, Truth) {
	best := min(known.not(), Unknown)
	for _, one := range all {
		switch f, t := fits(one); t {
		case Yes:
			return f, Yes
		case Unknown:
			best = Unknown
		}
	}
	return Finding{}, best
}
