package explain_test

import (
	"fmt"
	"strings"
	"testing"
)

const (
	unbound  = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	external = "Waiting for a volume to be created either by the external provisioner 'd.example.com' or manually by the system administrator."
)

func TestProvisionScenarios(t *testing.T) {
	immediate, late := class("fast", d, "Immediate"), class("fast", d, "WaitForFirstConsumer")
	asks := ", storageClassName: fast"
	handed := "volume.kubernetes.io/storage-provisioner: " + d
	said := event("PersistentVolumeClaim", "c", "Normal", "ExternalProvisioning", "persistentvolume-controller", "30m", "10s", 100, external)
	chosen := func(node string) string {
		return annotated(claim("c", "30m", asks), handed+", volume.kubernetes.io/selected-node: "+node)
	}
	controller := func(args, status string) string {
		return `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d-node, namespace: csi, uid: ds}
spec: {selector: {}, template: {spec: {containers: [{name: reg, args: [--kubelet-registration-path=/var/lib/kubelet/plugins/d.example.com/csi.sock]}]}}}
status: {desiredNumberScheduled: 1, currentNumberScheduled: 1, numberReady: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: d-controller-0, namespace: csi, creationTimestamp: "2026-02-01T00:00:00Z"}
spec: {nodeName: n1, containers: [{name: csi-provisioner, image: csi-provisioner:v5, args: [` + args + `]}]}
status: {phase: Running, containerStatuses: [{name: csi-provisioner, ` + status + `}]}`
	}
	rights := func(verbs string) string { // of the controller, on volumes
		return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: d-provisioner}
rules:
- {apiGroups: [""], resources: [persistentvolumes], verbs: [` + verbs + `]}
- {apiGroups: ["", storage.k8s.io], resources: [persistentvolumeclaims, storageclasses], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: d-provisioner}
roleRef: {kind: ClusterRole, name: d-provisioner}
subjects: [{kind: ServiceAccount, namespace: csi, name: default}]`
	}
	again := fmt.Sprintf("ready: true, restartCount: 4, state: {running: {startedAt: %q}}, lastState: {terminated: {exitCode: 2, reason: Error, startedAt: %q, finishedAt: %q}}", ago("1s"), ago("42s"), ago("41s"))
	ready, crashing := "ready: true, state: {running: {}}", "ready: false, state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s}}"
	runScenarios(t, []scenario{
		{"bypassed by nodeName", []string{late, claim("c", "30m", asks), onNode(waiting("p", "30m", "", "c"), "n1"), node("n1", ""), csinode("n1", "{name: d.example.com, nodeID: n1}"), csidriver(d, "")},
			pvc("c"), "stuck", "provision/scheduler-bypassed", "n1"},
		{"finished pods are no consumers", []string{late, claim("c", "30m", asks), strings.Replace(running("p", "n1", "c"), "Running", "Succeeded", 1)},
			pvc("c"), "waiting", "provision/waiting-for-first-consumer", ""},
		{"static class that waits, no pod", []string{class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"), claim("c", "30m", ", storageClassName: local")},
			pvc("c"), "waiting", "provision/waiting-for-first-consumer", ""},
		{"stale lease", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), lease("d-example-com", "5h")},
			pvc("c"), "stuck", "provision/provisioner-not-running", "5h"},
		{"ready pod and stale lease", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), lease("d-example-com", "10m"), controller("--leader-election", ready)},
			pvc("c"), "stuck", "provision/provisioner-not-running", "10m"},
		{"crashing without election", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--v=2", crashing)},
			pvc("c"), "stuck", "provision/provisioner-not-running", "CrashLoopBackOff"},
		{"crashing, and it runs at this moment", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--leader-election=true", again)},
			pvc("c"), "stuck", "provision/provisioner-not-running", "crashes: it was started again 4 times"},
		{"election and no lease", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--leader-election=true", ready)},
			pvc("c"), "stuck", "provision/provisioner-not-running", "election"},
		{"no pod and no lease", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), csinode("n1", "{name: d.example.com, nodeID: n1}")},
			pvc("c"), "stuck", "provision/provisioner-not-running", ""},
		{"hosted provisioner, seen by its events", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""),
			event("PersistentVolumeClaim", "other", "Normal", "Provisioning", provisionerSays, "3m", "3m", 1, `External provisioner is provisioning volume for claim "app/other"`)},
			pvc("c"), "stuck", "provision/not-acted-on", "app/other"},
		{"fresh lease, no word", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), lease("d-example-com", "4s")},
			pvc("c"), "stuck", "provision/not-acted-on", ""},
		{"ready without election, no word", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--v=2", ready), rights("get, list, watch, create, patch, delete")},
			pvc("c"), "stuck", "provision/not-acted-on", ""},
		{"ready without election, and may not save a volume", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--v=2", ready), rights("get, list, watch")},
			pvc("c"), "stuck", "provision/rbac", "create persistentvolumes"},
		{"no word but in its log", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), controller("--v=2", ready), rights("get, list, watch, create, patch, delete"),
			`{apiVersion: csidoctor.dev/v1alpha1, kind: LogExcerpt, metadata: {name: d-controller-0, namespace: csi}, container: csi-provisioner, lines: [{at: "` + ago("2m") +
				`", text: 'E0301 11:58:00.000000       1 volume_store.go:90] "Failed to save volume" err="persistentvolumes is forbidden: User \"system:serviceaccount:csi:default\" cannot create resource \"persistentvolumes\"" PVC="app/c"'}]}`},
			pvc("c"), "stuck", "provision/rbac", `User "system:serviceaccount:csi:default" cannot create`},
		{"untouched for half a minute", []string{immediate, annotated(claim("c", "30s", asks), handed), csidriver(d, ""), lease("d-example-com", "5h")},
			pvc("c"), "waiting", "provision/in-progress", ""},
		{"an old claim whose pod came seconds ago", []string{late, annotated(claim("c", "24h", asks), handed+", volume.kubernetes.io/selected-node: n1"), waiting("p", "10s", "", "c"), node("n1", ""), csinode("n1", "{name: d.example.com, nodeID: n1}"), csidriver(d, ""), lease("d-example-com", "4s")},
			pvc("c"), "waiting", "provision/in-progress", ""},
		{"nothing goes by the name", []string{immediate, annotated(claim("c", "30m", asks), handed), said, lease("d-example-com", "100h")},
			pvc("c"), "stuck", "provision/driver-not-installed", d},
		{"a Deployment without pods is left over", []string{immediate, annotated(claim("c", "30m", asks), handed), said, `apiVersion: apps/v1
kind: Deployment
metadata: {name: d-controller, namespace: csi}
spec: {replicas: 0, selector: {}, template: {spec: {containers: [{name: csi-provisioner, env: [{name: DRIVER, value: d.example.com}]}]}}}
status: {replicas: 0}`},
			pvc("c"), "stuck", "provision/driver-not-installed", d},
		{"built-in plugin that is gone", []string{class("fast", "kubernetes.io/glusterfs", "Immediate"), claim("c", "30m", asks),
			event("PersistentVolumeClaim", "c", "Warning", "ProvisioningFailed", "persistentvolume-controller", "30m", "10s", 100, "no volume plugin matched name: kubernetes.io/glusterfs")},
			pvc("c"), "stuck", "provision/plugin-not-found", "glusterfs"},
		{"error of the controller that is over", []string{immediate, annotated(claim("c", "3m", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			event("PersistentVolumeClaim", "c", "Warning", "ProvisioningFailed", "persistentvolume-controller", "3m", "1m", 8, `storageclass.storage.k8s.io "fast" not found`),
			event("PersistentVolumeClaim", "c", "Normal", "ExternalProvisioning", "persistentvolume-controller", "20s", "10s", 2, external),
			event("PersistentVolumeClaim", "c", "Normal", "Provisioning", provisionerSays, "20s", "20s", 1, "External provisioner is provisioning volume")},
			pvc("c"), "waiting", "provision/in-progress", ""},
		{"error of the controller that is over, the provisioner's is not", []string{immediate, annotated(claim("c", "2h", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			event("PersistentVolumeClaim", "c", "Warning", "ProvisioningFailed", "persistentvolume-controller", "2h", "55m", 25, `storageclass.storage.k8s.io "fast" not found`),
			failing("c", "50m", "1m", 20, `rpc error: code = Aborted desc = an operation with the given Volume ID pvc-1 already exists`)},
			pvc("c"), "stuck", "provision/operation-pending", ""},
		{"error of the controller that is over, the claim waits for its pod", []string{late, claim("c", "40m", asks),
			event("PersistentVolumeClaim", "c", "Warning", "ProvisioningFailed", "persistentvolume-controller", "40m", "39m", 8, `storageclass.storage.k8s.io "fast" not found`),
			event("PersistentVolumeClaim", "c", "Normal", "WaitForFirstConsumer", "persistentvolume-controller", "38m", "5s", 150, "waiting for first consumer to be created before binding")},
			pvc("c"), "waiting", "provision/waiting-for-first-consumer", ""},
		{"one refusal, then another node", []string{late, annotated(claim("c", "4m", asks), handed+", volume.kubernetes.io/selected-node: n2"), waiting("p", "4m", "", "c"), node("n2", ""), csinode("n2", "{name: d.example.com, nodeID: n2}"), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "3m", "3m", 1, `rpc error: code = ResourceExhausted desc = not enough free space on n1`),
			event("PersistentVolumeClaim", "c", "Normal", "Provisioning", provisionerSays, "4m", "30s", 2, "External provisioner is provisioning volume")},
			pvc("c"), "waiting", "provision/in-progress", ""},
		{"node after node refused", []string{late, claim("c", "30m", asks), waiting("p", "30m", `0/2 nodes are available: 2 node(s) did not have enough free storage.`, "c"), node("n1", ""), csinode("n1", "{name: d.example.com, nodeID: n1}"), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "29m", "40s", 25, `rpc error: code = ResourceExhausted desc = not enough free space`)},
			pvc("c"), "stuck", "provision/out-of-capacity", "free space"},
		{"chosen node gone", []string{late, chosen("n9"), waiting("p", "30m", unbound, "c"), node("n1", ""), csidriver(d, ""), lease("d-example-com", "4s"), said},
			pvc("c"), "stuck", "provision/selected-node-gone", "n9"},
		{"plugin absent on the chosen node", []string{late, chosen("n1"), waiting("p", "30m", "", "c"), node("n1", ""), csinode("n1", ""), node("n2", ""), csinode("n2", "{name: d.example.com, nodeID: n2, topologyKeys: [zone]}"), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "29m", "1m", 20, `error generating accessibility requirements: no topology key found for node n1`)},
			pvc("c"), "stuck", "provision/no-topology", "not registered there"},
		{"topology is there since", []string{late, annotated(claim("c", "6m", asks), handed+", volume.kubernetes.io/selected-node: n1"), waiting("p", "6m", "", "c"), node("n1", ", zone: a"), csinode("n1", "{name: d.example.com, nodeID: n1, topologyKeys: [zone]}"), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "5m", "2m", 6, `error generating accessibility requirements: no topology key found for node n1`)},
			pvc("c"), "waiting", "provision/in-progress", ""},
		{"class allows no place where nodes are", []string{late + "\nallowedTopologies: [{matchLabelExpressions: [{key: zone, values: [z9]}]}]", claim("c", "30m", asks), waiting("p", "30m", "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.", "c"), node("n1", ", zone: a"), csinode("n1", "{name: d.example.com, nodeID: n1, topologyKeys: [zone]}"), csidriver(d, "")},
			pod("p"), "stuck", "provision/no-topology", "z9"},
		{"snapshot of another driver", []string{immediate, annotated(claim("c", "30m", asks+", dataSourceRef: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}"), handed), csidriver(d, ""),
			readySnapshot("s", "e.example.com", "10Gi"), failing("c", "29m", "1m", 20, `error getting handle for DataSource Type VolumeSnapshot by Name s: snapshotContent snapcontent-s bound to snapshot s is by a different driver`)},
			pvc("c"), "stuck", "provision/source-not-ready", "e.example.com"},
		{"snapshot larger than the claim", []string{immediate, annotated(claim("c", "30m", asks+", dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}"), handed), csidriver(d, ""),
			readySnapshot("s", d, "50Gi"), failing("c", "29m", "1m", 20, `error getting handle for DataSource Type VolumeSnapshot by Name s: requested volume size 10737418240 is less than the size 53687091200 for the source snapshot s`)},
			pvc("c"), "stuck", "provision/source-not-ready", "50Gi"},
		{"snapshot that does not exist", []string{immediate, annotated(claim("c", "30m", asks+", dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}"), handed), csidriver(d, ""),
			failing("c", "29m", "1m", 20, `error getting handle for DataSource Type VolumeSnapshot by Name s: error getting snapshot s from api server: volumesnapshots.snapshot.storage.k8s.io "s" not found`)},
			pvc("c"), "stuck", "provision/source-not-ready", "no such snapshot"},
		{"clone of a claim that waits itself", []string{immediate, claim("src", "2m", asks), annotated(claim("c", "1m", asks+", dataSource: {kind: PersistentVolumeClaim, name: src}"), handed), csidriver(d, ""),
			failing("c", "59s", "10s", 7, `error getting handle for DataSource Type PersistentVolumeClaim by Name src: the PVC DataSource src must have a status of Bound.  Got Pending`)},
			pvc("c"), "waiting", "provision/source-not-ready", "Pending"},
		{"populator that is not there", []string{immediate, annotated(claim("c", "30m", asks+", dataSourceRef: {apiGroup: cdi.kubevirt.io, kind: VolumeImportSource, name: img}"), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			event("PersistentVolumeClaim", "c", "Normal", "Provisioning", "external-provisioner", "30m", "1m", 20, "Assuming an external populator will provision the volume")},
			pvc("c"), "stuck", "provision/source-not-ready", "VolumeImportSource"},
		{"only an old call is said to run", []string{immediate, annotated(claim("c", "2h", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "50m", "1m", 20, `rpc error: code = Aborted desc = an operation with the given Volume ID pvc-1 already exists`)},
			pvc("c"), "stuck", "provision/operation-pending", ""},
		{"an old call, and the backend's own object says why", []string{strings.ReplaceAll(immediate, d, "rook-ceph.rbd.csi.ceph.com") + "\nparameters: {clusterID: rook-ceph}", annotated(claim("c", "2h", asks), "volume.kubernetes.io/storage-provisioner: rook-ceph.rbd.csi.ceph.com"), csidriver("rook-ceph.rbd.csi.ceph.com", ""), lease("rook-ceph-rbd-csi-ceph-com", "4s"),
			strings.ReplaceAll(failing("c", "50m", "1m", 20, `rpc error: code = Aborted desc = an operation with the given Volume ID pvc-1 already exists`), d, "rook-ceph.rbd.csi.ceph.com"), `apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: rook-ceph, namespace: rook-ceph}
status: {phase: Ready, ceph: {health: HEALTH_WARN, details: {PG_AVAILABILITY: {severity: HEALTH_WARN, message: 64 pgs inactive}}}}`},
			pvc("c"), "stuck", "provision/backend-unreachable", "64 pgs inactive"},
		{"a call that does not end", []string{immediate, annotated(claim("c", "30m", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			event("PersistentVolumeClaim", "c", "Normal", "Provisioning", provisionerSays, "29m", "29m", 1, "External provisioner is provisioning volume")},
			pvc("c"), "stuck", "provision/operation-pending", "29m"},
		{"controller scaled to nothing", []string{immediate, annotated(claim("c", "30m", asks), handed), said, csidriver(d, ""), `apiVersion: apps/v1
kind: Deployment
metadata: {name: d-controller, namespace: csi}
spec: {replicas: 0, selector: {}, template: {spec: {containers: [{name: csi-provisioner, image: csi-provisioner:v5}, {name: driver, args: [--name=d.example.com]}]}}}
status: {replicas: 0}`},
			pvc("c"), "stuck", "provision/provisioner-not-running", "wants 0 pods"},
		{"the scheduler may not write on the claim", []string{late, claim("c", "30m", asks), csidriver(d, ""), node("n1", ""), csinode("n1", "{name: d.example.com, nodeID: n1}"),
			waiting("p", "30m", `running PreBind plugin "VolumeBinding": binding volumes: admission webhook "guard.corp" denied the request: claims are frozen`, "c")},
			pvc("c"), "stuck", "claim/denied", "guard.corp"},
		{"refused once, seconds ago", []string{immediate, annotated(claim("c", "20s", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "15s", "15s", 1, `rpc error: code = Internal desc = something odd`)},
			pvc("c"), "waiting", "provision/backend-error", "something odd"},
		{"made, and not bound yet", []string{immediate, annotated(claim("c", "30s", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			strings.Replace(volume("pvc-uid-c", "Bound", ", storageClassName: fast"+claimRef("app", "c", "uid-c")), "2026-02-01T00:00:00Z", ago("5s"), 1),
			event("PersistentVolumeClaim", "c", "Normal", "ProvisioningSucceeded", provisionerSays, "5s", "5s", 1, "Successfully provisioned volume pvc-uid-c")},
			pvc("c"), "waiting", "bind/conflict-in-progress", ""},
		{"selector on a class that makes volumes", []string{immediate, annotated(claim("c", "30m", asks+", selector: {matchLabels: {app: nope}}"), handed), csidriver(d, ""), volume("v", "Available", ""),
			failing("c", "29m", "1m", 20, `failed to provision volume with StorageClass "fast": claim Selector is not supported`)},
			pvc("c"), "stuck", "provision/invalid-parameters", "selector"},
		{"webhook that refuses the volume", []string{immediate, annotated(claim("c", "30m", asks), handed), csidriver(d, ""), lease("d-example-com", "4s"),
			failing("c", "29m", "1m", 20, `failed to save volume: persistentvolumes "pvc-1" is forbidden: admission webhook "policy.corp" denied the request: no encryption`)},
			pvc("c"), "stuck", "claim/denied", "policy.corp"},
	})
}

func readySnapshot(name, driver, size string) string {
	return `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: ` + name + `, namespace: app, uid: uid-` + name + `, creationTimestamp: "2026-02-01T00:00:00Z"}
spec: {volumeSnapshotClassName: k, source: {persistentVolumeClaimName: gone}}
status: {boundVolumeSnapshotContentName: snapcontent-` + name + `, readyToUse: true, restoreSize: ` + size + `}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {name: snapcontent-` + name + `, uid: uid-content, creationTimestamp: "2026-02-01T00:00:00Z"}
spec: {driver: ` + driver + `, deletionPolicy: Delete, source: {volumeHandle: h}, volumeSnapshotRef: {name: ` + name + `, namespace: app}}
status: {readyToUse: true, snapshotHandle: sh}`
}
