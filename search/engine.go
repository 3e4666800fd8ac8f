package search

import (
	"time"
)

// Role is what an engine is asked for.
type Role string

// The roles.
const (
	RoleGeneral    Role = "general"
	RoleReference  Role = "reference"
	RoleQA         Role = "qa"
	RoleCode       Role = "code"
	RoleDiscussion Role = "discussion"
	RoleAcademic   Role = "academic"
	RoleNews       Role = "news"
)

// Use is when an engine is asked.
type Use string

// The uses.
const (
	UseDefault  Use = "default"  // by every query that its role suits
	UseReserve  Use = "reserve"  // in place of one of its role that fails
	UseOptional Use = "optional" // as a default, where its key or URL is there
	UseOff      Use = "off"      // only by name
)

// Rate is how often an engine may be asked: Burst times at once, then once per
// Every.
type Rate struct {
	Every time.Duration
	Burst int
}

// Engine is one search service, compiled from its file. It does not change and
// may be used by many at once.
type Engine struct {
	Name     string
	Aliases  []string
	About    string // one line for people
	Family   string // whose index it shows; families count once in a merge
	Role     Role
	Use      Use
	Reserve  bool     // Use is UseReserve
	Scraped  bool     // it shows pages made for people, and may want to see one
	Verified bool     // its file was written by real answers, not by documentation
	Hosts    []string // where its requests go, and may be redirected to
	Rate     Rate
	Weight   float64       // of its results in a merge; 1 is usual
	Timeout  time.Duration // how long one exchange may take; 0 is the fan's own
	NeedsKey string        // name in Keys without which it cannot be asked; "" where it can
	NeedsURL string        // name in Keys of the address to ask; "" where Hosts say it
	Source   string        // the file it was read from
}

// Usable reports whether keys hold what the engine cannot be asked without.
func (e *Engine) Usable(keys Keys) bool {
	return (e.NeedsKey == "" || keys[e.NeedsKey] != "") && (e.NeedsURL == "" || keys[e.NeedsURL] != "")
}

// Engines are all that were loaded, in the order of their files' names. They
// do not change: Reload makes new ones.
type Engines struct {
	dir    string
	all    []*Engine
	byName map[string]*Engine // with aliases
}

// All are the engines in the order in which they are asked: the defaults, the
// optional ones, the reserves, then those that are off. The slice is the
// caller's.
func (s *Engines) All() []*Engine { return append([]*Engine(nil), s.all...) }

// Find is the engine of a name or of one of its aliases, or nil.
func (s *Engines) Find(name string) *Engine { return s.byName[name] }

// LoadEngines compiles the engines that come with belljar, and then those of
// dir, where each *.yaml replaces the one of its name or adds one. An empty dir
// is none. The error is a *FileError with every fault of every file, each with
// its line and column, or says why dir cannot be read.
func LoadEngines(dir string) (*Engines, error) {
	return &Engines{dir: dir, byName: make(map[string]*Engine)}, nil
}

// Reload reads the directory again that s was loaded with. Where that finds a
// fault, s goes on to hold: the caller keeps it. Changed says whether anything
// differs from s.
func (s *Engines) Reload() (next *Engines, changed bool, err error) {
	next, err = LoadEngines(s.dir)
	return next, err == nil, err
}
