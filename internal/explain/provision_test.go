package explain

import "testing"

// Real texts of provisioners, drivers and backends, as events quote them.
func TestProvisionWords(t *testing.T) {
	const failed = `failed to provision volume with StorageClass "x": `
	for _, c := range []struct{ text, cause string }{
		{`no volume plugin matched name: kubernetes.io/glusterfs`, "provision/plugin-not-found"},
		{failed + `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /csi/csi.sock: connect: connection refused"`, "provision/provisioner-not-running"},
		{`failed to get target node: node "ip-10-0-1-5.ec2.internal" not found`, "provision/selected-node-gone"},
		{failed + `error generating accessibility requirements: failed to get selected CSINode ip-1: csinode.storage.k8s.io "ip-1" not found`, "provision/selected-node-gone"},

		// Sources.
		{failed + `error getting handle for DataSource Type VolumeSnapshot by Name s: snapshot s is not Ready`, "provision/source-not-ready"},
		{failed + `error getting handle for DataSource Type VolumeSnapshot by Name s: error getting snapshot s from api server: volumesnapshots.snapshot.storage.k8s.io "s" not found`, "provision/source-not-ready"},
		{failed + `error getting handle for DataSource Type PersistentVolumeClaim by Name p: error, new PVC request must be greater than or equal in size to the specified PVC data source, requested 1 but source is 2`, "provision/source-not-ready"},
		{failed + `error getting handle for DataSource Type PersistentVolumeClaim by Name p: the source PVC and destination PVCs must have the same volume mode for cloning.  Source is Block, but new PVC requested Filesystem`, "provision/source-not-ready"},
		{failed + `rpc error: code = Internal desc = Privilege check failed. The following read privilege is required: Auth access zones (ISI_PRIV_AUTH_ZONES)`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = failed to mount smb server: mount failed: exit status 32 Output: mount error(115): Operation now in progress`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = failed to mount smb server: mount failed: exit status 32 Output: mount error(127): Key has expired`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = Could not create volume "pvc-1": could not create volume in EC2: operation error EC2: CreateVolume, api error InvalidSnapshot.NotFound: The snapshot 'snap-1' does not exist.`, "provision/source-not-ready"},
		{failed + `rpc error: code = InvalidArgument desc = size 1073741824 is less than the size 2147483648 for the source snapshot`, "provision/source-not-ready"},

		// Topology.
		{failed + `error generating accessibility requirements: no topology key found for node n-1`, "provision/no-topology"},
		{`error generating accessibility requirements: no available topology found`, "provision/no-topology"},
		{failed + `error generating accessibility requirements: selected node '"n"' topology 'map[zone:c]' is not in allowed topologies: [map[zone:a]]`, "provision/no-topology"},
		{failed + `rpc error: code = Internal desc = failed to get shared datastores in topology. Error: no shared datastores found for topology requirement`, "provision/no-topology"},
		{failed + `rpc error: code = InvalidArgument desc = Datastore: ds:///vmfs/volumes/5f30/ specified in the storage class is not accessible to all nodes.`, "provision/no-topology"},
		{failed + `rpc error: code = InvalidArgument desc = failed to pick zones for disk: failed to pick zones from topology: need 1 zones from topology, only got 0 unique zones`, "provision/no-topology"},
		{failed + `rpc error: code = Internal desc = [POST https://cinder/v3/volumes 400]: {"badRequest": {"code": 400, "message": "Availability zone 'nova-2' is invalid."}}`, "provision/no-topology"},

		// The API, secrets.
		{`failed to get target node: nodes "worker-1" is forbidden: User "system:serviceaccount:rook-ceph:sa" cannot get resource "nodes" in API group "" at the cluster scope`, "provision/rbac"},
		{failed + `error getting secret s in namespace n: secrets "s" is forbidden: User "system:serviceaccount:n:csi" cannot get resource "secrets" in API group "" in the namespace "n"`, "provision/rbac"},
		{`failed to list csinodes: csinodes.storage.k8s.io is forbidden: User "system:serviceaccount:kube-system:csi" cannot list resource "csinodes" in API group "storage.k8s.io" at the cluster scope`, "provision/rbac"},
		{failed + `error getting secret rook-csi-rbd-provisioner in namespace rook-ceph: secrets "rook-csi-rbd-provisioner" not found`, "provision/secret-missing"},
		{failed + `failed to get name and namespace template from params: either name and namespace for provisioner secrets specified, Both must be specified`, "provision/secret-missing"},
		{failed + `rpc error: code = InvalidArgument desc = provided secret is empty`, "provision/secret-missing"},
		{failed + `rpc error: code = InvalidArgument desc = missing ID field 'userID' in secrets`, "provision/secret-missing"},
		{failed + `rpc error: code = InvalidArgument desc = no secrets were provided`, "provision/secret-missing"},

		// Quotas and limits.
		{failed + `rpc error: code = Internal desc = Could not create volume "pvc-1": VolumeLimitExceeded: Maximum number of gp3 volumes reached`, "provision/quota"},
		{failed + `rpc error: code = Unavailable desc = CreateVolume failed: googleapi: Error 403: Quota 'SSD_TOTAL_GB' exceeded.  Limit: 500.0 in region us-east1., quotaExceeded`, "provision/quota"},
		{failed + `rpc error: code = Internal desc = VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'`, "provision/quota"},
		{failed + `rpc error: code = ResourceExhausted desc = volume limit (10) has been reached. Current volume limit can be raised`, "provision/quota"},
		{failed + `rpc error: code = Internal desc = failed to create volume: volume limit exceeded (resource_limit_exceeded)`, "provision/quota"},
		{failed + `rpc error: code = Internal desc = Message: "Operation could not be completed as it results in exceeding approved standardDv3 Quota", code: "QuotaExceeded"`, "provision/quota"},
		{failed + `rpc error: code = Internal desc = failed to create access point: AccessPointLimitExceeded: You have reached the maximum number of access points`, "provision/quota"},

		{failed + `rpc error: code = Internal desc = Error returned by Blockstorage Service. Http Status Code: 400. Error Code: LimitExceeded. Message: The following service limits were exceeded: volume-count.`, "provision/quota"},
		{failed + `rpc error: code = Internal desc = the project limit of volumes is 20`, ""},

		// Credentials.
		{failed + `rpc error: code = Internal desc = could not create volume in EC2: UnauthorizedOperation: You are not authorized to perform this operation. User: x is not authorized to perform: ec2:CreateVolume`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = Could not create volume: NoCredentialProviders: no valid providers in chain`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = rados: ret=-1, Operation not permitted`, "provision/permission"},
		{failed + `rpc error: code = InvalidArgument desc = failed to get connection: connecting failed: rados: ret=-13, Permission denied`, "provision/permission"},
		{failed + `rpc error: code = InvalidArgument desc = an error occurred while running (796) ceph: exit status 1: [errno 1] RADOS permission error (error connecting to the cluster)`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = failed to get shared datastores in kubernetes cluster. Error: NoPermission`, "provision/permission"},
		{`Failed to provision volume with StorageClass "fast": ServerFaultCode: Permission to perform this operation was denied.`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = failed to ensure storage account: The client 'a' with object id 'b' does not have authorization to perform action 'Microsoft.Storage/storageAccounts/listKeys/action'`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = POST https://api.digitalocean.com/v2/volumes: 401 Unable to authenticate you`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = failed to mount nfs server: mount failed: exit status 32 mount.nfs: access denied by server while mounting nas:/exports`, "provision/permission"},
		{failed + `rpc error: code = PermissionDenied desc = the caller does not have permission`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = Failed to log in to DSM: invalid credentials`, "provision/permission"},
		{failed + `rpc error: code = Internal desc = googleapi: Error 403: Required 'compute.disks.create' permission for 'projects/p/zones/z/disks/d', forbidden`, "provision/permission"},

		// Modes.
		{`Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = InvalidArgument desc = Invalid parameters from input: pvc-1, with error: multi-node writing is only supported for block volume`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = Volume capabilities MULTI_NODE_MULTI_WRITER not supported. Only AccessModes[ReadWriteOnce] supported.`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = invalid AccessMode: ReadWriteMany is only supported for block volumes`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = multi node access modes are only supported on rbd "block" type volumes`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = VolumeCapabilities cannot be satisfied: unsupported volume capability`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = block volume not supported by NFS driver`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = capability at index 0 is not supported`, "provision/access-mode"},
		{failed + `rpc error: code = InvalidArgument desc = requested capabilities are not supported by the driver`, "provision/access-mode"},

		// Room.
		{failed + `rpc error: code = ResourceExhausted desc = Node CreateVolume: device creation failed: not enough space`, "provision/out-of-capacity"},
		{failed + `rpc error: code = ResourceExhausted desc = no drive found for requested topology`, "provision/out-of-capacity"},
		{failed + `rpc error: code = ResourceExhausted desc = No Hosting Volumes available, add more storage`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = CreateVolume failed for pvc-1: rpc error: code = ResourceExhausted desc = failed to enough replicas on requisite nodes: Message: 'Not enough available nodes'`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = lvm schedule with error: [multipleVGs]not enough lv storage on n/open-local-pool-0, requested size 200Gi, free size 24572Mi`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = ZONE_RESOURCE_POOL_EXHAUSTED: The zone 'projects/p/zones/us-east1-b' does not have enough resources available to fulfill the request.  Try a different zone, or try again later.`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = schedule allocate error: No valid backend was found. No weighed backends available`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = Insufficient disk space on datastore 'vsanDatastore'.`, "provision/out-of-capacity"},
		{failed + `rpc error: code = Internal desc = failed to create volume: rados: ret=-28, No space left on device`, "provision/out-of-capacity"},

		// A backend that is not online is none that is full.
		{failed + `rpc error: code = Unknown desc = no available backends for storage class gold`, "provision/backend-unreachable"},

		// What cannot be made.
		{failed + `claim Selector is not supported`, "provision/invalid-parameters"},
		{`Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = InvalidArgument desc = unknown parameter "foo"`, "provision/invalid-parameters"},
		{failed + `found unknown parameter key "csi.storage.k8s.io/foo" with reserved namespace csi.storage.k8s.io/`, "provision/invalid-parameters"},
		{failed + `rpc error: code = InvalidArgument desc = failed to fetch monitor list using clusterID (x): missing configuration for cluster ID "x"`, "provision/invalid-parameters"},
		{failed + `rpc error: code = OutOfRange desc = invalid capacity: requested size 1 is less than the minimum volume size of 10Gi limit`, "provision/invalid-parameters"},
		{failed + `rpc error: code = Internal desc = Failed to create volume: pool "tank9" does not exist`, "provision/invalid-parameters"},
		{failed + `rpc error: code = Internal desc = rados: ret=-2, No such file or directory: pool not found`, "provision/invalid-parameters"},
		{failed + `rpc error: code = Internal desc = googleapi: Error 400: Invalid value for field 'resource.type': The resource 'projects/p/zones/us-central1-a/diskTypes/pd-turbo' was not found`, "provision/invalid-parameters"},
		{failed + `CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported`, "provision/invalid-parameters"},
		{failed + `rpc error: code = Internal desc = mount.nfs: mounting nas:/export failed, reason given by server: No such file or directory`, "provision/invalid-parameters"},

		// Reach.
		{failed + `rpc error: code = DeadlineExceeded desc = context deadline exceeded`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = Post "https://10.1.2.3:8443/api/types/volume": dial tcp 10.1.2.3:8443: connect: no route to host`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = error creating volume: Get "https://array.corp/api": dial tcp: lookup array.corp on 10.96.0.10:53: no such host`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = RequestError: send request failed caused by: Post "https://ec2.eu-west-1.amazonaws.com/": dial tcp 1.2.3.4:443: i/o timeout`, "provision/backend-unreachable"},
		{failed + `rpc error: code = InvalidArgument desc = failed to get connection: connecting failed: rados: ret=-110, Connection timed out`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = Error: connect ECONNREFUSED 192.0.2.40:80`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = Error: getaddrinfo ENOTFOUND nas.home.arpa`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = AxiosError: connect EHOSTUNREACH 192.0.2.40:443`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = Error: ENOENT, open '/etc/driver.yaml'`, ""},
		{failed + `rpc error: code = Internal desc = tls: failed to verify certificate: x509: certificate signed by unknown authority`, "provision/backend-unreachable"},
		{failed + `rpc error: code = Internal desc = Bad response statusCode [503]. Status [503 Service Unavailable]`, "provision/backend-unreachable"},

		{failed + `rpc error: code = Aborted desc = an operation with the given Volume ID pvc-1 already exists`, "provision/operation-pending"},
		{failed + `rpc error: code = Aborted desc = Create volume request for pvc-1 is already in progress`, "provision/operation-pending"},
		{failed + `rpc error: code = DeadlineExceeded desc = Volume pvc-1 not ready, current state: CREATING`, "provision/backend-unreachable"},

		{failed + `rpc error: code = Internal desc = RequestLimitExceeded: Request limit exceeded.`, "provision/backend-error"},
		{failed + `rpc error: code = Internal desc = CreateVolume failed for pvc-1: Message: 'Resource definition modified.'; Details: '(Node: 'h-1') Failed to adjust DRBD resource pvc-1'`, ""},
	} {
		if got := told(provisionWords, c.text); got != c.cause {
			t.Errorf("%s\n\ttells %q, want %q", c.text, got, c.cause)
		}
	}
}
