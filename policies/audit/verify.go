package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Report is the result of Verify for a log that has not been changed.
type Report struct {
	Files       int
	Records     uint64 // number of records that the log has
	First, Last uint64 // numbers of the first and the last of these records
	Head        string // hash of the last record
	Checkpoints int
	Signed      uint64   // number of the last record that a checkpoint signs
	Witnessed   uint64   // number of the last record that a checkpoint of Witnesses signs, or 0
	Witnesses   []string // names of the witnesses that have this checkpoint
	Removed     uint64   // number of records that the log itself has removed
	Notes       []string // what a reader should know, for example records lost to a full disk; at most 20
	// claims of witnesses that cannot be decided; at most 20. Without disputes,
	// the witnesses agree with the log
	Disputes []string
}

// Fault is the first place at which a log has been changed.
type Fault struct {
	File string // name of the file in the directory
	Line int    // number of the line, from 1; 0 if the fault is not in one line
	Seq  uint64 // number of the record; 0 if the fault is not in one record
	Why  string
}

// Error returns the place and the reason.
func (f *Fault) Error() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	if f.Seq > 0 {
		place = fmt.Sprintf("%s: record %d", place, f.Seq)
	}
	return place + ": " + f.Why
}

// Against is what a log is compared with, in addition to its own files.
type Against struct {
	Key        string // public key, as in audit.pub; empty for the key in the directory
	Checkpoint []byte // an earlier checkpoint that was kept elsewhere; may be nil
	Witnesses  []Sighting
	Keys       []string // public keys that the log is known to have had, in addition to its own; nil if that is not known
}

// Verify reads a log from its first record to its last and checks each hash, each number
// and each checkpoint. If the log was changed, the error is a *Fault that names the first
// change; any other error says that the log could not be read. Verify may run while other
// processes write.
func Verify(ctx context.Context, dir string, against Against) (Report, error) {
	v := &verifier{}
	if err := v.prepare(dir, against); err != nil {
		return Report{}, err
	}
	s, err := snapshot(dir)
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	if err := v.checkpointFile(s.checkpoint); err != nil {
		return Report{}, err
	}
	replaced := v.replaced()
	for _, f := range s.files {
		if err := v.open(ctx, f); err != nil {
			return v.report, err
		}
	}
	if err := v.finish(); err != nil {
		return v.report, err
	}
	return v.report, replaced // the faults above come first: they name the place more exactly
}

// verifier checks a log.
type verifier struct {
	key    note.Verifier
	report Report

	last      line // the record before; its text is no longer valid
	lastHash  hash
	lastFile  string
	lastLine  int
	firstPrev hash
	firstFile string
	stated    bool // a record states the removal of the missing records

	mark   *Checkpoint // checkpoint in the checkpoint file
	kept   *Checkpoint // checkpoint of Against
	signed uint64      // number of the record with the last checkpoint
	signs  uint64      // number of the last record that this checkpoint signs

	seen []*sighting // checkpoints of witnesses that sign records that have not been read yet; in order
	old  int         // number of checkpoints of witnesses that sign removed records

	foreign map[string]*sighting // newest checkpoint by each key that is not the log's key
	known   []string             // keys that the log has had
	voices  map[string]bool      // witnesses that have a checkpoint that can be used
}

func (v *verifier) prepare(dir string, against Against) error {
	var err error
	key := strings.TrimSpace(against.Key)
	if key != "" {
		v.key, err = note.NewVerifier(key)
		if err != nil {
			return errors.New("read the public key: the text is not a public key; a key looks like the content of " + publicName)
		}
	} else if v.key, key, err = loadPublic(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read audit log: %w; without its public key no checkpoint can be checked", err)
		}
		return err
	}
	if against.Checkpoint != nil {
		c, err := parseCheckpoint(against.Checkpoint, v.key)
		if err != nil {
			return fmt.Errorf("read the checkpoint that was given: %w", err)
		}
		v.kept = &c
	}
	v.witnesses(key, against)
	return nil
}

// checkpointFile reads the newest checkpoint; text is nil if the log has no checkpoint.
func (v *verifier) checkpointFile(text []byte) error {
	if text == nil {
		return nil
	}
	c, err := parseCheckpoint(text, v.key)
	if err != nil {
		return &Fault{File: checkpointName, Why: "the checkpoint was changed: " + err.Error()}
	}
	v.mark = &c
	return nil
}

func (v *verifier) open(ctx context.Context, part part) error {
	f, err := part.open()
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if part.size >= 0 {
		r = io.NewSectionReader(f, 0, part.size)
	}
	return v.file(ctx, part.name, r)
}

