package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/skills"
	"belljar.dev/internal/work/callback"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// workflow is the flags for hooks and callbacks.
type workflow struct {
	hooks   []string
	onHost  []string
	trusted []string // folders, which nobody can trust as a whole any more
	inbox   string
}

func (f *workflow) flags(c *cobra.Command) {
	f.hookFlags(c)
	c.Flags().StringVar(&f.inbox, "inbox", "", "`directory` that gets a file for each message of a callback")
}

func (f *workflow) hookFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.hooks, "hooks", nil, "`directory` of hooks, which run in a box; again for more (default: $XDG_CONFIG_HOME/belljar/hooks)")
	c.Flags().StringArrayVar(&f.onHost, "trust-hook", nil, "run the hook `EVENT/NAME` outside any box, with your rights on this machine; again for more")
	c.Flags().StringArrayVar(&f.trusted, "trust-hooks", nil, "")
	_ = c.Flags().MarkHidden("trust-hooks") // it is there
}

// flow is what a command has of skills, hooks and callbacks.
type flow struct {
	skills    *skills.Catalog
	shared    []policies.Mount // the skills' folders, for every box
	hooks     *hooks.Set       // nil where none are run
	callbacks *callback.Book   // nil where none are kept
	aside     *tools.Aside     // nil as well
	around    *around          // nil as well
	jobOver   chan struct{}    // is sent to at the end of a job; nil where nobody waits
}

// skillsBelow is where boxes see the folders of skills.
const skillsBelow = "/skills"

// openSkills is the catalog of a workspace. Nothing is read yet.
func (w *works) openSkills() {
	sources := []skills.Source{{
		Name: "workspace", Dir: ".claude/skills", Beneath: w.workspace,
		Box: "/workspace/.claude/skills", Required: ".claude/required_skills.txt",
	}}
	if home, err := os.UserHomeDir(); err == nil {
		dir := filepath.Join(home, ".claude", "skills")
		sources = w.addSkills(sources, "user", dir, filepath.Join(home, ".claude", "required_skills.txt"))
	}
	for i, dir := range filepath.SplitList(os.Getenv("ADDITIONAL_SKILLS")) {
		name := "additional"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		if !filepath.IsAbs(dir) {
			w.log.Error("a folder of ADDITIONAL_SKILLS is not used: its path does not begin with /", "folder", dir)
			continue
		}
		sources = w.addSkills(sources, name, dir, filepath.Join(dir, "required_skills.txt"))
	}
	builtin := skills.Builtin()
	if dir := config.UserDir(); dir != "" {
		builtin.Required = filepath.Join(dir, "required_skills.txt")
	}
	sources = append(sources, builtin)
	w.flow.skills = skills.New(skills.Config{Sources: sources, Off: skillsOff(os.Environ()), Listed: listOf(os.Getenv("SKILLS_LISTED"))})
}

// addSkills adds a folder of the operator's. One that a box can write, or one in
// the workspace, is not believed.
func (w *works) addSkills(sources []skills.Source, name, dir, required string) []skills.Source {
	real := config.RealPath(dir)
	if real == config.RealPath(filepath.Join(w.workspace, ".claude", "skills")) {
		return sources // it is that of the workspace
	}
	if w.state != "" && config.Inside(config.RealPath(w.state), real) {
		w.log.Error("a folder of skills is not used: the state lies in it, which no box may see", "folder", dir)
		return sources
	}
	s := skills.Source{Name: name, Dir: dir, Required: required, Trusted: w.onlyMine(dir) && w.onlyMine(filepath.Dir(required))}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		s.Box = skillsBelow + "/" + name
		w.flow.shared = append(w.flow.shared, policies.Mount{Source: real, Target: s.Box})
	}
	return append(sources, s)
}

// onlyMine reports whether no box can write a directory.
func (w *works) onlyMine(dir string) bool {
	place, _ := config.Reached(dir, w.workspace, w.policy, func(m policies.Mount) bool { return m.Writable })
	return place == ""
}

// offName is the variable that switches a skill off.
var offName = regexp.MustCompile(`^SKILL_([A-Z0-9_]+)=0$`)

// skillsOff returns whether SKILL_NAME=0 switches a skill off. NAME is the skill's
// name in capitals, with _ for other characters.
func skillsOff(environ []string) (off func(string) bool) {
	names := make(map[string]bool)
	for _, v := range environ {
		if m := offName.FindStringSubmatch(v); m != nil {
			names[m[1]] = true
		}
	}
	return func(skill string) bool {
		return names[strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
				return r
			}
			return '_'
		}, skill)]
	}
}

