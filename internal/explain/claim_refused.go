package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// retried is how long controllers wait at most before they try a refused request again (client-go's default workqueue
// rate limiter: 1000 s).
const retried = 1000 * time.Second

// refusedWords are the API server's words when it makes no claim.
var refusedWords = []signature{
	sig("claim/namespace-terminating", `because it is being terminated|namespace .{1,80} is being terminated`),
	sig("claim/quota-exceeded",
		`exceeded quota|failed quota|insufficient quota|(maximum|minimum) \S+ usage per PersistentVolumeClaim`,
		`status unknown for quota`),
	sig("claim/ephemeral-conflict", `pod is not owner`),
	sig("claim/denied", `webhook|AdmissionPolicy|denied (the )?request|is forbidden:|is invalid:|cannot (create|set)`),
}

// deniedWords are those words when they stop a claim that exists: its update, or the making of its volume.
var deniedWords = []signature{
	sig("claim/denied",
		`failed calling webhook|failed to call webhook|admission webhook "[^"]*" denied|AdmissionPolicy '[^']*'`,
		`is invalid: .{0,300}: Forbidden|cannot set blockOwnerDeletion`),
}

// unmade: there is no claim, and it is wanted: a pod that runs on without it needs none.
func (v *View) unmade() bool {
	return v.at(HopClaim) && v.claimKnown == No && v.hop(HopClaim).Status != StatusDegraded
}

// refusal is the API server's answer to whoever wanted to make a claim that does not exist: a StatefulSet, the ephemeral
// volume controller, an operator. Their events all name the claim.
func (v *View) refusal() (*trouble, Truth) {
	if !v.unmade() {
		return nil, Yes
	}
	events, known := list[*corev1.Event](v.world, inEvents, snapshot.Query{Namespace: v.Namespace, Fields: "type=Warning"})
	var reports []report
	for _, e := range events {
		r := newReport(e)
		if e.InvolvedObject.Namespace == v.Namespace && names(r.Message, v.ClaimName) && v.told(refusedWords, r.Message) != "" && v.taken.Sub(r.Last) < retried+normalUntouched {
			reports = append(reports, r)
		}
	}
	sortReports(reports)
	t := troubleIn(reports, func(report) bool { return true }, nil)
	if t == nil {
		return nil, known
	}
	owner := t.Evidence.Object
	later, _ := v.eventsOf(owner.Kind, owner.Namespace, owner.Name, "")
	for _, r := range later {
		if !r.Warning && names(r.Message, v.ClaimName) && r.Last.After(t.At) {
			return nil, known // it was made since
		}
	}
	return t, known
}

// denial is a refusal, or what keeps an existing claim from its volume though nobody asked the driver for one.
func denial(v *View) (*trouble, Truth) {
	if v.claimKnown == No {
		return v.refusal()
	}
	if !v.at(HopProvision, HopBind, HopSchedule) || v.bound() {
		return nil, Yes
	}
	if c := v.unscheduled(); c != nil && v.told(deniedWords, c.Message) != "" { // the scheduler may not write its choice on the claim
		since := c.LastTransitionTime.Time
		return &trouble{Text: c.Message, Since: since, At: since, Count: 1, Source: "scheduler", Evidence: fact(ref(v.Pod), "status.conditions[PodScheduled]", c.Message, since)}, Yes
	}
	events, known := v.claimEvents()
	return provisionFailures(events), known
}

// saidNo makes the Match of a cause that the API server's refusal tells.
func saidNo(id string, finding func(*View, *trouble) Finding) func(*View) (Finding, Truth) {
	return func(v *View) (Finding, Truth) {
		words := refusedWords
		if v.claimKnown == Yes {
			words = deniedWords
		}
		return said(id, denial, words, finding)(v)
	}
}

