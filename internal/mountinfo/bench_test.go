package mountinfo

import (
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	text := strings.Repeat("40 22 259:1 / /var/lib/kubelet/pods/9c067163-ce6b-41a7-a36a-ea68574ddb4a/volumes/kubernetes.io~csi/pvc-1/mount rw,relatime shared:2 - ext4 /dev/nvme1n1 rw\n", 5000)
	for b.Loop() {
		if all, gaps := Parse(text); len(all) != 5000 || len(gaps) > 0 {
			b.Fatal(len(all), gaps)
		}
	}
}
