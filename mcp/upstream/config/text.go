package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Text is a value of a file that may contain references, for example "Bearer ${TOKEN}".
// Expand fills in all references except secrets, which stay references until Reveal.
//
// The printed, logged and marshalled forms of a Text show neither the values of variables
// nor secrets.
type Text struct {
	pieces []piece
	at     place
}

// ref is the kind of value that a piece of a text refers to.
type ref int

const (
	literal  ref = iota
	variable     // an environment variable
	input        // a person's answer to an input
	secret       // a secret, by its name
	folder       // a directory of this machine: the workspace, the home directory, "/"
)

// piece is a part of a Text.
type piece struct {
	ref        ref
	name       string
	text       string // text of a literal, or the value from Expand
	fallback   string
	hasDefault bool
	known      bool // Expand has processed the piece
}

// Literal returns a Text without references.
func Literal(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{pieces: []piece{{text: s}}}
}

// Empty reports whether t is the empty text.
func (t Text) Empty() bool { return len(t.pieces) == 0 }

// String returns t in a form that may be shown: with references by name, and without
// values.
func (t Text) String() string {
	return t.render(func(p piece) string { return p.written() })
}

// GoString returns the same as String, so that no way of printing shows more.
func (t Text) GoString() string { return t.String() }

// MarshalText returns the same as String, so that encoders show no more.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Pinned returns t in the form that a pin compares. It changes with the value of a
// variable, and not with a secret; it shows neither.
func (t Text) Pinned() string {
	return t.render(func(p piece) string {
		if !p.known || p.ref == secret {
			return p.written()
		}
		sum := sha256.Sum256([]byte(p.text))
		return fmt.Sprintf("${%s=sha256:%s}", p.name, hex.EncodeToString(sum[:8]))
	})
}

// Plain returns the value of t. ok is false if t needs a secret, or if Expand has not
// filled it in.
func (t Text) Plain() (value string, ok bool) {
	ok = true
	value = t.render(func(p piece) string {
		if p.ref == secret || !p.known {
			ok = false
		}
		return p.text
	})
	if !ok {
		return "", false
	}
	return value, true
}

// Reveal returns the value of t with its secrets. reveal returns a secret by its name. The
// caller passes the value to the one process or request that needs it, and stores it
// nowhere.
func (t Text) Reveal(reveal func(name string) (string, error)) (string, error) {
	var failed error
	value := t.render(func(p piece) string {
		switch {
		case failed != nil:
			return ""
		case p.ref == secret:
			s, err := reveal(p.name)
			if err != nil {
				failed = fmt.Errorf("secret %s: %w", quoted(p.name), err)
			}
			return s
		case !p.known:
			failed = fmt.Errorf("%s has no value yet", p.written())
		}
		return p.text
	})
	if failed != nil {
		return "", failed
	}
	return value, nil
}

// References returns the references of t to values outside its file, as the file writes
// them but without defaults.
func (t Text) References() (all []string) {
	for _, p := range t.pieces {
		if p.ref != literal && p.ref != folder {
			all = append(all, p.written())
		}
	}
	return all
}

