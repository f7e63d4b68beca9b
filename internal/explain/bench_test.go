package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// copies is a cluster of n claims: the objects of one case again and again, under other names.
func copies(b *testing.B, name string, n int) (raw [][]byte, s *snapshot.Snapshot, targets []explain.Target, o explain.Options) {
	for _, c := range loadCases(b) {
		if c.ID != name {
			continue
		}
		full := c.load(b)
		s = snapshot.New()
		s.TakenAt, s.Gaps, s.Recorded = full.TakenAt, full.Gaps, true
		s.Read = append(full.Read, snapshot.Query{Resource: "nodereports.csidoctor.dev"}) // there are none
		o.Now = c.At
		target := c.target()
		for i := range n {
			// Everything that belongs to the one claim is renamed with it; the driver and the nodes are shared.
			rename := strings.NewReplacer(target.Name, fmt.Sprintf("%s-%d", target.Name, i))
			for _, gk := range full.GroupKinds() {
				for _, obj := range full.All(gk) {
					text, err := json.Marshal(obj)
					if err != nil {
						b.Fatal(err)
					}
					if i > 0 && !strings.Contains(string(text), target.Name) {
						continue
					}
					text = []byte(rename.Replace(string(text)))
					raw = append(raw, text)
					add(b, s, text)
				}
			}
			targets = append(targets, explain.Target{Kind: target.Kind, Namespace: target.Namespace, Name: fmt.Sprintf("%s-%d", target.Name, i)})
		}
		return raw, s, targets, o
	}
	b.Fatalf("no case %s", name)
	return nil, nil, nil, o
}

// BenchmarkExplain asks about every claim of clusters of 40 and 1,000 claims, and for comparison decodes the same objects: a
// thousand claims may take 25 times what forty take, and three times their decoding.
func BenchmarkExplain(b *testing.B) {
	for _, name := range []string{"single-provisioner-without-leader-election", "iscsi-ledger-database-all-green"} {
		for _, n := range []int{40, 1000} {
			raw, s, targets, o := copies(b, name, n)
			b.Run(fmt.Sprintf("%s/explain-%d", name, n), func(b *testing.B) {
				for b.Loop() {
					s.Reindex() // nothing is kept from one turn to the next but the objects themselves
					for _, t := range targets {
						if d, wanted := explain.Explain(s, t, o); len(wanted) > 0 || d.Missing {
							b.Fatal(t.Name, wanted)
						}
					}
				}
			})
			b.Run(fmt.Sprintf("%s/decode-%d", name, n), func(b *testing.B) {
				for b.Loop() {
					for _, r := range raw {
						if _, err := snapshot.Decode(r); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
