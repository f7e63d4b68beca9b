package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// right is one thing that a sidecar must be allowed to do to a cluster-scoped resource.
type right struct{ group, resource, verb string }

func (r right) String() string {
	return r.verb + " " + strings.TrimSuffix(r.resource+"."+r.group, ".")
}

// lacks gives the first of some rights that the pod's service account has by no ClusterRole bound to it, and the role that
// comes nearest. No: it has them all. Unknown: the roles could not be read, or none of the account was seen.
func (v *View) lacks(pod *corev1.Pod, rights ...right) (missing right, role *unstructured.Unstructured, known Truth) {
	bindings, _ := list[*unstructured.Unstructured](v.world, inBindings, snapshot.Query{})
	roles, _ := list[*unstructured.Unstructured](v.world, inRoles, snapshot.Query{})
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	var mine []*unstructured.Unstructured
	for _, b := range bindings {
		subjects, _, _ := unstructured.NestedSlice(b.Object, "subjects")
		if !slices.ContainsFunc(subjects, func(s any) bool { return isAccount(s, pod.Namespace, account) }) {
			continue
		}
		name, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
		i := slices.IndexFunc(roles, func(r *unstructured.Unstructured) bool { return r.GetName() == name })
		if i < 0 {
			return right{}, nil, Unknown // what that role allows is not to be seen
		}
		mine = append(mine, roles[i])
	}
	if len(mine) == 0 {
		return right{}, nil, Unknown
	}
	for _, r := range rights {
		if slices.ContainsFunc(mine, func(o *unstructured.Unstructured) bool { return grants(o, r) }) {
			continue
		}
		nearest := mine[0]
		base, _, _ := strings.Cut(r.resource, "/")
		for _, o := range mine {
			if grants(o, right{r.group, base, "list"}) && strings.Contains(o.GetName(), "attacher") == strings.Contains(r.resource, "attachment") {
				nearest = o
				break
			}
		}
		return r, nearest, Yes
	}
	return right{}, nil, No
}

func isAccount(subject any, namespace, account string) bool {
	s, _ := subject.(map[string]any)
	switch s["kind"] {
	case "ServiceAccount":
		return s["name"] == account && s["namespace"] == namespace
	case "Group":
		return s["name"] == "system:serviceaccounts" || s["name"] == "system:serviceaccounts:"+namespace
	case "User":
		return s["name"] == fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account)
	}
	return false
}

// grants tells whether a ClusterRole has a rule for the right.
func grants(role *unstructured.Unstructured, r right) bool {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	has := func(rule map[string]any, field, want string) bool {
		all, _, _ := unstructured.NestedStringSlice(rule, field)
		return slices.Contains(all, want) || slices.Contains(all, "*")
	}
	for _, x := range rules {
		rule, _ := x.(map[string]any)
		if has(rule, "apiGroups", r.group) && has(rule, "resources", r.resource) && has(rule, "verbs", r.verb) {
			return true
		}
	}
	return false
}

// rbacFinding writes down a right that a sidecar lacks.
func (v *View) rbacFinding(s sidecar, missing right, role *unstructured.Unstructured, what string) Finding {
	who := fmt.Sprintf("system:serviceaccount:%s:%s", s.Pod.Namespace, s.Pod.Spec.ServiceAccountName)
	f := Finding{Confidence: Likely,
		Why: fmt.Sprintf("%s: the service account %s/%s of %s in pod %s has no ClusterRole that lets it %s (%s lacks it).", what,
			s.Pod.Namespace, s.Pod.Spec.ServiceAccountName, s.Kind.Name, s.Pod.Name, missing, role.GetName()),
		Evidence: []Evidence{fact(Object{Kind: "ClusterRole", Name: role.GetName()}, "rules", "no "+missing.String(), time.Time{}),
			fact(ref(s.Pod), "spec.serviceAccountName", s.Pod.Spec.ServiceAccountName, time.Time{})}}
	words := []string{"auth", "can-i", missing.verb, strings.TrimSuffix(missing.resource+"."+missing.group, "."), "--as", who}
	if base, sub, ok := strings.Cut(missing.resource, "/"); ok {
		words = []string{"auth", "can-i", missing.verb, strings.TrimSuffix(base+"."+missing.group, "."), "--subresource", sub, "--as", who}
	}
	f.Fix = []Step{v.look("Ask whether it may", words...),
		say(fmt.Sprintf("Add the rule to ClusterRole %s, as the manifests of the sidecar's own version have it. It tries again by itself, within 5 minutes.", role.GetName()))}
	return f
}

// Rights that external-attacher needs to record an attach and a detach (deploy/kubernetes/rbac.yaml of v4.13).
var attacherRights = []right{
	{"storage.k8s.io", "volumeattachments", "patch"},
	{"storage.k8s.io", "volumeattachments/status", "patch"},
	{"", "persistentvolumes", "patch"},
	{"storage.k8s.io", "csinodes", "get"},
}

// attachRBAC: an attach that ended in nothing, by an attacher that may not record its end.
func (v *View) attachRBAC() (Finding, Truth) {
	at, known := v.attachment(v.Node)
	if known != Yes || at.Status.Attached || at.DeletionTimestamp != nil || untouched(at) || v.hop(HopAttach).Status != StatusStuck {
		return Finding{}, min(known.not(), Unknown)
	}
	s := v.sidecar(attacherSidecar)
	if s.Pod == nil {
		return Finding{}, Unknown
	}
	missing, role, lacking := v.lacks(s.Pod, attacherRights...)
	if lacking != Yes {
		return Finding{}, lacking
	}
	f := v.rbacFinding(s, missing, role, fmt.Sprintf("Volume %s may be attached to node %s, and nobody can record it", v.volumeName(), v.Node))
	f.Evidence = append(f.Evidence, fact(ref(at), "status", "attached: false, no error", at.CreationTimestamp.Time))
	return f, Yes
}
