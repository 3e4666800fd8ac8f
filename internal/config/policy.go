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

// CheckPolicy reads a policy as it applies to each of its projects, and returns the policy
// as it applies to a workspace. An empty workspace means the current directory. The policy
// may be in that directory, because no box is opened there.
func CheckPolicy(name, workspace string) (*policies.Policy, error) {
	abs, err := filepath.Abs(workspace) // the current directory if workspace is empty
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

// policyMost is the maximum size of a policy file, in bytes.
const policyMost = 1 << 20

// BuiltinPolicy is shown to people in place of a file name.
const BuiltinPolicy = "built-in default"

// FindPolicy reads the policy to use: the bundled policy or the file that name means,
// otherwise the user's file, otherwise the built-in policy. It returns the name of what was
// read. A file in the workspace is refused: an agent can write there, and would write its
// own rules.
func FindPolicy(name, workspace string) (string, *policies.Policy, error) {
	if IsBundled(name) {
		p, err := policies.OpenBundled(name)
		return name, p, err
	}
	if name == "" {
		name = UserPolicy()
		if _, err := os.Stat(name); err != nil {
			// Only a file that does not exist may be skipped: a file that cannot be read
			// may contain the rule that matters.
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
	// A link in the workspace may lead elsewhere tomorrow.
	if hostexec.WrittenIn(workspace).Check(abs) != nil {
		return "", nil, fmt.Errorf("policy %s: lies in the workspace %s, where an agent can change it; move it out, or choose a narrower --workspace", name, workspace)
	}
	p, err := ReadPolicy(name, workspace)
	if err != nil {
		return "", nil, fmt.Errorf("policy %s cannot be used:\n%w", name, err)
	}
	return name, p, nil
}

// PolicySet is a policy as it applies to each of several workspaces. The policies of
// workspaces differ by the files of projects.
type PolicySet struct {
	Name string // name for people
	of   map[string]*policies.Policy
}

// Of returns the policy of a workspace, which must be one of the workspaces of the set.
func (s *PolicySet) Of(workspace string) *policies.Policy { return s.of[workspace] }

// FindPolicies finds the policy for a workspace as FindPolicy does, and then for each
// workspace that more returns for that policy. All paths must be free of symbolic links. A
// file of the policy that is in one of the workspaces is refused.
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
	plain := first // the policy without the files of a project
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
			if own == p { // its own files were checked above
				continue
			}
			if err := writtenFrom(workspace, p); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// With returns a set with one more workspace. It must be called before anything in that
// workspace is read. home is the workspace that the set was found for.
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

// project reports whether a policy has files of a project that apply to a workspace.
func project(p *policies.Policy, workspace string) bool {
	return slices.ContainsFunc(p.Projects(), func(dir string) bool {
		dir = RealPath(dir)
		return Inside(dir, workspace) || Inside(workspace, dir)
	})
}

// writtenFrom returns an error if boxes of a further workspace can write a file of a policy
// that was read for another workspace.
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

// IsBundled reports whether name means a bundled policy, and not a file. A file of the same
// name must be given as ./NAME.
func IsBundled(name string) bool { return slices.Contains(policies.Bundled(), name) }

// orBundled returns the end of the message about a policy file that does not exist, if name
// may have been meant as a bundled policy.
func orBundled(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "./") {
		return ""
	}
	return "; the policies that need no file are " + strings.Join(policies.Bundled(), ", ")
}

// ReadPolicy parses a policy file and the files that it names for a workspace, or a bundled
// policy.
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

// FirstLine returns the text of an error before its list of faults.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, ":")
}
