package carrier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	managedBy = "app.kubernetes.io/managed-by"
	ours      = "csidoctor"
	probeName = "csidoctor.dev/probe" // the Job's name, on its pod

	// What remains of a client that died is gone after its timeout and these: the server ends the pod, and removes the Job.
	grace    = 10 * time.Second // for the pod to end by itself first
	keptFor  = 30 * time.Second
	inMemory = "/csidoctor" // the only place that the pod can write to

	needs = "512Mi" // of memory, on nodes with very many mounts
)

// Within is the probe's own end, see internal/probe.
const Within = 10 * time.Second

// image is one that a container of the pod has. Several are tried at once, and the first that starts is used: whether there is
// a shell in an image can be learned in no other way.
type image struct {
	name    string
	program bool // csidoctor-probe is looked for in it; else a shell, into which it is sent
	local   bool // it is on the node, and never pulled
}

// maxImages are tried at once on a node.
const maxImages = 4

// onNode are the images of containers that run privileged on the node already, those with the kubelet's folders first: whoever
// can put something into such an image has the node anyway, so that nobody gains by its being started once more. The secrets
// are those that such an image was pulled with, where they lie in the namespace.
func onNode(pods []*corev1.Pod, namespace string) (images []image, secrets []corev1.LocalObjectReference) {
	for _, p := range privileged(pods, mountsKubelet) {
		if len(images) == maxImages || slices.ContainsFunc(images, func(i image) bool { return i.name == p.container.Image }) {
			continue
		}
		images = append(images, image{name: p.container.Image, local: true})
		for _, r := range p.pod.Spec.ImagePullSecrets {
			if p.pod.Namespace == namespace && !slices.Contains(secrets, r) {
				secrets = append(secrets, r)
			}
		}
	}
	return images, secrets
}

// running is a container that runs.
type running struct {
	pod       *corev1.Pod
	container *corev1.Container
}

// privileged are the containers that run privileged on a node and are none of csidoctor's; those of pods that the earlier marks
// fit come first.
func privileged(pods []*corev1.Pod, marks ...func(*corev1.Pod) bool) (out []running) {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		for _, fits := range marks {
			switch x, y := fits(a), fits(b); {
			case x && !y:
				return -1
			case y && !x:
				return 1
			}
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, p := range pods {
		if p.Labels[managedBy] == ours || p.DeletionTimestamp != nil {
			continue
		}
		for i := range p.Spec.Containers {
			c := &p.Spec.Containers[i]
			if s := c.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged && runs(p, c.Name) {
				out = append(out, running{p, c})
			}
		}
	}
	return out
}

func mountsKubelet(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && (strings.HasSuffix(v.HostPath.Path, "/kubelet") || strings.Contains(v.HostPath.Path, "/kubelet/"))
	})
}

func runs(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Running != nil
	})
}

// Job is what is made for a plan: one pod that the server ends after the timeout, and a Job that it removes soon after. The pod
// is privileged and sees the host's processes, through which it finds all else; it gets no token, no folder of the host, no
// port, and cannot write but into its own memory. Its output is a frame, yaml or json.
func (c *Carrier) Job(p Plan, name, output string) *batchv1.Job {
	deadline, kept := int64((c.Timeout+grace)/time.Second), int32(keptFor/time.Second)
	labels := map[string]string{managedBy: ours, "app.kubernetes.io/name": "csidoctor-probe", probeName: name}
	spec := corev1.PodSpec{
		NodeName:      p.Name, // past the scheduler: a cordoned or full node is probed too
		Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		RestartPolicy: corev1.RestartPolicyNever,
		HostPID:       true,
		HostNetwork:   true, // no network has to be made for it, on nodes where just that may be broken
		DNSPolicy:     corev1.DNSDefault,
		// The kubelet's own clock, where the Job's controller does not run.
		ActiveDeadlineSeconds:         &deadline,
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              p.secrets,
	}
	for i, image := range p.images {
		spec.Containers = append(spec.Containers, container(i, image, p.Name, deadline, output))
		if !image.program && len(spec.Volumes) == 0 {
			spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("64Mi"))},
			}}}
		}
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			ActiveDeadlineSeconds:   &deadline,
			TTLSecondsAfterFinished: &kept,
			PodReplacementPolicy:    new(batchv1.Failed), // none is made while one is still going
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

func container(i int, image image, node string, deadline int64, output string) corev1.Container {
	c := corev1.Container{
		Name:            fmt.Sprintf("shell-%d", i),
		Image:           image.name,
		ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{Privileged: new(true), ReadOnlyRootFilesystem: new(true), RunAsUser: new(int64(0)), RunAsNonRoot: new(false)},
		// It fits on every node, and never takes a sick one's last memory.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(needs)},
		},
	}
	if image.local {
		c.ImagePullPolicy = corev1.PullNever
	}
	if image.program {
		c.Name, c.Command = withProgram, arguments("csidoctor-probe", node, output)
		return c
	}
	c.Command = []string{"sh", "-c", fmt.Sprintf("exec sleep %d", deadline)}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: inMemory}}
	return c
}

const withProgram = "probe" // the container that runs csidoctor-probe of its own image

func arguments(program, node, output string) []string {
	return []string{program, "-node", node, "-timeout", Within.String(), "-o", output}
}
