package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"belljar.dev/internal/control"
)

// Pin is a definition of an upstream that waits for a decision.
type Pin struct {
	Upstream string
	Tenant   string
	Place    string // workspace whose file has the entry; empty for a file of the operator
	Name     string // name of the definition
	What     string // new, changed or removed
	Since    time.Time
	Findings []string // parts that look as if they were made to deceive
	Diff     string   // old text next to new text; every hidden character is visible
	Cut      bool     // whether Diff does not show everything
	Version  string   // version that a decision must name
}

// Upstreams gives access to the upstreams of a server.
type Upstreams interface {
	All() []control.Upstreams
	// Restart ends the instances of an upstream, which then start again, and returns how
	// many there were.
	Restart(ctx context.Context, name, by string) (int, error)
	// Login begins a login at an upstream. The browser is redirected to the URL redirect.
	Login(ctx context.Context, at LoginTarget, by, redirect string) (*UpstreamLogin, error)
	Pins(ctx context.Context) ([]Pin, error)
	// Decide decides about the definition with a version. It returns an error if no
	// definition has that version.
	Decide(ctx context.Context, upstream, version string, approve bool, by string) error
}

func listUpstreams(r *request) (any, error) { return r.views.Upstreams.All(), nil }

// restartUpstream restarts an upstream.
func restartUpstream(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	n, err := r.views.Upstreams.Restart(r.context(), r.named("name"), r.who.Name)
	if _, known := errors.AsType[*Error](err); err != nil && !known {
		err = &Error{http.StatusNotFound, err}
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Instances int `json:"instances"`
	}{n}, nil
}

// shownPin is a definition that waits, in the form for a page.
type shownPin struct {
	Upstream string     `json:"upstream"`
	Tenant   string     `json:"tenant"`
	Place    string     `json:"place,omitempty"`
	Name     string     `json:"name"`
	What     string     `json:"what"`
	Since    time.Time  `json:"since,omitzero"` // when the earlier version was trusted
	Findings []string   `json:"findings,omitempty"`
	Lines    []diffLine `json:"lines"`
	Cut      bool       `json:"cut,omitempty"`
	Version  string     `json:"version"`
	Command  string     `json:"command"`
}

// MaxPinLines is the maximum number of lines of one definition. A page cuts a longer
// definition.
const MaxPinLines = 500

// shownPins returns the first maxInbox definitions in the form for a page.
func shownPins(pins []Pin) []shownPin {
	all := []shownPin{}
	for _, p := range pins[:min(len(pins), maxInbox)] {
		one := shownPin{
			Upstream: p.Upstream, Tenant: p.Tenant, Place: p.Place, Name: p.Name, What: p.What, Since: p.Since, Findings: p.Findings,
			Lines: []diffLine{}, Cut: p.Cut, Version: p.Version, Command: "belljar upstream approve " + p.Upstream,
		}
		for line := range strings.Lines(p.Diff) {
			if len(one.Lines) == MaxPinLines {
				one.Cut = true
				break
			}
			line = strings.TrimSuffix(line, "\n")
			kind := " "
			if line != "" && strings.ContainsRune("+-@", rune(line[0])) {
				kind = line[:1]
			}
			one.Lines = append(one.Lines, diffLine{kind, shownLine(strings.TrimPrefix(line, kind))})
		}
		all = append(all, one)
	}
	return all
}

// decidePin decides about a definition.
func decidePin(r *request) (any, error) {
	var said struct {
		Approve bool   `json:"approve"`
		Version string `json:"version"`
		Name    string `json:"name"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	if said.Version == "" {
		return nil, fault(http.StatusBadRequest, "the version is missing: a decision names the version of the definition that it is about")
	}
	return struct{}{}, r.views.Upstreams.Decide(r.context(), r.named("name"), said.Version, said.Approve, r.who.Name)
}
