package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Ceph's health checks with which writes hang until somebody acts (docs.ceph.com, health checks).
var cephHangs = []string{"PG_AVAILABILITY", "OSD_FULL", "POOL_FULL", "MON_DOWN", "SLOW_OPS", "TOO_FEW_OSDS", "OSD_DOWN", "MDS_ALL_DOWN", "FS_DEGRADED", "PG_DEGRADED_FULL"}

// sickBackend tells from a vendor's objects, where there are any for the class, why the backend does not answer; empty: nothing
// of that is to be seen. A state of the very backend that the driver misses is certain, the health of a whole cluster is likely.
func (v *View) sickBackend() (string, Confidence, []Evidence) {
	switch {
	case v.Driver == tridentDriver:
		why, ev := v.sickTrident()
		return why, Certain, ev
	case strings.HasSuffix(v.Driver, ".csi.ceph.com"):
		why, ev := v.sickCeph()
		return why, Likely, ev
	}
	return "", "", nil
}

// sickCeph tells from Rook's CephCluster why calls hang.
func (v *View) sickCeph() (string, []Evidence) {
	class, known := v.class()
	var clusters []*unstructured.Unstructured
	v.ahead(func() { clusters, _ = list[*unstructured.Unstructured](v.world, inCeph, snapshot.Query{}) })
	for _, c := range clusters {
		if known == Yes && class.Parameters["clusterID"] != c.GetNamespace() { // Rook's name for the cluster is its namespace
			continue
		}
		health, _, _ := unstructured.NestedString(c.Object, "status", "ceph", "health")
		phase, _, _ := unstructured.NestedString(c.Object, "status", "phase")
		details, _, _ := unstructured.NestedMap(c.Object, "status", "ceph", "details")
		var says []string
		hangs := health == "HEALTH_ERR" || health == "" && phase != "" && phase != "Ready"
		for name, x := range details {
			d, _ := x.(map[string]any)
			says = append(says, fmt.Sprintf("%s: %v", name, d["message"]))
			hangs = hangs || slices.Contains(cephHangs, name)
		}
		if !hangs {
			continue
		}
		slices.Sort(says)
		why := strings.TrimSuffix(health+" ("+strings.Join(says, "; ")+")", " ()")
		if health == "" {
			why = "phase " + phase
		}
		return fmt.Sprintf("CephCluster %s/%s is not well: %s", c.GetNamespace(), c.GetName(), why), []Evidence{fact(ref(c), "status.ceph.health", why, time.Time{})}
	}
	return "", nil
}
