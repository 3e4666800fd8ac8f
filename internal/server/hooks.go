package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
)

// openHooks finds the folders of hooks, and makes the set of hooks.
func (p *place) openHooks(ctx context.Context) error {
	s := p.server
	f := s.cfg.Hooks
	if f == nil {
		return nil
	}
	var folders []hooks.Folder
	if len(f.Trusted) > 0 {
		return fmt.Errorf("--trust-hooks %s: name each hook that runs outside a box, for example --hooks %[1]s --trust-hook EVENT/NAME; `belljar hook list --hooks %[1]s` has the names", f.Trusted[0])
	}
	if dir := config.UserDir(); dir != "" && len(f.Folders) == 0 {
		folders = append(folders, s.host.folderAt(config.RealPath(filepath.Join(dir, "hooks"))))
	}
	for _, dir := range f.Folders {
		folder, err := s.host.hookFolder(dir)
		if err != nil {
			return err
		}
		folders = append(folders, folder)
	}
	timeout := hooks.DefaultTimeout
	if text := os.Getenv("HOOKS_TIMEOUT"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > int(hooks.MaxTimeout/time.Second) {
			return fmt.Errorf("HOOKS_TIMEOUT=%s: want seconds, 1 to %d", text, hooks.MaxTimeout/time.Second)
		}
		timeout = time.Duration(n) * time.Second
	}
	var err error
	// When ctx ends, there are still hooks to run, for the sessions that end. Close bounds
	// their time.
	p.flow.hooks, err = hooks.New(context.WithoutCancel(ctx), hooks.Config{
		Folders: folders, OnHost: f.OnHost, Timeout: timeout, Log: s.Log,
		Host: hooks.Host{Program: s.host.program, Workspace: p.Workspace}, Box: &boxRunner{p},
	})
	if err != nil {
		return err
	}
	p.opened.Do(p.flow.hooks.Close) // Close waits for hooks that run
	if p.Workspace != s.Workspace {
		return nil // the place of --workspace has already logged it
	}
	return p.flow.warnOfHooks(s.host)
}

// warnOfHooks logs each hook that runs outside a box, for the operator. It refuses a hook
// that a box can write; this is checked again at each run.
func (f *flow) warnOfHooks(h *host) error {
	all, err := f.hooks.List()
	if err != nil {
		return nil //nolint:nilerr // the next event meets the same error, and is refused
	}
	for _, one := range all {
		if !one.OnHost || one.Off {
			continue
		}
		if err := h.boxes().Check(one.Path); err != nil {
			return fmt.Errorf("hook %s/%s cannot run outside a box: %w; move it, or run it in a box, without --trust-hook", one.Event, one.Name, err)
		}
		h.Log.Warn("a hook runs outside any box, with your rights", "hook", one.Path)
	}
	return nil
}
