package explain

import (
	"regexp"
	"strings"
)

// kubeletWords are what the kubelet says before it calls the driver: most of it belongs to other hops, and must not be taken
// for a driver's error.
var kubeletWords = []signature{
	sig("register/not-registered", `not found in the list of registered CSI drivers`),
	sig("register/socket-dead", `error while dialing.{0,40}dial unix \S*(csi|plugin)\S*\.sock`),
	sig("attach/not-requested",
		`WaitForAttach failed|GET error for volume attachment|failed to get volume attachment`,
		`volumeattachments\.storage\.k8s\.io "|is not attached for volume attachment|failed to fetch publishContext`),
	sig("schedule/node-affinity-conflict", `NodeAffinity check failed`),
	sig("schedule/rwop-in-use", `ReadWriteOncePod access mode and is already in use`),
	sig("bind/claimref-broken", `ClaimRef\.UID \S+ does not point to claim|nil pv\.Spec\.ClaimRef`),
	sig("claim/pvc-missing", `failed to fetch PVC from API server|PVC is (being deleted|not bound)|has empty pvc\.Spec\.VolumeName`),
	sig("start/not-the-volume", `has volumeMode (Block|Filesystem), but is specified in`),
	sig("expand/node-failed", `failed while expanding volume|NodeExpandVolume failed|Expander\.NodeExpand`),
	sig("publish/ephemeral-not-allowed", `volume mode "?Ephemeral"? not supported|failed to check volume lifecycle mode`),
	sig("publish/selinux-conflict", `different SELinux label|conflicting SELinux labels`),
	sig("stage/secret-missing", `NodeStageSecretRef|NodePublishSecretRef|failed to find the secret`),
	sig("start/ownership-slow", `applyFSGroup failed for vol .{0,200}(context|deadline|timed? ?out)`),
	sig("publish/stale-publish-mount", `(applyFSGroup failed|error checking for SELinux support).{0,800}(stale (nfs )?file handle|transport endpoint is not connected|socket (is )?not connected|host is down)`),
	sig("stage/device-unreadable", `(applyFSGroup failed|error checking for SELinux support).{0,800}input/output error`),
	sig("publish/permission", `applyFSGroup failed|error checking for SELinux support`),
}

// The numbers of mount.cifs and mount.ceph (errno(3)) for a server that refuses, and for one that does not answer.
const (
	mountRefused    = `mount error[ (:]+(13|1|126|127|128)\b`
	mountUnanswered = `mount error[ (:]+(3|5|101|104|107|110|111|112|113|115)\b`
)

// pullsImage: the volume's files are those of a container image, which its driver pulls.
const pullsImage = `\b(pull\w*|fetch\w*|resolve)\b.{0,20} (image|artifact|model|reference|manifest)s?\b.{0,900}`

var pulled = phrase(pullsImage)

