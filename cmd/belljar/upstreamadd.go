package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/policies"
)

// newEntry are the flags of upstream add: the entry to write.
type newEntry struct {
	to           string // path of the file of servers
	env, headers []string
	cwd, url     string
	sse          bool
}

// toFlag adds the flag --to of the commands that write a file of servers.
func toFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "to", "", "`file` of servers to write into (default: servers.json beside your policy)")
}

func addCommand() *cobra.Command {
	var a newEntry
	c := &cobra.Command{
		Use: "add NAME [-- COMMAND [ARG...]]", Short: "write an entry of a server into a file",
		Long: `add writes an entry into a file of servers, which it makes if necessary, and prints
what the entry would start. It starts nothing. Without --to it is servers.json beside
your policy. A server reads the file if the policy names it below upstreams.from, or with
belljar serve --upstreams FILE; servers that run see the entry.

  belljar upstream add memory -- npx -y @modelcontextprotocol/server-memory
  belljar upstream add tracker --env TRACKER_TOKEN -- uvx tracker-mcp
  belljar upstream add docs --url https://mcp.docs.example/mcp

A variable without a value is taken from the environment of belljar. A secret does not
belong in the file: name one of the policy as ${secret:NAME}.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return a.add(c, args[0], args[1:]) },
	}
	toFlag(c, &a.to)
	c.Flags().StringArrayVar(&a.env, "env", nil, "`NAME=VALUE` is a variable of the server; NAME alone takes the value that belljar has; may be repeated")
	c.Flags().StringVar(&a.cwd, "cwd", "", "`directory` of the box in which the command starts")
	c.Flags().StringVar(&a.url, "url", "", "`address` of a remote server, in place of a command")
	c.Flags().StringArrayVar(&a.headers, "header", nil, "`header` for a remote server, with its name, a colon and its value; may be repeated")
	c.Flags().BoolVar(&a.sse, "sse", false, "the remote server speaks HTTP with SSE, of 2024-11-05")
	return c
}

func (a *newEntry) add(c *cobra.Command, name string, argv []string) error {
	d := config.Draft{Name: name, Cwd: a.cwd, URL: a.url}
	switch {
	case (a.url == "") == (len(argv) == 0):
		return misused(c, "give either a COMMAND after --, or --url")
	case a.url == "" && (len(a.headers) > 0 || a.sse):
		return misused(c, "--header and --sse are for a remote server, with --url")
	case a.url != "" && (len(a.env) > 0 || a.cwd != ""):
		return misused(c, "--env and --cwd are for a command, and not for --url")
	}
	if a.url != "" {
		d.Type = config.HTTP
		if a.sse {
			d.Type = config.SSE
		}
	} else {
		d.Command, d.Args = argv[0], argv[1:]
	}
	var err error
	if d.Env, err = nameValues(a.env, "=", func(name string) string { return "${" + name + "}" }); err != nil {
		return misused(c, "--env %v", err)
	}
	if d.Headers, err = nameValues(a.headers, ":", nil); err != nil {
		return misused(c, "--header %v", err)
	}
	file, err := openServers(a.to)
	if err != nil {
		return failure(fmt.Errorf("upstream add: %w", err))
	}
	defer file.Close()
	next, _, err := withEntries(c, file, d)
	if err == nil {
		err = file.replace(next)
	}
	if err != nil {
		return failure(fmt.Errorf("upstream add: %w", err))
	}
	printUse(c.OutOrStdout(), file.name)
	return nil
}

// nameValues parses NAME and VALUE pairs. missing returns the value for a name without one;
// if missing is nil, such a name is an error.
func nameValues(all []string, separator string, missing func(name string) string) (map[string]string, error) {
	to := make(map[string]string, len(all))
	for _, text := range all {
		name, value, found := strings.Cut(text, separator)
		name, value = strings.TrimSpace(name), strings.TrimLeft(value, " ")
		switch {
		case name == "" || !found && missing == nil:
			return nil, fmt.Errorf("must be NAME%sVALUE, and %q is not", separator, policies.Clip(name, 100))
		case !found:
			value = missing(name)
		}
		to[name] = value
	}
	return to, nil
}

// withEntries returns the text of a file of servers with further entries, and prints what
// these entries would start. cut are the names of the entries that could not be shown
// whole. An entry that could not start is an error.
func withEntries(c *cobra.Command, file *serversFile, drafts ...config.Draft) (next []byte, cut []string, err error) {
	if next, err = config.Add(file.text, drafts...); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", policies.Clip(file.name, 200), err)
	}
	var names []string
	for _, d := range drafts {
		names = append(names, d.Name)
	}
	all, faults := gateway.PreviewText(file.name, next)
	for _, p := range all {
		if slices.Contains(names, p.Name) && !printPreview(c.OutOrStdout(), p) {
			cut = append(cut, p.Name)
		}
	}
	for _, f := range faults {
		// Only errors count here, and only in the new entries or in the file as a whole.
		if f.Level == config.Error && (f.Entry == "" || slices.Contains(names, f.Entry)) {
			return nil, nil, fmt.Errorf("the entry could not be used, so nothing was written: %s", policies.Clip(f.Message, 500))
		}
	}
	return next, cut, nil
}

// printUse prints how a server is made to use a file of servers.
func printUse(out io.Writer, file string) {
	fmt.Fprintf(out, "Written to %s. It is used by `belljar serve --upstreams %s`, and by a policy with upstreams: {from: %s}.\n",
		policies.Clip(file, 500), policies.Clip(shellLine([]string{file}), 500), policies.Clip(file, 500))
}
