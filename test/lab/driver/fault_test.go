package driver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const name = "test.csidoctor.dev"

type rig struct {
	t      *testing.T
	server *Server
	url    string
}

func newRig(t *testing.T) rig {
	dir := t.TempDir()
	s := &Server{Node: "node-1", Nodes: []string{"node-1", "node-2"}, State: filepath.Join(dir, "v"), KubeletRoot: filepath.Join(dir, "k"), Sockets: filepath.Join(dir, "s")}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return rig{t, s, h.URL + "/drivers/" + name}
}

func (r rig) send(method, path, body string, want int) {
	r.t.Helper()
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != want {
		r.t.Fatalf("%s %s %s: %d, want %d", method, path, body, answer.StatusCode, want)
	}
}

func (r rig) dial(socket string) *grpc.ClientConn {
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

func (r rig) create(volume string, limit time.Duration) codes.Code {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	_, err := csi.NewControllerClient(r.dial(r.server.ControllerSocket(name))).CreateVolume(ctx, &csi.CreateVolumeRequest{Name: volume})
	return status.Code(err)
}

func (r rig) exists(volume string) bool {
	_, err := os.Stat(filepath.Join(r.server.State, name, handle(volume)+".img"))
	return err == nil
}

func TestFaults(t *testing.T) {
	r := newRig(t)
	r.send("PUT", "", "{}", 200)
	for _, test := range []struct {
		fault string
		want  codes.Code
		made  bool
	}{
		{`{"mode":"fail","code":"ResourceExhausted","text":"full"}`, codes.ResourceExhausted, false},
		{`{"mode":"hang"}`, codes.DeadlineExceeded, false},
		{`{"mode":"lie"}`, codes.OK, false},
		{`{"mode":"lie","volume":"another"}`, codes.OK, true},
	} {
		r.send("PUT", "/faults/CreateVolume", test.fault, 200)
		if code := r.create("a", 200*time.Millisecond); code != test.want || r.exists("a") != test.made {
			t.Errorf("%s: %v and made %v, want %v and %v", test.fault, code, r.exists("a"), test.want, test.made)
		}
	}
	r.send("PUT", "/faults/CreateVolume", `{"mode":"fail","code":"NoSuchCode"}`, 400)
	r.send("PUT", "/faults/CreateVolume", `{"mode":"vanish"}`, 400)
}

func TestHangEndsWithTheFault(t *testing.T) {
	r := newRig(t)
	r.send("PUT", "", "{}", 200)
	r.send("PUT", "/faults/CreateVolume", `{"mode":"hang"}`, 200)
	done := make(chan codes.Code)
	go func() { done <- r.create("a", time.Minute) }()
	for p, _ := r.server.plugin(name); p.state().Calls["CreateVolume"] == 0; time.Sleep(time.Millisecond) {
	}
	r.send("DELETE", "/faults/CreateVolume", "", 200)
	if code := <-done; code != codes.OK || !r.exists("a") {
		t.Errorf("%v and made %v, want the call to go on", code, r.exists("a"))
	}
}

func TestLieHasAnAnswerOfItsKind(t *testing.T) {
	for method, request := range map[string]any{
		csi.Node_NodeStageVolume_FullMethodName:                     &csi.NodeStageVolumeRequest{},
		csi.Node_NodePublishVolume_FullMethodName:                   &csi.NodePublishVolumeRequest{TargetPath: t.TempDir()},
		csi.Controller_ControllerPublishVolume_FullMethodName:       &csi.ControllerPublishVolumeRequest{},
		csi.Controller_DeleteVolume_FullMethodName:                  &csi.DeleteVolumeRequest{},
		"/pluginregistration.Registration/NotifyRegistrationStatus": nil,
	} {
		if answer, err := lie(method, request); err != nil || answer == nil {
			t.Errorf("%s: %v, %v", method, answer, err)
		}
	}
}

func TestDeadLeavesItsSockets(t *testing.T) {
	r := newRig(t)
	r.send("PUT", "", `{"maxVolumes":3}`, 200)
	socket := filepath.Join(r.server.KubeletRoot, "plugins", name, "csi.sock")
	ask := func() codes.Code {
		_, err := csi.NewNodeClient(r.dial(socket)).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		return status.Code(err)
	}
	for _, step := range []struct {
		state  string
		answer codes.Code
		there  bool
	}{{"running", codes.OK, true}, {"dead", codes.Unavailable, true}, {"running", codes.OK, true}, {"absent", codes.Unavailable, false}} {
		r.send("PATCH", "", `{"node":"`+step.state+`"}`, 200)
		_, err := os.Stat(socket)
		if code := ask(); code != step.answer || (err == nil) != step.there {
			t.Errorf("%s: answer %v and socket there %v, want %v and %v", step.state, code, err == nil, step.answer, step.there)
		}
	}
	if p, _ := r.server.plugin(name); p.state().Config.MaxVolumes != 3 {
		t.Errorf("config %+v, want the limit kept", p.state().Config)
	}
}
