package shell

// read reads a text, and returns its fault or nil.
func (r *reader) read(text string, at place) *Error {
	stmts, fault := parse(&bashParsers, text)
	r.text, r.place, r.stmts, r.free = text, at, stmts, nil
	r.list(stmts)
	return fault
}

// nested reads the text that another command runs. It returns why the text may run more
// than is then listed, or "". extra are variables that the command sets for the text.
func (r *reader) nested(text string, via []string, at place, extra []Assign, sameShell bool) string {
	r.taken += len(text)
	switch {
	case r.taken > maxNested:
		r.stop(TooMany, "its texts in texts are longer than 256 KiB together")
		return "it contains too much text"
	case r.depth >= MaxDepth/2:
		r.stop(TooDeep, "it nests texts in texts too deeply")
		return "it nests too deeply"
	}
	if err := guard(text); err != nil {
		return "the text that it is given cannot be read: " + err.Why
	}
	inner := newReader(r.out)
	inner.via, inner.inherited, inner.risky = via, extra, r.risk()
	inner.depth, inner.taken, inner.made = r.depth+1, r.taken, r.made
	fault := inner.read(text, place{start: at.start, end: at.end, line: at.line, whole: true})
	r.taken, r.made = inner.taken, inner.made
	if inner.err != nil && r.err == nil {
		r.err = inner.err
	}
	if sameShell {
		r.loops = nil // the text may have set the loop variables
	}
	if fault != nil {
		return "the text that it is given cannot be read: " + fault.Why
	}
	return ""
}