// listOf are the parts of a text between commas.
func listOf(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// openFlow opens hooks and callbacks, for calls that come.
func (w *works) openFlow(ctx context.Context, f *workflow) error {
	if err := w.openHooks(ctx, f); err != nil {
		return err
	}
	inbox := callback.Inbox{Place: w.workspace}
	if f.inbox != "" {
		dir, err := filepath.Abs(f.inbox)
		if err != nil {
			return fmt.Errorf("inbox %s: %w", f.inbox, err)
		}
		if !w.onlyMine(dir) {
			return fmt.Errorf("inbox %s: a box can write there, and would be believed; name another directory with --inbox", dir)
		}
		inbox.Dir = dir
	}
	var err error
	w.flow.callbacks, err = callback.New(callback.Config{
		Store: w.store, Place: w.workspace, Log: w.log, Self: processName(os.Getpid()), Alive: alive,
		Post: func(d callback.Delivery) error {
			w.flow.later(hooks.Callback, d.Session, d.Tenant, map[string]any{
				"callback_id": d.Slot, "message": d.Message, "times": d.Times, "left": d.Left,
			})
			return inbox.Put(d)
		},
		Changed: func(tenant string) {
			if s := w.flow.around.server.Load(); s != nil {
				tools.CallbacksChanged(s, tenant)
			}
		},
	})
	if err != nil {
		return err
	}
	w.flow.aside = tools.NewAside(w.flow.callbacks, w.flow.skills, w.log)
	w.flow.around = newAround(&w.flow)
	return nil
}

// openHooks finds the folders of hooks.
func (w *works) openHooks(ctx context.Context, f *workflow) error {
	var folders []hooks.Folder
	if len(f.trusted) > 0 {
		return fmt.Errorf("--trust-hooks %s: name each hook that runs outside a box, for example --hooks %[1]s --trust-hook EVENT/NAME; `belljar hook list --hooks %[1]s` has the names", f.trusted[0])
	}
	if dir := config.UserDir(); dir != "" && len(f.hooks) == 0 {
		folders = append(folders, w.folderAt(config.RealPath(filepath.Join(dir, "hooks"))))
	}
	for _, dir := range f.hooks {
		folder, err := w.hookFolder(dir)
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
	w.flow.hooks, err = hooks.New(context.WithoutCancel(ctx), hooks.Config{
		Folders: folders, OnHost: f.onHost, Timeout: timeout, Log: w.log,
		Host: hooks.Host{Program: w.hostProgram, Workspace: w.workspace}, Box: &boxRunner{w},
	})
	if err != nil {
		return err
	}
	return w.warnOfHooks()
}

// warnOfHooks names each hook that runs outside a box to the operator, and refuses
// one that a box can write: that is asked again whenever it runs.
func (w *works) warnOfHooks() error {
	all, err := w.flow.hooks.List()
	if err != nil {
		return nil //nolint:nilerr // an event finds it again, and is refused by it
	}
	for _, h := range all {
		if !h.OnHost || h.Off {
			continue
		}
		if err := w.boxes().Check(h.Path); err != nil {
			return fmt.Errorf("hook %s/%s cannot run outside a box: %w; move it, or run it in a box, without --trust-hook", h.Event, h.Name, err)
		}
		w.log.Warn("a hook runs outside any box, with your rights", "hook", h.Path)
	}
	return nil
}

// hookFolder is a folder that the command line names, which must be there.
func (w *works) hookFolder(dir string) (hooks.Folder, error) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return hooks.Folder{}, fmt.Errorf("hooks %s: no such folder; `belljar hook init %s` makes it", dir, dir)
	} else if err != nil {
		return hooks.Folder{}, fmt.Errorf("hooks %s: %w", dir, err)
	}
	return w.folderAt(path), nil
}

// folderAt is the folder at a path without links: one in the workspace is not left
// by links, which an agent could make.
func (w *works) folderAt(path string) hooks.Folder {
	if rel, err := filepath.Rel(w.workspace, path); err == nil && config.Inside(path, w.workspace) {
		return hooks.Folder{Dir: cmp.Or(rel, "."), Beneath: w.workspace}
	}
	return hooks.Folder{Dir: path}
}

// close waits for hooks that run.
func (f *flow) close() {
	if f.hooks != nil {
		f.hooks.Close()
	}
}

// later has the hooks of an event run, and waits for none.
func (f *flow) later(event, session, tenant string, data map[string]any) {
	if f.hooks != nil {
		f.hooks.Later(hooks.Event{Name: event, Session: control.ShortID(session), Tenant: tenant, Time: time.Now(), Data: data})
	}
}
