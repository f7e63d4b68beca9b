package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxVolData is far more than the half dozen texts that the kubelet writes (pkg/volume/csi, saveVolumeData).
const maxVolData = 64 << 10

// parseVolData reads a vol_data.json: one object of texts.
func parseVolData(b []byte) (map[string]string, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, fmt.Errorf("the file is empty")
	}
	if len(b) > maxVolData {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxVolData)
	}
	var out map[string]string
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("no valid JSON object of texts: %w", err)
	}
	if out == nil {
		return nil, fmt.Errorf("no valid JSON object of texts: null")
	}
	return out, nil
}
