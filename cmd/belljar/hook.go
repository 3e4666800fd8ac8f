package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/server"
	"belljar.dev/policies"
)

// hookTool contains the flags that the hook commands share.
type hookTool struct {
	setup  setup
	asJSON bool
}

func hookCommand() *cobra.Command {
	t := hookTool{setup: setup{Config: server.Config{Command: "hook", Hooks: &server.Hooks{}}}}
	c := &cobra.Command{
		Use:   "hook",
		Short: "programs of yours that belljar runs at events",
		Long: `hook makes, lists and tries hooks: programs in folders that belljar runs before
and after calls, when sessions begin or end, and at events of your own. They run
in a box, except those that --trust-hook names.

  belljar hook init
  belljar hook list
  belljar hook test tool_use
  belljar hook emit nightly '{"branch": "main"}'
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	initialise := &cobra.Command{
		Use: "init [DIR]", Short: "make a folder of hooks, with examples that are off",
		RunE: func(c *cobra.Command, args []string) error { return initHooks(c.OutOrStdout(), args) },
	}
	list := &cobra.Command{
		Use: "list", Short: "list hooks: what runs where, and what cannot run",
		RunE: func(c *cobra.Command, _ []string) error { return t.list(c) },
	}
	try := &cobra.Command{
		Use: "test EVENT [JSON]", Short: "run the hooks of an event with made-up data, and show their answers", Args: eventArgs,
		RunE: func(c *cobra.Command, args []string) error { return t.test(c, args) },
	}
	emit := &cobra.Command{
		Use: "emit EVENT [JSON]", Short: "run the hooks of an event", Args: eventArgs,
		Long: `emit runs the hooks of an event, also of an event of your own, and waits for
all of them. The hooks get the JSON object; with - it is read from standard input.

Exit status: 0 they ran; 1 one refused or failed; 2 the command line is not
valid.`,
		RunE: func(c *cobra.Command, args []string) error { return t.emit(c, args) },
	}
	for _, sub := range []*cobra.Command{list, try, emit} {
		t.setup.flags(sub)
		hookFlags(sub, t.setup.Hooks)
		sub.Flags().BoolVar(&t.asJSON, "json", false, "print JSON")
	}
	c.AddCommand(initialise, list, try, emit)
	return c
}

// eventArgs checks that the arguments are the name of an event and, optionally, an object.
func eventArgs(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return &lacking{"the name of an event and, if you like, a JSON object"}
	}
	if err := hooks.CheckEvent(args[0]); err != nil {
		return usage("%w", err)
	}
	return nil
}

// hookExamples are the files that init writes. They are off: their names begin with "_".
var hookExamples = map[string]string{
	"tool_use/_sync-10-example.sh": `#!/bin/sh
# Asked before each call. To refuse it, say why on standard error and end with
# status 2. Take the "_" from the name of this file to have it run.
case $(cat) in
*'git push'*'"tool":"Bash"'*) echo "commits are pushed by people here" >&2; exit 2 ;;
esac
`,
	"session_end/_example.sh": `#!/bin/sh
# belljar does not wait for it. It runs in a box, like all hooks except those that
# --trust-hook names.
echo "session $HOOK_SESSION has ended" >&2
`,
}

// initHooks creates a folder of hooks. Files that exist already stay as they are.
func initHooks(out io.Writer, args []string) error {
	dir := ""
	if len(args) == 1 {
		dir = args[0]
	} else if own := config.UserDir(); own != "" {
		dir = filepath.Join(own, "hooks")
	}
	if dir == "" {
		return failure(errors.New("hook init: there is no place for your configuration; name a folder"))
	}
	for _, event := range hooks.Events() {
		if err := os.MkdirAll(filepath.Join(dir, event[0]), 0o700); err != nil {
			return failure(fmt.Errorf("hook init: %w", err))
		}
	}
	for name, text := range hookExamples {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return failure(fmt.Errorf("hook init: %w", err))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Hooks go into %s, into a folder for their event:\n", dir)
	for _, event := range hooks.Events() {
		fmt.Fprintf(&b, "  %-14s %s\n", event[0], event[1])
	}
	b.WriteString("It contains two examples, which are off while their names begin with \"_\".\n")
	_, err := io.WriteString(out, b.String())
	return failure(err)
}

// hookInfo is a hook in the JSON output.
type hookInfo struct {
	Event string `json:"event"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	Sync  bool   `json:"sync"`
	Runs  string `json:"runs"` // "box", "host" or "off"
	Why   string `json:"why,omitempty"`
}

