package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	imageName = "csidoctor-probe"
	imagePath = "usr/local/bin/csidoctor-probe"
	// What containerd's import calls the image; the OCI's own annotation holds the tag alone.
	containerdName = "io.containerd.image.name"
)

// image gives an OCI archive with the node's side for each processor, and nothing else: no registry is needed to make it, and
// skopeo, podman, docker and ctr read it. It is what the Dockerfile makes.
func image(version string, programs map[string][]byte, modified time.Time) ([]byte, error) {
	blobs := map[digest.Digest][]byte{}
	put := func(mediaType string, data []byte) v1.Descriptor {
		d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		blobs[d.Digest] = data
		return d
	}
	putJSON := func(mediaType string, v any) (v1.Descriptor, error) {
		b, err := json.Marshal(v)
		return put(mediaType, b), err
	}
	all := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, arch := range probeArchs {
		layer, err := tarball([]file{{name: imagePath, mode: 0o755, data: programs[arch]}, {name: "usr/local/bin/csidoctor", link: imageName}}, modified)
		if err != nil {
			return nil, err
		}
		packed, err := squeeze(layer)
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: "linux", Architecture: arch}
		config, err := putJSON(v1.MediaTypeImageConfig, v1.Image{
			Created: &modified, Platform: platform,
			Config: v1.ImageConfig{
				Env:        []string{"PATH=/usr/local/bin"},
				Entrypoint: []string{"/" + imagePath},
				Labels:     map[string]string{v1.AnnotationTitle: imageName, v1.AnnotationVersion: version, v1.AnnotationLicenses: "Apache-2.0"},
			},
			RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
		})
		if err != nil {
			return nil, err
		}
		manifest, err := putJSON(v1.MediaTypeImageManifest, v1.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
			Config: config, Layers: []v1.Descriptor{put(v1.MediaTypeImageLayerGzip, packed)},
		})
		if err != nil {
			return nil, err
		}
		manifest.Platform = &platform
		all.Manifests = append(all.Manifests, manifest)
	}
	index, err := putJSON(v1.MediaTypeImageIndex, all)
	if err != nil {
		return nil, err
	}
	index.Annotations = map[string]string{v1.AnnotationRefName: version, containerdName: "docker.io/library/" + imageName + ":" + version}
	layout, err1 := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	top, err2 := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{index}})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	files := []file{{name: v1.ImageLayoutFile, mode: 0o644, data: layout}, {name: v1.ImageIndexFile, mode: 0o644, data: top}}
	for _, d := range sortedKeys(blobs) {
		files = append(files, file{name: fmt.Sprintf("blobs/%s/%s", d.Algorithm(), d.Encoded()), mode: 0o644, data: blobs[d]})
	}
	return tarball(files, modified)
}

// tarball keeps the order of files and takes nothing from the machine: no owner, no clock.
func tarball(files []file, modified time.Time) ([]byte, error) {
	var buf bytes.Buffer
	tape := tar.NewWriter(&buf)
	for _, f := range files {
		h := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: modified.Truncate(time.Second), Format: tar.FormatUSTAR}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := tape.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := tape.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := tape.Close()
	return buf.Bytes(), err
}

// writeRoot lays out the image's files in a folder, as the Dockerfile takes them.
func writeRoot(dir string, program []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(imagePath))
	link := filepath.Join(filepath.Dir(path), "csidoctor")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(imageName, link)
}
