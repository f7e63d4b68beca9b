package explain

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAsksForBackend(t *testing.T) {
	backend := &unstructured.Unstructured{Object: map[string]any{"backendName": "san-dc2", "state": "failed",
		"config": map[string]any{"ontap_config": map[string]any{"storageDriverName": "ontap-san"}, "other": "text"}}}
	for _, c := range []struct {
		parameters map[string]string
		want       bool
	}{
		{nil, true},
		{map[string]string{"backendType": "ontap-san"}, true},
		{map[string]string{"backendType": "ontap-nas"}, false},
		{map[string]string{"storagePools": "san-dc2:.*"}, true},
		{map[string]string{"storagePools": "san-dc1:a,b; san-dc.*:c", "backendType": "ontap-nas"}, true},
		{map[string]string{"storagePools": "san-dc:.*"}, false},
		{map[string]string{"storagePools": "san-dc2("}, false},
	} {
		if got := asksForBackend(c.parameters, backend); got != c.want {
			t.Errorf("%v: %v", c.parameters, got)
		}
	}
}
