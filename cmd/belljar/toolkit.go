package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/server"
	"belljar.dev/internal/toolkit"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
)

// toolkitCommand returns the command with which people and CI call the tools of the
// toolkit.
func toolkitCommand() *cobra.Command {
	s := setup{Config: server.Config{Command: "toolkit", Tools: &server.Tools{Toolkit: true}, Trace: true}}
	var format string
	c := &cobra.Command{
		Use:   "toolkit TOOL [JSON | KEY=VALUE...]",
		Short: "measure source code, or make project files from templates",
		Long: `toolkit makes one call of a tool that measures source code or fills templates,
through the same policy and in the same kind of box as an agent's call, and prints
the result without what is meant for agents. Arguments are as for ` + "`belljar call`" + `.
Paths are those of the box: project_path=cmd is cmd in --workspace.

The tools:
` + toolList() + `
With --format json, sarif, junit or markdown the output is that document as a whole,
for a file. docs/toolkit.md says which tool has which format.

Exit status: 0 the tool did its work; 1 it did not, or quality_gate failed with
fail_on_violation=true; 2 the command line is not valid.`,
		Example: `  belljar toolkit analyze_complexity project_path=cmd
  belljar toolkit quality_gate base=main fail_on_violation=true --format sarif >gate.sarif
  belljar toolkit analyze_duplicates snippet="$(cat new.go)"`,
		ValidArgs: tools.ToolkitNames(),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(tools.ToolkitNames(), args[0]) {
				return misused(c, "%s is not a tool of the toolkit, which belljar toolkit -h lists", args[0])
			}
			arguments, err := parseArguments(args[0], args[1:])
			if err == nil && format != "" {
				arguments, err = withFormat(arguments, format)
			}
			if err != nil {
				return usage("toolkit %s: %w", args[0], err)
			}
			format := formatOf(arguments)
			return s.callOnce(c, args[0], arguments, func(_ context.Context, _ *server.Server, _ *mcp.Session, r *mcp.Result) error {
				return showReport(c, r, format)
			})
		},
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	c.Flags().StringVar(&format, "format", "", "`form` of the result: summary, detailed, json, sarif, junit or markdown")
	c.Flags().SetInterspersed(true)
	return c
}

// toolList returns the names of the tools, a few on each line.
func toolList() string {
	var b strings.Builder
	for row := range slices.Chunk(tools.ToolkitNames(), 3) {
		fmt.Fprintf(&b, "  %s\n", strings.Join(row, ", "))
	}
	return b.String()
}

// withFormat adds the argument format.
func withFormat(arguments json.RawMessage, format string) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &all); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if _, twice := all["format"]; twice {
		return nil, errors.New("format is given twice")
	}
	text, err := json.Marshal(format)
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	all["format"] = text
	return json.Marshal(all)
}

// formatOf returns the argument format, or an empty text.
func formatOf(arguments json.RawMessage) string {
	var with struct {
		Format string `json:"format"`
	}
	if json.Unmarshal(arguments, &with) != nil {
		return "" // the tool reports what is wrong with the arguments
	}
	return with.Format
}

// showReport prints the result of one of the tools.
func showReport(c *cobra.Command, r *mcp.Result, format string) error {
	report, ok := r.Structured.(tools.Report)
	if !ok {
		return show(c, r, false)
	}
	text := []byte(report.Text())
	if !slices.Contains([]string{"", "summary", "detailed"}, format) {
		var err error
		if text, err = report.Whole(); err != nil {
			return failure(fmt.Errorf("read the result: %w", err))
		}
		if format == "json" {
			text = printable.JSON(text) // the JSON may be saved in a file that is shown on a terminal later
		}
	}
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	if _, err := c.OutOrStdout().Write(text); err != nil {
		return failure(fmt.Errorf("print the result: %w", err))
	}
	if r.IsError {
		return &statusError{code: exitFailed}
	}
	return nil
}

// helperMemory is the memory limit of the helper in bytes (see
// runtime/debug.SetMemoryLimit). Near it, garbage is collected more often.
const helperMemory = 192 << 20

// helperOf runs the helper that a server starts in a box to measure source code. The server
// reads the lines of its output, so they must not go through a writer for people.
func helperOf(ctx context.Context, in io.Reader, out, events io.Writer) int {
	if !toolkit.InBox() {
		fmt.Fprintf(events, "belljar: %s runs in a box, where a server starts it; `belljar toolkit` measures\n", toolkit.HelperCommand)
		return exitUsage
	}
	debug.SetMemoryLimit(helperMemory)
	program, err := toolkit.Identity()
	if err != nil {
		return exitFailed
	}
	if err := toolkit.Serve(ctx, toolkit.Host{In: in, Out: out, Events: events, Workspace: toolkit.Workspace, Git: toolkit.Git, Program: program, Cache: cacheDir()}); err != nil {
		return exitFailed
	}
	return exitOK
}

// cacheDir returns the directory in which the helper keeps what it has parsed. The
// directory is in the home of the box, and is removed with the box. It is empty if there is
// no home.
func cacheDir() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "belljar-toolkit")
}
