package snapshot

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what every object of a Snapshot is, the unstructured ones too.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is one kind that is kept typed. All served versions of a kind are decoded into its newest Go type: the fields that
// csidoctor reads were never renamed between versions.
type Kind struct {
	Resource   string // plural, with the group as kubectl writes it: volumeattachments.storage.k8s.io
	Group      schema.GroupKind
	Version    string // asked of a live server, and written to bundles
	Namespaced bool
	New        func() Object
}

// Kinds are all typed kinds. The order is the one of a bundle's files.
var Kinds = []Kind{
	{"namespaces", schema.GroupKind{Kind: "Namespace"}, "v1", false, func() Object { return &corev1.Namespace{} }},
	{"nodes", schema.GroupKind{Kind: "Node"}, "v1", false, func() Object { return &corev1.Node{} }},
	{"persistentvolumeclaims", schema.GroupKind{Kind: "PersistentVolumeClaim"}, "v1", true, func() Object { return &corev1.PersistentVolumeClaim{} }},
	{"persistentvolumes", schema.GroupKind{Kind: "PersistentVolume"}, "v1", false, func() Object { return &corev1.PersistentVolume{} }},
	{"pods", schema.GroupKind{Kind: "Pod"}, "v1", true, func() Object { return &corev1.Pod{} }},
	{"events", schema.GroupKind{Kind: "Event"}, "v1", true, func() Object { return &corev1.Event{} }},
	{"resourcequotas", schema.GroupKind{Kind: "ResourceQuota"}, "v1", true, func() Object { return &corev1.ResourceQuota{} }},
	{"limitranges", schema.GroupKind{Kind: "LimitRange"}, "v1", true, func() Object { return &corev1.LimitRange{} }},
	{"storageclasses.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, "v1", false, func() Object { return &storagev1.StorageClass{} }},
	{"volumeattachments.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"}, "v1", false, func() Object { return &storagev1.VolumeAttachment{} }},
	{"csidrivers.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "CSIDriver"}, "v1", false, func() Object { return &storagev1.CSIDriver{} }},
	{"csinodes.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "CSINode"}, "v1", false, func() Object { return &storagev1.CSINode{} }},
	{"csistoragecapacities.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}, "v1", true, func() Object { return &storagev1.CSIStorageCapacity{} }},
	{"volumeattributesclasses.storage.k8s.io", schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}, "v1", false, func() Object { return &storagev1.VolumeAttributesClass{} }},
	{"leases.coordination.k8s.io", schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, "v1", true, func() Object { return &coordinationv1.Lease{} }},
	{"daemonsets.apps", schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, "v1", true, func() Object { return &appsv1.DaemonSet{} }},
	{"deployments.apps", schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1", true, func() Object { return &appsv1.Deployment{} }},
	{"statefulsets.apps", schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "v1", true, func() Object { return &appsv1.StatefulSet{} }},
	{"replicasets.apps", schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, "v1", true, func() Object { return &appsv1.ReplicaSet{} }},
	{"jobs.batch", schema.GroupKind{Group: "batch", Kind: "Job"}, "v1", true, func() Object { return &batchv1.Job{} }},
	{"cronjobs.batch", schema.GroupKind{Group: "batch", Kind: "CronJob"}, "v1", true, func() Object { return &batchv1.CronJob{} }},
	{"volumesnapshots.snapshot.storage.k8s.io", schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}, "v1", true, func() Object { return &snapshotv1.VolumeSnapshot{} }},
	{"volumesnapshotcontents.snapshot.storage.k8s.io", schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotContent"}, "v1", false, func() Object { return &snapshotv1.VolumeSnapshotContent{} }},
	{"volumesnapshotclasses.snapshot.storage.k8s.io", schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}, "v1", false, func() Object { return &snapshotv1.VolumeSnapshotClass{} }},
	{"clusterroles.rbac.authorization.k8s.io", schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, "v1", false, func() Object { return &rbacv1.ClusterRole{} }},
	{"clusterrolebindings.rbac.authorization.k8s.io", schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}, "v1", false, func() Object { return &rbacv1.ClusterRoleBinding{} }},
	{"nodereports.csidoctor.dev", schema.GroupKind{Group: "csidoctor.dev", Kind: "NodeReport"}, "v1alpha1", false, func() Object { return &NodeReport{} }},
	{"logexcerpts.csidoctor.dev", schema.GroupKind{Group: "csidoctor.dev", Kind: "LogExcerpt"}, "v1alpha1", true, func() Object { return &LogExcerpt{} }},
}

var (
	byResource = map[string]*Kind{}
	byGroup    = map[schema.GroupKind]*Kind{}
)

func init() {
	for i := range Kinds {
		byResource[Kinds[i].Resource], byGroup[Kinds[i].Group] = &Kinds[i], &Kinds[i]
	}
}

// KindOf finds a typed kind by group and kind; nil for every other.
func KindOf(g schema.GroupKind) *Kind { return byGroup[g] }

// ResourceOf finds a typed kind by its resource; nil for every other.
func ResourceOf(resource string) *Kind { return byResource[resource] }
