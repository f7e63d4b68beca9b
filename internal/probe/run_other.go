//go:build !linux

package probe

import (
	"context"
	"errors"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// Run needs Linux.
func Run(context.Context, Options) (*nodereport.NodeReport, error) {
	return nil, errors.New("a probe reads the node that it runs on, and nodes are Linux; run it there, as root")
}
