package bundle

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// Redact gives a copy of an object without secrets; the object itself stays as it is. It is applied to every object before
// it comes into a Snapshot, live or from a file, so that a bundle gives the same answer as the cluster. Redacting twice is
// redacting once.
//
//   - Kept: names, labels, uids, owners, finalizers, handles, and all that is of a closed set (numbers, phases, modes).
//   - By allow-list: values of annotations, arguments, environment variables, attributes and parameters of volumes.
//   - Every other text: what grants access is masked where it stands (RedactText).
//   - Dropped: managedFields and last-applied-configuration, which repeat the rest.
func Redact(o snapshot.Object) snapshot.Object {
	var c snapshot.Object
	switch o := o.(type) {
	case *snapshot.NodeReport:
		n := *o
		n.Report = deepCopy(reflect.ValueOf(o.Report)).Interface().(nodereport.NodeReport)
		c = &n
	case *snapshot.LogExcerpt:
		l := *o
		o.ObjectMeta.DeepCopyInto(&l.ObjectMeta)
		l.Lines = slices.Clone(o.Lines)
		c = &l
	default:
		c = o.DeepCopyObject().(snapshot.Object)
	}
	redact(c)
	return c
}

// RedactOwn is Redact in place, for an object that nobody else holds.
func RedactOwn(o snapshot.Object) snapshot.Object {
	redact(o)
	return o
}

func redact(o snapshot.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		redactUnstructured(u)
		return
	}
	redactValue(reflect.ValueOf(o), asText)
}

// rule is how the strings below a field are treated.
type rule int

const (
	asText rule = iota
	asArguments
	asParameters
	asIdentity // not touched: others find the object by it
)

// fieldRules are by the name of a Go field, in whichever type it stands.
var fieldRules = map[string]rule{
	"Command": asArguments, "Args": asArguments,
	"Parameters": asParameters, "VolumeAttributes": asParameters, "AttachmentMetadata": asParameters, "Options": asParameters,
	"Name": asIdentity, "Namespace": asIdentity, "NodeName": asIdentity, "NodeID": asIdentity, "HolderIdentity": asIdentity, "PV": asIdentity,
	"Handle": asIdentity, "VolumeHandle": asIdentity, "SnapshotHandle": asIdentity, "VolumeSnapshotHandle": asIdentity, "VolumeGroupSnapshotHandle": asIdentity,
	"Path": asIdentity,
}

// identityKeys are the same in maps: vol_data.json of kubelet, vendor objects.
var identityKeys = []string{"name", "namespace", "uid", "nodeName", "nodeID", "volumeHandle", "specVolID", "attachmentID", "apiVersion", "kind", "resourceVersion"}

func redactValue(v reflect.Value, how rule) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			redactValue(v.Elem(), how)
		}
	case reflect.Slice:
		if list, ok := v.Interface().([]string); ok && how == asArguments {
			redactArguments(list)
			return
		}
		for i := range v.Len() {
			redactValue(v.Index(i), how)
		}
	case reflect.Map:
		redactMap(v, how)
	case reflect.String:
		if was := v.String(); v.CanSet() && how != asIdentity {
			if s := RedactText(was); s != was {
				v.SetString(s)
			}
		}
	case reflect.Struct:
		switch x := v.Addr().Interface().(type) {
		case *metav1.ObjectMeta:
			redactMeta(x)
			return
		case *corev1.EnvVar:
			x.Value = redactEnv(x.Name, x.Value)
			return
		case *corev1.HTTPHeader:
			x.Value = mask
			return
		case *corev1.HTTPGetAction:
			x.Path = RedactText(x.Path) // with a query, it may be
		}
		for _, f := range fieldsOf(v.Type()) {
			redactValue(v.Field(f.index), f.rule)
		}
	}
}

func redactMap(v reflect.Value, how rule) {
	m, ok := v.Interface().(map[string]string)
	if !ok { // quantities
		return
	}
	for key, value := range m {
		s := value
		switch {
		case how == asParameters:
			s = redactParameter(key, value)
		case classify(key) == strong:
			s = mask
		case !slices.Contains(identityKeys, key):
			s = RedactText(value)
		}
		if s != value {
			m[key] = s
		}
	}
}

type field struct {
	index int
	rule  rule
}

var fields sync.Map // of reflect.Type: []field, those that can hold a text

