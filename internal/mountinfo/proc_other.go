//go:build !linux

package mountinfo

import (
	"io/fs"
	"os"
)

// Proc is the /proc at a folder. There is none here, except in tests.
func Proc(dir string) fs.FS { return os.DirFS(dir) }

func gone(error) bool { return false }
