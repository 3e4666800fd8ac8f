package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// PruneOptions select the sets that Prune removes: a set must match all of them.
type PruneOptions struct {
	// Unused is the time since the set's last use by a box, fork, checkpoint or
	// apply. Zero matches every set.
	Unused time.Duration
	// Empty matches only sets without changes and checkpoints.
	Empty bool
	// DryRun removes nothing, and reports what would be removed.
	DryRun bool
}

// Pruned is one set that Prune removed, or kept for a reason that a person
// should know.
type Pruned struct {
	Info
	Removed bool   `json:"removed"` // with DryRun: whether the set would be removed
	Kept    string `json:"kept,omitempty"`
}

// Prune removes sets with their changes. It keeps sets in which a box works, sets
// with an interrupted apply, and damaged ones. Without Unused and Empty it fails,
// because it would remove all.
func (s *Store) Prune(ctx context.Context, opts PruneOptions) ([]Pruned, error) {
	if opts.Unused <= 0 && !opts.Empty {
		return nil, errors.New("prune workspaces: no sets are chosen; give an age, or choose the sets without changes")
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	pruned := []Pruned{}
	for _, info := range all {
		if err := ctx.Err(); err != nil {
			return pruned, fmt.Errorf("prune workspaces: %w", err)
		}
		p := Pruned{Info: info}
		removed, err := s.prune(ctx, info.ID, opts)
		switch {
		case errors.Is(err, ErrNotFound):
			continue // the set was removed meanwhile
		case err != nil:
			p.Kept = err.Error()
		case !removed:
			continue
		}
		p.Removed = removed
		pruned = append(pruned, p)
	}
	return pruned, nil
}

// prune removes one set if it matches the options.
func (s *Store) prune(ctx context.Context, id string, opts PruneOptions) (bool, error) {
	h, err := s.hold(id)
	if err != nil {
		return false, err
	}
	defer h.close()
	// From now on no box begins to work in the set.
	live, err := h.quiet()
	if err != nil || live {
		return false, err
	}
	st, err := statAt(h.dir, metaName)
	if err != nil || st == nil {
		return false, err
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < opts.Unused {
		return false, nil
	}
	if h.has(journalName) {
		return false, errors.New("an apply of it was interrupted; run that again, or discard the set")
	}
	if opts.Empty {
		if none, err := s.nothing(ctx, id); err != nil || !none {
			return false, err
		}
	}
	if opts.DryRun {
		return true, nil
	}
	err = s.discard(id, h.locks[0])
	return err == nil, err
}

// nothing reports whether a set has no changes and no checkpoints.
func (s *Store) nothing(ctx context.Context, id string) (bool, error) {
	o, err := s.look(id, unix.LOCK_SH)
	if err != nil {
		return false, err
	}
	defer o.close()
	if len(o.meta.Checkpoints) > 0 {
		return false, nil
	}
	err = o.compare(ctx)
	return err == nil && len(o.diff.Changes) == 0, err
}
