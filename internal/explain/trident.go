package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const tridentDriver = "csi.trident.netapp.io"

// noBackends: Trident has no backend that is online and fits the class. A pool without room is said in other words.
const noBackends = `no available backends? for`

var noBackendsSaid = regexp.MustCompile(noBackends)

// tridentBackends are Trident's backends that the class asks for by name or type, those that are online and the others; none
// where they could not be read.
func (v *View) tridentBackends() (online, others []*unstructured.Unstructured) {
	if v.Driver != tridentDriver {
		return nil, nil
	}
	class, known := v.class()
	if known != Yes {
		return nil, nil
	}
	var all []*unstructured.Unstructured
	v.ahead(func() { all, _ = list[*unstructured.Unstructured](v.world, inTrident, snapshot.Query{}) })
	for _, b := range all {
		if !asksForBackend(class.Parameters, b) {
			continue
		}
		if state, _, _ := unstructured.NestedString(b.Object, "state"); state == "online" {
			online = append(online, b)
		} else {
			others = append(others, b)
		}
	}
	return online, others
}

// asksForBackend: a class's storagePools are BACKEND:POOL,POOL;BACKEND:POOL with regular expressions, its backendType is the
// storageDriverName of a backend (Trident's documentation, StorageClass parameters).
func asksForBackend(parameters map[string]string, b *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(b.Object, "backendName")
	if pools := parameters["storagePools"]; pools != "" {
		return slices.ContainsFunc(strings.Split(pools, ";"), func(p string) bool {
			backend, _, _ := strings.Cut(strings.TrimSpace(p), ":")
			re, err := regexp.Compile("^(?:" + backend + ")$")
			return backend == name || err == nil && re.MatchString(name)
		})
	}
	kind := parameters["backendType"]
	if kind == "" {
		return true
	}
	configs, _, _ := unstructured.NestedMap(b.Object, "config")
	for _, c := range configs {
		if m, _ := c.(map[string]any); m["storageDriverName"] == kind {
			return true
		}
	}
	return false
}

// sickTrident: none of the backends that the class asks for is online.
func (v *View) sickTrident() (string, []Evidence) {
	online, others := v.tridentBackends()
	if len(online) > 0 || len(others) == 0 {
		return "", nil
	}
	var says []string
	var ev []Evidence
	for _, b := range others {
		text := func(field string) string { s, _, _ := unstructured.NestedString(b.Object, field); return s }
		state := strings.TrimSuffix(text("state")+": "+text("stateReason"), ": ")
		says = append(says, fmt.Sprintf("%s (%s)", text("backendName"), state))
		ev = append(ev, fact(ref(b), "state", state, time.Time{}))
	}
	return "No Trident backend that the class asks for is online: " + strings.Join(says, ", "), ev
}
