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

// Bounds of the file that keeps the health of engines.
const (
	healthFile     = "engines.json"
	healthBytes    = 256 << 10
	healthEngines  = 256
	healthInterval = 5 * time.Second // least time between two writes, except for the last write
)

// healthLine is the health of one engine on disk. It contains nothing of a query.
type healthLine struct {
	Fails   int       `json:"fails,omitempty"`
	Last    string    `json:"last,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Spent   float64   `json:"spent,omitempty"`
	SpentAt time.Time `json:"spent_at,omitzero"`
	TookMS  []int64   `json:"took_ms,omitempty"`
}

// load reads the file in a directory, and takes over each entry that is newer than the
// book's. If the file cannot be read, the book stays as it is, and load returns an error;
// engines are then asked as at the first start.
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

// take takes over the health from a line of the file. A line cannot make an engine be left
// alone for longer than a failure can.
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

// store writes the book into the file of a directory, together with what other programs
// have written there meanwhile. The file is replaced as a whole.
func (b *book) store(dir string) error {
	if err := b.load(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// A broken file must be replaced.
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

// touch makes the next store write the file.
func (b *book) touch() {
	b.mu.Lock()
	b.dirty = true
	b.mu.Unlock()
}

// text returns the book as the file contains it, and whether it has changed since the last
// call.
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
