package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MaxRecordingText bounds the bytes of a recording that is read. Recordings are smaller.
const MaxRecordingText = maxRecording + 1<<20

// noCast is the error for a call without a recording. It wraps ErrNoRecord.
type noCast struct{ callID string }

func (e *noCast) Error() string {
	return fmt.Sprintf("find recording: the log has no recording of call %s; calls are recorded at the level full, and jobs until they end", e.callID)
}

func (e *noCast) Unwrap() error { return ErrNoRecord }

// ReadCast returns the recording of a call in the format asciicast v2, after it has
// compared the file with the SHA-256 in the log. It finds only recordings of tenants for
// which sees returns true; if sees is nil, it finds those of all tenants. of is what the
// log states about the recording.
func ReadCast(ctx context.Context, dir, callID string, sees func(tenant string) bool) (text []byte, of Recorded, err error) {
	text, of, err = readRecording(ctx, dir, callID, sees)
	if err == nil && of.Reel() {
		return nil, Recorded{}, fmt.Errorf("read recording: call %s used a browser; `belljar audit reel %s --to FILE` makes a page of its recording", callID, callID)
	}
	return text, of, err
}

// Steps is the recording of a call of a browser.
type Steps struct {
	Began  time.Time
	Frames []Frame
	Cut    string // why steps are missing; empty if no step is missing
}

// ReadReel returns the recording of a call of a browser, after it has compared the file
// with the SHA-256 in the log.
func ReadReel(ctx context.Context, dir, callID string) (r Steps, err error) {
	text, of, err := readRecording(ctx, dir, callID, nil)
	if err == nil && !of.Reel() {
		err = fmt.Errorf("read recording: call %s used no browser; `belljar audit play %s` shows its recording", callID, callID)
	}
	if err != nil {
		return Steps{}, err
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	var header reelHead
	if err := json.Unmarshal(head, &header); err != nil || header.Version != 1 {
		return Steps{}, errors.New("read recording: it has no header of version 1")
	}
	for line := range bytes.Lines(rest) {
		var f Frame
		if err := json.Unmarshal(line, &f); err != nil {
			return Steps{}, fmt.Errorf("read recording: %w", err)
		}
		r.Frames = append(r.Frames, f)
	}
	r.Began, r.Cut = time.Unix(header.Began, 0), of.Cut
	return r, nil
}

// readRecording returns the recording of a call, and what the log states about it. It finds
// the recording only if sees is nil or returns true for its tenant.
func readRecording(ctx context.Context, dir, callID string, sees func(tenant string) bool) ([]byte, Recorded, error) {
	var of *Recorded
	_, _, err := ReadBack(ctx, dir, Cursor{}, Search{Text: callID}, func(e Entry, _ Cursor) bool {
		if e.CallID == callID && e.Cast != nil && (sees == nil || sees(e.Tenant)) {
			of = e.Cast
		}
		return of == nil
	})
	switch {
	case err != nil:
		return nil, Recorded{}, fmt.Errorf("find recording: %w", err)
	case of == nil && ctx.Err() != nil:
		return nil, Recorded{}, fmt.Errorf("find recording: %w", ctx.Err())
	case of == nil:
		// The record of the recording may be damaged: then Read returns an error.
		if err := Read(ctx, dir, Filter{}, func(Entry) error { return nil }); err != nil {
			return nil, Recorded{}, fmt.Errorf("find recording: %w", err)
		}
		return nil, Recorded{}, &noCast{callID}
	case !filepath.IsLocal(of.File):
		return nil, Recorded{}, fmt.Errorf("find recording: %q is not a file of the log", of.File)
	}
	f, err := os.Open(filepath.Join(dir, of.File))
	if err != nil {
		return nil, Recorded{}, fmt.Errorf("read recording: %w", err)
	}
	defer f.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(f, MaxRecordingText+1)); err != nil {
		return nil, Recorded{}, fmt.Errorf("read recording: %w", err)
	}
	text := []byte(b.String())
	if sum := sha256.Sum256(text); len(text) > MaxRecordingText || hex.EncodeToString(sum[:]) != of.SHA256 {
		return nil, Recorded{}, fmt.Errorf("read recording: %s was changed: the log has another SHA-256 of it", f.Name())
	}
	return text, *of, nil
}
