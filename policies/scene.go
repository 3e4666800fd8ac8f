package policies

import (
	"slices"

	"belljar.dev/policies/shell"
)

// Scene is what the command of a call meets if it begins now: what a person has
// to see beside its words, and what their answer holds for.
type Scene struct {
	Dir   string      // where it begins, in the box's view
	Files []SceneFile // that its words name, or that a bare name leads to; in order
	// Doubts are why that may not be all: a name that leads over a link, for example.
	// An answer holds for them too, since a file that was not there may be a link by
	// the time at which the command starts.
	Doubts []string
	// Tasks are those of the session that run and may change files. They come and go,
	// and an answer does not hold for their number.
	Tasks int
}

// SceneFile is a file of a Scene.
type SceneFile struct {
	Path   string `json:"path"`         // as the box sees it
	As     string `json:"as,omitempty"` // the bare name that leads to it along PATH; empty where a word names it
	Size   int64  `json:"size"`
	Digest string `json:"sha256"` // SHA-256, in hexadecimal digits
}

// Names are what the words of the call's command may name.
func (f *Facts) Names() shell.Names {
	script, _ := shell.Analyze(f.Command) // for what cannot be read there is a doubt of its own
	return script.Names()
}

// Same reports whether a command that begins in the other scene runs what it
// would have run in this one, as far as the scenes say, and whether they say the
// same of what is beyond that.
func (s *Scene) Same(other *Scene) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Dir == other.Dir && slices.Equal(s.Files, other.Files) && slices.Equal(s.Doubts, other.Doubts)
}
