package e2e

import "strings"

// defaultDriver is there in every lab, with all sidecars.
const defaultDriver = "loop.csidoctor.dev"

// edit replaces each first of a pair with its second.
func edit(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

func claim(class string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: ` + class + `, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`
}

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeSelector: {}
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: lab.local/app:1
    imagePullPolicy: Never
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
`

// deadNode is the one whose kubelet ends; lonelyNode has the volume of one fault only.
const (
	deadNode   = "node-3"
	lonelyNode = "node-4"
)

func on(node string) []string {
	return []string{"nodeSelector: {}", "nodeSelector: {kubernetes.io/hostname: " + node + "}"}
}

// Edits of claim and pod.
var (
	blockMode    = []string{"accessModes:", "volumeMode: Block, accessModes:", "volumeMounts: [{name: data, mountPath: /data}]", "volumeDevices: [{name: data, devicePath: /dev/data}]"}
	second       = []string{"{name: app}", "{name: second}"}
	secondOfOwn  = []string{"{name: app}", "{name: second}", "{name: data}", "{name: second}", "claimName: data", "claimName: second"}
	tooSmall     = []string{"64Mi", "32Mi"}
	inZoneB      = []string{"csi:", "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: lab.csidoctor.dev/zone, operator: In, values: [zone-b]}]}]}}, csi:"}
	evicted      = []string{"  containers:", "  tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]\n  containers:"}
	unwilling    = []string{"terminationGracePeriodSeconds: 1\n", "terminationGracePeriodSeconds: 600\n", "    imagePullPolicy:", "    command: [sh, -c, \"trap '' TERM; while :; do sleep 1; done\"]\n    imagePullPolicy:"}
	finished     = []string{"  containers:", "  restartPolicy: Never\n  containers:", "    imagePullPolicy:", "    command: [sh, -c, \"echo x >/data/x\"]\n    imagePullPolicy:"}
	exclusive    = []string{"ReadWriteOnce", "ReadWriteOncePod"}
	fromSnapshot = []string{"{name: data}", "{name: restored}", "accessModes:", "dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: copy}, accessModes:"}
)

// volume is a PV that somebody made by hand.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec: {storageClassName: NAME, accessModes: [ReadWriteOnce], capacity: {storage: 64Mi}, csi: {driver: loop.csidoctor.dev, volumeHandle: NAME}}
`

const snapshot = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: copy}
spec: {volumeSnapshotClassName: NAME, source: {persistentVolumeClaimName: data}}
`

// deployment has the default strategy: the new pod comes before the old one goes.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      nodeSelector: {}
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, image: "lab.local/app:1", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}]}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: data}}
`

const noClaims = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-claims}
spec: {hard: {persistentvolumeclaims: "0"}}
`

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      hostNetwork: true
      containers:
      - {name: db, image: "lab.local/app:1", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: loop.csidoctor.dev-wait, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`

// nodePlugin stands for the DaemonSet of a driver's node plugin, which in the lab is a process outside of any pod. Its plugin crashes when
// the file crash is made.
const nodePlugin = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-plugin}
spec:
  selector: {matchLabels: {app: node-plugin}}
  template:
    metadata: {labels: {app: node-plugin}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      containers:
      - name: node-driver-registrar
        image: lab.local/app:1
        imagePullPolicy: Never
        command: [sh, -c, "sleep 86400", --]
        args: [--csi-address=/csi/csi.sock, --kubelet-registration-path=/var/lib/kubelet/plugins/NAME/csi.sock]
        volumeMounts:
        - {name: plugin, mountPath: /csi}
        - {name: registration, mountPath: /registration}
      - name: plugin
        image: lab.local/app:1
        imagePullPolicy: Never
        command: [sh, -c, "until [ -e /csi/crash ]; do sleep 0.2; done; echo 'panic: the metadata service does not answer' >&2; exit 2", --]
        args: [--endpoint=unix:///csi/csi.sock]
        volumeMounts:
        - {name: plugin, mountPath: /csi}
      volumes:
      - {name: plugin, hostPath: {path: /var/lib/kubelet/plugins/NAME, type: DirectoryOrCreate}}
      - {name: registration, hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}}
`
