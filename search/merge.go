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
	// fusion flattens ranks: a result at rank r counts 1/(fusion+r). 60 is the value of
	// Cormack, Clarke and Büttcher for reciprocal rank fusion (SIGIR 2009). On recorded
	// pages, other values gave the same first ten results.
	fusion = 60
	// aside is the factor on the weight of an engine of a special kind, if the query does
	// not ask for that kind.
	aside = 0.5
	// perHost is the largest number of results of one host in each group of ten, while
	// other hosts have results.
	perHost = 3
	// hitsMost bounds the results that are taken from one engine.
	hitsMost = 60
)

// said contains the results of one engine, in the form that merge takes.
type said struct {
	engine *engine.Engine
	hits   []engine.Hit
}

// merge returns one list of the results of all engines: each page once, sorted by the score
// that the ranks in all indexes give it. Two engines that show the same index count once.
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

// wanted reports whether the query allows results of a host.
func wanted(host string, q Query) bool {
	is := func(domain string) bool { return under(host, domain) }
	return !slices.ContainsFunc(q.BlockedDomains, is) &&
		(len(q.AllowedDomains) == 0 || slices.ContainsFunc(q.AllowedDomains, is))
}

// candidate is one page, merged from the results of all engines that found it.
type candidate struct {
	spot      spot
	order     int // position at which it was first seen
	title     string
	titleAt   int // rank of the result that the title is from
	snippet   string
	published time.Time
	engines   []Source
	families  []part
	score     float64
}

// part is the best score of a page in one index.
type part struct {
	family string
	score  float64
}

func (c *candidate) add(e *engine.Engine, rank int, p spot, title string, h engine.Hit, category string) {
	for _, s := range c.engines {
		if s.Engine == e.Name {
			return // if a page is twice in one answer, its better rank counts
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

// weight returns the weight of an engine's results for a category.
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

// favourites returns the special roles that a category asks for.
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

// stylish reports whether a snippet is a style sheet that was in the text of the page.
func stylish(s string) bool {
	open := strings.IndexByte(s, '{')
	return open >= 0 && strings.Contains(s[open:], ":") && strings.Contains(s[open:], ";") && strings.Contains(s[open:], "}") &&
		(strings.HasPrefix(s, ".") || strings.HasPrefix(s, "@") || strings.HasPrefix(s, "#"))
}

// spread prevents one host from filling the first ten results: results of a host beyond
// perHost come after the others, and none is lost.
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
