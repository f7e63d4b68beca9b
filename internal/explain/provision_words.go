package explain

import (
	"regexp"
	"strings"
)

// provisionWords are the words of drivers, backends and csi-provisioner when a volume cannot be made. What names another
// object stands before what a cloud answers, codes that fit everything last.
var provisionWords = []signature{
	sig("provision/quota", `quota (limit )?'[^']+' (has been |was |is )?exceeded`),                       // Google answers it with the number of a rate limit
	sig("provision/backend-error", `RequestLimitExceeded|rate.?limit|throttl|too many requests|\b429\b`), // a rate limit is none of the others, and passes
	sig("provision/plugin-not-found", `no volume plugin matched`),
	sig("provision/rbac", `is forbidden: User "|cannot (get|list|watch|create|update|patch|delete) resource "`),
	sig("provision/provisioner-not-running", `dial unix \S+: connect|lost connection to csi driver`),
	sig("provision/selected-node-gone", `failed to get target node|(node|csinode\S*) "[^"]+" not found`),
	sig("provision/source-not-ready",
		`getting handle for DataSource|error getting snapshot|claim in dataSource`,
		`snapshot \S+ (is |was )?(not ready|not bound|not found|being deleted|currently being deleted)`,
		`snapshot.{0,80}(does not exist|not in available state|not completed|not yet ready)|InvalidSnapshot|SnapshotNotFound`,
		`source (volume|snapshot|pvc|disk)\b.{0,120}(not found|not ready|not bound|does not exist|is pending|being deleted|larger|smaller)`,
		`size \d+ is less than the size \d+ for the source|greater than or equal in size to the specified PVC data source`,
		`same volume modes|volume content source.{0,80}(not found|does not exist|different|missing)`,
		`(smaller|less) than (the )?(size of )?(the )?(source|snapshot)|dataSource.{0,60}isn't allowed|flatten.{0,60}progress`),
	sig("provision/no-topology",
		`accessibility requirements|no topology key found|no available topology|topology labels from selected node`,
		`topologyKeys .{0,80}not found`,
		`\b(topology|zone|region|location)s?["']?\s.{0,80}(not (allowed|supported|available|found|accessible|valid)|is invalid|unknown|doesn't exist|does not exist)`,
		`\bno (\S+ ){0,2}(datastores?|nodes?|zones?)( were| was)? found.{0,60}(topolog|accessib|zone)`,
		`failed to (pick|find|determine|get) (a )?(zones?|region|location|topology)|requisite topology`,
		`not accessible (to|from) (all |any )?(\S+ )?nodes`,
		`availability ?zones? .{0,60}(invalid|not available|not supported|required)|allowedTopologies`),
	sig("provision/secret-missing",
		`error getting secret|secrets? "[^"]+" not found`,
		`(failed|unable|could not|cannot) (to )?(get|find|fetch|read|retrieve|load) (\S+ ){0,4}secrets?\b`,
		`name and namespace template from params`,
		`\bsecrets? (\S+ ){0,3}(is|are|was|were) (empty|missing|nil|not (found|set|provided|specified))`,
		`(empty|missing|nil) (\S+ )?secrets?\b|\bno secrets?\b|in secrets? (is |are |was )?(missing|empty|not found)`,
		`missing \S+ field \S+ in secrets?`,
		`(key|field|user|password|token)\S* .{0,40}not (found|set|present|provided) in (the )?secrets?`),
	sig("provision/out-of-capacity", `insufficient (free |available |disk )?(space|capacity)`), // before the code, which some drivers choose for it
	sig("provision/invalid-parameters",
		`capability is not reported`,
		`size .{0,80}(exceed|greater than|larger than|above|below|smaller than|less than|more than).{0,60}(limit|max|min)`,
		`code = OutOfRange\b`), // before limits of another kind
	// A driver of shares mounts its server where the controller runs; mount.cifs and mount.ceph number what went wrong.
	sig("provision/permission", mountRefused),
	sig("provision/backend-unreachable", mountUnanswered+`|operation now in progress`),
	sig("provision/permission", `operation not permitted`), // also of a command that sets a quota
	sig("provision/quota",
		`(^|[\s"'(\[:=])quotas?([\s"'):\],.]|$)|quota.?(limit|exceed)|exceed\w*.{0,20}quota|\bLimitExceeded\b|\b(service|tenancy|account|subscription|project|tenant)s? limits? (\S+ ){0,2}(exceed|reach)`,
		`\b(volume|disk|snapshot|account|capacity|access ?point|storage|resource)s?.?limit.{0,40}(exceed|reach)`,
		`(Volume|Disk|IOPS|AccessPoint|Capacity|resource_|Subscription)_?Limit_?Exceeded`,
		`(reached|exceed(s|ed|ing)?|over) (a |the |your |its |account |approved )*(\S+ ){0,3}(limit|maximum number)`,
		`maximum number of (volumes|disks|shares|file ?systems|exports|snapshots|luns).{0,60}(exceed|reach|allowed)`,
		`too many (volumes|disks|shares|luns)`),
	sig("provision/permission",
		`code = (PermissionDenied|Unauthenticated)\b|\b40[13]\b|unauthori[sz]ed|not authori[sz]ed|AuthorizationFailed|AuthFailure`,
		`does not have (authorization|permission)|Access ?Denied|permission denied|operation not permitted`,
		`permission (error|to perform)`,
		privilege,
		`(required|missing|insufficient|no|lacks?) ('\S+' |\S+ )?permissions?\b|NoPermission`,
		`authenticat\w+ (failed|failure|error|required)|(failed|unable|could not|cannot) (to )?(authenticate|log ?in|authorize)`,
		`cannot complete login`,
		`(invalid|expired|wrong|incorrect|no valid|bad) (\S+ )?(credentials?|token|password|user ?name|api ?key|client secret)`,
		`ExpiredToken|InvalidClientTokenId|InvalidAccessKeyId|SignatureDoesNotMatch|NoCredentialProviders|InvalidIdentityToken`,
		`AADSTS\d+|invalid_grant|invalid_client|no EC2 IMDS role|get credentials|refresh cached credentials|AssumeRole`,
		`could not find default credentials|logon failure|rados: ret=-(1|13)\b|Policy doesn't allow`),
	sig("provision/access-mode",
		`(access ?modes?|MULTI_NODE_\w+|SINGLE_NODE_\w+|ReadWriteMany|ReadOnlyMany|ReadWriteOncePod|\bRWX|\bROX|\bRWOP)\b.{0,120}(not (supported|valid|allowed|possible|available)|n't supported|unsupported|invalid|cannot|only|does ?n.t|must|requires)`,
		`multi.?node (writ|read|attach|access)\w* .{0,80}(only|not)`,
		`(not support|n't support|unsupported|invalid|only supports?|only allowed|cannot|requires?).{0,100}(access ?mode|MULTI_NODE|SINGLE_NODE|ReadWriteMany|ReadOnlyMany|ReadWriteOncePod|\bRWX\b|\bROX\b|\bRWOP\b)`,
		`(volume|access|requested) ?capabilit(y|ies)\b.{0,120}(not (supported|valid|allowed)|unsupported|invalid)`,
		`\bcapabilit(y|ies) (at index|\[?\d|#\d).{0,60}(not (supported|valid|allowed)|unsupported|invalid)`,
		`(unsupported|invalid|not support\w*).{0,40}(volume|access) ?capabilit`,
		`(block|raw|filesystem|mount) (access type|volume ?mode|volumes?|mode|device)\b.{0,40}(not supported|unsupported|not allowed)`,
		`(not support|unsupported).{0,30}(block|filesystem|raw) (volume|mode|access)`),
	sig("provision/backend-unreachable", noBackends),
	sig("provision/out-of-capacity",
		`not enough (\S+ ){0,3}(space|capacity|storage|room|resources|nodes|available)`,
		`insufficient\S* (\S+ ){0,3}(space|capacity|storage|room|disk|resources)|no (\S+ )?space left|out of (disk )?space`,
		`not have (enough|sufficient)`,
		`\b(no|lack of|without) (\S+ )?(free|available|sufficient) (\S+ )?(space|capacity|storage|extents|pool)`,
		`InsufficientVolumeCapacity|InsufficientFreeSpace|RESOURCE_POOL_EXHAUSTED|AllocationFailed|SkuNotAvailable`,
		`\bno (valid|weighed|suitable|available|eligible) (\S+ )?(back ?ends?|hosts?|pools?|datastores?|aggregates?|volume groups?|storage)`,
		`pool.{0,40}(is )?full\b|ret=-28\b|exceeds? (the )?(available|free|remaining)`),
	sig("provision/backend-unreachable",
		`\b(`+networkErrors+`)\b`,
		`connecting failed|connection (refused|reset|timed out)|i/o timeout|no such host|no route to host|network is unreachable`,
		`dial tcp|server misbehaving|x509:|host is down|ret=-11[0-3]\b`),
	sig("provision/invalid-parameters",
		`code = InvalidArgument\b|claim Selector is not supported|unknown parameter|reserved namespace csi\.storage`,
		`fstype specified in parameters with both|infeasible error`,
		`(invalid|unsupported|illegal|unrecognized) (\S+ ){0,3}(parameter|value|argument|size|type|option|tier|profile|storage ?class|disk|request|format)`,
		`InvalidParameter|(missing|required) (\S+ ){0,3}parameter`,
		`\b(property|parameter|option|attribute) is (unknown|unsupported|not (known|recogni[sz]ed|supported))`,
		`parameter \S+ .{0,40}(required|missing|invalid|not supported)`,
		`(must|should) be (at least|greater|less|between|a multiple|one of|set|specified)`,
		`(minimum|maximum) (\S+ )?(size|capacity|value)|too (small|large)`,
		`(smaller|less|larger|greater|more) than (the )?(minimum|maximum|allowed|min|max)|less than requested capacity`,
		`does not support (dynamic provisioning|snapshot restore|clon|volume clon)|is for driver \S+ which does not match`,
		`missing configuration for cluster`,
		`(pool|volume ?group|datastore|storage ?policy|file ?system|fsName|backend|volume type|disk ?type|share|export|dataset|storage class)\S* .{0,60}(not found|does not exist|doesn't exist|not exist|could not be found)`,
		`(no such|unknown) (pool|file ?system|volume group|backend|dataset)|reason given by server: No such file|ret=-2\b`),
	sig("provision/backend-unreachable",
		`code = (DeadlineExceeded|Unavailable)\b|deadline exceeded|timed? ?out\b|timeout|unexpected EOF|\b50[234]\b`,
		`service unavailable|bad gateway|not reachable|unreachable|could not (connect|resolve)`,
		`(failed|unable|cannot) (to )?(connect|reach|resolve)|HEALTH_ERR`),
	sig("provision/operation-pending",
		`code = Aborted\b|operation .{0,160}(already exists|in progress|pending|already running)`,
		`already (being )?(processed|in progress|creating|in process)`,
		`(still|is) (being created|creating|in progress|provisioning)|in state (creating|provisioning)`),
	sig("provision/out-of-capacity", `code = ResourceExhausted\b`),
}

// driverSays is the driver's own answer, without the prefixes of the provisioner.
func driverSays(t *trouble) string {
	_, words := grpc(t.Text)
	words = failedPrefix.ReplaceAllString(words, "")
	if words = strings.TrimSpace(words); strings.Count(words, `"`)%2 == 1 {
		words = strings.TrimSuffix(words, `"`) // the answer stood in quotes
	}
	return words
}

// failedPrefix is what the provisioner's library puts before every error up to version 12.
var failedPrefix = regexp.MustCompile(`(?i)^failed to provision volume with StorageClass "[^"]*": `)

// sentence ends a text with a full stop, so that another can follow.
func sentence(s string) string { return strings.TrimRight(s, ". ") + "." }