// Secrets returns the names of the secrets that t needs.
func (t Text) Secrets() (names []string) {
	for _, p := range t.pieces {
		if p.ref == secret && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// Variables returns the names of the variables that t refers to.
func (t Text) Variables() (names []string) {
	for _, p := range t.pieces {
		if p.ref == variable && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// Cut cuts t around the first separator in its literal parts. The part before it
// must be plain: it is the name of a variable, or a flag.
func (t Text) Cut(separator string) (before string, after Text, found bool) {
	for i, p := range t.pieces {
		if p.ref != literal {
			if p.ref == secret || !p.known {
				return "", Text{}, false
			}
			before += p.text
			continue
		}
		left, right, ok := strings.Cut(p.text, separator)
		before += left
		if !ok {
			continue
		}
		after = Text{at: t.at}
		if right != "" {
			after.pieces = append(after.pieces, piece{text: right})
		}
		after.pieces = append(after.pieces, t.pieces[i+1:]...)
		return before, after, true
	}
	return "", Text{}, false
}

// Without returns t without a literal prefix.
func (t Text) Without(prefix string) (rest Text, ok bool) {
	if prefix == "" || t.Empty() || t.pieces[0].ref != literal || !strings.HasPrefix(t.pieces[0].text, prefix) {
		return t, prefix == ""
	}
	rest = Text{pieces: slices.Clone(t.pieces), at: t.at}
	rest.pieces[0].text = rest.pieces[0].text[len(prefix):]
	if rest.pieces[0].text == "" {
		rest.pieces = rest.pieces[1:]
	}
	return rest, true
}

// With returns t with a literal prefix before it.
func (t Text) With(prefix string) Text {
	return Text{pieces: append([]piece{{text: prefix, known: true}}, t.pieces...), at: t.at}
}

func (t Text) render(of func(piece) string) string {
	var b strings.Builder
	for _, p := range t.pieces {
		if p.ref == literal || p.ref == folder && p.known {
			b.WriteString(p.text)
		} else {
			b.WriteString(of(p))
		}
	}
	return b.String()
}

// written returns a reference as a file writes it, without its default, which may be a
// token.
func (p piece) written() string {
	switch p.ref {
	case input:
		return "${input:" + p.name + "}"
	case secret:
		return "${secret:" + p.name + "}"
	case literal, variable, folder:
	}
	return "${" + p.name + "}"
}

// reference matches the text between the braces of a reference: a variable with an optional
// default, an input, or a secret. foreign matches references that other programs fill in
// and belljar does not.
var (
	reference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-(?s:(.*)))?|input:([^${}]{1,128})|secret:([A-Za-z0-9_./-]{1,128}))$`)
	})
	foreign = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:command|config|file|extensionInstallFolder|workspaceFolder|workspaceFolderBasename):`)
	})
)

// folders are the names that VS Code and Cursor have for directories of this machine.
var folders = []string{"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}

// template finds the references in a text. All other text is literal: $VAR, $(command),
// ${x%y} and similar forms belong to a shell, if there is one.
func (r *report) template(n *node, what string) Text {
	t := Text{at: n.at}
	if len(n.text) > maxText {
		r.wrong(n.at, "", "%s has %d bytes, more than the %d that are read", what, len(n.text), maxText)
		return t
	}
	if strings.IndexByte(n.text, 0) >= 0 {
		r.wrong(n.at, "remove it", "%s contains a NUL character", what)
		return t
	}
	flush := func(s string) {
		if s != "" {
			t.pieces = append(t.pieces, piece{text: s, known: true})
		}
	}
	for from, at := 0, 0; ; { // literal text begins at from; the text before at has been examined
		next := strings.Index(n.text[at:], "${")
		if next < 0 {
			flush(n.text[from:])
			return t
		}
		begin := at + next
		at = begin + 2
		inner := n.text[at:min(len(n.text), at+maxReference)]
		end := strings.IndexByte(inner, '}')
		if end < 0 {
			continue
		}
		p, ok := r.refer(n.at, inner[:end], what)
		if !ok {
			continue
		}
		flush(n.text[from:begin])
		t.pieces = append(t.pieces, p)
		at += end + 1
		from = at
	}
}

// refer parses the text between braces, and reports whether it is a reference.
func (r *report) refer(at place, inner, what string) (piece, bool) {
	if slices.Contains(folders, inner) {
		return piece{ref: folder, name: inner}, true
	}
	if namespace, _, _ := strings.Cut(inner, ":"); foreign().MatchString(inner) {
		r.wrong(at, "write the value itself, or put it into a variable or a secret", "%s refers to ${%s:...}, which belljar does not support", what, namespace)
		return piece{}, true
	}
	m := reference().FindStringSubmatch(inner)
	switch {
	case m == nil:
		return piece{}, false
	case m[4] != "":
		return piece{ref: input, name: m[4]}, true
	case m[5] != "":
		return piece{ref: secret, name: m[5]}, true
	case strings.Contains(m[3], "${"):
		r.wrong(at, "write a default without variables", "%s has a default of ${%s} that refers to another variable", what, m[1])
	case Reserved(m[1]):
		r.wrong(at, "use a variable of another name, or a secret", "%s refers to ${%s}, but no server gets belljar's own variables", what, m[1])
	}
	return piece{ref: variable, name: m[1], fallback: m[3], hasDefault: m[2] != ""}, true
}

// Reserved reports whether a variable is one of belljar's own. Such variables contain
// belljar's tokens, and no server gets them.
func Reserved(name string) bool { return strings.HasPrefix(strings.ToUpper(name), "BELLJAR_") }
