package engine

// Query is what one engine is asked. Only Text must be set.
type Query struct {
	Text       string
	MaxResults int    // how many results are wanted; 0 is 10
	Language   string // ISO 639 code, such as "en"; "" leaves it to the engine
	Region     string // ISO 3166 code, such as "US"; "" leaves it to the engine
	SafeSearch string // off, moderate or strict; "" is moderate
	TimeRange  string // day, week, month or year; "" is any time
	Page       int    // from 1; 0 is 1
}

// Keys are the values of secrets that engines need, by the names that engine
// files give them (key and url). They come from the operator's secrets, never
// from a call.
type Keys map[string]string
