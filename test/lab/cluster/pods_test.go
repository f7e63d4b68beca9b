package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kinds are the objects of a manifest by kind and name. All but roles of the whole cluster are in the driver's own namespace.
func kinds(t *testing.T, manifest string) (objects map[string]string) {
	t.Helper()
	objects = map[string]string{}
	head := regexp.MustCompile(`(?m)^kind: (\w+)\nmetadata: \{name: ([\w.-]+)(?:, namespace: ([\w-]+))?\}$`)
	for object := range strings.SplitSeq(manifest, "\n---\n") {
		m := head.FindStringSubmatch(object)
		if m == nil {
			t.Fatalf("no head in\n%s", object)
		}
		if whole := m[1] == "Namespace" || strings.HasPrefix(m[1], "Cluster"); whole != (m[3] == "") || !whole && m[3] != "ours" {
			t.Errorf("%s/%s is in namespace %q", m[1], m[2], m[3])
		}
		objects[m[1]+"/"+m[2]] = object
	}
	return objects
}

func TestManifestOfADriverInPods(t *testing.T) {
	c := &Cluster{Dir: "/run/of/it"}
	always := []string{"DaemonSet/csi-node", "Deployment/csi-controller", "Namespace/ours", "Role/csi-leases", "RoleBinding/csi-leases", "ServiceAccount/csi-controller", "ServiceAccount/csi-node"}
	for _, sidecars := range [][]string{Sidecars, {"csi-provisioner"}} {
		manifest, err := c.pods("a.csi.test", "ours", "1234", sidecars, nil)
		if err != nil {
			t.Fatal(err)
		}
		if left := regexp.MustCompile(`\b(DRIVER|NAMESPACE|DIR|SIDECARS?|OPTIONS|APIPORT)\b`).FindString(manifest); left != "" {
			t.Errorf("%s is left in\n%s", left, manifest)
		}
		want := slices.Clone(always)
		for _, s := range sidecars {
			role := "a.csi.test-" + strings.TrimPrefix(s, "csi-")
			want = append(want, "ClusterRole/"+role, "ClusterRoleBinding/"+role)
		}
		objects := kinds(t, manifest)
		if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%v: %v, want %v", sidecars, got, want)
		}
		for _, s := range Sidecars {
			container := fmt.Sprintf("- name: %s\n        image: lab.local/%[1]s:1\n", s)
			if strings.Contains(objects["Deployment/csi-controller"], container) != slices.Contains(sidecars, s) {
				t.Errorf("the controller with %v:\n%s", sidecars, objects["Deployment/csi-controller"])
			}
		}
		for object, words := range map[string][]string{
			"Deployment/csi-controller": {"args: [--csi-address=/csi/csi.sock, --leader-election, --extra-create-metadata, --v=2]", `{name: KUBERNETES_SERVICE_PORT, value: "1234"}`},
			"DaemonSet/csi-node": {"--kubelet-registration-path=/var/lib/kubelet/plugins/a.csi.test/csi.sock", "path: /var/lib/kubelet/plugins/a.csi.test, type: DirectoryOrCreate",
				"path: /var/lib/kubelet/plugins_registry", "mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional", "--driver-name=a.csi.test", "--run=/run/of/it"},
		} {
			for _, w := range words {
				if !strings.Contains(objects[object], w) {
					t.Errorf("%s has no %q:\n%s", object, w, objects[object])
				}
			}
		}
	}
}

func TestEditOfTheManifest(t *testing.T) {
	c := &Cluster{Dir: "/d"}
	manifest, err := c.pods("a.csi.test", "ours", "1", Sidecars, []string{"plugins/a.csi.test/csi.sock]", "plugins/b/csi.sock]"})
	if err != nil || !strings.Contains(manifest, "--kubelet-registration-path=/var/lib/kubelet/plugins/b/csi.sock]") {
		t.Errorf("%v\n%s", err, manifest)
	}
	if _, err := c.pods("a.csi.test", "ours", "1", Sidecars, []string{"not in it", "x"}); err == nil {
		t.Error("an edit of what is not in the manifest is taken")
	}
}