func fieldsOf(t reflect.Type) []field {
	if known, ok := fields.Load(t); ok {
		return known.([]field)
	}
	out := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		if how := fieldRules[f.Name]; f.IsExported() && holdsText(f.Type) && (how != asIdentity || f.Type.Kind() == reflect.Struct) {
			out = append(out, field{i, how})
		}
	}
	fields.Store(t, out)
	return out
}

var textless = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.LabelSelector]()}

// holdsText leaves out what cannot hold a secret: numbers, times, and strings of a type of their own, which are closed sets or names.
func holdsText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return holdsText(t.Elem())
	case reflect.String:
		return t == reflect.TypeFor[string]()
	case reflect.Map:
		return t == reflect.TypeFor[map[string]string]()
	case reflect.Struct:
		return !slices.Contains(textless, t)
	}
	return false
}

// deepCopy copies a NodeReport, which has no generated copier.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(k, v.MapIndex(k))
			}
		}
	case reflect.Struct:
		if !slices.Contains(textless, v.Type()) {
			for i := range v.NumField() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	}
	return out
}

func redactMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	for key, value := range m.Annotations {
		s, keep := redactAnnotation(key, value)
		switch {
		case !keep:
			delete(m.Annotations, key)
		case s != value:
			m.Annotations[key] = s
		}
	}
}

// annotationDomains are of those who write about volumes; a subdomain counts too.
var annotationDomains = []string{"kubernetes.io", "k8s.io", "csidoctor.dev",
	// storage
	"aws.com", "azure.com", "ceph.com", "cloudscale.ch", "cozystack.io", "dellemc.com", "democratic-csi.org", "digitalocean.com", "exoscale.com", "gke.io",
	"harvesterhci.io", "hetzner.cloud", "hpe.com", "huawei.com", "ibm.com", "juicefs.com", "linbit.com", "linode.com", "longhorn.io", "min.io",
	"netapp.io", "openebs.io", "oraclecloud.com", "outscale.com", "piraeus.io", "portworx.com", "purestorage.com", "rook.io", "scaleway.com",
	"seagate.com", "simplyblock.io", "sinextra.dev", "tencent.com", "topolvm.io", "topolvm.cybozu.com", "vmware.com", "vultr.com",
	// who made, moves or restores an object
	"argoproj.io", "fluxcd.io", "helm.sh", "kanister.io", "kasten.io", "kubevirt.io", "velero.io",
	// nodes
	"cattle.io", "flatcar-linux.net", "k0sproject.io", "k3s.io", "karpenter.sh", "kured.dev", "microk8s.io", "openshift.io", "projectcalico.org", "rancher.io",
	"rke2.io", "talos.dev"}

func redactAnnotation(key, value string) (redacted string, keep bool) {
	if key == corev1.LastAppliedConfigAnnotation {
		return "", false
	}
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		return maskUnlessHarmless(key, value), true
	}
	if strings.HasPrefix(domain, "csi.") || strings.HasPrefix(domain, "storage.") || strings.HasPrefix(domain, "snapshot.") || strings.HasPrefix(domain, "volume.") || isBelow(domain, annotationDomains) {
		return redactKeyed(name, value), true
	}
	return maskUnlessHarmless(key, value), true
}

func maskUnlessHarmless(key, value string) string {
	if classify(key) == plain && harmless(value) {
		return value
	}
	return mask
}

func isBelow(domain string, parents []string) bool {
	for _, p := range parents {
		if strings.HasSuffix(domain, p) && (len(domain) == len(p) || domain[len(domain)-len(p)-1] == '.') {
			return true
		}
	}
	return false
}

// redactKeyed masks a value by its key where that is secret, else what is secret in it.
func redactKeyed(key, value string) string {
	if value == "" {
		return ""
	}
	switch classify(key) {
	case strong:
		return mask
	case weak:
		if looksSecret(value) || !harmless(value) && !isReference(key, value) && squash(key) != "key" { // {"key": "Node_Role"} of selectors
			return mask
		}
	}
	return RedactText(value)
}

