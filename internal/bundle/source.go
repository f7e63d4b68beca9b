package bundle

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// entry is one file, wherever it comes from. Its name is a label for messages and never a path to open.
type entry struct {
	name  string
	named bool // the user named it, so it is told when it is broken whatever its extension
}

// resource is what the file holds by its name, as Write and kubectl cluster-info dump call them; "" when that is not known.
func (e entry) resource() string {
	base := strings.TrimSuffix(path.Base(e.name), path.Ext(e.name))
	if strings.HasPrefix(base, nodePrefix) {
		return nodeReports
	}
	if snapshot.ResourceOf(base) != nil {
		return base
	}
	return ""
}

// meant tells whether a file is meant to hold objects, so that it is worth a message when it does not.
func (e entry) meant() bool {
	switch strings.ToLower(path.Ext(e.name)) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return e.named
}

func (r *reader) path(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at input: %w", err)
	}
	if info.IsDir() {
		return r.folder(name)
	}
	return r.stream(entry{name: name, named: true}, f)
}

// folder reads all regular files below. An os.Root keeps every open inside, whatever the folder turns into meanwhile.
func (r *reader) folder(name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		e := entry{name: p}
		switch {
		case err != nil:
			r.cut(e, err)
			return nil
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			r.report.Links++
			return nil
		}
		f, err := root.Open(p)
		if err != nil {
			r.cut(e, err)
			return nil
		}
		defer f.Close()
		return r.stream(e, f)
	})
}

// metered ends all reading when the limit on the whole is reached.
type metered struct {
	io.Reader
	r *reader
}

func (m metered) Read(p []byte) (int, error) {
	if m.r.left <= 0 {
		return 0, errEnough
	}
	n, err := m.Reader.Read(p[:min(int64(len(p)), m.r.left)])
	m.r.left -= int64(n)
	return n, err
}

const (
	gzipMagic = "\x1f\x8b"
	zipMagic  = "PK\x03\x04"
	tarMagic  = "ustar"
	tarAt     = 257 // offset of its magic in a header block
	sniff     = 512 // enough to see a tar header and to tell binary from text
)

// stream reads a file that may be an archive; its content tells.
func (r *reader) stream(e entry, src io.Reader) error {
	in := bufio.NewReaderSize(src, 64<<10)
	head, err := in.Peek(sniff)
	if err != nil && err != io.EOF {
		r.cut(e, err)
		return nil
	}
	if !bytes.HasPrefix(head, []byte(gzipMagic)) {
		return r.unpacked(e, metered{in, r}, head, src)
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		r.cut(e, fmt.Errorf("unpack: %w", err))
		return nil
	}
	inner := bufio.NewReaderSize(metered{z, r}, 64<<10)
	head, err = inner.Peek(sniff)
	if err != nil && err != io.EOF && len(head) == 0 {
		return r.ended(e, err)
	}
	return r.unpacked(e, inner, head, nil)
}

func (r *reader) unpacked(e entry, in io.Reader, head []byte, file io.Reader) error {
	switch {
	case len(head) > tarAt+len(tarMagic) && string(head[tarAt:tarAt+len(tarMagic)]) == tarMagic, strings.HasSuffix(e.name, ".tar") && len(head) == sniff:
		return r.tar(e, in)
	case bytes.HasPrefix(head, []byte(zipMagic)):
		return r.zip(e, in, file)
	}
	e.name = strings.TrimSuffix(e.name, ".gz")
	return r.content(e, in)
}

// ended is for an error that ends an archive or a file: a limit ends everything, all else only that one.
func (r *reader) ended(e entry, err error) error {
	if errors.Is(err, errEnough) {
		return r.enough(e, "input is larger than %d MiB", r.total>>20)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends in the middle; what comes before is used")
	}
	r.cut(e, err)
	return nil
}

func (r *reader) tar(e entry, in io.Reader) error {
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			if _, err := io.Copy(io.Discard, in); err != nil { // the checksum of gzip comes last
				return r.ended(e, err)
			}
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // the name is a label here
			return r.ended(e, err)
		case h.Typeflag == tar.TypeReg:
			if err := r.content(entry{name: h.Name}, t); err != nil {
				return err
			}
		case h.Typeflag == tar.TypeSymlink && supportBundleTwin(h.Name, h.Linkname): // read under its own name
		case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeXGlobalHeader:
			r.report.Links++
		}
	}
}