// file checks one file.
func (v *verifier) file(ctx context.Context, name string, r io.Reader) error {
	v.report.Files++
	br := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		text, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return v.ends(name)
		case errors.Is(err, io.EOF) && name == currentName:
			v.note("%s ends within a record, after %d bytes of it: a crash, which the next start records, or a cut", name, len(text))
			return nil
		case errors.Is(err, io.EOF):
			return &Fault{name, n, 0, fmt.Sprintf("the file was cut: it ends within a record, after %d bytes of it", len(text))}
		case errors.Is(err, bufio.ErrBufferFull):
			return &Fault{name, n, 0, fmt.Sprintf("the record was changed: the line is longer than the %d bytes that a record may have", maxLine)}
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		text = text[:len(text)-1]
		l, err := parseLine(text)
		if err != nil {
			return &Fault{name, n, v.last.seq + 1, "the record was changed: " + err.Error()}
		}
		sum := sha256.Sum256(text)
		if err := v.follows(name, n, l, sum, br); err != nil {
			return err
		}
		if err := v.record(name, n, l, sum); err != nil {
			return err
		}
		v.last, v.lastHash, v.lastFile, v.lastLine = l, sum, name, n
	}
}

// ends checks that a full file ends with a checkpoint.
func (v *verifier) ends(name string) error {
	if name != currentName && v.lastFile == name && v.last.kind != KindCheckpoint {
		return &Fault{name, v.lastLine, v.last.seq, "the checkpoint after it, with which every full file ends, was removed"}
	}
	return nil
}

// follows checks that a record is the next one after v.last.
func (v *verifier) follows(name string, n int, l line, sum hash, br *bufio.Reader) error {
	if v.last.seq == 0 {
		v.report.First, v.firstPrev, v.firstFile = l.seq, l.prev, name
		if l.seq == 1 && l.prev != (hash{}) {
			return &Fault{name, n, l.seq, "the record was changed: the first one has no record before it"}
		}
		return nil
	}
	want := v.last.seq + 1
	switch {
	case l.seq == want && l.prev == v.lastHash:
		return nil
	case l.seq == want:
		// Either the record before was changed, or its hash in this record. If the next
		// record matches this record, this record is unchanged.
		if next, ok := peek(br); !ok || next.prev == sum {
			return &Fault{v.lastFile, v.lastLine, v.last.seq, "the record was changed: the one after it states another hash of it"}
		}
		return &Fault{name, n, l.seq, "the record was changed: neither the record before it nor the one after it matches it"}
	case l.seq < want:
		return &Fault{name, n, l.seq, fmt.Sprintf("the record was moved or doubled: it follows record %d", v.last.seq)}
	}
	next, ok := peek(br)
	switch {
	case ok && next.seq == want:
		return &Fault{name, n, l.seq, fmt.Sprintf("the record was moved: it comes before record %d", want)}
	case ok && next.seq == want+1:
		return &Fault{name, n, want, fmt.Sprintf("the record was changed: it has the number %d", l.seq)}
	case l.seq == want+1:
		return &Fault{name, n, want, fmt.Sprintf("the record was removed: record %d follows record %d", l.seq, v.last.seq)}
	}
	return &Fault{name, n, want, fmt.Sprintf("records %d to %d were removed: record %d follows record %d", want, l.seq-1, l.seq, v.last.seq)}
}

// peek reads the beginning of the next record.
func peek(br *bufio.Reader) (line, bool) {
	text, _ := br.Peek(512) // the rest of the file may be shorter
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	l, err := parseLine(append(bytes.Clone(text), '}'))
	return l, err == nil
}

// record checks the content of a record.
func (v *verifier) record(name string, n int, l line, sum hash) error {
	v.report.Records++
	v.report.Last = l.seq
	for _, c := range []*Checkpoint{v.mark, v.kept} {
		if c != nil && c.Seq == l.seq {
			if c.Hash != sum {
				return &Fault{name, n, l.seq, "the record, or one before it, was changed: a checkpoint in another file signs another hash of it"}
			}
			v.report.Signed = max(v.report.Signed, l.seq)
		}
	}
	if err := v.sight(name, n, l, sum); err != nil {
		return err
	}
	switch l.kind {
	case KindCheckpoint:
		return v.checkpoint(name, n, l)
	case KindRemoved:
		return v.removed(name, n, l)
	case KindMissing:
		var m missingLine
		_ = json.Unmarshal(l.text, &m) // the fault can do without the reason
		return &Fault{name, n, l.seq, "the log itself states that records before it were missing: " + clip(m.Reason, maxName)}
	case KindDropped:
		var d droppedLine
		_ = json.Unmarshal(l.text, &d)
		v.note("%s:%d: record %d: %d records could not be written since %s: %s", name, n, l.seq, d.Count, clip(d.Since, 40), clip(d.Reason, maxName))
	case KindTorn:
		var t tornLine
		_ = json.Unmarshal(l.text, &t)
		v.note("%s:%d: record %d: a crash had cut a record; its %d bytes are in %s", name, n, l.seq, t.Bytes, clip(t.File, 40))
	case KindDecision, KindOutcome, KindCast, KindApproval, KindLogin, KindEgress, KindPolicy, KindSession, KindServer, KindUpstream, KindWitness, KindFile:
	}
	if since := max(v.signed, v.report.First-1); l.seq-since > signEvery+signSlack {
		return &Fault{name, n, l.seq, fmt.Sprintf("checkpoints were removed: none is among the %d records before it", l.seq-since)}
	}
	return nil
}

