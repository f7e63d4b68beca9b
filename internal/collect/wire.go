package collect

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const clockTolerance = 5 * time.Second // below it no judgement of ages changes

// wire sees every request: it counts them and reads the server's clock.
type wire struct {
	next     http.RoundTripper
	requests atomic.Int64

	mu       sync.Mutex
	earliest time.Time
	ahead    time.Duration // the server's clock before ours at that moment, as far as the answer's travel time proves it
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.requests.Add(1)
	sent := time.Now()
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil { // a proxy may have dropped it
		w.see(date.UTC(), sent, time.Now())
	}
	return resp, nil
}

func (w *wire) see(date, sent, received time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.earliest.IsZero() && !date.Before(w.earliest) {
		return
	}
	w.earliest, w.ahead = date, 0
	if late := date.Sub(received); late > 0 {
		w.ahead = late
	} else if early := date.Add(time.Second).Sub(sent); early < 0 { // Date is cut to the second
		w.ahead = early
	}
}

func (w *wire) clock() (time.Time, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.earliest.IsZero() {
		return time.Now().UTC().Truncate(time.Second), []string{"the API server's answers have no Date, so its time is taken from this machine's clock"}
	}
	if w.ahead.Abs() <= clockTolerance {
		return w.earliest, nil
	}
	side := "ahead of"
	if w.ahead < 0 {
		side = "behind"
	}
	return w.earliest, []string{fmt.Sprintf("the API server's clock is %s %s this machine's; ages are judged by the API server's", w.ahead.Abs().Round(time.Second), side)}
}
