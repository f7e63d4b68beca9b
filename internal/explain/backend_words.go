package explain

import (
	"regexp"
	"strings"
)

// What backends say alike of an attach, a detach and a deletion.
const (
	// machineGone: a machine is not found: the noun stands close before, so that it is not the volume that is missing.
	machineGone = `\b(instance|node|server|droplet|linode|vm|virtual ?machine|host|machine|worker)s?\b(\W+\S+){0,2}?\W+(was not found|wasn't found|not found|does not exist|doesn't exist|could not be found|notFound|no longer exists)|` +
		`(could not|cannot|can't|failed to|unable to|couldn't) (find|get|locate) (the )?(instance|node|server|droplet|linode|vm|virtual ?machine|host)\b|` +
		`InvalidInstanceID|ResourceNotFound.{0,120}/virtualMachine|/instances/[^ ']+' was not found|unknown node|invalid node ?id|no such (instance|node|server)|csinode\.storage\.k8s\.io "[^"]*" not found|has no NodeID annotation`

	tooManyCalls = `rateLimitExceeded|rate limit|RequestLimitExceeded|Throttl|TooManyRequests|too many requests|\b429\b|quota exceeded for quota metric|SNAT|exceeded the rate`

	// denied: the backend does not take the driver's account.
	denied = `code = (PermissionDenied|Unauthenticated)\b|\b40[13]\b|forbidden|unauthori[sz]ed|not authori[sz]ed|NotAuthorized|AuthorizationFailed|authori[sz]ation (failed|failure|denied)|AuthFailure|Access ?Denied|permission ?denied|PERMISSION_DENIED|` +
		`operation not permitted|NoPermission|permission (error|to perform)|does not have (authori[sz]ation|permission)|insufficient (permission|privilege)|(lacks|missing|no|required) [^.]{0,40}(permission|privilege)|` +
		`authenticat\w+ (failed|failure|error|required)|not ?authenticated|(failed|unable|could not|cannot) (to )?(authenticate|log ?in|authori[sz]e)|cannot complete login|incorrect user name|` +
		`(invalid|expired|wrong|incorrect|bad|no valid) (\S+ )?(credentials?|token|password|client secret|api ?key|access key)|(token|credential|session)s? (\S+ ){0,5}?((is|are|has|have|was) )?(expired|invalid)|` +
		`ExpiredToken|InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|SignatureDoesNotMatch|NoCredentialProviders|InvalidIdentityToken|AADSTS\d+|invalid_(client|grant)|` +
		`no EC2 IMDS role|get credentials|refresh cached credentials|AssumeRole|could not find default credentials`

	// busyNow: an operation of the backend has the volume or the machine.
	busyNow = `(currently|still) (being )?(detached|detaching|attaching)|being (detached|attached|migrated|resized|cloned|snapshotted|backed up|stopped|started|rebooted|rebuilt)|pending .{0,24}(event|operation|action)|\block(ed)?\b|` +
		`another (operation|task|action|request)|operation .{0,60}(in progress|already exists|is running)|task .{0,40}in progress|in (task_state|a transient state|(a )?transition)|not allowed in the current state|` +
		`IncorrectState|IncorrectDiskStatus|IncorrectInstanceStatus|InvalidState|status (is )?['"]?(detaching|attaching|reserved|maintenance|retyping|backing-up|downloading)|\bbusy\b|conflict with (an|the) (ongoing|current)|` +
		`resource ?not ?ready|(backup|snapshot|restore|rebuild|migration) .{0,40}(running|in progress|ongoing)`
)

// networkErrors are the names that operating systems and their libraries give to a peer that cannot be reached (errno(3), and
// Node's for name service).
const networkErrors = `ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN`

// codes are error codes of gRPC and of backends' APIs that mean one thing, whatever words stand around them.
var codes = map[string]*regexp.Regexp{
	"permission":         regexp.MustCompile(`code = (PermissionDenied|Unauthenticated)\b|\b(UnauthorizedOperation|AuthorizationFailed|InvalidClientTokenId|ExpiredToken|InvalidAccessKeyId|NoPermission)\b`),
	"throttled":          regexp.MustCompile(`\b(RequestLimitExceeded|rateLimitExceeded|TooManyRequests|Throttling)\b`),
	"limit-reached":      regexp.MustCompile(`code = ResourceExhausted\b|\b(AttachmentLimitExceeded|InstanceDiskLimitExceeded)\b`),
	"volume-not-found":   regexp.MustCompile(`\b(InvalidVolume|InvalidDiskId)\.NotFound\b`),
	"node-unknown":       regexp.MustCompile(`(?i)\bInvalidInstanceID\.NotFound\b`),
	"node-gone":          regexp.MustCompile(`(?i)\bInvalidInstanceID\.NotFound\b`),
	"held-outside":       regexp.MustCompile(`\bRESOURCE_IN_USE_BY_ANOTHER_RESOURCE\b`),
	"quota":              regexp.MustCompile(`\b(VolumeLimitExceeded|MaxIOPSLimitExceeded|quotaExceeded|QUOTA_EXCEEDED|QuotaExceeded|VolumeSizeExceedsAvailableQuota|LimitExceeded)\b`),
	"out-of-capacity":    regexp.MustCompile(`code = ResourceExhausted\b|\b(ZONE_RESOURCE_POOL_EXHAUSTED\w*|InsufficientVolumeCapacity)\b`),
	"operation-pending":  regexp.MustCompile(`code = Aborted\b`),
	"timeout":            regexp.MustCompile(`code = DeadlineExceeded\b`),
	"invalid-parameters": regexp.MustCompile(`code = (InvalidArgument|OutOfRange)\b`),
	// The API server's own refusals, in the words of its Status.
	"secret-missing": regexp.MustCompile(`\bsecrets? "[^"]*" not found`),
	"rbac":           regexp.MustCompile(`is forbidden: User "system:serviceaccount:[^"]*" cannot `),
}

// sure is how sure a cause is that an error's text tells: certain when a code in it says the same.
func sure(id, text string) Confidence {
	_, kind, _ := strings.Cut(id, "/")
	if code := codes[kind]; code != nil && code.MatchString(text) {
		return Certain
	}
	return Likely
}
