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
	if old, err := h.unused(opts.Unused); err != nil || !old {
		return false, err
	}
	// From now on nothing else uses the set. What used it until now may have changed it, so it
	// is judged once more.
	if err := h.busy(unix.LOCK_EX); err != nil {
		return false, err
	}
	if old, err := h.unused(opts.Unused); err != nil || !old {
		return false, err
	}
	if h.has(journalName) {
		return false, errors.New("an apply of it was interrupted; run that again, or discard the set")
	}
	if opts.Empty {
		if none, err := h.nothing(ctx); err != nil || !none {
			return false, err
		}
	}
	if opts.DryRun {
		return true, nil
	}
	err = h.discard()
	return err == nil, err
}

// unused reports whether the last use of the set was at least so long ago.
func (h *held) unused(long time.Duration) (bool, error) {
	st, err := statAt(h.dir, metaName)
	if err != nil || st == nil {
		return false, err
	}
	return time.Since(time.Unix(st.Mtim.Unix())) >= long, nil
}

// nothing reports whether the set has no changes and no checkpoints. The set is busy.
func (h *held) nothing(ctx context.Context) (bool, error) {
	if len(h.meta.Checkpoints) > 0 {
		return false, nil
	}
	o := &open{held: h}
	defer o.shut()
	if err := o.load(); err != nil {
		return false, err
	}
	err := o.compare(ctx)
	return err == nil && len(o.diff.Changes) == 0, err
}
