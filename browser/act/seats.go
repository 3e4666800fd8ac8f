package act

import (
	"context"
	"errors"
	"log/slog"

	"belljar.dev/browser"
	"belljar.dev/policies"
)

// Config is what Seats needs to know.
type Config struct {
	// Pool starts the Chromes. Required.
	Pool *browser.Pool
	// Log gets what an operator should know; default none.
	Log *slog.Logger
}

// Seats lends seats. Its methods are safe for concurrent use.
type Seats struct{ cfg Config }

// New prepares Seats. The caller must Close them before the Pool.
func New(cfg Config) (*Seats, error) {
	if cfg.Pool == nil {
		return nil, errors.New("make seats: no pool")
	}
	return &Seats{cfg: cfg}, nil
}

// Open opens a seat for one session and profile. The caller must Close it. It waits
// at most SeatPatience for a free one.
func (s *Seats) Open(context.Context, policies.Grant, Options) (*Seat, error) {
	return nil, errNotYet()
}

// List are the seats that are open.
func (s *Seats) List() []Info { return nil }

// Close closes all seats and waits until nothing of them is left. Twice is fine.
func (s *Seats) Close() error { return nil }
