package search

import (
	"time"

	"belljar.dev/search/engine"
)

// Query is a search query. Only Text must be set.
type Query struct {
	Text       string
	MaxResults int      // number of merged results that are wanted; 0 is 10
	Engines    []string // names of engines to ask, instead of those of the category
	Category   string   // general, code, academic or news; "" is general
	Language   string   // ISO 639 code, such as "en"; "" leaves it to the engines
	Region     string   // ISO 3166 code, such as "US"; "" leaves it to the engines
	SafeSearch string   // off, moderate or strict; "" is moderate
	TimeRange  string   // day, week, month or year; "" is any time
	Page       int      // number of the page, from 1; 0 is 1

	AllowedDomains []string // only results of these domains and their subdomains
	BlockedDomains []string // no results of these and their subdomains

	Timeout time.Duration // for the whole query; 0 is DefaultTimeout
}

// forEngine returns the part of q that is sent to each engine.
func (q Query) forEngine() engine.Query {
	return engine.Query{
		Text:       q.Text,
		MaxResults: q.MaxResults,
		Language:   q.Language,
		Region:     q.Region,
		SafeSearch: q.SafeSearch,
		TimeRange:  q.TimeRange,
		Page:       q.Page,
	}
}
