package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// What a worker does in folders. Names of files come from readdir alone: that touches no mount in the folder.

type enterArg struct {
	Proc string `json:"proc"`
	Root string `json:"root"` // empty: stay
}

// procDir is the /proc as the probe sees it, kept open when the worker goes into the host's root.
var procDir = -1

// opEnter makes the host's root the worker's: absolute links of the host then lead to where they lead there.
var opEnter = register("enter", func(a enterArg) (struct{}, error) {
	if procDir < 0 {
		fd, err := unix.Open(a.Proc, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return struct{}{}, fmt.Errorf("%s: %s", a.Proc, reason(err))
		}
		procDir = fd
	}
	if a.Root == "" {
		return struct{}{}, nil
	}
	if err := unix.Chroot(a.Root); err != nil {
		return struct{}{}, fmt.Errorf("chroot to %s: %s", a.Root, reason(err))
	}
	return struct{}{}, unix.Chdir("/")
})

const maxArgs = 64 << 10 // a report needs no more of a command line

// opArgs reads a process's arguments. It waits for the lock of the process's memory, which one that hangs may hold.
var opArgs = register("args", func(pid int) ([]string, error) {
	fd, err := unix.Openat(procDir, fmt.Sprintf("%d/cmdline", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	f := os.NewFile(uintptr(fd), "cmdline")
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxArgs))
	if err != nil {
		return nil, errors.New(reason(err))
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
})

// rootFolder is a folder that may be a kubelet's root.
type rootFolder struct {
	Path string `json:"path"`
	Real string `json:"real"` // without links; empty: there is none
	Used bool   `json:"used"` // it has pods/ and a plugin folder
}

var opRoot = register("root", func(path string) (rootFolder, error) {
	r := rootFolder{Path: path}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, errors.New(reason(err))
	}
	r.Real = real
	names, err := folder(real)
	r.Used = names["pods"] != nil && (names["plugins_registry"] != nil || names["plugins"] != nil)
	return r, err
})

// opRead reads a small file, or all files of a folder one behind the other.
var opRead = register("read", func(path string) (string, error) { return readText(path) })

const maxText = 1 << 20

func readText(path string) (string, error) {
	b, err := readFile(path, maxText)
	if errors.Is(err, unix.EISDIR) {
		names, err := folder(path)
		var all strings.Builder
		for name := range names {
			text, fault := readText(filepath.Join(path, name))
			err = errors.Join(err, fault)
			all.WriteString(text + "\n")
		}
		return all.String(), err
	}
	if err != nil {
		return "", errors.New(reason(err))
	}
	return string(b), nil
}

