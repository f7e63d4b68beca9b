package collect_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csidoctor/csidoctor/internal/bundle"
	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// large is a large cluster: how many objects of a kind it has, and what one of them typically is.
var large = []struct {
	resource string
	count    int
	make     func(i int) snapshot.Object
}{
	{"persistentvolumeclaims", 10_000, typicalClaim},
	{"pods", 20_000, typicalPod},
	{"events", 50_000, typicalEvent},
	{"nodes", 1_000, typicalNode},
}

const (
	measured  = 1000      // objects of a kind that are really read
	maxMemory = 250 << 20 // for all of large; a laptop does not notice it
)

// A large cluster fits into the memory of any laptop: what is kept of each object is measured after it came over the wire, went
// into a Snapshot and was asked for.
func TestMemoryOfALargeCluster(t *testing.T) {
	total := 0.0
	for _, kind := range large {
		each := perObject(t, kind.resource, kind.make)
		t.Logf("%s: %.0f bytes each, %.1f MiB for %d", kind.resource, each, each*float64(kind.count)/(1<<20), kind.count)
		total += each * float64(kind.count)
	}
	if t.Logf("all: %.1f MiB", total/(1<<20)); total > maxMemory {
		t.Errorf("a large cluster takes %.0f MiB, want at most %d", total/(1<<20), maxMemory>>20)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, kind := range large {
		b.Run(kind.resource, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(perObject(b, kind.resource, kind.make), "kept-B/object")
			}
		})
	}
}

func perObject(t testing.TB, resource string, make func(i int) snapshot.Object) float64 {
	full := snapshot.New()
	for i := range measured {
		full.Add(make(i))
	}
	server := apitest.Start(t, full, apitest.Options{Now: taken})
	live, err := collect.NewLive(server.Getter(t), collect.LiveOptions{Redact: bundle.Redact})
	if err != nil {
		t.Fatal(err)
	}
	q := snapshot.Query{Resource: resource}
	live.Fetch(t.Context(), q) // what is made once is not counted
	before := heap()
	s := snapshot.New()
	for _, o := range live.Fetch(t.Context(), q).Objects {
		s.Add(o)
	}
	if n := len(s.Select(q)); n != measured { // which makes the index
		t.Fatalf("%d of %s", n, resource)
	}
	after := heap()
	runtime.KeepAlive(s)
	runtime.KeepAlive(live) // with what it shares
	return float64(after-before) / measured
}

// heap is what is in use when all garbage is gone.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what had a finalizer
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A long list comes at once from the API server's cache, and in pages where it has none.
func TestLongLists(t *testing.T) {
	full := snapshot.New()
	for i := range manyEvents {
		full.Add(typicalClaim(i))
	}
	q := snapshot.Query{Resource: "persistentvolumeclaims"}
	for uncached, requests := range map[bool]int{false: 1, true: 3} {
		server := apitest.Start(t, full, apitest.Options{Now: taken, Uncached: uncached})
		if a := live(t, server).Fetch(t.Context(), q); a.Gap != nil || len(a.Objects) != manyEvents {
			t.Errorf("%d objects, gap %+v", len(a.Objects), a.Gap)
		}
		if asked := server.Asked(); len(asked) != requests || !strings.Contains(asked[0], "resourceVersion=0") {
			t.Error(uncached, asked)
		}
	}
}

