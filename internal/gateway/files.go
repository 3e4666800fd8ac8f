package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"belljar.dev/mcp/upstream/config"
)

// workspaceFolder is the prefix of the name of a file in the workspace of each place.
const workspaceFolder = "${workspaceFolder}/"

// files returns the names of the files of servers. If two entries have the same name, the
// entry in the later file wins.
func (g *site) files() (all []string) {
	for _, name := range append(g.cfg.Policy().Upstreams().From(), g.cfg.Files...) {
		if rest, ok := strings.CutPrefix(name, workspaceFolder); ok {
			name = filepath.Join(g.cfg.Workspace, rest)
		} else if full, err := filepath.Abs(name); err == nil { // the policy may have a relative path
			name = full
		}
		all = append(all, name)
	}
	return all
}

// faultsError contains the faults of a file that cannot be used at all.
type faultsError struct{ faults []config.Fault }

// Error returns one line for each fault.
func (e *faultsError) Error() string {
	lines := make([]string, len(e.faults))
	for i, f := range e.faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// readFiles reads the entries of all files. Faults of single entries and warnings are
// returned in addition to the entries. A file in the workspace need not exist, and if it
// cannot be read it has no entries: an agent must not be able to stop the servers of the
// operator.
func (g *site) readFiles() (entries []config.Entry, faults []config.Fault, err error) {
	var layers []config.Layer
	for _, name := range g.files() {
		trusted := g.cfg.Trusted(name)
		read := readFile
		if !trusted {
			read = g.readForeign
		}
		data, err := read(name)
		if err != nil {
			if trusted {
				return nil, nil, fmt.Errorf("upstreams: %w", err)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				faults = append(faults, config.Fault{File: name, Line: 1, Col: 1, Level: config.Error, Message: err.Error(), Hint: "put a regular file there"})
			}
			continue
		}
		some, bad := config.Read(name, data)
		faults = append(faults, bad...)
		if config.Failed(bad) {
			if trusted {
				return nil, nil, &faultsError{bad}
			}
			continue
		}
		layers = append(layers, config.Layer{Trusted: trusted, Entries: some})
	}
	return config.Merge(layers...), faults, nil
}

// readFile reads a file of the operator, which may be a symbolic link.
func readFile(name string) ([]byte, error) {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	return readIn(filepath.Dir(name), filepath.Base(name))
}

// readForeign reads a file that agents can write. They can also write the directories on
// the way to it, and may have put a pipe there, which would block, or a link to files of
// the operator. Therefore the file is read below the first directory that they can write,
// and a link that leads out of this directory is refused.
func (g *site) readForeign(name string) ([]byte, error) {
	dir := filepath.Dir(name)
	for up := filepath.Dir(dir); up != dir && !g.cfg.Trusted(dir) && !g.cfg.Trusted(up); up = filepath.Dir(dir) {
		dir = up
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return nil, err
	}
	return readIn(dir, rel)
}

// readIn reads a file below a directory.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return config.ReadFile(root, name)
}