// readFile reads a regular file up to a limit; a larger one is cut, which the caller sees by one byte more than the limit.
func readFile(path string, limit int64) ([]byte, error) {
	// Not blocking: a named pipe under a file's name must not hold the reader.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// folder gives the entries of a folder by their names.
func folder(path string) (map[string]fs.DirEntry, error) {
	entries, err := os.ReadDir(path)
	out := map[string]fs.DirEntry{}
	for _, e := range entries {
		out[e.Name()] = e
	}
	if err != nil {
		return out, fmt.Errorf("%s: %s", path, reason(err))
	}
	return out, nil
}

// opNames lists the folders in a folder; none where there is no such folder.
var opNames = register("names", func(path string) ([]string, error) { return folders(path) })

func folders(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	if err != nil {
		return out, fmt.Errorf("%s: %s", path, reason(err))
	}
	return out, nil
}

// volData is a vol_data.json, or why it could not be read.
type volData struct {
	Data  map[string]string `json:"data,omitempty"`
	Error string            `json:"error,omitempty"`
}

func readVolData(dir string) volData {
	b, err := readFile(filepath.Join(dir, "vol_data.json"), maxVolData)
	if err != nil {
		return volData{Error: reason(err)}
	}
	data, err := parseVolData(b)
	if err != nil {
		return volData{Error: err.Error()}
	}
	return volData{Data: data}
}

// stagingFolder is one volume's folder below kubernetes.io/csi/<driver>, or kubernetes.io/csi/pv of a kubelet before 1.24.
type stagingFolder struct {
	Name    string  `json:"name"`
	Mount   bool    `json:"mount"` // it has globalmount
	VolData volData `json:"volData"`
}

// opStaging reads the staging folders of one driver.
var opStaging = register("staging", func(dir string) ([]stagingFolder, error) {
	names, err := folders(dir)
	var out []stagingFolder
	for _, name := range names {
		entries, fault := folder(filepath.Join(dir, name))
		err = errors.Join(err, fault)
		out = append(out, stagingFolder{Name: name, Mount: entries["globalmount"] != nil, VolData: readVolData(filepath.Join(dir, name))})
	}
	return out, err
})

// blockFolder is what the kubelet keeps of one raw block volume below kubernetes.io/csi/volumeDevices.
type blockFolder struct {
	Name    string   `json:"name"`
	Pods    []string `json:"pods"` // publish/<name>/<pod UID>
	Staged  bool     `json:"staged"`
	VolData volData  `json:"volData"`
}

var opBlocks = register("blocks", func(dir string) ([]blockFolder, error) {
	all := map[string]*blockFolder{}
	get := func(name string) *blockFolder {
		if all[name] == nil {
			all[name] = &blockFolder{Name: name, VolData: readVolData(filepath.Join(dir, name, "data"))}
		}
		return all[name]
	}
	names, err := folders(dir)
	for _, name := range names {
		if name != "publish" && name != "staging" {
			get(name)
		}
	}
	staged, fault := folders(filepath.Join(dir, "staging"))
	for _, name := range staged {
		get(name).Staged = true
	}
	published, fault2 := folders(filepath.Join(dir, "publish"))
	err = errors.Join(err, fault, fault2)
	for _, name := range published {
		entries, fault := folder(filepath.Join(dir, "publish", name))
		err = errors.Join(err, fault)
		for uid := range entries {
			get(name).Pods = append(get(name).Pods, uid)
		}
	}
	var out []blockFolder
	for _, b := range all {
		out = append(out, *b)
	}
	return out, err
})

// podFolder is one pod's folder.
type podFolder struct {
	Volumes []publishFolder `json:"volumes"` // volumes/kubernetes.io~csi
	Entries int             `json:"entries"` // folders of volumes of all kinds
}

type publishFolder struct {
	Name    string  `json:"name"`
	Mount   bool    `json:"mount"` // it has mount
	VolData volData `json:"volData"`
}

var opPod = register("pod", func(dir string) (podFolder, error) {
	var p podFolder
	kinds, err := folders(filepath.Join(dir, "volumes"))
	for _, kind := range kinds {
		names, fault := folders(filepath.Join(dir, "volumes", kind))
		err = errors.Join(err, fault)
		p.Entries += len(names)
		if kind != "kubernetes.io~csi" {
			continue
		}
		for _, name := range names {
			path := filepath.Join(dir, "volumes", kind, name)
			entries, fault := folder(path)
			err = errors.Join(err, fault)
			p.Volumes = append(p.Volumes, publishFolder{Name: name, Mount: entries["mount"] != nil, VolData: readVolData(path)})
		}
	}
	return p, err
})

type lookArg struct {
	Path  string `json:"path"`
	Count bool   `json:"count"` // what lies in the folder
	Usage bool   `json:"usage"` // of its filesystem
}

// sight is what a path looks like to stat.
type sight struct {
	Stat    string            `json:"stat"` // ok or an errno name
	Type    string            `json:"type,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	UID     int               `json:"uid"`
	GID     int               `json:"gid"`
	Entries *int              `json:"entries,omitempty"`
	Usage   *nodereport.Usage `json:"usage,omitempty"`
	Error   string            `json:"error,omitempty"` // of counting or of statfs
}

const maxEntries = 1000 // a folder with more is not empty, which is all that matters

// opLook looks at a path, which is where a server that does not answer holds whoever looks.
var opLook = register("look", func(a lookArg) (sight, error) {
	var st unix.Stat_t
	if err := unix.Lstat(a.Path, &st); err != nil {
		return sight{Stat: reason(err)}, nil
	}
	s := sight{Stat: "ok", Mode: fmt.Sprintf("%04o", st.Mode&0o7777), UID: int(st.Uid), GID: int(st.Gid)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.Type = "dir"
	case unix.S_IFREG:
		s.Type = "file"
	case unix.S_IFBLK:
		s.Type = "block"
	case unix.S_IFLNK:
		s.Type = "symlink"
	}
	if a.Count && s.Type == "dir" {
		if n, err := count(a.Path); err != nil {
			s.Error = reason(err)
		} else {
			s.Entries = &n
		}
	}
	if a.Usage {
		var f unix.Statfs_t
		if err := unix.Statfs(a.Path, &f); err != nil {
			s.Error = reason(err)
		} else {
			unit := int64(f.Frsize)
			s.Usage = &nodereport.Usage{Bytes: int64(f.Blocks) * unit, BytesUsed: int64(f.Blocks-f.Bavail) * unit, Inodes: int64(f.Files), InodesUsed: int64(f.Files - f.Ffree)}
		}
	}
	return s, nil
})

func count(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	if err == io.EOF {
		err = nil
	}
	return len(names), err
}

// cgroups are the pods that have a cgroup: those that the kubelet has not finished with. Found: there is a place for such.
type cgroups struct {
	Found bool     `json:"found"`
	Pods  []string `json:"pods"`
}

// opCgroups looks for pods' cgroups, which lie below one that has kube in its name (kubepods.slice, kubepods, kubelet.slice).
var opCgroups = register("cgroups", func(struct{}) (cgroups, error) {
	var c cgroups
	var walk func(dir string, inside bool, depth int) error
	walk = func(dir string, inside bool, depth int) error {
		names, err := folders(dir)
		for _, name := range names {
			if uid := mountinfo.PodOfCgroup(name); uid != "" {
				c.Found = true
				c.Pods = append(c.Pods, uid)
				continue
			}
			within := inside || strings.Contains(name, "kubepods")
			c.Found = c.Found || within
			if depth > 0 && (within || strings.Contains(name, "kube") || strings.HasSuffix(name, ".slice")) {
				err = errors.Join(err, walk(filepath.Join(dir, name), within, depth-1))
			}
		}
		return err
	}
	root := "/sys/fs/cgroup"
	for _, hierarchy := range []string{"systemd", "pids", "memory"} { // cgroup v1: any of them has all pods
		if names, err := folders(filepath.Join(root, hierarchy)); err == nil && len(names) > 0 {
			return c, walk(filepath.Join(root, hierarchy), false, 5)
		}
	}
	return c, walk(root, false, 5)
})
