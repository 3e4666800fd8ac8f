package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

// addShared adds the directories that every box with a workspace sees, read-only.
// Their owner's files appear as the box user's own, so that the box can read
// files that only the owner may read. If the file system cannot map users, the
// box reads only what everybody may read. A box without a workspace, for example
// that of a browser, does not serve an agent and gets none of them.
func (s *Supervisor) addShared(p *plan, g policies.Grant, uid int) error {
	if g.Workspace() == policies.AccessNone {
		return nil
	}
	for _, m := range s.cfg.Shared {
		if slices.ContainsFunc(p.mounts, func(o mount) bool { return o.target == m.Target }) {
			continue // the profile puts something else there
		}
		err := s.addMount(p, mount{source: m.Source, target: m.Target, file: -1, mapped: true}, uid)
		if _, ok := errors.AsType[*limit.Refusal](err); ok {
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
