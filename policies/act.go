package policies

import (
	"fmt"
	"slices"
	"strings"
)

// ActKind is what an act of a browser does.
type ActKind string

// The kinds of act.
const (
	ActNavigate ActKind = "navigate" // a tab goes to an address that the agent names, or back and forward
	ActFollow   ActKind = "follow"   // a link is followed, or a page goes to another address by itself
	ActSubmit   ActKind = "submit"   // a form is sent
	ActDownload ActKind = "download" // a link leads to a file
	ActPress    ActKind = "press"    // anything else is clicked or dragged, or a key is pressed: what it does is not known
	ActType     ActKind = "type"     // a field is filled in
	ActSecret   ActKind = "secret"   // a field is filled in with a secret that the agent does not see
	ActPoint    ActKind = "point"    // the pointer moves, a tab is scrolled, switched to or closed
	ActUpload   ActKind = "upload"   // a page gets a file
	ActSave     ActKind = "save"     // a file of the browser is written to a place that commands see
	ActConfirm  ActKind = "confirm"  // a dialog of a page is accepted
	ActEval     ActKind = "eval"     // an expression is evaluated in a page
)

// actNeeds lists the kinds, and the facts that an act of each kind must have. Without these
// facts no rule can judge the act.
var actNeeds = []struct {
	kind  ActKind
	needs []actFact
}{
	{ActNavigate, []actFact{actTo}},
	{ActFollow, []actFact{actTo}},
	{ActSubmit, []actFact{actOn, actTo, actMethod}},
	{ActDownload, []actFact{actTo}},
	{ActPress, []actFact{actOn}},
	{ActType, []actFact{actOn, actField}},
	{ActSecret, []actFact{actOn, actField, actSecret}},
	{ActPoint, nil},
	{ActUpload, []actFact{actOn, actPath}},
	{ActSave, []actFact{actPath}},
	{ActConfirm, []actFact{actOn}},
	{ActEval, []actFact{actOn}},
}

// actFact is a fact of an act in addition to its kind: its name, and a function that
// returns its value.
type actFact struct {
	name string
	at   func(*Act) string
}

var (
	actOn     = actFact{"document", func(a *Act) string { return a.On }}
	actTo     = actFact{"target", func(a *Act) string { return a.To }}
	actMethod = actFact{"method", func(a *Act) string { return a.Method }}
	actField  = actFact{"field", func(a *Act) string { return a.Field }}
	actSecret = actFact{"secret", func(a *Act) string { return a.Secret }}
	actPath   = actFact{"path", func(a *Act) string { return a.Path }}
)

// ActKinds are the kinds of act, in the order of the constants.
func ActKinds() []ActKind {
	all := make([]ActKind, len(actNeeds))
	for i, a := range actNeeds {
		all[i] = a.kind
	}
	return all
}

// actWords are the kinds as policies spell them.
func actWords() []string {
	all := make([]string, len(actNeeds))
	for i, a := range actNeeds {
		all[i] = string(a.kind)
	}
	return all
}

// Act is one thing that a call does with a browser. Acts are comparable. No rule can judge
// the zero Act, so it is denied.
type Act struct {
	Kind   ActKind `json:"kind"`
	On     string  `json:"on,omitempty"`     // URL of the document in which it happens
	To     string  `json:"to,omitempty"`     // URL that it leads to, or that a file came from
	Method string  `json:"method,omitempty"` // method of the request that a link or form makes, for example POST
	Field  string  `json:"field,omitempty"`  // type of the field that is filled in: text, password, otp, card or file
	Secret string  `json:"secret,omitempty"` // name of the secret
	Path   string  `json:"path,omitempty"`   // file that is read or written, absolute as the box sees it
}

// The names of the tools that see and use a browser. The acts of a call are those of
// ActTool alone.
const (
	ActTool  = "Browser"
	LookTool = "BrowserLook"
)

// actTools are the tools whose calls need a profile that lets browsers act.
var actTools = []string{ActTool, LookTool}

// String returns the act in words, for people and agents. It may cut long texts, but keeps
// the origins; of a long host it keeps the end, which says whose host it is.
func (a Act) String() string {
	var b strings.Builder
	kind := string(a.Kind)
	if !slices.Contains(actWords(), kind) {
		kind = "unknown act " + Clip(fmt.Sprintf("%q", kind), 40)
	}
	b.WriteString(kind)
	if a.Secret != "" {
		b.WriteString(" " + Clip(a.Secret, 64))
	}
	if a.Field != "" {
		b.WriteString(" into a field of type " + Clip(a.Field, 20))
	}
	if a.On != "" {
		b.WriteString(" on " + originOf(a.On))
	}
	if a.Path != "" {
		b.WriteString(", file " + Clip(a.Path, 100))
	}
	switch {
	case a.To != "" && a.Kind == ActSave:
		b.WriteString(", from " + shownURL(a.To))
	case a.To != "" && a.Method != "":
		b.WriteString(", " + Clip(a.Method, 20) + " to " + shownURL(a.To))
	case a.To != "":
		b.WriteString(", to " + shownURL(a.To))
	}
	return b.String()
}

// originOf returns the scheme, host and port of a URL as ParseURL reads it. Of a text that
// is not such a URL it returns the beginning.
func originOf(s string) string {
	u, err := ParseURL(s)
	if err != nil {
		return Clip(fmt.Sprintf("%q", s), 60)
	}
	return Clip(u.Scheme, 20) + "://" + hostEnd(u.Host)
}

// shownURL returns the beginning of a URL, in which a long host is cut at its beginning.
func shownURL(s string) string {
	if u, err := ParseURL(s); err == nil && len(u.Host) > maxShownHost {
		_, rest, _ := strings.Cut(s, "://")
		rest = rest[min(len(rest), strings.IndexAny(rest+"/", "/?#")):]
		s = u.Scheme + "://" + hostEnd(u.Host) + rest
	}
	return Clip(s, 100)
}

// maxShownHost bounds the characters of a host and its port in the text of an act. So the
// text shows the origins of the document and of the target, whatever the act is.
const maxShownHost = 60

// hostEnd returns the end of a host and its port, which ParseURL has read.
func hostEnd(host string) string {
	if len(host) > maxShownHost {
		return "..." + host[len(host)-maxShownHost:]
	}
	return host
}

// lacks returns the name of a fact that an act of this kind must have and that this act
// does not have, or "".
func (a Act) lacks() string {
	i := slices.IndexFunc(actNeeds, func(n struct {
		kind  ActKind
		needs []actFact
	},
	) bool {
		return n.kind == a.Kind
	})
	if i < 0 {
		return "kind"
	}
	for _, f := range actNeeds[i].needs {
		if f.at(&a) == "" {
			return f.name
		}
	}
	return ""
}
