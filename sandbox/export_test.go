package sandbox

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// WaitWarm reports whether the box has a warm shell, or gets one soon, and
// waits until it stands still: one that
// is still starting would take a processor from what is measured.
func (b *Box) WaitWarm() bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(200 * time.Microsecond) {
		b.mu.Lock()
		w := b.warm
		ready := w != nil && w.idle != nil
		b.mu.Unlock()
		if ready && asleep(w.job.leaf) {
			return true
		}
	}
	return false
}

// asleep reports whether all that is in a leaf waits for something.
func asleep(l *leaf) bool {
	if l == nil {
		return true
	}
	text, err := os.ReadFile(l.path + "/cgroup.procs")
	if err != nil {
		return false
	}
	for pid := range strings.FieldsSeq(string(text)) {
		n, _ := strconv.Atoi(pid)
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(n) + "/stat")
		if !strings.Contains(string(stat), ") S ") {
			return false
		}
	}
	return true
}
