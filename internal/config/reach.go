package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// Reached returns the directory through which boxes of a policy reach dir, or a link on the
// way to dir: a workspace, or the source of a mount for which counts returns true. profile
// is the name of the profile with that mount, or "of an upstream"; it is empty for a
// workspace. Both results are empty if no box reaches dir. It returns an error for a path
// that this user cannot follow, because nothing is known about that path.
func Reached(dir string, workspaces []string, policy *policies.Policy, counts func(policies.Mount) bool) (place, profile string, err error) {
	for _, workspace := range workspaces {
		if in, err := leadsInto(workspace, dir); in || err != nil {
			return workspace, "", err
		}
	}
	reached := func(mounts []policies.Mount) (policies.Mount, bool, error) {
		for _, m := range mounts {
			if !counts(m) {
				continue
			}
			if in, err := leadsInto(m.Source, dir); in || err != nil {
				return m, true, err
			}
		}
		return policies.Mount{}, false, nil
	}
	for _, name := range policy.Profiles() {
		p, _ := policy.Profile(name)
		if m, in, err := reached(p.Mounts); in {
			return m.Source, name, err
		}
	}
	if m, in, err := reached(policy.Upstreams().Mounts()); in {
		return m.Source, "of an upstream", err
	}
	return "", "", nil
}

// leadsInto reports whether path, or a link on the way to path, lies in dir.
func leadsInto(dir, path string) (bool, error) {
	err := hostexec.WrittenIn(dir).Check(path)
	if unknown, ok := errors.AsType[*fs.PathError](err); ok {
		return false, unknown.Err
	}
	return err != nil, nil
}

// Unseen checks that no box of a policy can see the state directory.
func Unseen(dir string, workspaces []string, policy *policies.Policy) error {
	place, profile, err := Reached(dir, workspaces, policy, func(policies.Mount) bool { return true })
	switch {
	case err != nil:
		return fmt.Errorf("state %s: %w; choose another --state", dir, err)
	case profile != "":
		return fmt.Errorf("state %s lies in %s, which boxes of the profile %s can see; mount a narrower directory, or choose another --state", dir, place, profile)
	case place != "":
		return fmt.Errorf("state %s lies in the workspace %s, where an agent could change it; choose another --state, or a narrower --workspace", dir, place)
	}
	return nil
}

// Inside reports whether path is dir or lies in dir. Both must be absolute, without
// symbolic links.
func Inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// RealPath returns a path with its symbolic links resolved, as far as it exists.
func RealPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(RealPath(dir), filepath.Base(path))
	}
	return path
}

// Boxes returns the directories that an agent can write through a box: the workspaces, even
// if no profile may write them, the mounts that a profile or an upstream may write, and the
// state directory, which contains the layers of overlay workspaces.
func Boxes(policy *policies.Policy, workspaces []string, state string) hostexec.Boxes {
	dirs := slices.Clone(workspaces)
	if state != "" {
		dirs = append(dirs, state)
	}
	for _, name := range policy.Profiles() {
		profile, _ := policy.Profile(name)
		dirs = append(dirs, written(profile.Mounts)...)
	}
	dirs = append(dirs, written(policy.Upstreams().Mounts())...)
	return hostexec.WrittenIn(dirs...)
}

// written returns the sources of the mounts that are writable.
func written(mounts []policies.Mount) (dirs []string) {
	for _, m := range mounts {
		if m.Writable {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}
