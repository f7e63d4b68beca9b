package driver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/csidoctor/csidoctor/test/lab/loop"
)

const (
	publishCapability = "PUBLISH_UNPUBLISH_VOLUME"
	stageCapability   = "STAGE_UNSTAGE_VOLUME"
)

// systemd would be asked to run mount elsewhere; here it must run in this mount namespace
var mounter = mount.NewSafeFormatAndMount(mount.NewWithoutSystemd(""), exec.New())

func (p *plugin) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	device, err := p.device(r.VolumeId, r.PublishContext)
	if err != nil {
		return nil, err
	}
	if fs := r.GetVolumeCapability().GetMount(); fs != nil {
		if err := formatAndMount(device, r.StagingTargetPath, fs); err != nil {
			return nil, err
		}
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (p *plugin) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := unmount(r.StagingTargetPath); err != nil {
		return nil, err
	}
	if p.lacks(publishCapability) {
		p.detach(r.VolumeId, nodeID(p.Node))
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (p *plugin) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if mounted, err := isMounted(r.TargetPath); err != nil {
		return nil, err
	} else if mounted {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := p.publish(r); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (p *plugin) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(r.TargetPath); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if device, ok := p.inline[r.VolumeId]; ok {
		device.Close()
		delete(p.inline, r.VolumeId)
		os.Remove(p.image(r.VolumeId))
	}
	p.mu.Unlock()
	if p.lacks(publishCapability) && p.lacks(stageCapability) {
		p.detach(r.VolumeId, nodeID(p.Node))
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (p *plugin) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	path := r.StagingTargetPath
	if path == "" {
		path = r.VolumePath
	}
	device, _, err := mount.GetDeviceNameFromMount(mounter, path)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if device != "" { // raw block has no filesystem that could grow
		if _, err := mount.NewResizeFs(mounter.Exec).Resize(device, path); err != nil {
			return nil, status.Errorf(codes.Internal, "volume %s: %v", r.VolumeId, err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

func (p *plugin) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	info, err := os.Stat(r.VolumePath)
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if !info.IsDir() {
		image, err := os.Stat(p.image(r.VolumeId))
		if err != nil {
			return nil, status.Error(codes.NotFound, err.Error())
		}
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Total: image.Size(), Unit: csi.VolumeUsage_BYTES}}}, nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.VolumePath, &s); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	usage := func(unit csi.VolumeUsage_Unit, size int64, total, free, available uint64) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: size * int64(total), Used: size * int64(total-free), Available: size * int64(available)}
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES, s.Bsize, s.Blocks, s.Bfree, s.Bavail),
		usage(csi.VolumeUsage_INODES, 1, s.Files, s.Ffree, s.Ffree),
	}}, nil
}

func (p *plugin) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	answer := &csi.NodeGetInfoResponse{NodeId: nodeID(p.Node)}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer.MaxVolumesPerNode = p.config.MaxVolumes
	if len(p.config.Topology) > 0 {
		answer.AccessibleTopology = &csi.Topology{Segments: p.config.Topology}
	}
	return answer, nil
}

func (p *plugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	} {
		if !p.lacks(c.String()) {
			answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
				Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
		}
	}
	return answer, nil
}

func (p *plugin) publish(r *csi.NodePublishVolumeRequest) error {
	if r.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true" {
		return p.publishInline(r)
	}
	source := r.StagingTargetPath
	if r.GetVolumeCapability().GetBlock() != nil || p.lacks(stageCapability) {
		device, err := p.device(r.VolumeId, r.PublishContext)
		if err != nil {
			return err
		}
		source = device
	}
	prepare := makeFolder
	if r.GetVolumeCapability().GetBlock() != nil {
		prepare = makeFile
	}
	if err := prepare(r.TargetPath); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if r.GetVolumeCapability().GetBlock() == nil && p.lacks(stageCapability) {
		return formatAndMount(source, r.TargetPath, r.GetVolumeCapability().GetMount())
	}
	options := []string{"bind"}
	if r.Readonly {
		options = append(options, "ro")
	}
	if err := mounter.Mount(source, r.TargetPath, "", options); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// publishInline makes the volume and mounts it in one: an inline volume has no other call.
func (p *plugin) publishInline(r *csi.NodePublishVolumeRequest) error {
	size := int64(defaultSize)
	if s, ok := r.VolumeContext["size"]; ok {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "size %q is not a number of bytes", s)
		}
		size = n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	device, ok := p.inline[r.VolumeId]
	if !ok {
		if err := makeImage(p.image(r.VolumeId), size); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		var err error
		if device, err = loop.Attach(p.image(r.VolumeId)); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		p.inline[r.VolumeId] = device
	}
	if err := makeFolder(r.TargetPath); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return formatAndMount(device.Name(), r.TargetPath, r.GetVolumeCapability().GetMount())
}

// device is the device of a volume on this node: the one that ControllerPublishVolume named, or one made here where the driver has no such call.
func (p *plugin) device(volume string, publishContext map[string]string) (string, error) {
	if p.lacks(publishCapability) {
		return p.attach(volume, p.Node)
	}
	device := publishContext[deviceKey]
	if device == "" {
		return "", status.Errorf(codes.InvalidArgument, "volume %s: no device in the publish context", volume)
	}
	if loop.Backing(device) != p.image(volume) {
		return "", status.Errorf(codes.Internal, "volume %s: device %s not found", volume, device)
	}
	return device, nil
}

func formatAndMount(device, target string, v *csi.VolumeCapability_MountVolume) error {
	if mounted, err := isMounted(target); err != nil || mounted {
		return err
	}
	fsType := v.GetFsType()
	if fsType == "" {
		fsType = "ext4"
	}
	if err := mounter.FormatAndMount(device, target, fsType, v.GetMountFlags()); err != nil {
		return status.Errorf(codes.Internal, "mount %s: %v", device, err)
	}
	return nil
}

func isMounted(path string) (bool, error) {
	mounted, err := mounter.IsMountPoint(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, status.Error(codes.Internal, err.Error())
	}
	return mounted, nil
}

func unmount(path string) error {
	if err := mount.CleanupMountPoint(path, mounter, true); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func makeFolder(path string) error { return os.MkdirAll(path, 0o750) }

func makeFile(path string) error {
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o660)
	if err != nil {
		return err
	}
	return f.Close()
}
