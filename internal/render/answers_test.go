package render_test

import (
	"time"

	"github.com/csidoctor/csidoctor/internal/explain"
)

var taken = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *time.Time { t := taken.Add(-d); return &t }

func obj(kind, namespace, name string) *explain.Object {
	return &explain.Object{Kind: kind, Namespace: namespace, Name: name}
}

// hops are the set-up hops, those named in open with what is said there, the others ok.
func hops(open ...explain.Hop) []explain.Hop {
	all := []explain.HopName{explain.HopClaim, explain.HopProvision, explain.HopBind, explain.HopSchedule, explain.HopAttach,
		explain.HopRegister, explain.HopStage, explain.HopPublish, explain.HopStart}
	var chain []explain.Hop
	for _, name := range all {
		hop := explain.Hop{Hop: name, Status: explain.StatusOK, Since: before(6 * 24 * time.Hour)}
		for _, o := range open {
			if o.Hop == name {
				hop = o
			}
		}
		chain = append(chain, hop)
	}
	return chain
}

func waiting(names ...explain.HopName) []explain.Hop {
	var list []explain.Hop
	for _, name := range names {
		list = append(list, explain.Hop{Hop: name, Status: explain.StatusWaiting})
	}
	return list
}

// answers are one of each kind: what a reader meets first.
var answers = map[string]explain.Diagnosis{
	"stuck":        stuck,
	"healthy":      healthy,
	"waiting":      timer,
	"undetermined": unseen,
	"degraded":     degraded,
	"shared":       shared,
	"hostile":      hostile,
}

