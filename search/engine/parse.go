package engine

// Parse returns the meaning of one answer. It does the same as an Exchange without the
// requests, for recorded bodies and tests. It never panics, whatever the body is.
//
// Results come first: if there are any, nothing else on the page counts. After that come
// the engine's own proofs of a block, then its proof of emptiness, then the proofs of a
// block that are common to all engines. A page without any proof is never empty: it is
// drift if it looks like a page of results, and a block if not.
func (e *Engine) Parse(r Response) (p Parsed) {
	defer func() {
		// The code of Cascadia and of the tokenizer is not ours, and anybody can send the
		// body.
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

// read takes the results in the form that a describes.
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