// mountWords are what drivers say when a volume cannot be mounted into a pod. A driver that does not stage says at publish what
// others say at stage, so the two hops share one table. They are looked for in what telling leaves of an error.
var mountWords = []signature{
	sig("publish/ephemeral-not-allowed", `ephemeral.{0,40}(is |are )?not (supported|allowed)`),
	sig("publish/selinux-conflict", `SELinux (label|context|mount).{0,60}(conflict|mismatch|differ)`),
	sig("publish/provider-missing",
		`provider not found: provider|error connecting to provider|failed to find provider binary`,
		`provider \S+ (is )?not (registered|installed)|dial unix \S*provider\S*\.sock`,
		`failed to mount secrets store objects.{0,300}TARGET-PATH\S*:? no such file`,
		`failed to mount secrets store objects.{0,300}failed to write file.{0,300}: (no|\*+) such file`), // a key called password has the word after it masked
	sig("publish/helper-pod-not-running",
		`mountpoint pod`,
		`mount ?pod\b.{0,160}(not ready|is not|isn't|not found|not running|timeout|timed out|fail|pending|unschedulable|evicted|cannot be created|not be created)`,
		`(wait|waiting) for (the )?(mount ?pod|fuse pod|share[ -]?manager|fuse-?server)`,
		`(fuse|helper|sidecar|proxy|share-?manager)[ -](pod|container|server).{0,120}(not ready|not running|not found|isn't|is not|timeout|timed out|fail|pending|waiting|not yet)`,
		`share manager.{0,80}(not |waiting|fail|error|isn't)|failed to (find|inject) the sidecar container`),
	sig("publish/object-missing",
		`secretproviderclass|SecretNotFound|ResourceNotFoundException|can't find the specified secret`,
		`secret \[?projects/\S+ (not found|has no versions)|configmaps? "[^"]*" not found`,
		`(configmap|config map) \S+ (does not exist|not found)|serviceaccounts? "[^"]*" not found`,
		`[a-z]+\.[a-z0-9.-]+\.[a-z]{2,} "[^"]+" not found|NoSuchBucket|bucket.{0,60}(does not exist|not found)`),
	sig("stage/secret-missing",
		`secrets? "[^"]*" not found|secrets? \S{1,120} (does not exist|doesn't exist|not found)`,
		`secrets?\b.{0,40}(cannot|can't|must not|may not|can not) be (nil|empty)`,
		`(provided|missing|no|empty|nil|without) (\S+ )?secrets?\b`,
		`secrets? (is|are|was) (nil|empty|missing|not (provided|found|set))`,
		`secret.{0,60}(lacks|has no|does not (have|contain)|missing) (the )?(key|field)|missing (ID|key) field`,
		`(could not|cannot|failed to) (get|find|read) (account |storage )?(key|credentials?).{0,30} (from|in) .{0,40}secret`,
		`(username|password|user name).{0,30}(must be|not) (provided|specified|empty|set)`),

	sig("publish/permission", pullsImage+`(\b40[13]\b|unauthori[sz]ed|denied|forbidden|no basic auth credentials|authentication required|authorization failed)`),
	sig("publish/object-missing", pullsImage+`(not found|manifest unknown|name unknown|does not exist)`),

	// What the node lacks. A program that the driver starts on the host is the host's, all others are the image's: mount(8) misses
	// its helper where it runs, in the driver's container, or without an answer of a driver beside the kubelet. iscsiadm ends with 18 or 20
	// where it finds no iscsid (ISCSI_ERR_ISCSID_COMM_ERR, _NOTCONN).
	sig("stage/host-requirement", `(nsenter|chroot)\b.{0,600}/sbin/mount\.<?[a-z]`),
	sig("stage/tool-missing", `^rpc error: .*/sbin/mount\.<?[a-z]`),
	sig("stage/host-requirement",
		`systemd (unit|service|scope)\b|\bsystemd-run\b|org\.freedesktop\.systemd`,
		`(nsenter|chroot)\b.{0,300}(no such file|not found|can't execute|cannot execute|failed to execute|failed to run)`,
		`(iscsiadm|multipath|multipathd|nvme|cryptsetup|mount\.(nfs4?|cifs|ceph))['"]?: .{0,20}((command |executable file )?not found|no such file)`,
		`(iscsid|multipathd|open-iscsi|iscsi-initiator-utils|nfs-common|nfs-utils|cifs-utils|nvme-cli)\b.{0,60}(not found|not installed|not running|isn't running|is missing|not available|could not be found|inactive)`,
		`(please|need to|must|should) install .{0,60}(iscsi|nfs|cifs|multipath|cryptsetup)|can ?not connect to iSCSI daemon`,
		`could not communicate to iscsid|daemon died|initiatorname\.iscsi|no initiator name|Could not load transport`,
		`(iscsi|sendtargets).{0,80}exit status (127|18|20)\b|modprobe|kernel module|module \S+ (is )?not (found|loaded)`,
		`rpc\.statd|rpc-statd|rpcbind is not`,
		`/dev/(nvme-fabrics|fuse|nbd\d*|mapper/control|infiniband\S*)\b.{0,60}(no such|not found|cannot|could not|failed|does not exist)`,
		`device not found, try 'modprobe|/sbin/mount\.<?[a-z]`,
		`unknown filesystem type '?(nfs4?|cifs|smb3|ceph|glusterfs|lustre|9p|beegfs|gpfs|afs|virtiofs|fuse\S*)'?`,
		`mount\.(nfs4?|cifs|ceph|lustre|beegfs)\b.{0,300}: no such device|are the \S+ modules loaded|hugepages`,
		`image (feature set mismatch|uses unsupported features)|is host /dev mounted`,
		`\b(client|container|daemon|agent|service) (was |is )?not (found|running|installed|active|available|up) on (the |this )?(host|node)\b`),
	sig("stage/tool-missing",
		`executable file not found in \$PATH|fork/exec \S+: no such file`,
		`(mkfs|fsck|mount|blkid|resize2fs|e2fsck|xfs_\w+|btrfs|tune2fs|lsblk)(\.[a-z0-9]+)?['"]?:? (command )?not found`,
		`(mkfs|fsck)\.[a-z0-9]+\S*:? no such file|error 2 \(no such file or directory\) while executing (fsck|mkfs)\.`,
		`exit status 127\b`),

	sig("stage/duplicate-uuid", `duplicate UUID|UUID .{0,60}already (mounted|in use|exists)`),
	sig("stage/wrong-device",
		`failed to manually set link|symlink \S+ \S+: file exists|claims to be .{0,80}(but|should)|refusing to mount`,
		`serial check failed|(serial|wwn|wwid|uuid|device id)\b.{0,80}(mismatch|does not match|doesn't match|differs|not match)`,
		`points? to (the )?(wrong|another|different) (device|disk|volume)|belongs to (another|a different) volume`),
	sig("stage/device-busy",
		`still (mounted|attached|mapped|published|open|in use) (on|to|by|at) (\w+ )?(node|host|worker|server|instance|machine)`,
		`already contains mpath_member|already mounted or mount point busy|is (apparently )?in use by the system`,
		`is mounted\b.{0,40}(will not|cannot continue)|contains a mounted filesystem|can'?t open exclusively`,
		`device or resource busy|/dev/\S+ (is )?already mounted (on|at)\b|\b(device|dataset|volume) (is )?already mounted (on|at)\b|is in use\.\s*\S*\s*e2fsck|still being used`,
		`wrong medium type`,
		`(device|disk|image|lun)\b.{0,80}(is )?(already )?(in use|used|busy|held|opened|locked) (by|on|elsewhere)|held open by`,
		`exclusive (open|lock|access).{0,60}(fail|denied|held)`,
		`already (attached|mounted|opened|mapped) (to|on|by|at) (another|a different|other)`),
	sig("stage/filesystem-mismatch",
		`not a valid LUKS device|it already contains|but current format is|already formatted (as|with)`,
		`formatted with .{0,30}(but|instead|expected|requested)`,
		`(file ?system|fs ?type)\b.{0,60}(mismatch|differs?|does not match|doesn't match|not match)`,
		`(requested|expected|desired) (file ?system|fs ?type).{0,80}(but|found|got)|contain an existing file ?system`,
		`pro[bp]ably partitions|contains? (\w+ ){0,2}partitions?\b|partition table|has partitions`,
		`unknown filesystem type '?(crypto_LUKS|LVM2_member|linux_raid_member|zfs_member|mpath_member|ceph_bluestore|bcache|drbd|swap|isw_raid_member|ddf_raid_member|jmicron_raid_member)'?`),
	sig("stage/read-only-device",
		`write access unavailable|(recovery|replay).{0,40}(on )?(a )?read-?only`,
		`cannot (mount|format) unformatted disk .{0,120}read-?only|write[ -]protected|cannot mount .{0,120}read-only`,
		`cannot remount .{0,80}read-write|read-only file system while`,
		`(cannot|can.t|could not|failed to|unable to) open /dev/\S+ ?read-only file system`),
	sig("stage/filesystem-unsupported",
		`unknown filesystem type|unsupported (feature|option|file ?system|superblock|ext4|xfs)`,
		`has (unsupported|unknown) .{0,30}features?|unknown (incompatible|ro-compat|incompat) features?|incompatible feature`,
		`(file ?system|fs ?type) \S{1,20} (is )?(not supported|unsupported)|not supported (file ?system|fs ?type)`,
		`get a newer version of e2fsck|cannot be safely mounted by this kernel|: no such device\.?\s*$`),
	sig("stage/filesystem-corrupt",
		`structure needs cleaning|'?fsck'? found errors|unexpected inconsistency|run fsck manually`,
		`need terminal for interactive repairs|fsck (failed|error).{0,60}(exit status|code) (4|8|12)\b|bad magic number in super`,
		`superblock (is |could be )?(corrupt|invalid|damaged)|(corrupt|bad|invalid) (group descriptor|inode|journal|superblock)`,
		`bad message|needs? (to be )?(repair|recover|journal recovery)|xfs_repair|metadata corruption|corrupt(ed|ion)`,
		`checksum (error|mismatch|invalid|does not match|verify failed)|dirty log|unclean`,
		`journal (checksum|superblock|has aborted|is corrupt)|open_ctree failed|could not (repair|correct)`,
		`parent transid verify failed|file ?system (issues?|problems?) .{0,20}(detected|found)`),

	// mount.cifs and mount.ceph number what went wrong.
	sig("stage/permission", mountRefused),
	// A share has no device that could be unreadable: its server failed.
	sig("stage/server-unreachable",
		`mount\.(nfs4?|cifs|smb3|ceph|lustre|glusterfs|beegfs)\b.{0,400}input/output error|is the (MGS|MDS|MDT|server) running`,
		`cannot send after (transport )?endpoint shutdown`,
		mountUnanswered,
		`no (active )?(mds|mon)\S* (server )?is up|unable to get monitor info|rbd: map failed: \((5|104|107|110|111|113)\)`),
	sig("stage/bad-mount-options", `mount error[ (:]+(22|95|524)\b`),
	sig("stage/host-requirement", `mount error[ (:]+19\b|filesystem not supported by the system`), // ENODEV
	sig("stage/driver-error", `mount error[ (:]+\d+`),

	sig("stage/server-unreachable",
		`(write|connect) to /dev/nvme-fabrics\b|input/output error.{0,400}\btraddr\W|\btraddr\W.{0,400}input/output error`,
		`(nvme[ -]|\bnqn\.).{0,200}(connect|add \w* ?controller).{0,200}input/output error`), // a login that fails; the kernel's log says why
	sig("stage/host-requirement", `mount -t +(nfs4?|cifs|smb3|ceph|lustre|glusterfs|beegfs|gpfs|9p|virtiofs)\b.{0,600}: no such device`), // ENODEV of mount(2): no module for it
	sig("stage/device-unreadable",
		`input/output error|\bI/O error|remote I/O error|can't read super ?block|no such device or address|no medium found`,
		`short read|\bENXIO\b|transport-offline|rejecting I/O to offline device|attempt to access beyond end of device`),
	sig("stage/bad-mount-options",
		`(unknown|unrecogni[sz]ed|invalid|bad|incorrect|unsupported|illegal|conflicting) mount (option|flag|parameter)s?`,
		`incorrect mount option was specified`,
		`mount options? .{0,80}(invalid|not supported|unsupported|not allowed|not permitted|incompatible|conflict|unknown|rejected)`,
		`unknown parameter|bad value for|unrecogni[sz]ed (option|parameter)|nfs version or transport protocol is not supported`,
		`protocol not supported|: bad option;|bad option:|invalid option`,
		`(\bmount(ing)?\b|\bmount\.\w|mount\(2\)).{0,500}invalid argument|invalid argument.{0,300}\bmount`),
	sig("stage/permission",
		`access denied by server|status_(logon_failure|access_denied|account\w*|password\w*)|nt_status_access_denied`,
		`login failed due to authorization|authori[sz]ation (fail|error|denied)|authentication (fail|error|denied)`,
		`auth\w* (fail|denied)|not authori[sz]ed|unauthori[sz]ed|access ?denied|forbidden`,
		`(invalid|wrong|bad|expired|incorrect) (credential|password|passphrase|token|access key|secret key|key)s?`,
		`no key available with this passphrase|required key not available|invalid client|signature\w* (does not|doesn't) match`,
		`invalidaccesskeyid|expiredtoken|status ?code:? (401|403)\b|code: 403\b|iam role must be|assumerole\w*|aadsts\d+`,
		`nmi response failed|failed to (get|acquire) (\w+ ){0,3}token|could not find default credentials|identity not found`,
		`\(13\) permission denied|mount\S* ?.{0,200}(permission denied|operation not permitted)`,
		`map failed.{0,80}(permission denied|operation not permitted)`),
	sig("stage/server-unreachable",
		`operation now in progress|connection (timed out|refused|reset)|no route to host|host is (down|unreachable)`,
		`network is (unreachable|down)|could not resolve|no such host|name or service not known`,
		`temporary failure in name resolution|failed to resolve|lookup \S+.{0,60}(timeout|server misbehaving|i/o timeout)`,
		`i/o timeout|portmap query|rpc: (timed out|program not registered|port mapper|remote system error|unable to receive)`,
		`not responding|unreachable|initiator reported error|could not log ?in|cannot make (a )?connection`,
		`iscsi.{0,100}(timed out|timeout|log(ging)? ?in|login|discover)|failed to log ?in`,
		`(monclient|monitor|mds|portal|gateway|metadata server|filer|nas|server|endpoint)\b.{0,60}(timed out|timeout|is down|unavailable|not available)`,
		`mount system call timed out|mount attempt .{0,20} failed due to timeout|failed to (connect|dial)|dial tcp|tls handshake`,
		`nvme connect.{0,80}(fail|error)|all (portals|paths|targets) .{0,40}(fail|down|unreachable)|no process`),
	// A bind mount of the staging path, by mount(8) and by busybox.
	sig("publish/not-staged", `special device STAGING-PATH\S* does not exist|mounting STAGING-PATH\S* on \S+ failed: no such file`),
	sig("stage/device-missing",
		`not attached to (the )?(node|vm|instance|server|host)|\w*DeviceNotFound\b|has(n't| not) been attached`,
		`no block device frontend|special device \S+ does not exist|the file /dev/\S+ does not exist`,
		`device \S{0,160} ?(\S+ )?(is )?(not (found|ready|attached|available|exist|present|visible|yet|accessible)|does(n't| not) exist|missing|did(n't| not) appear|never appeared)`,
		`/dev/\S+: no such file|/dev/\S+ is not accessible|(lstat|stat|open|readlink|evalsymlinks) /dev/\S*: no such file`,
		`file not found for pattern`,
		`(could not|couldn't|cannot|can't|unable to|failed to|did not|no|error) (find|finding|locate|get|getting|determine|detect|discover|match|resolve|identify|attach|verify|verifying).{0,60}\b(device|disk|lun|gce pd|nvme|volume path|block ?dev\w*|dm name)`,
		`no (matching |such |block )?(device|disk|lun)s?( path)? (found|with|for|matching|visible|exist|appear)`,
		`(device|disk|lun)( path)? .{0,80}(not found|does not exist|not attached|isn't attached|is empty)`,
		`(timed? ?out|timeout).{0,60}wait\w*.{0,60}(device|disk|path|lun|attach|link|udev)`,
		`wait\w*.{0,40}(device|disk|lun|path)\b.{0,80}(timed? ?out|timeout|exceeded|to appear|to become)`,
		`(logical volume|volume group|dataset|zvol|image|subvolume).{0,120}(not found|does not exist)|not ready for workloads`),

	sig("publish/not-staged",
		`(not|isn't|hasn't been|has not been|never|n't).{0,20}staged`,
		`staging ?(target )?path.{0,40}(not mounted|not a mount ?point|no longer valid|does not exists?|doesn't exist|not exist|is not (a )?(mounted|mount|valid)|not (found|set|staged)|no such file)`,
		`must (first )?be staged|nodestage.{0,60}(must|before|first)`,
		`STAGING-PATH.{0,80}(not mounted|not a mount|no such file|does not exist|is not a)`),
	sig("publish/stale-publish-mount", `transport endpoint is not connected|stale (nfs )?file handle|socket (is )?not connected|software caused connection abort`),
	sig("stage/operation-pending",
		`operation .{0,400}(already exists|in progress|is pending|pending|in flight|is already|ongoing)|already an operation`,
		`another operation|pending operation|in-?flight|already (being|in the process of)`,
		`is (still )?(in progress|being (staged|published|mounted|processed))`,
		`volume.{0,80}(locked|lock).{0,60}(operation|request|held)|code = Aborted`),
	sig("publish/permission",
		`(chown|chmod|chgrp|lchown|setfacl|mkdir|create)\b.{0,200}(permission denied|operation not permitted)|permission ?denied`,
		`operation not permitted|failed to chmod|code = (PermissionDenied|Unauthenticated)`),
	sig("stage/timeout", `code = DeadlineExceeded|deadline ?exceeded|timed? ?out|timeout|code = Canceled|context canceled`),
}

