package engine

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
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

	order int // among those of its use
	asking
	reading
}

// asking is how an engine is asked.
type asking struct {
	key   string // name in Keys of what it uses where it is there
	query queryRules
	steps []*sending
}

// reading is how an engine's answers are read.
type reading struct {
	base      *url.URL // what addresses of answers are relative to, unless it is known where they were read
	kin       []string // hosts of the company that runs it; links to them are not results
	answers   []*answer
	common    []*answer // proofs that hold for all engines
	unwraps   []unwrap
	drops     []*regexp.Regexp
	statuses  map[int]Outcome
	locations []causes
}

// Secrets are the names in Keys of all that the engine uses, needed or not.
func (e *Engine) Secrets() []string {
	return slices.DeleteFunc([]string{e.key, e.NeedsURL}, func(name string) bool { return name == "" })
}

// Usable reports whether keys hold what the engine cannot be asked without.
func (e *Engine) Usable(keys Keys) bool {
	return (e.NeedsKey == "" || keys[e.NeedsKey] != "") && (e.NeedsURL == "" || keys[e.NeedsURL] != "")
}

// Allows reports whether a request or a redirect of the engine may go to a
// host. An entry of Hosts that starts with "*." stands for all names below it;
// that of the address which the operator gives in keys belongs to them.
func (e *Engine) Allows(host string, keys Keys) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, h := range e.Hosts {
		if below, open := strings.CutPrefix(h, "*"); h == host || open && strings.HasSuffix(host, below) {
			return true
		}
	}
	if e.NeedsURL == "" {
		return false
	}
	u, err := url.Parse(keys[e.NeedsURL])
	return err == nil && u.Hostname() != "" && strings.EqualFold(u.Hostname(), host)
}

// speaks reports whether the engine answers in a format.
func (e *Engine) speaks(f format) bool {
	return slices.ContainsFunc(e.answers, func(a *answer) bool { return a.format == f })
}

// format names the format in which the engine answers, for people.
func (e *Engine) format() string {
	if len(e.answers) == 0 {
		return "an answer"
	}
	return strings.ToUpper(formatNames[e.answers[0].format])
}
