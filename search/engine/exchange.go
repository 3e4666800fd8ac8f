package engine

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrKey is in the error of an exchange with an engine whose key or address is missing.
var ErrKey = errors.New("no key")

// ErrPage is in the error of an exchange about a page that the engine does not have.
var ErrPage = errors.New("no such page")

// agent is the User-Agent if an engine's file gives no other.
const agent = "belljar/1 (+https://belljar.dev)"

// maxRequests bounds one exchange.
const maxRequests = 4

// Exchange runs one query through one engine. That may take more than one
// request: for example a token first, or another format if the first was refused.
// Exchange does no I/O: the caller sends the request that Next returns and passes
// the response to Answer.
//
//	x, err := e.Exchange(q, keys)
//	for {
//		req, more := x.Next()
//		if !more {
//			break
//		}
//		x.Answer(send(req)) // or stop, and make an outcome of the error
//	}
//	parsed := x.Parsed()
//
// Only one goroutine may use an Exchange.
type Exchange struct {
	engine *Engine
	values map[string]string
	steps  []*sending // requests that are still to be made, the current one first
	sent   int
	parsed Parsed
}

// Exchange starts an exchange. The error wraps ErrKey or ErrPage, or describes what else is
// missing. It does not contain the query.
func (e *Engine) Exchange(q Query, keys Keys) (*Exchange, error) {
	switch {
	case !e.Usable(keys):
		return nil, fmt.Errorf("ask %s: %w: it needs the secret %s", e.Name, ErrKey, strings.Trim(e.NeedsKey+" "+e.NeedsURL, " "))
	case max(q.Page, 1) > max(e.query.pages, 1):
		return nil, fmt.Errorf("ask %s for page %d: %w: it has %d", e.Name, q.Page, ErrPage, max(e.query.pages, 1))
	case strings.TrimSpace(q.Text) == "":
		return nil, fmt.Errorf("ask %s: the query is empty", e.Name)
	}
	x := &Exchange{engine: e, values: e.valuesOf(q, keys, time.Now()), parsed: Parsed{Outcome: None}}
	for _, s := range e.steps {
		if s.suits(max(q.Page, 1), x.values["key"] != "") {
			x.steps = append(x.steps, s)
		}
	}
	switch {
	case e.NeedsURL != "" && x.values["url"] == "":
		return nil, fmt.Errorf("ask %s: %w: the secret %s is not an http or https address without credentials", e.Name, ErrKey, e.NeedsURL)
	case len(x.steps) == 0:
		return nil, fmt.Errorf("ask %s: its file contains no requests", e.Name)
	}
	return x, nil
}

// suits reports whether a request is made for a page, with a key or without.
func (s *sending) suits(page int, key bool) bool {
	switch s.when {
	case "first":
		return page == 1
	case "next":
		return page > 1
	case "key":
		return key
	case "no key":
		return !key
	}
	return true
}

// Next returns the request to make now, or false if the exchange has ended. There are at
// most maxRequests.
func (x *Exchange) Next() (Request, bool) {
	if len(x.steps) == 0 || x.sent >= maxRequests {
		return Request{}, false
	}
	req := x.steps[0].build(x.values)
	h := req.Header
	for key, value := range map[string]string{
		"User-Agent": agent, "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,application/json;q=0.9,*/*;q=0.8",
		"Accept-Language": x.acceptLanguage(),
	} {
		if h.Get(key) == "" {
			h.Set(key, value)
		}
	}
	return req, true
}

func (x *Exchange) acceptLanguage() string {
	lang, region := x.values["lang"], x.values["region"]
	switch {
	case lang == "":
		return "en-US,en;q=0.9"
	case region != "":
		return lang + "-" + strings.ToUpper(region) + "," + lang + ";q=0.9"
	}
	return lang
}

// Answer takes the response to the request that Next returned.
func (x *Exchange) Answer(r Response) {
	if len(x.steps) == 0 {
		return
	}
	step := x.steps[0]
	x.steps = x.steps[1:]
	x.sent++
	if step.token != nil {
		if token := x.engine.token(step, r); token != "" {
			x.values["token"] = token
			return
		}
		x.parsed = x.engine.Parse(r)
		if !x.parsed.Outcome.Blocked() && x.parsed.Outcome != RateLimited && x.parsed.Outcome != HTTPError {
			x.parsed = Parsed{Outcome: Drift, Detail: "the page that should have a token has none"}
		}
		x.steps = nil
		return
	}
	last := x.parsed
	x.parsed = x.engine.Parse(r)
	if last.Outcome != None && x.parsed.Outcome == Drift {
		x.parsed = last // the outcome of the first form is closer to the cause
	}
	if o := x.parsed.Outcome; o != Drift && o != BlockedSoft && o != HTTPError {
		x.steps = nil // otherwise the next form may work, or prove that there are no results
	}
}

