package engine

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// format is the language in which an answer is written.
type format int

const (
	formatHTML format = iota
	formatXML
	formatJSON
)

var formatNames = []string{"html", "xml", "json"}

// answer describes one form in which an engine answers, and where its parts are. Each of
// its lists contains alternatives, which are tried in order.
type answer struct {
	format format
	after  string // JSON only: the text of a page after which the value begins

	items   []finder
	columns bool // the fields are separate lists, side by side
	skip    []proof

	title, url, snippet, date, suggestion, reply []finder

	drop []matcher

	// Proofs of each reason for having no results.
	empty, captcha, blocked, limited, failed []proof
}

// finder locates a part of an answer: a place in a tree, or a path or a template over paths
// in a JSON value.
type finder struct {
	place place
	path  path
	text  template // JSON only, instead of path
}

var answerKeys = []string{
	"format", "after", "items", "columns", "skip", "title", "url", "snippet", "date", "suggestion", "reply",
	"drop", "empty", "captcha", "blocked", "limited", "failed",
}

// answer reads one entry of answers.
func (r *reader) answer(n *yaml.Node) *answer {
	f := r.mapping(n, "an answer", answerKeys...)
	a := &answer{}
	v := f.values
	if v["format"] == nil {
		r.Fault(n, "write format: html, xml or json", "the answer has no format")
		return a
	}
	switch r.word(v["format"], "format", formatNames...) {
	case "json":
		a.format = formatJSON
	case "xml":
		a.format = formatXML
	}
	if v["after"] != nil {
		a.after = r.text(v["after"], "after")
		if a.format != formatJSON {
			r.Fault(v["after"], "", "after goes with format: json")
		}
	}
	if v["columns"] != nil {
		a.columns = r.truth(v["columns"], "columns")
	}
	for key, to := range map[string]*[]finder{
		"items": &a.items, "title": &a.title, "url": &a.url, "snippet": &a.snippet,
		"date": &a.date, "suggestion": &a.suggestion, "reply": &a.reply,
	} {
		if v[key] != nil {
			*to = r.finders(v[key], key, a.format)
		}
	}
	for key, to := range map[string]*[]proof{
		"skip": &a.skip, "empty": &a.empty, "captcha": &a.captcha, "blocked": &a.blocked,
		"limited": &a.limited, "failed": &a.failed,
	} {
		if v[key] != nil {
			*to = r.proofs(v[key], key, a.format)
		}
	}
	if v["drop"] != nil {
		r.each(v["drop"], "drop", func(n *yaml.Node, s string) {
			p, err := newPlace(s)
			if err != nil || p.selector == nil {
				r.Fault(n, "write a selector", "drop: %q is not a selector", s)
				return
			}
			a.drop = append(a.drop, p.selector)
		})
	}
	if (a.items != nil || a.columns) && (a.title == nil || a.url == nil) {
		r.Fault(n, "", "an answer with items needs title and url")
	}
	return a
}

// finders reads places or paths.
func (r *reader) finders(n *yaml.Node, what string, kind format) []finder {
	var all []finder
	r.each(n, what, func(n *yaml.Node, s string) {
		var f finder
		var err error
		switch {
		case kind != formatJSON:
			f.place, err = newPlace(s)
		case strings.Contains(s, "{"):
			f.text, err = newTemplate(s, nil)
		default:
			f.path, err = newPath(s)
		}
		if err != nil {
			r.Fault(n, "", "%s: %v", what, err)
			return
		}
		all = append(all, f)
	})
	return all
}

// proofs reads proofs for a tree or a JSON value.
func (r *reader) proofs(n *yaml.Node, what string, kind format) []proof {
	var all []proof
	r.each(n, what, func(n *yaml.Node, s string) {
		read := newProof
		if kind == formatJSON {
			read = newPathProof
		}
		p, err := read(s)
		if err != nil {
			r.Fault(n, `write "place" or "place :: pattern"`, "%s: %v", what, err)
			return
		}
		all = append(all, p)
	})
	return all
}

// unwrap is a rule that reads the address of a result out of a redirecting address. It only
// decodes: no redirect is followed.
type unwrap struct {
	host   string // host or a domain above it; "" matches every host
	path   string // beginning of the path
	param  string // parameter of the query that contains the address
	start  string // text of the path before the address; end is the text after it
	end    string
	strip  string // text before the address that is removed
	base64 bool
}

// unwraps reads the rules of redirecting links.
func (r *reader) unwraps(n *yaml.Node) []unwrap {
	var all []unwrap
	for _, e := range r.list(n, "unwrap") {
		f := r.mapping(e, "an entry of unwrap", "host", "path", "param", "between", "strip", "base64")
		var u unwrap
		for key, to := range map[string]*string{"host": &u.host, "path": &u.path, "param": &u.param, "strip": &u.strip} {
			if f.values[key] != nil {
				*to = r.text(f.values[key], key)
			}
		}
		if b := f.values["between"]; b != nil {
			if two := r.texts(b, "between"); len(two) == 2 {
				u.start, u.end = two[0], two[1]
			} else {
				r.Fault(b, "", "between must be two texts")
			}
		}
		if f.values["base64"] != nil {
			u.base64 = r.truth(f.values["base64"], "base64")
		}
		if (u.param == "") == (u.start == "") || u.host == "" && u.path == "" {
			r.Fault(e, "", "an entry of unwrap has host or path, and either param or between")
		}
		all = append(all, u)
	}
	return all
}

// causes contains a pattern of addresses, and the outcome that it shows.
type causes struct {
	outcome Outcome
	like    *regexp.Regexp
}

// outcomeWords are the outcomes that a file can name.
var outcomeWords = map[string]Outcome{
	"captcha": BlockedCaptcha, "blocked": BlockedSoft, "limited": RateLimited, "failed": HTTPError, "empty": Empty,
}

// outcome reads the name of an outcome.
func (r *reader) outcome(n *yaml.Node, what string) Outcome {
	return outcomeWords[r.word(n, what, "captcha", "blocked", "limited", "failed", "empty")]
}
