package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// right is one thing that a sidecar must be allowed to do to a cluster-scoped resource.
type right struct{ group, resource, verb string }

func (r right) String() string {
	return r.verb + " " + strings.TrimSuffix(r.resource+"."+r.group, ".")
}

// lacks gives the first of some rights that the pod's service account has by no ClusterRole bound to it, and the role that
// comes nearest; nil: none is bound to it. No: it has them all, or the input has no roles, which nothing requires it to have.
// Unknown: the roles could not be read.
func (v *View) lacks(pod *corev1.Pod, rights ...right) (missing right, role *rbacv1.ClusterRole, known Truth) {
	var bindings []*rbacv1.ClusterRoleBinding
	var roles []*rbacv1.ClusterRole
	var all Truth
	v.ahead(func() { bindings, roles, all = v.roles() }) // the account's own bindings tell enough, even if others were not read
	if g := v.facts.GapOf(snapshot.Query{Resource: inBindings.Resource}); g != nil && g.Reason == "not-collected" && len(bindings) == 0 {
		return right{}, nil, No
	}
	account := cmp.Or(pod.Spec.ServiceAccountName, "default")
	var mine []*rbacv1.ClusterRole
	for _, b := range bindings {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return isAccount(s, pod.Namespace, account) }) {
			continue
		}
		name := b.RoleRef.Name
		i := slices.IndexFunc(roles, func(r *rbacv1.ClusterRole) bool { return r.GetName() == name })
		if i < 0 {
			v.roles()
			return right{}, nil, Unknown // what that role allows is not to be seen
		}
		mine = append(mine, roles[i])
	}
	if len(mine) == 0 {
		v.roles()
		if all == Yes && len(rights) > 0 {
			return rights[0], nil, Yes
		}
		return right{}, nil, Unknown
	}
	for _, r := range rights {
		if slices.ContainsFunc(mine, func(o *rbacv1.ClusterRole) bool { return grants(o, r) }) {
			continue
		}
		if older := (right{r.group, r.resource, "update"}); r.resource == "persistentvolumes" && r.verb == "patch" && slices.ContainsFunc(mine, func(o *rbacv1.ClusterRole) bool { return grants(o, older) }) {
			continue // sidecars wrote volumes by update before they patched them
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

// roles are the ClusterRoleBindings and ClusterRoles. Yes: these are all bindings.
func (w *world) roles() ([]*rbacv1.ClusterRoleBinding, []*rbacv1.ClusterRole, Truth) {
	bindings, known := list[*rbacv1.ClusterRoleBinding](w, inBindings, snapshot.Query{})
	roles, _ := list[*rbacv1.ClusterRole](w, inRoles, snapshot.Query{})
	return bindings, roles, known
}

func isAccount(s rbacv1.Subject, namespace, account string) bool {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		return s.Name == account && s.Namespace == namespace
	case rbacv1.GroupKind:
		return s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+namespace
	case rbacv1.UserKind:
		return s.Name == fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account)
	}
	return false
}

// grants tells whether a ClusterRole has a rule for the right.
func grants(role *rbacv1.ClusterRole, r right) bool {
	has := func(all []string, want string) bool { return slices.Contains(all, want) || slices.Contains(all, "*") }
	return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return has(rule.APIGroups, r.group) && has(rule.Resources, r.resource) && has(rule.Verbs, r.verb)
	})
}

// rbacFinding writes down a right that a sidecar lacks.
func (v *View) rbacFinding(s sidecar, missing right, role *rbacv1.ClusterRole, what string) Finding {
	account := cmp.Or(s.Pod.Spec.ServiceAccountName, "default")
	who := fmt.Sprintf("system:serviceaccount:%s:%s", s.Pod.Namespace, account)
	f := Finding{Confidence: Likely, Evidence: []Evidence{fact(ref(s.Pod), "spec.serviceAccountName", account, time.Time{})}}
	cure := fmt.Sprintf("Bind the sidecar's ClusterRole, which its version's manifests have, to service account %s/%s.", s.Pod.Namespace, account)
	nearest := "none is bound to it"
	if role != nil {
		nearest = role.Name + " lacks it"
		f.Evidence = append(f.Evidence, fact(Object{Kind: "ClusterRole", Name: role.Name}, "rules", "no "+missing.String(), time.Time{}))
		cure = fmt.Sprintf("Add the rule to ClusterRole %s, as the manifests of the sidecar's own version have it.", role.Name)
	}
	f.Why = fmt.Sprintf("%s: service account %s/%s of %s in pod %s has no ClusterRole that lets it %s (%s).", what, s.Pod.Namespace, account, s.Kind.Name, s.Pod.Name, missing, nearest)
	base, sub, ok := strings.Cut(missing.resource, "/")
	words := []string{"auth", "can-i", missing.verb, strings.TrimSuffix(base+"."+missing.group, ".")}
	if ok {
		words = append(words, "--subresource", sub)
	}
	f.Fix = []Step{v.look("Ask whether it may", append(words, "--as", who)...), say(cure + " It tries again by itself, within 5 minutes.")}
	return f
}

// Rights that external-attacher needs to record an attach and a detach (deploy/kubernetes/rbac.yaml of v4.13).
var attacherRights = []right{
	{"storage.k8s.io", "volumeattachments", "patch"},
	{"storage.k8s.io", "volumeattachments/status", "patch"},
	{"", "persistentvolumes", "patch"},
	{"storage.k8s.io", "csinodes", "get"},
}

// attachRBAC: an attach that ended in nothing, or was never begun, by an attacher at work that may not record it.
func (v *View) attachRBAC() (Finding, Truth) {
	at, known := v.attachment(v.Node)
	if known != Yes || at.Status.Attached || at.DeletionTimestamp != nil || v.hop(HopAttach).Status != StatusStuck {
		return Finding{}, min(known.not(), Unknown)
	}
	s := v.withPod(v.sidecar(attacherSidecar))
	if untouched(at) && s.Works == No {
		return Finding{}, No
	}
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
