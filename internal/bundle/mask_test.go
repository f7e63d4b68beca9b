package bundle

import (
	"strings"
	"testing"
	"time"
)

const (
	jwt    = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMyJ9.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.c2lnbmF0dXJlLW9mLWl0"
	cephx  = "AQDLWmRk7mYyHxAAqKtPz4vHTfOJ1lHw5q8k2g=="
	pem    = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIEpAIBAAKCAQEAx\n-----END RSA PRIVATE KEY-----"
	azure  = "Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zw=="
	awsID  = "AKIAIOSFODNN7EXAMPLE"
	awsKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

func TestRedactText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		// mount helpers
		{"mount -t cifs -o username=svc,password=hunter2,vers=3.0 //nas/share /mnt", "mount -t cifs -o username=svc,password=***,vers=3.0 //nas/share /mnt"},
		{"-o pass=hunter2,uid=0", "-o pass=***,uid=0"},
		{"-o credentials=/etc/smb/creds,ro", "-o credentials=/etc/smb/creds,ro"},
		{"mount -t ceph mon:/ /mnt -o name=admin,secret=" + cephx, "mount -t ceph mon:/ /mnt -o name=admin,secret=***"},
		{"-o name=admin,secretfile=/etc/ceph/admin.secret", "-o name=admin,secretfile=/etc/ceph/admin.secret"},
		{"10.0.0.1:6789:/ /mnt ceph rw,name=csi,secret=<hidden>,acl 0 0", "10.0.0.1:6789:/ /mnt ceph rw,name=csi,secret=<hidden>,acl 0 0"},
		{"rbd map pool/img --id csi --key " + cephx + " -m mon", "rbd map pool/img --id csi --key *** -m mon"},
		{"rbd map --keyfile=***stripped*** pool/img", "rbd map --keyfile=***stripped*** pool/img"},
		{"iscsiadm -m node -o update -n node.session.auth.password -v hunter2", "iscsiadm -m node -o update -n node.session.auth.password -v ***"},
		{"node.session.auth.password_in = s3cr3t", "node.session.auth.password_in = ***"},
		{"--password hunter2 --verbose", "--password *** --verbose"},
		{"--password-file /etc/pw --verbose", "--password-file /etc/pw --verbose"},
		// what clouds and drivers say
		{"connect DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + azure + ";EndpointSuffix=core", "connect DefaultEndpointsProtocol=https;AccountName=x;AccountKey=***;EndpointSuffix=core"},
		{"key is " + azure, "key is ***"},
		{"GET https://x.blob.core.windows.net/c?sv=2020&se=2026-01-01&sig=abc%2Fdef%3D&sp=r: 403", "GET https://x.blob.core.windows.net/c?sv=2020&se=2026-01-01&sig=***&sp=r: 403"},
		{"https://b.s3.amazonaws.com/k?X-Amz-Credential=" + awsID + "%2F2026&X-Amz-Signature=0123abcd", "https://b.s3.amazonaws.com/k?X-Amz-Credential=***&X-Amz-Signature=***"},
		{"InvalidAccessKeyId: " + awsID + " does not exist", "InvalidAccessKeyId: *** does not exist"},
		{"aws_secret_access_key=" + awsKey, "aws_secret_access_key=***"},
		{`{"accessKey": "` + awsKey + `", "region": "eu"}`, `{"accessKey": "***", "region": "eu"}`},
		{`secrets:<key:"userKey" value:"x" >`, `secrets:<key:"userKey" value:"***" >`},
		{`secrets:<key:"userID" value:"csi" > params:<key:"pool" value:"ssd" >`, ""},
		{`{"name":"chapPassword","value":"hunter2"},{"name":"size","value":"5"}`, `{"name":"chapPassword","value":"***"},{"name":"size","value":"5"}`},
		{`{\"key\":\"userKey\",\"value\":\"hunter2\"}`, `{\"key\":\"userKey\",\"value\":\"***\"}`},
		{"<user>admin</user><chap-secret>hunter2</chap-secret><name>vol</name>", "<user>admin</user><chap-secret>***</chap-secret><name>vol</name>"},
		{"map[Accept:[*/*] Authorization:[Basic dXNlcjpwYXNz] X-Auth-Token:[hunter2] Set-Cookie:[sid=hunter2; path=/]]", "map[Accept:[*/*] Authorization:[***] X-Auth-Token:[***] Set-Cookie:[***]]"},
		{"Set-Cookie: sid=hunter2; path=/\nDate: x", "Set-Cookie: ***\nDate: x"},
		{"curl -k -u svc:hunter2 https://array/api", "curl -k -u svc:*** https://array/api"},
		{"docker run -u 1000:1000 x", ""},
		{"nvme connect --dhchap-secret=DHHC-1:00:aHVudGVyMg==: -n nqn", "nvme connect --dhchap-secret=*** -n nqn"},
		{"authenticate with DHHC-1:01:aHVudGVyMg==: failed", "authenticate with *** failed"},
		{"MYSQL_PWD=hunter2 mysql; pw=hunter2", "MYSQL_PWD=*** mysql; pw=***"},
		{"client-key-data: LS0tLS1CRUdJTg", "client-key-data: ***"},
		{"chapInitiatorSecret: hunter2hunter2", "chapInitiatorSecret: ***"},
		{`map[adminPassword:hunter2 pool:ssd]`, `map[adminPassword:*** pool:ssd]`},
		{`{\"password\":\"hunter2\",\"user\":\"a\"}`, `{\"password\":\"***\",\"user\":\"a\"}`},
		{`{\\\"password\\\":\\\"hunter2\\\"}`, `{\\\"password\\\":\\\"***\\\"}`},
		{`{"password":"with \"quotes\" and, commas"}`, `{"password":"***"}`},
		{`{"token":"abc-DEF","secret":"rook-csi"}`, `{"token":"***","secret":"rook-csi"}`},
		{"Authorization: Bearer " + jwt, "Authorization: Bearer ***"},
		{"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"},
		{"sent bearer 0123456789abcdef0123 to it", "sent bearer *** to it"},
		{"jwt " + jwt + " expired", "jwt *** expired"},
		{"dial redis://:hunter2@meta:6379/1: refused", "dial redis://***@meta:6379/1: refused"},
		{"clone https://user:p@ss@git.example/x.git", "clone https://***@git.example/x.git"},
		{"before\n" + pem + "\nafter", "before\n***\nafter"},
		{"cut " + pem[:len(pem)-40], "cut ***"},
		{"private_key: " + strings.ReplaceAll(pem, "\n", `\n`) + " end", "private_key: *** end"},
		{"ghp_0123456789abcdefghijABCDEFGHIJ0123456", "***"},
		// what must stay
		{`error getting secret rook-csi-cephfs-provisioner in namespace rook-ceph: secrets "rook-csi-cephfs-provisioner" not found`, ""},
		{`failed to ensure storage account: could not get storage key for storage account sharesdemo01: Retriable: false, RetryAfter: 0s, HTTPStatusCode: 403`, ""},
		{`rpc error: code = Internal desc = provided secret is empty`, ""},
		{`failed to fetch token: rpc error: code = DeadlineExceeded desc = context deadline exceeded`, ""},
		{`failed to fetch token: bearer expired`, ""},
		{`An operation with the given volume key modeInstance/asia-northeast1/pvc-c87a107a/vol1 already exists.`, ""},
		{`mount error(13): Permission denied; Refer to the mount.cifs(8) manual page`, ""},
		{`MountVolume.SetUp failed for volume "creds" : rpc error: code = Unknown desc = failed to mount secrets store objects for pod a/b, err: x`, ""},
		{`"Processing" key="shop/data-0" secret="shop/creds" node="n1"`, ""},
		{`docker-pullable://nginx@sha256:0123456789abcdef`, ""},
		{`rbd: image replicapool/csi-vol-1@snap: secretName: csi-rbd, secretNamespace: rook-ceph`, ""},
		{`csi.storage.k8s.io/node-stage-secret-name=csi-rbd-secret`, ""},
		{`dial tcp: lookup https://volume.cloud.example:8776/v3/x: no such host`, ""},
		{`22 1 8:1 / /var/lib/kubelet/plugins/kubernetes.io/csi/x/globalmount rw,relatime shared:1 - nfs4 nas:/a rw,vers=4.1,sec=sys,addr=10.0.0.1`, ""},
		{`XFS (vde): Filesystem has duplicate UUID 899beeae-aeac-4746-9049-66d38aba47b3 - can't mount`, ""},
		{`--bootstrap-token-file=/var/run/token --tokens 5`, ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		if got := RedactText(c.in); got != want {
			t.Errorf("RedactText(%q)\n got %q\nwant %q", c.in, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	for key, want := range map[string]class{
		"password": strong, "restuserkey": strong, "AWS_SECRET_ACCESS_KEY": strong, "accessKeyId": strong, "node.session.auth.password_in": strong,
		"sasToken": strong, "connection-string": strong, "secretId": strong,
		"secret": weak, "token": weak, "key": weak, "credentials": weak, "sig": weak,
		"secretName": plain, "csi.storage.k8s.io/provisioner-secret-namespace": plain, "kmsKeyId": plain, "keyvaultName": plain,
		"tokenExpirationSeconds": plain, "passwordFile": plain, "pool": plain, "keyring": plain, "encrypted": plain, "": plain,
	} {
		if got := classify(key); got != want {
			t.Errorf("classify(%q) = %d, want %d", key, got, want)
		}
	}
}

// A hostile text takes no more time than another of its length.
func TestRedactTextIsLinear(t *testing.T) {
	for _, part := range []string{"key=", "secret='", `token:"`, "-v ", "a://", "--key ", "-----BEGIN A-----", `key=\"`, "password ", "Bearer ", "key:   "} {
		start := time.Now()
		RedactText(strings.Repeat(part, 1<<19/len(part)) + "x")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q took %s", part, took)
		}
	}
}

func BenchmarkRedactText(b *testing.B) {
	const message = `AttachVolume.Attach failed for volume "pvc-2e11c172-cbea-461a-a840-190c35ebb265" : rpc error: code = Unknown desc = Retriable: false, RetryAfter: 0s, HTTPStatusCode: 409, RawError: {"error":{"code":"AttachDiskWhileBeingDetached","message":"Cannot attach data disk"}}`
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		RedactText(message)
	}
}