// What in an error tells nothing and holds words that would be taken for a cause.
var (
	// The kubelet's frame: MountVolume.SetUp failed for volume "pvc-1" : ...
	frame = regexp.MustCompile(`^(?:MountVolume|MapVolume)\.\w+[^"]{0,40}"[^"]*" : `)
	// mount(8) says this of whatever went wrong, and that a helper may be missing also of disks, which need none.
	commonplace = regexp.MustCompile(`(?is)wrong fs type, bad option, bad superblock on \S+\s*missing codepage or helper program, or other error\.?|dmesg\(1\) may have more information after failed mount system call\.?|in some cases useful info is found in syslog - try\s+"?dmesg \| tail"?( or so)?\.?`)
	helperHint  = regexp.MustCompile(`(?is)\(for several filesystems \(e\.g\. nfs, cifs\) you might\s+need a /sbin/mount\.<type> helper program\)`)
	stagingPath = regexp.MustCompile(`/\S*/(?:plugins/kubernetes\.io/csi/\S*globalmount|volumeDevices/staging/)[^\s":,;]*`)
	targetPath  = regexp.MustCompile(`/\S*/pods/[^\s":,;]*/volumes/[^\s":,;]*`)
	// The mount command's own arguments name options and paths, not what went wrong.
	arguments = regexp.MustCompile(`(?is)mounting (?:command|arguments):.*?(output:|$)`)
)

