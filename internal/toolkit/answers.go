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

// question is what was asked, of which files.
type question struct {
	key    cache.Key
	beside beside
	known  bool // all files were read
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
		if err := r.pose(args, all, of); err != nil {
			return err
		}
		if a := r.known(); a != nil {
			return a
		}
	}
	r.parse(all, s)
	return nil
}

// pose notes what is asked: the arguments, each file that is read, and what is said of the
// others.
func (r *reading) pose(args Args, all []source, of beside) error {
	type file struct {
		Key []byte
		Gap *code.Gap
	}
	asked := struct {
		Tool   string
		Args   Args
		Within string
		Left   []LeftOut
		Gaps   []code.Gap
		Tree   []code.Entry
		Files  []file
	}{Tool: args.Analysis(), Args: args, Within: r.within, Left: r.left, Gaps: r.gaps}
	for _, e := range r.tree.Entries {
		if r.allowed[e.Path] {
			asked.Tree = append(asked.Tree, e)
		}
	}
	for _, f := range all {
		asked.Files = append(asked.Files, file{f.key[:], f.gap})
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	known := !slices.ContainsFunc(all, func(f source) bool { return !f.read })
	r.asked = question{key: r.cache.Sum("answer", string(text)), beside: of, known: known}
	return nil
}

// known returns the answer to what is asked, or nil.
func (r *reading) known() *answered {
	if !r.asked.known {
		return nil
	}
	kept := r.cache.Kept(r.asked.key)
	if len(kept) < sha256.Size+4 {
		return nil
	}
	own, err := r.rest(true)
	size := binary.BigEndian.Uint32(kept[sha256.Size:])
	if err != nil || [sha256.Size]byte(kept) != own || uint64(size) > uint64(len(kept)-sha256.Size-4) {
		return nil
	}
	kept = kept[sha256.Size+4:]
	return &answered{kept[:size], kept[size:]}
}

// keep keeps the answer to what was asked, unless it is a part of what there is to say.
func (r *reading) keep(line, whole []byte) {
	late := slices.ContainsFunc(r.left, func(l LeftOut) bool { return l.Reason == timeUp })
	if !r.asked.known || late || r.ctx.Err() != nil || len(line)+len(whole) > maxAnswer {
		return
	}
	own, err := r.rest(false)
	if err != nil {
		return
	}
	kept := binary.BigEndian.AppendUint32(own[:], uint32(len(line)))
	r.cache.Keep(r.asked.key, slices.Concat(kept, line, whole))
}

// rest is a sum of what the result depends on beside the files. Of the past that is what
// git says and the day, for a period ends today.
func (r *reading) rest(anew bool) (sum [sha256.Size]byte, err error) {
	var all struct {
		Past  any
		Day   string
		Alike []Provenance
	}
	probe := *r // the gaps of what is done here belong to no result
	probe.gaps, probe.lacked, probe.stages = nil, make(map[code.Gap]bool), nil
	if r.asked.beside.days > 0 {
		all.Past, all.Day = probe.churn(r.asked.beside.days), time.Now().UTC().Format(time.DateOnly)
	}
	all.Alike = r.shared.alike
	if r.asked.beside.templates && anew {
		if all.Alike, err = probe.provenance(); err != nil {
			return sum, err
		}
	}
	text, err := json.Marshal(all)
	return sha256.Sum256(text), err
}
