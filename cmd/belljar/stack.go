package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// stackReader reads the files of a policy and remembers where each is: what is
// looked at later must be what was read, and not what a link leads to then.
type stackReader struct{ real map[string]string }

// loadStack reads a policy file and all that it names for a workspace, whose
// boxes must be able to write none of them; an empty one has no boxes.
func loadStack(name, workspace string) (*policies.Policy, error) {
	r := stackReader{real: make(map[string]string)}
	text, err := r.read(name)
	if err != nil {
		return nil, err
	}
	p, err := policies.Load(name, text, policies.Files{Read: r.read, Workspace: workspace, Real: realPath})
	if err != nil || workspace == "" || workspace == "/" { // which no box has
		return p, err
	}
	for _, f := range p.Files() {
		if err := r.outOfReach(f, workspace, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (r stackReader) read(name string) ([]byte, error) {
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: cause.Err} // by the name that people know
	}
	if err != nil {
		return nil, err
	}
	r.real[name] = real
	f, err := os.Open(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := readBounded(f, policyMost)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// outOfReach checks that no box can write a file of the policy: its agent would
// take away the rules, or break the file and so keep the next change from
// holding. Only a project's file may lie in the workspace, where it is protected.
func (r stackReader) outOfReach(f policies.File, workspace string, p *policies.Policy) error {
	real := r.real[f.Name]
	abs, err := filepath.Abs(f.Name)
	if err != nil {
		return fmt.Errorf("policy %s: %w", f.Name, err)
	}
	// One outside may be reached by a link in the workspace, which leads elsewhere
	// tomorrow.
	in := inside(real, workspace)
	if in && f.Layer != policies.LayerProject || !in && hostexec.WrittenIn(workspace).Check(abs) != nil {
		return fmt.Errorf("policy %s: lies in the workspace %s, where an agent can change it; move it out, or choose a narrower --workspace", f.Name, workspace)
	}
	for _, name := range p.Profiles() {
		profile, _ := p.Profile(name)
		if in && profile.Workspace == policies.AccessWrite && !protects(profile.Protect, real, workspace) {
			rel, _ := filepath.Rel(workspace, real)
			return fmt.Errorf("policy %s: boxes of the profile %s can write it; add fs: {protect: [%q]} to that profile, or move the file out of the workspace", f.Name, name, rel)
		}
		for _, m := range profile.Mounts {
			if m.Writable && hostexec.WrittenIn(m.Source).Check(abs) != nil {
				return fmt.Errorf("policy %s: lies in %s, which boxes of the profile %s can write; narrow that, or move the file", f.Name, m.Source, name)
			}
		}
	}
	return nil
}

// protects reports whether a file of the workspace is, or lies in, one of the
// paths that boxes cannot write.
func protects(p policies.Protect, file, workspace string) bool {
	return slices.ContainsFunc(p.Also, func(also string) bool { return inside(file, filepath.Join(workspace, also)) })
}

// userPolicy is the policy file of this user, which need not exist; empty where
// there can be none.
func userPolicy() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "belljar", "policy.yaml")
}

// checkStack reads a policy as each of its projects has it, and is the one of a
// workspace.
func checkStack(name, workspace string) (*policies.Policy, error) {
	if workspace != "" {
		abs, err := filepath.Abs(workspace)
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", workspace, err)
		}
		workspace = realPath(abs)
	}
	p, err := readPolicy(name, workspace)
	if err != nil {
		return nil, err
	}
	for _, project := range p.Projects() {
		if _, err := readPolicy(name, realPath(project)); err != nil {
			return nil, fmt.Errorf("for the workspace %s:\n%w", project, err)
		}
	}
	return p, nil
}

// showBelow prints what layers say to a part.
func showBelow(w io.Writer, below []policies.Said) {
	for _, s := range below {
		fmt.Fprintf(w, "  %s by %s%s\n", s.Verdict, by(s.Rule, s.Source), ofLayer(s.Layer))
	}
}

// ofLayer names a layer below the system's.
func ofLayer(layer string) string {
	if layer == "" || layer == policies.LayerSystem {
		return ""
	}
	return " of the " + layer
}
