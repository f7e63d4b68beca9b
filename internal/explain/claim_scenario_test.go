package explain_test

import (
	"strings"
	"testing"
)

func TestClaimScenarios(t *testing.T) {
	set := `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: app, uid: set}
spec: {replicas: 3, selector: {}, template: {}, volumeClaimTemplates: [{metadata: {name: data}}]}`
	owned := func(p string) string {
		return strings.Replace(p, "metadata: {", "metadata: {ownerReferences: [{kind: StatefulSet, name: db, uid: set, controller: true, apiVersion: apps/v1}], ", 1)
	}
	refused := func(last, message string) string {
		return event("StatefulSet", "db", "Warning", "FailedCreate", "statefulset-controller", "40m", last, 12, "create Claim data-db-2 for Pod db-2 in StatefulSet db failed error: "+message)
	}
	scratch := func(claimYAML string) []string {
		p := strings.Replace(waiting("p", "30m", `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`, "x"), "persistentVolumeClaim: {claimName: x}", "ephemeral: {volumeClaimTemplate: {}}", 1)
		return []string{strings.Replace(p, "name: v0", "name: scratch", 1), claimYAML}
	}
	missing := `persistentvolumeclaim "data-db-2" not found`
	quota := `apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: app}
status: {hard: {requests.storage: 100Gi}, used: {requests.storage: %}}`
	over := `persistentvolumeclaims "data-db-2" is forbidden: exceeded quota: team, requested: requests.storage=50Gi, used: requests.storage=80Gi, limited: requests.storage=100Gi`
	runScenarios(t, []scenario{
		{"refused by a quota, no claim and no pod", []string{set, refused("2m", over), strings.Replace(quota, "%", "80Gi", 1)},
			pvc("data-db-2"), "stuck", "claim/quota-exceeded", "StatefulSet app/db"},
		{"the quota has room since", []string{set, refused("2m", over), strings.Replace(quota, "%", "30Gi", 1)},
			pvc("data-db-2"), "waiting", "claim/quota-exceeded", "room now"},
		{"refused by a limit range", []string{set, refused("2m", `persistentvolumeclaims "data-db-2" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Mi`)},
			pvc("data-db-2"), "stuck", "claim/quota-exceeded", "minimum storage"},
		{"refused by a webhook", []string{set, refused("2m", `admission webhook "validate.kyverno.svc-fail" denied the request: label team is required`), owned(waiting("db-2", "30m", missing, "data-db-2"))},
			pod("db-2"), "stuck", "claim/denied", "validate.kyverno.svc-fail"},
		{"refused by a policy", []string{set, refused("2m", `persistentvolumeclaims "data-db-2" is forbidden: ValidatingAdmissionPolicy 'encrypted-only' with binding 'all' denied request: use an encrypted class`)},
			pvc("data-db-2"), "stuck", "claim/denied", "encrypted-only"},
		{"webhook that does not answer", []string{set, refused("2m", `Internal error occurred: failed calling webhook "mutate.storage.corp": failed to call webhook: Post "https://hook.storage-system.svc:443/mutate?timeout=10s": no endpoints available for service "hook"`)},
			pvc("data-db-2"), "stuck", "claim/denied", "storage-system/hook"},
		{"operator that may not make claims", []string{event("Cluster", "pg", "Warning", "FailedCreate", "cloudnative-pg", "30m", "1m", 20, `persistentvolumeclaims "pg-1" is forbidden: User "system:serviceaccount:cnpg:op" cannot create resource "persistentvolumeclaims" in API group "" in the namespace "app"`)},
			pvc("pg-1"), "stuck", "claim/denied", "Cluster app/pg"},
		{"namespace that goes", []string{`apiVersion: v1
kind: Namespace
metadata: {name: app, deletionTimestamp: "2026-03-01T11:00:00Z"}
status: {phase: Terminating}`, set, owned(waiting("db-2", "30m", missing, "data-db-2")), refused("2m", `persistentvolumeclaims "data-db-2" is forbidden: unable to create new content in namespace app because it is being terminated`)},
			pod("db-2"), "stuck", "claim/namespace-terminating", "being deleted"},
		{"an old refusal of a claim that was made and deleted", []string{set, refused("30m", over), owned(waiting("db-2", "20m", missing, "data-db-2"))},
			pod("db-2"), "stuck", "claim/pvc-missing", "StatefulSet db"},
		{"a claim that was never made", []string{waiting("p", "30m", `persistentvolumeclaim "c" not found`, "c")},
			pvc("c"), "stuck", "claim/pvc-missing", "no claim of that name"},
		{"a pod made seconds before its claim", []string{waiting("p", "10s", `persistentvolumeclaim "c" not found`, "c")},
			pod("p"), "waiting", "claim/pvc-missing", ""},
		{"a pod that runs on without its claim", []string{running("p", "n1", "c"), node("n1", "")},
			pod("p"), "degraded", "claim/pvc-missing", "runs"},
		{"ephemeral claim of somebody else", scratch(claim("p-scratch", "24h", "")), pod("p"), "stuck", "claim/ephemeral-conflict", "never takes over"},
		{"ephemeral claim refused by a quota", append(scratch(node("n1", "")), event("Pod", "p", "Warning", "FailedBinding", "ephemeral_volume", "30m", "1m", 11, `ephemeral volume scratch: create PVC p-scratch: persistentvolumeclaims "p-scratch" is forbidden: exceeded quota: team, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=5, limited: persistentvolumeclaims=5`)),
			pod("p"), "stuck", "claim/quota-exceeded", "team"},
		{"class by annotation that is gone", []string{annotated(claim("c", "30m", ""), "volume.beta.kubernetes.io/storage-class: old")},
			pvc("c"), "stuck", "claim/class-missing", "volume.beta"},
		{"static class without an object", []string{claim("c", "30m", ", storageClassName: manual"), volume("v", "Bound", ", storageClassName: manual"+claimRef("app", "other", "uid-other"))},
			pvc("c"), "stuck", "bind/pv-claimed", "other"},
		{"no default class", []string{claim("c", "30m", ""), class("slow", d, "Immediate")},
			pvc("c"), "stuck", "claim/no-default-class", "slow"},
		{"made before there was a default", []string{claim("c", "30m", ""), annotated(class("slow", d, "Immediate"), `storageclass.kubernetes.io/is-default-class: "true"`)},
			pvc("c"), "stuck", "claim/no-default-class", "slow"},
		{"no class, and a volume that fits", []string{claim("c", "10s", ""), volume("v", "Available", "")},
			pvc("c"), "waiting", "bind/conflict-in-progress", "v"},
		{"bound once, volume gone", []string{annotated(bound("c", "v", ""), `pv.kubernetes.io/bind-completed: "yes"`), waiting("p", "30m", unbound, "c")},
			pvc("c"), "stuck", "claim/lost", "does not exist any more"},
		{"lost, and nobody waits", []string{strings.Replace(bound("c", "v", ""), "Bound", "Lost", 1)},
			pvc("c"), "degraded", "claim/lost", "does not exist any more"},
	})
}

