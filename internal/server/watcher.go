package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A file that is being written contains the beginning of a policy, which may lack the rules
// at its end. So a change counts only if nothing has changed for some time after it.
// belljar looks at the files and does not wait for events: a file may be replaced by a
// rename, through a link, or on a file system that sends no events.
const (
	watchEvery = 500 * time.Millisecond
	watchStill = 2 // looks that must find the same state before a file is read
)

// tick is the most by which the time of a file that is written now may be behind the clock:
// a file system uses the time of the kernel's last tick.
const tick = 10 * time.Millisecond

// watcher notices when files change. Only one goroutine uses it.
type watcher struct {
	read  map[string]string // state of each file when it was last read, by name
	seen  string            // state of all files at the last look
	still int               // number of looks for which the state has been the one in seen
}

// stamp returns a text that identifies the state of a file without its contents, and the
// time of the last change. The time is that of the inode, which nobody can set. The size
// and the time of the contents are not enough: two tokens have the same size, and cp -p
// keeps the time of the contents (inode(7)).
func stamp(name string) (string, time.Time) {
	info, err := os.Stat(name)
	if err != nil {
		return "none", time.Time{}
	}
	changed, inode := info.ModTime(), uint64(0)
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		changed, inode = time.Unix(s.Ctim.Unix()), s.Ino
	}
	return fmt.Sprintf("%d %d %d", info.Size(), changed.UnixNano(), inode), changed
}

// look reports whether files have changed since they were read, and have not changed again
// for some looks.
func (w *watcher) look(names []string) bool {
	var now strings.Builder
	changed := false
	for _, name := range names {
		s, _ := stamp(name)
		changed = changed || w.read[name] != s
		now.WriteString(s + "\x00")
	}
	if now.String() != w.seen {
		w.seen, w.still = now.String(), 0
		return false
	}
	if !changed {
		return false
	}
	w.still++
	return w.still >= watchStill
}

// begin records the state of files that are about to be read, so that a change during the
// reading is noticed later.
func (w *watcher) begin(names []string) {
	w.read, w.still = make(map[string]string), 0
	for _, name := range names {
		w.read[name], _ = stamp(name)
	}
}

// also records further files, which were only found by the reading itself. began is the
// time at which the reading began. A file that was written after this time is read again.
func (w *watcher) also(names []string, began time.Time) {
	for _, name := range names {
		if _, known := w.read[name]; known {
			continue
		}
		s, written := stamp(name)
		if written.Before(began.Add(-tick)) {
			w.read[name] = s
		}
	}
}

// watchers contains a watcher for each file, so that a file that is written without a pause
// does not delay the reading of the others. Only one goroutine uses it.
type watchers struct {
	of map[string]*watcher // watchers by the names of their files
}

// look reports whether any file has changed since it was read, and has not changed again
// for some looks.
func (ws *watchers) look(names []string) bool {
	changed := false
	for _, name := range names {
		changed = ws.at(name).look([]string{name}) || changed
	}
	return changed
}

// begin is watcher.begin for each file. It forgets all other files.
func (ws *watchers) begin(names []string) {
	ws.of = nil
	for _, name := range names {
		ws.at(name).begin([]string{name})
	}
}

// also is watcher.also for each file.
func (ws *watchers) also(names []string, began time.Time) {
	for _, name := range names {
		ws.at(name).also([]string{name}, began)
	}
}

// at returns the watcher of a file.
func (ws *watchers) at(name string) *watcher {
	w := ws.of[name]
	if w == nil {
		if ws.of == nil {
			ws.of = make(map[string]*watcher)
		}
		w = &watcher{read: make(map[string]string)}
		ws.of[name] = w
	}
	return w
}
