package probe

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deadServer is a FUSE filesystem that answers its mount (FUSE_INIT of include/uapi/linux/fuse.h) and then never anything.
func (n *testNode) deadServer(target string) {
	n.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		skip(n.TB, "no FUSE here: "+err.Error())
	}
	n.Cleanup(func() { f.Close() }) // which ends the connection, and with it whoever waits
	raw, err := f.SyscallConn()
	n.must(err)
	n.must(raw.Control(func(fd uintptr) {
		err = unix.Mount("dead", target, "fuse.dead", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd))
	}))
	n.must(err)
	go func() {
		request := make([]byte, 1<<20)
		for {
			got, err := f.Read(request)
			if err != nil {
				return // closed
			}
			const init = 26
			if got < 16 || binary.NativeEndian.Uint32(request[4:]) != init {
				continue // taken, and not answered: who waits cannot even be killed
			}
			reply := make([]byte, 16+64)
			binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
			copy(reply[8:16], request[8:16])                   // unique
			binary.NativeEndian.PutUint32(reply[16:], 7)       // major
			binary.NativeEndian.PutUint32(reply[20:], 31)      // minor
			binary.NativeEndian.PutUint32(reply[24:], 128<<10) // max_readahead
			binary.NativeEndian.PutUint16(reply[32:], 16)      // max_background
			binary.NativeEndian.PutUint16(reply[34:], 12)      // congestion_threshold
			binary.NativeEndian.PutUint32(reply[36:], 128<<10) // max_write
			binary.NativeEndian.PutUint32(reply[40:], 1)       // time_gran
			if _, err := f.Write(reply); err != nil {
				return
			}
		}
	}()
}
