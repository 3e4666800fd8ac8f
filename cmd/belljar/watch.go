package main

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

// watcher sees when files change. It is used by one goroutine.
type watcher struct {
	read  string // what the files were when they were last read
	seen  string // and at the last look
	still int    // looks since they became what seen says
}

// stamp is what tells one state of files from another, without reading them.
func stamp(names []string) string {
	var b strings.Builder
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%s\x00none\x00", name)
			continue
		}
		inode := uint64(0)
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = s.Ino
		}
		fmt.Fprintf(&b, "%s\x00%d %d %d\x00", name, info.Size(), info.ModTime().UnixNano(), inode)
	}
	return b.String()
}

// look reports whether files have changed since they were read, and have been
// left alone since.
func (w *watcher) look(names []string) bool {
	now := stamp(names)
	if now != w.seen {
		w.seen, w.still = now, 0
		return false
	}
	if now == w.read {
		return false
	}
	w.still++
	return w.still >= watchStill
}

// begin notes what files are that are about to be read: what changes while they
// are is seen later.
func (w *watcher) begin(names []string) {
	w.read = stamp(names)
	w.seen, w.still = w.read, 0
}
