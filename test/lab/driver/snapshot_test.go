package driver

import (
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestSnapshots(t *testing.T) {
	r := newRig(t)
	r.send("PUT", "", "{}", 200)
	p, err := r.server.plugin(name)
	if err != nil {
		t.Fatal(err)
	}
	c := csi.NewControllerClient(r.dial(r.server.ControllerSocket(name)))
	volume := func(name string, size int64, source *csi.VolumeContentSource) (string, codes.Code) {
		v, err := c.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeContentSource: source})
		return v.GetVolume().GetVolumeId(), status.Code(err)
	}
	write := func(volume, text string) {
		f, err := os.OpenFile(p.image(volume), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := func(name, volume string) (*csi.Snapshot, codes.Code) {
		s, err := c.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
		return s.GetSnapshot(), status.Code(err)
	}
	source := func(id string) *csi.VolumeContentSource {
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}

	a, _ := volume("a", 4*mib, nil)
	b, _ := volume("b", 4*mib, nil)
	write(a, "before")
	s, code := snapshot("s", a)
	if code != codes.OK || !s.ReadyToUse || s.SourceVolumeId != a || s.SizeBytes != 4*mib || s.CreationTime.AsTime().IsZero() {
		t.Fatalf("%v, %v", s, code)
	}
	write(a, "after!")
	if again, code := snapshot("s", a); code != codes.OK || again.SnapshotId != s.SnapshotId {
		t.Errorf("the same again: %v, %v", again, code)
	}
	for _, test := range []struct {
		name, volume string
		want         codes.Code
	}{{"s", b, codes.AlreadyExists}, {"other", "vol-none", codes.NotFound}} {
		if _, code := snapshot(test.name, test.volume); code != test.want {
			t.Errorf("snapshot %s of %s: %v, want %v", test.name, test.volume, code, test.want)
		}
	}

	restored, code := volume("restored", 8*mib, source(s.SnapshotId))
	image, err := os.ReadFile(p.image(restored))
	if code != codes.OK || err != nil || len(image) != 8*mib || string(image[:6]) != "before" {
		t.Errorf("restored: %v, %v, %d bytes that begin with %q", code, err, len(image), image[:min(len(image), 6)])
	}
	if _, code := volume("small", 2*mib, source(s.SnapshotId)); code != codes.OutOfRange || r.exists("small") {
		t.Errorf("into less than it has: %v, made %v", code, r.exists("small"))
	}
	if _, code := volume("none", 4*mib, source("snap-none")); code != codes.NotFound || r.exists("none") {
		t.Errorf("of no snapshot: %v, made %v", code, r.exists("none"))
	}

	list := func(r *csi.ListSnapshotsRequest) int {
		l, err := c.ListSnapshots(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Entries)
	}
	if all, one, ofB := list(&csi.ListSnapshotsRequest{}), list(&csi.ListSnapshotsRequest{SnapshotId: s.SnapshotId}), list(&csi.ListSnapshotsRequest{SourceVolumeId: b}); all != 1 || one != 1 || ofB != 0 {
		t.Errorf("%d snapshots, %d of its id, %d of the other volume", all, one, ofB)
	}
	for range 2 { // deleted once more, it is still no error
		if _, err := c.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.SnapshotId}); err != nil {
			t.Error(err)
		}
	}
	if n := list(&csi.ListSnapshotsRequest{}); n != 0 {
		t.Errorf("%d snapshots left", n)
	}
}
