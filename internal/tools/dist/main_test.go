package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestPackIsReproducible(t *testing.T) {
	files := []file{{name: "LICENSE", mode: 0o644, data: []byte("free")}, {name: "kubectl-csidoctor", mode: 0o755, data: []byte("program")}}
	first, err := pack(files, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	// Another zone and a part of a second must not show.
	second, err := pack(files, time.Unix(1700000000, 5).In(time.FixedZone("elsewhere", 3600)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same files give other bytes the second time")
	}

	zip, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	tape := tar.NewReader(zip)
	for _, want := range files {
		h, err := tape.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != want.name || h.Mode != want.mode || h.Uname != "" || h.ModTime.Unix() != 1700000000 || !bytes.Equal(data, want.data) {
			t.Errorf("got %+v with %q, want %q of mode %o", h, data, want.name, want.mode)
		}
	}
	if _, err := tape.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last file: %v, want EOF", err)
	}
}

func TestRefusesBeforeBuilding(t *testing.T) {
	t.Chdir("../../..")
	for _, c := range []struct {
		version, platform, want string
	}{
		{"1.2.3", "linux/amd64", "no semantic version"},
		{"v1.2", "linux/amd64", "no semantic version"},
		{"v1.2.3-", "linux/amd64", "no semantic version"},
		{"v1.2.3", "linux", "not of the form"},
	} {
		err := run(c.version, t.TempDir(), []string{c.platform})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, want %q", c.version, c.platform, err, c.want)
		}
	}
}
