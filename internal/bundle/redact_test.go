package bundle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/nodereport"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

func decodeObject(t testing.TB, raw string) snapshot.Object {
	t.Helper()
	o, err := snapshot.Decode([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func asJSON(t testing.TB, o snapshot.Object) string {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each object has its secrets marked by the word hunter2 or by their shape, and what must stay by the word stays.
func TestRedact(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		gone   []string
		stays  []string
	}{
		"pod": {object: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"stays-0","namespace":"shop","uid":"u-stays","finalizers":["f/stays"],
			"labels":{"app":"stays","token":"label-stays"},"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"o-stays","uid":"ou-stays"}],
			"managedFields":[{"manager":"gone-manager","time":"2026-01-01T00:00:00Z"}],
			"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{hunter2}","volume.kubernetes.io/selected-node":"node-stays","notes":"hunter2",
			"example.com/x":"hunter2","rook.io/y":"rook-stays","ebs.csi.aws.com/z":"aws-stays","k8s.io/token":"hunter2"}},
			"spec":{"nodeName":"n-stays","containers":[{"name":"c-stays","image":"img-stays",
			"command":["/bin/driver-stays","sh","-c","curl -u a:hunter2"],
			"args":["node-stays","--csi-address=/csi/stays.sock","--endpoint=unix:///csi/stays","--kubelet-registration-path=$(STAYS)","--leader-election=true","--leader-election-namespace=stays",
			"--v=5","--api-token=hunter2","--password","hunter2","--other=hunter2","--other2","hunter2","--feature-gates=Stays=true","--drivername=stays.csi.example","--nodeid=stays","-phunter2","--timeout=7m"],
			"env":[{"name":"CSI_ENDPOINT","value":"unix:/csi/env-stays"},{"name":"REG","value":"/var/lib/kubelet/plugins/stays/csi.sock"},{"name":"DB_stays","value":"hunter2"},{"name":"PROVISIONER_NAME","value":"rancher.io/stays"},
			{"name":"P","valueFrom":{"secretKeyRef":{"name":"secret-stays","key":"key-stays"}}}],
			"livenessProbe":{"httpGet":{"path":"/healthz-stays","port":1,"httpHeaders":[{"name":"X","value":"hunter2"}]},"exec":{"command":["sh","-c","x --password=hunter2"]}}}],
			"volumes":[{"name":"v","csi":{"driver":"d.stays","volumeAttributes":{"secretProviderClass":"spc-stays","clientSecret":"hunter2","x":"hunter2"},"nodePublishSecretRef":{"name":"nps-stays"}}}]},
			"status":{"phase":"Pending","message":"password=hunter2 msg-stays","containerStatuses":[{"name":"c","image":"i","imageID":"docker-pullable://stays@sha256:aa","state":{"waiting":{"reason":"R","message":"url https://a:hunter2@h/x"}}}]}}`,
			gone: []string{"hunter2", "gone-manager", "last-applied"},
			stays: []string{"stays-0", "u-stays", "f/stays", "label-stays", "o-stays", "ou-stays", "node-stays", "rook-stays", "aws-stays", "n-stays", "c-stays", "img-stays", "/bin/driver-stays", `"node-stays"`,
				"--csi-address=/csi/stays.sock", "--endpoint=unix:///csi/stays", "$(STAYS)", "--leader-election=true", "--leader-election-namespace=stays", "--v=5", "--api-token=", "--other=***", "Stays=true",
				"--drivername=stays.csi.example", "--nodeid=stays", "--timeout=7m", "unix:/csi/env-stays", "/var/lib/kubelet/plugins/stays/csi.sock", "DB_stays", "rancher.io/stays", "secret-stays", "key-stays",
				"/healthz-stays", "d.stays", "spc-stays", "nps-stays", "msg-stays", "docker-pullable://stays@sha256:aa", "https://***@h/x"}},
		"pv": {object: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-stays"},"spec":{"mountOptions":["vers=3.0-stays","password=hunter2","credentials=/etc/stays"],
			"claimRef":{"namespace":"ns-stays","name":"c-stays","uid":"cu-stays"},
			"csi":{"driver":"smb.csi.stays","volumeHandle":"smb://u:handle-stays@nas/share","fsType":"ext4","volumeAttributes":{"source":"//nas.stays/share","storage.kubernetes.io/csiProvisionerIdentity":"1-2-stays",
			"clusterID":"cl-stays","imageName":"img-stays","smbpassword":"hunter2","wpa":"hunter2","chapSecret":"hunter2","iqn":"iqn.2003-stays","fsTypeX":"true","lun":"3"},
			"nodeStageSecretRef":{"name":"stage-stays","namespace":"sns-stays"}}},"status":{"phase":"Failed","message":"rpc error: code = Internal desc = stays token=hunter2"}}`,
			gone: []string{"hunter2"},
			stays: []string{"pv-stays", "vers=3.0-stays", "/etc/stays", "ns-stays", "c-stays", "cu-stays", "smb.csi.stays", "handle-stays", "//nas.stays/share", "1-2-stays", "cl-stays", "img-stays", "iqn.2003-stays", "stage-stays",
				"sns-stays", "rpc error: code = Internal desc = stays token=***"}},
		"class": {object: `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"s"},"provisioner":"p.stays","mountOptions":["pass=hunter2"],
			"parameters":{"csi.storage.k8s.io/provisioner-secret-name":"${pvc.name}-stays","csi.storage.k8s.io/fstype":"xfs-stays","pool":"pool-stays","skuName":"Premium_stays","SRP":"SRP_stays","restuserkey":"hunter2","resturl":"http://u:hunter2@stays","odd":"hunter2","replication-type":"regional-pd-stays","kmsKeyId":"arn:aws:kms:eu:0:key/stays"}}`,
			gone:  []string{"hunter2"},
			stays: []string{"p.stays", "${pvc.name}-stays", "xfs-stays", "pool-stays", "Premium_stays", "SRP_stays", "@stays", "regional-pd-stays", "arn:aws:kms:eu:0:key/stays"}},
		"attachment": {object: `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"va","annotations":{"csi.alpha.kubernetes.io/node-id":"id-stays"}},"spec":{"attacher":"a.stays","nodeName":"n-stays","source":{"persistentVolumeName":"pv-stays"}},
			"status":{"attached":false,"attachmentMetadata":{"devicePath":"/dev/stays","LUN":"3","DEVICE_WWN":"wwn-stays","chapPassword":"hunter2","misc":"hunter2"},"attachError":{"message":"code = Aborted stays Bearer hunter2hunter2hunter2","time":"2026-01-01T00:00:00Z"}}}`,
			gone:  []string{"hunter2"},
			stays: []string{"id-stays", "a.stays", "n-stays", "pv-stays", "/dev/stays", `"LUN":"3"`, "wwn-stays", "code = Aborted stays"}},
		"event": {object: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"n"},"involvedObject":{"kind":"Pod","name":"p-stays"},"reason":"R-stays","message":"AccountKey=hunter2; secret \"s-stays\" not found","source":{"component":"k-stays"}}`,
			gone: []string{"hunter2"}, stays: []string{"p-stays", "R-stays", `secret \"s-stays\" not found`, "k-stays"}},
		"vendor": {object: `{"apiVersion":"longhorn.io/v1beta2","kind":"Engine","metadata":{"name":"e-stays","managedFields":[{"manager":"gone-manager"}],"annotations":{"longhorn.io/a":"a-stays","x":"hunter2"}},
			"spec":{"nodeID":"n-stays","secretName":"sn-stays","backupCredentialSecret":"bcs-stays","apiToken":"hunter2","count":3,"on":true,"tolerations":[{"key":"Node_Role","operator":"stays"}],
			"env":[{"name":"X","value":"hunter2"}],"args":["--csi-address=/csi/stays","--x=hunter2"],"list":[{"name":"adminPassword","value":"hunter2"}]},"status":{"phase":"stays","message":"dial redis://:hunter2@stays"}}`,
			gone:  []string{"hunter2", "gone-manager"},
			stays: []string{"e-stays", "a-stays", "n-stays", "sn-stays", "bcs-stays", `"count":3`, `"on":true`, "Node_Role", `"operator":"stays"`, "/csi/stays", `"phase":"stays"`, "@stays"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := decodeObject(t, c.object)
			before := asJSON(t, o)
			redacted := Redact(o)
			if after := asJSON(t, o); after != before {
				t.Errorf("Redact changed its input:\n%s", cmp.Diff(before, after))
			}
			got := asJSON(t, redacted)
			for _, s := range c.gone {
				if i := strings.Index(got, s); i >= 0 {
					t.Errorf("%q is left: ...%s...", s, got[max(0, i-60):min(len(got), i+60)])
				}
			}
			var text any
			if err := json.Unmarshal([]byte(got), &text); err != nil {
				t.Fatal(err)
			}
			for _, s := range c.stays {
				if !strings.Contains(got, s) {
					t.Errorf("%q is gone from %s", s, got)
				}
			}
			if again := asJSON(t, Redact(redacted)); again != got {
				t.Errorf("a second time is different:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestRedactOwnKinds(t *testing.T) {
	n := &snapshot.NodeReport{Report: nodereport.NodeReport{
		Metadata:  nodereport.Metadata{Name: "n"},
		Kernel:    &nodereport.Kernel{Release: "6.1", BootedAt: time.Unix(1, 0)},
		Mountinfo: "1 2 0:1 / /m rw - cifs //nas/share rw,username=u,password=hunter2\n2 2 0:1 / /k rw - ext4 /dev/a rw",
		Tasks:     []nodereport.Task{{PID: 1, Args: "mount.cifs //nas/s /m -o pass=hunter2,ro"}},
		Volumes:   []nodereport.Volume{{Handle: "h", Staging: &nodereport.Staging{Path: "/p", VolData: map[string]string{"volumeHandle": "token=stays", "x": "token=hunter2"}}}},
	}}
	before := asJSON(t, n)
	got := asJSON(t, Redact(n))
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "token=stays") || !strings.Contains(got, `password=***\n2 2 0:1 / /k rw - ext4 /dev/a rw`) || !strings.Contains(got, "-o pass=***,ro") {
		t.Error(got)
	}
	l := &snapshot.LogExcerpt{Container: "c", Lines: []snapshot.LogLine{{Text: "secret=hunter2"}}}
	if got := Redact(l).(*snapshot.LogExcerpt); got.Lines[0].Text != "secret=***" {
		t.Error(got.Lines)
	}
	if l.Lines[0].Text != "secret=hunter2" || asJSON(t, n) != before {
		t.Error("Redact changed its input")
	}
}

// Nothing that a case needs may be taken away: Redact leaves these as they are. That no answer about any case changes is a test
// of internal/collect.
func TestCasesAreNotMasked(t *testing.T) {
	for _, dir := range caseFolders(t) {
		if filepath.Base(filepath.Dir(dir)) != "cases" {
			continue
		}
		raw, err := os.ReadFile(dir + "/cluster.json")
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		reports, err := filepath.Glob(dir + "/node-*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range reports {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			list.Items = append(list.Items, raw)
		}
		for _, item := range list.Items {
			o := decodeObject(t, string(item))
			if d := cmp.Diff(asJSON(t, o), asJSON(t, Redact(o))); d != "" {
				t.Errorf("%s: %s: %s", dir, o.GetName(), d)
			}
		}
	}
}
