package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Health is the state of a log in this process.
type Health struct {
	Written uint64    `json:"written"` // number of callers' records that were written
	Lost    uint64    `json:"lost"`    // number of records that could not be written
	Since   time.Time `json:"since,omitzero"`
	Why     string    `json:"why,omitempty"` // reason of the last loss
	Stated  bool      `json:"stated"`        // the log itself states all losses: it could be written since
	Waiting int       `json:"waiting"`
}

// Health returns the state of the log: what was written and what was lost since
// it was opened.
func (l *Log) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health
	h.Stated, h.Waiting = l.lost.count == 0 && !l.stating, len(l.queue)
	return h
}

// tally counts a batch: n of its records were written, and left records were lost. The
// caller holds l.mu.
func (h *Health) tally(n, left int, err error) {
	h.Written += uint64(n)
	if left > 0 {
		if h.Lost == 0 {
			h.Since = time.Now()
		}
		h.Lost += uint64(left)
		h.Why = clip(err.Error(), maxName)
	}
}

// Losses are the losses that a log states: records that could not be written.
type Losses struct {
	Count uint64
	Since time.Time // time of the first loss
	Last  string    // reason of the last loss
}

// ReadLosses returns what the current file of a log says about lost records. It
// reads all of that file.
func ReadLosses(ctx context.Context, dir string) (Losses, error) {
	var all Losses
	f, err := os.Open(filepath.Join(dir, currentName))
	if err != nil {
		return all, fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	mark := []byte(headKind + string(KindDropped) + `"`)
	br := bufio.NewReaderSize(f, maxLine)
	for ctx.Err() == nil {
		text, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("read audit log: %w", err)
		}
		if !bytes.Contains(text[:min(len(text), 200)], mark) {
			continue
		}
		var d droppedLine
		if err := json.Unmarshal(text, &d); err != nil {
			return all, fmt.Errorf("read audit log: %w", err)
		}
		if since, err := time.Parse(stamp, d.Since); err == nil && all.Count == 0 {
			all.Since = since
		}
		all.Count += d.Count
		all.Last = d.Reason
	}
	return all, context.Cause(ctx)
}
