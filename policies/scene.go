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
	// Doubts are why that may not be all. They change nothing of what an answer
	// holds for.
	Doubts []string
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
// would have run in this one, as far as the scenes say.
func (s *Scene) Same(other *Scene) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Dir == other.Dir && slices.Equal(s.Files, other.Files)
}
