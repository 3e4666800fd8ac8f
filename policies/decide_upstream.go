package policies

import (
	"slices"
	"strconv"
	"strings"

	"belljar.dev/policies/shell"
)

// factKind is what kind of fact a text of the arguments is.
type factKind int

// The kinds.
const (
	factNone factKind = iota // not a fact, although it may look like a URL
	factURL
	factHost
	factPath
	factCommand
)

var factKinds = []string{factNone: "none", factURL: "url", factHost: "host", factPath: "path", factCommand: "command"}

// toolFacts says what the arguments of some tools are.
type toolFacts struct {
	tool     string // name of the tools, which may contain stars
	pointers []factPointer
}

// factPointer says what kind of fact the texts at one place of the arguments are, and those
// below it.
type factPointer struct {
	path []string // parts of a JSON pointer (RFC 6901)
	kind factKind
}

// Facts returns what the arguments of a tool show the policy. If a pointer of the policy
// names a member, the member and the texts below it are of the kind that the pointer says;
// the longest pointer counts. Pointers name members in upper or lower case, as a server in
// Go reads them (encoding/json). Of two pointers of the same length, the one that has the
// member's exact spelling counts. Any other text shows its WebURLs. The front end has
// bounded the arguments.
func (u Upstream) Facts(tool string, args map[string]any) Facts {
	w := factWalk{facts: Facts{Upstream: u.Name, Args: args}}
	for _, t := range u.facts {
		if star(t.tool, tool) {
			w.pointers = append(w.pointers, t.pointers...)
		}
	}
	w.value(nil, args)
	w.facts.Command = oneScript(w.commands)
	return w.facts
}

// factWalk goes through the arguments of a call.
type factWalk struct {
	pointers []factPointer
	facts    Facts
	commands []string
}

// value visits the value at a place.
func (w *factWalk) value(at []string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range names(v) {
			w.value(append(slices.Clip(at), k), v[k])
		}
	case []any:
		for i, one := range v {
			w.value(append(slices.Clip(at), strconv.Itoa(i)), one)
		}
	case string:
		w.text(at, v)
	}
}

// text adds a text to the facts.
func (w *factWalk) text(at []string, s string) {
	longest, exact, kind := -1, false, factNone
	for _, p := range w.pointers {
		if len(p.path) < longest || len(p.path) > len(at) || !slices.EqualFunc(p.path, at[:len(p.path)], strings.EqualFold) {
			continue
		}
		same := slices.Equal(p.path, at[:len(p.path)])
		if len(p.path) > longest || same && !exact {
			longest, exact, kind = len(p.path), same, p.kind
		}
	}
	if longest < 0 {
		w.facts.URLs = append(w.facts.URLs, WebURLs(s)...)
		return
	}
	switch kind {
	case factURL:
		w.facts.URLs = append(w.facts.URLs, s)
	case factHost:
		w.facts.Hosts = append(w.facts.Hosts, s)
	case factPath:
		w.facts.Paths = append(w.facts.Paths, s)
	case factCommand:
		if s != "" {
			w.commands = append(w.commands, s)
		}
	case factNone:
	}
}

// oneScript returns commands as one script: the strictest of its parts decides. The server
// runs each command by itself, so no text may continue in the next one: a text whose quotes
// are open or that ends in a backslash would turn the next command into words of its own.
// Such texts come last, and each of them except the very last one becomes the text of an
// eval.
func oneScript(commands []string) string {
	if len(commands) == 1 {
		return commands[0]
	}
	var whole, escapes, unread []string
	for _, s := range commands {
		switch {
		case !shell.Parses(s):
			unread = append(unread, s)
		case strings.HasSuffix(s, `\`):
			escapes = append(escapes, s)
		default:
			whole = append(whole, s)
		}
	}
	open := slices.Concat(escapes, unread)
	for i, s := range open {
		if i < len(open)-1 {
			s = "eval '" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		whole = append(whole, s)
	}
	return strings.Join(whole, "\n")
}

// compilePointer splits a JSON pointer into its parts.
func compilePointer(s string) ([]string, bool) {
	if s == "" {
		return nil, true
	}
	if s[0] != '/' {
		return nil, false
	}
	parts := strings.Split(s[1:], "/")
	for i, p := range parts {
		if rest := strings.ReplaceAll(strings.ReplaceAll(p, "~0", ""), "~1", ""); strings.Contains(rest, "~") {
			return nil, false
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts, true
}
