package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"belljar.dev/policies"
)

// addShared adds the directories that every box with a workspace sees. They are
// read-only, and their owner's files are the box's user's, so that it can read
// what only the owner may; where a file system cannot do that, what all may read
// must do. A box without a workspace, as that of a browser, is not for an agent.
func (s *Supervisor) addShared(p *plan, g policies.Grant, uid int) error {
	if g.Workspace() == policies.AccessNone {
		return nil
	}
	for _, m := range s.cfg.Shared {
		if slices.ContainsFunc(p.mounts, func(o mount) bool { return o.target == m.Target }) {
			continue // the profile puts something else there
		}
		err := s.addMount(p, mount{source: m.Source, target: m.Target, file: -1, mapped: true}, uid)
		if _, ok := errors.AsType[*Refusal](err); ok {
			err = s.addMount(p, mount{source: m.Source, target: m.Target, file: -1}, uid)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("share %s: %w", m.Target, err)
		}
	}
	return nil
}
