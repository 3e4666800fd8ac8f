package policies

import (
	"slices"

	"belljar.dev/policies/shell"
)

// Scene is the state that the command of a call would find if it began now. A
// person has to see it besides the words of the command, and their answer holds
// only for this state.
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
	// Control is what an act of a browser uses, in the words of the page, for example
	// button "Delete" in "#1001 Customer 1". An answer holds for it.
	Control string
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

// Same reports whether a command runs the same files in both scenes, as far as
// the scenes show, and whether their doubts are the same.
func (s *Scene) Same(other *Scene) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Dir == other.Dir && s.Control == other.Control && slices.Equal(s.Files, other.Files) && slices.Equal(s.Doubts, other.Doubts)
}
