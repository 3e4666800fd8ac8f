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

// workspaceFolder begins the name of a file that lies in the workspace of each place.
const workspaceFolder = "${workspaceFolder}/"

// files returns the files that say which servers there are, those that win last.
func (g *site) files() (all []string) {
	for _, name := range append(g.cfg.Policy().Upstreams().From(), g.cfg.Files...) {
		if rest, ok := strings.CutPrefix(name, workspaceFolder); ok {
			name = filepath.Join(g.cfg.Workspace, rest)
		} else if full, err := filepath.Abs(name); err == nil { // a policy may be named by a relative path
			name = full
		}
		all = append(all, name)
	}
	return all
}

// faultsError is what is wrong with files, if none of them can be used for it.
type faultsError struct{ faults []config.Fault }

// Error has one line for each fault.
func (e *faultsError) Error() string {
	lines := make([]string, len(e.faults))
	for i, f := range e.faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// readFiles reads the entries of all files. Faults of single entries and warnings are
// returned beside the entries. A file in the workspace need not be there, and if it cannot be
// read it has no entries: an agent must not be able to stop the servers of the operator.
func (g *site) readFiles() (entries []config.Entry, faults []config.Fault, err error) {
	var layers []config.Layer
	for _, name := range g.files() {
		trusted := g.cfg.Trusted(name)
		data, err := readFile(name, trusted)
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

// readFile reads one file. The operator's own may be a link.
func readFile(name string, trusted bool) ([]byte, error) {
	if trusted {
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			return nil, err
		}
		name = real
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return config.ReadFile(dir, filepath.Base(name))
}