func meta(i int, namespace, name string, labels, annotations int) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("0b1f7a52-3c55-4a0e-9c1d-%012d", i)), ResourceVersion: fmt.Sprint(81234567 + i),
		CreationTimestamp: metav1.NewTime(taken), Labels: map[string]string{}, Annotations: map[string]string{},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{` + strings.Repeat(`"f:pv.kubernetes.io/bind-completed":{},`, 30) + `"f:x":{}}}}`)}}}
	for n := range labels {
		m.Labels[fmt.Sprintf("app.kubernetes.io/label-%d", n)] = fmt.Sprintf("shop-database-%d", n)
	}
	for n := range annotations {
		m.Annotations[fmt.Sprintf("volume.kubernetes.io/annotation-%d", n)] = "ip-10-0-12-34.eu-central-1.compute.internal"
	}
	m.Annotations[corev1.LastAppliedConfigAnnotation] = strings.Repeat(`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{}}}`, 20)
	return m
}

func typicalClaim(i int) snapshot.Object {
	class, mode := "fast-ssd", corev1.PersistentVolumeFilesystem
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: meta(i, fmt.Sprint("team-", i%50), fmt.Sprintf("data-database-%d", i), 4, 4),
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeMode: &mode,
			VolumeName: fmt.Sprintf("pvc-0b1f7a52-3c55-4a0e-9c1d-%012d", i), Resources: corev1.VolumeResourceRequirements{Requests: size}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}}
	c.Finalizers = []string{"kubernetes.io/pvc-protection"}
	c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	return c
}

func typicalPod(i int) snapshot.Object {
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("512Mi")},
		Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "exec pg_isready -U postgres -h 127.0.0.1 -p 5432"}}}}
	access := fmt.Sprintf("kube-api-access-%05d", i)
	container := func(name string) corev1.Container { // of workloads of ten pods each
		c := corev1.Container{Name: name, Image: fmt.Sprintf("registry.example/library/%s:16.4.%d-debian-12-r14", name, i%(measured/10)), Args: []string{"--config=/etc/conf/app.yaml", "--log-level=info"}, Resources: resources,
			LivenessProbe: probe, ReadinessProbe: probe, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/data"}, {Name: "config", MountPath: "/etc/conf"}, {Name: access, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}}
		for n := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("POSTGRESQL_SETTING_%d", n), Value: "a value of some length, as these are"})
		}
		return c
	}
	p := &corev1.Pod{ObjectMeta: meta(i, fmt.Sprint("team-", i%50), fmt.Sprintf("database-7c9d8b6f5-%05d", i), 7, 3),
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("ip-10-0-12-%d.eu-central-1.compute.internal", i%1000), ServiceAccountName: "database", DeprecatedServiceAccount: "database", SchedulerName: "default-scheduler",
			Containers: []corev1.Container{container("postgresql"), container("metrics")}, InitContainers: []corev1.Container{container("prepare")},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}, {Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("data-database-%d", i)}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, DefaultMode: new(int32(420))}}},
				{Name: access, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}}}}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.0.12.34", PodIP: fmt.Sprintf("10.1.%d.%d", i/250, i%250), PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}}, QOSClass: "Burstable"}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "database-7c9d8b6f5", UID: types.UID(fmt.Sprintf("0b1f7a52-3c55-4a0e-9c1e-%012d", i))}}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(taken)})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image + "@sha256:" + strings.Repeat("0123456789abcdef", 4),
			ContainerID: "containerd://" + strings.Repeat("0123456789abcdef", 4), Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(taken)}},
			AllocatedResources: resources.Requests, Resources: &resources, Started: new(true)})
	}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return p
}

func typicalEvent(i int) snapshot.Object {
	name := fmt.Sprintf("database-7c9d8b6f5-%05d", i)
	e := &corev1.Event{ObjectMeta: meta(i, fmt.Sprint("team-", i%50), fmt.Sprintf("%s.17e5b5cfe2ab%04d", name, i), 0, 0),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: fmt.Sprint("team-", i%50), Name: name, UID: types.UID(fmt.Sprintf("0b1f7a52-3c55-4a0e-9c1d-%012d", i)), ResourceVersion: fmt.Sprint(81234567 + i)},
		Reason:         "FailedAttachVolume", Type: "Warning", Source: corev1.EventSource{Component: "attachdetach-controller"}, Count: 17,
		FirstTimestamp: metav1.NewTime(taken.Add(-time.Hour)), LastTimestamp: metav1.NewTime(taken), ReportingController: "attachdetach-controller",
		Message: fmt.Sprintf(`AttachVolume.Attach failed for volume "pvc-0b1f7a52-3c55-4a0e-9c1d-%012d" : rpc error: code = Internal desc = Could not attach volume "vol-0123456789abcdef0" to node "i-0123456789abcdef0": context deadline exceeded`, i)}
	e.Annotations = nil
	e.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return e
}

func typicalNode(i int) snapshot.Object {
	room := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "ephemeral-storage": resource.MustParse("100Gi"), "pods": resource.MustParse("110"), "hugepages-2Mi": resource.MustParse("0")}
	name := fmt.Sprintf("ip-10-0-12-%d.eu-central-1.compute.internal", i)
	n := &corev1.Node{ObjectMeta: meta(i, "", name, 20, 8), Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/i-0123456789abcdef0", PodCIDR: "10.1.2.0/24", PodCIDRs: []string{"10.1.2.0/24"}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.12.34"}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{MachineID: strings.Repeat("0123", 8), SystemUUID: strings.Repeat("0123", 9), BootID: strings.Repeat("0123", 9), KernelVersion: "6.1.0-28-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)", ContainerRuntimeVersion: "containerd://1.7.25", KubeletVersion: "v1.33.4", OperatingSystem: "linux", Architecture: "amd64"}}}
	for n2 := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example/library/image-%d@sha256:%s", n2, strings.Repeat("0123456789abcdef", 4)), fmt.Sprintf("registry.example/library/image-%d:v1.2.3", n2)}, SizeBytes: 123456789})
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: "True", Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available", LastHeartbeatTime: metav1.NewTime(taken), LastTransitionTime: metav1.NewTime(taken)})
	}
	for v := range 15 {
		handle := corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/ebs.csi.aws.com^vol-0123456789abcd%03d", v))
		n.Status.VolumesInUse, n.Status.VolumesAttached = append(n.Status.VolumesInUse, handle), append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: handle})
	}
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return n
}