// parameterEndings are of keys whose values say what a volume is and where it lies. Drivers name alike: pool, poolName, pool_name
// and linstor.csi.linbit.com/storagePool all end so.
var parameterEndings = []string{
	"name", "names", "namespace", "id", "ids", "uuid", "type", "types", "class", "mode", "modes", "kind", "level", "policy", "policies", "profile", "tier",
	"fs", "fstype", "filesystem", "format", "formatted", "options", "option", "flags", "features", "permissions", "perms", "uid", "gid", "owner", "group", "groups",
	"pool", "pools", "volgroup", "vg", "vpg", "mounter", "reference", "dynakube", "lv", "array", "backend", "backends", "svm", "vserver", "aggregate", "storage", "system", "cluster", "datastore", "sku",
	"server", "servers", "monitors", "host", "hosts", "address", "addresses", "ip", "ips", "port", "ports", "portal", "portals", "endpoint", "endpoints", "gateway", "source",
	"share", "export", "exports", "path", "subpath", "subdir", "dir", "directory", "root", "location", "dataset", "collection", "bucket", "container", "account",
	"prefix", "suffix", "pattern", "vault", "protocol", "protocols", "transport", "interface", "driver", "version", "vers", "versions",
	"device", "disk", "disks", "image", "volume", "snapshot", "clone", "lun", "luns", "wwn", "wwns", "wwpn", "wwid", "iqn", "nqn", "initiator", "initiators",
	"target", "targets", "identifier", "identifiers", "identity", "serial", "serialnumber", "symid", "srp", "dsm", "devicepath", "metadata",
	"size", "bytes", "gb", "gib", "iops", "throughput", "bandwidth", "limit", "count", "replicas", "replica", "repl", "replication", "copies", "factor", "stripes",
	"percent", "timeout", "interval", "retention", "schedule", "compression", "dedup", "deduplication", "thin", "thick", "provisioning", "provisioner",
	"encrypted", "encryption", "caching", "cache", "migratable", "locality", "balance", "redundancy", "resilience", "qos",
	"zone", "zones", "region", "regions", "network", "networks", "subnet", "vpc", "topology", "affinity", "selector", "tag", "tags", "labels", "node", "nodes",
	"cipher", "efficiency", "availability", "enforcement", "layout", "addr", "addrs", "vol", "attached", "status", "pvc", "week", "utc", "remote", "info", "opts", "volumeas", "createdby",
	"filer", "style", "url", "uri", "tenant", "project", "domain", "zpool", "recordsize", "blocksize", "chunk", "description", "comment", "kms", "shared", "readonly", "reservation", "wal"}

// redactParameter treats parameters of classes, attributes of volumes and what a driver published for an attachment.
func redactParameter(key, value string) string {
	if strings.HasPrefix(key, "csi.storage.k8s.io/") || strings.HasPrefix(key, "storage.kubernetes.io/") { // names and templates of the sidecars
		return RedactText(value)
	}
	if s := redactKeyed(key, value); s == mask || harmless(value) || driverLike(value) || sayingWhere(key) {
		return s
	}
	return mask
}

// sayingWhere: the value of such a key says what a volume is and where it lies. Some number their keys: PORTAL0.
func sayingWhere(key string) bool {
	return endsInAny(strings.TrimRight(squash(key), "0123456789"), parameterEndings)
}

// driverLike tells whether a value has the form of a driver's or provisioner's name.
func driverLike(v string) bool {
	return nameLike(v) && (strings.Contains(v, "csi") || strings.Count(v, ".") > 1 || strings.Contains(v, ".") && strings.Contains(v, "/"))
}

// envNames are of the variables by which sidecars and drivers are told who and where they are.
var envNames = []string{"ADDRESS", "DRIVER", "ENDPOINT", "PROVISIONER", "NFS_SERVER", "NFS_PATH", "KUBELET_DIR", "REGION", "ZONE"}

func redactEnv(name, value string) string {
	known := harmlessPlace(value) || driverLike(value) || slices.Contains(envNames, name) || strings.HasPrefix(name, "CSI_") || strings.HasPrefix(name, "DRIVER_") ||
		strings.HasPrefix(name, "KUBELET_") || strings.HasSuffix(name, "NODE_NAME") || strings.HasSuffix(name, "NODE_ID") || strings.HasSuffix(name, "POD_NAMESPACE")
	if value == "" || known {
		return redactKeyed(name, value)
	}
	return mask
}

// harmlessPlace: paths, sockets, references to other variables, switches.
func harmlessPlace(v string) bool {
	return v == "true" || v == "false" || harmless(v) && strings.ContainsAny(v, "/$")
}

