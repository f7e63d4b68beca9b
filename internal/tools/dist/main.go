// Command dist makes what a release carries: one archive a platform, their checksums, the krew manifest that names both, and the
// image of the node's side. It uploads nothing, and makes the same bytes from the same source.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	programs := flag.Bool("programs", false, "only put the node's programs into "+carried+", for the next build of the plugin to carry")
	archive := flag.Bool("image", false, "only make the image, as an OCI archive")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: dist -version VERSION [-out DIR] OS/ARCH...   (from the root of the repository)")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	switch {
	case *programs:
		err = carry(*version)
	case *archive:
		err = writeImage(*version, *out)
	default:
		err = run(*version, *out, flag.Args())
	}
	if err != nil {
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
		archives = append(archives, a)
	}
	if err := carry(version); err != nil {
		return err
	}
	for i, a := range archives {
		binary, err := build(version, a)
		if err != nil {
			return err
		}
		data, err := pack([]file{{name: "LICENSE", mode: 0o644, data: license}, {name: a.Binary, mode: 0o755, data: binary}}, modified)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, a.Name), data, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		archives[i].SHA256 = hex.EncodeToString(sum[:])
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
	return compile(version, a.OS, a.Arch, a.Binary, "./cmd/csidoctor")
}

func compile(version, goos, arch, name string, args ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "csidoctor-dist-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + version, "-o", path}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build %s for %s/%s: %w", name, goos, arch, err)
	}
	return os.ReadFile(path)
}

// writeImage builds the programs and writes the archive of their image.
func writeImage(version, out string) error {
	modified, err := sourceDate()
	if err != nil {
		return err
	}
	programs := map[string][]byte{}
	for _, arch := range probeArchs {
		if programs[arch], err = probe(version, arch); err != nil {
			return err
		}
		if err := writeRoot(filepath.Join(out, "image", "linux-"+arch), programs[arch]); err != nil {
			return fmt.Errorf("lay out the image for the Dockerfile: %w", err)
		}
	}
	data, err := image(version, programs, modified.UTC())
	if err != nil {
		return err
	}
	path := filepath.Join(out, fmt.Sprintf("%s_%s_oci.tar", imageName, version))
	log.Printf("%s  %.1f MB", path, float64(len(data))/1e6)
	return errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(path, data, 0o644))
}

type file struct {
	name string
	mode int64
	data []byte
	link string // it is a link to that, and nothing else
}

func pack(files []file, modified time.Time) ([]byte, error) {
	data, err := tarball(files, modified)
	if err != nil {
		return nil, err
	}
	return squeeze(data)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

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