// zip needs its end first: a file is read in place, all else is read into memory.
func (r *reader) zip(e entry, in, file io.Reader) error {
	var at io.ReaderAt
	var size int64
	if f, ok := file.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			at, size = f, info.Size()
		}
	}
	if at == nil {
		all, err := io.ReadAll(in)
		if err != nil {
			return r.ended(e, err)
		}
		at, size = bytes.NewReader(all), int64(len(all))
	}
	z, err := zip.NewReader(at, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		r.cut(e, fmt.Errorf("%w; what can be found in it is used", err))
		return r.zipWithoutIndex(bufio.NewReader(io.NewSectionReader(at, 0, size)))
	}
	for _, f := range z.File {
		inside := entry{name: f.Name}
		switch {
		case f.FileInfo().IsDir():
			continue
		case !f.Mode().IsRegular():
			r.report.Links++
			continue
		}
		c, err := f.Open()
		if err != nil {
			r.cut(inside, err)
			continue
		}
		err = r.content(inside, metered{c, r})
		c.Close() // it has been read; there is nothing that could fail
		if err != nil {
			return err
		}
	}
	return nil
}

// zipWithoutIndex reads the entries of a zip whose end, where its index stands, is missing, up to the first that it cannot follow.
func (r *reader) zipWithoutIndex(in *bufio.Reader) error {
	for {
		var h struct { // APPNOTE.TXT 4.3.7
			Magic                   uint32
			_, Flags, Method        uint16
			_, _, Packed, Unpacked  uint32
			NameLength, ExtraLength uint16
		}
		if err := binary.Read(in, binary.LittleEndian, &h); err != nil || h.Magic != binary.LittleEndian.Uint32([]byte(zipMagic)) {
			return nil // the caller has told that the end is missing
		}
		name := make([]byte, int(h.NameLength)+int(h.ExtraLength))
		if _, err := io.ReadFull(in, name); err != nil {
			return nil
		}
		var data io.Reader
		const sizesFollow = 8
		switch {
		case h.Method == zip.Deflate:
			data = flate.NewReader(in) // it knows its own end
		case h.Method == zip.Store && h.Flags&sizesFollow == 0:
			data = io.LimitReader(in, int64(h.Packed))
		default:
			return nil
		}
		data = metered{data, r}
		e := entry{name: string(name[:h.NameLength])}
		if !strings.HasSuffix(e.name, "/") {
			if err := r.content(e, data); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, data); err != nil {
			return nil // content has told
		}
		for range 24 { // the longest data descriptor
			if next, err := in.Peek(len(zipMagic)); err != nil || string(next) == zipMagic {
				break
			}
			if _, err := in.Discard(1); err != nil {
				return nil
			}
		}
	}
}

// content reads one file whole and decodes it.
func (r *reader) content(e entry, in io.Reader) error {
	if r.report.Files >= r.files {
		return r.enough(e, "input has more than %d files", r.files)
	}
	r.report.Files++
	var buf bytes.Buffer
	_, err := buf.ReadFrom(io.LimitReader(in, sniff))
	if isBinary(buf.Bytes()) {
		r.report.Skipped++
		return nil
	}
	if err == nil && buf.Len() == sniff {
		_, err = buf.ReadFrom(io.LimitReader(in, r.file-sniff+1))
	}
	data := buf.Bytes()
	if int64(len(data)) > r.file {
		data, err = data[:r.file], fmt.Errorf("it is larger than %d MiB; what comes before is used", r.file>>20)
	}
	if stop := r.decode(e, data, err != nil); stop != nil {
		return stop
	}
	if err != nil {
		return r.ended(e, err)
	}
	return nil
}

// isBinary: no text of UTF-8 has a NUL. UTF-16, as PowerShell writes it, begins with its mark.
func isBinary(head []byte) bool {
	return bytes.IndexByte(head, 0) >= 0 && !bytes.HasPrefix(head, utf16LE) && !bytes.HasPrefix(head, utf16BE)
}
