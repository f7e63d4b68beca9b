// Command rbac prints deploy/rbac.yaml: the role that lets everything be read that an answer may want. It comes from the table
// of inputs, so no input can be without its right.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

func main() { fmt.Fprint(os.Stdout, role(explain.Inputs)) }

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
