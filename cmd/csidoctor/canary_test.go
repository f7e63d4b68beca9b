package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/collect/apitest"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// canary is in every secret of the cluster that these tests ask about, and in nothing else.
const canary = "CANARY"

// spilled are texts with a secret, as components, drivers and their backends write them.
var spilled = []string{
	`Get "https://admin:CANARY@array.example/api/v2/volumes": dial tcp 10.0.0.1:443: i/o timeout`,
	`rpc error: code = Internal desc = 401 Unauthorized, Authorization: Bearer CANARY.0123456789abcdef`,
	`request failed, headers: map[Authorization:[Basic CANARYdXNlcjpwYXNz] Content-Type:[application/json] X-Auth-Token:[CANARY]]`,
	`AWS4-HMAC-SHA256 Credential=AKIACANARYCANARY0001/20260301/eu-central-1/ec2/aws4_request, SignedHeaders=host, Signature=CANARY0123456789abcdef`,
	`InvalidClientTokenId: AKIACANARYCANARY0002 is not known; aws_secret_access_key = CANARYwJalrXUtnFEMI/K7MDENG; x-amz-security-token: CANARYFwoGZXIvYXdzE`,
	`token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJCANARY.CANARYc2lnbmF0dXJl is expired`,
	"tls: -----BEGIN RSA PRIVATE KEY-----\nMIICANARYCANARYCANARY\nCANARY\n-----END RSA PRIVATE KEY----- does not match",
	`{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nMIICANARY\n-----END PRIVATE KEY-----\n"}`,
	`iscsiadm: node.session.auth.password = CANARYchap12; discovery.sendtargets.auth.password_in=CANARYchap34`,
	`exec: iscsiadm -m node -T iqn.2004-01.example:x -o update -n node.session.auth.password -v CANARYchap56: exit status 24`,
	`nvme connect -t tcp --dhchap-secret DHHC-1:00:CANARYaHVudGVyMg==: --hostnqn nqn.2014-08: failed`,
	"[client.csi]\n\tkey = AQCANARYcanary0123456789abcdefghijklmn==\n\tcaps = allow",
	`rbd: map failed: rbd map pool/img --id csi --key=AQCANARYcanary0123456789abcdefghijklmn== -m 10.0.0.1`,
	`mount -t ceph 10.0.0.1:6789:/ /mnt -o name=csi,secret=AQCANARYcanary0123456789abcdefghijklmn==,noatime: exit status 32`,
	`mount -t cifs -o username=svc,password=CANARY,vers=3.0 //nas.example/share /mnt: mount error(13)`,
	`DefaultEndpointsProtocol=https;AccountName=x;AccountKey=CANARYZm9vYmFy/+0123456789==;EndpointSuffix=core`,
	`PUT https://x.blob.core.windows.net/c?sv=2020-01-01&se=2026-01-01&sig=CANARY%2Fdef%3D&sp=r: 403`,
	`dial redis://:CANARY@meta.example:6379/1: connection refused`,
	`secrets:<key:"userKey" value:"CANARY" > volume_id:"vol-1"`,
	`{"name":"adminPassword","value":"CANARY"} {\"password\":\"CANARY\"} map[password:CANARY pool:ssd]`,
	`curl -k -u svc:CANARY https://array.example/login; PGPASSWORD=CANARY psql; --client-secret=CANARY --api-token CANARY`,
	`<netapp><chap-secret>CANARY</chap-secret><password>CANARY</password></netapp>`,
	"Set-Cookie: JSESSIONID=CANARY; path=/",
	`{"auths":{"registry.example":{"auth":"CANARYdXNlcjpwYXNz=="}}} ghp_CANARY0123456789abcdefghij`,
}

// cluster is a small one in which every place that can hold a secret holds one.
func canaryCluster(t *testing.T) (*snapshot.Snapshot, []byte) {
	t.Helper()
	raw, err := os.ReadFile("testdata/canaries.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var docs [][]byte
	for _, doc := range bytes.Split(raw, []byte("\n---\n")) {
		if !bytes.Contains(doc, []byte("SPILLED")) {
			docs = append(docs, doc)
			continue
		}
		for i, text := range spilled { // one object for each text
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, bytes.ReplaceAll(bytes.ReplaceAll(doc, []byte("SPILLED"), quoted), []byte("NUMBER"), fmt.Append(nil, i)))
		}
	}
	facts := snapshot.New()
	facts.TakenAt, facts.Server, facts.Recorded = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "v1.33.4", true
	for _, k := range snapshot.Kinds {
		facts.Read = append(facts.Read, snapshot.Query{Resource: k.Resource})
	}
	for _, doc := range docs {
		asJSON, err := yamlutil.ToJSON(doc)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		o, err := snapshot.Decode(asJSON)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		facts.Add(o)
	}
	return facts, bytes.Join(docs, []byte("\n---\n"))
}

