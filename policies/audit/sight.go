package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Signed is a checkpoint of a log, with the public key of that log, in the form in which
// others keep it.
type Signed struct {
	Key        string `json:"key"`
	Checkpoint string `json:"checkpoint"`
}

// Open checks the signature of a checkpoint and returns the checkpoint.
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
	by []string // names of the witnesses, sorted
}

// add notes that a witness has the checkpoint.
func (s *sighting) add(witness string) {
	if at, there := slices.BinarySearch(s.by, witness); !there {
		s.by = slices.Insert(s.by, at, witness)
	}
}

// names returns which witnesses have kept a checkpoint, and the time of the checkpoint.
func (s *sighting) names() string {
	who := "worker " + s.by[0]
	if len(s.by) > 1 {
		who = "workers " + strings.Join(s.by, ", ")
	}
	return fmt.Sprintf("the log of %s has a checkpoint of %s", who, s.Time.UTC().Format(time.RFC3339))
}

// witnesses sorts the checkpoints that witnesses have kept. If one of them has a checkpoint
// by another key, the checkpoints of the others still count: see replaced.
func (v *verifier) witnesses(key string, against Against) {
	v.foreign, v.known, v.voices = make(map[string]*sighting), against.Keys, make(map[string]bool)
	by := make(map[Checkpoint]*sighting)
	useless, why := make(map[string]int), make(map[string]error)
	for _, one := range against.Witnesses {
		c, err := one.Open()
		if err != nil {
			useless[one.By]++
			why[one.By] = err
			continue
		}
		v.voices[one.By] = true
		c.Time = c.Time.UTC() // the time is part of the key of by
		if other := strings.TrimSpace(one.Key); other != key {
			s := v.foreign[other]
			if s == nil {
				s = &sighting{Checkpoint: c}
				v.foreign[other] = s
			}
			if c.Seq > s.Seq {
				s.Checkpoint = c
			}
			s.add(one.By)
			continue
		}
		s := by[c]
		if s == nil {
			s = &sighting{Checkpoint: c}
			by[c] = s
			v.seen = append(v.seen, s)
		}
		s.add(one.By)
	}
	for _, witness := range slices.Sorted(maps.Keys(useless)) {
		v.note("%d of the checkpoints that the log of worker %s has of this log cannot be used: %v", useless[witness], witness, why[witness])
	}
	slices.SortFunc(v.seen, func(a, b *sighting) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.Time.Compare(b.Time)) })
}

// replaced returns an error if this is not the log that witnesses know. It judges that by
// their checkpoints with other keys, since a log keeps its key for life. If such a key is
// known to have been the key of the log, the log was replaced without doubt. Any other key
// may come from a witness that lies, unless all witnesses have it and no key of the log is
// known. A key that is in doubt is a dispute, which the report names.
func (v *verifier) replaced() error {
	var sure *sighting
	for _, key := range slices.Sorted(maps.Keys(v.foreign)) {
		s := v.foreign[key]
		if slices.Contains(v.known, key) || v.known == nil && len(s.by) == len(v.voices) {
			if sure == nil || s.Seq > sure.Seq {
				sure = s
			}
			continue
		}
		if len(v.report.Disputes) < mostNotes {
			v.report.Disputes = append(v.report.Disputes, fmt.Sprintf("%d of %d witnesses: %s, which signs record %d with a key that no other witness knows as the key of this log: the checkpoint was made up, or the log was replaced before the other witnesses had a checkpoint of it", len(s.by), len(v.voices), s.names(), s.Seq))
		}
	}
	if sure == nil {
		return nil
	}
	return &Fault{File: publicName, Why: fmt.Sprintf("the log was replaced: %s, which signs record %d with another key", sure.names(), sure.Seq)}
}

// sight compares a record with the checkpoints that witnesses have kept.
func (v *verifier) sight(name string, n int, l line, sum hash) error {
	for len(v.seen) > 0 && v.seen[0].Seq <= l.seq {
		s := v.seen[0]
		v.seen = v.seen[1:]
		switch {
		case s.Seq < l.seq: // the record was in a file that was removed as old
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

// unseen returns an error if witnesses have checkpoints of more records than the log has.
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

// mostNotes is how many notes and disputes a report has.
const mostNotes = 20

// note adds a note to the report, as long as it has fewer than mostNotes.
func (v *verifier) note(format string, args ...any) {
	if len(v.report.Notes) < mostNotes {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
	}
}
