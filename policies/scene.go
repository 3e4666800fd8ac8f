package policies

import (
	"slices"

	"belljar.dev/policies/shell"
)

// Scene is the state that the command of a call would find if it began now. A person has to
// see this state in addition to the words of the command, and the person's answer is valid
// only for this state.
type Scene struct {
	Dir   string      // directory in which the command begins, as the box sees it
	Files []SceneFile // files that the words of the command name, or to which a bare name leads; in order
	// Doubts say why the files may not be all of them: for example, a name leads over a
	// link. An answer is valid only for the same doubts, since a file that did not exist
	// may be a link when the command starts.
	Doubts []string
	// Tasks is the number of the session's jobs that run and may change files. It changes
	// often, so an answer does not depend on it.
	Tasks int
	// Control is what an act of a browser uses, in the words of the page, for example
	// button "Delete" in "#1001 Customer 1". An answer is valid only for the same Control.
	Control string
}

// SceneFile is a file of a Scene.
type SceneFile struct {
	Path   string `json:"path"`         // path as the box sees it
	As     string `json:"as,omitempty"` // bare name that leads to the file along PATH; empty if a word names the file
	Size   int64  `json:"size"`
	Digest string `json:"sha256"` // SHA-256, in hexadecimal digits
}

// Names returns what the words of the call's command may name.
func (f *Facts) Names() shell.Names {
	script, _ := shell.Analyze(f.Command) // a part that cannot be read has a doubt of its own
	return script.Names()
}

// Same reports whether both scenes show the same directory, files, doubts and control.
func (s *Scene) Same(other *Scene) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Dir == other.Dir && s.Control == other.Control && slices.Equal(s.Files, other.Files) && slices.Equal(s.Doubts, other.Doubts)
}
