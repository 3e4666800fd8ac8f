package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/config"
	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/fleet"
)

// fleetPolicies is the directory in which a front or a worker keeps the policy that was
// given to its fleet. The policy is a file with its number as its name, NUMBER.yaml. It was
// checked before it got this name. While there is such a file, it is in force instead of
// --policy, also after a restart.
type fleetPolicies struct {
	dir    string
	number atomic.Uint64 // number of the policy in force; 0 for none
	files  sync.Mutex    // locked while the file is read, or older files are removed
}

// fleetPolicyDir is the name of this directory in the state directory.
const fleetPolicyDir = "fleet-policy"

// openFleetPolicies finds the policy of a fleet. If it does not exist, policy is the file
// of --policy.
func openFleetPolicies(state, file string) (_ *fleetPolicies, policy string, err error) {
	f := &fleetPolicies{dir: filepath.Join(state, fleetPolicyDir)}
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("read the policy of the fleet: %w", err)
	}
	for _, e := range entries {
		if n, ok := numberOf(e.Name()); ok && n > f.number.Load() {
			f.number.Store(n)
			file = filepath.Join(f.dir, e.Name())
		}
	}
	return f, file, nil
}

// broken returns the error for a start with a policy of the fleet that can no longer be
// used. No other policy is used instead, since it may allow what the policy of the fleet
// denies.
func (f *fleetPolicies) broken(err error) error {
	if f == nil || f.number.Load() == 0 {
		return err
	}
	return fmt.Errorf("policy %d of the fleet: %w; add what it needs on this machine, or remove %s to start with the policy of --policy until a front sends one again; without --fleet-policy the server uses no policy of a fleet", f.number.Load(), err, f.dir)
}

// numberOf returns the number of a policy from the name of its file.
func numberOf(name string) (uint64, bool) {
	digits, is := strings.CutSuffix(name, ".yaml")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, is && err == nil && n > 0 && strconv.FormatUint(n, 10) == digits
}

func (f *fleetPolicies) file(number uint64) string {
	return filepath.Join(f.dir, strconv.FormatUint(number, 10)+".yaml")
}

// draft writes a text to a file whose name is not that of a policy.
func (f *fleetPolicies) draft(text string) (name string, err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(f.dir, "draft-*")
	if err != nil {
		return "", err
	}
	_, err = draft.WriteString(text)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return "", errors.Join(err, os.Remove(draft.Name()))
	}
	return draft.Name(), nil
}

// keep renames a draft to the file of a policy: from now on this policy is in force after a
// start.
func (f *fleetPolicies) keep(draft string, number uint64) error {
	if err := os.Rename(draft, f.file(number)); err != nil {
		return err
	}
	return errors.Join(diskfile.SyncDir(f.dir), diskfile.SyncDir(filepath.Dir(f.dir)))
}

// clean removes older policies, and drafts that a killed process has left.
func (f *fleetPolicies) clean() {
	f.files.Lock()
	defer f.files.Unlock()
	entries, _ := os.ReadDir(f.dir)
	for _, e := range entries {
		if n, ok := numberOf(e.Name()); !ok || n < f.number.Load() {
			_ = os.Remove(filepath.Join(f.dir, e.Name())) // only the newest policy is used
		}
	}
}

// current returns the policy in force. Its number is 0 if no policy is in force.
func (f *fleetPolicies) current() (g fleet.Policy, err error) {
	f.files.Lock()
	defer f.files.Unlock()
	g.Number = f.number.Load()
	if g.Number == 0 {
		return g, nil
	}
	file, err := os.Open(f.file(g.Number))
	if err != nil {
		return g, err
	}
	defer file.Close()
	text, err := config.ReadBounded(file, fleet.MaxPolicy)
	g.Text = string(text)
	return g, err
}
