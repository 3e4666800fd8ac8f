package console

import (
	"context"
	"net/http"
	"time"

	"belljar.dev/internal/control"
)

// EngineHealth is how a search engine is.
type EngineHealth struct {
	Engine  string    `json:"engine"`
	State   string    `json:"state"`
	Outcome string    `json:"outcome,omitempty"` // of its last answer
	Since   time.Time `json:"since,omitzero"`    // when that answer came
	Retry   int64     `json:"retry_ms,omitempty"`
	Slow    int64     `json:"slow_ms,omitempty"` // the longest of its last answers
	Took    []int64   `json:"took_ms"`           // of its last answers, the newest last
}

// EngineTest is what a search engine answered to a harmless query.
type EngineTest struct {
	Engine  string `json:"engine"`
	Outcome string `json:"outcome"`
	Results int    `json:"results"`
	First   string `json:"first_title,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Wrong   string `json:"wrong,omitempty"` // how the answer is not as it should be
	MS      int64  `json:"ms"`
}

// BrowserPool is what the browsers of a server do.
type BrowserPool struct {
	Chromes  int `json:"chromes"`
	Busy     int `json:"busy"` // pages that are read now
	Warm     int `json:"warm"` // pages that wait for a call
	Started  int `json:"started"`
	Died     int `json:"died"`
	Recycled int `json:"recycled"`
	Hung     int `json:"hung"`
	Pages    int `json:"pages"` // that were read, ever
}

// BrowserSeat is a browser that an agent uses.
type BrowserSeat struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Profile string `json:"profile"`
	State   string `json:"state"` // new, live, frozen or parked
	Tabs    int    `json:"tabs"`
	Memory  int64  `json:"memory"`            // bytes of its box
	HeldBy  string `json:"held_by,omitempty"` // the person who has stopped its agent
}

// Todo is what an agent has to do.
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
	ID     string    `json:"id"` // the name of its file
	Title  string    `json:"title"`
	Saved  time.Time `json:"saved"`
}

// ArmedCallback is what an agent asked to be told.
type ArmedCallback struct {
	ID      int64     `json:"callback_id"`
	Tenant  string    `json:"tenant"`
	Place   string    `json:"place"`
	Message string    `json:"message"`
	Next    time.Time `json:"next"`
	Left    int       `json:"left,omitempty"` // times; absent for no end
}

// Work is what agents keep from one session to the next.
type Work struct {
	Todos     []Todo          `json:"todos"`
	Plans     []SavedPlan     `json:"plans"`
	Callbacks []ArmedCallback `json:"callbacks"`
	More      int             `json:"more,omitempty"` // of all, that there is no room for
}

// Tools has what the tools of a server work with.
type Tools interface {
	Engines() []EngineHealth
	// TestEngine asks one engine a harmless query, like `search doctor --live`.
	TestEngine(ctx context.Context, name string) (EngineTest, error)
	Pools() []BrowserPool
	Seats() []BrowserSeat
	// Shot is what a live seat shows now, as a PNG or JPEG. A page of the web drew it.
	Shot(ctx context.Context, id string) ([]byte, error)
	// HoldSeat stops the acts of a seat's agent for a person, and ReleaseSeat lets them go on.
	HoldSeat(ctx context.Context, id, by string) error
	ReleaseSeat(id, by string) error
	// Work is what agents of the tenants keep that a scope sees.
	Work(context.Context, Scope) (Work, error)
}

func listEngines(r *request) (any, error) {
	return struct {
		Engines []EngineHealth `json:"engines"`
	}{r.views.Tools.Engines()}, nil
}

// testMost is how long an engine has to answer a test.
const testMost = 15 * time.Second

// testEngine asks one engine something. One test goes on at a time: each is a request to a
// server of somebody else.
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

// showBrowser is the pool, the boxes of its browsers, and the browsers that agents use.
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
