package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"belljar.dev/internal/diskfile"
	"belljar.dev/search/engine"
)

// The bounds of the file that keeps the health of engines.
const (
	healthFile     = "engines.json"
	healthBytes    = 256 << 10
	healthEngines  = 256
	healthInterval = 5 * time.Second // between two writings, but for the last
)

// healthLine is the health of one engine on disk. Nothing of a query is in it.
type healthLine struct {
	Fails   int       `json:"fails,omitempty"`
	Last    string    `json:"last,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Spent   float64   `json:"spent,omitempty"`
	SpentAt time.Time `json:"spent_at,omitzero"`
	TookMS  []int64   `json:"took_ms,omitempty"`
}

// load takes over what the file of a directory says and this book does not
// know later. A file that cannot be read is as if it were not there: engines
// are then asked as at the first start.
func (b *book) load(dir string) error {
	f, err := os.Open(filepath.Join(dir, healthFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the health of engines: %w", err)
	}
	defer f.Close()
	var lines map[string]healthLine
	if err := json.NewDecoder(io.LimitReader(f, healthBytes)).Decode(&lines); err != nil {
		return fmt.Errorf("read the health of engines: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, l := range lines {
		if len(b.all) >= healthEngines {
			break
		}
		if h := b.of(name); l.Since.After(h.since) {
			h.take(l)
		} else if l.SpentAt.After(h.level.at) {
			h.level = level{l.Spent, l.SpentAt}
		}
	}
	return nil
}

// take takes over the health from a line of the file. A file is no reason to
// leave an engine alone for longer than any failure does.
func (h *health) take(l healthLine) {
	h.fails, h.last, h.since = max(0, min(l.Fails, 32)), engine.OutcomeOf(l.Last), l.Since
	h.until = l.Until
	if latest := l.Since.Add(askedMost + askedMost/4); h.until.After(latest) {
		h.until = latest
	}
	h.level = level{l.Spent, l.SpentAt}
	h.n = 0
	for _, ms := range l.TookMS[:min(len(l.TookMS), latencies)] {
		if ms >= 0 && ms < 60_000 {
			h.took[h.n] = time.Duration(ms) * time.Millisecond
			h.n++
		}
	}
}

// store writes the book into the file of a directory, with what other programs
// wrote there meanwhile. The file takes the place of the old one whole.
func (b *book) store(dir string) error {
	if err := b.load(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// A file that is broken is to be replaced.
		b.touch()
	}
	text, changed, err := b.text()
	if err != nil || !changed {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write the health of engines: %w", err)
	}
	if err := diskfile.Replace(filepath.Join(dir, healthFile), text, 0o600); err != nil {
		b.touch()
		return fmt.Errorf("keep the health of engines: %w", err)
	}
	return nil
}

// touch has the next store write.
func (b *book) touch() {
	b.mu.Lock()
	b.dirty = true
	b.mu.Unlock()
}

// text is the book as a file holds it, if it has changed since the last
// text.
func (b *book) text() (text []byte, changed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dirty {
		return nil, false, nil
	}
	lines := make(map[string]healthLine, len(b.all))
	for name, h := range b.all {
		if h.since.IsZero() && h.level.at.IsZero() {
			continue
		}
		l := healthLine{Fails: h.fails, Last: h.last.String(), Since: h.since, Until: h.until, Spent: h.level.spent, SpentAt: h.level.at}
		for _, t := range h.took[:min(h.n, latencies)] {
			l.TookMS = append(l.TookMS, t.Milliseconds())
		}
		lines[name] = l
	}
	text, err = json.Marshal(lines)
	b.dirty = err != nil
	return text, true, err
}
