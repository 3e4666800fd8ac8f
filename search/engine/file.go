package engine

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// engineKeys are the keys of an engine file; docs/search.md describes them.
var engineKeys = []string{
	"name", "aliases", "about", "family", "role", "use", "order", "scraped", "verified", "hosts", "kin", "base", "rate", "weight",
	"timeout", "key", "optional_key", "url", "query", "requests", "answers", "unwrap", "drop_urls", "status", "location",
}

var engineName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`) })

// engine compiles an engine file. It returns nil if the file contains no engine.
func (r *reader) engine(text []byte) *Engine {
	top := r.root(text)
	if top == nil {
		return nil
	}
	f := r.mapping(top, "an engine", engineKeys...)
	e := &Engine{Source: r.File, Weight: 1, Use: UseOff, Role: RoleGeneral, Rate: Rate{Every: 2 * time.Second, Burst: 3}, order: 1000}
	r.identity(e, f)
	r.limits(e, f)
	r.places(e, f)
	if n := f.values["query"]; n != nil {
		e.query = r.queryRules(n)
	}
	if n := f.values["requests"]; n != nil {
		for _, each := range r.list(n, "requests") {
			e.steps = append(e.steps, r.sending(each, e))
		}
	}
	if n := f.values["answers"]; n != nil {
		for _, each := range r.list(n, "answers") {
			e.answers = append(e.answers, r.answer(each))
		}
	} else {
		r.Fault(top, "", "an engine needs answers")
	}
	if len(e.steps) == 0 && e.Use != UseOff {
		r.Fault(top, "write requests, or use: off for one whose answers are only read", "an engine that is asked needs requests")
	}
	return e
}

// identity reads the name and the kind of the engine.
func (r *reader) identity(e *Engine, f fields) {
	v := f.values
	if n := v["name"]; n == nil {
		r.Fault(f.node, "start the file with name:", "the engine has no name")
	} else if e.Name = r.text(n, "name"); !engineName().MatchString(e.Name) {
		r.Fault(n, "use lower-case letters, digits, dots, hyphens and underscores, 32 at most", "%q cannot be the name of an engine", e.Name)
	}
	for key, to := range map[string]*string{"about": &e.About, "family": &e.Family} {
		if v[key] != nil {
			*to = r.text(v[key], key)
		}
	}
	if e.Family == "" {
		e.Family = e.Name
	}
	if n := v["aliases"]; n != nil {
		e.Aliases = r.texts(n, "aliases")
	}
	if n := v["role"]; n != nil {
		e.Role = Role(r.word(n, "role", string(RoleGeneral), string(RoleReference), string(RoleQA), string(RoleCode),
			string(RoleDiscussion), string(RoleAcademic), string(RoleNews)))
	}
	if n := v["use"]; n != nil {
		e.Use = Use(r.word(n, "use", string(UseDefault), string(UseReserve), string(UseOptional), string(UseOff)))
		e.Reserve = e.Use == UseReserve
	}
	for key, to := range map[string]*bool{"scraped": &e.Scraped, "verified": &e.Verified} {
		if v[key] != nil {
			*to = r.truth(v[key], key)
		}
	}
	if n := v["order"]; n != nil {
		e.order = r.number(n, "order", 0, 1000)
	}
}

// limits reads how often and how long the engine may be asked, and which key it uses.
func (r *reader) limits(e *Engine, f fields) {
	v := f.values
	if n := v["rate"]; n != nil {
		rate := r.mapping(n, "rate", "every", "burst")
		if at := rate.values["every"]; at != nil {
			e.Rate.Every = r.duration(at, "every", time.Millisecond, 24*time.Hour)
		}
		if at := rate.values["burst"]; at != nil {
			e.Rate.Burst = r.number(at, "burst", 1, 1000)
		}
	}
	if n := v["weight"]; n != nil {
		w, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(w > 0 && w <= 10) {
			r.Fault(n, "", "weight must be a number above 0, 10 at most")
		}
		e.Weight = w
	}
	if n := v["timeout"]; n != nil {
		e.Timeout = r.duration(n, "timeout", 100*time.Millisecond, time.Minute)
	}
	if n := v["key"]; n != nil {
		e.NeedsKey = r.text(n, "key")
		e.key = e.NeedsKey
	}
	if n := v["optional_key"]; n != nil {
		if e.key = r.text(n, "optional_key"); e.NeedsKey != "" {
			r.Fault(n, "keep one of them", "an engine has key or optional_key")
		}
	}
	if n := v["url"]; n != nil {
		e.NeedsURL = r.text(n, "url")
	}
}

var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)
})

// places reads the hosts of the engine and the rules for its addresses.
func (r *reader) places(e *Engine, f fields) {
	v := f.values
	hosts := func(key string) (all []string) {
		if n := v[key]; n != nil {
			r.each(n, key, func(n *yaml.Node, s string) {
				if !hostName().MatchString(s) {
					r.Fault(n, "write one like www.example.com or *.example.com", "%s: %q is not a host", key, s)
				}
				all = append(all, s)
			})
		}
		return all
	}
	e.Hosts, e.kin = hosts("hosts"), hosts("kin")
	if len(e.Hosts) == 0 && e.NeedsURL == "" {
		r.Fault(f.node, "", "an engine needs hosts: its requests and redirects go nowhere else")
	}
	base := "https://invalid.example/"
	if len(e.Hosts) > 0 {
		base = "https://" + strings.TrimPrefix(e.Hosts[0], "*.") + "/"
	}
	if n := v["base"]; n != nil {
		base = r.text(n, "base")
	}
	u, err := url.Parse(base)
	if err != nil || !u.IsAbs() || u.Host == "" {
		r.Fault(f.node, "write one like https://www.example.com/", "base must be an address")
		u = &url.URL{Scheme: "https", Host: "invalid.example"}
	}
	e.base = u
	if n := v["unwrap"]; n != nil {
		e.unwraps = r.unwraps(n)
	}
	if n := v["drop_urls"]; n != nil {
		r.each(n, "drop_urls", func(n *yaml.Node, s string) {
			if like := r.pattern(n, s, "drop_urls"); like != nil {
				e.drops = append(e.drops, like)
			}
		})
	}
	r.causes(e, f)
}

// causes reads the outcomes that statuses and redirects of the engine show.
func (r *reader) causes(e *Engine, f fields) {
	if n := f.values["status"]; n != nil {
		e.statuses = make(map[int]Outcome)
		for _, key := range r.mapping(n, "status").keys {
			code := r.number(key, "a status", 100, 999)
			e.statuses[code] = r.outcome(r.mapping(n, "status").values[key.Value], "a status")
		}
	}
	if n := f.values["location"]; n != nil {
		of := r.mapping(n, "location", "captcha", "blocked", "limited", "failed")
		for _, key := range of.keys {
			r.each(of.values[key.Value], "location", func(n *yaml.Node, s string) {
				if like := r.pattern(n, s, "location"); like != nil {
					e.locations = append(e.locations, causes{outcome: outcomeWords[key.Value], like: like})
				}
			})
		}
	}
}

// common reads the proofs that are the same for all engines.
func (r *reader) common(text []byte) []*answer {
	top := r.root(text)
	if top == nil {
		return nil
	}
	var all []*answer
	if n := r.mapping(top, "the common file", "answers").values["answers"]; n != nil {
		for _, each := range r.list(n, "answers") {
			all = append(all, r.answer(each))
		}
	}
	return all
}
