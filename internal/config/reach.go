package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// Reached returns the place by which boxes of a policy reach a directory, or a
// link on the way to it: the workspace, which belongs to no profile, or a mount
// that counts, with its profile. Both are empty if boxes do not reach it.
func Reached(dir, workspace string, policy *policies.Policy, counts func(policies.Mount) bool) (place, profile string) {
	if hostexec.WrittenIn(workspace).Check(dir) != nil {
		return workspace, ""
	}
	for _, name := range policy.Profiles() {
		p, _ := policy.Profile(name)
		for _, m := range p.Mounts {
			if counts(m) && hostexec.WrittenIn(m.Source).Check(dir) != nil {
				return m.Source, name
			}
		}
	}
	return "", ""
}

// Unseen checks that no box of a policy can see the state directory.
func Unseen(dir, workspace string, policy *policies.Policy) error {
	place, profile := Reached(dir, workspace, policy, func(policies.Mount) bool { return true })
	switch {
	case profile != "":
		return fmt.Errorf("state %s lies in %s, which boxes of the profile %s can see; narrow that, or choose another --state", dir, place, profile)
	case place != "":
		return fmt.Errorf("state %s lies in the workspace %s, where an agent could change it; choose another --state, or a narrower --workspace", dir, place)
	}
	return nil
}

// Inside reports whether path lies in dir; both are absolute and real.
func Inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// RealPath is a path without symbolic links, as far as it exists.
func RealPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(RealPath(dir), filepath.Base(path))
	}
	return path
}

// Boxes are the places that an agent can write through a box: the workspace,
// whatever a profile's access to it is, the mounts that a profile may write, and
// the state, in which the layers of overlay workspaces lie.
func Boxes(policy *policies.Policy, workspace, state string) hostexec.Boxes {
	var dirs []string
	for _, dir := range []string{workspace, state} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	for _, name := range policy.Profiles() {
		profile, _ := policy.Profile(name)
		for _, m := range profile.Mounts {
			if m.Writable {
				dirs = append(dirs, m.Source)
			}
		}
	}
	return hostexec.WrittenIn(dirs...)
}
