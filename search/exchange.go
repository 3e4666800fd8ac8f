package search

// Exchange leads one query through one engine, which may take more than one
// request: a token first, or another format where the first was turned away.
// It does no I/O: the caller sends what Next says and tells the answer.
//
//	x, err := e.Exchange(q, keys)
//	for {
//		req, more := x.Next()
//		if !more {
//			break
//		}
//		x.Answer(send(req)) // or give up, and make an outcome of the error
//	}
//	parsed := x.Parsed()
//
// It is for one goroutine.
type Exchange struct {
	parsed Parsed
}

// Exchange starts one. The error says what the engine cannot do: there is no
// key, or the query asks for what it does not have (as a second page).
func (e *Engine) Exchange(q Query, keys Keys) (*Exchange, error) {
	return &Exchange{}, nil
}

// Next is the request to make now; false says that the exchange is at its end.
// There are never more than a few.
func (x *Exchange) Next() (Request, bool) { return Request{}, false }

// Answer tells what came back for the request that Next gave.
func (x *Exchange) Answer(r Response) {}

// Parsed is the result of the exchange at its end.
func (x *Exchange) Parsed() Parsed { return x.parsed }

// Parse says what one answer means: Engine.Exchange without the requests, for
// recorded bodies and tests. It never panics, whatever the body is.
func (e *Engine) Parse(r Response) Parsed { return Parsed{Outcome: Drift} }
