package bundle

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// supportBundleKinds are the folders and files below cluster-resources/ in a support bundle of troubleshoot.sh (its
// pkg/constants). Old versions write plain arrays there whose items have no kind.
var supportBundleKinds = map[string]schema.GroupVersionKind{
	"cronjobs":                {Group: "batch", Version: "v1", Kind: "CronJob"},
	"clusterrolebindings":     {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	"clusterroles":            {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	"daemonsets":              {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	"deployments":             {Group: "apps", Version: "v1", Kind: "Deployment"},
	"events":                  {Version: "v1", Kind: "Event"},
	"jobs":                    {Group: "batch", Version: "v1", Kind: "Job"},
	"leases":                  {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	"limitranges":             {Version: "v1", Kind: "LimitRange"},
	"namespaces":              {Version: "v1", Kind: "Namespace"},
	"nodes":                   {Version: "v1", Kind: "Node"},
	"pods":                    {Version: "v1", Kind: "Pod"},
	"pvcs":                    {Version: "v1", Kind: "PersistentVolumeClaim"},
	"pvs":                     {Version: "v1", Kind: "PersistentVolume"},
	"replicasets":             {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	"resource-quota":          {Version: "v1", Kind: "ResourceQuota"},
	"rolebindings":            {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	"roles":                   {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	"serviceaccounts":         {Version: "v1", Kind: "ServiceAccount"},
	"statefulsets":            {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"statefulsets-errors":     {Group: "apps", Version: "v1", Kind: "ReplicaSet"}, // where versions up to 0.93 put them
	"storage-classes":         {Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
	"volumeattachments":       {Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"},
	"csidrivers":              {Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver"},
	"csinodes":                {Group: "storage.k8s.io", Version: "v1", Kind: "CSINode"},
	"volumesnapshots":         {Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"},
	"volumesnapshotcontents":  {Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"},
	"volumesnapshotclasses":   {Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"},
	"volume-attributes-class": {Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttributesClass"},
}

// supportBundleKind is what a file has by its name; empty where that does not tell.
func supportBundleKind(name string) schema.GroupVersionKind {
	_, below, ok := strings.Cut("/"+name, "/cluster-resources/")
	if !ok {
		return schema.GroupVersionKind{}
	}
	first, _, _ := strings.Cut(below, "/")
	return supportBundleKinds[strings.TrimSuffix(first, path.Ext(first))]
}

const (
	namespaces = "namespaces"
	// What was custom there: the kinds, and why objects of some could not be read.
	customKinds  = "/cluster-resources/custom-resource-definitions.json"
	customErrors = "/cluster-resources/custom-resources/custom-resources-errors.json"
)

// noteList takes down that a support bundle has a list whole. Of namespaces it has all only where they are a list of the API's:
// those that its spec names are an array.
func (r *reader) noteList(e entry, data []byte) {
	for _, special := range []string{customKinds, customErrors} {
		if strings.HasSuffix("/"+e.name, special) && len(data) > 0 {
			r.custom = append(r.custom, special)
		}
	}
	q, ok := supportBundleList(e.name)
	if !ok || len(data) == 0 {
		return
	}
	if kind, err := snapshot.Identify(data); q.Resource == namespaces && (err != nil || kind.Kind != "NamespaceList") {
		return
	}
	r.lists = append(r.lists, q)
}

// supportBundleLists are the lists that a support bundle has: with those of every namespace it has the one of them all, and then
// all objects of custom kinds too, of which there is a file only where there are some.
func (r *reader) supportBundleLists() []snapshot.Query {
	out := r.lists
	if !slices.Contains(r.lists, snapshot.Query{Resource: namespaces}) {
		return out
	}
	all := r.snapshot.Select(snapshot.Query{Resource: namespaces})
	for _, k := range snapshot.Kinds {
		missing := func(ns snapshot.Object) bool {
			return !slices.Contains(r.lists, snapshot.Query{Resource: k.Resource, Namespace: ns.GetName()})
		}
		if k.Namespaced && len(all) > 0 && !slices.ContainsFunc(all, missing) {
			out = append(out, snapshot.Query{Resource: k.Resource})
		}
	}
	if slices.Contains(out, snapshot.Query{Resource: "pods"}) && slices.Equal(r.custom, []string{customKinds}) {
		for _, k := range snapshot.Kinds {
			if k.Group.Group == "snapshot.storage.k8s.io" {
				out = append(out, snapshot.Query{Resource: k.Resource})
			}
		}
	}
	return out
}

// supportBundleList is the list that a file is, whole and perhaps empty: cluster-resources/pods/shop.json, cluster-resources/pvs.json,
// and what the spec in plugins/troubleshoot reads beside them. Of a list that failed there is no file, or one without content.
func supportBundleList(name string) (snapshot.Query, bool) {
	if dir, file := path.Split("/" + name); strings.HasSuffix(dir, "/host-collectors/run-host/") {
		k := snapshot.ResourceOf(strings.TrimSuffix(file, ".txt") + ".storage.k8s.io")
		if k == nil {
			return snapshot.Query{}, false
		}
		return snapshot.Query{Resource: k.Resource}, true
	}
	k := snapshot.KindOf(supportBundleKind(name).GroupKind())
	_, below, _ := strings.Cut("/"+name, "/cluster-resources/")
	kind, namespace, inFolder := strings.Cut(strings.TrimSuffix(below, path.Ext(below)), "/")
	if k == nil || k.Namespaced != inFolder || strings.Contains(namespace, "/") || strings.HasSuffix(kind, "-errors.json") {
		return snapshot.Query{}, false
	}
	return snapshot.Query{Resource: k.Resource, Namespace: namespace}, true
}

// supportBundleTwin: custom objects lie under a second name for who expects YAML.
func supportBundleTwin(name, target string) bool {
	return strings.Contains("/"+name, "/cluster-resources/custom-resources/") && path.Base(target) == strings.TrimSuffix(path.Base(name), ".yaml")+".json"
}
