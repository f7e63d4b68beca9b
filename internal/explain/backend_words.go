package explain

import (
	"strings"
)

// What backends say alike of an attach, a detach and a deletion.
const (
	// machineGone: a machine is not found: the noun stands close before, so that it is not the volume that is missing.
	machineGone = `\b(instance|node|server|droplet|linode|vm|virtual ?machine|host|machine|worker)s?\b(\W+\S+){0,2}?\W+(was not found|wasn't found|not found|does not exist|doesn't exist|could not be found|notFound|no longer exists)|` +
		`(could not|cannot|can't|failed to|unable to|couldn't) (find|get|locate) (the )?(instance|node|server|droplet|linode|vm|virtual ?machine|host)\b|` +
		`InvalidInstanceID|ResourceNotFound.{0,120}/virtualMachine|/instances/[^ ']+' was not found|\b(host|initiator)s? for (the )?(node|host|machine)\b.{0,300}\bnot (found|defined|registered|configured)|unknown node|invalid node ?id|no such (instance|node|server)|csinode\.storage\.k8s\.io "[^"]*" not found|has no NodeID annotation`

	tooManyCalls = `rateLimitExceeded|rate.?limit|requests per (second|minute|hour)|RequestLimitExceeded|Throttl|TooManyRequests|too many requests|\b429\b|quota exceeded for quota metric|SNAT|exceeded the rate`

	// denied: the backend does not take the driver's account.
	denied = `code = (PermissionDenied|Unauthenticated)\b|\b40[13]\b|forbidden|unauthori[sz]ed|not authori[sz]ed|NotAuthorized|AuthorizationFailed|authori[sz]ation (failed|failure|denied)|AuthFailure|Access ?Denied|permission ?denied|PERMISSION_DENIED|` +
		`operation not permitted|NoPermission|permission (error|to perform)|does not have (authori[sz]ation|permission)|insufficient permission|(lacks|missing|no|required) [^.]{0,40}permission|` + privilege + `|` +
		`authenticat\w+ (failed|failure|error|required)|not ?authenticated|(failed|unable|could not|cannot) (to )?(authenticate|log ?in|authori[sz]e)|cannot complete login|incorrect user name|` +
		`(invalid|expired|wrong|incorrect|bad|no valid) (\S+ )?(credentials?|token|password|client secret|api ?key|access key)|(token|credential|session)s? (\S+ ){0,5}?((is|are|has|have|was) )?(expired|invalid)|` +
		`ExpiredToken|InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|SignatureDoesNotMatch|NoCredentialProviders|InvalidIdentityToken|AADSTS\d+|invalid_(client|grant)|` +
		`(refresh|acquire|fetch|obtain|get)\w* (the |an? )?(\S+ )?(access )?tokens?\b.{0,600}\bstatus ?code\W{0,3}4\d\d\b|Identity not found|` +
		`no EC2 IMDS role|get credentials|refresh cached credentials|AssumeRole|could not find default credentials`

	// privilege: what arrays call a permission; a container is privileged, an account has a privilege.
	privilege = `\bprivileges? (check (has )?failed|(is|are) (required|missing|needed|insufficient)|(not held|denied|violation))|\b(requires?|required|missing|insufficient|lacks?|needs?|no|not have|not enough)( [^.\s]+){0,4} privileges?\b`

	// searching: what a driver looked for when its call broke; nobody said that it is not there.
	searching = `\b(find|get|locate|query|look(ing)? ?up)\w*( \S+){0,3}? (host|node|server|instance|machine|vm|volume|disk|lun|initiator)s?\b.{0,600}`
	// callLate: the call did not end in time; EINPROGRESS is a connection that was not made. callLost: it got no answer.
	callLate = `(context (was )?canceled|context deadline exceeded|request canceled|client\.timeout exceeded|i/o timeout|connection timed out|operation now in progress)`
	callLost = `(connection (refused|reset)|no such host|no route to host|network is unreachable|dial tcp|tls handshake|x509:|unexpected EOF|\b(` + networkErrors + `)\b)`

	// busyNow: an operation of the backend has the volume or the machine.
	busyNow = `(currently|still) (being )?(detached|detaching|attaching)|being (detached|attached|migrated|resized|cloned|snapshotted|backed up|stopped|started|rebooted|rebuilt)|pending .{0,24}(event|operation|action)|\block(ed)?\b|` +
		`another (operation|task|action|request)|operation .{0,60}(in progress|already exists|is running)|task .{0,40}in progress|in (task_state|a transient state|(a )?transition)|not allowed in the current state|` +
		`IncorrectState|IncorrectDiskStatus|IncorrectInstanceStatus|InvalidState|status (is )?['"]?(detaching|attaching|reserved|maintenance|retyping|backing-up|downloading)|\bbusy\b|conflict with (an|the) (ongoing|current)|` +
		`resource ?not ?ready|(backup|snapshot|restore|rebuild|migration) .{0,40}(running|in progress|ongoing)`
)

// networkErrors are the names that operating systems and their libraries give to a peer that cannot be reached (errno(3), and
// Node's for name service).
const networkErrors = `ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN`

// httpStatus are the ways in which clients print the status of an answer: AWS, Azure, Google, OpenStack and DigitalOcean.
func httpStatus(status string) string {
	return `((?i:status ?code|https? ?status ?code|error code|http)[:=]? ?|googleapi: (got HTTP response code|Error) |RESPONSE |https?://\S+: |\[)` + status + `\b`
}

