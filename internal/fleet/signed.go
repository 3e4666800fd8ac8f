package fleet

import (
	"context"
	"encoding/json"
)

// Signed is a checkpoint of a worker's audit log, with the public key of that log. This
// package does not interpret either of them.
type Signed struct {
	Key        string `json:"key,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Sighting is a checkpoint that a witness keeps in its own audit log.
type Sighting struct {
	By     string `json:"by,omitempty"` // name of the witness
	Worker string `json:"worker"`       // worker whose log has the checkpoint
	Signed
}

// Audit gives access to the audit log of a worker, for its exchange with other workers. Its
// methods are safe for concurrent use.
type Audit interface {
	// Newest returns the newest checkpoint that others should keep; zero before the first.
	Newest() Signed
	// Keep stores a checkpoint of another worker's log.
	Keep(ctx context.Context, worker string, s Signed) error
	// Kept returns the stored checkpoints, as many as a front accepts.
	Kept(ctx context.Context) ([]Sighting, error)
	// Verify compares the log with the checkpoints that witnesses have kept of it. keys are
	// the keys that the log is known to have had; nil if they are not known. The report is
	// JSON.
	Verify(ctx context.Context, seen []Sighting, keys []string) ([]byte, error)
}

// Audited is the result of an audit of one worker's log.
type Audited struct {
	Worker  string          `json:"worker"`
	Report  json.RawMessage `json:"report,omitempty"`  // report of Audit.Verify
	Seen    int             `json:"seen"`              // number of its checkpoints that other workers have kept
	Error   string          `json:"error,omitempty"`   // why there is no report
	Unheard string          `json:"unheard,omitempty"` // why not all checkpoints that it has kept of others were compared
}

// Bounds of checkpoints and reports.
const (
	// MaxSigned is the maximum size of a checkpoint and its key together, in bytes.
	MaxSigned = 4 << 10
	// MaxKept is how many checkpoints of one log a witness sends to a front.
	MaxKept      = 256
	maxReport    = 64 << 10
	maxKeptText  = 32 << 20 // bytes of checkpoints from one witness
	maxShown     = 100_000  // number of checkpoints from one witness
	maxSighting  = 4 * MaxSigned
	maxCompared  = maxLinks * MaxKept // number of checkpoints of one log
	maxSightings = 256 << 20
)

// fits reports whether a front accepts a checkpoint.
func (s Signed) fits() bool { return s.size() <= MaxSigned }

// size returns the size of a checkpoint and its key, in bytes.
func (s Signed) size() int { return len(s.Key) + len(s.Checkpoint) }
