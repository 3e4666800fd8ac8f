package fleet

import (
	"context"
	"encoding/json"
)

// Signed is a checkpoint of the audit log of a worker, with the public key of that log.
// Nothing of this package reads either.
type Signed struct {
	Key        string `json:"key,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Sighting is a checkpoint that a witness has in its own audit log.
type Sighting struct {
	By     string `json:"by,omitempty"` // the witness
	Worker string `json:"worker"`       // whose log it is of
	Signed
}

// Audit is the audit log of a worker, as far as it has to do with other workers. Its methods
// are safe for concurrent use.
type Audit interface {
	// Newest returns the newest checkpoint that others are to keep; zero for none.
	Newest() Signed
	// Keep writes down a checkpoint of another worker's log.
	Keep(ctx context.Context, worker string, s Signed) error
	// Kept returns what Keep has written down, as much as a front takes.
	Kept(ctx context.Context) ([]Sighting, error)
	// Verify compares the log with what witnesses have kept of it. keys are those that it is known
	// to have had; nil where nobody knows. Its report is JSON.
	Verify(ctx context.Context, seen []Sighting, keys []string) ([]byte, error)
}

// Audited is what a front found out about the audit log of a worker.
type Audited struct {
	Worker  string          `json:"worker"`
	Report  json.RawMessage `json:"report,omitempty"`  // of Audit.Verify
	Seen    int             `json:"seen"`              // checkpoints that other workers have of it
	Error   string          `json:"error,omitempty"`   // why there is no report
	Unheard string          `json:"unheard,omitempty"` // why not all that it has kept of others was compared
}

// Bounds of what is said about audit logs.
const (
	// MaxSigned is the most bytes of a checkpoint and its key together.
	MaxSigned = 4 << 10
	// MaxKept is how many checkpoints of one log a witness shows to a front.
	MaxKept      = 256
	maxReport    = 64 << 10
	maxKeptText  = 32 << 20 // of one witness
	maxShown     = 100_000  // checkpoints that it shows
	maxSighting  = 4 * MaxSigned
	maxCompared  = maxLinks * MaxKept // of one log
	maxSightings = 256 << 20
)

// fits reports whether a front can take a checkpoint.
func (s Signed) fits() bool { return s.size() <= MaxSigned }

// size is how many bytes a checkpoint has with its key.
func (s Signed) size() int { return len(s.Key) + len(s.Checkpoint) }
