package snapshot

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Trim takes out of an object, in place, what no answer is made from and what is much of a large cluster: who wrote which field,
// the images that a node has, how containers are probed and what they may consume, what is in projected volumes.
func Trim(o Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return
	}
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		delete(a, corev1.LastAppliedConfigAnnotation)
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Status.Images, o.Status.Config, o.Status.RuntimeHandlers, o.Status.Features = nil, nil, nil, nil
	case *corev1.Pod:
		trimPod(&o.Spec)
		for _, list := range [][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses, o.Status.EphemeralContainerStatuses} {
			for i := range list {
				s := &list[i]
				s.Resources, s.AllocatedResources, s.VolumeMounts = nil, nil, nil
			}
		}
	case *appsv1.DaemonSet:
		trimPod(&o.Spec.Template.Spec)
	case *appsv1.Deployment:
		trimPod(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		trimPod(&o.Spec.Template.Spec)
	}
}

func trimPod(s *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
			c.Resources = corev1.ResourceRequirements{}
			c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "", "", ""
		}
	}
	// The API server puts the service account's token into every pod, below a name of the pod's own.
	token := ""
	for _, v := range s.Volumes {
		if v.Projected != nil && strings.HasPrefix(v.Name, "kube-api-access-") {
			token = v.Name
		}
	}
	if token != "" {
		s.Volumes = slices.DeleteFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == token })
		for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				list[i].VolumeMounts = slices.DeleteFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == token })
			}
		}
	}
	for i := range s.Volumes {
		if p := s.Volumes[i].Projected; p != nil {
			p.Sources = nil
		}
	}
}
