// Command dist makes what a release carries: one archive a platform, their checksums, and the krew manifest that names both.
// It uploads nothing, and makes the same bytes from the same source.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
)

const manifestTemplate = "plugins/krew/csidoctor.yaml.tmpl"

// krew refuses a version without the v, or one that does not sort.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func main() {
	log.SetFlags(0)
	log.SetPrefix("dist: ")
	version := flag.String("version", "", "version of the release, like v1.2.3")
	out := flag.String("out", "dist", "folder for the results")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: dist -version VERSION [-out DIR] OS/ARCH...   (from the root of the repository)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*version, *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(version, out string, platforms []string) error {
	if !semver.MatchString(version) {
		return fmt.Errorf("version %q is no semantic version like v1.2.3", version)
	}
	if len(platforms) == 0 {
		return fmt.Errorf("no platform given, like linux/amd64")
	}
	modified, err := sourceDate()
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var archives []archive
	for _, p := range platforms {
		a, err := newArchive(version, p)
		if err != nil {
			return err
		}
		binary, err := build(version, a)
		if err != nil {
			return err
		}
		data, err := pack([]file{{"LICENSE", 0o644, license}, {a.Binary, 0o755, binary}}, modified)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, a.Name), data, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		a.SHA256 = hex.EncodeToString(sum[:])
		archives = append(archives, a)
		log.Printf("%s  %.1f MB", a.Name, float64(len(data))/1e6)
	}
	if err := os.WriteFile(filepath.Join(out, "checksums.txt"), checksums(archives), 0o644); err != nil {
		return err
	}
	manifest, err := manifest(version, archives)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "csidoctor.yaml"), manifest, 0o644)
}

type archive struct {
	OS, Arch, Name, Binary, SHA256 string
}

func newArchive(version, platform string) (archive, error) {
	goos, arch, ok := strings.Cut(platform, "/")
	if !ok || goos == "" || arch == "" {
		return archive{}, fmt.Errorf("platform %q is not of the form OS/ARCH", platform)
	}
	a := archive{OS: goos, Arch: arch, Name: fmt.Sprintf("csidoctor_%s_%s_%s.tar.gz", version, goos, arch), Binary: "kubectl-csidoctor"}
	if goos == "windows" {
		a.Binary += ".exe"
	}
	return a, nil
}

func build(version string, a archive) ([]byte, error) {
	dir, err := os.MkdirTemp("", "csidoctor-dist-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, a.Binary)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", path, "./cmd/csidoctor")
	cmd.Env = append(os.Environ(), "GOOS="+a.OS, "GOARCH="+a.Arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build for %s/%s: %w", a.OS, a.Arch, err)
	}
	return os.ReadFile(path)
}

type file struct {
	name string
	mode int64
	data []byte
}

// pack keeps the order of files and takes nothing from the machine: no owner, no clock.
func pack(files []file, modified time.Time) ([]byte, error) {
	var buf bytes.Buffer
	zip, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	tape := tar.NewWriter(zip)
	for _, f := range files {
		h := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := tape.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := tape.Write(f.data); err != nil {
			return nil, err
		}
	}
	for _, c := range []io.Closer{tape, zip} {
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), nil
}

// checksums is in the form that sha256sum -c reads.
func checksums(archives []archive) []byte {
	var buf bytes.Buffer
	for _, a := range archives {
		fmt.Fprintf(&buf, "%s  %s\n", a.SHA256, a.Name)
	}
	return buf.Bytes()
}

func manifest(version string, archives []archive) ([]byte, error) {
	t, err := template.ParseFiles(manifestTemplate)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = t.Execute(&buf, struct {
		Version  string
		Archives []archive
	}{version, archives})
	return buf.Bytes(), err
}

// sourceDate is the time that every packed file carries: https://reproducible-builds.org/specs/source-date-epoch/.
func sourceDate() (time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0), nil
}
