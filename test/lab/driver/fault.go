package driver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/klog/v2"
)

// A Fault is what an RPC does in place of its work, until it is taken back.
type Fault struct {
	Mode   string `json:"mode"`             // fail, hang (until the caller gives up or the fault is taken back) or lie (succeed without doing it)
	Code   string `json:"code,omitempty"`   // of fail, as gRPC writes it: Internal, ResourceExhausted, ...
	Text   string `json:"text,omitempty"`   // of fail
	Volume string `json:"volume,omitempty"` // only for this volume: its handle (of CreateSnapshot, the source's), the name asked of CreateVolume, or the claim's name; empty: for all

	code codes.Code
	over chan struct{} // closed when the fault is taken back
}

func (f *Fault) check() error {
	switch f.Mode {
	case "hang", "lie":
		return nil
	case "fail":
		for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
			if c.String() == f.Code {
				f.code = c
				return nil
			}
		}
		return httpError{http.StatusBadRequest, fmt.Sprintf("no gRPC code %q", f.Code)}
	}
	return httpError{http.StatusBadRequest, fmt.Sprintf("mode %q is none of fail, hang, lie", f.Mode)}
}

// intercept counts every call, lets a fault take its place, and logs what fails, as drivers do.
func (p *plugin) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, work grpc.UnaryHandler) (answer any, err error) {
	rpc, names := path.Base(info.FullMethod), volumeNames(req)
	defer func() {
		if err != nil {
			klog.ErrorS(err, "GRPC error", "driver", p.name, "method", rpc, "volume", names)
		}
	}()
	switch f, unknown := p.called(ctx, rpc, names); {
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case unknown != nil:
		return nil, status.Error(codes.Internal, unknown.Error())
	case f == nil:
		return work(ctx, req)
	case f.Mode == "fail":
		return nil, status.Error(f.code, f.Text)
	default:
		return lie(info.FullMethod, req)
	}
}

// count counts a call, and gives the fault that takes its place, if any. A hang has ended when it returns.
func (p *plugin) count(ctx context.Context, rpc string, names []string) (*Fault, error) {
	p.mu.Lock()
	p.calls[rpc]++
	f := p.faults[rpc]
	p.mu.Unlock()
	switch {
	case f == nil || f.Volume != "" && !slices.Contains(names, f.Volume):
		return nil, nil
	case f.Mode != "hang":
		return f, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.over:
		return nil, nil
	}
}

// volumeNames returns every name by which a request may mean a volume.
func volumeNames(req any) (names []string) {
	if r, ok := req.(interface{ GetVolumeId() string }); ok {
		names = append(names, r.GetVolumeId())
	}
	switch r := req.(type) {
	case *csi.CreateVolumeRequest:
		names = append(names, r.Name, handle(r.Name), r.Parameters["csi.storage.k8s.io/pvc/name"])
	case *csi.CreateSnapshotRequest:
		names = append(names, r.SourceVolumeId)
	}
	return names
}

// lie answers with success, and with as much of an answer as the caller needs to believe it.
func lie(method string, req any) (any, error) {
	switch r := req.(type) {
	case *csi.CreateVolumeRequest:
		return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: handle(r.Name), CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}}, nil
	case *csi.CreateSnapshotRequest:
		return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
			SnapshotId: snapshotID(r.Name), SourceVolumeId: r.SourceVolumeId, CreationTime: timestamppb.Now(), ReadyToUse: true}}, nil
	case *csi.ControllerPublishVolumeRequest:
		return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{deviceKey: "/dev/disk/by-id/" + r.VolumeId}}, nil
	case *csi.ControllerExpandVolumeRequest:
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), NodeExpansionRequired: true}, nil
	case *csi.NodeExpandVolumeRequest:
		return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
	case *csi.NodePublishVolumeRequest: // the container runtime wants something there, or the lie is out at once
		if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	answer, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return answer.New().Interface(), nil
}
