package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/csidoctor/csidoctor/internal/collect"
	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// A scan of the cluster finds every case that is in it, with its cause, and nothing where all is well.
func TestScanFindsTheCases(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := snapshot.New()
	s.TakenAt, s.Recorded = now, true
	f := &filler{now: now, seen: map[string]string{}, keep: func(_ string, o snapshot.Object) error {
		s.Add(o)
		_, err := stored(o)
		return err
	}}
	plants, err := planted("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.faults("../../..", plants); err != nil {
		t.Fatal(err)
	}
	if err := f.healthy(100); err != nil {
		t.Fatal(err)
	}
	for _, in := range explain.Inputs {
		if in.Verbs != nil {
			s.Read = append(s.Read, snapshot.Query{Resource: in.Resource})
		}
	}
	var l explain.List
	if _, _, err := collect.Walk(t.Context(), collect.Files(s), nil, func(s *snapshot.Snapshot) (wanted explain.Wanted) {
		l, wanted = explain.Scan(s, "", explain.Options{Now: now})
		return wanted
	}); err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(bytes.NewReader(answer), plants); err != nil {
		t.Error(err)
	}
	if healthy := l.Counts[explain.VerdictHealthy]; healthy < 100 {
		t.Errorf("%d are well, want 100 claims", healthy)
	}

	// And it would be seen if one were missed, or another seen.
	missed := bytes.Replace(answer, []byte("claim/quota-exceeded"), []byte("claim/denied"), 1)
	if err := judge(bytes.NewReader(missed), plants); err == nil || !strings.Contains(err.Error(), "not wanted: stuck claim/denied") || !strings.Contains(err.Error(), "not found: third-shard") {
		t.Error(err)
	}
}
