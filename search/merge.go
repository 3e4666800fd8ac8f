package search

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/search/engine"
)

const (
	// fusion flattens ranks: a result at rank r counts 1/(fusion+r). 60 is what
	// Cormack, Clarke and Büttcher chose for reciprocal rank fusion (SIGIR
	// 2009), and on recorded pages other values gave the same first ten.
	fusion = 60
	// aside is what the engines of a special kind count where the query does
	// not ask for their kind.
	aside = 0.5
	// perHost is how many of ten results may be of one host.
	perHost = 3
	// hitsMost bounds what is taken of one engine.
	hitsMost = 60
)

// said is what one engine answered, in the form that merge takes.
type said struct {
	engine *engine.Engine
	hits   []engine.Hit
}

// merge makes one list of what engines answered: each page once, in the order
// of what the ranks of all indexes say together. Two engines that show one
// index say it once.
func merge(all []said, q Query) []Result {
	var (
		byKey  = make(map[string]*candidate)
		inLine []*candidate
	)
	for _, s := range all {
		rank := 0
		for _, h := range s.hits[:min(len(s.hits), hitsMost)] {
			p, ok := locate(h.URL)
			title := clean(h.Title, titleMost)
			if !ok || title == "" || !wanted(p.host, q) {
				continue
			}
			rank++
			c := byKey[p.key]
			if c == nil {
				c = &candidate{spot: p, order: len(inLine)}
				byKey[p.key] = c
				inLine = append(inLine, c)
			}
			c.add(s.engine, rank, p, title, h, q.Category)
		}
	}
	for _, c := range inLine {
		c.sum()
	}
	slices.SortStableFunc(inLine, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.order, b.order))
	})
	out := make([]Result, 0, len(inLine))
	for _, c := range spread(inLine) {
		out = append(out, c.result())
	}
	return out
}

// wanted reports whether the query takes results of a host.
func wanted(host string, q Query) bool {
	is := func(domain string) bool { return under(host, domain) }
	return !slices.ContainsFunc(q.BlockedDomains, is) &&
		(len(q.AllowedDomains) == 0 || slices.ContainsFunc(q.AllowedDomains, is))
}

// candidate is one page under all names it has.
type candidate struct {
	spot      spot
	order     int // of its first sight
	title     string
	titleAt   int // the best rank it had
	snippet   string
	published time.Time
	engines   []Source
	families  []part
	score     float64
}

// part is the best that one index says of a page.
type part struct {
	family string
	score  float64
}

func (c *candidate) add(e *engine.Engine, rank int, p spot, title string, h engine.Hit, category string) {
	for _, s := range c.engines {
		if s.Engine == e.Name {
			return // the same page twice in one answer counts at its better rank
		}
	}
	c.engines = append(c.engines, Source{e.Name, rank})
	if c.title == "" || rank < c.titleAt && len(title) >= len(c.title)/2 {
		c.title, c.titleAt = title, rank
	}
	if strings.HasPrefix(p.url, "https:") && strings.HasPrefix(c.spot.url, "http:") {
		c.spot.url = p.url
	}
	if s := clean(h.Snippet, snippetMost); len(s) > len(c.snippet) && !stylish(s) {
		c.snippet = s
	}
	if !h.Published.IsZero() && (c.published.IsZero() || h.Published.Before(c.published)) {
		c.published = h.Published
	}
	score := weight(e, category) / float64(fusion+rank)
	for i := range c.families {
		if c.families[i].family == e.Family {
			c.families[i].score = max(c.families[i].score, score)
			return
		}
	}
	c.families = append(c.families, part{e.Family, score})
}

func (c *candidate) sum() {
	for _, p := range c.families {
		c.score += p.score
	}
	order.By(c.engines, func(a, b *Source) int { return cmp.Compare(a.Rank, b.Rank) })
}

func (c *candidate) result() Result {
	return Result{
		Title: c.title, URL: c.spot.url, Snippet: c.snippet, Published: c.published,
		Engines: c.engines, Score: c.score,
	}
}

// weight is what an engine's results count for a category.
func weight(e *engine.Engine, category string) float64 {
	w := e.Weight
	if w <= 0 {
		w = 1
	}
	if e.Role != engine.RoleGeneral && !slices.Contains(favourites(category), e.Role) {
		w *= aside
	}
	return w
}

// favourites are the special roles that a category asks for.
func favourites(category string) []engine.Role {
	switch category {
	case "code":
		return []engine.Role{engine.RoleCode, engine.RoleQA}
	case "academic":
		return []engine.Role{engine.RoleAcademic, engine.RoleReference}
	case "news":
		return []engine.Role{engine.RoleNews, engine.RoleDiscussion}
	}
	return nil
}

// stylish reports whether a snippet is a style sheet that stood in the text.
func stylish(s string) bool {
	open := strings.IndexByte(s, '{')
	return open >= 0 && strings.Contains(s[open:], ":") && strings.Contains(s[open:], ";") && strings.Contains(s[open:], "}") &&
		(strings.HasPrefix(s, ".") || strings.HasPrefix(s, "@") || strings.HasPrefix(s, "#"))
}

// spread keeps one host from filling ten places: what is too much of one comes
// after the others, and nothing is lost.
func spread(in []*candidate) []*candidate {
	out := make([]*candidate, 0, len(in))
	rest := in
	for len(rest) > 0 {
		var (
			held []*candidate
			have = make(map[string]int)
			room = 10
		)
		for _, c := range rest {
			host := strings.TrimPrefix(c.spot.host, "www.")
			if room == 0 || have[host] == perHost {
				held = append(held, c)
				continue
			}
			have[host]++
			room--
			out = append(out, c)
		}
		rest = held
	}
	return out
}
