package explain

import (
	"regexp"
	"slices"
)

// attachWords are drivers' and the attacher's words when a volume cannot be attached: AWS EBS, Azure Disk, GCE PD, vSphere,
// Cinder, Hetzner, DigitalOcean, Linode, Vultr, OCI, Alibaba, Scaleway, Longhorn, LINSTOR, Portworx, Trident, Ceph.
var attachWords = []signature{
	sig("attach/rbac", `cannot (get|list|watch|update|patch|create) resource "(volumeattachments|persistentvolumes|csinodes|nodes|secrets)\b`), // of others the driver speaks: its backend is a cluster too
	sig("attach/pv-deleting", `PersistentVolume "[^"]*" is marked for deletion`),
	sig("attach/throttled", tooManyCalls+`|ControllerPublish not permitted on node .* due to backoff condition`),
	sig("attach/limit-reached",
		`AttachmentLimitExceeded|maximum number of (data )?disks|max(imum)? (number|amount) of (attached )?(volumes|disks|block)`,
		`max(imum)? volumes|too many (volumes|disks|attachments)|(volume|disk|attach\w*|slot|device|instance) ?limit`,
		`reach\w* (its|their|the) limit|limit.{0,40}(volumes|disks|attachments)|(volumes|disks|attachments).{0,40}limit`,
		`no (more )?(available|free) (slot|device|lun|port|pci)|(missing|add a) SCSI controller|number of SCSI controller`,
		`cannot attach more|(can|may) only attach \W?\d+|No available device|code = ResourceExhausted`),
	sig("attach/wrong-zone",
		`Zone ?(Mis|Not)Match|different (availability )?(zone|region|location|datacenter)`,
		`same (availability[ _-]?)?(zone|region|location|datacenter)\b|zone of the (disk|volume|instance)`,
		`(must|need to|have to|should) be (with)?in the same (availability |fault )?(zone|domain|region|location)`,
		`is in (availability |fault )?(zone|domain|region|location) .{1,80}(but|while|whereas) .{1,120} is in `,
		`(zone|region|location) (does not|doesn't|do not) match|availability zone .* (mismatch|conflict)`,
		`cannot be attached.{0,60} zone`),
	sig("attach/volume-not-found", `InvalidVolume\.NotFound|vStorageObject.{0,120}was not found|ResourceNotFound.{0,120}/disks/`),
	sig("attach/timeout", searching+callLate),
	sig("attach/backend-error", searching+callLost),
	sig("attach/node-unknown", machineGone),
	sig("attach/volume-not-found",
		`\b(volume|disk|resource '?projects/[^ ']*/disks|image|lun)\b(\W+\S+){0,5}?\W+(was not found|not found|does not exist|doesn't exist|could not be found|notFound|no such)`,
		`(could not|cannot|can't|failed to|unable to) (find|get|locate) (the )?(volume|disk)[^.;]{0,80}(not ?found|404|does not exist|$)`,
		`no such (volume|disk)|No volume with|NotFound desc = (failed to get )?(volume|disk)`),
	sig("attach/backend-busy", `locked by an?(other)? .{0,20}(operation|task|action|request|snapshot|backup)\b`),
	sig("attach/held-outside",
		`current(ly)?( in| status is| status:)? ['"]?in-use|currently attached|owned by (vm|instance|node|server|machine)`,
		`lock the file|locked by (an?other|vm|instance|node|server|host)`), // before the locks of an operation
	sig("attach/backend-error", `\bKMS`), // a key in a wrong state is no operation
	sig("attach/backend-busy",
		busyNow,
		`AttachDiskWhileBeingDetached|last detach operation failed|status must be .{0,60}(available|in-use)`,
		`not ready for workloads`),
	sig("attach/held-outside",
		`VolumeInUse|RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|(already|still) (being )?(used|in use) by`,
		`(already|still) (attached|published|mounted|mapped|exported|exposed) (to|on|at)`,
		`(attached|published|mapped|exported|exposed) (to|on|at) (an?other|a different|the wrong|some other) (instance|node|server|vm|droplet|linode|host|machine)`,
		`is attached to (node|instance|server|vm|droplet|linode|host)|attached to a server`,
		`in use by (an?other|a different|vm|instance|node|server)|status '?"?in-use|DiskInUse|volume is in use`,
		`resource '?volume'? is in use|multi-?attach|exclusive (lock|access)|claimed by (an?other|node)`,
		`already has (an?other|other|a different) (client|host|initiator|node|server|consumer)s?\b`),
	sig("attach/permission", denied+`|failed to load secret`),
	sig("attach/volume-not-found", `code = NotFound\b`), // what the CSI specification has for a volume; of a machine drivers say so
	sig("attach/timeout",
		`code = DeadlineExceeded|deadline exceeded|timed out|timeout|(with)?in (the )?(allott?ed )?time\b`,
		`expected device to be attached but was attaching`),
}

// echoes of an earlier try say only that one failed or still runs: what that one said counts.
var attachEcho = regexp.MustCompile(`(?i)due to backoff condition|timed out waiting for external-attacher|operation .{0,80}already exists|already in progress|code = Aborted desc = (\w+ ){0,3}(pending|in progress)\W*$|Multi-Attach error|Waiting for detach|volume attachment (is being|has been) deleted`)

// attachTold gives the cause that the attach error tells. Of an echo, and of a mere timeout, an earlier text is asked.
func attachTold(t *trouble) (cause, text string) {
	cause, text = told(attachWords, t.Text), t.Text
	if !attachEcho.MatchString(t.Text) && cause != "attach/timeout" {
		return cause, text
	}
	for _, r := range slices.Backward(t.Earlier) {
		if attachEcho.MatchString(r.Message) {
			continue
		}
		if c := told(attachWords, r.Message); c != "" && c != "attach/timeout" {
			return c, r.Message
		}
	}
	if attachEcho.MatchString(t.Text) && cause != "attach/throttled" {
		return "", t.Text
	}
	return cause, text
}
