package driver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func snapshotID(name string) string {
	return "snap-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:17]
}

// snapshots returns the files of that snapshot, or with "*" of all: VOLUME@SNAPSHOT.snap.
func (p *plugin) snapshots(id string) ([]string, error) {
	return filepath.Glob(filepath.Join(p.images(), "*@"+id+".snap"))
}

func (p *plugin) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	id := snapshotID(r.Name)
	file := filepath.Join(p.images(), r.SourceVolumeId+"@"+id+".snap")
	p.mu.Lock()
	defer p.mu.Unlock()
	files, err := p.snapshots(id)
	switch {
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	case len(files) == 0:
		if err := copyImage(p.image(r.SourceVolumeId), file); errors.Is(err, fs.ErrNotExist) {
			return nil, status.Errorf(codes.NotFound, "volume %s not found", r.SourceVolumeId)
		} else if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	case files[0] != file:
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists of another volume", id)
	}
	s, err := describeSnapshot(file)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.CreateSnapshotResponse{Snapshot: s}, nil
}

func (p *plugin) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	files, err := p.snapshots(r.SnapshotId)
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (p *plugin) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	id := r.SnapshotId
	if id == "" {
		id = "*"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	files, err := p.snapshots(id)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	answer := &csi.ListSnapshotsResponse{}
	for _, f := range files {
		s, err := describeSnapshot(f)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		if r.SourceVolumeId == "" || r.SourceVolumeId == s.SourceVolumeId {
			answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s})
		}
	}
	return answer, nil
}

func describeSnapshot(file string) (*csi.Snapshot, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	volume, id, _ := strings.Cut(strings.TrimSuffix(info.Name(), ".snap"), "@")
	return &csi.Snapshot{SnapshotId: id, SourceVolumeId: volume, SizeBytes: info.Size(), CreationTime: timestamppb.New(info.ModTime()), ReadyToUse: true}, nil
}

// source is the file that a new volume begins as a copy of; none for an empty one. The caller holds the lock.
func (p *plugin) source(s *csi.VolumeContentSource, size int64) (string, error) {
	if s == nil {
		return "", nil
	}
	file := p.image(s.GetVolume().GetVolumeId())
	if id := s.GetSnapshot().GetSnapshotId(); id != "" {
		files, err := p.snapshots(id)
		if err != nil {
			return "", status.Error(codes.Internal, err.Error())
		}
		if len(files) == 0 {
			return "", status.Errorf(codes.NotFound, "snapshot %s not found", id)
		}
		file = files[0]
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", status.Errorf(codes.NotFound, "the volume's source: %v", err)
	}
	if info.Size() > size {
		return "", status.Errorf(codes.OutOfRange, "%d bytes asked, the source has %d", size, info.Size())
	}
	return file, nil
}

// copyImage copies what is on a volume now: what its filesystem has not yet written is first made to be.
func copyImage(from, to string) error {
	unix.Sync()
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, source)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