func TestBindScenarios(t *testing.T) {
	asks := `, storageClassName: ""`
	vol := func(phase, spec string) string { return volume("v", phase, spec) }
	const noneFits = "0/2 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 1 node(s) didn't match Pod's node affinity/selector."
	at := func(rack string) string {
		return ", nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [" + rack + "]}]}]}}"
	}
	runScenarios(t, []scenario{
		{"volume named that does not exist", []string{claim("c", "30m", asks+", volumeName: v")}, pvc("c"), "stuck", "bind/pv-missing", "v"},
		{"volume named is another claim's", []string{claim("c", "30m", asks+", volumeName: v"), vol("Bound", claimRef("app", "other", "u"))}, pvc("c"), "stuck", "bind/pv-claimed", "app/other"},
		{"volume named is Released of an older claim", []string{claim("c", "30m", asks+", volumeName: v"), vol("Released", claimRef("app", "c", "old"))}, pvc("c"), "stuck", "bind/pv-released", "older claim"},
		{"only a Released volume fits", []string{claim("c", "30m", asks), vol("Released", claimRef("app", "x", "old")), strings.Replace(volume("small", "Available", ""), "10Gi", "1Gi", 1)}, pvc("c"), "stuck", "bind/pv-released", "v"},
		{"claimRef without a namespace", []string{claim("c", "30m", asks), vol("Available", claimRef("", "c", ""))}, pvc("c"), "stuck", "bind/claimref-broken", "claimRef"},
		{"claimRef with another namespace", []string{claim("c", "30m", asks+", volumeName: v"), vol("Available", claimRef("prod", "c", ""))}, pvc("c"), "stuck", "bind/claimref-broken", "prod"},
		{"free where the pod may not run, and taken where it may", []string{class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: local"),
			strings.Replace(waiting("p", "30m", noneFits, "c"), "spec: {", "spec: {nodeSelector: {rack: a}, ", 1), node("n1", ", rack: a"), node("n2", ", rack: b"),
			volume("far", "Available", ", storageClassName: local"+at("b")), volume("taken", "Bound", ", storageClassName: local"+at("a")+claimRef("app", "other", "u"))},
			pod("p"), "stuck", "bind/no-matching-pv", "the nearest is far"},
		{"free where the pod may not run, and Released where it may", []string{class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: local"),
			strings.Replace(waiting("p", "30m", noneFits, "c"), "spec: {", "spec: {nodeSelector: {rack: a}, ", 1), node("n1", ", rack: a"), node("n2", ", rack: b"),
			volume("far", "Available", ", storageClassName: local"+at("b")), volume("old", "Released", ", storageClassName: local"+at("a")+claimRef("app", "other", "u"))},
			pod("p"), "stuck", "bind/pv-released", "old"},
		{"too small", []string{claim("c", "30m", asks), strings.Replace(vol("Available", ""), "10Gi", "5Gi", 1)}, pvc("c"), "stuck", "bind/no-matching-pv", "capacity 5Gi"},
		{"other access mode", []string{claim("c", "30m", asks), strings.Replace(vol("Available", ""), "ReadWriteOnce", "ReadWriteMany", 1)}, pvc("c"), "stuck", "bind/no-matching-pv", "accessModes"},
		{"other class text", []string{claim("c", "30m", asks), vol("Available", ", storageClassName: manual")}, pvc("c"), "stuck", "bind/no-matching-pv", "manual"},
		{"selector that matches nothing", []string{claim("c", "30m", asks+", selector: {matchLabels: {app: other}}"), vol("Available", "")}, pvc("c"), "stuck", "bind/no-matching-pv", "labels app=x"},
		{"no volume at all", []string{claim("c", "30m", asks)}, pvc("c"), "stuck", "bind/no-matching-pv", "there is none"},
		{"its node is gone", []string{claim("c", "30m", asks), node("n1", ""), vol("Available", ", nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n7]}]}]}}")}, pvc("c"), "stuck", "bind/no-matching-pv", "n7"},
		{"reserved for the claim, seconds ago", []string{claim("c", "5s", asks), vol("Available", claimRef("app", "c", ""))}, pvc("c"), "waiting", "bind/conflict-in-progress", "v"},
		{"explicit empty class with a default", []string{claim("c", "30m", asks), annotated(class("std", d, "Immediate"), `storageclass.kubernetes.io/is-default-class: "true"`)}, pvc("c"), "stuck", "bind/no-matching-pv", "there is none"},
		{"local volumes on nodes where the pod may not go", []string{class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: local"), node("n1", ""), node("n2", ""),
			waiting("p", "30m", "0/2 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 1 node(s) had untolerated taint {x: y}.", "c"),
			vol("Available", ", storageClassName: local, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n2]}]}]}}")}, pvc("c"), "stuck", "bind/no-matching-pv", "n2"},
	})
}

