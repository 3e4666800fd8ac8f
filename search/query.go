package search

import "time"

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

// Keys are the values of secrets that engines need, by the names that engine
// files give them (key and url). They come from the operator's secrets, never
// from a call.
type Keys map[string]string
