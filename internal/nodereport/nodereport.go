// Package nodereport holds the NodeReport: the facts of one node that a volume depends on (sockets, mounts, devices,
// kernel lines). It knows their shape and nothing else: no judgement, no Kubernetes client, no way to collect them.
// Sizes are bytes, times RFC 3339. An absent field was not looked at; what could not be read stands in Gaps.
package nodereport

import "time"

// APIVersion and Kind name the object in files.
const (
	APIVersion = "csidoctor.dev/v1alpha1"
	Kind       = "NodeReport"
)

// NodeReport is what was seen on one node. Metadata.Name is the Node object's name.
type NodeReport struct {
	APIVersion  string      `json:"apiVersion"`
	Kind        string      `json:"kind"`
	Metadata    Metadata    `json:"metadata"`
	CollectedAt time.Time   `json:"collectedAt"`
	Kernel      *Kernel     `json:"kernel,omitempty"`
	Host        *Host       `json:"host,omitempty"`
	Kubelet     *Kubelet    `json:"kubelet,omitempty"`
	Drivers     []Driver    `json:"drivers,omitempty"`
	Scope       *Scope      `json:"scope,omitempty"`
	Mountinfo   string      `json:"mountinfo,omitempty"` // lines of the kubelet's mount namespace (PID 1's if no kubelet runs), unedited
	Namespaces  []Namespace `json:"namespaces,omitempty"`
	Volumes     []Volume    `json:"volumes,omitempty"`
	Orphans     []Orphan    `json:"orphans,omitempty"`
	Devices     []Device    `json:"devices,omitempty"`
	DeadLinks   []DeadLink  `json:"deadLinks,omitempty"`
	KernelLog   []LogLine   `json:"kernelLog,omitempty"`
	Tasks       []Task      `json:"tasks,omitempty"`
	KubeletLog  []LogLine   `json:"kubeletLog,omitempty"`
	Gaps        []Gap       `json:"gaps,omitempty"`
}

// Metadata names the node.
type Metadata struct {
	Name string `json:"name"`
}

// Kernel is the running kernel.
type Kernel struct {
	Release  string    `json:"release,omitempty"`
	BootedAt time.Time `json:"bootedAt,omitzero"`
}

// Host is the operating system around the kubelet. Services maps a unit to active, inactive, failed or missing.
type Host struct {
	OS       string            `json:"os,omitempty"`
	SELinux  string            `json:"selinux,omitempty"`
	Services map[string]string `json:"services,omitempty"`
	Modules  []string          `json:"modules,omitempty"`
}

// Kubelet is the kubelet's process and root folder. SameMountNamespace: as PID 1.
type Kubelet struct {
	RootDir            string `json:"rootDir,omitempty"`
	Running            bool   `json:"running"`
	PID                int    `json:"pid,omitempty"`
	SameMountNamespace *bool  `json:"sameMountNamespace,omitempty"`
}

// Driver is what the sockets of one CSI driver answered.
type Driver struct {
	Name         string        `json:"name"`
	Socket       *Socket       `json:"socket,omitempty"`
	Registration *Registration `json:"registration,omitempty"`
	Identity     *Identity     `json:"identity,omitempty"`
	Node         *DriverNode   `json:"node,omitempty"`
}

// Socket states.
const (
	SocketOK      = "ok"
	SocketRefused = "refused"
	SocketTimeout = "timeout"
	SocketMissing = "missing"
	SocketDenied  = "denied"
)

