package console

import (
	"time"

	"belljar.dev/internal/control"
)

// Minutes is how far back the calls of a server are counted.
const Minutes = 60

// Calls are how many calls there were in each minute since the server began, at most
// Minutes of them, by what the policy said.
type Calls struct {
	Minute []time.Time `json:"minute"`
	Allow  []int       `json:"allow"`
	Ask    []int       `json:"ask"`
	Deny   []int       `json:"deny"`
}

// RuleUse is how often a rule has decided since the server began.
type RuleUse struct {
	ID    string    `json:"id"`
	File  string    `json:"file,omitempty"`
	Line  int       `json:"line,omitempty"`
	Calls int       `json:"calls"`
	Last  time.Time `json:"last"`
}

// Counts has what is counted of calls.
type Counts interface {
	// Calls are those of the tenants that a scope sees.
	Calls(Scope) Calls
	Rules() []RuleUse
	Tenants() []control.Tenant
}

// showStats is an overview.
func showStats(r *request) (any, error) {
	v := r.views
	out := struct {
		Calls   Calls            `json:"calls"`
		Tenants []control.Tenant `json:"tenants"`
		Boxes   []boxStats       `json:"boxes,omitempty"`
		Every   float64          `json:"every"` // seconds between two samples of a box
	}{v.Counts.Calls(v.scope), v.Counts.Tenants(), nil, sampleEvery.Seconds()}
	if v.Runs != nil {
		out.Boxes = r.console.usage.stats(v.Runs.Boxes())
	}
	return out, nil
}
