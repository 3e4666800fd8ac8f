package skills

import (
	"errors"
	"io/fs"
)

// Bounds of skills.
const (
	MaxText      = 256 << 10 // most bytes of a SKILL.md
	MaxFile      = 1 << 20   // most bytes of another file of a skill
	MaxMatches   = 128       // most skills that a search lists
	MaxArguments = 64 << 10  // most bytes of the arguments of a skill

	maxHead        = 16 << 10 // most bytes of the frontmatter, and of a required_skills.txt
	maxDescription = 1024     // most characters of a description; the rest is cut
	maxSkills      = 256      // most skills of one source
	maxEntries     = 4096     // most entries of a directory that are read
	maxResources   = 100      // most files of a skill that are listed
	maxDepth       = 4        // most levels of directories below a skill
	maxRequired    = 64       // most names in a required_skills.txt
)

// The errors about a skill.
var (
	ErrUnknown = errors.New("no such skill")
	ErrOutside = errors.New("it is a symbolic link that leads out of its folder, which is not followed")
	ErrTooBig  = errors.New("it is too big")
	errKind    = errors.New("it is not a regular file")
)

// Source is a folder of skills, or a set of skills in the program. With the zero value of
// Trusted, the source is not trusted.
type Source struct {
	Name string // name of the source, for example "user": letters, digits and "-"
	Dir  string // path on the host, which need not exist
	// Beneath, if set, is the directory in which Dir lies; Dir is then a relative path. A
	// link that leads out of Beneath is not followed.
	Beneath string
	Box     string // path of Dir in boxes; empty if boxes do not see it
	FS      fs.FS  // file system that is used instead of Dir
	// Required is the path of a file with the names of skills that an agent must load;
	// empty for no file. The path is resolved like Dir.
	Required string
	// Trusted reports whether the texts of the source are the operator's word, because no
	// agent can write to it.
	Trusted bool
}

// Config is the configuration of a Catalog.
type Config struct {
	Sources []Source               // sources of skills; of two skills with one name, the first counts
	Off     func(name string) bool // reports whether a skill is left out; nil leaves out none
	// Listed are patterns (path.Match) for the names that Text lists. If there are no
	// patterns, Text lists all names. Skills that are not listed can still be found and
	// invoked.
	Listed []string
}

// Skill is a skill that was found.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"`
	Path        string `json:"path"` // path of its SKILL.md in boxes; empty if boxes do not see it
	Trusted     bool   `json:"trusted"`
	// other sources with a skill of this name, which is invoked as SOURCE:NAME
	Hides []string `json:"hides,omitempty"`

	dir string // name of the skill's folder in its source
	at  int    // index of its source
}

// Fault describes a folder whose skill cannot be used.
type Fault struct {
	Source string `json:"source"`
	Folder string `json:"folder"`
	Why    string `json:"why"`
}

// Resource is a file of a skill other than its SKILL.md.
type Resource struct {
	Path string `json:"path"` // path in the skill's folder
	Box  string `json:"box,omitempty"`
	Size int64  `json:"size"`
}

// Body contains a skill with its instructions.
type Body struct {
	Skill
	Instructions string
	Resources    []Resource // at most maxResources files
	More         bool       // whether there are more files than listed
}
