package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// CheckPolicy reads a policy as each of its projects has it, and returns the one of
// a workspace. Without a workspace it is that of the current directory, in which the
// policy may lie, since no box is opened there.
func CheckPolicy(name, workspace string) (*policies.Policy, error) {
	abs, err := filepath.Abs(workspace) // of "" it is the current directory
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", workspace, err)
	}
	here := RealPath(abs)
	if workspace != "" {
		workspace = here
	}
	p, err := ReadPolicy(name, workspace)
	if err != nil {
		return nil, err
	}
	projects := p.Projects()
	for _, project := range projects {
		if _, err := ReadPolicy(name, RealPath(project)); err != nil {
			return nil, fmt.Errorf("for the workspace %s:\n%w", project, err)
		}
	}
	if workspace == "" && len(projects) > 0 {
		p, _, err = readStack(name, here)
	}
	return p, err
}

// policyMost bounds a policy file, in bytes.
const policyMost = 1 << 20

// BuiltinPolicy is what people read instead of a file's name.
const BuiltinPolicy = "built-in default"

// FindPolicy reads the policy that holds: the bundled one or the file that is
// named, else the user's file, else the built-in one. A file in the workspace is
// refused: an agent can write there, and would write its own rules.
func FindPolicy(name, workspace string) (string, *policies.Policy, error) {
	if IsBundled(name) {
		p, err := policies.OpenBundled(name)
		return name, p, err
	}
	if name == "" {
		name = UserPolicy()
		if _, err := os.Stat(name); err != nil {
			// Only a file that is not there may be passed over: one that
			// cannot be read may hold the rule that counts.
			if errors.Is(err, fs.ErrNotExist) || name == "" {
				return BuiltinPolicy, policies.Default(), nil
			}
			return "", nil, fmt.Errorf("policy %s: %w; correct its permissions, or name another one with --policy", name, err)
		}
	}
	abs, err := filepath.Abs(name)
	if err == nil {
		_, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", nil, fmt.Errorf("policy %s: %w; name another one with --policy%s", name, err, orBundled(name, err))
	}
	// A link there leads elsewhere tomorrow.
	if hostexec.WrittenIn(workspace).Check(abs) != nil {
		return "", nil, fmt.Errorf("policy %s: lies in the workspace %s, where an agent can change it; move it out, or choose a narrower --workspace", name, workspace)
	}
	p, err := ReadPolicy(name, workspace)
	if err != nil {
		return "", nil, fmt.Errorf("policy %s cannot be used:\n%w", name, err)
	}
	return name, p, nil
}

// PolicySet is a policy as each of several workspaces has it: the files of projects make
// the difference.
type PolicySet struct {
	Name string // for people
	of   map[string]*policies.Policy
}

// Of is the policy of a workspace, which must be one of those that the set was read for.
func (s *PolicySet) Of(workspace string) *policies.Policy { return s.of[workspace] }

// FindPolicies finds the policy for a workspace like FindPolicy, and then for each workspace
// that more returns for that policy. All paths are without links. A file of the policy that
// lies in one of the workspaces is refused.
func FindPolicies(name, workspace string, more func(*policies.Policy) ([]string, error)) (*PolicySet, error) {
	name, first, err := FindPolicy(name, workspace)
	if err != nil {
		return nil, err
	}
	set := &PolicySet{Name: name, of: map[string]*policies.Policy{workspace: first}}
	others, err := more(first)
	if err != nil {
		return nil, err
	}
	plain := first // without a project
	if len(others) > 0 && project(first, workspace) {
		if plain, _, err = readStack(name, ""); err != nil {
			return nil, fmt.Errorf("policy %s cannot be used:\n%w", name, err)
		}
	}
	for _, other := range others {
		switch {
		case set.of[other] != nil:
		case project(first, other):
			if _, set.of[other], err = FindPolicy(name, other); err != nil {
				return nil, fmt.Errorf("for the workspace %s: %w", other, err)
			}
		case name == BuiltinPolicy || IsBundled(name): // a bundled policy has no file
			set.of[other] = plain
		default:
			if err := writtenFrom(other, plain); err != nil {
				return nil, err
			}
			set.of[other] = plain
		}
	}
	if name == BuiltinPolicy || IsBundled(name) {
		return set, nil
	}
	// The rules of one project may lie in the workspace of another one.
	distinct := make(map[*policies.Policy]bool)
	for _, p := range set.of {
		distinct[p] = true
	}
	for p := range distinct {
		for workspace, own := range set.of {
			if own == p { // as above
				continue
			}
			if err := writtenFrom(workspace, p); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// With is a set with one more workspace. Nothing in that workspace is read before. home is the
// workspace that the set was found for.
func (s *PolicySet) With(home, workspace string) (*PolicySet, error) {
	next := &PolicySet{Name: s.Name, of: maps.Clone(s.of)}
	first := s.of[home]
	if project(first, workspace) || project(first, home) {
		_, p, err := FindPolicy(s.Name, workspace)
		if err != nil {
			return nil, fmt.Errorf("for the workspace %s: %w", workspace, err)
		}
		next.of[workspace] = p
		return next, nil
	}
	if s.Name != BuiltinPolicy && !IsBundled(s.Name) {
		if err := writtenFrom(workspace, first); err != nil {
			return nil, err
		}
	}
	next.of[workspace] = first
	return next, nil
}

// project reports whether a policy has files of a project that hold for a workspace.
func project(p *policies.Policy, workspace string) bool {
	return slices.ContainsFunc(p.Projects(), func(dir string) bool {
		dir = RealPath(dir)
		return Inside(dir, workspace) || Inside(workspace, dir)
	})
}

// writtenFrom checks that boxes of a further workspace can write no file of a policy that
// was read for another one.
func writtenFrom(workspace string, p *policies.Policy) error {
	r := stackReader{real: make(map[string]string)}
	for _, f := range p.Files() {
		abs, err := filepath.Abs(f.Name)
		if err == nil {
			r.real[f.Name], err = filepath.EvalSymlinks(abs)
		}
		if err == nil {
			err = r.outOfReach(f, workspace, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IsBundled reports whether the name is that of a bundled policy and not of a
// file: a file of the same name is written ./NAME.
func IsBundled(name string) bool { return slices.Contains(policies.Bundled(), name) }

// orBundled goes on in the message about a policy file that is not there, where
// a bundled policy may have been meant.
func orBundled(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "./") {
		return ""
	}
	return "; those without a file are " + strings.Join(policies.Bundled(), ", ")
}

// ReadPolicy parses a policy file with those that it names for a workspace, or
// a bundled policy.
func ReadPolicy(name, workspace string) (*policies.Policy, error) {
	if IsBundled(name) {
		return policies.OpenBundled(name)
	}
	p, err := loadStack(name, workspace)
	if err != nil && orBundled(name, err) != "" {
		return nil, fmt.Errorf("%w%s", err, orBundled(name, err))
	}
	return p, err
}

// FirstLine is what an error says before it lists faults.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, ":")
}
