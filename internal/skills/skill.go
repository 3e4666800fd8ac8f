package skills

import (
	"errors"
	"io/fs"
)

// Bounds of what is read.
const (
	MaxText      = 256 << 10 // bytes of a SKILL.md
	MaxFile      = 1 << 20   // bytes of another file of a skill
	MaxMatches   = 128       // skills that a search lists
	MaxArguments = 64 << 10  // bytes that are put into a skill

	maxHead        = 16 << 10 // bytes of frontmatter
	maxDescription = 1024     // characters of a description that are kept
	maxSkills      = 256      // of one source
	maxEntries     = 4096     // of a directory that is looked through
	maxResources   = 100      // files of a skill that are listed
	maxDepth       = 4        // of directories below a skill
	maxRequired    = 64       // names, and 16 KiB, of a required_skills.txt
)

// The faults of a skill.
var (
	ErrUnknown = errors.New("no such skill")
	ErrOutside = errors.New("it is a symbolic link that leads out of its folder, which is not followed")
	ErrTooBig  = errors.New("it is too big")
	errKind    = errors.New("it is not a regular file")
)

// Source is a folder of skills, or a set that is part of the program. The zero
// value of Trusted is the strict one: it is not trusted.
type Source struct {
	Name string // as "user": a word, of letters, digits and "-"
	Dir  string // on the host; it need not exist
	// Beneath, where set, is a directory that Dir, relative then, lies in and is
	// not left: no link on the way is followed.
	Beneath string
	Box     string // where boxes see Dir; empty where they do not
	FS      fs.FS  // in place of Dir
	// Required is a file with the names of skills that an agent is to load. Its path
	// is resolved in the same way as Dir; empty for no file.
	Required string
	// Trusted says that no agent can write to the source, and that its texts are the
	// operator's word.
	Trusted bool
}

// Config says how a Catalog is made.
type Config struct {
	Sources []Source               // the first that has a name wins
	Off     func(name string) bool // says which skills are not there; nil for none
	// Listed are patterns (path.Match) of names that Text lists; none lists all.
	// The others are found and invoked all the same.
	Listed []string
}

// Skill is a skill that was found.
type Skill struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Source      string   `json:"source"`
	Path        string   `json:"path"` // of its SKILL.md as boxes see it; empty where they do not
	Trusted     bool     `json:"trusted"`
	Hides       []string `json:"hides,omitempty"` // sources with a skill of the same name, which SOURCE:NAME means

	dir string // in its source
	at  int    // of its source
}

// Fault is a folder that holds no skill that can be used.
type Fault struct {
	Source string `json:"source"`
	Folder string `json:"folder"`
	Why    string `json:"why"`
}

// Resource is a file of a skill besides its SKILL.md.
type Resource struct {
	Path string `json:"path"` // in the skill's folder
	Box  string `json:"box,omitempty"`
	Size int64  `json:"size"`
}

// Body is a skill that was read.
type Body struct {
	Skill
	Instructions string
	Resources    []Resource // at most 100
	More         bool       // there are more files than listed
}