// flagNames are the flags of CSI sidecars and of common drivers whose values matter and are no numbers, switches or paths.
var flagNames = []string{
	"address", "allowed-topologies", "capacity-ownerref-level", "cloud-provider", "cluster-id", "cluster-name", "clusterid", "controller-service-name", "csi-address",
	"csi-mode", "csi-name", "csi-version", "default-fstype", "domainlabels", "driver", "driver-name", "driver-version", "drivername", "enable-capacity", "endpoint",
	"feature-gates", "fs-type", "health-port", "http-endpoint", "instanceid", "kubelet-registration-path", "kubelet-root-dir", "linstor-endpoint", "log-format",
	"log-level", "log_level", "loglevel", "manager-url", "metrics-address", "metrics-path", "mode", "name", "namespace", "node", "node-id", "node-name", "nodeid", "nodename",
	"plugin-registration-path", "plugin", "provisioner", "provisioner-name", "region", "role", "service-account", "snapshot-name-prefix", "storage-driver", "topology-labels",
	"topology-prefix", "type", "volume-name-prefix", "worker-node", "zone"}

// switches take no value: the word behind one is a word of its own.
var switches = []string{"debug", "verbose"}

// redactArguments masks the values of flags that are not known, and words that may be such values. Programs and subcommands stay.
func redactArguments(args []string) {
	last := "" // the flag before, when it may take this argument as its value
	for i, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			if last != "" && flagKept(last, arg) || last == "" && wordKept(arg) {
				args[i] = RedactText(arg)
			} else {
				args[i] = mask
			}
			last = ""
		case hasValue:
			last = ""
			if flagKept(name, value) {
				value = RedactText(value)
			} else {
				value = mask
			}
			args[i] = arg[:strings.IndexByte(arg, '=')+1] + value
		case flagLike(arg):
			if last = name; slices.Contains(switches, name) {
				last = ""
			}
		default: // -pSecret, or a text that begins with a dash
			args[i], last = mask, ""
		}
	}
}

func flagKept(name, value string) bool {
	if c := classify(name); c != plain {
		return c == weak && harmless(value)
	}
	name = strings.ToLower(name)
	return harmless(value) || driverLike(value) || strings.HasPrefix(name, "leader-election") || slices.Contains(flagNames, name) || sayingWhere(name)
}

const lowerCase = "abcdefghijklmnopqrstuvwxyz-"

func flagLike(arg string) bool {
	if strings.HasPrefix(arg, "--") {
		return strings.Trim(strings.ToLower(arg), lowerCase+"0123456789_.") == ""
	}
	return strings.Trim(arg, lowerCase) == "" || len(arg) > 1 && isAmount(arg[2:]) // -namespace, -v5
}

func wordKept(arg string) bool {
	return harmless(arg) || driverLike(arg) || strings.HasPrefix(arg, "/") && !strings.ContainsAny(arg, "=+ \n") || len(arg) <= 30 && strings.Trim(arg, lowerCase) == ""
}

// redactUnstructured masks by keys and texts; the structure stays.
func redactUnstructured(u *unstructured.Unstructured) {
	meta, _ := u.Object["metadata"].(map[string]any)
	delete(meta, "managedFields")
	annotations, _ := meta["annotations"].(map[string]any)
	for key, value := range annotations {
		s, _ := value.(string)
		if redacted, keep := redactAnnotation(key, s); keep {
			annotations[key] = redacted
		} else {
			delete(annotations, key)
		}
	}
	for key, value := range u.Object {
		if key != "metadata" && !slices.Contains(identityKeys, key) {
			u.Object[key] = redactAny(key, value)
		}
	}
}

func redactAny(key string, value any) any {
	switch value := value.(type) {
	case string:
		return redactKeyed(key, value)
	case map[string]any:
		name, _ := value["name"].(string)
		for k, v := range value {
			s, isText := v.(string)
			switch {
			case isText && k == "value" && key == "env":
				value[k] = redactEnv(name, s)
			case isText && k == "value" && name != "": // {name: password, value: x}
				value[k] = redactKeyed(name, s)
			case !isText || !slices.Contains(identityKeys, k):
				value[k] = redactAny(k, v)
			}
		}
	case []any:
		if key == "args" || key == "command" {
			redactAnyArguments(value)
			return value
		}
		for i, v := range value {
			value[i] = redactAny(key, v)
		}
	}
	return value
}

func redactAnyArguments(list []any) {
	args := make([]string, len(list))
	for i, v := range list {
		args[i], _ = v.(string) // an argument that is no text stays what it is
	}
	redactArguments(args)
	for i, v := range list {
		if _, isText := v.(string); isText {
			list[i] = args[i]
		}
	}
}
