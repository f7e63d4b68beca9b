package probe

import (
	"fmt"
	"os"

	"github.com/csidoctor/csidoctor/internal/blockdev"
	"github.com/csidoctor/csidoctor/internal/mountinfo"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// What a worker does with devices: it calls blockdev in the host's root.

func reason(err error) string { return blockdev.Reason(err) }

func markMembers(devices []nodereport.Device) { blockdev.MarkMembers(devices) }

type deviceList struct {
	Devices   []nodereport.Device   `json:"devices"`
	DeadLinks []nodereport.DeadLink `json:"deadLinks"`
	Gaps      []nodereport.Gap      `json:"gaps"`
}

var opDevices = register("devices", func(struct{}) (deviceList, error) {
	devices, gaps := blockdev.List(mountinfo.Files("/sys"))
	links, more := blockdev.Links(os.DirFS("/dev"))
	dead := blockdev.AddLinks(devices, links)
	return deviceList{devices, dead, append(gaps, more...)}, nil
})

// opDevice reads one by its number, as a mount has it.
var opDevice = register("device", func(majorMinor string) (nodereport.Device, error) {
	d, gaps := blockdev.ByNumber(mountinfo.Files("/sys"), majorMinor)
	if len(gaps) > 0 {
		return d, fmt.Errorf("%s: %s", gaps[0].What, gaps[0].Reason)
	}
	return d, nil
})

type inspectArg struct {
	Name       string `json:"name"`
	MajorMinor string `json:"majorMinor"`
	Kernel     string `json:"kernel"`
}

// opInspect reads the device itself.
var opInspect = register("inspect", func(a inspectArg) (nodereport.Signature, error) {
	return blockdev.Inspect("/dev/"+a.Name, a.MajorMinor, a.Kernel), nil
})
