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

// Bounds of what a worker says of itself.
const (
	maxState  = 8 << 20 // bytes of one line
	maxPlaces = 50_000
	maxPlace  = 256 // bytes of the name of a place
	maxDigest = 128 // bytes of the digest of a policy

	maxOnePlace = 4 << 10 // bytes of a place with all that is said of it
)

// state is one line of what a worker says of itself.
type state struct {
	Places       *few[string] `json:"places,omitempty"` // absent where they are as before; in order
	Moves        *few[Marked] `json:"moves,omitempty"`  // the same; places that are frozen, and copies that are not in use
	PolicyDigest string       `json:"policy,omitempty"` // digest of the policy that holds there
	Number       uint64       `json:"number,omitempty"` // of that policy, if it was given to the fleet
	Drains       bool         `json:"drains,omitempty"`
	Time         time.Time    `json:"time"`             // of the worker's clock
	Signed       *Signed      `json:"signed,omitempty"` // the newest checkpoint of its audit log; absent where it is as before
}

// few is a list of at most maxPlaces elements. One with more is not decoded.
type few[T any] []T

// UnmarshalJSON reads a list.
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

// fits reports whether a front can take a state.
func (s *state) fits() bool {
	if s.Signed != nil && !s.Signed.fits() || len(s.PolicyDigest) > maxDigest || strings.Trim(s.PolicyDigest, "0123456789abcdef") != "" {
		return false
	}
	wrong := func(place string) bool { return !isPlace(place) }
	return (s.Places == nil || !slices.ContainsFunc(*s.Places, wrong)) &&
		(s.Moves == nil || !slices.ContainsFunc(*s.Moves, func(m Marked) bool { return wrong(m.Place) || m.Move > claims.MaxMove }))
}

// isPlace reports whether a text can be the name of a place: that of a tenant, or of a tenant and
// of a place of it with a slash between.
func isPlace(s string) bool {
	if len(s) > maxPlace {
		return false
	}
	tenant, place, named := strings.Cut(s, "/")
	return isPart(tenant) && (!named || isPart(place))
}

// isPart reports whether a text can be the name of a tenant, or of a place of one.
func isPart(s string) bool {
	const inner = "._-"
	wrong := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune(inner, c)
	}
	return s != "" && !strings.ContainsRune(inner, rune(s[0])) && strings.IndexFunc(s, wrong) < 0
}

// WorkerInfo is a worker as a front sees it.
type WorkerInfo struct {
	Name         string        `json:"name"`
	Address      string        `json:"address"`
	Version      string        `json:"version,omitempty"`
	Since        time.Time     `json:"since"`             // when it was linked
	Drains       bool          `json:"drains"`            // it takes no more requests
	Places       int           `json:"places"`            // that it has
	Running      int64         `json:"running"`           // requests that this front has sent it
	Skew         time.Duration `json:"skew"`              // how much its clock is ahead
	Expires      time.Time     `json:"expires"`           // its certificate
	Fronts       int           `json:"fronts"`            // to which it connects
	Late         bool          `json:"late,omitempty"`    // its clock is too far off to take places
	PolicyDigest string        `json:"policy,omitempty"`  // digest of the policy that holds there
	Number       uint64        `json:"number,omitempty"`  // of that policy, if it was given to the fleet
	Refused      string        `json:"refused,omitempty"` // why it does not take the one of the fleet
	Behind       bool          `json:"behind,omitempty"`  // it has had another one for too long to take places
}

// Info is what a front knows of its fleet.
type Info struct {
	Workers      []WorkerInfo        `json:"workers"`
	Places       map[string]string   `json:"places"`           // by name: the worker that has each
	Frozen       map[string][]string `json:"frozen"`           // that several workers have, so that none serves them
	Claimed      map[string]string   `json:"claimed"`          // by another worker than has them, which is this one; none serves them
	Moving       []PlaceInfo         `json:"moving,omitempty"` // places that are on their way, and how far
	Away         map[string]string   `json:"away"`             // that no linked worker has: the worker that claimed each
	Expires      time.Time           `json:"expires"`
	Fault        string              `json:"fault,omitempty"`  // why the files of the link cannot be used
	PolicyDigest string              `json:"policy,omitempty"` // digest of the policy of this front
	Number       uint64              `json:"number,omitempty"` // of the policy that was given to the fleet; 0 for none
	Static       []string            `json:"static,omitempty"`
	Refused      string              `json:"refused,omitempty"` // why new places are refused
}
