package policies

import (
	"slices"
	"strings"
	"time"
)

// browsing is what a profile says about browsers.
type browsing struct {
	walls  Browser // the sandbox of Chrome
	acting Acting  // what an agent may do with a browser
}

// Acting says what agents may do with a browser. It is the same for all calls of a profile;
// in addition, rules decide about each act. With the zero value no browser acts.
type Acting struct {
	Act  bool
	Eval Eval
	Open Open
	// Sites says where a tab may go while it has a document in which a secret was typed.
	Sites   Sites
	Limits  ActLimits
	Secrets []FieldSecret // secrets that may be typed, and the fields for them
}

// Eval says which expressions may be evaluated in pages.
type Eval int

// The values, the strictest first.
const (
	EvalOff  Eval = iota
	EvalRead      // expressions that change nothing
)

// evals are the words of policies, in the order of the values.
var evals = []string{"off", "read"}

// String is the value as policies spell it.
func (e Eval) String() string { return wordOf(evals, int(e)) }

// Open says which addresses an agent may open by name.
type Open int

// The values, the strictest first.
const (
	// OpenSeen allows URLs that a page has shown, without a change, and URLs without query
	// and fragment. So an agent cannot put what it has read into a query or a fragment. A
	// path or the name of a host can still contain it.
	OpenSeen Open = iota
	OpenAny       // every address that the rules allow
)

var opens = []string{"seen", "any"}

// String is the value as policies spell it.
func (o Open) String() string { return wordOf(opens, int(o)) }

// Sites says where a tab may go after a secret was typed in it.
type Sites int

// The values, the strictest first.
const (
	SitesOne Sites = iota // documents of the same site
	SitesAny              // every address that the rules allow
)

var sites = []string{"one", "any"}

// String is the value as policies spell it.
func (s Sites) String() string { return wordOf(sites, int(s)) }

// wordOf returns the word of a value, or of the strictest one if the value has none.
func wordOf(words []string, i int) string {
	if i < 0 || i >= len(words) {
		i = 0
	}
	return words[i]
}

// ActLimits bound the browser of one session.
type ActLimits struct {
	Uploads   int64         // bytes of one file that a page gets
	Downloads int64         // bytes of all files that wait to be saved
	Idle      time.Duration // the browser ends after this time without a call
}

// The limits of a profile that does not state them.
const (
	DefaultUploads   = 10 << 20 // bytes of one file
	DefaultDownloads = 50 << 20 // bytes of all files that wait to be saved
	DefaultActIdle   = 10 * time.Minute
)

// FieldSecret is a secret that may be typed into fields of one origin. The agent knows its
// name and never its value.
type FieldSecret struct {
	Secret   string // name of the secret under secrets of the policy
	Origin   string // scheme, host and port; the host has the spelling of ParseURL
	Field    string // text, password, otp or card: what the field must be
	Embedded bool   // the field may also be in a frame whose ancestors are of other origins
}

// Insecure reports whether the origin has no TLS.
func (s FieldSecret) Insecure() bool { return !strings.HasPrefix(s.Origin, "https:") }

// secretFields are the fields that may get a secret.
var secretFields = []string{"password", "otp", "card", "text"}

// Acting returns what the profile of the call lets it do with a browser.
func (g profileGrant) Acting() Acting {
	a := g.browser.acting
	a.Secrets = slices.Clone(a.Secrets)
	return a
}

// Opens reports whether an agent may open a URL by name. seen says that a page has shown it,
// character by character.
func (a Acting) Opens(url string, seen bool) bool {
	return a.Act && (a.Open == OpenAny || seen || !strings.ContainsAny(url, "?#"))
}