func TestScheduleScenarios(t *testing.T) {
	affinity := func(key, value string) string {
		return ", nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: " + key + ", operator: In, values: [" + value + "]}]}]}}"
	}
	vol := func(name, affinity string) string {
		return volume(name, "Bound", affinity+claimRef("app", "c-"+name, "uid-c-"+name))
	}
	runScenarios(t, []scenario{
		{"idle", []string{bound("c-v", "v", ""), vol("v", "")}, pvc("c-v"), "healthy", "schedule/idle", "no pod uses it"},
		{"gated", []string{bound("c-v", "v", ""), vol("v", ""), strings.Replace(waiting("p", "3h", "Scheduling is blocked due to non-empty scheduling gates", "c-v"), "spec: {", "spec: {schedulingGates: [{name: kueue.x-k8s.io/admission}], ", 1)},
			pvc("c-v"), "waiting", "schedule/gated", "kueue"},
		{"no cpu anywhere", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "30m", "0/2 nodes are available: 2 Insufficient cpu. preemption: none", "c-v"), node("n1", "")},
			pod("p"), "stuck", "schedule/not-the-volume", "Insufficient cpu"},
		{"young pod", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "20s", "0/2 nodes are available: 2 Insufficient cpu.", "c-v"), node("n1", "")},
			pod("p"), "waiting", "schedule/not-the-volume", ""},
		{"no scheduler", []string{bound("c-v", "v", ""), vol("v", ""), strings.Replace(waiting("p", "30m", "", "c-v"), "spec: {", "spec: {schedulerName: fancy, ", 1)},
			pod("p"), "stuck", "schedule/not-the-volume", "fancy"},
		{"another claim of the pod is the fault", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "30m", `persistentvolumeclaim "nope" not found`, "c-v", "nope")},
			pvc("c-v"), "stuck", "schedule/not-the-volume", "another of its volumes"},
		{"a claim that waits beside one that fails", []string{class("late", d, "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: late"), claim("bad", "30m", ", storageClassName: nope"), waiting("p", "30m", unbound, "c", "bad"), node("n1", "")},
			pvc("c"), "stuck", "schedule/not-the-volume", "another of its volumes"},
		{"the node was taken back, and nobody says why", []string{class("late", d, "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: late"), waiting("p", "30m", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`, "c"), node("n1", "")},
			pvc("c"), "stuck", "schedule/binding-timeout", ""},
		{"all claims are bound by now", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "30m", unbound, "c-v")},
			pod("p"), "stuck", "schedule/not-the-volume", "bound by now"},
		{"bound a moment ago", []string{bound("c-v", "v", ""), strings.Replace(vol("v", ""), "2026-02-01T00:00:00Z", ago("10s"), 1), waiting("p", "30m", unbound, "c-v")},
			pod("p"), "waiting", "schedule/not-the-volume", "bound by now"},
		{"the pod with both", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "30m", `persistentvolumeclaim "nope" not found`, "c-v", "nope")},
			pod("p"), "stuck", "claim/pvc-missing", "nope"},
		{"local node gone", []string{bound("c-v", "v", ""), vol("v", affinity("kubernetes.io/hostname", "n9")), node("n1", ""), waiting("p", "30m", "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.", "c-v")},
			pvc("c-v"), "stuck", "schedule/volume-node-gone", "n9"},
		{"node gone by the driver's own key", []string{bound("c-v", "v", ""), vol("v", affinity("topology.x.example/id", "n9")), node("n1", ", topology.x.example/id: n1"), node("n2", ", topology.x.example/id: n2"), waiting("p", "30m", "0/2 nodes are available: 2 node(s) had volume node affinity conflict.", "c-v")},
			pvc("c-v"), "stuck", "schedule/volume-node-gone", "n9"},
		{"no node in the zone", []string{bound("c-v", "v", ""), vol("v", affinity("topology.kubernetes.io/zone", "c")), node("n1", ", topology.kubernetes.io/zone: a"), waiting("p", "30m", "0/1 nodes are available: 1 node(s) had volume node affinity conflict.", "c-v")},
			pvc("c-v"), "stuck", "schedule/node-affinity-conflict", "zone in c"},
		{"zone is full", []string{bound("c-v", "v", ""), vol("v", affinity("topology.kubernetes.io/zone", "a")), node("n1", ", topology.kubernetes.io/zone: a"), node("n2", ", topology.kubernetes.io/zone: b"), waiting("p", "30m", "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had volume node affinity conflict.", "c-v")},
			pod("p"), "stuck", "schedule/node-affinity-conflict", "n1"},
		{"zone at its limit", []string{bound("c-v", "v", ""), vol("v", affinity("topology.kubernetes.io/zone", "a")), node("n1", ", topology.kubernetes.io/zone: a"), node("n2", ", topology.kubernetes.io/zone: b"), csinode("n1", "{name: d.example.com, nodeID: n1, allocatable: {count: 0}}"), waiting("p", "30m", "0/2 nodes are available: 1 node(s) exceed max volume count, 1 node(s) had volume node affinity conflict.", "c-v")},
			pod("p"), "stuck", "schedule/volume-limit", "n1"},
		{"two zones", []string{bound("c-v", "v", ""), vol("v", affinity("zone", "a")), bound("c-w", "w", ""), vol("w", affinity("zone", "b")), node("n1", ", zone: a"), node("n2", ", zone: b"), waiting("p", "30m", "0/2 nodes are available: 2 node(s) had volume node affinity conflict.", "c-v", "c-w")},
			pod("p"), "stuck", "schedule/volumes-in-different-zones", "zone in b"},
		{"in use by another pod", []string{strings.Replace(bound("c-v", "v", ""), "ReadWriteOnce", "ReadWriteOncePod", 1), vol("v", ""), running("old", "n1", "c-v"), node("n1", ""), waiting("p", "30m", "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.", "c-v")},
			pod("p"), "stuck", "schedule/rwop-in-use", "old"},
		{"published and no room", []string{class("fast", d, "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: fast"), csidriver(d, ", storageCapacity: true"), csinode("n1", "{name: d.example.com, nodeID: n1, topologyKeys: [zone]}"), node("n1", ", zone: a"), `apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: csisc-1, namespace: csi}
storageClassName: fast
capacity: 2Gi
nodeTopology: {matchLabels: {zone: a}}`, waiting("p", "30m", "0/1 nodes are available: 1 node(s) did not have enough free storage.", "c")},
			pod("p"), "stuck", "schedule/no-capacity", "10Gi"},
		{"gave up waiting", []string{bound("c-v", "v", ""), vol("v", ""), waiting("p", "30m", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`, "c-v")},
			pod("p"), "stuck", "schedule/binding-timeout", ""},
	})
}

