package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Signed is a checkpoint of a log, with the public key of that log: what others keep of it.
type Signed struct {
	Key        string `json:"key"`
	Checkpoint string `json:"checkpoint"`
}

// Open checks the signature of a checkpoint.
func (s Signed) Open() (Checkpoint, error) {
	if len(s.Key) > maxSmall {
		return Checkpoint{}, errNoKey
	}
	key, err := note.NewVerifier(strings.TrimSpace(s.Key))
	if err != nil {
		return Checkpoint{}, errNoKey
	}
	return parseCheckpoint([]byte(s.Checkpoint), key)
}

// sighting is a checkpoint of this log that witnesses have kept.
type sighting struct {
	Checkpoint
	by []string
}

// names says who has kept a checkpoint, and of when it is.
func (s *sighting) names() string {
	who := "worker " + s.by[0]
	if len(s.by) > 1 {
		who = "workers " + strings.Join(s.by, ", ")
	}
	return fmt.Sprintf("the log of %s has a checkpoint of %s", who, s.Time.UTC().Format(time.RFC3339))
}

// witnesses sorts what witnesses have kept, or returns why this cannot be their log: a key is
// for the life of a log.
func (v *verifier) witnesses(key string, all []Sighting) error {
	by := make(map[Checkpoint]*sighting)
	var foreign *sighting
	for _, one := range all {
		c, err := one.Open()
		if err != nil {
			v.note("what the log of worker %s has of this log cannot be used: %v", one.By, err)
			continue
		}
		c.Time = c.Time.UTC() // it is part of the key of by
		s := by[c]
		if s == nil {
			s = &sighting{Checkpoint: c}
			by[c] = s
		}
		if !slices.Contains(s.by, one.By) {
			s.by = append(s.by, one.By)
		}
		if strings.TrimSpace(one.Key) != key && (foreign == nil || c.Seq > foreign.Seq) {
			foreign = s
		}
	}
	if foreign != nil {
		slices.Sort(foreign.by)
		return &Fault{File: publicName, Why: fmt.Sprintf("the log was replaced: %s, which signs record %d with another key", foreign.names(), foreign.Seq)}
	}
	for _, s := range by {
		slices.Sort(s.by)
		v.seen = append(v.seen, s)
	}
	slices.SortFunc(v.seen, func(a, b *sighting) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.Time.Compare(b.Time)) })
	return nil
}

// sight compares a record with what witnesses have kept.
func (v *verifier) sight(name string, n int, l line, sum hash) error {
	for len(v.seen) > 0 && v.seen[0].Seq <= l.seq {
		s := v.seen[0]
		v.seen = v.seen[1:]
		switch {
		case s.Seq < l.seq: // of a file that was removed as old
			v.old++
		case s.Hash != sum:
			return &Fault{name, n, l.seq, fmt.Sprintf("the record, or one before it, was changed: %s, which signs another hash of it", s.names())}
		default:
			v.report.Witnessed, v.report.Witnesses = l.seq, s.by
			v.report.Signed = max(v.report.Signed, l.seq)
		}
	}
	return nil
}

// unseen returns what is wrong if witnesses have kept more than there is.
func (v *verifier) unseen() error {
	if v.old > 0 {
		v.note("%d checkpoints of witnesses sign records that were removed as old: nothing can be compared with them", v.old)
	}
	if len(v.seen) == 0 {
		return nil
	}
	s := v.seen[len(v.seen)-1]
	if v.report.Records == 0 {
		return &Fault{File: checkpointName, Why: fmt.Sprintf("all records were removed: %s, which signs record %d", s.names(), s.Seq)}
	}
	return &Fault{v.lastFile, v.lastLine, v.report.Last, fmt.Sprintf("the records after it were removed: it is the last one, and %s, which signs record %d", s.names(), s.Seq)}
}

// note keeps what a reader should know.
func (v *verifier) note(format string, args ...any) {
	const most = 20
	if len(v.report.Notes) < most {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
	}
}