// signSlack is how many records of the log about itself may be between the record after
// which a checkpoint is due and the checkpoint.
const signSlack = 16

// checkpoint checks a checkpoint among the records.
func (v *verifier) checkpoint(name string, n int, l line) error {
	var body checkpointLine
	if err := json.Unmarshal(l.text, &body); err != nil {
		return &Fault{name, n, l.seq, "the checkpoint was changed: it cannot be read"}
	}
	c, err := parseCheckpoint([]byte(body.Note), v.key)
	switch {
	case err != nil:
		return &Fault{name, n, l.seq, "the checkpoint was changed or forged: " + err.Error()}
	case c.Seq != l.seq-1 || c.Hash != l.prev:
		return &Fault{name, n, l.seq, fmt.Sprintf("the records before it were changed: the checkpoint signs another record %d", c.Seq)}
	}
	v.report.Checkpoints++
	v.report.Signed = max(v.report.Signed, c.Seq)
	v.signed = l.seq
	v.signs = c.Seq
	return nil
}

// removed reads a record that states the removal of files.
func (v *verifier) removed(name string, n int, l line) error {
	var body removedLine
	if err := json.Unmarshal(l.text, &body); err != nil {
		return &Fault{name, n, l.seq, "the statement about removed files was changed: it cannot be read"}
	}
	if body.LastSeq == v.report.First-1 && body.LastHash == hex.EncodeToString(v.firstPrev[:]) {
		v.stated = true
	}
	return nil
}

// finish checks what only the whole log shows.
func (v *verifier) finish() error {
	r := &v.report
	r.Head = hex.EncodeToString(v.lastHash[:])
	if err := v.unseen(); err != nil {
		return err
	}
	if r.Records == 0 {
		if v.mark != nil {
			return &Fault{File: checkpointName, Why: fmt.Sprintf("all records were removed: the checkpoint signs %d", v.mark.Seq)}
		}
		return nil
	}
	if r.First > 1 {
		if !v.stated {
			return &Fault{v.firstFile, 1, r.First, fmt.Sprintf("records 1 to %d are gone, and no record states their removal", r.First-1)}
		}
		r.Removed = r.First - 1
	}
	for _, c := range []*Checkpoint{v.mark, v.kept} {
		if c != nil && c.Seq > r.Last {
			return &Fault{v.lastFile, v.lastLine, r.Last, fmt.Sprintf("the records after it were removed: it is the last one, and a checkpoint signs %d", c.Seq)}
		}
	}
	if v.kept != nil && v.kept.Seq < r.First {
		v.note("the checkpoint that was given signs record %d, which was removed as old: nothing can be compared with it", v.kept.Seq)
	}
	switch {
	case v.mark == nil:
		return &Fault{File: checkpointName, Why: "the file was removed: every log has one"}
	case v.signs > v.mark.Seq: // a checkpoint's file is written before its record
		return &Fault{File: checkpointName, Why: fmt.Sprintf("the file was replaced by an older one: it signs %d records, and the log has a checkpoint of %d", v.mark.Seq, v.signs)}
	}
	if left := r.Last - r.Signed; left > 1 || left == 1 && v.last.kind != KindCheckpoint {
		v.note("the last %d records are not signed yet: a change of the very last one, or their removal from the end, would not be noticed", left)
	}
	return nil
}

// part is one file of a log.
type part struct {
	dir, name string
	file      *os.File // nil if the file is opened when its turn comes
	size      int64    // bytes of file that count; -1 if file is nil
}

func (p part) open() (*os.File, error) {
	if p.file != nil {
		return p.file, nil
	}
	f, err := os.Open(filepath.Join(p.dir, p.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: the file was removed meanwhile, probably because of its age; try again", p.name)
	}
	return f, err
}

// shot is a log at one time.
type shot struct {
	files      []part
	checkpoint []byte // nil if the log has no checkpoint
}

func (s *shot) close() {
	for _, f := range s.files {
		if f.file != nil {
			f.file.Close()
		}
	}
}

// snapshot returns a log as it is between two writes.
func snapshot(dir string) (*shot, error) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a copy of a log, which no process writes to
	case err != nil:
		return nil, err
	default:
		defer lock.Close()
		if err := lockFile(lock, lockShared); err != nil {
			return nil, err
		}
		defer unlockFile(lock)
	}
	names, err := list(dir, isFull)
	if err != nil {
		return nil, err
	}
	s := &shot{}
	for _, name := range names {
		s.files = append(s.files, part{dir, name, nil, -1})
	}
	f, err := os.Open(filepath.Join(dir, currentName))
	switch {
	case err == nil:
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		s.files = append(s.files, part{dir, currentName, f, info.Size()})
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	s.checkpoint, err = readSmall(filepath.Join(dir, checkpointName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.close()
		return nil, &Fault{File: checkpointName, Why: "the checkpoint was changed: " + err.Error()}
	}
	return s, nil
}
