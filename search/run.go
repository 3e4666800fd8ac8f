package search

import (
	"context"
	"sync"
	"time"

	"belljar.dev/search/engine"
)

// enough is the number of indexes of the general web that should have results.
const enough = 3

// run is the state of lead. Only one goroutine uses it, except for asking the engines.
type run struct {
	f     *Fan
	fl    *flight
	plan  *plan
	door  Door
	start time.Time
	ctx   context.Context //nolint:containedctx // the run is one call of lead
	timed context.Context //nolint:containedctx // ctx, which ends when the time of the query is over

	asking  sync.WaitGroup
	answers chan arrival // has room for all answers

	all      []*entry
	running  int
	softOver bool
	timeOver bool
	browsing bool
	given    bool // reports whether the report was published
	late     bool // reports whether an answer arrived after the report was published
}

// entry is one engine of a run.
type entry struct {
	engine  *engine.Engine
	asked   Asked
	parsed  engine.Parsed
	done    bool
	probe   bool // reports whether it was left alone until now, so nobody waits for it
	awaited bool
}

// arrival is the answer of an entry.
type arrival struct {
	entry *entry
	heard heard
}
