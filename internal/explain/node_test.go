package explain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// TestNodeFaults changes one thing in a node's report, or in what the kubelet says, of a case: the answer must follow.
func TestNodeFaults(t *testing.T) {
	const (
		works = "iscsi-ledger-database-all-green"   // staged from a multipath device, the pod runs
		share = "paths-have-holders-volume-is-fine" // the same, with warnings that are history
		fails = "new-xfs-volume-fails-on-one-node-pool"
		slow  = "blob-container-mounted-yet-pod-creating"
	)
	pod := func(s *snapshot.Snapshot, name string) *corev1.Pod {
		for _, o := range s.Select(snapshot.Query{Resource: "pods"}) {
			if o.GetName() == name {
				return o.(*corev1.Pod)
			}
		}
		t.Fatalf("no pod %s", name)
		return nil
	}
	says := func(s *snapshot.Snapshot, text string) {
		for _, o := range s.Select(snapshot.Query{Resource: "events"}) {
			if e := o.(*corev1.Event); e.Reason == "FailedMount" {
				before, _, _ := strings.Cut(e.Message, `" : `)
				e.Message = before + `" : rpc error: code = Internal desc = ` + text
			}
		}
	}
	kernel := func(r *nodereport.NodeReport, messages ...string) {
		at := r.KernelLog[0].At
		r.KernelLog = nil
		for _, m := range messages {
			r.KernelLog = append(r.KernelLog, nodereport.LogLine{At: at, Device: "nvme2n1", Message: m})
		}
	}
	device := func(r *nodereport.NodeReport, name string) *nodereport.Device {
		for i := range r.Devices {
			if r.Devices[i].Name == name {
				return &r.Devices[i]
			}
		}
		t.Fatalf("no device %s", name)
		return nil
	}
	for _, c := range []struct {
		name, base string
		change     func(*snapshot.Snapshot, *nodereport.NodeReport)
		verdict    explain.Verdict
		cause      string
	}{
		{"nothing", works, func(*snapshot.Snapshot, *nodereport.NodeReport) {}, "healthy", ""},
		{"the filesystem went read-only", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = strings.ReplaceAll(r.Mountinfo, "/dev/mapper/mpathc rw", "/dev/mapper/mpathc ro")
		}, "degraded", "start/read-only"},
		{"it was stopped, on a newer kernel", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = strings.ReplaceAll(r.Mountinfo, "/dev/mapper/mpathc rw", "/dev/mapper/mpathc rw,emergency_ro")
		}, "degraded", "start/read-only"},
		{"it is meant to be read-only", works, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = strings.ReplaceAll(r.Mountinfo, "/dev/mapper/mpathc rw", "/dev/mapper/mpathc ro")
			pod(s, "ledger-db-0").Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		}, "healthy", ""},
		{"full", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Volumes[0].Usage.BytesUsed = r.Volumes[0].Usage.Bytes
		}, "degraded", "start/full"},
		{"no inodes", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Volumes[0].Usage.InodesUsed = r.Volumes[0].Usage.Inodes
		}, "degraded", "start/full"},
		{"well used is not full", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Volumes[0].Usage.BytesUsed = r.Volumes[0].Usage.Bytes / 100 * 97
		}, "healthy", ""},
		{"the pod's folder is no mount", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = lines(r.Mountinfo, 2)
		}, "degraded", "publish/wrong-mount"},
		{"a line of the table was not understood", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = lines(r.Mountinfo, 2) + "\ngarbage"
		}, "healthy", ""},
		{"the report is older than the pod", works, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = lines(r.Mountinfo, 2)
			r.CollectedAt = pod(s, "ledger-db-0").Status.ContainerStatuses[0].State.Running.StartedAt.Add(-time.Minute)
		}, "healthy", ""},
		{"the pod has the empty staging folder", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			publish := r.Volumes[0].Publishes[0].Path
			r.Mountinfo = lines(r.Mountinfo, 1) + "\n530 26 253:0 " + r.Volumes[0].Staging.Path + " " + publish + " rw,relatime shared:1 - xfs /dev/mapper/rl-root rw"
		}, "degraded", "publish/not-staged"},
		{"the device is gone", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "dm-4").Removed = true
		}, "degraded", "stage/stale-staging-mount"},
		{"all its paths are offline", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "sdc").State, device(r, "sde").State = "offline", "offline"
		}, "degraded", "stage/stale-staging-mount"},
		{"one of its paths is offline", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "sdc").State = "offline"
		}, "healthy", ""},
		{"a dead mount is buried under the right one", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Devices = append(r.Devices, nodereport.Device{Name: "dm-9", MajorMinor: "253:9", Kind: "dm-mpath", Removed: true})
			r.Mountinfo = strings.Replace(r.Mountinfo, "\n512 ", "\n500 26 253:9 / "+r.Volumes[0].Staging.Path+" rw shared:9 - xfs /dev/mapper/mpatha rw\n512 ", 1)
		}, "degraded", "stage/stale-staging-mount"},
		{"the pod's mount is stale", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Volumes[0].Publishes[0].Stat = "ESTALE"
		}, "degraded", "publish/stale-publish-mount"},
		{"the pod has another device", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Devices = append(r.Devices, nodereport.Device{Name: "sdx", MajorMinor: "65:112", Kind: "disk", State: "running"})
			r.Mountinfo = strings.Replace(r.Mountinfo, "530 26 253:4", "530 26 65:112", 1)
		}, "degraded", "publish/wrong-mount"},
		{"the filesystem never grew", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "dm-4").Signature.Bytes /= 2
		}, "degraded", "expand/filesystem-smaller"},
		{"the device is larger than the claim", works, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "dm-4").Bytes *= 2
		}, "healthy", ""},
		{"warnings that are history", share, func(*snapshot.Snapshot, *nodereport.NodeReport) {}, "healthy", ""},

		{"damaged", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			kernel(r, "XFS (nvme2n1): Metadata corruption detected at xfs_agi_verify+0x61/0x140 [xfs], xfs_agi block 0x2", "XFS (nvme2n1): Unmount and run xfs_repair")
		}, "stuck", "stage/filesystem-corrupt"},
		{"a superblock that is damaged", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature.Error = "the superblock's checksum is wrong"
		}, "stuck", "stage/filesystem-corrupt"},
		{"a device that answers with errors", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature.Error = "EIO"
		}, "stuck", "stage/device-unreadable"},
		{"a device that the probe may not open", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			device(r, "nvme2n1").Signature = &nodereport.Signature{Type: "unknown", Error: "EPERM"}
		}, "stuck", "stage/filesystem-unsupported"},
		{"a device that does not answer", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature = &nodereport.Signature{Type: "unknown", Error: "hung"}
		}, "stuck", "stage/device-unreadable"},
		{"features that are newer than the kernel", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature.Unsupported = []string{"nrext64"}
		}, "stuck", "stage/filesystem-unsupported"},
		{"another filesystem", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			kernel(r, "XFS (nvme2n1): Invalid superblock magic number")
			device(r, "nvme2n1").Signature.Type = "btrfs"
		}, "stuck", "stage/filesystem-mismatch"},
		{"a partition table", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature.Type = "gpt"
		}, "stuck", "stage/filesystem-mismatch"},
		{"a device that takes no writes", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			kernel(r, "XFS (nvme2n1): write access unavailable, cannot proceed.")
			device(r, "nvme2n1").ReadOnly = true
		}, "stuck", "stage/read-only-device"},
		{"a device that cannot be read", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			kernel(r, "nvme2n1: I/O error, dev nvme2n1, sector 0 op 0x0:(READ)")
		}, "stuck", "stage/device-unreadable"},
		{"a controller that is dead", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").State = "dead"
		}, "stuck", "stage/device-unreadable"},
		{"held by LVM", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "mount failed: exit status 32 Output: mount: /g: /dev/nvme2n1 already mounted or mount point busy.")
			r.KernelLog = nil
			device(r, "nvme2n1").Holders = []string{"dm-0"}
			r.Devices = append(r.Devices, nodereport.Device{Name: "dm-0", MajorMinor: "253:0", Kind: "dm-lvm", Links: []string{"/dev/vg0/old"}})
		}, "stuck", "stage/device-busy"},
		{"a report of another volume alone", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "context deadline exceeded")
			r.Scope, r.Volumes = &nodereport.Scope{Volume: "vol-other"}, nil
		}, "stuck", ""},
		{"a format that has just begun", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "context deadline exceeded")
			r.KernelLog = nil
			r.Tasks = []nodereport.Task{{PID: 7, Comm: "mkfs.xfs", Args: "-f /dev/nvme2n1", State: "D", Seconds: 60}}
		}, "waiting", "stage/in-progress"},
		{"a check that runs for an hour", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "an operation with the given Volume ID vol-0c09c57540b9c5fe3 already exists")
			r.KernelLog = nil
			r.Tasks = []nodereport.Task{{PID: 7, Comm: "fsck.ext4", Args: "-a /dev/nvme2n1", State: "R", Seconds: 3600}}
		}, "stuck", "stage/operation-pending"},
		{"an old I/O error, and another reason now", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, `exec: "mkfs.xfs": executable file not found in $PATH`)
			kernel(r, "blk_update_request: I/O error, dev nvme2n1, sector 8")
		}, "stuck", "stage/tool-missing"},
		{"an option that the kernel does not know", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			kernel(r, "XFS (nvme2n1): unknown mount option [dax=sometimes].")
		}, "stuck", "stage/bad-mount-options"},
		{"held in another mount namespace", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "mount failed: exit status 32 Output: mount: /g: /dev/nvme2n1 already mounted or mount point busy.")
			r.KernelLog = nil
			r.Namespaces = []nodereport.Namespace{{Inode: 7, Processes: []nodereport.Process{{PID: 41, Comm: "agent"}}, Mountinfo: "9 8 259:4 / /host/g rw - xfs /dev/nvme2n1 rw"}}
		}, "stuck", "stage/device-busy"},
		{"the driver's process hangs", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "context deadline exceeded")
			r.Drivers[0].Socket.State = nodereport.SocketTimeout
		}, "stuck", "register/socket-dead"},
		{"the driver answered since its socket was dead", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Drivers[0].Socket.State = nodereport.SocketRefused
			r.CollectedAt = r.CollectedAt.Add(-24 * time.Hour)
		}, "stuck", "stage/filesystem-unsupported"},
		{"the driver says that it is not ready", fails, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			says(s, "no array can be reached")
			r.Drivers[0].Identity.Ready = "no"
		}, "stuck", "register/not-ready"},
		{"nothing on the node tells", fails, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.KernelLog = nil
			device(r, "nvme2n1").Signature.Type = "xfs"
		}, "stuck", "stage/driver-error"},

		{"without a group nobody walks", slow, func(s *snapshot.Snapshot, r *nodereport.NodeReport) {
			for _, o := range s.Select(snapshot.Query{Resource: "pods"}) {
				if p := o.(*corev1.Pod); p.Spec.SecurityContext != nil {
					p.Spec.SecurityContext.FSGroup = nil
				}
			}
		}, "stuck", "stage/timeout"}, // the first call's deadline is still to be seen
		{"the mount hangs in the kernel", slow, func(_ *snapshot.Snapshot, r *nodereport.NodeReport) {
			r.Mountinfo = lines(r.Mountinfo, 3)
			r.Tasks = []nodereport.Task{{PID: 991, Comm: "mount.nfs", Args: "examplestore.blob.core.windows.net:/x " + r.Volumes[0].Staging.Path, State: "D", Wchan: "rpc_wait_bit_killable", Seconds: 840}}
		}, "stuck", "stage/server-unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := caseNamed(t, c.base)
			s := base.load(t)
			reports := s.Select(snapshot.Query{Resource: "nodereports.csidoctor.dev"})
			c.change(s, &reports[0].(*snapshot.NodeReport).Report)
			d := walk(t, s, base.target(), base.At, nil)
			checkFix(t, d)
			id, confidence := "", explain.Confidence("")
			if d.Cause != nil {
				id, confidence = d.Cause.ID, d.Cause.Confidence
			}
			if d.Verdict != c.verdict || id != c.cause {
				t.Errorf("%s %s (%s), want %s %s: %s", d.Verdict, id, confidence, c.verdict, c.cause, d.Summary)
			}
		})
	}
}

// lines are the first n lines of a text.
func lines(text string, n int) string {
	return strings.Join(strings.Split(strings.TrimSpace(text), "\n")[:n], "\n")
}
