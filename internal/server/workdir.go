package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/keyfile"
	"belljar.dev/policies"
)

// workdir is the directory of a worker of a fleet, with its places. The worker that has the
// directory of a place has the place.
//
//	lock, worker               the file that the process locks; the name of the worker
//	state, home                the state that belongs to no place; the place that nobody enters
//	places/TENANT/@            the place of a tenant at /mcp
//	places/TENANT/NAME         and at /w/NAME/mcp
//	places/TENANT/NAME/workspace, .../state
//	incoming, left, removed    for places that move, see workmarks.go
type workdir struct {
	dir  string
	lock *os.File
}

// Names in the directory of a worker.
const (
	workdirName   = "worker"
	workdirState  = "state"
	workdirHome   = "home"
	workdirPlaces = "places"
	unnamed       = "@" // name for the place at /mcp, which no place can have
	ofWork        = "workspace"
	ofState       = "state"
	requestsKey   = "requests.key" // file in ofState with the key that signs the states of calls
)

// openWorkdir makes and locks the directory of a worker.
func openWorkdir(dir, worker string) (_ *workdir, err error) {
	for _, sub := range []string{"", workdirState, workdirHome, workdirPlaces} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("--places: %w", err)
		}
	}
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("--places: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--places: %w", err)
	}
	e := &workdir{dir, lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		e.close()
		return nil, fmt.Errorf("--places %s: another worker has this directory (%w); give each worker its own", dir, err)
	}
	if err := e.name(worker); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// name records the name of the worker. It returns an error if the name was another one
// before, because the claims of the worker's places contain the name.
func (e *workdir) name(worker string) error {
	text, err := os.ReadFile(filepath.Join(e.dir, workdirName))
	switch before := strings.TrimSpace(string(text)); {
	case errors.Is(err, fs.ErrNotExist):
		return e.write(worker)
	case err != nil:
		return fmt.Errorf("--places: %w", err)
	case before != worker:
		return fmt.Errorf("--places %s: this is the directory of the worker %q, and this is %q; start it with its name, or name another directory", e.dir, policies.Clip(before, 63), worker)
	}
	return nil
}

// write writes the name of the worker, completely or not at all.
func (e *workdir) write(worker string) error {
	if err := diskfile.Replace(filepath.Join(e.dir, workdirName), []byte(worker+"\n"), 0o600); err != nil {
		return fmt.Errorf("--places: note the name of the worker: %w", err)
	}
	return nil
}

func (e *workdir) close() { e.lock.Close() }

// placeID returns the name of a place in a fleet. An empty name stands for the place at
// /mcp.
func placeID(tenant, name string) string {
	if name == "" {
		return tenant
	}
	return tenant + "/" + name
}

// splitID returns the tenant and the name of a place in a fleet.
func splitID(id string) (tenant, name string) {
	tenant, name, _ = strings.Cut(id, "/")
	return tenant, name
}

// of returns the directory of a place.
func (e *workdir) of(id string) string {
	tenant, name := splitID(id)
	return filepath.Join(e.dir, workdirPlaces, tenant, cmp.Or(name, unnamed))
}

func (e *workdir) workspace(id string) string { return filepath.Join(e.of(id), ofWork) }

// has reports whether the worker has a place.
func (e *workdir) has(id string) bool {
	info, err := os.Lstat(e.workspace(id))
	return err == nil && info.IsDir()
}

// make makes a place, completely or not at all. A request waits for it, so it waits for the
// disk only twice: once for the contents of the place, and once for its name.
func (e *workdir) make(id string) error {
	if e.has(id) {
		return nil
	}
	parent := filepath.Dir(e.of(id))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	for _, sub := range []string{ofWork, ofState} {
		if err := os.Mkdir(filepath.Join(made, sub), 0o700); err != nil {
			return errors.Join(err, os.RemoveAll(made))
		}
	}
	err = errors.Join(keyfile.Create(filepath.Join(made, ofState, requestsKey)), diskfile.SyncDir(filepath.Join(made, ofState)), diskfile.SyncDir(made))
	if err == nil {
		err = os.Rename(made, e.of(id))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return errors.Join(diskfile.SyncDir(parent), diskfile.SyncDir(filepath.Dir(parent)))
}

// fleetPlaces returns the places that a policy names for a fleet. It returns an error if a
// fleet cannot serve the policy.
func fleetPlaces(p *policies.Policy) (ids []string, err error) {
	if len(p.Tenants()) == 0 {
		return nil, fmt.Errorf("policy %s names no tenants, and a fleet serves only tenants; write tenants: {NAME: {token: \"${env:TOKEN_SHA256}\"}}", p.Name())
	}
	for _, tenant := range p.Tenants() {
		t, _ := p.Tenant(tenant)
		if t.Workspace != "" || len(t.Workspaces()) > 0 {
			return nil, fmt.Errorf("tenant %s of policy %s: it has directories, and the workers of a fleet choose the directories of places; write places: [NAME, ...] for further places, and no workspace", tenant, p.Name())
		}
		ids = append(ids, tenant)
		for _, name := range slices.Sorted(maps.Keys(t.Places)) {
			ids = append(ids, placeID(tenant, name))
		}
	}
	return ids, nil
}
