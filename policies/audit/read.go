package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Entry is a record of any kind as it is read back: fields that the record lacks
// are zero.
type Entry struct {
	Seq     uint64    `json:"seq"`
	Kind    Kind      `json:"kind"`
	Time    time.Time `json:"ts"`
	CallID  string    `json:"call_id"`
	Tenant  string    `json:"tenant"`
	Session string    `json:"session"`
	Tool    string    `json:"tool"`
	Verdict string    `json:"verdict"`
	Event   string    `json:"event"`
	Box     string    `json:"box"`
	Scope   string    `json:"scope"` // scope of a person's answer
	Profile string    `json:"profile"`
	Rules   []Rule    `json:"rules"`
	Facts   Facts     `json:"facts"`
	Failed  bool      `json:"failed"`
	Exit    *int      `json:"exit"`
	DurMS   int64     `json:"dur_ms"`
	Cast    *Recorded `json:"cast"`

	Args struct {
		Command string `json:"command"`
	} `json:"args"`

	Raw []byte `json:"-"` // the line, without its LF
}

// Filter says which records are wanted. The zero value wants all records.
type Filter struct {
	Tenant  string
	Session string
	Tool    string
	Verdict string // verdict of the call; an outcome counts as allow
	Kind    Kind
	Since   time.Time
	Calls   bool // decisions and outcomes only
}

// Wants reports whether the filter wants a record.
func (f Filter) Wants(e Entry) bool {
	call := e.Kind == KindDecision || e.Kind == KindOutcome
	verdict := e.Verdict
	if e.Kind == KindOutcome {
		verdict = "allow"
	}
	switch {
	case f.Tenant != "" && f.Tenant != e.Tenant,
		f.Session != "" && f.Session != e.Session && f.Session != e.Box,
		f.Tool != "" && f.Tool != e.Tool,
		f.Verdict != "" && f.Verdict != verdict,
		f.Kind != "" && f.Kind != e.Kind,
		f.Calls && !call,
		!f.Since.IsZero() && e.Time.Before(f.Since):
		return false
	}
	return true
}

// Read calls use with each record of a log that the filter wants, from the first
// to the last, and stops at the first error of use. It checks nothing; Verify
// does. use may keep an entry and its Raw.
func Read(ctx context.Context, dir string, f Filter, use func(Entry) error) error {
	s, err := snapshot(dir)
	if err != nil {
		return err
	}
	defer s.close()
	for _, p := range s.files {
		file, err := p.open()
		if err != nil {
			return err
		}
		var r io.Reader = file
		if p.size >= 0 {
			r = io.NewSectionReader(file, 0, p.size)
		}
		_, err = entries(ctx, p.name, r, f, use)
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadLog is like Read, but path is the directory of a log or one of its files.
func ReadLog(ctx context.Context, path string, f Filter, use func(Entry) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	if info.IsDir() {
		return Read(ctx, path, f, use)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read audit log: %w", &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid})
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	_, err = entries(ctx, filepath.Base(path), file, f, use)
	return err
}

// entries reads the whole lines of r and returns how many bytes they have. A
// last line without its LF is left to be read again.
func entries(ctx context.Context, name string, r io.Reader, f Filter, use func(Entry) error) (int64, error) {
	br := bufio.NewReaderSize(r, maxLine)
	var read int64
	for n := 1; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return read, context.Cause(ctx)
		}
		text, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return read, fmt.Errorf("read %s:%d: the line is longer than any record; `belljar audit verify` says more", name, n)
		case err != nil:
			return read, fmt.Errorf("read %s: %w", name, err)
		}
		read += int64(len(text))
		if l, err := parseLine(text[:len(text)-1]); err == nil && f.Kind != "" && l.kind != f.Kind {
			continue // saves the time that decoding takes
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil {
			return read, fmt.Errorf("read %s:%d: the line is not a record; `belljar audit verify` says more", name, n)
		}
		if !f.Wants(e) {
			continue
		}
		e.Raw = append([]byte(nil), text[:len(text)-1]...)
		if err := use(e); err != nil {
			return read, err
		}
	}
}

// glance is the time between two looks of Follow for new records.
const glance = 200 * time.Millisecond

// Follow calls use with each record that follows the record number behind, through
// rotations, until ctx ends, which is not an error. If behind is 0, Follow begins after the
// last record that the log has.
func Follow(ctx context.Context, dir string, behind uint64, f Filter, use func(Entry) error) error {
	file, err := os.Open(filepath.Join(dir, currentName))
	if err != nil {
		return err
	}
	defer func() { file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	t, err := readTail(file, info.Size())
	if err != nil {
		return fmt.Errorf("read %s: %w", currentName, err)
	}
	at, last := t.end, t.last.seq
	seen := func(e Entry) error {
		if e.Seq <= last {
			return nil
		}
		if last = e.Seq; !f.Wants(e) {
			return nil
		}
		return use(e)
	}
	if behind > 0 && behind < last {
		at, last = 0, behind
		if err := follow(ctx, dir, last, seen); err != nil {
			return err
		}
	}
	look := time.NewTicker(glance)
	defer look.Stop()
	for {
		n, err := entries(ctx, currentName, io.NewSectionReader(file, at, 1<<62), Filter{}, seen)
		at += n
		if err != nil && ctx.Err() == nil {
			return err
		}
		now, err := os.Stat(filepath.Join(dir, currentName))
		if err == nil && !os.SameFile(now, info) {
			next, err := os.Open(filepath.Join(dir, currentName))
			switch {
			case errors.Is(err, fs.ErrNotExist): // the file has just become full and was renamed
				continue
			case err != nil:
				return err
			}
			// First come the records that were written to the old file after the last read,
			// and those of files that were begun and filled meanwhile. All files before the
			// one just opened are full by now. If that file was opened after the call of
			// follow, yet another file could be missed in between.
			if err := follow(ctx, dir, last, seen); err != nil {
				next.Close()
				return err
			}
			file.Close()
			file, at = next, 0
			if info, err = file.Stat(); err != nil {
				return err
			}
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// follow calls use with the records of the full files that may contain records after last.
func follow(ctx context.Context, dir string, last uint64, use func(Entry) error) error {
	full, err := list(dir, isFull)
	if err != nil {
		return err
	}
	// The file that contains the record after last is the last file that begins at or
	// before that record; the files before it are read already.
	from := 0
	for i, name := range full {
		if name <= fullName(last+1) {
			from = i
		}
	}
	for _, name := range full[from:] {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed as old
		}
		if err != nil {
			return err
		}
		_, err = entries(ctx, name, f, Filter{}, use)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
