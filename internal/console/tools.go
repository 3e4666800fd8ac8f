package console

import (
	"context"
	"net/http"
	"time"

	"belljar.dev/internal/control"
)

// EngineHealth describes the state of a search engine.
type EngineHealth struct {
	Engine  string    `json:"engine"`
	State   string    `json:"state"`
	Outcome string    `json:"outcome,omitempty"` // outcome of its last answer
	Since   time.Time `json:"since,omitzero"`    // time of its last answer
	Retry   int64     `json:"retry_ms,omitempty"`
	Slow    int64     `json:"slow_ms,omitempty"` // duration of the slowest of its last answers
	Took    []int64   `json:"took_ms"`           // durations of its last answers, the newest last
}

// EngineTest is the result of a harmless query to a search engine.
type EngineTest struct {
	Engine  string `json:"engine"`
	Outcome string `json:"outcome"`
	Results int    `json:"results"`
	First   string `json:"first_title,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Wrong   string `json:"wrong,omitempty"` // what is wrong with the answer
	MS      int64  `json:"ms"`
}

// BrowserPool describes the browsers that a server shares among calls.
type BrowserPool struct {
	Chromes  int `json:"chromes"`
	Busy     int `json:"busy"` // number of pages that are being read
	Warm     int `json:"warm"` // number of warm pages that wait for a call
	Started  int `json:"started"`
	Died     int `json:"died"`
	Recycled int `json:"recycled"`
	Hung     int `json:"hung"`
	Pages    int `json:"pages"` // number of pages that were read since the start
}

// BrowserSeat is a browser that an agent uses.
type BrowserSeat struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Profile string `json:"profile"`
	State   string `json:"state"` // new, live, frozen or parked
	Tabs    int    `json:"tabs"`
	Memory  int64  `json:"memory"`            // memory of its box in bytes
	HeldBy  string `json:"held_by,omitempty"` // person who has stopped its agent
}

// Todo is a todo of an agent.
type Todo struct {
	ID     int64      `json:"id"`
	Tenant string     `json:"tenant"`
	Place  string     `json:"place"`
	Title  string     `json:"title"`
	State  string     `json:"state"`
	Steps  []TodoStep `json:"steps"`
}

// TodoStep is a step of a todo.
type TodoStep struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

// SavedPlan is a plan that an agent wrote.
type SavedPlan struct {
	Tenant string    `json:"tenant"`
	Place  string    `json:"place"`
	ID     string    `json:"id"` // name of its file
	Title  string    `json:"title"`
	Saved  time.Time `json:"saved"`
}

// ArmedCallback is a callback that an agent has set.
type ArmedCallback struct {
	ID      int64     `json:"callback_id"`
	Tenant  string    `json:"tenant"`
	Place   string    `json:"place"`
	Message string    `json:"message"`
	Next    time.Time `json:"next"`
	Left    int       `json:"left,omitempty"` // how often it will still fire; absent if it has no end
}

// Work is the work of agents that is kept between sessions.
type Work struct {
	Todos     []Todo          `json:"todos"`
	Plans     []SavedPlan     `json:"plans"`
	Callbacks []ArmedCallback `json:"callbacks"`
	More      int             `json:"more,omitempty"` // number of entries of all kinds that were left out
}

// Tools gives access to the data of a server's tools.
type Tools interface {
	Engines() []EngineHealth
	// TestEngine sends a harmless query to one engine, like `search doctor --live`.
	TestEngine(ctx context.Context, name string) (EngineTest, error)
	Pools() []BrowserPool
	Seats() []BrowserSeat
	// Shot returns a picture of what a live seat shows now, as a PNG or JPEG. The content
	// comes from a web page.
	Shot(ctx context.Context, id string) ([]byte, error)
	// HoldSeat stops the actions of a seat's agent for a person, and ReleaseSeat lets them
	// continue.
	HoldSeat(ctx context.Context, id, by string) error
	ReleaseSeat(id, by string) error
	// Work returns the work of the agents of the tenants in a scope.
	Work(context.Context, Scope) (Work, error)
}

func listEngines(r *request) (any, error) {
	return struct {
		Engines []EngineHealth `json:"engines"`
	}{r.views.Tools.Engines()}, nil
}

// testMost is how long a test waits for an engine.
const testMost = 15 * time.Second

// testEngine sends a query to one engine. Only one test runs at a time, because each is a
// request to another party's server.
func testEngine(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	if !r.console.turns.test.TryLock() {
		return nil, fault(http.StatusTooManyRequests, "another engine is being tested; try again when that has ended")
	}
	defer r.console.turns.test.Unlock()
	ctx, cancel := context.WithTimeout(r.context(), testMost)
	defer cancel()
	return r.views.Tools.TestEngine(ctx, r.named("name"))
}

// showBrowser returns the pools, the boxes of their browsers, and the browsers that agents
// use.
func showBrowser(r *request) (any, error) {
	boxes := []control.Box{}
	if r.views.Runs != nil {
		for _, b := range r.views.Runs.Boxes() {
			if b.Browser {
				boxes = append(boxes, b)
			}
		}
	}
	return struct {
		Pools []BrowserPool `json:"pools"`
		Boxes []control.Box `json:"boxes"`
		Seats []BrowserSeat `json:"seats"`
	}{r.views.Tools.Pools(), boxes, r.views.Tools.Seats()}, nil
}

func showWork(r *request) (any, error) { return r.views.Tools.Work(r.context(), r.who.Scope) }
