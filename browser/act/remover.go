package act

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/pause"
)

// maxUnwanted is the largest number of files that wait to be removed. The file system has
// room for fewer.
const maxUnwanted = 256

// removeAgain is the pause after a removal that failed.
const removeAgain = time.Second

// remover removes the files of downloads that nobody can save. Chrome keeps the received
// part of an interrupted download in order to resume it.
type remover struct {
	lease *browser.Seat
	came  chan struct{} // signals that files wait to be removed; room for one

	mu    sync.Mutex
	guids []string // names of the downloads whose files are to be removed; guarded by mu
}

// add has the file of a download removed.
func (r *remover) add(guid string) {
	if !isGUID(guid) {
		return
	}
	r.mu.Lock()
	r.guids = newest(append(r.guids, guid))
	r.mu.Unlock()
	r.wake()
}

// wake makes run remove the files that wait.
func (r *remover) wake() {
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// run removes files until ctx ends, and calls removed with the names of the downloads whose
// files are gone.
func (r *remover) run(ctx context.Context, removed func(guids []string)) {
	for {
		select {
		case <-r.came:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		guids := r.guids
		r.guids = nil
		r.mu.Unlock()
		var names []string
		for _, guid := range guids {
			names = append(names, downloadDir+"/"+guid, downloadDir+"/"+guid+".crdownload")
		}
		if err := r.lease.Remove(ctx, names...); err != nil {
			r.mu.Lock()
			r.guids = newest(slices.Concat(guids, r.guids))
			r.mu.Unlock()
			_ = pause.For(ctx, removeAgain)
			r.wake()
			continue
		}
		removed(guids)
	}
}

// newest returns the last maxUnwanted names.
func newest(guids []string) []string { return guids[max(0, len(guids)-maxUnwanted):] }

// isGUID reports whether s looks like a name that Chrome gives to a download.
func isGUID(s string) bool {
	return len(s) >= 8 && len(s) <= 64 && strings.Trim(s, "0123456789abcdefABCDEF-") == ""
}
