package engine

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Role is the kind of question that an engine is asked.
type Role string

// The values of Role.
const (
	RoleGeneral    Role = "general"
	RoleReference  Role = "reference"
	RoleQA         Role = "qa"
	RoleCode       Role = "code"
	RoleDiscussion Role = "discussion"
	RoleAcademic   Role = "academic"
	RoleNews       Role = "news"
)

// Use states when an engine is asked.
type Use string

// The values of Use.
const (
	UseDefault  Use = "default"  // for every query that suits its role
	UseReserve  Use = "reserve"  // in place of an engine that fails, of the same role if possible
	UseOptional Use = "optional" // like default, if its key or URL is given
	UseOff      Use = "off"      // only if the query names it
)

// Rate is how often an engine may be asked: Burst times without a pause, then once per
// Every.
type Rate struct {
	Every time.Duration
	Burst int
}

// Engine is one search service, compiled from its file. It does not change and is safe for
// concurrent use.
type Engine struct {
	Name     string
	Aliases  []string
	About    string // description for people, on one line
	Family   string // index that it shows; a family counts once in a merge
	Role     Role
	Use      Use
	Reserve  bool     // Use is UseReserve
	Scraped  bool     // its pages are made for people, and it may ask for a captcha
	Verified bool     // its file was written from real answers, not from documentation
	Hosts    []string // hosts to which its requests go and may be redirected
	Rate     Rate
	Weight   float64       // weight of its results in a merge; usually 1
	Timeout  time.Duration // longest time of one exchange; 0 uses the fan's
	NeedsKey string        // name in Keys of the key that it needs; "" if it needs none
	NeedsURL string        // name in Keys of its address; "" if Hosts give the address
	Source   string        // path of the file from which it was read

	order int // position among the engines of the same use
	asking
	reading
}

// asking contains the rules for asking an engine.
type asking struct {
	key   string // name in Keys of the key that it uses if there is one
	query queryRules
	steps []*sending
}

// reading contains the rules for reading an engine's answers.
type reading struct {
	base      *url.URL // base of relative addresses, if the address of the answer is not known
	kin       []string // hosts of the company that runs it; links to them are not results
	answers   []*answer
	common    []*answer // proofs that are the same for all engines
	unwraps   []unwrap
	drops     []*regexp.Regexp
	statuses  map[int]Outcome
	locations []causes
}

// Secrets returns the names in Keys of all secrets that the engine uses, also optional
// ones.
func (e *Engine) Secrets() []string {
	return slices.DeleteFunc([]string{e.key, e.NeedsURL}, func(name string) bool { return name == "" })
}

// Usable reports whether keys contain all that the engine needs.
func (e *Engine) Usable(keys Keys) bool {
	return (e.NeedsKey == "" || keys[e.NeedsKey] != "") && (e.NeedsURL == "" || keys[e.NeedsURL] != "")
}

// Allows reports whether a request or a redirect of the engine may go to a host. An entry
// of Hosts that starts with "*." stands for all names below it. The host of the address
// that the operator gives in keys is allowed too.
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

// speaks reports whether the engine can answer in a format.
func (e *Engine) speaks(f format) bool {
	return slices.ContainsFunc(e.answers, func(a *answer) bool { return a.format == f })
}

// format returns the name of the format in which the engine answers.
func (e *Engine) format() string {
	if len(e.answers) == 0 {
		return "an answer"
	}
	return strings.ToUpper(formatNames[e.answers[0].format])
}
