package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/test/lab/cluster"
)

// watcher sees the cluster for all who wait: one kubectl, however many they are.
type watcher struct {
	mu   sync.Mutex
	all  objects
	next chan struct{} // closed when there is a newer state
}

func watch(t *testing.T, c *cluster.Cluster) *watcher {
	w := &watcher{next: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			begin := time.Now()
			var list struct{ Items objects }
			out, err := c.Kubectl(ctx, "", "get", "events,pods,pvc,pv,volumesnapshots,serviceaccounts,leases,volumeattachments,csinodes,nodes", "-A", "-o", "json")
			if err == nil {
				err = json.Unmarshal([]byte(out), &list)
			}
			if err != nil && ctx.Err() == nil {
				t.Log(err) // who waits for it fails
			}
			if err == nil {
				w.mu.Lock()
				w.all = list.Items
				close(w.next)
				w.next = make(chan struct{})
				w.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(max(500*time.Millisecond, 2*time.Since(begin))): // on a busy machine it is not to be what keeps it busy
			}
		}
	}()
	return w
}

func (w *watcher) now() (objects, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all, w.next
}

func (w *watcher) objects() objects {
	all, _ := w.now()
	return all
}

type objects []object

// named returns the objects whose names begin so.
func (all objects) named(kind, namespace, name string) (found objects) {
	for _, o := range all {
		if o.Kind == kind && o.Metadata.Namespace == namespace && strings.HasPrefix(o.Metadata.Name, name) {
			found = append(found, o)
		}
	}
	return found
}

// object is any of those that are watched.
type object struct {
	Kind     string
	Metadata struct {
		Namespace, Name, UID                 string
		CreationTimestamp, DeletionTimestamp time.Time
		Finalizers                           []string
	}
	Spec struct {
		VolumeName           string
		CSI                  struct{ Driver, VolumeHandle string }
		Attacher             string
		Source               struct{ PersistentVolumeName string }
		Drivers              []csiNodeDriver
		HolderIdentity       string
		LeaseDurationSeconds int
		RenewTime            time.Time
	}
	Status struct {
		Phase                     string
		Conditions                []condition
		Capacity                  map[string]string
		AllocatedResourceStatuses map[string]string
		ReadyToUse                bool
		LastPhaseTransitionTime   time.Time
		DetachError               struct{ Message string }
		ContainerStatuses         []containerStatus
	}

	// of an event
	InvolvedObject  struct{ Kind, Name string }
	Reason, Message string
	Count           int
	Series          struct{ Count int }
}

// deletedSince tells whether the object is being deleted, and for longer than that.
func (o object) deletedSince(d time.Duration) bool {
	return !o.Metadata.DeletionTimestamp.IsZero() && time.Since(o.Metadata.DeletionTimestamp) > d
}

// times is how often the event happened.
func (o object) times() int { return max(o.Count, o.Series.Count, 1) }

// waits tells whether a container of the pod waits for that reason, and has been started so often again.
func (o object) waits(reason string, restarts int) bool {
	for _, c := range o.Status.ContainerStatuses {
		if c.State.Waiting.Reason == reason && c.RestartCount >= restarts {
			return true
		}
	}
	return false
}

type (
	condition     struct{ Type, Status string }
	csiNodeDriver struct{ Name string }

	containerStatus struct {
		RestartCount int
		State        struct {
			Waiting    struct{ Reason string }
			Terminated *struct{ ExitCode int }
		}
	}
)