// telling is an error without its frame, commonplaces and long paths.
func telling(text string) string {
	text = commonplace.ReplaceAllString(frame.ReplaceAllString(text, ""), "")
	if strings.Contains(text, " /dev/") {
		text = helperHint.ReplaceAllString(text, "")
	}
	text = arguments.ReplaceAllString(text, "$1")
	return targetPath.ReplaceAllString(stagingPath.ReplaceAllString(text, "STAGING-PATH"), "TARGET-PATH")
}

// mountTells is the cause that an error of mounting tells. Every cause asks it of the same few texts.
func (w *world) mountTells(text string) string {
	cause, known := w.memo[text]
	if !known {
		if cause = told(kubeletWords, text); cause == "" {
			cause = told(mountWords, telling(text))
		}
		w.memo[text] = cause
	}
	return cause
}

// vagueMount: mount(8) and drivers say these for so many reasons that only the kernel's log or the device tells which.
var vagueMount = phrase(`wrong fs type, bad option, bad superblock|exit status \d+\s*$|failed with mount failed: exit status \d+`)

// fabricsLogin: a target does not answer, or refuses the host, or the host lacks the daemon that logs in: the report tells.
var fabricsLogin = phrase(`(write|connect) to /dev/nvme-fabrics|\biscsiadm\b`)

