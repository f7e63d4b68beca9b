package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/test/lab/driver"
)

// KubeletRoot is where kubelet keeps its files, in the run's own mount namespace.
const KubeletRoot = "/var/lib/kubelet"

// Topology is where the node is, for drivers that know one.
var Topology = map[string]string{"lab.csidoctor.dev/zone": "zone-a"}

// DriverServer is what the process "driver" of a node serves.
func (c *Cluster) DriverServer(node string) *driver.Server {
	return &driver.Server{Node: node, Nodes: append([]string{Node}, MoreNodes...), State: filepath.Join(c.Dir, "volumes"),
		KubeletRoot: KubeletRoot, Sockets: filepath.Join(c.nodeDir(node), "csi")}
}

// DriverSocket is where it is controlled.
func (c *Cluster) DriverSocket(node string) string {
	return filepath.Join(c.nodeDir(node), "driver.sock")
}

// configure writes the files that the programs read.
func (s *supervisor) configure() error {
	nodes := append([]string{Node}, MoreNodes...)
	ports := []string{"etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	for _, node := range nodes {
		ports = append(ports, at("kubelet", node))
	}
	var err error
	if s.ports, err = freePorts(ports...); err != nil {
		return err
	}
	key, err := serviceAccountKey()
	if err != nil {
		return err
	}
	snapshotter, err := s.snapshotter()
	if err != nil {
		return err
	}
	token := rand.Text()
	tokens := token + ",admin,admin,system:masters\n"
	files := map[string]string{
		"sa.key":     key,
		"kubeconfig": fmt.Sprintf(kubeconfig, s.ports["kube-apiserver"], s.Dir, token),
		"etcd.url":   fmt.Sprintf("http://127.0.0.1:%d", s.ports["etcd"]), // for who fills it
	}
	for _, node := range nodes {
		dir := s.nodeDir(node)
		in, err := filepath.Rel(s.Dir, dir)
		if err != nil {
			return err
		}
		token := rand.Text()
		tokens += fmt.Sprintf("%s,system:node:%s,%[2]s,system:nodes\n", token, node)
		for name, text := range map[string]string{
			"kubelet.kubeconfig": fmt.Sprintf(kubeconfig, s.ports["kube-apiserver"], s.Dir, token),
			"containerd.toml":    strings.NewReplacer("DIR", dir, "SNAPSHOTTER", snapshotter).Replace(containerdConfig),
			"kubelet.yaml":       strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(s.ports[at("kubelet", node)])).Replace(kubeletConfig),
			"cni/10-lo.conflist": `{"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]}`,
		} {
			files[filepath.Join(in, name)] = text
		}
	}
	files["tokens.csv"] = tokens
	for name, text := range files {
		path := filepath.Join(s.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	// For kubectl to be found beside the run's files, whatever version of the programs it has.
	return os.Symlink(filepath.Join(s.bin, "kubectl"), filepath.Join(s.Dir, "bin/kubectl"))
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %s/pki/apiserver.crt}}]
users: [{name: lab, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
`

// Without restrict_oom_score_adj, runc fails where root lacks CAP_SYS_RESOURCE.
// Pods have the host's network, so there is no CNI plugin, only a configuration for containerd to call the network ready.
const containerdConfig = `version = 3
root = "DIR/containerd/root"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
path = "DIR/containerd/opt"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "SNAPSHOTTER"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "lab.local/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["DIR/cni"]
conf_dir = "DIR/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`

// The node reports every 2 s, not every 10: a pod waits for that report before it mounts. Pods are looked at every 10 s, not every 60: a
// growing filesystem waits for that. Nothing is ever evicted or collected for want of disk.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 127.0.0.1
port: PORT
healthzPort: 0
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
volumePluginDir: DIR/volume-plugins
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
localStorageCapacityIsolation: false
evictionHard: {}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
`

// snapshotter is overlayfs where the run's filesystem can be its upper layer. Else it is native, which copies an image for each
// container, and works anywhere.
func (s *supervisor) snapshotter() (string, error) {
	dir := filepath.Join(s.Dir, "overlay")
	options := "index=off"
	for _, part := range []string{"lowerdir", "upperdir", "workdir"} {
		folder := filepath.Join(dir, part)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
		options += "," + part + "=" + folder
	}
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		fmt.Println("no overlayfs here:", err)
		return "native", nil
	}
	return "overlayfs", unix.Unmount(dir, 0)
}

// freePorts finds a port for each name; all are held until the last is found, so that none comes twice.
func freePorts(names ...string) (map[string]int, error) {
	ports := map[string]int{}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func serviceAccountKey() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), err
}
