package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
)

// openHooks finds the folders of hooks.
func (s *Server) openHooks(ctx context.Context) error {
	f := s.cfg.Hooks
	if f == nil {
		return nil
	}
	var folders []hooks.Folder
	if len(f.Trusted) > 0 {
		return fmt.Errorf("--trust-hooks %s: name each hook that runs outside a box, for example --hooks %[1]s --trust-hook EVENT/NAME; `belljar hook list --hooks %[1]s` has the names", f.Trusted[0])
	}
	if dir := config.UserDir(); dir != "" && len(f.Folders) == 0 {
		folders = append(folders, s.folderAt(config.RealPath(filepath.Join(dir, "hooks"))))
	}
	for _, dir := range f.Folders {
		folder, err := s.hookFolder(dir)
		if err != nil {
			return err
		}
		folders = append(folders, folder)
	}
	timeout := hooks.DefaultTimeout
	if text := os.Getenv("HOOKS_TIMEOUT"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || time.Duration(n)*time.Second > hooks.MaxTimeout {
			return fmt.Errorf("HOOKS_TIMEOUT=%s: want seconds, 1 to %d", text, hooks.MaxTimeout/time.Second)
		}
		timeout = time.Duration(n) * time.Second
	}
	var err error
	// At the end of ctx there are hooks to run yet: of sessions that end. Close
	// bounds them.
	s.flow.hooks, err = hooks.New(context.WithoutCancel(ctx), hooks.Config{
		Folders: folders, OnHost: f.OnHost, Timeout: timeout, Log: s.Log,
		Host: hooks.Host{Program: s.hostProgram, Workspace: s.Workspace}, Box: &boxRunner{s},
	})
	if err != nil {
		return err
	}
	s.opened.Do(s.flow.hooks.Close) // which waits for hooks that run
	if s.approver != nil {
		s.approver.tell(s.flow.approval)
	}
	return s.warnOfHooks()
}

// warnOfHooks names each hook that runs outside a box to the operator, and refuses
// one that a box can write: that is asked again whenever it runs.
func (s *Server) warnOfHooks() error {
	all, err := s.flow.hooks.List()
	if err != nil {
		return nil //nolint:nilerr // an event finds it again, and is refused by it
	}
	for _, h := range all {
		if !h.OnHost || h.Off {
			continue
		}
		if err := s.boxes().Check(h.Path); err != nil {
			return fmt.Errorf("hook %s/%s cannot run outside a box: %w; move it, or run it in a box, without --trust-hook", h.Event, h.Name, err)
		}
		s.Log.Warn("a hook runs outside any box, with your rights", "hook", h.Path)
	}
	return nil
}

// hookFolder is a folder that the command line names, which must be there.
func (s *Server) hookFolder(dir string) (hooks.Folder, error) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return hooks.Folder{}, fmt.Errorf("hooks %s: no such folder; `belljar hook init %s` makes it", dir, dir)
	} else if err != nil {
		return hooks.Folder{}, fmt.Errorf("hooks %s: %w", dir, err)
	}
	return s.folderAt(path), nil
}

// folderAt is the folder at a path without links: one in the workspace is not left
// by links, which an agent could make.
func (s *Server) folderAt(path string) hooks.Folder {
	if rel, err := filepath.Rel(s.Workspace, path); err == nil && config.Inside(path, s.Workspace) {
		return hooks.Folder{Dir: cmp.Or(rel, "."), Beneath: s.Workspace}
	}
	return hooks.Folder{Dir: path}
}
