package engine

// Query is the question to one engine. Only Text must be set.
type Query struct {
	Text       string
	MaxResults int    // number of results that are wanted; 0 is 10
	Language   string // ISO 639 code, such as "en"; "" leaves it to the engine
	Region     string // ISO 3166 code, such as "US"; "" leaves it to the engine
	SafeSearch string // off, moderate or strict; "" is moderate
	TimeRange  string // day, week, month or year; "" is any time
	Page       int    // number of the page, from 1; 0 is 1
}

// Keys are the values of the secrets that engines need, by the names in the engine files
// (key, optional_key and url). They come from the operator's secrets, never from a call.
type Keys map[string]string
