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

// The cache contains answers in addition to files, so that nothing is parsed if the same analysis
// is asked for again. An answer depends on
//
//   - the call: the analysis, its arguments, and each file that it reads with its content. A hash
//     of these is the key of the answer, see [reading.keyOf].
//   - what the call does not read as files: the git history and the day, and the files that are
//     like a template. A hash of these is stored with the answer, see [cachedAnswer.context], and
//     an answer with another hash is not used.
//
// An entry of the cache is this hash, the length of the event as four bytes, the event, and the
// whole result.

// maxAnswer is the maximum size of an answer that is kept, in bytes.
const maxAnswer = 2 << 20

// dependencies are what a result depends on, other than the files that are read.
type dependencies struct {
	days      int  // days of git history that it depends on; 0 if it does not
	templates bool // whether it depends on the files that are like a template
	timed     bool // whether it contains the time that it took; such an answer is never kept
}

// cachedAnswer is the place of an answer in the cache, whether or not the cache has the
// answer.
type cachedAnswer struct {
	*reading
	dependencies

	key      cache.Key
	complete bool // whether all files were read, so that the key covers their contents
}

// foundAnswer is an answer that was in the cache. It is an error so that it ends the analysis
// that looked for it.
type foundAnswer struct {
	line  []byte // the event
	whole []byte // the whole result
}

// Error returns what happened to the analysis.
func (*foundAnswer) Error() string { return "the answer was in the cache" }

// readOrRecall reads the files of an analysis as read does. If the cache has the answer, it
// parses nothing and returns a *foundAnswer.
func (r *reading) readOrRecall(args Args, s selection, on dependencies) error {
	files, err := r.texts(s)
	if err != nil {
		return err
	}
	if r.keepsAnswers() && !on.timed {
		key, err := r.keyOf(args, files)
		if err != nil {
			return err
		}
		complete := !slices.ContainsFunc(files, func(f source) bool { return !f.read })
		r.answer = &cachedAnswer{r, on, key, complete}
		if found := r.answer.find(); found != nil {
			return found
		}
	}
	r.parse(files, s)
	return nil
}

// keepsAnswers reports whether the answer of the call may come from the cache and is kept
// there.
func (r *reading) keepsAnswers() bool {
	return r.cache != nil && r.strategy != refresh && r.strategy != offline
}

// keyOf returns the key of an answer: a hash of the call, of each file that it reads, and of what
// the answer says about files that it does not read.
func (r *reading) keyOf(args Args, files []source) (cache.Key, error) {
	type file struct {
		Key []byte    `json:"key"` // hash of its path and content
		Gap *code.Gap `json:"gap"`
	}
	call := struct {
		Tool   string     `json:"tool"`
		Args   Args       `json:"args"`
		Within string     `json:"within"`
		Left   []LeftOut  `json:"left"`
		Gaps   []code.Gap `json:"gaps"`
		Files  []file     `json:"files"`
	}{Tool: args.Analysis(), Args: args, Within: r.within, Left: r.left, Gaps: r.gaps}
	for _, f := range files {
		call.Files = append(call.Files, file{f.key[:], f.gap})
	}
	text, err := json.Marshal(call)
	if err != nil {
		return cache.Key{}, err
	}
	return r.cache.Sum("answer", string(text)), nil
}

// find returns the answer from the cache, or nil if it is missing or does not apply any
// more.
func (a *cachedAnswer) find() *foundAnswer {
	if !a.complete {
		return nil
	}
	const head = sha256.Size + 4
	entry := a.cache.Kept(a.key)
	if len(entry) < head {
		return nil
	}
	size, text := binary.BigEndian.Uint32(entry[sha256.Size:]), entry[head:]
	if uint64(size) > uint64(len(text)) {
		return nil
	}
	// The files that are like a template are not known before the analysis.
	probe := a.probe()
	var alike []Provenance
	if a.templates {
		var err error
		if alike, err = probe.provenance(); err != nil {
			return nil //nolint:nilerr // the analysis reports the error
		}
	}
	now, err := a.context(probe, alike)
	if err != nil || now != [sha256.Size]byte(entry) {
		return nil //nolint:nilerr // the analysis reports the error
	}
	return &foundAnswer{line: text[:size], whole: text[size:]}
}

// keep puts the answer into the cache. It does nothing for a nil receiver, for an answer
// that lacks files or was cut by the end of its time, and for an answer that is too large.
func (a *cachedAnswer) keep(line, whole []byte) {
	if a == nil || !a.complete || a.ctx.Err() != nil || len(line)+len(whole) > maxAnswer {
		return
	}
	if slices.ContainsFunc(a.left, func(l LeftOut) bool { return l.Reason == timeUp }) {
		return
	}
	now, err := a.context(a.probe(), a.shared.alike)
	if err != nil {
		return
	}
	size := binary.BigEndian.AppendUint32(nil, uint32(len(line)))
	a.cache.Keep(a.key, slices.Concat(now[:], size, line, whole))
}

// probe returns a copy of the reading with gaps and stages of its own, so that those of the
// answer do not change.
func (a *cachedAnswer) probe() *reading {
	p := *a.reading
	p.gaps, p.lacked, p.stages = nil, make(map[code.Gap]bool), nil
	return &p
}

// context returns the hash of what the answer depends on, other than the call: the git history,
// whose period ends today, and the files that are like a template.
func (a *cachedAnswer) context(probe *reading, alike []Provenance) (sum [sha256.Size]byte, err error) {
	var all struct {
		Past  any          `json:"past"`
		Day   string       `json:"day"`
		Alike []Provenance `json:"alike"`
	}
	if a.days > 0 {
		all.Past, all.Day = probe.churn(a.days), time.Now().UTC().Format(time.DateOnly)
	}
	all.Alike = alike
	text, err := json.Marshal(all)
	return sha256.Sum256(text), err
}
