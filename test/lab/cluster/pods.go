package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// podsManifest is what InstallDriver makes.
//
//go:embed pods.yaml
var podsManifest string

// sidecarContainer reaches the API server where it listens: there is no kube-proxy that would bring it to its Service.
const sidecarContainer = `
      - name: SIDECAR
        image: lab.local/SIDECAR:1
        imagePullPolicy: Never
        args: [--csi-address=/csi/csi.sock, OPTIONS, --v=2]
        env:
        - {name: KUBERNETES_SERVICE_HOST, value: 127.0.0.1}
        - {name: KUBERNETES_SERVICE_PORT, value: "APIPORT"}
        volumeMounts: [{name: socket, mountPath: /csi}]`

// InstallDriver makes a driver like AddDriver, in pods: a DaemonSet of its node plugin and a Deployment of its controller with these
// sidecars and their rights, in a namespace of its own. Edits are pairs: each first in the manifest is replaced by its second.
func (c *Cluster) InstallDriver(ctx context.Context, name, namespace string, config driver.Config, sidecars []string, edits ...string) error {
	if _, err := c.call(ctx, c.socket(), http.MethodPut, "/driver-images", nil); err != nil {
		return err
	}
	config.Node, config.Controller = driver.InPods, driver.InPods
	if err := c.AddDriver(ctx, name, config); err != nil {
		return err
	}
	server, err := c.Kubectl(ctx, "", "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return err
	}
	api, err := url.Parse(server)
	if err != nil {
		return err
	}
	manifest, err := c.pods(name, namespace, api.Port(), sidecars, edits)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, manifest, "apply", "-f", "-")
	return err
}

// pods is the manifest of a driver in pods, whose sidecars find the API server at that port.
func (c *Cluster) pods(name, namespace, port string, sidecars, edits []string) (string, error) {
	var containers strings.Builder
	for _, s := range sidecars {
		containers.WriteString(strings.NewReplacer("SIDECAR", s, "OPTIONS", strings.Join(sidecarOptions(s), ", "), "APIPORT", port).Replace(sidecarContainer))
	}
	objects := slices.DeleteFunc(strings.Split(podsManifest, "\n---\n"), func(object string) bool {
		return slices.ContainsFunc(Sidecars, func(s string) bool {
			return !slices.Contains(sidecars, s) && strings.Contains(object, "{name: DRIVER-"+strings.TrimPrefix(s, "csi-")+"}")
		})
	})
	manifest := strings.NewReplacer("\nSIDECARS", containers.String(), "NAMESPACE", namespace, "DRIVER", name, "DIR", c.Dir).Replace(strings.Join(objects, "\n---\n"))
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(manifest, edits[i]) {
			return "", fmt.Errorf("the manifest of a driver has no %q", edits[i])
		}
		manifest = strings.ReplaceAll(manifest, edits[i], edits[i+1])
	}
	return manifest, nil
}

// ServePod is the program of a driver in a pod, whose config and faults are where those of all drivers are.
func (c *Cluster) ServePod(ctx context.Context, node, name, socket string) error {
	return c.DriverServer(node).ServePod(ctx, name, socket, func(ctx context.Context, rpc string, names []string) (asked driver.Asked, err error) {
		answer, err := c.call(ctx, c.DriverSocket(Node), http.MethodPost, "/drivers/"+name+"/calls/"+rpc, names)
		if err == nil {
			err = json.Unmarshal(answer, &asked)
		}
		return asked, err
	})
}
