package engine

import (
	"net/http"
	"time"
)

// MaxBody is how much of an answer is read, in bytes after decompression.
const MaxBody = 2 << 20

// Request is one HTTP request of an engine.
type Request struct {
	Method string
	URL    string // on one of the engine's hosts
	Header http.Header
	Body   []byte // nil for a GET
}

// Response is what came back for a Request, after redirects inside the
// engine's hosts.
type Response struct {
	Status    int // 0 where it is not known, as of a recorded body
	Header    http.Header
	Body      []byte // decompressed, MaxBody at most
	FinalURL  string // where Body was read; a redirect that was not followed is in Header
	Truncated bool   // there was more than Body holds
}

// Hit is one result of one engine, unwrapped and with its markup removed. Its
// texts are a stranger's.
type Hit struct {
	Title     string
	URL       string    // http or https, absolute
	Snippet   string    // may be empty
	Rank      int       // from 1
	Published time.Time // zero where the engine does not say

	href string // URL, but relative where the answer has it so
}

// Parsed is what one answer says.
type Parsed struct {
	Outcome    Outcome
	Hits       []Hit
	Suggestion string        // a better spelling that the engine offers; may be empty
	Answer     string        // an answer that the engine gives itself; may be empty
	Detail     string        // what the outcome rests on; holds nothing of the query
	RetryAfter time.Duration // how long the engine asks to wait; 0 where it does not say
}
