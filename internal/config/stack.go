package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// stackReader reads the files of a policy, and remembers the real path of each: later
// checks must look at the file that was read, and not at the file that a link leads to by
// then.
type stackReader struct{ real map[string]string }

// loadStack reads a policy file and all files that it names for a workspace. If a box of
// the workspace can write one of these files, it returns an error. If the workspace is
// empty, no boxes exist.
func loadStack(name, workspace string) (*policies.Policy, error) {
	p, r, err := readStack(name, workspace)
	if err != nil || workspace == "" || workspace == "/" { // no box has such a workspace
		return p, err
	}
	for _, f := range p.Files() {
		if err := r.outOfReach(f, workspace, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readStack is loadStack without the check that no box can write the files.
func readStack(name, workspace string) (*policies.Policy, stackReader, error) {
	r := stackReader{real: make(map[string]string)}
	text, err := r.read(name)
	if err != nil {
		return nil, r, err
	}
	p, err := policies.Load(name, text, policies.Files{Read: r.read, Workspace: workspace, Real: RealPath})
	return p, r, err
}

// Files returns the functions that read the files of a policy for a workspace, which may be
// empty.
func Files(workspace string) policies.Files {
	r := stackReader{real: make(map[string]string)}
	return policies.Files{Read: r.read, Workspace: workspace, Real: RealPath}
}

func (r stackReader) read(name string) ([]byte, error) {
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: cause.Err} // with the name that people know
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
	text, err := ReadBounded(f, policyMost)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// outOfReach returns an error if a box can write a file of the policy: the agent in the box
// would remove rules, or damage the file so that the next change is not used. Only a
// project's file may be in the workspace, and only if it is protected there.
func (r stackReader) outOfReach(f policies.File, workspace string, p *policies.Policy) error {
	real := r.real[f.Name]
	abs, err := filepath.Abs(f.Name)
	if err != nil {
		return fmt.Errorf("policy %s: %w", f.Name, err)
	}
	// A file outside the workspace may be named through a link in it, which an agent can
	// change.
	in := Inside(real, workspace)
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

// protects reports whether a file of the workspace is, or is inside, one of the paths that
// boxes cannot write.
func protects(p policies.Protect, file, workspace string) bool {
	return slices.ContainsFunc(p.Also, func(also string) bool { return Inside(file, filepath.Join(workspace, also)) })
}
