package toolkit

// result is what an analysis returns, and is marshalled as it is.
type result interface {
	tell(t *text, detailed bool)
	findings() []finding
	missing() []string
	place() string
}

// gated is a result that can fail.
type gated interface{ failed() bool }

// documented is a result with forms of its own.
type documented interface {
	document(format string) (whole []byte, ok bool)
}

// analysis is the part of its arguments that measures.
type analysis interface {
	run(r *reading) (result, error)
}
