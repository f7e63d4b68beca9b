package explain

import (
	"regexp"
	"slices"
)

// machineGone: a machine is not found: the noun stands close before, so that it is not the volume that is missing.
const machineGone = `\b(instance|node|server|droplet|linode|vm|virtual ?machine|host|machine|worker)s?\b(\W+\S+){0,2}?\W+(was not found|wasn't found|not found|does not exist|doesn't exist|could not be found|notFound|no longer exists)|(could not|cannot|can't|failed to|unable to|couldn't) (find|get|locate) (the )?(instance|node|server|droplet|linode|vm|virtual ?machine|host)\b`

// attachWords are drivers' and the attacher's words when a volume cannot be attached: AWS EBS, Azure Disk, GCE PD, vSphere,
// Cinder, Hetzner, DigitalOcean, Linode, Vultr, OCI, Alibaba, Scaleway, Longhorn, LINSTOR, Portworx, Trident, Ceph.
var attachWords = []signature{
	sig("attach/rbac", `is forbidden: User "system:serviceaccount:|cannot (get|list|update|patch|create) resource "(volumeattachments|persistentvolumes|csinodes|nodes)`),
	sig("attach/pv-deleting", `PersistentVolume "[^"]*" is marked for deletion`),
	sig("attach/throttled", `rateLimitExceeded|rate limit|RequestLimitExceeded|Throttl|TooManyRequests|too many requests|\b429\b|quota exceeded for quota metric|SNAT|exceeded the rate|client rate limit|ControllerPublish not permitted on node .* due to backoff condition`),
	sig("attach/limit-reached", `AttachmentLimitExceeded|maximum number of (data )?disks|max(imum)? (number|amount) of (attached )?(volumes|disks|block)|max(imum)? volumes|too many (volumes|disks|attachments)|(volume|disk|attach\w*|slot|device|instance) limit|limit.{0,40}(volumes|disks|attachments)|(volumes|disks|attachments).{0,40}limit|no (more )?(available|free) (slot|device|lun|port|pci)|(missing|add a) SCSI controller|number of SCSI controller|cannot attach more|No available device|code = ResourceExhausted`),
	sig("attach/wrong-zone", `ZoneMismatch|not in the same (availability )?(zone|region|datacenter|location)|different (availability )?(zone|region|location|datacenter)|same (zone|region|location|datacenter) as|zone of the (disk|volume|instance)|(zone|region|location) (does not|doesn't|do not) match|availability zone .* (mismatch|conflict)|cannot be attached.{0,60} zone`),
	sig("attach/volume-not-found", `InvalidVolume\.NotFound|ResourceNotFound.{0,120}/disks/`),
	sig("attach/node-unknown", `InvalidInstanceID|`+machineGone+`|ResourceNotFound.{0,120}/virtualMachine|unknown node|invalid node ?id|no such (instance|node|server)|csinode\.storage\.k8s\.io "[^"]*" not found`),
	sig("attach/volume-not-found", `\b(volume|disk|resource '?projects/[^ ']*/disks|image|lun)\b(\W+\S+){0,5}?\W+(was not found|not found|does not exist|doesn't exist|could not be found|notFound|no such)|(could not|cannot|can't|failed to|unable to) (find|get|locate) (the )?(volume|disk)[^.;]{0,80}(not ?found|404|does not exist|$)|No volume with|NotFound desc = (failed to get )?(volume|disk)`),
	sig("attach/backend-busy", `AttachDiskWhileBeingDetached|(currently|still) (being )?(detach|attach)(ed|ing)|being (detached|attached|migrated|resized|cloned)|last detach operation failed|pending .{0,24}(event|operation|action)|\block(ed)?\b|another (operation|task|action|request)|operation .{0,60}(in progress|already exists|is running)|task .{0,40}in progress|status must be .{0,60}(available|in-use)|IncorrectState|IncorrectDiskStatus|IncorrectInstanceStatus|InvalidState|status '?"?(detaching|attaching|reserved|maintenance|retyping|backing-up|downloading)|not ready for workloads|\bbusy\b|conflict with (an|the) (ongoing|current)|in (a )?transition`),
	sig("attach/held-outside", `VolumeInUse|RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|already (being )?(used|in use) by|already attached to|already mounted on|is (currently )?attached to (an?other|a different|the wrong|node|instance|server|vm|droplet|linode|host)|attached to (an?other|a different|the wrong) (instance|node|server|vm|droplet|linode|host|machine)|attached to a server|currently attached|in use by (an?other|a different|vm|instance|node|server)|status '?"?in-use|DiskInUse|volume is in use|resource '?volume'? is in use|not multi-?attach|multi-?attach|exclusive (lock|access)|claimed by (an?other|node)`),
	sig("attach/permission", `UnauthorizedOperation|AccessDenied|access denied|AuthorizationFailed|AuthFailure|not authorized|Unauthorized|\b401\b|\b403\b|forbidden|PERMISSION_DENIED|PermissionDenied|permission denied|NoPermission|insufficient (permission|privilege)|(lacks|missing|no|required) [^.]{0,40}(permission|privilege)|does not have (authorization|permission)|(invalid|expired|wrong) (token|credential|client secret|api key|access key)|(token|credential|session)s? (has |have |is |are )?(expired|invalid)|ExpiredToken|InvalidClientTokenId|invalid_client|NotAuthenticated|authentication (failed|required)|cannot (login|log in)|incorrect user name or password|code = Unauthenticated|failed to load secret|SignatureDoesNotMatch`),
	sig("attach/timeout", `code = DeadlineExceeded|context deadline exceeded|timed out|timeout|expected device to be attached but was attaching`),
}

// echoes of an earlier try say only that one failed or still runs: what that one said counts.
var attachEcho = regexp.MustCompile(`(?i)due to backoff condition|timed out waiting for external-attacher|operation .{0,80}already exists|already in progress|Multi-Attach error|Waiting for detach|volume attachment (is being|has been) deleted`)

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
