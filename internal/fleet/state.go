package fleet

import (
	"slices"
	"strings"
	"time"
)

// Bounds of what a worker says of itself.
const (
	maxState  = 8 << 20 // bytes of one line
	maxPlaces = 50_000
	maxPlace  = 256 // bytes of the name of a place
	maxPolicy = 128 // bytes of the digest of a policy
)

// state is one line of what a worker says of itself.
type state struct {
	Places *[]string `json:"places,omitempty"` // absent where they are as before; in order
	Moves  *[]Moving `json:"moves,omitempty"`  // the same; places that are frozen, and copies that are not in use
	Policy string    `json:"policy,omitempty"` // digest of the policy that holds there
	Drains bool      `json:"drains,omitempty"`
	Time   time.Time `json:"time"`             // of the worker's clock
	Signed *Signed   `json:"signed,omitempty"` // the newest checkpoint of its audit log; absent where it is as before
}

// fits reports whether a front can take a state.
func (s *state) fits() bool {
	if s.Signed != nil && !s.Signed.fits() || len(s.Policy) > maxPolicy || strings.Trim(s.Policy, "0123456789abcdef") != "" {
		return false
	}
	name := func(p string) bool { return p == "" || len(p) > maxPlace }
	return (s.Places == nil || len(*s.Places) <= maxPlaces && !slices.ContainsFunc(*s.Places, name)) &&
		(s.Moves == nil || len(*s.Moves) <= maxPlaces && !slices.ContainsFunc(*s.Moves, func(m Moving) bool { return name(m.Place) }))
}

// WorkerInfo is a worker as a front sees it.
type WorkerInfo struct {
	Name    string        `json:"name"`
	Address string        `json:"address"`
	Version string        `json:"version,omitempty"`
	Since   time.Time     `json:"since"`            // when it was linked
	Drains  bool          `json:"drains"`           // it takes no more requests
	Places  int           `json:"places"`           // that it has
	Running int64         `json:"running"`          // requests that this front has sent it
	Skew    time.Duration `json:"skew"`             // how much its clock is ahead
	Expires time.Time     `json:"expires"`          // its certificate
	Fronts  int           `json:"fronts"`           // to which it connects
	Late    bool          `json:"late,omitempty"`   // its clock is too far off to take places
	Policy  string        `json:"policy,omitempty"` // digest of the policy that holds there
}

// Info is what a front knows of its fleet.
type Info struct {
	Workers []WorkerInfo        `json:"workers"`
	Places  map[string]string   `json:"places"`           // by name: the worker that has each
	Frozen  map[string][]string `json:"frozen"`           // that several workers have, so that none serves them
	Claimed map[string]string   `json:"claimed"`          // by another worker than has them, which is this one; none serves them
	Moving  []PlaceInfo         `json:"moving,omitempty"` // places that are on their way, and how far
	Away    map[string]string   `json:"away"`             // that no linked worker has: the worker that claimed each
	Expires time.Time           `json:"expires"`
	Fault   string              `json:"fault,omitempty"`  // why the files of the link cannot be used
	Policy  string              `json:"policy,omitempty"` // digest of the policy of this front
	Static  []string            `json:"static,omitempty"`
	Refused string              `json:"refused,omitempty"` // why new places are refused
}