// codes are error codes of gRPC, of backends' APIs, of kernels and of their tools that mean one thing, whatever words stand
// around them. A status of HTTP counts where nothing between the driver and the API would give it.
var codes = map[string]phrases{
	// EPERM and EACCES of librados and mount.cifs; 24 is ISCSI_ERR_LOGIN_AUTH_FAILED of iscsiadm.
	"permission": exact(
		`code = (PermissionDenied|Unauthenticated)\b`,
		`\b(UnauthorizedOperation|AuthorizationFailed|AuthFailure|InvalidClientTokenId|UnrecognizedClientException|ExpiredToken(Exception)?|InvalidAccessKeyId)\b`,
		`\b(SignatureDoesNotMatch|InvalidIdentityToken|AccessDenied(Exception)?|NoPermission|NotAuthenticated|InvalidLogin)\b|\bAADSTS\d{5,}\b`,
		`googleapi: Error 403: Required '[\w.]+' permission`, httpStatus("401"),
		`\bret=-(1|13)\b|mount error\((1|13)\)|initiator reported error \(24 `),
	"throttled": exact(`\b(RequestLimitExceeded|rateLimitExceeded|TooManyRequests|Throttling|ThrottlingException)\b|` + httpStatus("429")),
	"limit-reached": exact(
		`code = ResourceExhausted\b`,
		`\b(AttachmentLimitExceeded|InstanceDiskLimitExceeded|maximum_persistent_disks|resource_limit_exceeded)\b`),
	"volume-not-found": exact(`\b(InvalidVolume|InvalidDiskId)\.NotFound\b`),
	"node-unknown":     exact(`(?i)\bInvalidInstanceID\.NotFound\b`),
	"node-gone":        exact(`(?i)\bInvalidInstanceID\.NotFound\b`),
	"wrong-zone":       exact(`\bInvalidVolume\.ZoneMismatch\b`),
	// FailedPrecondition is what the CSI specification has ControllerPublishVolume answer for a volume that is published to another node.
	"held-outside": exact(`code = FailedPrecondition\b|\b(RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|VolumeInUse)\b`),
	// Aborted is what the specification has for another operation on the same volume.
	"backend-busy": exact(
		`code = Aborted\b`,
		`\b(AttachDiskWhileBeingDetached|IncorrectDiskStatus|IncorrectInstanceStatus|resourceNotReady|RESOURCE_NOT_READY|conflictingRequest|TaskInProgress)\b`,
		`\(locked\)`),
	"quota": exact(
		`\b(\w*LimitExceeded|quotaExceeded|QUOTA_EXCEEDED|QuotaExceeded|VolumeSizeExceedsAvailableQuota|resource_limit_exceeded)\b`,
		`\bret=-122\b`), // EDQUOT
	// ENOSPC of librados.
	"out-of-capacity": exact(
		`code = ResourceExhausted\b|\bResourceExhausted\(`,
		`\b(ZONE_RESOURCE_POOL_EXHAUSTED\w*|InsufficientVolumeCapacity|InsufficientFreeSpace|NotEnoughResources|AllocationFailed|ZonalAllocationFailed|no_space_left_in_location|507 Insufficient Storage)\b`,
		`\bret=-28\b`),
	// The names of the CSI specification for what a claim's access modes become.
	"access-mode":         exact(`(?s)code = (InvalidArgument|FailedPrecondition|Unimplemented)\b.*\b(MULTI|SINGLE)_NODE_(\w+_)?(WRITER|READER_ONLY)\b`),
	"backend-unreachable": exact(`\b(` + networkErrors + `)\b|\bret=-(110|111|112|113)\b`),
	// ETIMEDOUT, ECONNREFUSED, EHOSTDOWN and EHOSTUNREACH of the kernel, as mount.cifs and rbd print them; 8 is ISCSI_ERR_TRANS_TIMEOUT.
	"server-unreachable": exact(
		`\b(`+networkErrors+`)\b`,
		`mount error\((110|111|112|113)\)|exit status (110|111|112|113)\b|\bret=-(110|111|112|113)\b`,
		`initiator reported error \(8 `),
	"operation-pending":  exact(`code = Aborted\b`),
	"invalid-parameters": exact(`code = (InvalidArgument|OutOfRange)\b|\bInvalidParameter(Value|Combination)?\b`),
	// The API server's own refusals, in the words of its Status.
	"secret-missing": exact(`\bsecrets? "[^"]*" not found`),
	"object-missing": exact(`\b(configmap|[a-z]+(\.[a-z0-9-]+)+) "[^"]*" not found`),
	"rbac":           exact(`is forbidden: User "system:serviceaccount:[^"]*" cannot `),
	"denied": exact(
		`admission webhook "[^"]+" denied the request|failed calling webhook "[^"]+"`,
		`ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request`),
	"quota-exceeded": exact(`is forbidden: exceeded quota: [^,]+, requested: |is forbidden: (minimum|maximum) \S+ usage per PersistentVolumeClaim is `),
}

// sure is how sure a cause is that an error's text tells: certain when a code in it says the same.
func sure(id, text string) Confidence {
	_, kind, _ := strings.Cut(id, "/")
	if code := codes[kind]; code.in(text) {
		return Certain
	}
	return Likely
}
