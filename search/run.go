package search

import (
	"context"
	"sync"
	"time"

	"belljar.dev/search/engine"
)

// enough is of how many indexes of the general web results should be there.
const enough = 3

// run is the state of lead. It is of one goroutine but for the asking.
type run struct {
	f     *Fan
	fl    *flight
	plan  *plan
	door  Door
	start time.Time
	ctx   context.Context //nolint:containedctx // the run is one call of lead
	timed context.Context //nolint:containedctx // ctx until the query's time is up

	asking  sync.WaitGroup
	answers chan arrival // has room for all

	all      []*entry
	running  int
	softOver bool
	timeOver bool
	browsing bool
	given    bool // the report was given out
	late     bool // something came in after the report was given out
}

// entry is one engine of a run.
type entry struct {
	engine  *engine.Engine
	asked   Asked
	parsed  engine.Parsed
	done    bool
	probe   bool // left alone until now: nobody waits for it
	awaited bool
}

// arrival is the answer of an entry.
type arrival struct {
	entry *entry
	heard heard
}
