package explain

import "testing"

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
	} {
		if got := told(deleteWords, c.text); got != c.cause {
			t.Errorf("%q, want %q, of %s", got, c.cause, c.text)
		}
	}
}
