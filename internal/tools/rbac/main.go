// Command rbac prints deploy/rbac.yaml: the role that lets everything be read that an answer may want. It comes from the table
// of inputs, so no input can be without its right. With -prober it prints deploy/prober.yaml, the role for --probe, from the
// carrier's table.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/carrier"
	"github.com/csidoctor/csidoctor/internal/explain"
)

const head = `# Made by: go run ./internal/tools/rbac > deploy/rbac.yaml
#
# All that csidoctor may read. It changes nothing and never reads Secrets. To let a group use it:
#   kubectl apply -f deploy/rbac.yaml
#   kubectl create clusterrolebinding csidoctor-oncall --clusterrole=csidoctor --group=oncall
# With less it answers too, and lists what it could not see and what that would have told.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: csidoctor
rules:
`

const proberHead = `# Made by: go run ./internal/tools/rbac -prober > deploy/prober.yaml
#
# What --probe and "cleanup" may do, beside the role of deploy/rbac.yaml, in the namespace that the probe's pods are made in:
#   kubectl apply -f deploy/prober.yaml
#   kubectl create rolebinding csidoctor-oncall -n kube-system --clusterrole=csidoctor-prober --group=oncall
# Whoever may make a privileged pod has the nodes: bind it to those who have them anyway, and in that namespace alone.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: csidoctor-prober
rules:
`

func main() {
	prober := flag.Bool("prober", false, "print the role for --probe")
	flag.Parse()
	if *prober {
		fmt.Fprint(os.Stdout, proberRole(carrier.Rights))
		return
	}
	fmt.Fprint(os.Stdout, role(explain.Inputs))
}

func proberRole(rights []carrier.Right) string {
	var b strings.Builder
	b.WriteString(proberHead)
	for _, r := range rights {
		resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		fmt.Fprintf(&b, "# %s\n- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", r.Why, r.Group, resource, strings.Join(r.Verbs, ", "))
	}
	return b.String()
}

func role(inputs []explain.Input) string {
	var b strings.Builder
	b.WriteString(head)
	for _, in := range inputs {
		if len(in.Verbs) == 0 {
			continue // from files and nodes, not from the API
		}
		r := schema.ParseGroupResource(in.Resource)
		verbs := slices.Sorted(slices.Values(in.Verbs))
		fmt.Fprintf(&b, "# %s\n- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", in.Why, r.Group, r.Resource, strings.Join(verbs, ", "))
	}
	return b.String()
}
