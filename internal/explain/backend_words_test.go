package explain

import "testing"

// A code proves what the words say; the words alone do not.
func TestSure(t *testing.T) {
	for _, c := range []struct {
		cause, text string
		want        Confidence
	}{
		{"attach/permission", `rpc error: code = Internal desc = POST https://api.digitalocean.com/v2/volumes/1/actions: 401 (request "8b7f") Unable to authenticate you`, Certain},
		{"attach/permission", `rpc error: code = Internal desc = Authentication failed (HTTP 401)`, Certain},
		{"attach/permission", `rpc error: code = Unknown desc = StatusCode=401 -- Original Error: adal: Refresh request failed`, Certain},
		{"attach/permission", `rpc error: code = Internal desc = Linode API: [401] Invalid Token`, Certain},
		{"attach/permission", `rpc error: code = Internal desc = googleapi: Error 403: Required 'compute.instances.attachDisk' permission for 'n', forbidden`, Certain},
		{"attach/permission", `rpc error: code = Internal desc = 403 Forbidden`, Likely}, // a proxy says so too
		{"attach/permission", `rpc error: code = Internal desc = ServerFaultCode: NotAuthenticated`, Certain},
		{"attach/permission", `rpc error: code = Internal desc = the session is not authenticated`, Likely},
		{"provision/permission", `rpc error: code = Internal desc = failed to create rbd image: rbd: ret=-1, Operation not permitted`, Certain},
		{"provision/permission", `rpc error: code = Internal desc = failed: ret=-16, Device or resource busy`, Likely},
		{"stage/permission", `mount error(13): Permission denied`, Certain},
		{"stage/permission", `iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)`, Certain},
		{"stage/permission", `mount.nfs: access denied by server while mounting nas:/x`, Likely},
		{"stage/server-unreachable", `mount error(110): Operation timed out`, Certain},
		{"stage/server-unreachable", `mount error(2): No such file or directory`, Likely},
		{"stage/server-unreachable", `iscsiadm: initiator reported error (8 - connection timed out)`, Certain},
		{"stage/server-unreachable", `rbd: map failed with error an error (exit status 110) occurred while running rbd`, Certain},
		{"stage/server-unreachable", `mount failed: exit status 32`, Likely},
		{"provision/backend-unreachable", `Error: connect ECONNREFUSED 192.0.2.40:80`, Certain},
		{"provision/backend-unreachable", `dial tcp 192.0.2.40:443: i/o timeout`, Likely},
		{"attach/throttled", `rpc error: code = Internal desc = detach volume 777: [429] Too many requests`, Certain},
		{"attach/throttled", `rpc error: code = Internal desc = the rate limit of this account`, Likely},
		{"attach/held-outside", `rpc error: code = FailedPrecondition desc = volume is attached to the wrong droplet`, Certain},
		{"attach/held-outside", `rpc error: code = Internal desc = volume is attached to another machine`, Likely},
		{"attach/backend-busy", `rpc error: code = Internal desc = server is locked (locked)`, Certain},
		{"attach/backend-busy", `rpc error: code = Unavailable desc = server is locked`, Likely},
		{"attach/wrong-zone", `api error InvalidVolume.ZoneMismatch: The volume is not in the same zone`, Certain},
		{"provision/access-mode", `rpc error: code = InvalidArgument desc = unsupported access mode MULTI_NODE_MULTI_WRITER`, Certain},
		{"provision/access-mode", `rpc error: code = InvalidArgument desc = multi node access modes are not supported`, Likely},
		{"provision/access-mode", `rpc error: code = Internal desc = unsupported access mode MULTI_NODE_MULTI_WRITER`, Likely},
		{"provision/quota", `AccessPointLimitExceeded: You have reached the maximum number of access points`, Certain},
		{"provision/quota", `volume limit (7) has been reached`, Likely},
		{"provision/out-of-capacity", `There is no volume space left in the given location (no_space_left_in_location)`, Certain},
		{"provision/out-of-capacity", `cannot create 'tank/pvc-1': out of space`, Likely},
		{"publish/object-missing", `zfsvolumes.zfs.openebs.io "pvc-1" not found`, Certain},
		{"publish/object-missing", `the object "pvc-1" not found`, Likely},
		{"claim/denied", `admission webhook "validate.kyverno.svc-fail" denied the request: no label`, Certain},
		{"claim/denied", `persistentvolumeclaims "c" is forbidden: cannot set blockOwnerDeletion`, Likely},
		{"claim/quota-exceeded", `persistentvolumeclaims "c" is forbidden: exceeded quota: team, requested: requests.storage=1Gi, used: x`, Certain},
		{"claim/quota-exceeded", `persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 50Gi, but request is 200Gi`, Certain},
	} {
		if got := sure(c.cause, c.text); got != c.want {
			t.Errorf("%s is %s, want %s: %s", c.cause, got, c.want, c.text)
		}
	}
}

