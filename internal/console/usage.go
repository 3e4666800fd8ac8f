package console

import (
	"context"
	"sync"
	"time"

	"belljar.dev/internal/control"
)

// Bounds of the stored usage of boxes.
const (
	sampleEvery = 5 * time.Second
	mostSamples = 60 // number of samples of one box
)

// boxStats contains the last samples of the usage of a box, the newest last.
type boxStats struct {
	ID      string  `json:"id"`
	Memory  []int64 `json:"memory"`  // in bytes
	CPU     []int64 `json:"cpu"`     // hundredths of a processor since the sample before
	Network []int64 `json:"network"` // bytes per second since the sample before
}

// usage keeps the last samples of the open boxes. It is safe for concurrent use.
type usage struct {
	mu    sync.Mutex
	boxes map[string]*sampled // guarded by mu
}

// sampled contains the samples of a box, and its state at the last one.
type sampled struct {
	boxStats
	last control.Box
	at   time.Time
}

// follow takes samples while at least one person is logged in, until ctx ends.
func (u *usage) follow(ctx context.Context, runs Runs, anybody func() bool) {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			if anybody() {
				u.sample(now, runs.Boxes())
			}
		}
	}
}

// sample adds a sample for each box. Other boxes are forgotten.
func (u *usage) sample(now time.Time, boxes []control.Box) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh := make(map[string]*sampled, len(boxes))
	for _, b := range boxes {
		s := u.boxes[b.ID]
		if s == nil || b.CPU < s.last.CPU { // another box with the same id was opened in the meantime
			s = &sampled{boxStats: boxStats{ID: b.ID, Memory: []int64{}, CPU: []int64{}, Network: []int64{}}}
		}
		s.add(now, b)
		fresh[b.ID] = s
	}
	u.boxes = fresh
}

// add adds a sample.
func (s *sampled) add(now time.Time, b control.Box) {
	var cpu, network int64
	if since := now.Sub(s.at); !s.at.IsZero() && since > 0 {
		cpu = (b.CPU - s.last.CPU) * 100 / max(1, since.Milliseconds())
		network = (b.Network - s.last.Network) * 1000 / max(1, since.Milliseconds())
	}
	s.Memory, s.CPU, s.Network = put(s.Memory, b.Memory), put(s.CPU, cpu), put(s.Network, network)
	s.last, s.at = b, now
}

// put appends a number, and keeps at most mostSamples numbers.
func put(some []int64, n int64) []int64 {
	if len(some) == mostSamples {
		copy(some, some[1:])
		some = some[:mostSamples-1]
	}
	return append(some, n)
}

// stats returns the samples of boxes. For a box without samples it returns the present
// usage.
func (u *usage) stats(boxes []control.Box) []boxStats {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := []boxStats{}
	for _, b := range boxes {
		one := boxStats{ID: b.ID, Memory: []int64{b.Memory}, CPU: []int64{0}, Network: []int64{0}}
		if s := u.boxes[b.ID]; s != nil {
			one.Memory, one.CPU, one.Network = append([]int64{}, s.Memory...), append([]int64{}, s.CPU...), append([]int64{}, s.Network...)
		}
		all = append(all, one)
	}
	return all
}