func infoOf(h hooks.Hook) hookInfo {
	info := hookInfo{Event: h.Event, Name: h.Name, Path: h.Path, Sync: h.Sync, Runs: "box", Why: h.Why}
	switch {
	case h.Off:
		info.Runs = "off"
	case h.OnHost:
		info.Runs = "host"
	}
	return info
}

// ranInfo is a hook of an event in the JSON output, with its result.
type ranInfo struct {
	hookInfo
	Came *cameInfo `json:"came,omitempty"` // nil for a hook that is off
}

// cameInfo is the result of a hook.
type cameInfo struct {
	Code       int    `json:"code"`
	Denied     bool   `json:"denied"`
	Reason     string `json:"reason,omitempty"`
	Note       string `json:"note,omitempty"`
	Failure    string `json:"failure,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Stdout     string `json:"stdout,omitempty"`
	Stderr     string `json:"stderr,omitempty"`
}

// ranInfos returns the hooks of an event: first those that ran, then those that are off.
func ranInfos(all []hooks.Ran, off []hooks.Hook) []ranInfo {
	infos := make([]ranInfo, 0, len(all)+len(off))
	for _, r := range all {
		infos = append(infos, ranInfo{infoOf(r.Hook), &cameInfo{
			Code: r.Code, Denied: r.Denied, Reason: r.Reason, Note: r.Note, Failure: r.Failure,
			DurationMS: r.Took.Milliseconds(), Stdout: r.Stdout, Stderr: r.Stderr,
		}})
	}
	for _, h := range off {
		infos = append(infos, ranInfo{hookInfo: infoOf(h)})
	}
	return infos
}

// Bounds of what is shown of a hook, in characters. No file has a longer name.
const (
	maxHookName = 255
	maxHookLine = 5000
)

func (t *hookTool) list(c *cobra.Command) error {
	srv, err := t.setup.open(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer srv.Close()
	all, err := srv.Hooks().List()
	if err != nil {
		return failure(err)
	}
	infos, outside := make([]hookInfo, 0, len(all)), 0
	for _, h := range all {
		info := infoOf(h)
		if info.Runs == "host" {
			outside++
		}
		infos = append(infos, info)
	}
	if t.asJSON {
		return failure(printJSON(c.OutOrStdout(), infos))
	}
	if len(infos) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "There are no hooks; `belljar hook init` makes a folder for them.")
		return failure(err)
	}
	tab := newTable(c.OutOrStdout())
	fmt.Fprintln(tab, "EVENT\tHOOK\tRUNS\tWAITED FOR\tFILE")
	for _, info := range infos {
		waited, file := "no", info.Path
		if info.Sync {
			waited = "yes"
		}
		if info.Why != "" && info.Runs != "off" {
			file += " - CANNOT RUN: " + info.Why
		}
		// An agent names the files of a folder in its workspace.
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", info.Event, policies.Clip(info.Name, maxHookName), info.Runs, waited, policies.Clip(file, maxHookLine))
	}
	if outside > 0 {
		fmt.Fprintf(tab, "\nWARNING: hooks with \"host\" under RUNS run outside any box, with your rights on this machine: %d in all.\n", outside)
	}
	return failure(tab.Flush())
}

// madeUp contains made-up data for the events that belljar sends.
var madeUp = map[string]map[string]any{
	hooks.SessionStart: {},
	hooks.SessionEnd:   {"client": "test", "client_version": "1"},
	hooks.ToolUse:      {"call": "c-TEST", "tool": "Bash", "arguments": map[string]any{"command": "git push"}, "command": "git push", "profile": "offline"},
	hooks.ToolResult:   {"call": "c-TEST", "tool": "Bash", "arguments": map[string]any{"command": "ls"}, "command": "ls", "profile": "offline", "is_error": false, "text": "README.md", "duration_ms": 12},
	hooks.JobEnd:       {"task_id": 1, "status": "exited", "exit_code": 0, "duration_ms": 1200},
	hooks.Callback:     {"callback_id": 0, "message": "is the build done?", "times": 1, "left": 19},
	hooks.Approval:     {"approval": "ap-test", "state": "asked", "tool": "Bash", "rule": "publish", "by": "", "call": "c-TEST"},
	hooks.Error:        {"call": "c-TEST", "tool": "Bash", "error": "open box: no"},
}

// ran runs the hooks of the event that the command line names. off are the hooks that are
// off because of their names.
func (t *hookTool) ran(c *cobra.Command, args []string, data map[string]any) (all []hooks.Ran, off []hooks.Hook, err error) {
	if len(args) == 2 {
		text := []byte(args[1])
		if args[1] == "-" {
			var err error
			if text, err = config.ReadBounded(c.InOrStdin(), 1<<20); err != nil {
				return nil, nil, failure(fmt.Errorf("hook: standard input: %w", err))
			}
		}
		data = nil
		if err := json.Unmarshal(text, &data); err != nil {
			return nil, nil, usage("hook: want a JSON object such as {\"branch\": \"main\"}, got %q", policies.Clip(string(text), 80))
		}
	}
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	srv, err := t.setup.open(ctx, c.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	defer srv.Close()
	if off, err = srv.Hooks().List(); err != nil {
		return nil, nil, failure(err)
	}
	off = slices.DeleteFunc(off, func(h hooks.Hook) bool { return !h.Off || h.Event != args[0] })
	all, err = srv.Hooks().Test(ctx, hooks.Event{Name: args[0], Tenant: srv.Tenant, Time: time.Now(), Data: data})
	return all, off, failure(err)
}

// notRun returns a text that says which hooks of an event did not run, or that the event
// has no hook.
func notRun(event string, all []hooks.Ran, off []hooks.Hook) string {
	if len(all) == 0 && len(off) == 0 {
		return fmt.Sprintf("The event %s has no hook.\n", event)
	}
	var b strings.Builder
	for _, h := range off {
		fmt.Fprintf(&b, "%s: off, since its name begins with %q; rename it to turn it on\n", policies.Clip(h.Path, maxHookLine), filepath.Base(h.Path)[:1])
	}
	return b.String()
}

// printRan prints the results of an event's hooks for a program.
func (t *hookTool) printRan(c *cobra.Command, all []hooks.Ran, off []hooks.Hook, failed bool) error {
	if err := printJSON(c.OutOrStdout(), ranInfos(all, off)); err != nil || !failed {
		return err
	}
	return &statusError{code: exitFailed}
}

// test shows the whole result of each hook.
func (t *hookTool) test(c *cobra.Command, args []string) error {
	all, off, err := t.ran(c, args, madeUp[args[0]])
	if err != nil {
		return err
	}
	failed := slices.ContainsFunc(all, func(r hooks.Ran) bool { return r.Failure != "" })
	if t.asJSON {
		return t.printRan(c, all, off, failed)
	}
	var b strings.Builder
	b.WriteString(notRun(args[0], all, off))
	for _, r := range all {
		fmt.Fprintf(&b, "%s: %s (%s)\n", policies.Clip(r.Hook.Path, maxHookLine), cameOf(r), r.Took.Round(time.Millisecond))
		for _, out := range [][2]string{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
			for line := range strings.Lines(out[1]) {
				fmt.Fprintf(&b, "  %s: %q\n", out[0], strings.TrimSuffix(line, "\n"))
			}
		}
	}
	if _, err := io.WriteString(c.OutOrStdout(), b.String()); err != nil || failed {
		return &statusError{code: exitFailed, err: err}
	}
	return nil
}

// emit prints a line about the result of each hook.
func (t *hookTool) emit(c *cobra.Command, args []string) error {
	all, off, err := t.ran(c, args, nil)
	if err != nil {
		return err
	}
	refused := slices.ContainsFunc(all, func(r hooks.Ran) bool { return r.Denied || r.Failure != "" })
	if t.asJSON {
		return t.printRan(c, all, off, refused)
	}
	if len(all) == 0 {
		_, err := io.WriteString(c.OutOrStdout(), notRun(args[0], all, off))
		return failure(err)
	}
	for _, r := range all {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", policies.Clip(r.Hook.Name, maxHookName), cameOf(r)); err != nil {
			return failure(err)
		}
	}
	if refused {
		return &statusError{code: exitFailed}
	}
	return nil
}

// cameOf returns the result of a hook in words, as one line.
func cameOf(r hooks.Ran) string {
	text := "continues"
	switch {
	case r.Failure != "" && r.Hook.Sync:
		text = "refuses, since it failed: " + r.Failure
	case r.Failure != "":
		text = "failed: " + r.Failure
	case r.Denied && r.Hook.Sync:
		text = "refuses: " + r.Reason
	case r.Denied:
		text = "would refuse, but is not waited for: " + r.Reason
	case r.Note != "":
		text = "continues, with the note: " + r.Note
	}
	return policies.Clip(text, maxHookLine)
}
