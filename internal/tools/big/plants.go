package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cases are some of testdata that can lie in one cluster: they have no driver and no name in common but that of their namespace, which becomes
// the case's, they need no node's report and no kind of a vendor, and what they lack (a default class, say) no other brings.
var cases = []string{
	"array-volume-refused-after-power-cut", "azure-vm-blocked-by-a-strangers-disk", "bucket-claim-wears-block-class", "clone-of-claim-on-host-folder",
	"daemonset-wants-zero-pods-no-node-can-hold-volume", "droplet-account-full-of-volumes", "expansion-accepted-by-api-then-silence",
	"immutable-node-cannot-log-in-to-nas", "k0s-iscsi-driver-pods-creating-everywhere", "labelled-nfs-volume-claim-got-default-class",
	"local-disks-free-but-nobody-takes-them", "operator-claim-asks-fast-by-annotation", "recreated-namespace-share-still-promised",
	"render-pod-scratch-not-created", "restore-from-snapshot-that-was-never-cut", "second-importer-wants-exclusive-claim",
	"single-worker-already-carries-sixteen-disks", "static-local-scratch-asked-to-grow", "storage-plugin-gone-from-full-worker",
	"two-shares-in-one-pod-nothing-happens",

	"a-pod-called-data-meets-a-claim-called-data-web-0", "approver-said-no-to-a-workload-identity", "array-service-accepts-and-never-answers",
	"attacher-may-not-sign-the-volume", "attacher-may-write-status-but-not-the-finalizer", "backup-job-holds-the-claim-since-lunch",
	"cbs-disk-is-being-copied-and-may-not-be-detached", "ceph-secret-was-written-for-the-other-driver", "cinder-says-it-is-that-large-already",
	"claim-name-has-a-dash-too-few", "clone-source-marked-by-cdi-months-ago",
	"dorado-volume-staged-without-its-publish-context", "eleventh-hourly-copy-of-the-ledger", "eleventh-volume-of-a-qingcloud-instance",
	"folder-of-a-worker-that-was-sold", "job-in-a-namespace-that-is-being-cleared",
	"maxiops-volume-grows-only-when-unplugged", "object-store-finds-no-drive-on-any-node", "operator-upgrade-took-a-right-from-the-provisioner",
	"registrar-announces-another-folder-than-the-plugin-uses", "third-shard-never-gets-its-disk", "two-releases-of-one-chart-share-a-manifest",
}

// lab is a bundle of faults of the test cluster: README.md there says how it is made.
const lab = "test/lab/e2e/testdata/faults.tar.gz"

// labFaults are those in it, by namespace, with what the table of faults there wants.
var labFaults = map[string]string{
	"attach-refused":         "stuck attach/permission",
	"attacher-stopped":       "stuck attach/attacher-not-running",
	"class-missing":          "stuck claim/class-missing",
	"create-refused":         "stuck provision/quota",
	"grow-refused":           "stuck expand/backend-error",
	"inline-not-allowed":     "stuck publish/ephemeral-not-allowed",
	"no-slot":                "stuck attach/limit-reached",
	"one-pod-only":           "stuck schedule/rwop-in-use",
	"provisioner-stopped":    "stuck provision/provisioner-not-running",
	"publish-fails":          "stuck publish/driver-error",
	"resizer-stopped":        "stuck expand/resizer-not-running",
	"snapshot-class-missing": "stuck snapshot/class-missing",
	"stage-fails":            "stuck stage/driver-error",
}

// beside are other claims of the cases that do not do well, for reasons of their own or for the case's.
var beside = map[string]string{
	"job-in-a-namespace-that-is-being-cleared/results":               "stuck delete/finalizer",
	"labelled-nfs-volume-claim-got-default-class/data-volume-docs-0": "stuck schedule/not-the-volume", // its pod waits for the other claim
	"queue/data-zookeeper-2":                                         "stuck schedule/not-the-volume", // of azure-vm-blocked-by-a-strangers-disk
	"eleventh-hourly-copy-of-the-ledger/ledger-hourly-11":            "stuck snapshot/driver-error",   // the snapshot itself
	"restore-from-snapshot-that-was-never-cut/wp-content":            "degraded snapshot/class-missing",
	"snapshot-class-missing/data":                                    "degraded snapshot/class-missing",
}

// plant is a fault in the cluster, and what is to be said of it.
type plant struct {
	path      string // of what holds its objects
	id        string // and its namespace
	namespace string // that its objects have there; empty: the fault is about what has none
	name      string // of what was asked about, where that has no namespace
	at        time.Time
	want      []string // verdicts with causes, of which one will do
}

// planted are the cases, and the faults of the test cluster, which need no folder of their own.
func planted(root string) (out []plant, err error) {
	for _, id := range cases {
		found, err := filepath.Glob(filepath.Join(root, "testdata", "*", id))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%s: %v %w", id, found, err)
		}
		var c struct {
			Args []string
			At   time.Time
			Want struct {
				Verdict string
				Cause   []string
			}
		}
		raw, err := os.ReadFile(filepath.Join(found[0], "case.json"))
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		p := plant{path: found[0], id: id, at: c.At}
		if i := slices.Index(c.Args, "-n"); i > 0 {
			p.namespace = c.Args[i+1]
		} else {
			p.name = c.Args[1]
		}
		for _, cause := range c.Want.Cause {
			p.want = append(p.want, c.Want.Verdict+" "+cause)
		}
		out = append(out, p)
	}
	for namespace, want := range labFaults {
		out = append(out, plant{id: namespace, want: []string{want}})
	}
	return out, nil
}

// judge holds the answer of a scan against what is in the cluster.
func judge(answer io.Reader, plants []plant) error {
	var list struct {
		Items []struct {
			Target  struct{ Kind, Namespace, Name string }
			Verdict string
			Cause   struct{ ID string }
			Summary string
		}
	}
	if err := json.NewDecoder(answer).Decode(&list); err != nil {
		return err
	}
	var wrong []error
	found := map[string]bool{}
	for _, item := range list.Items {
		said := strings.TrimSpace(item.Verdict + " " + item.Cause.ID)
		i := slices.IndexFunc(plants, func(p plant) bool {
			return (p.id == item.Target.Namespace || p.name != "" && p.name == item.Target.Name) && slices.Contains(p.want, said)
		})
		switch {
		case i >= 0:
			found[plants[i].id] = true
		case beside[item.Target.Namespace+"/"+item.Target.Name] != said:
			wrong = append(wrong, fmt.Errorf("not wanted: %s: %+v", said, item))
		}
	}
	for _, p := range plants {
		if !found[p.id] {
			wrong = append(wrong, fmt.Errorf("not found: %s: %s", p.id, p.want))
		}
	}
	return errors.Join(wrong...)
}