// Socket is one UNIX socket and how a dial ended.
type Socket struct {
	Path  string `json:"path"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// Registration is the registrar's socket; Endpoint is what its GetInfo said.
type Registration struct {
	Path     string `json:"path"`
	State    string `json:"state"`
	Endpoint string `json:"endpoint,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Identity is GetPluginInfo and Probe. Ready: yes, no or unknown.
type Identity struct {
	Name          string `json:"name,omitempty"`
	VendorVersion string `json:"vendorVersion,omitempty"`
	Ready         string `json:"ready,omitempty"`
	Error         string `json:"error,omitempty"`
}

// DriverNode is NodeGetInfo and NodeGetCapabilities.
type DriverNode struct {
	ID           string            `json:"id,omitempty"`
	MaxVolumes   int64             `json:"maxVolumes,omitempty"`
	Capabilities []string          `json:"capabilities,omitempty"`
	Topology     map[string]string `json:"topology,omitempty"`
	Error        string            `json:"error,omitempty"`
}

// Scope narrows a report to one volume or pod; empty fields: the whole node.
type Scope struct {
	Volume string `json:"volume,omitempty"`
	Pod    string `json:"pod,omitempty"`
}

// Namespace is another mount namespace that holds one of the devices or paths.
type Namespace struct {
	Inode     uint64    `json:"inode"`
	Processes []Process `json:"processes,omitempty"`
	Mountinfo string    `json:"mountinfo,omitempty"`
}

// Process is one process, with the pod and container it belongs to where that is known. Container: its name in the pod.
type Process struct {
	PID         int    `json:"pid"`
	Comm        string `json:"comm,omitempty"`
	PodUID      string `json:"podUID,omitempty"`
	Container   string `json:"container,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
}

// Volume is one volume's folders below the kubelet's root.
type Volume struct {
	Driver    string    `json:"driver,omitempty"`
	Handle    string    `json:"handle,omitempty"`
	PV        string    `json:"pv,omitempty"`
	Staging   *Staging  `json:"staging,omitempty"`
	Publishes []Publish `json:"publishes,omitempty"`
	Usage     *Usage    `json:"usage,omitempty"`
}

// Staging is the staging path. Stat: ok, hung or an errno name.
type Staging struct {
	Path         string            `json:"path"`
	Exists       bool              `json:"exists"`
	VolData      map[string]string `json:"volData,omitempty"`
	VolDataError string            `json:"volDataError,omitempty"`
	Stat         string            `json:"stat,omitempty"`
}

// Publish is one pod's publish path. Type: dir, file, block or symlink. Entries is absent when it was not counted.
type Publish struct {
	PodUID       string            `json:"podUID"`
	Path         string            `json:"path"`
	Type         string            `json:"type,omitempty"`
	Exists       bool              `json:"exists"`
	VolData      map[string]string `json:"volData,omitempty"`
	VolDataError string            `json:"volDataError,omitempty"`
	Entries      *int              `json:"entries,omitempty"`
	Stat         string            `json:"stat,omitempty"`
	Mode         string            `json:"mode,omitempty"`
	UID          *int              `json:"uid,omitempty"`
	GID          *int              `json:"gid,omitempty"`
}

// Usage is statfs of the mounted volume. Used is all that a user other than root can no longer take: at 100 percent of it df says full.
type Usage struct {
	Bytes      int64 `json:"bytes"`
	BytesUsed  int64 `json:"bytesUsed"`
	Inodes     int64 `json:"inodes"`
	InodesUsed int64 `json:"inodesUsed"`
}

// Orphan is a pod folder without a pod.
type Orphan struct {
	Path    string `json:"path"`
	PodUID  string `json:"podUID,omitempty"`
	Mounts  int    `json:"mounts"`
	Entries int    `json:"entries"`
}

// Device is one block device. Removed: mounted, but sysfs has no such device any more.
type Device struct {
	Name        string     `json:"name"`
	MajorMinor  string     `json:"majorMinor,omitempty"`
	Bytes       int64      `json:"bytes,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	ReadOnly    bool       `json:"readOnly"`
	State       string     `json:"state,omitempty"`
	Removed     bool       `json:"removed"`
	Serial      string     `json:"serial,omitempty"`
	WWID        string     `json:"wwid,omitempty"`
	Links       []string   `json:"links,omitempty"`
	Holders     []string   `json:"holders,omitempty"`
	Slaves      []string   `json:"slaves,omitempty"`
	BackingFile string     `json:"backingFile,omitempty"`
	Signature   *Signature `json:"signature,omitempty"`
}

// DeadLink is a name below /dev/disk and the like that leads to no device. Reason: an errno name, or words.
type DeadLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Reason string `json:"reason,omitempty"`
}

// Signature is what the raw device holds. Type none: its first 4 MiB and last 1 MiB were read and are zero; what is not
// recognised is unknown and never taken for blank. State: clean, dirty or errors; dirty is normal while mounted. Unsupported
// are those of the features that the running kernel is too old for.
type Signature struct {
	Type        string   `json:"type"`
	UUID        string   `json:"uuid,omitempty"`
	Label       string   `json:"label,omitempty"`
	Bytes       int64    `json:"bytes,omitempty"`
	State       string   `json:"state,omitempty"`
	Features    []string `json:"features,omitempty"`
	Unsupported []string `json:"unsupported,omitempty"`
	Errors      int      `json:"errors,omitempty"`
	LastError   string   `json:"lastError,omitempty"`
	Error       string   `json:"error,omitempty"` // an errno name alone, or hung: it could not be read; words: what is wrong with what was read
}

// LogLine is one line of the kernel's or the kubelet's log.
type LogLine struct {
	At      time.Time `json:"at,omitzero"`
	Device  string    `json:"device,omitempty"`
	Message string    `json:"message"`
}

// Task is a process in uninterruptible sleep, or one that mounts, formats or checks. Seconds: its age.
type Task struct {
	PID     int    `json:"pid"`
	Comm    string `json:"comm,omitempty"`
	Args    string `json:"args,omitempty"`
	State   string `json:"state,omitempty"`
	Wchan   string `json:"wchan,omitempty"`
	Seconds int64  `json:"seconds,omitempty"`
	PodUID  string `json:"podUID,omitempty"`
}

// LeftOut is the reason of a gap that whoever brought the report has made.
const LeftOut = "left out: the report was too large to be sent"

// Gap is something that could not be read, with the errno name or reason.
type Gap struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}
