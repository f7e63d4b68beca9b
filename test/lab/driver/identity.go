package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func (p *plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: p.name, VendorVersion: "v0.1.0"}, nil
}

func (p *plugin) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	types := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if len(p.topology()) > 0 {
		types = append(types, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	answer := &csi.GetPluginCapabilitiesResponse{}
	for _, t := range types {
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}})
	}
	return answer, nil
}

func (p *plugin) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetInfo and NotifyRegistrationStatus are what node-driver-registrar does for other drivers.
func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.name, Endpoint: p.nodeSocket(), SupportedVersions: []string{"1.0.0"}}, nil
}

func (p *plugin) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

func (p *plugin) topology() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Topology
}