// deadTarget: looking at the pod's path fails on a device's error; whether it is dead by itself or with its staging mount only the
// node's report tells.
var deadTarget = phrase(`/volumes/\S*.{0,200}input/output error`)

// badSuperblock: mount(8) says so of a device that cannot be read and of a filesystem that cannot be.
var badSuperblock = phrase(`can't read super ?block`)

// deadStaging: looking at the staging path fails; whether its mount is stale only the node's report tells.
var deadStaging = phrase(`STAGING-PATH\S*.{0,40}(input/output error|transport endpoint is not connected|stale (nfs )?file handle|no such device)`)

// containerWords are what the runtime, the kubelet or the program in a container says when its volume is at fault after the
// mount was reported done.
var containerWords = []signature{
	sig("start/subpath",
		`failed to prepare subPath|failed to create subPath`,
		`subpath.{0,200}(no such|not a directory|stale|not connected|does not exist|error|fail|denied|read-only)`,
		`volume-subpaths/\S+.{0,200}(no such|not a directory|stale|not connected|permission|error|fail)`),
	sig("publish/driver-error", `not a device node`),
	sig("publish/stale-publish-mount", `(stat|statfs|lstat|open|mount|mounting|resolve|evaluate|access)\b.{0,40}/pods/\S+/volumes?/\S+.{0,200}(stale (nfs )?file handle|transport endpoint is not connected|input/output error|host is down|socket (is )?not connected|no such device)`),
	sig("start/mount-broken",
		`transport endpoint is not connected|stale (nfs )?file handle|socket (is )?not connected|\bENOTCONN\b|\bESTALE\b`,
		`software caused connection abort`),
	sig("start/read-only", `read-only file ?system|\bEROFS\b`),
	sig("start/full", `no space left on (the )?device|\bENOSPC\b|disk quota exceeded|disk (is )?full|out of (disk )?space|no free (space|inodes)`),
	sig("stage/device-unreadable", `input/output error|\bEIO\b|\bI/O error`),
	sig("start/ownership-slow",
		`failed to reserve container name|(create|creating) container.{0,80}(context deadline|deadline exceeded|timed out)`,
		`^(Error: )?context deadline exceeded$|relabel`),
	sig("publish/permission", `permission denied|operation not permitted|\bEACCES\b|\bEPERM\b`),
}