// No secret comes out, whatever is asked, live or of files: not in answers, not in bundles, not on stderr.
func TestNoSecretComesOut(t *testing.T) {
	facts, dump := canaryCluster(t)
	objects := apitest.Start(t, facts, apitest.Options{Now: facts.TakenAt, Forbid: func(q snapshot.Query) string {
		if q.Resource == "clusterroles.rbac.authorization.k8s.io" {
			return `clusterroles is forbidden: webhook https://authz:CANARY@authz.example said no, token=CANARY`
		}
		return ""
	}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			objects.ServeHTTP(w, r)
			return
		}
		for i, text := range spilled { // every line names every claim
			fmt.Fprintf(w, "2026-03-01T11:59:%02dZ E0301 11:59:00.000000 1 controller.go:1] pending-%d pvc-data shop/pending-0 uid-pending-0: %s\n", i%60, i, strings.ReplaceAll(text, "\n", "\\n"))
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	files := filepath.Join(dir, "dump.yaml")
	broken := filepath.Join(dir, "broken.yaml")
	for name, content := range map[string][]byte{files: dump,
		broken: append(slices.Clone(dump), "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: x, creationTimestamp: 'password=CANARY'}\n---\napiVersion: v1\nkind: Event\nmetadata: {name: y}\ncount: !!int \"token=CANARY\"\n"...)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources := map[string][]string{
		"live":  {"--server", server.URL, "--kubeconfig", objects.Kubeconfig(t)},
		"files": {"--from", files}, "broken": {"--from", broken},
	}
	targets := [][]string{{"pvc", "data", "-n", "shop"}, {"pod", "db-0", "-n", "shop"}, {"pv", "pvc-data"}, {"node", "node-1"}, {"driver", "csi.example.com"}, {"snapshot", "nightly", "-n", "shop"},
		{"pvc", "-n", "shop"}, {"pod", "-A"}, {"pvc", "nothing", "-n", "shop"}}
	for source, from := range sources {
		for _, target := range targets {
			for _, form := range []string{"text", "wide", "json", "yaml"} {
				args := slices.Concat(target, from, []string{"-o", form, "--logs"})
				out, _, errOut := canaryRun(t, args)
				silent(t, args, "standard output", out)
				silent(t, args, "standard error", errOut)
			}
		}
		bundles := [][]string{{"bundle", "-A"}, {"bundle", "-n", "shop"}}
		for _, target := range targets[:6] {
			bundles = append(bundles, append([]string{"bundle"}, target...))
		}
		for i := range spilled {
			bundles = append(bundles, []string{"bundle", "pvc", fmt.Sprint("pending-", i), "-n", "shop"})
		}
		for i, args := range bundles {
			file := filepath.Join(dir, fmt.Sprintf("%s-%d.tar.gz", source, i))
			args = slices.Concat(args, from, []string{"-f", file})
			_, status, errOut := canaryRun(t, args)
			if status != 0 {
				t.Fatalf("%q: %s", args, errOut)
			}
			silent(t, args, "standard error", errOut)
			silent(t, args, "the bundle", unzipped(t, file))
		}
		file := filepath.Join(dir, source+"-kept.tar.gz")
		canaryRun(t, slices.Concat(targets[1], from, []string{"--bundle", file}))
		silent(t, []string{source}, "the kept bundle", unzipped(t, file))
	}
	// What is said of a server that does not answer.
	args := []string{"pvc", "data", "--server", "https://admin:CANARY@127.0.0.1:1", "--request-timeout", "5s"}
	_, status, errOut := canaryRun(t, args)
	if status != 1 || errOut == "" {
		t.Errorf("status %d: %s", status, errOut)
	}
	silent(t, args, "standard error", errOut)
}

// The secrets are in the way of the answers: what is asked does look at the places where they are.
func TestCanariesAreLookedAt(t *testing.T) {
	_, dump := canaryCluster(t)
	file := filepath.Join(t.TempDir(), "dump.yaml")
	if err := os.WriteFile(file, dump, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, _ := canaryRun(t, []string{"pvc", "-n", "shop", "--from", file, "-o", "yaml"})
	var list struct{ Items []any }
	if err := yaml.Unmarshal([]byte(out), &list); err != nil || len(list.Items) < len(spilled) {
		t.Fatalf("%d answers: %v", len(list.Items), err)
	}
	if n := strings.Count(out, "***"); n < 2*len(spilled) {
		t.Errorf("only %d masks in the answers about %d texts", n, len(spilled))
	}
}

func canaryRun(t *testing.T, args []string) (out string, status int, errOut string) {
	t.Helper()
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	status = run(t.Context(), args, streams)
	return o.String(), status, e.String()
}

func silent(t *testing.T, args []string, where, text string) {
	t.Helper()
	if i := strings.Index(text, canary); i >= 0 {
		t.Errorf("%q: %s sings: ...%s...", args, where, text[max(0, i-150):min(len(text), i+40)])
	}
}

func unzipped(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
