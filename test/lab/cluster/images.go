package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// image is made here, for there is no registry.
type image struct {
	name       string
	entrypoint []string
	command    []string
	layers     []layer
}

// layer has files by their paths in the image.
type layer map[string]file

// file is a copy of one of this machine, or a link, or else a folder.
type file struct{ from, link string }

// podImages are those that pods of the lab use.
func podImages() ([]image, error) {
	shell, err := busyboxLayer()
	return []image{
		{name: "lab.local/pause:1", command: []string{"sleep", "100000000"}, layers: []layer{shell}},
		{name: "lab.local/app:1", command: []string{"sh", "-c", "trap exit TERM; sleep 100000000 & wait"}, layers: []layer{shell}}, // sleep alone, as process 1, would ignore the signal
	}, err
}

// driverTools are what the driver's image has of this machine's programs: those for ext4, none for XFS.
var driverTools = []string{"mount", "umount", "blkid", "fsck", "fsck.ext4", "mkfs.ext4", "resize2fs", "dumpe2fs"}

// driverImages are those of a driver in pods.
func driverImages(bin, lab string) ([]image, error) {
	shell, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	tools := layer{}
	for _, name := range driverTools {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		program, err := withLibraries("usr/sbin/"+name, path)
		if err != nil {
			return nil, err
		}
		maps.Copy(tools, program)
	}
	self, err := withLibraries("bin/lab", lab)
	if err != nil {
		return nil, err
	}
	images := []image{
		{name: "lab.local/csi-driver:1", entrypoint: []string{"/bin/lab", "pod"}, layers: []layer{shell, tools, self}},
		{name: "lab.local/node-driver-registrar:1", entrypoint: []string{"/bin/lab", "registrar"}, layers: []layer{self}},
	}
	for _, s := range Sidecars {
		images = append(images, image{name: "lab.local/" + s + ":1", entrypoint: []string{"/" + s}, layers: []layer{{s: {from: filepath.Join(bin, s)}}}})
	}
	return images, nil
}

// importImages brings the images of all archives that there are to a node.
func (s *supervisor) importImages(ctx context.Context, node string) error {
	s.mu.Lock()
	enter, err := s.enter(node)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(s.Dir, "images/*.tar"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		args := append(slices.Clone(enter), filepath.Join(s.bin, "ctr"), "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", archive)
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("import images: %w: %s", err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// putDriverImages brings the images of a driver in pods to the nodes: most runs have none, so that is done when one is made.
func (s *supervisor) putDriverImages(ctx context.Context) error {
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := os.Stat(s.archive("driver")); err == nil {
		return nil
	}
	images, err := driverImages(s.bin, filepath.Join(s.Dir, "bin/lab"))
	if err != nil {
		return err
	}
	if err := writeImages(s.archive("driver"), images); err != nil {
		return err
	}
	nodes := append([]string{Node}, MoreNodes...)
	failed := make([]error, len(nodes))
	var imports sync.WaitGroup
	for i, node := range nodes {
		s.mu.Lock()
		there := s.running[at("containerd", node)] != nil
		s.mu.Unlock()
		if there {
			imports.Go(func() {
				failed[i] = until(ctx, "containerd", func() error { return s.importImages(ctx, node) })
			})
		}
	}
	imports.Wait()
	return errors.Join(failed...)
}

func (s *supervisor) archive(name string) string { return filepath.Join(s.Dir, "images", name+".tar") }

// writeImages writes a docker archive. Nobody sees it before it is whole.
func writeImages(path string, images []image) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer f.Close()
	t := tar.NewWriter(f)
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	written := map[string]bool{}
	for _, i := range images {
		e := entry{RepoTags: []string{i.name}}
		var digests []string
		for _, l := range i.layers {
			data, err := l.tar()
			if err != nil {
				return err
			}
			digest := fmt.Sprintf("%x", sha256.Sum256(data))
			digests = append(digests, "sha256:"+digest)
			e.Layers = append(e.Layers, digest+"/layer.tar")
			if written[digest] {
				continue
			}
			written[digest] = true
			if err := addFile(t, digest+"/layer.tar", 0o644, data); err != nil {
				return err
			}
		}
		config, err := json.Marshal(map[string]any{
			"architecture": runtime.GOARCH, "os": "linux",
			"config": map[string]any{"Entrypoint": i.entrypoint, "Cmd": i.command, "Env": []string{"PATH=/usr/sbin:/bin"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
		})
		if err != nil {
			return err
		}
		e.Config = fmt.Sprintf("%x.json", sha256.Sum256(config))
		if err := addFile(t, e.Config, 0o644, config); err != nil {
			return err
		}
		manifest = append(manifest, e)
	}
	b, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	return errors.Join(addFile(t, "manifest.json", 0o644, b), t.Close(), f.Close(), os.Rename(f.Name(), path))
}

func (l layer) tar() ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(l)) {
		var err error
		switch f := l[name]; {
		case f.link != "":
			err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: f.link})
		case f.from == "":
			err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755})
		default:
			var data []byte
			if data, err = os.ReadFile(f.from); err == nil {
				err = addFile(t, name, 0o755, data)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	err := t.Close()
	return b.Bytes(), err
}

func busyboxLayer() (layer, error) {
	path, err := exec.LookPath("busybox")
	l := layer{"bin/busybox": {from: path}, "tmp": {}, "etc": {}, "proc": {}, "sys": {}, "dev": {}}
	for _, name := range []string{"sh", "sleep", "ls", "cat", "mount", "df", "tar", "touch", "dd", "sync", "mkdir", "rm", "echo", "id", "stat"} {
		l["bin/"+name] = file{link: "busybox"}
	}
	return l, err
}

// withLibraries are a program, under that name, and what its loader wants, each where that looks for it.
func withLibraries(name, path string) (layer, error) {
	l := layer{name: {from: path}}
	program, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) == 0 {
		return l, err
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", path, err)
	}
	for field := range strings.FieldsSeq(string(out)) { // libmount.so.1 => /lib/x86_64-linux-gnu/libmount.so.1 (0x00007f...)
		if strings.HasPrefix(field, "/") {
			l[field[1:]] = file{from: field}
		}
	}
	return l, nil
}

func addFile(t *tar.Writer, name string, mode int64, data []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}
