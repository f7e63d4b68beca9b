package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

func (s *supervisor) archive() string { return filepath.Join(s.Dir, "images.tar") }

// writeImages makes the two images that pods of the lab use, for there is no registry.
func (s *supervisor) writeImages() error {
	return writeImages(s.archive(), map[string][]string{
		"lab.local/pause:1": {"sleep", "100000000"},
		"lab.local/app:1":   {"sh", "-c", "trap exit TERM; sleep 100000000 & wait"}, // sleep alone, as process 1, would ignore the signal
	})
}

func (s *supervisor) importImages(ctx context.Context, node string) error {
	s.mu.Lock()
	enter, err := s.enter(node)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	args := append(enter, filepath.Join(s.bin, "ctr"), "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", s.archive())
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("import images: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// writeImages writes a docker archive with one busybox image for each name.
func writeImages(path string, commands map[string][]string) error {
	layer, err := busyboxLayer()
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(layer))
	files := map[string][]byte{digest + "/layer.tar": layer}
	type image struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []image
	for name, command := range commands {
		config, err := json.Marshal(map[string]any{
			"architecture": runtime.GOARCH, "os": "linux",
			"config": map[string]any{"Cmd": command, "Env": []string{"PATH=/bin"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
		})
		if err != nil {
			return err
		}
		file := fmt.Sprintf("%x.json", sha256.Sum256(config))
		files[file] = config
		manifest = append(manifest, image{file, []string{name}, []string{digest + "/layer.tar"}})
	}
	if files["manifest.json"], err = json.Marshal(manifest); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	t := tar.NewWriter(f)
	for name, data := range files {
		if err := addFile(t, name, 0o644, data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), f.Close())
}

func busyboxLayer() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "tmp", "etc", "proc", "sys", "dev"} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := addFile(t, "bin/busybox", 0o755, busybox); err != nil {
		return nil, err
	}
	for _, name := range []string{"sh", "sleep", "ls", "cat", "mount", "df", "tar", "touch", "dd", "sync", "mkdir", "rm", "echo", "id", "stat"} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}); err != nil {
			return nil, err
		}
	}
	err = t.Close()
	return layer.Bytes(), err
}

func addFile(t *tar.Writer, name string, mode int64, data []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}
