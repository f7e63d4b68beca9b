//go:build !linux

package mountinfo

import (
	"io/fs"
	"os"
)

// Files are the kernel's files at a folder. There are none here, except in tests.
func Files(dir string) fs.FS { return os.DirFS(dir) }

func gone(error) bool { return false }
