package driver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csidoctor/csidoctor/test/lab/loop"
)

const (
	mib         = 1 << 20
	defaultSize = 64 * mib
	// deviceKey carries the device from ControllerPublishVolume to NodeStageVolume.
	deviceKey = "device"
)

// handle is made from the name that is asked for, so that a repeated call finds its volume again; it is not the name, as with most real drivers.
func handle(name string) string {
	return "vol-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:17]
}

func (p *plugin) images() string             { return filepath.Join(p.State, p.name) }
func (p *plugin) image(volume string) string { return filepath.Join(p.images(), volume+".img") }
func nodeID(node string) string              { return "i-" + node }

func (p *plugin) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	for key := range r.Parameters {
		if !strings.HasPrefix(key, "csi.storage.k8s.io/") {
			return nil, status.Errorf(codes.InvalidArgument, "unknown parameter %q", key)
		}
	}
	if err := checkModes(r.VolumeCapabilities); err != nil {
		return nil, err
	}
	topology := p.topology()
	if wanted := r.GetAccessibilityRequirements().GetRequisite(); len(wanted) > 0 && !reachable(wanted, topology) {
		return nil, status.Errorf(codes.ResourceExhausted, "no storage where the volume is wanted, only in %v", topology)
	}
	size := sizeOf(r.CapacityRange)
	volume := handle(r.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch old, err := os.Stat(p.image(volume)); {
	case err == nil && old.Size() != size:
		return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes", volume, old.Size())
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, status.Error(codes.Internal, err.Error())
	default:
		if free := p.free(); size > free {
			return nil, status.Errorf(codes.ResourceExhausted, "%d bytes asked, %d free", size, free)
		}
		source, err := p.source(r.VolumeContentSource, size)
		if err != nil {
			return nil, err
		}
		if source != "" {
			if err := copyImage(source, p.image(volume)); err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
		}
		if err := makeImage(p.image(volume), size); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	v := &csi.Volume{VolumeId: volume, CapacityBytes: size, ContentSource: r.VolumeContentSource}
	if len(topology) > 0 {
		v.AccessibleTopology = []*csi.Topology{{Segments: topology}}
	}
	return &csi.CreateVolumeResponse{Volume: v}, nil
}

func (p *plugin) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.attached[r.VolumeId]; ok {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", r.VolumeId, nodeID(a.node))
	}
	if err := os.Remove(p.image(r.VolumeId)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (p *plugin) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	i := slices.IndexFunc(p.Nodes, func(node string) bool { return nodeID(node) == r.NodeId })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "node %s not found", r.NodeId)
	}
	device, err := p.attach(r.VolumeId, p.Nodes[i])
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{deviceKey: device}}, nil
}

func (p *plugin) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	p.detach(r.VolumeId, r.NodeId)
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (p *plugin) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, err := os.Stat(p.image(r.VolumeId))
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", r.VolumeId)
	}
	size := max(sizeOf(r.CapacityRange), old.Size())
	if more, free := size-old.Size(), p.free(); more > free {
		return nil, status.Errorf(codes.ResourceExhausted, "%d bytes more asked, %d free", more, free)
	}
	if err := os.Truncate(p.image(r.VolumeId), size); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if a, ok := p.attached[r.VolumeId]; ok {
		if err := loop.Grow(a.File); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: r.GetVolumeCapability().GetBlock() == nil}, nil
}

func (p *plugin) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := os.Stat(p.image(r.VolumeId)); err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", r.VolumeId)
	}
	if err := checkModes(r.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}}, nil
}

func (p *plugin) GetCapacity(_ context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if t := r.GetAccessibleTopology(); t != nil && !reachable([]*csi.Topology{t}, p.topology()) {
		return &csi.GetCapacityResponse{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &csi.GetCapacityResponse{AvailableCapacity: p.free()}, nil
}

func (p *plugin) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		if !p.lacks(c.String()) {
			answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
				Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
		}
	}
	return answer, nil
}

// attach gives the node the volume, and returns its device.
func (p *plugin) attach(volume, node string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.attached[volume]; ok && a.node != node {
		return "", status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", volume, nodeID(a.node))
	} else if ok {
		return a.Name(), nil
	}
	var here int64
	for _, a := range p.attached {
		if a.node == node {
			here++
		}
	}
	if max := p.config.MaxVolumes; max > 0 && here >= max {
		return "", status.Errorf(codes.ResourceExhausted, "node %s has %d volumes, its limit", nodeID(node), max)
	}
	device, err := loop.Attach(p.image(volume))
	if errors.Is(err, fs.ErrNotExist) {
		return "", status.Errorf(codes.NotFound, "volume %s not found", volume)
	} else if err != nil {
		return "", status.Error(codes.Internal, err.Error())
	}
	p.attached[volume] = attachment{device, node}
	return device.Name(), nil
}

// detach takes the volume from the node of that id, or with none from any.
func (p *plugin) detach(volume, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.attached[volume]; ok && (id == "" || id == nodeID(a.node)) {
		a.Close()
		delete(p.attached, volume)
	}
}

// free is what is left of the driver's capacity. The caller holds the lock.
func (p *plugin) free() int64 {
	free := p.config.Capacity
	if free == 0 {
		free = 1 << 40
	}
	files, _ := filepath.Glob(filepath.Join(p.images(), "*.img"))
	for _, f := range files {
		if i, err := os.Stat(f); err == nil {
			free -= i.Size()
		}
	}
	return max(free, 0)
}

func checkModes(capabilities []*csi.VolumeCapability) error {
	for _, c := range capabilities {
		switch c.GetAccessMode().GetMode() {
		case csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:
			return status.Errorf(codes.InvalidArgument, "access mode %s is not supported", c.AccessMode.Mode)
		}
	}
	return nil
}

func reachable(wanted []*csi.Topology, here map[string]string) bool {
	for _, t := range wanted {
		if maps.Equal(t.Segments, here) {
			return true
		}
	}
	return false
}

// sizeOf rounds up to whole MiB.
func sizeOf(r *csi.CapacityRange) int64 {
	size := max(r.GetRequiredBytes(), 1)
	if r.GetRequiredBytes() == 0 {
		size = defaultSize
	}
	return (size + mib - 1) / mib * mib
}

// makeImage makes the file, or makes it as large as that.
func makeImage(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}
