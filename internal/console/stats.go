package console

import (
	"time"

	"belljar.dev/internal/control"
)

// Minutes is the number of past minutes for which calls are counted.
const Minutes = 60

// Calls are the numbers of calls in each minute since the server began, for at most Minutes
// minutes, by verdict.
type Calls struct {
	Minute []time.Time `json:"minute"`
	Allow  []int       `json:"allow"`
	Ask    []int       `json:"ask"`
	Deny   []int       `json:"deny"`
}

// RuleUse says how often a rule has decided since the server began.
type RuleUse struct {
	ID    string    `json:"id"`
	File  string    `json:"file,omitempty"`
	Line  int       `json:"line,omitempty"`
	Calls int       `json:"calls"`
	Last  time.Time `json:"last"`
}

// Counts gives access to the counts of calls.
type Counts interface {
	// Calls returns the counts for the tenants that a scope contains.
	Calls(Scope) Calls
	Rules() []RuleUse
	Tenants() []control.Tenant
}

// showStats returns an overview.
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
