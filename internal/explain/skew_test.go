package explain_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// onlyNewer are cases of which an older server shows less, with what it lacks.
var onlyNewer = map[string]string{
	"big-disk-past-caching-threshold": "the condition ControllerResizeError, which alone says why",
}

// TestOlderServers: the answer to a case is right, too, where Kubernetes 1.28 and the sidecars of its time wrote the objects.
func TestOlderServers(t *testing.T) {
	for _, c := range loadCases(t) {
		full := c.load(t)
		if _, ok := disputed[c.ID]; ok || slices.Contains(c.Want.Cause, "expand/modify-failed") { // 1.28 has no VolumeAttributesClass
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			c.Want.Mention, c.Want.Forbid = nil, nil // of the newer words
			d := walk(t, older(full), c.target(), c.At, nil)
			wrong := c.wrong(d)
			switch lacks, ok := onlyNewer[c.ID]; {
			case ok && len(wrong) == 0:
				t.Errorf("answered as wanted, without %s", lacks)
			case ok && d.Verdict == explain.VerdictHealthy:
				t.Errorf("healthy without %s", lacks)
			case !ok && len(wrong) > 0:
				t.Errorf("%s\nsummary: %s", strings.Join(wrong, "; "), d.Summary)
			}
		})
	}
}

// older gives the same facts as Kubernetes 1.28 writes them.
func older(full *snapshot.Snapshot) *snapshot.Snapshot {
	s := snapshot.New()
	s.TakenAt, s.Server, s.Read, s.Gaps, s.Recorded = full.TakenAt, "v1.28.15", full.Read, full.Gaps, full.Recorded
	for _, gk := range full.GroupKinds() {
		if gk.Kind == "VolumeAttributesClass" {
			continue
		}
		for _, o := range full.All(gk) {
			o := o.DeepCopyObject().(snapshot.Object)
			age(o)
			s.Add(o)
		}
	}
	return s
}

func age(o snapshot.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		o.Status.NodeInfo.KubeletVersion = "v1.28.15"
	case *corev1.PersistentVolume:
		o.Status.LastPhaseTransitionTime, o.Spec.VolumeAttributesClassName = nil, nil
	case *corev1.PersistentVolumeClaim:
		o.Spec.VolumeAttributesClassName, o.Status.CurrentVolumeAttributesClassName, o.Status.ModifyVolumeStatus = nil, nil, nil
		o.Status.AllocatedResources, o.Status.AllocatedResourceStatuses = nil, nil
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type != corev1.PersistentVolumeClaimResizing && c.Type != corev1.PersistentVolumeClaimFileSystemResizePending
		})
	case *corev1.Pod:
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReadyToStartContainers })
		for i, c := range o.Status.Conditions {
			o.Status.Conditions[i].Message = olderWords(c.Message)
		}
	case *storagev1.CSIDriver:
		o.Spec.NodeAllocatableUpdatePeriodSeconds = nil
	case *storagev1.VolumeAttachment:
		for _, e := range []*storagev1.VolumeError{o.Status.AttachError, o.Status.DetachError} {
			if e != nil {
				e.ErrorCode = nil
			}
		}
	case *corev1.Event:
		o.Message = olderWords(o.Message)
		switch {
		case o.Reason == "ProvisioningFailed" && strings.HasPrefix(o.Message, "rpc error:"):
			o.Message = `failed to provision volume with StorageClass "standard": ` + o.Message
		case o.Reason == "VolumeDelete" && stillAttached.MatchString(o.Message):
			o.Reason, o.Type, o.Message = "VolumeFailedDelete", corev1.EventTypeWarning, stillAttached.FindString(o.Message)
		}
	}
}

var (
	multiAttach   = regexp.MustCompile(`Waiting for detach for volume (\S+) Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node`)
	multiUsed     = regexp.MustCompile(`Waiting for detach for volume (\S+) Volume is already used by`)
	stillAttached = regexp.MustCompile(`persistentvolume \S+ is still attached to node [^, ]+`)
)

func olderWords(text string) string {
	text = multiAttach.ReplaceAllString(text, `Multi-Attach error for volume $1 Volume is already exclusively attached to one node and can't be attached to another`)
	text = multiUsed.ReplaceAllString(text, `Multi-Attach error for volume $1 Volume is already used by`)
	return strings.NewReplacer("node(s) didn't match PersistentVolume's node affinity", "node(s) had volume node affinity conflict",
		"Volume provisioning failed with infeasible error. Retries will be delayed. ", "").Replace(text)
}