var stuck = explain.Diagnosis{
	APIVersion: explain.APIVersion, Kind: "Diagnosis",
	Target: explain.Target{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data-db-0"}, TakenAt: taken,
	Verdict: explain.VerdictStuck, Hop: explain.HopAttach,
	Cause:   &explain.Named{ID: "attach/multi-attach-node-dead", Title: "the volume is still attached to a node that does not answer", Confidence: explain.Likely},
	Summary: "shop/data-db-0 cannot attach to node-2: ip-10-44-7-90.eu-central-1.compute.internal holds it and has not answered for 14 minutes.",
	Chains: []explain.Chain{{
		Claim: obj("PersistentVolumeClaim", "shop", "data-db-0"), Pod: obj("Pod", "shop", "db-0"), Node: "node-2", Volume: "pvc-7d0e9c41-9c0b-4c7e-8f7a-3f1c2b5d6e70",
		Hops: hops(append(waiting(explain.HopStage, explain.HopPublish, explain.HopStart), explain.Hop{
			Hop: explain.HopAttach, Status: explain.StatusStuck, Since: before(14 * time.Minute),
			Object: obj("VolumeAttachment", "", "csi-5c1f0e6b3a7d4c2f9e8b1a0d7c6f5e4d3c2b1a09f8e7d6c5b4a3928170615243"),
			Note:   "the attach-detach controller waits for the detach from ip-10-44-7-90.eu-central-1.compute.internal",
		})...),
	}},
	Findings: []explain.Finding{{
		Cause: "attach/multi-attach-node-dead", Hop: explain.HopAttach, Status: explain.StatusStuck, Confidence: explain.Likely,
		Title: "the volume is still attached to a node that does not answer",
		Why: "The volume can be on one node only. Its old node stopped answering before it let go, and Kubernetes does not take a " +
			"volume away from a node that may still write to it, until someone says that the machine is off.",
		Evidence: []explain.Evidence{
			{Object: *obj("Node", "", "ip-10-44-7-90.eu-central-1.compute.internal"), Field: "status.conditions[Ready]", Value: "Unknown", At: before(14 * time.Minute)},
			{Object: *obj("Event", "shop", "db-0.17a9c2"), Field: "message", At: before(13 * time.Minute),
				Value: `Multi-Attach error for volume "pvc-7d0e9c41-9c0b-4c7e-8f7a-3f1c2b5d6e70" Volume is already exclusively attached to one node and can't be attached to another`},
		},
		Fix: []explain.Step{
			{Text: "Look whether the machine is really off, in the cloud's console too: a node that is only cut off may still write.",
				Command: "kubectl --context prod get node ip-10-44-7-90.eu-central-1.compute.internal -o wide", Danger: explain.DangerNone},
			{Text: "Tell Kubernetes that it is. The pods there are deleted and their volumes detached at once.",
				Command: "kubectl --context prod taint nodes ip-10-44-7-90.eu-central-1.compute.internal node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
				Danger:  explain.DangerDataLoss, Unless: "the machine is powered off or can no longer reach its disks"},
			{Text: "When the machine is back, take the taint away.", Danger: explain.DangerNone,
				Command: "kubectl --context prod taint nodes ip-10-44-7-90.eu-central-1.compute.internal node.kubernetes.io/out-of-service-"},
		},
		Docs: "docs/causes/attach.md#multi-attach-node-dead",
	}},
	Gaps: []explain.Gap{
		{Input: "node-report", Object: obj("Node", "", "node-2"), Reason: "not-probed", Detail: "what is mounted there was not looked at",
			Remedy: "kubectl csidoctor pvc data-db-0 -n shop --context prod --probe"},
		{Input: "pods-of-driver", Reason: "forbidden", Detail: `pods is forbidden: User "jo" cannot list resource "pods" in API group "" in the namespace "kube-system"`,
			Remedy: "Ask for the rights in deploy/rbac.yaml, or for someone who has them to run `kubectl csidoctor bundle pvc data-db-0 -n shop`."},
	},
}

var healthy = explain.Diagnosis{
	Target: explain.Target{Kind: "Pod", Namespace: "shop", Name: "web-0"}, TakenAt: taken, Verdict: explain.VerdictHealthy,
	Summary: "All 2 volumes of shop/web-0 are mounted.",
	Chains: []explain.Chain{
		{Claim: obj("PersistentVolumeClaim", "shop", "www-web-0"), Pod: obj("Pod", "shop", "web-0"), Node: "node-1", Volume: "pvc-1111", Hops: hops()},
		{Claim: obj("PersistentVolumeClaim", "shop", "logs"), Pod: obj("Pod", "shop", "web-0"), Node: "node-1", Volume: "pvc-2222",
			Hops: hops(explain.Hop{Hop: explain.HopAttach, Status: explain.StatusSkipped, Note: "nfs.csi.k8s.io needs no attach"})},
	},
}

var timer = explain.Diagnosis{
	Target: explain.Target{Kind: "Pod", Namespace: "shop", Name: "db-0"}, TakenAt: taken, Verdict: explain.VerdictWaiting, Hop: explain.HopDetach,
	Cause:   &explain.Named{ID: "detach/waiting-force-detach", Title: "the volume leaves its dead node in a few minutes by itself", Confidence: explain.Certain},
	Summary: "The attach-detach controller waits 6 minutes before it detaches a volume from a node that does not answer.",
	Chains: []explain.Chain{{Claim: obj("PersistentVolumeClaim", "shop", "data-db-0"), Pod: obj("Pod", "shop", "db-0"), Node: "node-2", Volume: "pvc-7d0e9c41",
		Hops: append(hops(waiting(explain.HopAttach, explain.HopStage, explain.HopPublish, explain.HopStart)...),
			explain.Hop{Hop: explain.HopDetach, Status: explain.StatusWaiting, Since: before(2 * time.Minute), Until: before(-4 * time.Minute), Note: "from node-1"})}},
	Findings: []explain.Finding{{
		Cause: "detach/waiting-force-detach", Hop: explain.HopDetach, Status: explain.StatusWaiting, Confidence: explain.Certain,
		Title: "the volume leaves its dead node in a few minutes by itself",
		Why:   "The attach-detach controller waits 6 minutes before it detaches a volume from a node that does not answer.",
		Evidence: []explain.Evidence{
			{Object: *obj("Node", "", "node-1"), Field: "status.conditions[Ready]", Value: "Unknown", At: before(3 * time.Minute)}},
		Fix:   []explain.Step{{Text: "Wait. Ask again when the time has passed.", Danger: explain.DangerNone}},
		Until: before(-4 * time.Minute),
	}},
}

var unseen = explain.Diagnosis{
	Target: explain.Target{Kind: "PersistentVolumeClaim", Namespace: "batch", Name: "scratch"}, TakenAt: taken, Verdict: explain.VerdictUndetermined,
	Summary: "batch/scratch is bound, and its pod does not start; what the node does could not be seen.",
	Chains: []explain.Chain{{Claim: obj("PersistentVolumeClaim", "batch", "scratch"), Pod: obj("Pod", "batch", "job-x7k2p"), Node: "node-3", Volume: "pvc-3333",
		Hops: hops(explain.Hop{Hop: explain.HopRegister, Status: explain.StatusUnknown, Object: obj("CSINode", "", "node-3")},
			explain.Hop{Hop: explain.HopStage, Status: explain.StatusUnknown, Note: "no event of the kubelet for 40 minutes: they are kept for one hour"},
			explain.Hop{Hop: explain.HopPublish, Status: explain.StatusUnknown}, explain.Hop{Hop: explain.HopStart, Status: explain.StatusWaiting, Since: before(55 * time.Minute)})}},
	Gaps: []explain.Gap{
		{Input: "csinode", Object: obj("CSINode", "", "node-3"), Reason: "forbidden", Remedy: "Ask for get on csinodes.storage.k8s.io."},
		{Input: "events", Object: obj("Pod", "batch", "job-x7k2p"), Reason: "expired", Detail: "the pod is older than the oldest event",
			Remedy: "Delete the pod if its controller makes a new one, and ask again within the hour."},
	},
	Notes: []string{"The clocks of this machine and of the API server differ by 41s."},
}

var degraded = explain.Diagnosis{
	Target: explain.Target{Kind: "Pod", Namespace: "db", Name: "pg-0"}, TakenAt: taken, Verdict: explain.VerdictDegraded, Hop: explain.HopStart,
	Cause:   &explain.Named{ID: "start/read-only", Title: "the filesystem went read-only after an error", Confidence: explain.Certain},
	Summary: "db/pg-0 runs, but cannot write: sdc (ext4) was remounted read-only 3 hours ago.",
	Chains: []explain.Chain{
		{Claim: obj("PersistentVolumeClaim", "db", "wal-pg-0"), Pod: obj("Pod", "db", "pg-0"), Node: "node-4", Volume: "pvc-wal", Hops: hops()},
		{Claim: obj("PersistentVolumeClaim", "db", "data-pg-0"), Pod: obj("Pod", "db", "pg-0"), Node: "node-4", Volume: "pvc-data",
			Hops: append(hops(explain.Hop{Hop: explain.HopStart, Status: explain.StatusDegraded, Since: before(3*time.Hour + 5*time.Minute), Object: obj("Pod", "db", "pg-0"), Note: "mounted read-only on node-4"}),
				explain.Hop{Hop: explain.HopExpand, Status: explain.StatusDegraded, Note: "the filesystem has 10Gi, its device 20Gi"})},
	},
	Findings: []explain.Finding{
		{Cause: "start/read-only", Hop: explain.HopStart, Status: explain.StatusDegraded, Confidence: explain.Certain,
			Title: "the filesystem went read-only after an error",
			Why:   "The kernel met an error in the journal of sdc and remounted it read-only to save what is there.",
			Evidence: []explain.Evidence{
				{Object: *obj("NodeReport", "", "node-4"), Field: "kernelLog", Value: "EXT4-fs error (device sdc): ext4_journal_check_start:83: Detected aborted journal", At: before(3*time.Hour + 5*time.Minute)},
				{Object: *obj("NodeReport", "", "node-4"), Field: "mountinfo", Value: "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/6a1f/globalmount ro,relatime"}},
			Fix: []explain.Step{
				{Text: "Save the data before anything else: a snapshot of the volume as it is.", Command: "kubectl create -f snapshot.yaml -n db", Danger: explain.DangerNone},
				{Text: "Stop the pod, so that the volume is unmounted and its journal replayed at the next mount.",
					Command: "kubectl scale statefulset pg --replicas=0 -n db", Danger: explain.DangerDisruptive, Unless: "nobody needs the database now"},
			}},
		{Cause: "expand/filesystem-smaller", Hop: explain.HopExpand, Status: explain.StatusDegraded, Confidence: explain.Certain,
			Title:    "the filesystem is smaller than its device",
			Why:      "The device was grown to 20Gi; the filesystem on it was not.",
			Evidence: []explain.Evidence{{Object: *obj("NodeReport", "", "node-4"), Field: "devices[sdc].signature.bytes", Value: "10737418240"}},
			Fix:      []explain.Step{{Text: "It is grown at the next mount that can write.", Danger: explain.DangerNone}}},
	},
}

// shared: many pods of one volume, all but one in the same state.
var shared = func() explain.Diagnosis {
	claim := obj("PersistentVolumeClaim", "web", "assets")
	broken := hops(explain.Hop{Hop: explain.HopAttach, Status: explain.StatusSkipped},
		explain.Hop{Hop: explain.HopPublish, Status: explain.StatusStuck, Since: before(9 * time.Minute), Note: "the server refuses node-7"},
		explain.Hop{Hop: explain.HopStart, Status: explain.StatusWaiting})
	works := hops(explain.Hop{Hop: explain.HopAttach, Status: explain.StatusSkipped})
	d := explain.Diagnosis{
		Target: explain.Target(*claim), TakenAt: taken, Verdict: explain.VerdictStuck, Hop: explain.HopPublish,
		Cause:   &explain.Named{ID: "publish/permission", Title: "the server refuses the mount", Confidence: explain.Likely},
		Summary: "The NFS server refuses node-7, so web/assets does not mount there.",
		Findings: []explain.Finding{{Cause: "publish/permission", Hop: explain.HopPublish, Title: "the server refuses the mount", Status: explain.StatusStuck,
			Confidence: explain.Likely, Why: "The NFS server refuses node-7, so web/assets does not mount there.",
			Evidence: []explain.Evidence{{Object: *obj("Event", "web", "front-e.17b0"), Field: "message", At: before(time.Minute),
				Value: "MountVolume.SetUp failed for volume \"pvc-assets\" : rpc error: code = Internal desc = mount failed: exit status 32\nMounting arguments: -t nfs -o vers=4.1 nas:/export/assets /var/lib/kubelet/pods/0b9f/volumes/kubernetes.io~csi/pvc-assets/mount\nOutput: mount.nfs: access denied by server"}},
			Fix: []explain.Step{{Text: "Add node-7's address to the export of nas:/export/assets.", Danger: explain.DangerNone}}}},
	}
	for _, pod := range []string{"a", "b", "c", "d"} {
		d.Chains = append(d.Chains, explain.Chain{Claim: claim, Pod: obj("Pod", "web", "front-"+pod), Node: "node-" + pod, Volume: "pvc-assets", Hops: works})
	}
	d.Chains = append(d.Chains, explain.Chain{Claim: claim, Pod: obj("Pod", "web", "front-e"), Node: "node-7", Volume: "pvc-assets", Hops: broken})
	return d
}()

// hostile: what a driver or a user with a keyboard can put where a name or a message is expected.
var hostile = explain.Diagnosis{
	Target: explain.Target{Kind: "PersistentVolumeClaim", Namespace: "sh\x1b[2Jop", Name: "data\u202e0-bd"}, TakenAt: taken,
	Verdict: explain.VerdictStuck, Hop: explain.HopProvision,
	Cause:   &explain.Named{ID: "provision/driver-error", Title: "the driver refuses", Confidence: explain.Likely},
	Summary: "the driver says: \x1b]0;owned\x07\r\nfine\x00",
	Chains: []explain.Chain{{Claim: obj("PersistentVolumeClaim", "shop", "zero\u200bwidth"), Volume: "pvc-\xff\xfe", Node: "no\x9bde",
		Hops: []explain.Hop{{Hop: explain.HopProvision, Status: explain.StatusStuck, Note: "\u009b31mred\u2028next\tcolumn"}}}},
	Findings: []explain.Finding{{Cause: "provision/driver-error", Hop: explain.HopProvision, Title: "the driver refuses", Status: explain.StatusStuck, Confidence: explain.Likely,
		Why:      "\x1b[31mError:\x1b[0m 磁盘空间不足，无法创建卷 \ufeffquota\u00ad exceeded ⚠\ufe0f",
		Evidence: []explain.Evidence{{Object: *obj("Event", "shop", "e\b1"), Field: "mess\nage", Value: "line one\nline two\x1b[1A\x1b[2Kline zero \U000e0041"}},
		Fix:      []explain.Step{{Text: "Look.\u2066", Command: "kubectl get pvc 'data\u202e0-bd\n; reboot' -n 'sh\x1b[2Jop'", Danger: explain.DangerNone}}}},
	Gaps:  []explain.Gap{{Input: "logs", Object: obj("Pod", "shop", "csi\x7f"), Reason: "failed", Detail: "EOF\a", Remedy: "kubectl logs 'csi\x7f'"}},
	Notes: []string{"\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\"},
}
