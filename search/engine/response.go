package engine

import (
	"net/http"
	"time"
)

// MaxBody bounds the part of an answer that is read, in bytes after decompression.
const MaxBody = 2 << 20

// Request is one HTTP request to an engine.
type Request struct {
	Method string
	URL    string // address on one of the engine's hosts
	Header http.Header
	Body   []byte // nil for a GET
}

// Response is the response to a Request, after redirects between the engine's hosts.
type Response struct {
	Status    int // HTTP status; 0 if it is not known, for example of a recorded body
	Header    http.Header
	Body      []byte // decompressed, at most MaxBody bytes
	FinalURL  string // address of Body; a redirect that was not followed is in Header
	Truncated bool   // reports whether the answer was longer than Body
}

// Hit is one result of one engine, with its address unwrapped and its markup removed. Its
// texts were written by others.
type Hit struct {
	Title     string
	URL       string    // http or https, absolute
	Snippet   string    // may be empty
	Rank      int       // position in the answer, from 1
	Published time.Time // zero if the engine does not give a date

	href string // URL, or a relative address if the answer has one
}

// Parsed is the result of one answer.
type Parsed struct {
	Outcome    Outcome
	Hits       []Hit
	Suggestion string        // better spelling that the engine offers; may be empty
	Answer     string        // answer that the engine gives itself; may be empty
	Detail     string        // reason for the outcome; does not contain the query
	RetryAfter time.Duration // how long the engine asks us to wait; 0 if it does not ask
}
