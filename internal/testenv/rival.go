package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rival is a server that a benchmark compares with others, and the function that calls it.
type Rival struct {
	PID  int
	Call func(id int) error
	CPU  []float64 // CPU time of the server per call in µs, one value for each slice
	Wall []float64 // median time of a call in µs, one value for each slice
}

// Slice makes n calls, window of them at the same time, and appends the results to CPU and
// Wall.
func (r *Rival) Slice(t testing.TB, n, window int) {
	t.Helper()
	before := CPU(t, r.PID)
	took := r.Calls(t, n, window)
	r.CPU = append(r.CPU, (CPU(t, r.PID)-before)/float64(n))
	r.Wall = append(r.Wall, took[len(took)/2])
}

// Calls makes n calls, window of them at the same time. It returns the times of the calls
// in µs, sorted.
func (r *Rival) Calls(t testing.TB, n, window int) []float64 {
	t.Helper()
	took := make([]float64, n)
	var all sync.WaitGroup
	for first := range window {
		all.Go(func() {
			for i := first; i < n; i += window {
				begin := time.Now()
				if err := r.Call(i); err != nil {
					t.Error(err)
				}
				took[i] = float64(time.Since(begin).Nanoseconds()) / 1000
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// CPU returns the CPU time of the threads of a process in µs.
func CPU(t testing.TB, pid int) float64 {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(all) == 0 {
		t.Fatalf("the threads of %d: %v", pid, err)
	}
	var sum float64
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += ns / 1000
	}
	return sum
}

// Median returns the median of some values.
func Median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
