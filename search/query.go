package search

import (
	"time"

	"belljar.dev/search/engine"
)

// Query is what somebody wants to know. Only Text must be set.
type Query struct {
	Text       string
	MaxResults int      // how many merged results are wanted; 0 is 10
	Engines    []string // names of engines to ask, instead of those of the category
	Category   string   // general, code, academic or news; "" is general
	Language   string   // ISO 639 code, such as "en"; "" leaves it to the engines
	Region     string   // ISO 3166 code, such as "US"; "" leaves it to the engines
	SafeSearch string   // off, moderate or strict; "" is moderate
	TimeRange  string   // day, week, month or year; "" is any time
	Page       int      // from 1; 0 is 1

	AllowedDomains []string // results of these and their subdomains only
	BlockedDomains []string // no results of these and their subdomains

	Timeout time.Duration // for the whole query; 0 is the fan's default
}

// forEngine returns the part of q that each engine is asked.
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
