package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/claim"
	"belljar.dev/internal/closers"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// cache is the directory of the files that launchers have fetched. In it, each server of
// each tenant has a home, and in a home, each way to fetch that server has a directory. An
// agent that can write an entry chooses the name of its server. Therefore trusted and other
// entries have different homes.
//
// Several processes may use one cache. The start of a server removes the directories of its
// home that no process has claimed and that the start does not need, because a process that
// was killed leaves its copies.
type cache struct {
	dir    string
	copies atomic.Bool // whether a server that writes gets a copy, because the host cannot lay a layer over a directory

	mu   sync.Mutex
	busy map[string]chan struct{} // guarded by mu: homes in which this process fetches now
}

// home returns the directory of a server.
func (u *cache) home(s upstream.Spec) string {
	return filepath.Join(u.dir, digestOf(s.Key.Tenant, s.Server.Name, s.Server.Trusted))
}

// digestOf returns a name that is different for different values.
func digestOf(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil { // strings and booleans can always be written
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// enter waits until this process fetches nothing else in a home.
func (u *cache) enter(ctx context.Context, home string) (leave func(), err error) {
	for {
		u.mu.Lock()
		other := u.busy[home]
		if other == nil {
			own := make(chan struct{})
			if u.busy == nil {
				u.busy = make(map[string]chan struct{})
			}
			u.busy[home] = own
			u.mu.Unlock()
			return func() {
				u.mu.Lock()
				delete(u.busy, home)
				u.mu.Unlock()
				close(own)
			}, nil
		}
		u.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fetched returns the directory with the files that an install phase fetches for a server;
// with scratch, a copy of it. It runs the phase if this was not done before. The directory
// stays until opened is closed.
func (u *starter) fetched(ctx context.Context, s upstream.Spec, phase phase, scratch bool, opened *closers.Stack) (string, error) {
	home := u.store.home(s)
	leave, err := u.store.enter(ctx, home)
	if err != nil {
		return "", err
	}
	defer leave()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	dir := filepath.Join(home, digestOf(phase))
	own, err := claim.Join(dir)
	sweep(home)
	if errors.Is(err, fs.ErrNotExist) {
		own, err = u.fetch(ctx, s, phase, dir)
	}
	if err != nil {
		return "", err
	}
	opened.Add(own.Close)
	if !scratch {
		return dir, nil
	}
	copied := filepath.Join(home, "scratch-"+rand.Text())
	held, err := claim.Make(copied, 0o700)
	if err != nil {
		return "", err
	}
	opened.Add(held.Close)
	opened.Add(func() error { return os.RemoveAll(copied) })
	from, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer from.Close()
	return copied, os.CopyFS(copied, from.FS())
}

// fetchedMost is the maximum size of the files for one server, in bytes.
const fetchedMost = 4 << 30

// measured returns an error if the size of dir exceeds most, in bytes, or if it has a file
// that cannot be copied. The holes of a file count, because a copy contains them as bytes.
func measured(ctx context.Context, dir fs.FS, most int64) error {
	const entry = 4096 // least number of bytes of a file, with its name
	var size int64
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !d.IsDir() && !d.Type().IsRegular() && d.Type() != fs.ModeSymlink {
			return fmt.Errorf("what was fetched has %q, which is not a file: %w", name, upstream.ErrLasting)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size() + entry; size > most {
			return fmt.Errorf("what was fetched has more than %d bytes: %w", most, upstream.ErrLasting)
		}
		return nil
	})
}

// fetch runs an install phase in a box of its own. dir is created only if the phase
// succeeds.
func (u *starter) fetch(ctx context.Context, s upstream.Spec, phase phase, dir string) (own *os.File, err error) {
	fresh := filepath.Join(filepath.Dir(dir), "new-"+rand.Text())
	if own, err = claim.Make(fresh, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh), own.Close())
		}
	}()
	of := s.Grant.OfUpstream()
	of.Install, of.Cache = true, fresh
	grant, err := u.grant(s.Key.Tenant, of)
	if err != nil {
		return own, fmt.Errorf("%w: %w", err, upstream.ErrLasting)
	}
	if err := u.install(ctx, grant, phase); err != nil {
		return own, err
	}
	root, err := os.OpenRoot(fresh)
	if err != nil {
		return own, err
	}
	err = measured(ctx, root.FS(), fetchedMost)
	root.Close()
	if err != nil {
		return own, err
	}
	err = os.Rename(fresh, dir)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		other, joined := claim.Join(dir)
		if joined != nil {
			return own, joined
		}
		return other, errors.Join(os.RemoveAll(fresh), own.Close())
	}
	return own, err
}

