package toolkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/cache"
)

// maxAnswer is how many bytes an answer that is kept may have.
const maxAnswer = 2 << 20

// beside is what a result depends on beside the files that are read.
type beside struct {
	days      int  // of history; zero for none
	templates bool // the files that are like a template
	timed     bool // how long it took: such a result is made anew
}

// question is what was asked, and the files that it is about.
type question struct {
	*reading
	beside

	key   cache.Key
	whole bool // all files were read
}

// answered ends an analysis that was made before, of the same files: its answer was kept.
type answered struct {
	line  []byte // the event
	whole []byte
}

// Error says so.
func (*answered) Error() string { return "it was answered before" }

// recall reads files as read does. Where the same was asked before of files that have not
// changed since, and of the same past, it parses nothing: the error is then an *answered.
func (r *reading) recall(args Args, s selection, of beside) error {
	all, err := r.texts(s)
	if err != nil {
		return err
	}
	if r.cache != nil && !of.timed && r.strategy != refresh && r.strategy != offline {
		if r.asked, err = r.question(args, all, of); err != nil {
			return err
		}
		if a := r.asked.known(); a != nil {
			return a
		}
	}
	r.parse(all, s)
	return nil
}

// question is what is asked: the arguments, each file that is read, and what is said of the
// others.
func (r *reading) question(args Args, all []source, of beside) (*question, error) {
	type file struct {
		Key []byte    `json:"key"` // of its path, too
		Gap *code.Gap `json:"gap"`
	}
	asked := struct {
		Tool   string     `json:"tool"`
		Args   Args       `json:"args"`
		Within string     `json:"within"`
		Left   []LeftOut  `json:"left"`
		Gaps   []code.Gap `json:"gaps"`
		Files  []file     `json:"files"`
	}{Tool: args.Analysis(), Args: args, Within: r.within, Left: r.left, Gaps: r.gaps}
	for _, f := range all {
		asked.Files = append(asked.Files, file{f.key[:], f.gap})
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	whole := !slices.ContainsFunc(all, func(f source) bool { return !f.read })
	return &question{r, of, r.cache.Sum("answer", string(text)), whole}, nil
}

// known returns the answer that was kept, or nil.
func (q *question) known() *answered {
	if !q.whole {
		return nil
	}
	kept := q.cache.Kept(q.key)
	if len(kept) < sha256.Size+4 {
		return nil
	}
	size := binary.BigEndian.Uint32(kept[sha256.Size:])
	said := kept[sha256.Size+4:]
	own, err := q.rest(true)
	if same := err == nil && own == [sha256.Size]byte(kept); !same || uint64(size) > uint64(len(said)) {
		return nil
	}
	return &answered{said[:size], said[size:]}
}

// keep keeps the answer, unless it is a part of what there is to say. Without a question
// none is kept.
func (q *question) keep(line, whole []byte) {
	if q == nil || !q.whole || q.ctx.Err() != nil || len(line)+len(whole) > maxAnswer {
		return
	}
	if slices.ContainsFunc(q.left, func(l LeftOut) bool { return l.Reason == timeUp }) {
		return
	}
	own, err := q.rest(false)
	if err != nil {
		return
	}
	kept := binary.BigEndian.AppendUint32(own[:], uint32(len(line)))
	q.cache.Keep(q.key, slices.Concat(kept, line, whole))
}

// rest is a sum of what the result depends on beside the files. Of the past that is what
// git says and the day, for a period ends today.
func (q *question) rest(anew bool) (sum [sha256.Size]byte, err error) {
	var all struct {
		Past  any          `json:"past"`
		Day   string       `json:"day"`
		Alike []Provenance `json:"alike"`
	}
	probe := *q.reading // the gaps of what is done here belong to no result
	probe.gaps, probe.lacked, probe.stages = nil, make(map[code.Gap]bool), nil
	if q.days > 0 {
		all.Past, all.Day = probe.churn(q.days), time.Now().UTC().Format(time.DateOnly)
	}
	all.Alike = q.shared.alike
	if q.templates && anew {
		if all.Alike, err = probe.provenance(); err != nil {
			return sum, err
		}
	}
	text, err := json.Marshal(all)
	return sha256.Sum256(text), err
}
