package explain

import "testing"

// Real texts of the API server as StatefulSet and ephemeral volume controllers, operators and webhooks' owners quote them.
func TestRefusedWords(t *testing.T) {
	const set = `create Claim data-x-0 for Pod x-0 in StatefulSet x failed error: `
	for _, c := range []struct{ text, cause string }{
		{set + `persistentvolumeclaims "data-x-0" is forbidden: exceeded quota: q, requested: requests.storage=1Gi, used: requests.storage=9Gi, limited: requests.storage=9Gi`, "claim/quota-exceeded"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=1Gi, used: 0, limited: 0`, "claim/quota-exceeded"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: failed quota: q: must specify requests.storage`, "claim/quota-exceeded"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi`, "claim/quota-exceeded"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: status unknown for quota: q, resources: requests.storage`, "claim/quota-exceeded"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: unable to create new content in namespace n because it is being terminated`, "claim/namespace-terminating"},
		{set + `admission webhook "validation.gatekeeper.sh" denied the request: [storageclass] class must be encrypted`, "claim/denied"},
		{set + `Internal error occurred: failed calling webhook "v.longhorn.io": failed to call webhook: Post "https://w.n.svc:9502/v1": context deadline exceeded`, "claim/denied"},
		{set + `persistentvolumeclaims "data-x-0" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: true`, "claim/denied"},
		{set + `PersistentVolumeClaim "data-x-0" is invalid: spec.resources[storage]: Required value`, "claim/denied"},
		{`ephemeral volume s: create PVC p-s: persistentvolumeclaims "p-s" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>`, "claim/denied"},
		{`ephemeral volume s: PVC n/p-s was not created for pod n/p (pod is not owner)`, "claim/ephemeral-conflict"},
		{`persistentvolumeclaims is forbidden: User "system:serviceaccount:argo:wf" cannot create resource "persistentvolumeclaims" in API group "" in the namespace "n"`, "claim/denied"},
		{`persistentvolumeclaim "c" not found`, ""},
		{set + `etcdserver: request timed out`, ""},
	} {
		if got := told(refusedWords, c.text); got != c.cause {
			t.Errorf("%s\n\ttells %q, want %q", c.text, got, c.cause)
		}
	}
	for text, cause := range map[string]string{
		`Error saving claim: Internal error occurred: failed calling webhook "w": Post "https://w.n.svc": EOF`:                                   "claim/denied",
		`admission webhook "policy.corp" denied the request: no`:                                                                                 "claim/denied",
		`rpc error: code = InvalidArgument desc = bad`:                                                                                           "",
		`failed to list: persistentvolumes is forbidden: User "x" cannot list resource "persistentvolumes" in API group "" at the cluster scope`: "",
		`storageclass.storage.k8s.io "x" not found`:                                                                                              "",
	} {
		if got := told(deniedWords, text); got != cause {
			t.Errorf("%s\n\ttells %q, want %q", text, got, cause)
		}
	}
}
