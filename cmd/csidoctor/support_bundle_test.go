package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// recorded is what the program of troubleshoot.sh made of the demo's cluster by the spec in plugins/troubleshoot, without what
// tells where it ran. `make support-bundle-test` runs the program again.
const recorded = "testdata/support-bundle.tar.gz"

func TestSupportBundle(t *testing.T) {
	answersAsTheDemo(t, recorded)
}

// answersAsTheDemo: what is asked of a support bundle has the answers that the cluster has.
func answersAsTheDemo(t *testing.T, file string) {
	t.Helper()
	for _, question := range []string{"pvc data -n shop", "pvc reports -n shop", "pvc cache -n shop", "pvc uploads -n shop", "pvc spare -n shop", "pod cache-7d9f-new -n shop", "pv pvc-cache",
		"snapshot nightly -n shop", "node node-1", "node node-2", "driver ebs.csi.aws.com"} {
		want, got := diagnosed(t, question, supportBundleDemo(t)), diagnosed(t, question, file)
		if got.Verdict != want.Verdict || got.Hop != want.Hop || fmt.Sprint(got.Cause) != fmt.Sprint(want.Cause) {
			t.Errorf("%s: %s %s %v, want %s %s %v", question, got.Verdict, got.Hop, got.Cause, want.Verdict, want.Hop, want.Cause)
		}
		for _, g := range got.Gaps {
			if g.Reason == "not-collected" {
				t.Errorf("%s: %s is missing in the support bundle", question, g.Input)
			}
		}
	}
}

func diagnosed(t *testing.T, question, file string) explain.Diagnosis {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	// The moment of a support bundle is that of its newest object, a few seconds before it was made.
	run(t.Context(), append(strings.Fields(question), "--from", file, "--at", "2026-06-01T12:00:00Z", "-o", "json"), streams)
	var d explain.Diagnosis
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatalf("%s: %v: %s", question, err, errOut)
	}
	return d
}

// besides is what the demo does not have and a support bundle must: namespaces, by which it lists, and custom objects.
const besides = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshots.snapshot.storage.k8s.io}
spec: {group: snapshot.storage.k8s.io, scope: Namespaced, names: {kind: VolumeSnapshot, plural: volumesnapshots, listKind: VolumeSnapshotList}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshotcontents.snapshot.storage.k8s.io}
spec: {group: snapshot.storage.k8s.io, scope: Cluster, names: {kind: VolumeSnapshotContent, plural: volumesnapshotcontents, listKind: VolumeSnapshotContentList}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshotclasses.snapshot.storage.k8s.io}
spec: {group: snapshot.storage.k8s.io, scope: Cluster, names: {kind: VolumeSnapshotClass, plural: volumesnapshotclasses, listKind: VolumeSnapshotClassList}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: snaps, uid: uid-snaps, creationTimestamp: "2026-05-01T00:00:00Z"}
driver: ebs.csi.aws.com
deletionPolicy: Delete
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: nightly, namespace: shop, uid: uid-nightly, creationTimestamp: "2026-06-01T10:00:00Z"}
spec: {volumeSnapshotClassName: snaps, source: {persistentVolumeClaimName: data}}
status: {readyToUse: false, boundVolumeSnapshotContentName: snapcontent-nightly, error: {time: "2026-06-01T11:50:00Z", message: "Failed to create snapshot: rpc error: code = Internal desc = RequestLimitExceeded"}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {name: snapcontent-nightly, uid: uid-content, creationTimestamp: "2026-06-01T10:00:01Z"}
spec: {driver: ebs.csi.aws.com, deletionPolicy: Delete, source: {volumeHandle: vol-0data}, volumeSnapshotRef: {namespace: shop, name: nightly, uid: uid-nightly}, volumeSnapshotClassName: snaps}
status: {readyToUse: false, error: {time: "2026-06-01T11:50:00Z", message: "rpc error: code = Internal desc = RequestLimitExceeded"}}
`

func supportBundleDemo(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demo.yaml")
	if err := os.WriteFile(file, append(bytes.Clone(demoCluster), besides...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
