package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
)

// The processors of nodes that can be probed, and where the plugin has their programs (internal/carrier embeds that folder).
var probeArchs = []string{"amd64", "arm64"}

const carried = "internal/carrier/binaries"

// probe builds the node's side alone. grpcnotrace leaves out gRPC's trace pages, a quarter of it.
func probe(version, arch string) ([]byte, error) {
	return compile(version, "linux", arch, "csidoctor-probe", "-tags", "grpcnotrace", "./cmd/csidoctor-probe")
}

// carry puts the programs where the next build of the plugin takes them from.
func carry(version string) error {
	for _, arch := range probeArchs {
		program, err := probe(version, arch)
		if err != nil {
			return err
		}
		packed, err := squeeze(program)
		if err != nil {
			return err
		}
		path := filepath.Join(carried, "csidoctor-probe-linux-"+arch+".gz")
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, packed) {
			continue
		}
		if err := os.WriteFile(path, packed, 0o644); err != nil {
			return fmt.Errorf("keep the node's program for the plugin: %w", err)
		}
	}
	return nil
}

// squeeze compresses without a name and a clock: the same bytes from the same bytes.
func squeeze(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	zip, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zip.Write(data); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
