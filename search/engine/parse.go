package engine

// Parse says what one answer means: Engine.Exchange without the requests, for
// recorded bodies and tests. It never panics, whatever the body is.
//
// Results come first: where there are any, nothing else on the page counts.
// Then come the engine's own proofs of a block, its proof of emptiness, and
// what shows a block anywhere. Any other page is drift if it is one of
// results all the same, and a block if not: it is never empty.
func (e *Engine) Parse(r Response) (p Parsed) {
	defer func() {
		// Cascadia and the tokenizer are not ours, and the body is anybody's.
		if recover() != nil {
			p = Parsed{Outcome: Drift, Detail: "its answer could not be read"}
		}
	}()
	if len(r.Body) > MaxBody {
		r.Body, r.Truncated = r.Body[:MaxBody], true
	}
	b := newBody(e, r)
	for _, a := range e.answers {
		if b.read(a); len(b.parsed.Hits) > 0 && b.fine() {
			b.parsed.Outcome = OK
			break
		}
	}
	if b.parsed.Outcome != OK {
		b.parsed.Hits = nil
		b.parsed.Outcome, b.parsed.Detail = b.why()
	}
	b.parsed.RetryAfter = b.retryAfter()
	return b.parsed
}

// read takes the results that a describes.
func (b *body) read(a *answer) {
	if !b.suits(a) || len(a.items) == 0 && !a.columns {
		return
	}
	if a.format == formatJSON {
		b.readValue(a)
	} else {
		b.readTree(a)
	}
}
