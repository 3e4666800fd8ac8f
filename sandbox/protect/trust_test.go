package protect

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A change in the tick in which a look begins is young, however old it is by a finer clock.
// If the tick is late, as in a virtual machine that has to wait, the next change still
// shows the same time.
func TestTooYoung(t *testing.T) {
	tick := time.Unix(1000, 4_000_000)
	for _, tt := range []struct {
		name    string
		changed time.Time
		fine    bool
		want    bool
	}{
		{"in the same tick", tick, false, true},
		{"in a later one", tick.Add(time.Millisecond), false, true},
		{"in an earlier one", tick.Add(-time.Millisecond), false, false},
		{"where each change has its own time", tick, true, false},
		{"in the same second, where seconds are counted", time.Unix(1000, 0), false, true},
		{"in the same second, where a file system of the other kind has no room for more", time.Unix(1000, 0), true, true},
		{"long ago, where seconds are counted", time.Unix(990, 0), false, false},
	} {
		st := unix.Stat_t{Ctim: unix.NsecToTimespec(tt.changed.UnixNano())}
		if got := (trust{fine: tt.fine}).tooYoung(&st, tick); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// No file shows a time before the one that the clock showed before it was made.
func TestFileClock(t *testing.T) {
	before := fileClock()
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if made := time.Unix(st.Ctim.Unix()); made.Before(before) || before.IsZero() {
		t.Errorf("a file was made at %v, and the clock said %v before", made, before)
	}
}

// A file that a command makes in the second in which it begins is young even if a file
// system counts seconds, so that the file seems older than the command.
func TestAFileSystemThatCountsSeconds(t *testing.T) {
	begun := time.Unix(1000, 700_000_000)
	for _, tt := range []struct {
		changed time.Time
		want    bool
	}{{time.Unix(1000, 0), true}, {time.Unix(1001, 0), true}, {time.Unix(990, 0), false}, {begun.Add(-1), false}, {begun, true}} {
		st := unix.Stat_t{Ctim: unix.NsecToTimespec(tt.changed.UnixNano())}
		if got := (&doubting{doubt: begun}).changed(&st); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.changed, got, tt.want)
		}
	}
}
