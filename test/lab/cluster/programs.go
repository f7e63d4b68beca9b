package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// command is the command line of a program of the cluster.
func (s *supervisor) command(name string) ([]string, error) {
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	address := func(program string) string { return fmt.Sprintf("http://127.0.0.1:%d", s.ports[program]) }
	port := func(flag, program string) string { return fmt.Sprintf("--%s=%d", flag, s.ports[program]) }
	switch name {
	case "etcd":
		return []string{filepath.Join(s.bin, "etcd"), "--data-dir=" + file("etcd"), "--unsafe-no-fsync",
			"--listen-client-urls=" + address("etcd"), "--advertise-client-urls=" + address("etcd"), "--listen-peer-urls=" + address("etcd-peer"),
		}, nil
	case "kube-apiserver":
		return []string{filepath.Join(s.bin, name), "--etcd-servers=" + address("etcd"),
			port("secure-port", name), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--cert-dir=" + file("pki"), "--token-auth-file=" + file("tokens.csv"), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + file("sa.key"), "--service-account-signing-key-file=" + file("sa.key"),
			"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged", "--kubelet-preferred-address-types=Hostname",
		}, nil
	case "kube-controller-manager":
		return []string{filepath.Join(s.bin, name), "--kubeconfig=" + s.Kubeconfig(), port("secure-port", name), "--bind-address=127.0.0.1",
			"--service-account-private-key-file=" + file("sa.key"), "--root-ca-file=" + file("pki/apiserver.crt"), "--use-service-account-credentials",
		}, nil
	case "kube-scheduler":
		return []string{filepath.Join(s.bin, name), "--kubeconfig=" + s.Kubeconfig(), port("secure-port", name), "--bind-address=127.0.0.1"}, nil
	case "snapshot-controller":
		return []string{filepath.Join(s.bin, name), "--kubeconfig=" + s.Kubeconfig(), "--leader-election", "--leader-election-namespace=kube-system"}, nil
	}
	program, of, ok := strings.Cut(name, "@")
	if !ok {
		of = Node
	}
	if of == Node || slices.Contains(MoreNodes, of) {
		return s.nodeCommand(program, of)
	}
	if !slices.Contains(Sidecars, program) {
		return nil, fmt.Errorf("no program %q", name)
	}
	args := []string{filepath.Join(s.bin, program), "--csi-address=" + s.DriverServer(Node).ControllerSocket(of), "--kubeconfig=" + s.Kubeconfig(), "--leader-election-namespace=kube-system"}
	return append(args, sidecarOptions(program)...), nil
}

// sidecarOptions are those of a sidecar wherever it runs.
func sidecarOptions(program string) []string {
	options := []string{"--leader-election"}
	if program == "csi-provisioner" {
		options = append(options, "--extra-create-metadata")
	}
	return options
}