// install runs an install phase to its end.
func (u *starter) install(ctx context.Context, grant policies.Grant, phase phase) error {
	box, err := u.boxes.Open(ctx, "install-"+rand.Text(), grant)
	if err != nil {
		return err
	}
	defer box.Close()
	tail := &peer.Tail{}
	r, err := box.Run(ctx, sandbox.Cmd{Grant: grant, Argv: phase.Argv, Env: phase.Env, Timeout: grant.Limits().Wall, Out: tail, Err: tail})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Status == sandbox.Exited && r.Code == 0:
		return nil
	}
	lines := tail.Lines(maxInstallLines)
	err = fmt.Errorf("it could not be installed: %w%s", outcome(r, grant), why(lines, r.Blocked))
	if len(r.Blocked) > 0 || slices.ContainsFunc(lines, notThere().MatchString) { // the policy will not change on its own
		return fmt.Errorf("%w: %w", err, upstream.ErrLasting)
	}
	return err
}

// Bounds of the error text about a launcher that failed.
const (
	maxInstallLines = 200 // number of lines of its output that are searched
	installLines    = 5   // number of lines that the error quotes
	installHosts    = 5   // number of hosts that the error names
)

// notThere matches the messages of launchers about a package that does not exist.
var notThere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bE404\b|404 Not Found|No matching distribution|not found in the package registry|ETARGET|No matching version`)
})

// The output of launchers for npm packages begins with the error and ends with advice. The
// output of launchers for Python ends with the error. The log that npm mentions is removed
// with the box.
var (
	errorBegins = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\s*(npm err|err_pnpm|error\b)`) })
	errorAdvice = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^npm (notice|err(or|!)( \d+)?$)|A complete log of this run|Note that you can also install|tarball, folder, http url`)
	})
)

// why returns the part of an error that explains why a launcher failed: from the lines that
// it wrote, and from the requests of its box that the door refused.
func why(lines []string, blocked []egress.Record) string {
	lines = slices.DeleteFunc(lines, errorAdvice().MatchString)
	if at := slices.IndexFunc(lines, errorBegins().MatchString); at >= 0 {
		lines = lines[at:min(len(lines), at+installLines)]
	}
	lines = lines[max(0, len(lines)-installLines):]
	said := ", and wrote nothing"
	if len(lines) > 0 {
		said = ": " + strings.Join(lines, "; ")
	}
	var hosts []string
	for _, r := range blocked {
		host := r.Host.String()
		if host == "" {
			continue
		}
		if r.Reason != "" {
			host += " (" + r.Reason + ")"
		}
		if !slices.Contains(hosts, host) && len(hosts) < installHosts {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return said
	}
	return fmt.Sprintf(", after `install` of the policy did not let its box reach %s%s", strings.Join(hosts, ", "), said)
}

// outcome returns how a program in a box with the grant ended.
func outcome(r sandbox.Result, g policies.Grant) error {
	switch {
	case r.Status == sandbox.OOM:
		return fmt.Errorf("it needed more memory than the %d MiB of its box", g.Limits().Memory>>20)
	case r.Status != sandbox.Exited:
		return fmt.Errorf("it was stopped: %s", r.Status)
	case r.Signal != 0:
		return fmt.Errorf("it ended by the signal %s", r.Signal)
	}
	return fmt.Errorf("it exited with status %d", r.Code)
}

// sweep removes from a home all directories that no process has claimed.
func sweep(home string) {
	entries, err := os.ReadDir(home)
	if err != nil {
		return // the caller gets the same error
	}
	for _, e := range entries {
		name := filepath.Join(home, e.Name())
		if f, yes := claim.Abandoned(name); yes {
			_ = os.RemoveAll(name) // the next fetch tries again
			f.Close()
		}
	}
}
