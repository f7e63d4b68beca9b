//go:build keep

package csidoctor

import (
	_ "github.com/charmbracelet/lipgloss"
	_ "github.com/container-storage-interface/spec/lib/go/csi"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	_ "github.com/moby/sys/mountinfo"
	_ "github.com/muesli/reflow/wordwrap"
	_ "github.com/muesli/termenv"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "google.golang.org/grpc"
	_ "k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/cli-runtime/pkg/printers"
	_ "k8s.io/client-go/discovery"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-helpers/scheduling/corev1"
	_ "sigs.k8s.io/yaml"
)
