package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// nodes are all nodes of the cluster.
func (w *world) nodes() ([]*corev1.Node, Truth) {
	return list[*corev1.Node](w, inNodes, snapshot.Query{})
}

// reaches tells whether a volume can be used on a node, by its nodeAffinity.
func reaches(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return true
	}
	s, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	return err == nil && s.Match(node)
}

// reachedBy are the names of the nodes that reach the volume.
func reachedBy(pv *corev1.PersistentVolume, nodes []*corev1.Node) []string {
	var out []string
	for _, n := range nodes {
		if reaches(pv, n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// reachable: some node reaches the volume.
func (w *world) reachable(pv *corev1.PersistentVolume) Truth {
	return once(w, "some node reaches "+pv.Name, func() Truth {
		nodes, known := w.nodes()
		_, found := first(nodes, known, func(n *corev1.Node) bool { return reaches(pv, n) })
		return found
	})
}

// requirement is one key of a volume's nodeAffinity with the values that it allows.
type requirement struct {
	key    string
	values []string
}

// requirements are the terms of a volume's nodeAffinity, those with the operator In.
func requirements(pv *corev1.PersistentVolume) []requirement {
	var out []requirement
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range append(slices.Clone(t.MatchExpressions), t.MatchFields...) {
			if e.Operator == corev1.NodeSelectorOpIn {
				out = append(out, requirement{e.Key, e.Values})
			}
		}
	}
	return out
}

// affinity is where the volume can be reached: "topology.kubernetes.io/zone in a, b".
func affinity(pv *corev1.PersistentVolume) string {
	var out []string
	for _, r := range requirements(pv) {
		out = append(out, fmt.Sprintf("%s in %s", r.key, strings.Join(r.values, ", ")))
	}
	return strings.Join(slices.Compact(out), "; ")
}

// zoneLabels are the zone and region labels that in-tree volumes carry in place of a nodeAffinity.
func zoneLabels(pv *corev1.PersistentVolume) string {
	var out []string
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion} {
		if v, ok := pv.Labels[key]; ok {
			out = append(out, key+"="+v)
		}
	}
	return strings.Join(out, ", ")
}

// goneNodes are the nodes that the volume's nodeAffinity names one by one and that no Node object stands for. A key that
// names nodes: the hostname, the node's own name, or a driver's label that no two nodes share.
func (w *world) goneNodes(pv *corev1.PersistentVolume, nodes []*corev1.Node) []string {
	var out []string
	for _, r := range requirements(pv) {
		if !namesNodes(r.key, nodes) {
			continue
		}
		for _, v := range r.values {
			if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == v || n.Labels[r.key] == v }) {
				return nil // the machine is there: its label differs, or another requirement does not match
			}
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func namesNodes(key string, nodes []*corev1.Node) bool {
	word := key[strings.LastIndex(key, "/")+1:]
	if key == corev1.LabelHostname || key == "metadata.name" || strings.Contains(word, "node") || strings.Contains(word, "host") {
		return true
	}
	if strings.Contains(word, "zone") || strings.Contains(word, "region") || strings.Contains(word, "location") {
		return false
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		v, ok := n.Labels[key]
		if ok && seen[v] {
			return false
		}
		seen[v] = seen[v] || ok
	}
	return len(seen) > 1
}

// otherLabel is a node that a requirement seems to mean, with the value that its label has.
type otherLabel struct{ node, key, value string }

// alike finds the nodes whose name a volume's requirement gives, though their label has another value.
func alike(pv *corev1.PersistentVolume, nodes []*corev1.Node) []otherLabel {
	var out []otherLabel
	for _, r := range requirements(pv) {
		for _, n := range nodes {
			if slices.Contains(r.values, n.Name) && n.Labels[r.key] != n.Name {
				out = append(out, otherLabel{n.Name, r.key, n.Labels[r.key]})
			}
		}
	}
	return out
}

// nodeState is what speaks against a pod on a node: not Ready, cordoned, taints.
func nodeState(n *corev1.Node) string {
	var out []string
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out = append(out, "Ready="+string(c.Status))
		}
	}
	if n.Spec.Unschedulable {
		out = append(out, "cordoned")
	}
	for _, t := range n.Spec.Taints {
		out = append(out, fmt.Sprintf("taint %s:%s", t.Key, t.Effect))
	}
	return cmp.Or(strings.Join(out, ", "), "no condition")
}
