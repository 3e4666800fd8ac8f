package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A file that is being written has the beginning of a policy, which may lack
// the rules at its end. So a change counts once nothing has changed for some
// time, and belljar looks and does not wait for events: a file may be exchanged
// by a rename, through a link, or on a disk that tells nobody.
const (
	watchEvery = 500 * time.Millisecond
	watchStill = 2 // looks that found the same before it is read
)

// tick is how much older than now a file may look that is written now: a file
// system takes its time from the kernel's last tick.
const tick = 10 * time.Millisecond

// watcher sees when files change. It is used by one goroutine.
type watcher struct {
	read  map[string]string // what each file was when it was last read
	seen  string            // what they were at the last look
	still int               // looks since they became what seen says
}

// stamp is what tells one state of a file from another, without reading it, and
// when it was changed: by the time of its inode, which nobody can set, since one
// token has the size of another and cp -p keeps the time of the text (inode(7)).
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

// look reports whether files have changed since they were read, and have been
// left alone since.
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

// begin notes what files are that are about to be read: what changes while they
// are is seen later.
func (w *watcher) begin(names []string) {
	w.read, w.still = make(map[string]string), 0
	for _, name := range names {
		w.read[name], _ = stamp(name)
	}
}

// also notes further files, which only the reading itself named; began is when the
// reading began. A file that was written since then is read again.
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

// watchers see when files change, each for itself: one that is written without a pause does not
// keep the others from being read. They are used by one goroutine.
type watchers struct {
	of map[string]*watcher // by file
}

// look reports whether a file has changed since it was read, and has been left alone since.
func (ws *watchers) look(names []string) bool {
	changed := false
	for _, name := range names {
		changed = ws.at(name).look([]string{name}) || changed
	}
	return changed
}

// begin is watcher.begin for each file. Other files are forgotten.
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

// at is the watcher of a file.
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