// about words the object that wanted the claim: "StatefulSet catalog/search".
func (o Object) String() string {
	return strings.TrimSpace(o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

var (
	quotaName  = regexp.MustCompile(`(?:exceeded|failed) quota: ([^,:\s]+)`)
	quotaWants = regexp.MustCompile(`requested: (.*?), used:`)
)

func quotaExceeded(v *View, t *trouble) Finding {
	f := Finding{Why: fmt.Sprintf("The API server refuses to make claim %s/%s, which %s asks for: %s", v.Namespace, v.ClaimName, t.Evidence.Object, t.Text)}
	m := quotaName.FindStringSubmatch(t.Text)
	if m == nil {
		f.Fix = []Step{v.look("See the limits of the namespace for one claim", "get", "limitrange,resourcequota", "-n", v.Namespace, "-o", "yaml"),
			say("Ask for a size inside these limits, or have them changed. The claim is asked for again by itself.")}
		return f
	}
	quotas, known := list[*corev1.ResourceQuota](v.world, inQuotas, snapshot.Query{Namespace: v.Namespace})
	q, has := first(quotas, known, func(q *corev1.ResourceQuota) bool { return q.Name == m[1] })
	room := false
	if has == Yes {
		f.Evidence = append(f.Evidence, fact(ref(q), "status.used", resourceList(q.Status.Used)+" of "+resourceList(q.Status.Hard), time.Time{}))
		room = hasRoom(q, t.Text)
	}
	if until := t.At.Add(retried); room && v.now.Before(until) { // raised or freed since: the controller only has to try again
		f.Status, f.Until = StatusWaiting, moment(until)
		f.Why = fmt.Sprintf("Quota %s refused claim %s/%s, and has room now: %s tries again by itself.", m[1], v.Namespace, v.ClaimName, t.Evidence.Object)
	}
	f.Fix = []Step{v.look("See what the quota counts", "describe", "resourcequota", m[1], "-n", v.Namespace),
		v.look("See which claims use it up", "get", "pvc", "-n", v.Namespace),
		say("Raise the quota, or ask for less. Deleting claims to make room loses their data: only those that nobody needs. The claim is asked for again by itself.")}
	return f
}

// hasRoom tells whether the quota, as it stands now, would let pass what was refused.
func hasRoom(q *corev1.ResourceQuota, refusal string) bool {
	m := quotaWants.FindStringSubmatch(refusal)
	if m == nil {
		return false
	}
	for want := range strings.SplitSeq(m[1], ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(want), "=")
		need, err := resource.ParseQuantity(amount)
		hard, limited := q.Status.Hard[corev1.ResourceName(name)]
		if err != nil {
			return false
		}
		if !limited {
			continue
		}
		used := q.Status.Used[corev1.ResourceName(name)]
		used.Add(need)
		if used.Cmp(hard) > 0 {
			return false
		}
	}
	return true
}

func resourceList(l corev1.ResourceList) string {
	var out []string
	for name, q := range l {
		out = append(out, string(name)+"="+q.String())
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

var (
	webhookName = regexp.MustCompile(`webhook "([^"]+)"`)
	webhookURL  = regexp.MustCompile(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc`)
)

func claimDenied(v *View, t *trouble) Finding {
	asks := "the claim is made or changed"
	if v.claimKnown == No {
		asks = fmt.Sprintf("claim %s/%s is made, which %s asks for", v.Namespace, v.ClaimName, t.Evidence.Object)
	}
	f := Finding{Why: fmt.Sprintf("The API server does not allow that %s: %s", asks, t.Text)}
	hook := webhookName.FindStringSubmatch(t.Text)
	switch service := webhookURL.FindStringSubmatch(t.Text); {
	case service != nil:
		f.Why = fmt.Sprintf("The API server must ask webhook %s before %s, and its service %s/%s does not answer: %s", hookName(hook), asks, service[2], service[1], t.Text)
		f.Fix = []Step{v.look("See whether the webhook's service has any backend", "get", "endpointslices", "-n", service[2], "-l", "kubernetes.io/service-name="+service[1]),
			v.look("See the pods that should serve it", "get", "pods", "-n", service[2], "-o", "wide"),
			say("Get the webhook's pods to answer again (crash, certificate, network policy between API server and pod). The claim goes on by itself.")}
	case hook != nil:
		f.Why = fmt.Sprintf("Webhook %s refuses that %s: %s", hook[1], asks, t.Text)
		f.Fix = []Step{v.look("See who runs the webhook and what it looks at", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "wide"),
			say("Change the claim (or the template that it is made from) so that the policy allows it, or have the policy changed.")}
	case strings.Contains(t.Text, "blockOwnerDeletion"):
		f.Fix = []Step{say("The controller that makes the claim (kube-controller-manager's ephemeral volume controller, an operator) lacks `update` on the finalizers of the owner, such as pods/finalizers, which the OwnerReferencesPermissionEnforcement admission asks for."),
			v.look("See whether it may", "auth", "can-i", "update", "pods/finalizers", "-n", v.Namespace, "--as", "system:serviceaccount:kube-system:ephemeral-volume-controller"),
			say("Grant it with a ClusterRole and a binding; the claim is then made by itself.")}
	default:
		f.Fix = []Step{say("The words above name who refuses and why: change the claim or its template, or have the permission or policy changed. The claim is asked for again by itself.")}
	}
	return f
}

func hookName(m []string) string {
	if m == nil {
		return "(unnamed)"
	}
	return m[1]
}

func namespaceTerminating(v *View) (Finding, Truth) {
	if !v.unmade() {
		return Finding{}, No
	}
	ns, known := get[*corev1.Namespace](v.world, inNamespaces, "", v.Namespace)
	t, _ := v.refusal()
	says := t != nil && v.told(refusedWords, t.Text) == "claim/namespace-terminating"
	if known == Yes && ns.DeletionTimestamp == nil || known == No && !says {
		return Finding{}, No
	}
	if v.Pod == nil && !says { // nobody wants the claim
		return Finding{}, min(known.not(), Unknown)
	}
	f := Finding{Why: fmt.Sprintf("Namespace %s is being deleted, so nothing new is made in it: claim %s does not appear.", v.Namespace, v.ClaimName)}
	switch {
	case known == Yes:
		f.Confidence = Certain
		f.Evidence = append(f.Evidence, fact(ref(ns), "metadata.deletionTimestamp", ns.DeletionTimestamp.UTC().Format(time.RFC3339), ns.DeletionTimestamp.Time))
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue && c.Message != "" {
				f.Evidence = append(f.Evidence, fact(ref(ns), "status.conditions["+string(c.Type)+"]", c.Message, c.LastTransitionTime.Time))
			}
		}
	case !says:
		return Finding{}, Unknown
	}
	if says {
		f.Evidence = append(f.Evidence, t.Evidence)
	}
	f.Fix = []Step{v.look("See what still holds the namespace", "get", "namespace", v.Namespace, "-o", "yaml"),
		say("Let the deletion end and make the application in a new namespace. Do not remove the namespace's finalizers: what they wait for would be left behind.")}
	return f, Yes
}

func ephemeralConflict(v *View) (Finding, Truth) {
	if !v.at(HopClaim) || v.Claim == nil || !v.foreignEphemeral() {
		return Finding{}, No
	}
	owner := "nobody"
	for _, o := range v.Claim.OwnerReferences {
		owner = o.Kind + " " + o.Name
		if o.Kind == "Pod" && o.Name == v.Pod.Name {
			owner = "an older pod of the same name (uid " + string(o.UID) + ")"
		}
	}
	f := v.asBlock(Finding{Confidence: Certain,
		Why: fmt.Sprintf("Pod %s/%s wants a claim of its own for volume %s, and claim %s exists already and belongs to %s. Kubernetes never takes over a claim.", v.Namespace, v.Pod.Name, v.Volume.Name, v.ClaimName, owner),
		Evidence: []Evidence{fact(v.claimObject(), "metadata.ownerReferences", owner, v.Claim.CreationTimestamp.Time),
			fact(ref(v.Pod), "metadata.uid", string(v.Pod.UID), v.Pod.CreationTimestamp.Time)}})
	f.Fix = []Step{v.look("See whose claim it is and what it holds", "get", "pvc", v.ClaimName, "-n", v.Namespace, "-o", "yaml"),
		say("Give the pod or its volume another name: the claim of an ephemeral volume is called <pod>-<volume>."),
		hazard(DangerDataLoss, "nobody needs the data of the old claim", "Or delete the old claim.")}
	return f, Yes
}

// foreignEphemeral: the pod's generic ephemeral volume finds a claim of its name that is not the pod's
// (component-helpers storage/ephemeral.VolumeIsForPod).
func (v *View) foreignEphemeral() bool {
	if v.Pod == nil || v.Volume == nil || v.Volume.Ephemeral == nil || v.Claim == nil || v.Claim.DeletionTimestamp != nil || mounted(v.Pod) {
		return false
	}
	return !slices.ContainsFunc(v.Claim.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.UID == v.Pod.UID
	})
}

func pvcMissing(v *View) (Finding, Truth) {
	if !v.at(HopClaim) || v.claimKnown != No || v.Pod == nil {
		return Finding{}, No
	}
	_, events := v.podEvents()
	f := v.asBlock(Finding{Confidence: Certain, Rest: events == Yes, // where nobody can be heard, the missing object is all there is
		Why:      fmt.Sprintf("Pod %s/%s uses claim %s, and there is no claim of that name in its namespace.", v.Namespace, v.Pod.Name, v.ClaimName),
		Evidence: []Evidence{fact(ref(v.Pod), "spec.volumes["+v.Volume.Name+"]", "claim "+v.ClaimName, v.Pod.CreationTimestamp.Time), fact(v.claimObject(), "", "not found", time.Time{})}})
	if events == Unknown {
		f.Confidence = Possible
		f.Why += " Whether its making was refused could not be read."
	}
	if f.Status == StatusDegraded {
		f.Why += " The pod still runs with the volume mounted; it will not start again."
	}
	if c := podCondition(v.Pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		f.Evidence = append(f.Evidence, fact(ref(v.Pod), "status.conditions[PodScheduled]", c.Message, c.LastTransitionTime.Time))
	}
	for _, pv := range v.leftBehind() {
		f.Evidence = append(f.Evidence, fact(ref(pv), "spec.claimRef", "an older claim of this name, phase "+string(pv.Status.Phase), time.Time{}))
		f.Fix = append(f.Fix, say(fmt.Sprintf("Volume %s held the data of an older claim of this name: bind it to a new claim (spec.volumeName) if that data is wanted, before an empty one is made.", pv.Name)))
	}
	f.Fix = append(f.Fix, v.look("See which claims there are", "get", "pvc", "-n", v.Namespace))
	set := v.statefulSet()
	switch {
	case v.Volume.Ephemeral != nil:
		f.Why += " It is a generic ephemeral volume: kube-controller-manager should have made its claim."
		f.Fix = append(f.Fix, v.look("See what the ephemeral volume controller says", "get", "events", "-n", v.Namespace, "--field-selector", "involvedObject.name="+v.Pod.Name))
	case set != nil:
		f.Why += fmt.Sprintf(" StatefulSet %s makes it from its template only when it makes the pod.", set.Name)
		f.Evidence = append(f.Evidence, fact(ref(set), "spec.volumeClaimTemplates", templateOf(set, v.ClaimName, v.Pod.Name), time.Time{}))
		f.Fix = append(f.Fix, v.look("The pod never started: see that it is Pending and has no node", "get", "pod", v.Pod.Name, "-n", v.Namespace, "-o", "wide"),
			v.act(DangerDisruptive, "the pod is Pending and never ran", "Delete the pod, so that the StatefulSet makes claim and pod together, with an empty volume", "delete", "pod", v.Pod.Name, "-n", v.Namespace))
	default:
		f.Fix = append(f.Fix, say("Make the claim, or correct the name in the pod's template."))
	}
	return f, Yes
}

// leftBehind are the volumes that an older claim of this name left.
func (v *View) leftBehind() []*corev1.PersistentVolume {
	all, _ := list[*corev1.PersistentVolume](v.world, inVolumes, snapshot.Query{})
	var out []*corev1.PersistentVolume
	for _, pv := range all {
		if r := pv.Spec.ClaimRef; r != nil && r.Namespace == v.Namespace && r.Name == v.ClaimName {
			out = append(out, pv)
		}
	}
	return out
}

// statefulSet is the pod's StatefulSet when one of its templates makes the claim.
func (v *View) statefulSet() *appsv1.StatefulSet {
	for _, o := range v.Pod.OwnerReferences {
		if o.Kind != "StatefulSet" {
			continue
		}
		if set, known := get[*appsv1.StatefulSet](v.world, inStatefulSets, v.Namespace, o.Name); known == Yes && templateOf(set, v.ClaimName, v.Pod.Name) != "" {
			return set
		}
	}
	return nil
}

// templateOf is the StatefulSet's template that makes the pod's claim: it is called <template>-<pod>.
func templateOf(set *appsv1.StatefulSet, claim, pod string) string {
	for _, t := range set.Spec.VolumeClaimTemplates {
		if t.Name+"-"+pod == claim {
			return t.Name
		}
	}
	return ""
}
