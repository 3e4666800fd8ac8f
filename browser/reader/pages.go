package reader

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
)

// The bounds of the pages that are kept.
const (
	pagesFor   = 15 * time.Minute
	pagesMost  = 256
	pagesBytes = 128 << 20
	pagesEach  = 48 << 20
)

// pages keeps the results of pages, so that a call that reads on does not convert a page
// again that may have changed meanwhile. It is safe for concurrent use.
type pages struct {
	mu    sync.Mutex
	all   map[pageKey]*list.Element
	order *list.List // elements are *keptPage, the most recently used first
	bytes int
}

// pageKey identifies a page: the tenant, the policy, and the query.
type pageKey struct {
	tenant, profile string
	egress          *policies.Egress
	query           string
	picture         bool // whether a picture was asked for; the page may then have another text
}

type keptPage struct {
	key   pageKey
	res   *Result
	until time.Time
	keep  bool // whether calls that do not read on may get it as well
	bytes int
}

func newPages() *pages { return &pages{all: make(map[pageKey]*list.Element), order: list.New()} }

// keyOf returns the key of a query. Continue and the fields that only bound the
// query, such as MostWait, are not part of it.
func keyOf(g policies.Grant, q Query) pageKey {
	r := g.Reading()
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s %q %s %v %v %v %v %v %q %v %v %v", q.URL, q.Format, q.Selector, q.Until, q.Wait, q.Whole, q.OmitLinks, q.OmitImages, q.ShortLinks, q.Render, r.Render, r.Redirects, r.Robots)
	for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
		fmt.Fprintf(&b, " %q=%q", name, q.Headers[name])
	}
	return pageKey{g.Tenant(), g.Profile(), g.Egress(), b.String(), q.Picture}
}

// get returns a page that was kept, or nil.
func (p *pages) get(k pageKey, reads bool, now time.Time) *Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.all[k]
	if e == nil {
		return nil
	}
	kept, _ := e.Value.(*keptPage)
	if now.After(kept.until) {
		p.remove(e)
		return nil
	}
	if !kept.keep && !reads {
		return nil
	}
	p.order.MoveToFront(e)
	return kept.res
}

// put keeps a page.
func (p *pages) put(k pageKey, res *Result, keep bool, now time.Time) {
	size := len(res.Page.Content) + 64*(len(res.Page.Headings)+len(res.Page.Links)+len(res.Page.Images))
	if size > pagesEach {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.all[k]; e != nil {
		p.remove(e)
	}
	p.all[k] = p.order.PushFront(&keptPage{k, res, now.Add(pagesFor), keep, size})
	p.bytes += size
	for p.bytes > pagesBytes || p.order.Len() > pagesMost {
		p.remove(p.order.Back())
	}
}

// remove drops a page; mu must be held.
func (p *pages) remove(e *list.Element) {
	kept, _ := p.order.Remove(e).(*keptPage)
	delete(p.all, kept.key)
	p.bytes -= kept.bytes
}