// Parsed returns the result of the exchange after its end.
func (x *Exchange) Parsed() Parsed {
	if x.parsed.Outcome == None {
		return Parsed{Outcome: HTTPError, Detail: "the exchange did not complete"}
	}
	return x.parsed
}

// token reads the token for the next request from an answer.
func (e *Engine) token(s *sending, r Response) (token string) {
	defer func() {
		if recover() != nil { // for the same reason as in Parse
			token = ""
		}
	}()
	if len(r.Body) > MaxBody {
		r.Body = r.Body[:MaxBody]
	}
	b := newBody(e, r)
	if !b.fine() || b.format != formatHTML {
		return ""
	}
	token, _ = fieldOf(b.tree().top, s.token, maxTitle, nil)
	return token
}

// valuesOf returns the values of the variables for a query.
func (e *Engine) valuesOf(q Query, keys Keys, now time.Time) map[string]string {
	page, count := max(q.Page, 1), q.MaxResults
	if count <= 0 {
		count = 10
	}
	if e.query.most > 0 {
		count = min(count, e.query.most)
	}
	v := map[string]string{
		"query": e.cutQuery(q.Text), "count": strconv.Itoa(count), "page": strconv.Itoa(page), "agent": agent,
		"lang": subtag(q.Language, e.query.lang, 3), "region": subtag(q.Region, e.query.region, 2),
		"key": keys[e.key], "url": operatorURL(keys[e.NeedsURL]),
	}
	if page > 1 || e.query.always {
		start := e.query.first + (page-1)*e.query.step
		v["start"], v["start_next"] = strconv.Itoa(start), strconv.Itoa(start+1)
	}
	days := map[string]int{"day": 1, "week": 7, "month": 31, "year": 365}[q.TimeRange]
	if days > 0 {
		since := now.UTC().AddDate(0, 0, -days)
		v["since"], v["since_compact"] = since.Format("2006-01-02"), since.Format("20060102")
		v["since_unix"] = strconv.FormatInt(since.Unix(), 10)
		v["since_day"] = strconv.FormatInt(since.Unix()/86400, 10)
		v["today_day"] = strconv.FormatInt(now.Unix()/86400, 10)
	}
	word := func(words map[string]template, key string) string {
		s, _ := words[key].expand(func(p piece) string { return v[p.name] })
		return s
	}
	safe := q.SafeSearch
	if safe == "" {
		safe = "moderate"
	}
	v["safesearch"], v["time_range"] = word(e.query.safe, safe), word(e.query.ranges, q.TimeRange)
	return v
}

// subtag returns a language or region as a code of letters, or none if s is not one. The
// code may become part of a host name, so it contains nothing else.
func subtag(s, none string, most int) string {
	s, _, _ = strings.Cut(strings.ToLower(strings.ReplaceAll(s, "_", "-")), "-")
	if len(s) < 2 || len(s) > most || strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return none
	}
	return s
}

// operatorURL returns the address of an engine that the operator runs, without query and
// fragment. It returns "" if the address is not valid.
func operatorURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ""
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+u.EscapedPath(), "/")
}

// cutQuery returns the query as the engine takes it. Engines refuse long queries, so they
// are cut at a word.
func (e *Engine) cutQuery(s string) string {
	words := strings.Fields(strings.ToValidUTF8(s, " "))
	if e.query.words > 0 && len(words) > e.query.words {
		words = words[:e.query.words]
	}
	if e.query.quote {
		for i, w := range words {
			if strings.HasPrefix(w, "!") || strings.HasPrefix(w, `\`) {
				words[i] = `"` + strings.Trim(w, `"`) + `"`
			}
		}
	}
	s = strings.Join(words, " ")
	most := e.query.chars
	if most == 0 {
		most = 1000
	}
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	s = string([]rune(s)[:most])
	if at := strings.LastIndexByte(s, ' '); at > len(s)/2 {
		s = s[:at]
	}
	return s
}