func TestSnapshotScenarios(t *testing.T) {
	source := []string{strings.Replace(bound("src", "v", ""), "metadata: {", "metadata: {finalizers: [snapshot.storage.kubernetes.io/pvc-as-source-protection], ", 1), volume("v", "Bound", claimRef("app", "src", "uid-src"))}
	cut := func(age, spec, status string) string {
		return `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: s, namespace: app, uid: uid-s, creationTimestamp: "` + ago(age) + `"}
spec: {source: {persistentVolumeClaimName: src}` + spec + `}` + status
	}
	classes := `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: k}
driver: ` + d + `
deletionPolicy: Delete`
	content := func(status string) string {
		return `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {name: snapcontent-uid-s, uid: uid-content, creationTimestamp: "2026-03-01T11:00:00Z"}
spec: {driver: ` + d + `, deletionPolicy: Delete, volumeSnapshotClassName: k, source: {volumeHandle: h}, volumeSnapshotRef: {name: s, namespace: app}}` + status
	}
	target := snap("s")
	cutBound := "\nstatus: {boundVolumeSnapshotContentName: snapcontent-uid-s, readyToUse: false}"
	fails := func(message string) string {
		return event("VolumeSnapshotContent", "snapcontent-uid-s", "Warning", "SnapshotCreationFailed", "csi-snapshotter "+d, "40m", "1m", 20, "Failed to create snapshot: "+message)
	}
	with := func(objects ...string) []string { return append(objects, source...) }
	runScenarios(t, []scenario{
		{"ready", with(classes, cut("2h", ", volumeSnapshotClassName: k", "\nstatus: {readyToUse: true}")), target, "healthy", "", ""},
		{"nobody makes the content", with(classes, cut("2h", ", volumeSnapshotClassName: k", "")), target, "stuck", "snapshot/controller-missing", "snapshot-controller"},
		{"controller lost its lease", with(classes, cut("2h", ", volumeSnapshotClassName: k", ""), lease("snapshot-controller-leader", "3h")), target, "stuck", "snapshot/controller-missing", "3h"},
		{"no sidecar", with(classes, cut("2h", ", volumeSnapshotClassName: k", cutBound), content(""), csidriver(d, "")), target, "stuck", "snapshot/controller-missing", "csi-snapshotter"},
		{"half a minute old", with(classes, cut("30s", ", volumeSnapshotClassName: k", "")), target, "waiting", "snapshot/in-progress", ""},
		{"being copied", with(classes, cut("5m", ", volumeSnapshotClassName: k", cutBound), content("\nstatus: {readyToUse: false, snapshotHandle: x}")), target, "waiting", "snapshot/in-progress", ""},
		{"class gone", with(cut("2h", ", volumeSnapshotClassName: k", "")), target, "stuck", "snapshot/class-missing", "k"},
		{"no default class", with(classes, cut("2h", "", "\nstatus: {error: {message: \"Failed to set default snapshot class with error cannot find default snapshot class\", time: \"2026-03-01T11:59:00Z\"}}")), target, "stuck", "snapshot/class-missing", "default"},
		{"source claim gone", []string{classes, cut("2h", ", volumeSnapshotClassName: k", "\nstatus: {error: {message: \"Failed to create snapshot content with error snapshot controller failed to update s on API server: cannot get claim from snapshot: failed to retrieve PVC src from the lister\", time: \"2026-03-01T11:59:00Z\"}}")}, target, "stuck", "snapshot/source-not-ready", "does not exist"},
		{"secret gone", with(classes, cut("2h", ", volumeSnapshotClassName: k", cutBound), content(""), fails(`failed to get input parameters to create snapshot for content snapcontent-uid-s: "failed to get credentials for snapshot content snapcontent-uid-s: error getting secret x in namespace y: secrets \"x\" not found"`)), target, "stuck", "snapshot/secret-missing", "secret"},
		{"rbac", with(classes, cut("2h", ", volumeSnapshotClassName: k", cutBound), content(""), fails(`volumesnapshotcontents.snapshot.storage.k8s.io "snapcontent-uid-s" is forbidden: User "system:serviceaccount:csi:ctl" cannot patch resource "volumesnapshotcontents" in API group "snapshot.storage.k8s.io" at the cluster scope`)), target, "stuck", "snapshot/rbac", "ctl"},
		{"the driver fails", with(classes, cut("2h", ", volumeSnapshotClassName: k", cutBound), content(""), fails(`failed to take snapshot of the volume h: "rpc error: code = Internal desc = snapshot limit reached"`)), target, "stuck", "snapshot/driver-error", "limit"},
		{"a stuck snapshot of a claim that works", with(classes, cut("2h", ", volumeSnapshotClassName: k", cutBound), content(""), fails(`failed to take snapshot of the volume h: "rpc error: code = Internal desc = snapshot limit reached"`)), pvc("src"), "degraded", "snapshot/driver-error", "limit"},
	})
}
