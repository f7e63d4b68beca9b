package explain

import "time"

// Normal times (docs/contract.md): what is younger is waiting, what is older is stuck, unless an error says otherwise.
const (
	normalProvision     = 5 * time.Minute  // cloud disks take seconds, some backends minutes
	normalProvisionSlow = 15 * time.Minute // only DeadlineExceeded and Aborted alternate: a file server is being made
	normalUntouched     = time.Minute      // a sidecar that never touched its object: leases last 15 s, election about as long
	normalAttach        = 3 * time.Minute  // attacher calls time out at 15 s and are repeated; clouds take a minute or two
	normalRegister      = 5 * time.Minute  // on a node younger than this images are still pulled
	normalMount         = 3 * time.Minute  // kubelet gives up a round after 2 min 3 s
	normalForceDetach   = 7 * time.Minute  // the attach-detach controller's 6 min timer, and a minute
	normalExpand        = 10 * time.Minute
	normalSnapshot      = 15 * time.Minute // copies of large volumes
	normalTeardown      = 3 * time.Minute
	normalBind          = time.Minute // the PV controller's resync is 15 s

	errorSettled       = 2 * time.Minute               // an error that the owner retries counts from here on ...
	errorSettledCount  = 3                             // ... or from this occurrence on
	attacherBackoff    = 5 * time.Minute               // external-attacher's longest wait between two tries
	provisionerBackoff = 5 * time.Minute               // external-provisioner's
	resizerBackoff     = 5 * time.Minute               // external-resizer's
	snapshotterBackoff = 5 * time.Minute               // snapshot-controller's and csi-snapshotter's
	kubeletBackoff     = 2*time.Minute + 2*time.Second // kubelet's and the attach-detach controller's
	startToRegister    = time.Minute                   // from a plugin's start until the registrar has reached it and the kubelet has told the CSINode
	crashReset         = 10 * time.Minute              // kubelet forgets its back-off for a container that ran so long
	crashSlack         = 10 * time.Second              // a container that has run so much longer than the last time has got further
	justPlaced         = 10 * time.Second              // a pod this young on its node is likely mounted in a moment
	recent             = 10 * time.Minute              // an event this young shows that its reporter works
)
