package e2e

import (
	"slices"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// heldFaults keep a volume on one node while a pod waits for it on another.
var heldFaults = []fault{
	{
		name: "dead-node",
		rule: "Causes: held by a node that is NotReady, nobody can confirm that it stopped writing; Borders: not while the force-detach timer may still run, " +
			"which begins when the last pod there is gone, and this one is there; stuck after the 3 minutes of unpublish at the latest",
		dies: true,
		ask:  "pod second",
		want: "stuck attach/multi-attach-node-dead",
		also: []question{{"pod app", "stuck unpublish/node-dead"}, {"pvc data", "stuck attach/multi-attach-node-dead|unpublish/node-dead"}},
		bring: func(b *bench) {
			b.hold(deadNode, evicted...)
			b.die()
			b.status("Pod", "app", "is being evicted", func(o object) bool { return o.deletedSince(0) })
			b.create(edit(edit(pod, second...), on(cluster.Node)...))
			b.event("Pod/second", "FailedAttachVolume", "", 1)
			b.older("Pod", "second", 190*time.Second)
		},
	},
	{
		name: "dead-node-timer",
		rule: "Causes: no pod wants the volume on a node that is not Ready; the moment is in no object, bound it by the age of the new pod; " +
			"Normal times: 6 min after the last pod is gone, and a minute; behind that, held by a node that is NotReady",
		dies:   true,
		ask:    "pod second",
		want:   "waiting detach/waiting-force-detach",
		of:     "Pod/second",
		normal: 7 * time.Minute,
		late:   "stuck attach/multi-attach-node-dead",
		bring: func(b *bench) {
			b.hold(deadNode)
			b.die()
			b.kubectl("delete", "pod/app", "--force", "--grace-period=0")
			b.gone("Pod", "app")
			b.create(edit(edit(pod, second...), on(cluster.Node)...))
			b.event("Pod/second", "FailedAttachVolume", "", 1)
		},
	},
	{
		name: "rolling-update",
		rule: "Causes: held by a pod that runs on another, working node (rolling update of an RWO claim); neither moves on without the other; stuck after two minutes at the latest",
		ask:  "pvc data",
		want: "stuck attach/multi-attach-in-use",
		dump: true,
		bring: func(b *bench) {
			b.create(claim("loop.csidoctor.dev-now"), edit(deployment, on(cluster.Node)...))
			b.bound("data")
			b.podReady("app-")
			b.kubectl("patch", "deployment", "app", "-p", `{"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}}}}`)
			b.until("the new pod waits for the volume for two minutes", func(all objects) bool {
				return slices.ContainsFunc(all.named("Event", b.ns, "app-"), func(o object) bool {
					return o.Reason == "FailedAttachVolume" && time.Since(o.Metadata.CreationTimestamp) > 130*time.Second
				})
			})
		},
	},
	{
		name: "old-pod-terminating",
		rule: "Causes: held by a pod that is terminating on a working node; its deletion time has not passed, so it is letting go: " +
			"the contract has both multi-attach-transient and multi-attach-terminating for that",
		ask:  "pod second",
		want: "waiting attach/multi-attach-transient|attach/multi-attach-terminating",
		bring: func(b *bench) {
			b.hold(cluster.Node, unwilling...)
			b.delete("pod/app")
			b.create(edit(edit(pod, second...), on("node-2")...))
			b.event("Pod/second", "FailedAttachVolume", "", 1)
		},
	},
	{
		name: "moved",
		rule: "Rules 1 and 3: a Multi-Attach event older than the success that followed is history",
		ask:  "pod second",
		want: "healthy",
		also: []question{{"pvc data", "healthy"}},
		bring: func(b *bench) {
			b.hold(cluster.Node)
			b.create(edit(edit(pod, second...), on("node-2")...))
			b.event("Pod/second", "FailedAttachVolume", "", 1)
			b.delete("pod/app")
			b.podReady("second")
		},
	},
}
