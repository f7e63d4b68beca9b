package blockdev

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// ring is a journal as the kernel writes one: record after record, round after round.
type ring struct {
	sparse
	n, next int64
	round   uint32
}

func newRing(n int64) *ring {
	return &ring{sparse: sparse{size: n * logBlock, parts: map[int64][]byte{0: make([]byte, n*logBlock)}}, n: n, round: 1}
}

func (r *ring) put(b []byte) {
	copy(r.parts[0][r.next*logBlock:], b)
	if r.next++; r.next == r.n {
		r.next, r.round = 0, r.round+1
	}
}

// record writes headers and body; size is the buffer's, which decides how many headers there are.
func (r *ring) record(size, blocks int64, ops uint32, flags byte) {
	be := binary.BigEndian
	headers := max(1, size/logCycleArea)
	for i := range headers + blocks {
		b := make([]byte, logBlock)
		be.PutUint32(b, r.round)
		switch i {
		case 0:
			be.PutUint32(b, logMagic)
			be.PutUint32(b[4:], r.round)
			be.PutUint32(b[logVersion:], 2)
			be.PutUint32(b[logLength:], uint32(blocks*logBlock))
			be.PutUint32(b[logOps:], ops)
			be.PutUint32(b[logSize:], uint32(size))
		case headers:
			b[opFlags] = flags
		}
		r.put(b)
	}
}

func (r *ring) state() string {
	d := &image{r: r, size: r.size}
	return (&xfsLog{d: d, n: r.n}).state()
}

func TestXFSLog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int64{16 << 10, 32 << 10, 256 << 10} {
		r := newRing(1500)
		for i := range 3000 {
			r.record(size, 1+random.Int64N(size/logBlock-8), 1+random.Uint32N(90), 0)
			if got := r.state(); got != "dirty" {
				t.Fatalf("buffer %d, record %d, head %d: %q, want dirty", size, i, r.next, got)
			}
			// An unmount's record, as long as the stripe unit of the disk below wants it.
			r.record(size, 1+random.Int64N(2)*random.Int64N(64), 1, opUnmount)
			if got := r.state(); got != "clean" {
				t.Fatalf("buffer %d, record %d, head %d: %q, want clean", size, i, r.next, got)
			}
			if random.IntN(2) == 0 { // one operation that is no unmount
				r.record(size, 1, 1, 0)
				if got := r.state(); got != "dirty" {
					t.Fatalf("buffer %d, record %d, head %d: %q, want dirty", size, i, r.next, got)
				}
			}
		}
		if limit := int64(60 * 9000); r.reads > limit {
			t.Errorf("%d reads, want below %d", r.reads, limit)
		}
	}
	if got := newRing(100).state(); got != "" {
		t.Errorf("a log of zeros: %q", got)
	}
	cut := newRing(2000)
	cut.record(32<<10, 10, 1, opUnmount)
	cut.record(32<<10, 60, 5, 0)
	clear(cut.parts[0][40*logBlock:]) // the record's end was never written
	if got := cut.state(); got != "dirty" {
		t.Errorf("a record cut short: %q", got)
	}
}