// The texts are drivers' own, shortened in their ids.
func TestAttachWords(t *testing.T) {
	for _, c := range []struct{ cause, text string }{
		{"attach/rbac", `could not save VolumeAttachment: volumeattachments.storage.k8s.io "csi-1" is forbidden: User "system:serviceaccount:kube-system:csi" cannot patch resource "volumeattachments/status" in API group "storage.k8s.io" at the cluster scope`},
		{"attach/pv-deleting", `PersistentVolume "pvc-1" is marked for deletion`},

		{"attach/throttled", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": could not attach volume "vol-1" to node "i-1": RequestLimitExceeded: Request limit exceeded. status code: 503`},
		{"attach/throttled", `rpc error: code = Internal desc = Failed to Attach: failed cloud service attach disk call: googleapi: Error 403: Too many pending operations on a resource., rateLimitExceeded`},
		{"attach/throttled", `rpc error: code = Unknown desc = Retriable: true, RetryAfter: 9s, HTTPStatusCode: 429, RawError: {"error":{"code":"TooManyRequests","message":"The request is being throttled."}}`},
		{"attach/throttled", `rpc error: code = Unavailable desc = Linode API: [429] Too Many Requests`},

		{"attach/limit-reached", `rpc error: code = ResourceExhausted desc = max number of volumes (8) already attached to instance`},
		{"attach/limit-reached", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": AttachmentLimitExceeded: Attachment limit exceeded`},
		{"attach/limit-reached", `rpc error: code = Unknown desc = Retriable: false, RetryAfter: 0s, HTTPStatusCode: 409, RawError: {"error":{"code":"OperationNotAllowed","message":"The maximum number of data disks allowed to be attached to a VM of this size is 4.","target":"dataDisks"}}`},
		{"attach/limit-reached", `rpc error: code = Internal desc = failed when waiting for zonal op: googleapi: Error 400: Exceeded limit 'maximum_persistent_disks' on resource 'gke-1'. Limit: 16, limitExceeded: number of disks`},
		{"attach/limit-reached", `rpc error: code = ResourceExhausted desc = failed to attach volume: POST https://api.digitalocean.com/v2/volumes/1/actions: 422 attachment failed, droplet 1 has reached the limit of 7 volumes`},
		{"attach/limit-reached", `rpc error: code = Internal desc = failed to attach cns volume: CNS: Failed to attach disk because missing SCSI controller`},
		{"attach/limit-reached", `rpc error: code = Internal desc = failed to publish volume: cannot attach more than 16 volumes to a server (resource_limit_exceeded)`},

		{"attach/wrong-zone", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": InvalidVolume.ZoneMismatch: The volume 'vol-1' is not in the same availability zone as instance 'i-1'`},
		{"attach/wrong-zone", `rpc error: code = Unknown desc = Retriable: false, HTTPStatusCode: 400, RawError: {"error":{"code":"BadRequest","message":"Disk /subscriptions/1/disks/pvc-1 cannot be attached to the VM because it is not in zone '2'."}}`},
		{"attach/wrong-zone", `rpc error: code = Internal desc = failed to publish volume: volume and server must be in the same location as the server`},

		{"attach/volume-not-found", `rpc error: code = Internal desc = Could not get volume with ID "vol-1": InvalidVolume.NotFound: The volume 'vol-1' does not exist.`},
		{"attach/volume-not-found", `rpc error: code = NotFound desc = Volume not found, failed with error: disk pvc-1 not found`},
		{"attach/volume-not-found", `rpc error: code = NotFound desc = Could not find disk projects/p/zones/z/disks/pvc-1: googleapi: Error 404: The resource 'projects/p/zones/z/disks/pvc-1' was not found, notFound`},
		{"attach/volume-not-found", `rpc error: code = NotFound desc = [ControllerPublishVolume] Volume 303c1f2f not found`},
		{"attach/volume-not-found", `rpc error: code = NotFound desc = volume "18835113" does not exist`},

		{"attach/limit-reached", `rpc error: code = Internal desc = QingCloud Error: Code (1400), Message (PermissionDenied, you can only attach [10] volumes to one instance at most)`},
		{"attach/volume-not-found", `rpc error: code = NotFound desc = error in response: status code '404 Not Found', content: 'RestJsonError { details: "Entry with key 'f265d2a8' not found in the persistent store.", kind: NotFound }'`},
		{"attach/timeout", `rpc error: code = NotFound desc = Find Host Failed Error while receiving response for url: /api/host/name:w4?fields=id error: Get "https://san/api/host/name:w4": context canceled`},
		{"attach/backend-error", `rpc error: code = NotFound desc = could not find node w4: Get "https://san/api/hosts": dial tcp 192.0.2.7:443: connect: connection refused`},
		{"attach/permission", `rpc error: code = Internal desc = the following privilege is required: ISI_PRIV_SMB`},
		{"attach/node-unknown", `rpc error: code = NotFound desc = Host for node: nvme_nqn: , fc_wwns : [''], iscsi_iqn : iqn.1994-05.com.redhat:ca8c  was not found, ensure all host ports are configured on storage`},
		{"attach/node-unknown", `rpc error: code = NotFound desc = [ControllerPublishVolume] Instance 5a1f not found`},
		{"attach/node-unknown", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": InvalidInstanceID.NotFound: The instance ID 'i-1' does not exist`},
		{"attach/node-unknown", `rpc error: code = Internal desc = failed to find VirtualMachine for node:"wk-07". Error: node wasn't found`},
		{"attach/node-unknown", `rpc error: code = NotFound desc = droplet "310442781" not found`},
		{"attach/node-unknown", `rpc error: code = NotFound desc = could not find instance projects/p/zones/z/instances/n-1`},
		{"attach/node-unknown", `rpc error: code = FailedPrecondition desc = failed to publish volume: server not found (not_found)`},
		{"attach/node-unknown", `csinode.storage.k8s.io "node-9" not found`},

		{"attach/backend-busy", `rpc error: code = Unknown desc = Retriable: false, HTTPStatusCode: 409, RawError: {"error":{"code":"AttachDiskWhileBeingDetached","message":"Cannot attach data disk 'pvc-2' to VM 'n' because the disk is currently being detached or the last detach operation failed."}}`},
		{"attach/backend-busy", `rpc error: code = Aborted desc = cannot attach because droplet 310442781 has pending "resize" event`},
		{"attach/backend-busy", `rpc error: code = Internal desc = failed to publish volume: server is locked (locked)`},
		{"attach/backend-busy", `rpc error: code = Internal desc = failed to attach cns volume. fault: "CnsFault error: CNS: Failed to attach disk when calling AttachDisk:Fault cause: vim.fault.InvalidState"`},
		{"attach/backend-busy", `rpc error: code = Internal desc = [ControllerPublishVolume] Attach Volume failed with error failed to attach 1 volume to 2 compute: Bad request: {"badRequest": {"message": "Invalid volume: Volume 1 status must be available or downloading (detaching)"}}`},
		{"attach/backend-busy", `rpc error: code = Aborted desc = volume pvc-1 is not ready for workloads`},

		{"attach/held-outside", `rpc error: code = Internal desc = Failed to Attach: operation failed (RESOURCE_IN_USE_BY_ANOTHER_RESOURCE): The disk resource 'projects/p/zones/z/disks/pvc-1' is already being used by 'projects/p/zones/z/instances/n-2'`},
		{"attach/held-outside", `rpc error: code = FailedPrecondition desc = Volume "vol-1" is already attached to node "i-2"`},
		{"attach/held-outside", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": VolumeInUse: vol-1 is already attached to an instance`},
		{"attach/held-outside", `rpc error: code = Internal desc = disk(/subscriptions/1/disks/pvc-1) already attached to node(/subscriptions/1/virtualMachines/aks-2), could not be attached to node(aks-1)`},
		{"attach/held-outside", `rpc error: code = Internal desc = failed to publish volume: volume is already attached to a server, please detach it first (service_error)`},
		{"attach/held-outside", `rpc error: code = FailedPrecondition desc = volume 11873402 already attached to instance 58812399`},
		{"attach/held-outside", `rpc error: code = FailedPrecondition desc = volume pvc-1 cannot be attached to the node node-2 since it is already attached to the node node-1`},
		{"attach/held-outside", `rpc error: code = Internal desc = volume fc38 is attached to the wrong droplet(310442781), detach the volume to fix it`},

		{"attach/permission", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": UnauthorizedOperation: You are not authorized to perform this operation.`},
		{"attach/permission", `rpc error: code = Internal desc = googleapi: Error 403: Required 'compute.instances.attachDisk' permission for 'projects/p/zones/z/instances/n', forbidden`},
		{"attach/permission", `rpc error: code = Unknown desc = Retriable: false, HTTPStatusCode: 403, RawError: {"error":{"code":"AuthorizationFailed","message":"The client does not have authorization to perform action"}}`},
		{"attach/permission", `rpc error: code = Unauthenticated desc = failed to attach: unable to authenticate you (token expired)`},

		{"attach/timeout", `rpc error: code = DeadlineExceeded desc = context deadline exceeded`},
		{"attach/timeout", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": attachment of disk "vol-1" failed, expected device to be attached but was attaching`},

		{"", `rpc error: code = Internal desc = something that nobody has seen before`},

		{"attach/node-unknown", `rpc error: code = NotFound desc = host with k8s node ID 'csi-node-908b208543124319ac0d0d00f4c9dbab-192.168.1.90' not found`},
		{"attach/held-outside", `rpc error: code = Aborted desc =  runid=608 Volume has been published to a different host already.`},
		{"attach/permission", `rpc error: code = Unknown desc = Failed to attach instance to node. error : Service error:NotAuthorizedOrNotFound. Authorization failed or requested resource not found.. http status code: 404. Opc request id: 4cb`},
		{"attach/held-outside", `rpc error: code = Internal desc = Service error:Conflict. Volume ocid1.volume.oc1.iad.abuw currently attached. http status code: 409`},
		{"attach/backend-busy", `rpc error: code = Internal desc = [ControllerPublishVolume] Attach Volume failed with error failed to attach 83e3 volume to b2f7 compute: Expected HTTP response code [200] when accessing [POST https://x/os-volume_attachments], but got 409 instead {"conflictingRequest": {"message": "Cannot 'attach_volume' instance b2f7 while it is in task_state resize_finish", "code": 409}}`},
		{"attach/held-outside", `rpc error: code = Internal desc = [ControllerPublishVolume] Attach Volume failed with error failed to attach 09c6 volume to 8574 compute: Bad request with: [POST https://x/os-volume_attachments], error message: {"badRequest": {"message": "Invalid volume: volume '09c678bf' status must be 'available'. Currently in 'in-use'", "code": 400}}`},
		{"attach/held-outside", `{"badRequest": {"code": 400, "message": "Invalid input received: Invalid volume: Volume 1f status must be available or downloading to reserve, but the current status is in-use. (HTTP 400) (Request-ID: req-1)"}}`},
		{"attach/backend-busy", `{"badRequest": {"code": 400, "message": "Invalid input received: Invalid volume: Volume 1f status must be available or downloading to reserve, but the current status is attaching. (HTTP 400) (Request-ID: req-1)"}}`},
		{"attach/backend-busy", `rpc error: code = Internal desc = scaleway-sdk-go: invalid argument(s): server is being stopped or rebooted`},
		{"attach/backend-busy", `rpc error: code = Internal desc = scaleway-sdk-go: resource volume with ID 1 is in a transient state: attaching`},
		{"attach/limit-reached", `rpc error: code = Internal desc = no free lun found on vm k8s-worker-1`},
		{"attach/limit-reached", `rpc error: code = Aborted desc = NodeId: i-1, AttachDisk: SDK.ServerError ErrorCode: InstanceDiskLimitExceeded Recommend: Message: The amount of the disk on instance in question reach its limits.`},
		{"attach/backend-busy", `rpc error: code = Aborted desc = NodeId: i-1, Attach Disk: SDK.ServerError ErrorCode: IncorrectInstanceStatus Message: The current status of the resource does not support this operation.`},
		{"attach/node-unknown", `rpc error: code = Aborted desc = SDK.ServerError ErrorCode: InvalidInstanceId.NotFound Message: The specified InstanceId does not exist.`},
		{"attach/volume-not-found", `rpc error: code = Aborted desc = SDK.ServerError ErrorCode: InvalidDiskId.NotFound Message: The specified disk does not exist.`},
		{"attach/limit-reached", `rpc error: code = Internal desc = Linode [1] has the maximum number of volumes attached`},
		{"attach/limit-reached", `rpc error: code = ResourceExhausted desc = max number of volumes (7) already attached to instance`},
		{"attach/backend-busy", `rpc error: code = Internal desc = cannot attach volume to node: {"error":"Server is currently locked","status":400}`},
		{"attach/held-outside", `rpc error: code = FailedPrecondition desc = cannot attach volume to node because it is already attached to a different node ID: 5b8f`},
		{"attach/held-outside", `rpc error: code = Internal desc = Failed to attach volume: Failed to attach: Volume is attached on another node: worker-3`},
		{"attach/held-outside", `rpc error: code = Internal desc = failed to attach disk: "b2" with node: "4" err failed to attach cns volume: fault: Failed to lock the file. Cannot open the disk '/vmfs/volumes/ds/fcd/1.vmdk' or one of the snapshot disks it depends on.`},
		{"attach/held-outside", `rpc error: code = Unknown desc = Attach volume pvc-1 to instance aks-1 failed with Retriable: false, RetryAfter: 0s, HTTPStatusCode: 409, RawError: {"error":{"code":"ConflictingUserInput","message":"Disk '/subscriptions/1/disks/pvc-1' cannot be attached as the disk is already owned by VM '/subscriptions/1/virtualMachines/old'.","target":"/subscriptions/1/disks/pvc-1"}}`},
		{"attach/held-outside", `rpc error: code = Internal desc = Fault reason is "Operation Failed". Fault detail is "[Cannot attach Virtual Disk: The disk is already attached to VM worker-2.]". HTTP response code is "409".`},
		{"attach/backend-busy", `rpc error: code = Internal desc = Failed to Attach: failed cloud service attach disk call: googleapi: Error 400: The resource 'projects/p/zones/z/disks/pvc-1' is not ready, resourceNotReady`},
		{"attach/backend-busy", `rpc error: code = Internal desc = ServerFaultCode: The operation is not allowed in the current state.`},
		{"attach/backend-busy", `rpc error: code = Internal desc = failed to attach disk: Another task is already in progress.`},
		{"attach/wrong-zone", `rpc error: code = Internal desc = failed to publish volume: server and volume are in different locations (invalid_input)`},
		{"attach/wrong-zone", `rpc error: code = Internal desc = failed to attach: Bad request: {"badRequest": {"code": 400, "message": "Invalid volume: Instance 1 and volume 2 are not in the same availability_zone. Instance is in az1. Volume is in az2"}}`},
		{"attach/wrong-zone", `rpc error: code = InvalidArgument desc = Disk projects/p/zones/a/disks/1 and instance projects/p/zones/b/instances/2 must be in the same zone`},
		{"attach/permission", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": operation error EC2: AttachVolume, https response error StatusCode: 403, RequestID: 1, api error UnauthorizedOperation: You are not authorized to perform this operation.`},
		{"attach/permission", `rpc error: code = Internal desc = operation error EC2: AttachVolume, get identity: get credentials: failed to refresh cached credentials, failed to retrieve credentials, operation error STS: AssumeRoleWithWebIdentity, https response error StatusCode: 400, api error InvalidIdentityToken: No OpenIDConnect provider found in your account`},
		{"attach/permission", `rpc error: code = Internal desc = ServerFaultCode: Cannot complete login due to an incorrect user name or password.`},
		{"attach/permission", `rpc error: code = Internal desc = ServerFaultCode: NoPermission`},
		{"attach/permission", `rpc error: code = Internal desc = ServerFaultCode: The session is not authenticated.`},
		{"attach/permission", `rpc error: code = Unknown desc = azure.BearerAuthorizer#WithAuthorization: Failed to refresh the Token for request: StatusCode=401 -- Original Error: adal: Refresh request failed. {"error":"invalid_client","error_description":"AADSTS7000222: The provided client secret keys for app are expired."}`},
		{"attach/permission", `rpc error: code = Internal desc = Authentication failed: The request you have made requires authentication. (HTTP 401)`},
		{"attach/timeout", `rpc error: code = Internal desc = Timed out waiting for hot-plug volume pvc-1 to become ready`},
		{"attach/timeout", `rpc error: code = Internal desc = Volume "1" failed to be attached within the alloted time`},
		{"attach/timeout", `rpc error: code = Internal desc = failed to attach volume: Volume 3 is not attached in time`},
		{"", `rpc error: code = Internal desc = failed to publish volume: Volume assigning failed. Power off and back on the server id: 5057161 and try again. (user_action_required)`},
		{"", `rpc error: code = Internal desc = Could not attach volume "vol-1" to node "i-1": InvalidParameterValue: Invalid value '/dev/xvdba' for unixDevice. Attachment point /dev/xvdba is already in use`},
		{"", `rpc error: code = Internal desc = "Attaching mutually shared fcd disks to same VM is not supported." Failed to attach cns volume: "aa4c" to node vm: "VirtualMachine:vm-229"`},
		{"", `rpc error: code = InvalidArgument desc = Failed to attach: pd-standard disk type is not supported by machine type c4-standard-4`},
		{"", `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.4:443: connect: connection refused"`},
		{"", `rpc error: code = Internal desc = Post "https://vcenter:443/sdk": dial tcp: lookup vcenter on 10.96.0.10:53: no such host`},
		{"", `rpc error: code = Internal desc = volume pvc-1 is faulted, there are no healthy replicas to attach`},
		{"", `rpc error: code = Internal desc = Volume 1 is in error state`},
	} {
		if got := told(attachWords, c.text); got != c.cause {
			t.Errorf("%q, want %q, of %s", got, c.cause, c.text)
		}
	}
}

func TestDetachWords(t *testing.T) {
	for _, c := range []struct{ cause, text string }{
		{"detach/pv-gone", `persistentvolume "pvc-1" not found`},
		{"detach/rbac", `could not save VolumeAttachment: volumeattachments.storage.k8s.io "csi-1" is forbidden: User "system:serviceaccount:kube-system:csi" cannot patch resource "volumeattachments"`},
		{"detach/backend-error", `rpc error: code = Internal desc = cannot find host w4: Get "https://san/api/hosts": context deadline exceeded`},
		{"detach/node-gone", `rpc error: code = Internal desc = failed to find VirtualMachine for node:"wk-07". Error: node wasn't found`},
		{"detach/node-gone", `rpc error: code = NotFound desc = [ControllerUnpublishVolume] failed to get instance 80a7: instance not found`},
		{"detach/node-gone", `rpc error: code = Internal desc = Could not detach volume "vol-1" from node "i-1": InvalidInstanceID.NotFound: The instance ID 'i-1' does not exist`},
		{"detach/node-gone", `csinode.storage.k8s.io "wk-07" not found`},
		{"detach/backend-busy", `rpc error: code = Internal desc = failed to detach: server is locked (locked)`},
		{"detach/backend-busy", `rpc error: code = Unknown desc = RawError: {"error":{"code":"Conflict","message":"The operation cannot be completed because another operation is in progress on the VM"}}`},
		{"detach/throttled", `rpc error: code = Internal desc = RequestLimitExceeded: Request limit exceeded.`},
		{"detach/permission", `rpc error: code = Internal desc = UnauthorizedOperation: You are not authorized to perform this operation: ec2:DetachVolume`},
		{"", `rpc error: code = Internal desc = ControllerpublishVolume failed for pvc-cfeaf3e4: 404 Not Found`},
		{"", `rpc error: code = DeadlineExceeded desc = Failed to detach volume pvc-0ef7 from node rke2-agent-3`},

		{"detach/node-gone", `rpc error: code = Internal desc = Couldn't find VM given uuid 50048e23-5f85-4807-b1e4-1bb46d6ee548`},
		{"detach/node-gone", `rpc error: code = NotFound desc = droplet "310442781" not found`},
		{"detach/node-gone", `rpc error: code = NotFound desc = host with k8s node ID 'csi-node-90' not found`},
		{"detach/node-gone", `rpc error: code = NotFound desc = node worker-4 does not exist in storage cluster`},
		{"detach/node-gone", `node "worker-4" has no NodeID annotation`},
		{"detach/node-gone", `rpc error: code = Unknown desc = could not get disk lun: instance not found`},
		{"detach/node-gone", `rpc error: code = Internal desc = googleapi: Error 404: The resource 'projects/p/zones/z/instances/gke-1' was not found, notFound`},
		{"detach/backend-busy", `rpc error: code = Internal desc = [ControllerUnpublishVolume] Detach Volume failed: {"conflictingRequest": {"code": 409, "message": "Cannot 'detach_volume' instance b2f7 while it is in task_state rebuilding"}}`},
		{"detach/backend-busy", `rpc error: code = Aborted desc = cannot detach because droplet 1 has pending "resize" event`},
		{"detach/backend-busy", `rpc error: code = Internal desc = can not detach volume 1, its status is detaching`},
		{"detach/backend-busy", `rpc error: code = Internal desc = ServerFaultCode: The operation is not allowed in the current state.`},
		{"detach/backend-busy", `rpc error: code = Internal desc = Cannot detach: VM snapshot in progress`},
		{"detach/backend-busy", `rpc error: code = Aborted desc = An operation with the given Volume ID 1 already exists`},
		{"detach/permission", `rpc error: code = Internal desc = ServerFaultCode: Permission to perform this operation was denied. NoPermission`},
		{"detach/permission", `rpc error: code = Internal desc = googleapi: Error 403: Required 'compute.instances.detachDisk' permission`},
		{"detach/permission", `rpc error: code = Internal desc = api error UnrecognizedClientException: The security token included in the request is invalid`},
		{"detach/throttled", `rpc error: code = Unknown desc = HTTPStatusCode: 429, RawError: {"error":{"code":"OperationNotAllowed","message":"The server rejected the request because too many requests have been received for this subscription."}}`},
		{"", `rpc error: code = Internal desc = rados: ret=-110, Connection timed out`},
		{"", `rpc error: code = Internal desc = no such host: lookup api.vendor.example`},
	} {
		if got := told(detachWords, c.text); got != c.cause {
			t.Errorf("%q, want %q, of %s", got, c.cause, c.text)
		}
	}
}

func TestDeleteWords(t *testing.T) {
	for _, c := range []struct{ cause, text string }{
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = volume: 9688b135 with existing snapshots [2c48] cannot be deleted, please delete snapshots before deleting the volume`},
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = volume has snapshots: rados: ret=-39, Directory not empty: "subvolume 'csi-vol-1' has snapshots"`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = DeleteVolume failed with error Bad request: {"badRequest": {"code": 400, "message": "Invalid volume: Volume status must be available or error and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer"}}`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = cannot destroy 'tank/pvc-1': volume has children`},
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = volume pvc-1 has dependent clones`},
		{"delete/still-attached", `persistentvolume pvc-1 is still attached to node node-1`},
		{"delete/secret-missing", `rpc error: code = Internal desc = provided secret is empty`},
		{"delete/secret-missing", `failed to get secret csi/creds: secrets "creds" not found`},
		{"delete/secret-missing", `rpc error: code = InvalidArgument desc = missing ID field 'userID' in secrets`},
		{"delete/permission", `rpc error: code = Internal desc = Could not delete volume ID "vol-1": UnauthorizedOperation: You are not authorized`},
		{"delete/rbac", `persistentvolumes "pvc-1" is forbidden: User "system:serviceaccount:kube-system:csi" cannot delete resource "persistentvolumes"`},
		{"", `rpc error: code = Internal desc = VolumeInUse: Volume vol-1 is currently attached to i-1`},
		{"", `rpc error: code = DeadlineExceeded desc = context deadline exceeded`},

		{"delete/has-snapshots", `rpc error: code = Internal desc = Failed to delete volume: volume deletion failed: volume in use: The resource 'volume' is in use by snapshot 12`},
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = cannot delete volume pvc-1: 2 dependent snapshots`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = rbd: ret=-39, Directory not empty: image has snapshots`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = Cannot delete Volume csi-1: Volume has associated snapshots`},
		{"delete/has-snapshots", `rpc error: code = Unknown desc = zfs: cannot destroy 'pool/pvc-1': filesystem has children\nuse '-r' to destroy the following datasets:\npool/pvc-1@snap`},
		{"delete/has-snapshots", `rpc error: code = Unknown desc = cannot destroy 'tank/k8s/pvc-1': volume has dependent clones`},
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = failed to delete volume: Volume has 3 Snapshots. Delete them first`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = {"cantDelete": "Object is still in use by snapshots"} Object volume-1 is still in use`},
		{"delete/has-snapshots", `rpc error: code = FailedPrecondition desc = unable to delete: volume pvc-1 is the source of a clone`},
		{"delete/has-snapshots", `rpc error: code = Internal desc = Cannot delete volume: FlexClone volumes depend on it: Volume trident_pvc_1 is the parent of one or more clones`},
		{"delete/permission", `rpc error: code = Internal desc = rbd: ret=-1, Operation not permitted`},
		{"delete/permission", `rpc error: code = Unknown desc = mkdir: rm: cannot remove '/mnt/share/pvc-1': Permission denied`},
		{"delete/secret-missing", `rpc error: code = InvalidArgument desc = Mandatory parameter 'userKey' is missing in secrets`},
		{"delete/secret-missing", `failed to get secretreference: secrets "csi-rbd-secret" is missing`},
		{"delete/secret-missing", `error getting secret rook-csi-rbd-provisioner in namespace rook-ceph: secrets "rook-csi-rbd-provisioner" not found`},
		{"", `rpc error: code = Internal desc = Volume ocid1.volume may not be deleted while attached to an Instance`},
		{"", `rpc error: code = Internal desc = remove /export/pvc-1: directory not empty`},
		{"", `rpc error: code = Unavailable desc = error from backend: connection refused`},
		{"", `rpc error: code = Internal desc = rbd: ret=-16, Device or resource busy: image has watchers`},
	} {
		if got := told(deleteWords, c.text); got != c.cause {
			t.Errorf("%q, want %q, of %s", got, c.cause, c.text)
		}
	}
}
