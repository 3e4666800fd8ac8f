package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/toolkit"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
)

func main() {
	// The helpers of a box start as this same program, so this must come first.
	sandbox.Init()
	escape.Main()
	collect(gcStarting)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// stop contains the signals that end the program. Commands that open boxes or change
// something in several steps end in order on them: running work is drained or killed. `run`
// passes them on to its command.
var stop = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// run is main without the exit of the process: it returns the exit status.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	// A client that disconnects must not kill this process before the boxes are closed.
	// signal.Ignore is not used, because the commands in the boxes would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	if len(args) == 1 && args[0] == toolkit.HelperCommand {
		return helperOf(context.Background(), in, out, errs)
	}
	root := commands(args...)
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		eachCommand(root, completeValues) // this takes longer than the rest of the tree
	}
	root.SetIn(in)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stdout := &pipe{out: out, broken: func() { cancel(errClosedPipe) }}
	// Much of the output contains text of agents and pages. Every command writes to a
	// terminal through a printable.Writer, unless it uses the raw one. Output to a file or
	// a program is data, and is not changed. Standard error is always for people.
	if isTerminal(out) {
		out = printable.NewWriter(out)
	} else if !ownsOutput(root, args) {
		out = stdout
	}
	said := printable.NewWriter(errs)
	root.SetOut(out)
	root.SetErr(said)

	called, err := root.ExecuteContextC(ctx)
	if shown, ok := out.(*printable.Writer); ok {
		err = errors.Join(err, failure(shown.Flush()))
	}
	defer func() { _ = said.Flush() }() // an error here cannot be reported any more
	if stdout.closed.Load() {
		return exitClosedPipe
	}
	if lost := stdout.failed.Load(); err == nil && lost != nil { // a part of the output is missing
		err = failure(fmt.Errorf("print: %w", *lost))
	}
	if err == nil {
		return exitOK
	}
	var status *statusError
	if !errors.As(err, &status) {
		// This is a fault that cobra itself finds, such as two flags that exclude each
		// other.
		status = &statusError{code: exitUsage, err: err}
	}
	if status.err != nil {
		more := ""
		if status.help {
			more = fmt.Sprintf("; see `%s --help`", called.CommandPath())
		}
		fmt.Fprintf(said, "belljar: %s%s\n", strings.TrimSpace(status.err.Error()), more)
	}
	return status.code
}

// command makes the command with a name.
type command struct {
	name  string
	whole bool // whether the command needs the whole tree
	make  func() *cobra.Command
}

// top contains the commands directly below belljar.
var top = []command{
	{"serve", false, serveCommand},
	{"call", false, callCommand},
	{"run", false, runCommand},
	{"front", false, frontCommand},
	{"work", false, workCommand},
	{"fleet", false, fleetCommand},
	{"place", false, placeCommand},
	{"doctor", false, doctorCommand},
	{"policy", false, policyCommand},
	{"workspace", false, workspaceCommand},
	{"image", false, imageCommand},
	{"ports", false, portsCommand},
	{"ps", false, psCommand},
	{"session", false, sessionCommand},
	{"job", false, jobCommand},
	{"tenant", false, tenantCommand},
	{"token", false, tokenCommand},
	{"state", false, stateCommand},
	{"upstream", false, upstreamCommand},
	{"approve", false, approveCommand},
	{"ask", false, askCommand},
	{"audit", false, auditCommand},
	{"console", false, consoleCommand},
	{"search", false, searchCommand},
	{"read", false, readCommand},
	{"toolkit", false, toolkitCommand},
	{"browser", false, browserCommand},
	{"hook", false, hookCommand},
	{"demo-server", false, demoCommand},
	{"version", false, versionCommand},
	{"completion", true, completionCommand},
	{"man", true, manCommand},
}

// commands returns the tree of the commands that a command line needs: one command and
// everything below it, if args begin with its name, or else all commands.
func commands(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "belljar",
		Short: "a shell for agents that cannot hurt the machine",
		Long: `belljar is an MCP server: it gives an agent a shell in a sandbox that
contains only what a policy grants. "belljar serve" is what an MCP client starts.
docs/commands.md has the exit statuses, what scripts can rely on, completion and
manual pages.
` + exitHelp,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	// This is not the flag that cobra adds for its Version: that one could print all this
	// only with a template, and templates keep every method in the program
	// (TestNoMethodIsCalledByName of the house).
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return printVersion(c.OutOrStdout())
		}
		return c.Help()
	}
	one := slices.IndexFunc(top, func(t command) bool { return len(args) > 0 && t.name == args[0] && !t.whole })
	for i, t := range top {
		if i == one || one < 0 {
			root.AddCommand(t.make())
		}
	}
	complete(root)
	return root
}
