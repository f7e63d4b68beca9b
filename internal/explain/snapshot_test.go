package explain

import "testing"

// Real texts of snapshot-controller, csi-snapshotter and drivers.
func TestSnapshotWords(t *testing.T) {
	for _, c := range []struct{ text, cause string }{
		{`Failed to get snapshot class with error failed to retrieve snapshot class k from the informer: "volumesnapshotclass.snapshot.storage.k8s.io \"k\" not found"`, "snapshot/class-missing"},
		{`Failed to set default snapshot class with error cannot find default snapshot class`, "snapshot/class-missing"},
		{`Failed to set default snapshot class with error 2 default snapshot classes were found`, "snapshot/class-missing"},
		{`Failed to create snapshot content with error failed to get input parameters to create snapshot s: "failed to take snapshot s without a snapshot class"`, "snapshot/class-missing"},
		{`Failed to create snapshot: failed to get input parameters to create snapshot for content c: "failed to get credentials for snapshot content c: error getting secret s in namespace n: secrets \"s\" not found"`, "snapshot/secret-missing"},
		{`Failed to check and update snapshot content: failed to take snapshot of the volume v: "rpc error: code = InvalidArgument desc = provided secret is empty"`, "snapshot/secret-missing"},
		{`Failed to create snapshot content with error the PVC p is not yet bound to a PV, will not attempt to take a snapshot`, "snapshot/source-not-ready"},
		{`Failed to create snapshot content with error snapshotting non-CSI volumes is not supported, snapshot:n/s`, "snapshot/source-not-ready"},
		{`Failed to create snapshot content with error cannot find CSI PersistentVolumeSource for volume pv`, "snapshot/source-not-ready"},
		{`Failed to create snapshot content with error snapshot controller failed to update s on API server: cannot get claim from snapshot: failed to retrieve PVC p from the lister: "persistentvolumeclaim \"p\" not found"`, "snapshot/source-not-ready"},
		{`VolumeSnapshotContent is missing`, "snapshot/source-not-ready"},
		{`Snapshot failed to bind VolumeSnapshotContent, Could not bind snapshot s and content c, the VolumeSnapshotRef does not match`, "snapshot/source-not-ready"},
		{`volumesnapshotcontents.snapshot.storage.k8s.io is forbidden: User "system:serviceaccount:n:sa" cannot create resource "volumesnapshotcontents" in API group "snapshot.storage.k8s.io" at the cluster scope`, "snapshot/rbac"},
		{`Failed to check and update snapshot content: failed to take snapshot of the volume v: "rpc error: code = Internal desc = could not create snapshot in EC2: SnapshotLimitExceeded"`, ""},
		{`Failed to create snapshot: failed to take snapshot of the volume v: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"`, ""},
		{`Failed to create snapshot: failed to take snapshot of the volume v: "rpc error: code = FailedPrecondition desc = snapshots are not supported by this pool"`, ""},
	} {
		if got := told(snapshotWords, c.text); got != c.cause {
			t.Errorf("%s\n\ttells %q, want %q", c.text, got, c.cause)
		}
	}
}
