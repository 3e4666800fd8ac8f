package engine

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// variables are the names that templates of requests can use. If a variable has no value,
// the parameter, header or cookie that contains it is left out.
var variables = []string{
	"query", "count", "page", "start", "start_next", "lang", "region", "safesearch", "time_range", "key", "url", "token",
	"since", "since_compact", "since_unix", "since_day", "today_day", "agent",
}

// queryRules describe how a query is changed into what an engine takes.
type queryRules struct {
	chars  int // longest text in characters; 0 is 1000
	words  int
	pages  int // number of pages that the engine has; 0 is 1
	first  int // value of start on the first page
	step   int // difference of start between two pages
	always bool
	quote  bool // quote words that start with ! or \, which the engine takes as commands
	most   int  // largest number of results on one page
	lang   string
	region string
	safe   map[string]template
	ranges map[string]template
}

// sending describes one request to an engine.
type sending struct {
	name    string
	when    string // "", "first" or "next": on which pages it is made; "key" or "no key": with or without a key
	token   []finder
	method  string
	url     template
	params  []param
	form    []param
	headers []param
	cookies []param
	json    *yaml.Node
	body    map[*yaml.Node]template // templates of the texts in json
}

type param struct {
	name  string
	value template
}

// queryRules reads the value of the key query.
func (r *reader) queryRules(n *yaml.Node) queryRules {
	f := r.mapping(n, "query", "chars", "words", "pages", "first", "step", "always_start", "quote_commands", "count", "lang", "region", "safesearch", "time_range")
	var q queryRules
	for key, to := range map[string]*int{
		"chars": &q.chars, "words": &q.words, "pages": &q.pages, "first": &q.first, "step": &q.step, "count": &q.most,
	} {
		if f.values[key] != nil {
			*to = r.number(f.values[key], key, -1000, 10_000)
		}
	}
	for key, to := range map[string]*bool{"always_start": &q.always, "quote_commands": &q.quote} {
		if f.values[key] != nil {
			*to = r.truth(f.values[key], key)
		}
	}
	for key, to := range map[string]*string{"lang": &q.lang, "region": &q.region} {
		if f.values[key] != nil {
			*to = r.text(f.values[key], key)
		}
	}
	words := func(key string, known ...string) map[string]template {
		if f.values[key] == nil {
			return nil
		}
		all := make(map[string]template)
		of := r.mapping(f.values[key], key, known...)
		for _, k := range of.keys {
			all[k.Value] = r.template(of.values[k.Value], key)
		}
		return all
	}
	q.safe = words("safesearch", "off", "moderate", "strict")
	q.ranges = words("time_range", "day", "week", "month", "year")
	return q
}

// template reads a template with the variables. An empty text is a valid template.
func (r *reader) template(n *yaml.Node, what string) template {
	if n.Kind != yaml.ScalarNode {
		r.Fault(n, "", "%s must be a text", what)
		return nil
	}
	t, err := newTemplate(n.Value, variables)
	if err != nil {
		r.Fault(n, "", "%s: %v", what, err)
	}
	return t
}

var tokenHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]+$`) })

// sending reads one entry of requests.
func (r *reader) sending(n *yaml.Node, e *Engine) *sending {
	f := r.mapping(n, "a request", "name", "when", "token", "method", "url", "params", "form", "headers", "cookies", "json")
	s := &sending{method: http.MethodGet}
	v := f.values
	if v["name"] != nil {
		s.name = r.text(v["name"], "name")
	}
	if v["when"] != nil {
		s.when = r.word(v["when"], "when", "first", "next", "key", "no key")
	}
	if v["token"] != nil {
		s.token = r.finders(v["token"], "token", formatHTML)
	}
	if v["url"] == nil {
		r.Fault(n, "", "a request needs a url")
	} else {
		s.url = r.template(v["url"], "url")
		r.ownHost(v["url"], s.url, e)
	}
	for key, to := range map[string]*[]param{"params": &s.params, "form": &s.form, "headers": &s.headers, "cookies": &s.cookies} {
		if v[key] != nil {
			of := r.mapping(v[key], key)
			for _, k := range of.keys {
				if key == "headers" && !tokenHeader().MatchString(k.Value) {
					r.Fault(k, "", "%q cannot be the name of a header", k.Value)
				}
				*to = append(*to, param{name: k.Value, value: r.template(of.values[k.Value], key)})
			}
		}
	}
	if v["json"] != nil {
		s.json, s.body = v["json"], make(map[*yaml.Node]template)
		r.jsonTexts(v["json"], s.body)
	}
	if s.json != nil || s.form != nil {
		s.method = http.MethodPost
	}
	if v["method"] != nil {
		s.method = r.word(v["method"], "method", http.MethodGet, http.MethodPost)
	}
	return s
}

// ownHost checks that the address of a request is on one of the engine's hosts.
func (r *reader) ownHost(n *yaml.Node, t template, e *Engine) {
	s, _ := t.expand(func(p piece) string {
		if p.name == "url" {
			return "https://operator.example"
		}
		return "en"
	})
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		r.Fault(n, "", "url must be an https address")
	case len(t) > 0 && t[0].name == "url" && e.NeedsURL != "":
	case !e.Allows(u.Hostname(), nil):
		r.Fault(n, "add it to hosts", "the host %s is not one of the engine's", u.Hostname())
	}
}

// jsonTexts reads the templates in the texts of a JSON body.
func (r *reader) jsonTexts(n *yaml.Node, body map[*yaml.Node]template) {
	if n.Kind == yaml.ScalarNode {
		if n.ShortTag() == "!!str" {
			body[n] = r.template(n, "json")
		}
		return
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 { // leaves out the keys of a mapping
			r.jsonTexts(c, body)
		}
	}
}

// build returns the request with the values of the variables.
func (s *sending) build(values map[string]string) Request {
	value := func(p piece) string { return values[p.name] }
	req := Request{Method: s.method, Header: make(http.Header)}
	req.URL, _ = s.url.expand(func(p piece) string {
		if p.name == "url" {
			return strings.TrimSuffix(values["url"], "/")
		}
		if p.name == "lang" || p.name == "region" {
			return values[p.name] // the value was checked, and may be part of a host name
		}
		return url.PathEscape(values[p.name])
	})
	if query := encodeParams(s.params, value); query != "" {
		req.URL += "?" + query
	}
	switch {
	case s.json != nil:
		text, err := json.Marshal(s.jsonValue(s.json, values))
		if err == nil {
			req.Body = text
		}
		req.Header.Set("Content-Type", "application/json")
	case s.form != nil:
		req.Body = []byte(encodeParams(s.form, value))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range s.headers {
		if v, ok := h.value.expand(value); ok {
			req.Header.Set(textproto.CanonicalMIMEHeaderKey(h.name), oneLine(v))
		}
	}
	var cookies []string
	for _, c := range s.cookies {
		if v, ok := c.value.expand(value); ok {
			cookies = append(cookies, c.name+"="+oneLine(v))
		}
	}
	if cookies != nil {
		req.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	return req
}

// oneLine removes the characters that are not allowed in a header.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// encodeParams encodes parameters in the order of the file: some engines check the order.
func encodeParams(params []param, value func(piece) string) string {
	var b strings.Builder
	for _, p := range params {
		v, ok := p.value.expand(value)
		if !ok {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.name) + "=" + url.QueryEscape(v))
	}
	return b.String()
}

// jsonValue returns a JSON body with the values of the variables. A text that consists of
// one numeric variable becomes a number.
func (s *sending) jsonValue(n *yaml.Node, values map[string]string) any {
	if n.Kind == yaml.MappingNode {
		object := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if v := s.jsonValue(n.Content[i+1], values); v != nil {
				object[n.Content[i].Value] = v
			}
		}
		return object
	}
	if n.Kind == yaml.SequenceNode {
		list := []any{}
		for _, c := range n.Content {
			if v := s.jsonValue(c, values); v != nil {
				list = append(list, v)
			}
		}
		return list
	}
	t, isText := s.body[n]
	if !isText {
		var v any
		if n.Decode(&v) != nil {
			return nil
		}
		return v
	}
	v, ok := t.expand(func(p piece) string { return values[p.name] })
	if !ok {
		return nil
	}
	if len(t) == 1 && (t[0].name == "count" || t[0].name == "page" || t[0].name == "start") {
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
	}
	return v
}
