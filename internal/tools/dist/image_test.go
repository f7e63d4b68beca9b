package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

func TestImage(t *testing.T) {
	programs := map[string][]byte{"amd64": []byte("program for amd64"), "arm64": []byte("program for arm64")}
	first, err := image("v1.2.3", programs, time.Unix(1700000000, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	second, err := image("v1.2.3", programs, time.Unix(1700000000, 0).UTC())
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second time it has other bytes: %v", err)
	}
	files := untar(t, first)
	read := func(name string, v any) {
		t.Helper()
		if err := json.Unmarshal(files[name], v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d v1.Descriptor) string {
		t.Helper()
		name := "blobs/sha256/" + d.Digest.Encoded()
		if digest.FromBytes(files[name]) != d.Digest || int64(len(files[name])) != d.Size {
			t.Errorf("%s is not what its name says", name)
		}
		return name
	}
	var layout v1.ImageLayout
	read(v1.ImageLayoutFile, &layout)
	var top, all v1.Index
	read(v1.ImageIndexFile, &top)
	if layout.Version != "1.0.0" || len(top.Manifests) != 1 || top.Manifests[0].Annotations[v1.AnnotationRefName] != "v1.2.3" {
		t.Fatalf("%+v %+v", layout, top)
	}
	read(blob(top.Manifests[0]), &all)
	if len(all.Manifests) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, m := range all.Manifests {
		var manifest v1.Manifest
		var config v1.Image
		read(blob(m), &manifest)
		read(blob(manifest.Config), &config)
		layer := unzip(t, files[blob(manifest.Layers[0])])
		if config.Architecture != m.Platform.Architecture || config.OS != "linux" || config.RootFS.DiffIDs[0] != digest.FromBytes(layer) || config.Config.User != "" {
			t.Errorf("%+v", config)
		}
		if got := untar(t, layer)[config.Config.Entrypoint[0][1:]]; string(got) != "program for "+config.Architecture {
			t.Errorf("%s: %q", config.Architecture, got)
		}
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tape := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tape.Next()
		if err == io.EOF {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(tape); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, data []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
