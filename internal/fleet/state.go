package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/jsonlist"
)

// Bounds of the state of a worker.
const (
	maxState  = 8 << 20 // bytes of one line
	maxPlaces = 50_000
	maxPlace  = 256 // bytes of the name of a place
	maxDigest = 128 // bytes of the digest of a policy

	maxOnePlace = 4 << 10 // bytes of one element of a list of places
)

// state is one line of the states that a worker sends.
type state struct {
	Places *few[string] `json:"places,omitempty"` // places in order; absent if unchanged
	// frozen places, and copies that are not in use; absent if unchanged
	Moves        *few[Marked] `json:"moves,omitempty"`
	PolicyDigest string       `json:"policy,omitempty"` // digest of the policy in force at the worker
	Number       uint64       `json:"number,omitempty"` // number of that policy, if it was given to the fleet
	Drains       bool         `json:"drains,omitempty"`
	Time         time.Time    `json:"time"`             // time of the worker's clock
	Signed       *Signed      `json:"signed,omitempty"` // newest checkpoint of its audit log; absent if unchanged
}

// few is a list of at most maxPlaces elements. A longer list is not decoded.
type few[T any] []T

// UnmarshalJSON decodes a list.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	*f = few[T]{}
	return jsonlist.Each(bytes.NewReader(text), jsonlist.Bounds{Elements: maxPlaces, Bytes: maxOnePlace}, func(text json.RawMessage) error {
		var one T
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		*f = append(*f, one)
		return nil
	})
}

// fits reports whether a front accepts a state.
func (s *state) fits() bool {
	if s.Signed != nil && !s.Signed.fits() || len(s.PolicyDigest) > maxDigest || strings.Trim(s.PolicyDigest, "0123456789abcdef") != "" {
		return false
	}
	wrong := func(place string) bool { return !isPlace(place) }
	return (s.Places == nil || !slices.ContainsFunc(*s.Places, wrong)) &&
		(s.Moves == nil || !slices.ContainsFunc(*s.Moves, func(m Marked) bool { return wrong(m.Place) || m.Move > claims.MaxMove }))
}

// isPlace reports whether a text can be the name of a place: the name of a tenant, or the
// names of a tenant and of one of its places with a slash between.
func isPlace(s string) bool {
	if len(s) > maxPlace {
		return false
	}
	tenant, place, named := strings.Cut(s, "/")
	return isPart(tenant) && (!named || isPart(place))
}

// isPart reports whether a text can be the name of a tenant, or of a place of a tenant.
func isPart(s string) bool {
	const inner = "._-"
	wrong := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune(inner, c)
	}
	return s != "" && !strings.ContainsRune(inner, rune(s[0])) && strings.IndexFunc(s, wrong) < 0
}

// WorkerInfo describes a worker for people.
type WorkerInfo struct {
	Name         string        `json:"name"`
	Address      string        `json:"address"`
	Version      string        `json:"version,omitempty"`
	Since        time.Time     `json:"since"`             // when the worker was linked
	Drains       bool          `json:"drains"`            // whether it drains, and accepts no further requests
	Places       int           `json:"places"`            // number of its places
	Running      int64         `json:"running"`           // number of this front's requests that it is running
	Skew         time.Duration `json:"skew"`              // how much its clock is ahead
	Expires      time.Time     `json:"expires"`           // when its certificate expires
	Fronts       int           `json:"fronts"`            // number of fronts to which it connects
	Late         bool          `json:"late,omitempty"`    // whether its clock is too wrong for new places
	PolicyDigest string        `json:"policy,omitempty"`  // digest of its policy
	Number       uint64        `json:"number,omitempty"`  // number of its policy, if that was given to the fleet
	Refused      string        `json:"refused,omitempty"` // why it refuses the policy of the fleet
	// whether it has had another policy for too long to get new places
	Behind bool `json:"behind,omitempty"`
}

// Info describes a fleet as its front knows it.
type Info struct {
	Workers []WorkerInfo      `json:"workers"`
	Places  map[string]string `json:"places"` // worker of each place
	// workers of each place that several workers have; none serves it
	Frozen map[string][]string `json:"frozen"`
	// claiming worker of each place that only another worker has; none serves it
	Claimed      map[string]string `json:"claimed"`
	Moving       []PlaceInfo       `json:"moving,omitempty"` // places that are moving, and their progress
	Away         map[string]string `json:"away"`             // claiming worker of each place that no linked worker has
	Expires      time.Time         `json:"expires"`
	Fault        string            `json:"fault,omitempty"`  // why the files of the link cannot be used
	PolicyDigest string            `json:"policy,omitempty"` // digest of the policy of this front
	// number of the policy that was given to the fleet; 0 without one
	Number  uint64   `json:"number,omitempty"`
	Static  []string `json:"static,omitempty"`
	Refused string   `json:"refused,omitempty"` // why no new places are made
}
