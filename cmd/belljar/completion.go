package main

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/workspace"
)

// Completion must neither keep a person waiting at the Tab key nor fill the screen.
const (
	completeTime = time.Second
	completeMost = 200
	completeWide = 80 // characters of the description of a value
)

// completionCommand prints scripts for the shells of Linux.
func completionCommand() *cobra.Command {
	terse := false
	c := &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a script that completes commands in a shell",
		Long: `completion prints a script that has a shell complete belljar's commands, flags,
and values such as profiles, approvals, sets and boxes. SHELL is bash, zsh or
fish. In bash, for this shell:

  source <(belljar completion bash)

docs/commands.md says how to enable it in every shell.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			out, root := c.OutOrStdout(), c.Root()
			switch args[0] {
			case "bash":
				return failure(root.GenBashCompletionV2(out, !terse))
			case "zsh":
				if terse {
					return failure(root.GenZshCompletionNoDesc(out))
				}
				return failure(root.GenZshCompletion(out))
			case "fish":
				return failure(root.GenFishCompletion(out, !terse))
			}
			return misused(c, "got the shell %q, want bash, zsh or fish", args[0])
		},
	}
	c.Flags().BoolVar(&terse, "no-descriptions", false, "complete without descriptions of the values")
	return c
}

// values finds the values that an argument or a flag can have, each optionally with a tab
// and a description. It only reads; it starts, changes and creates nothing.
type values func(ctx context.Context, c *cobra.Command, args []string) []string

// completeValues makes the arguments and flags of a command complete with the values that
// their names stand for, unless the command does so itself.
func completeValues(c *cobra.Command) {
	if c.ValidArgsFunction == nil && c.Runnable() {
		c.ValidArgsFunction = completeArgument
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" {
			return
		}
		find, files := valuesOf(c, placeholder(f), f.Name)
		// A completion that is registered already stays.
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return offered(c, args, begun, find), files
		})
	})
}

// completeArgument offers the values of the next argument of a command.
func completeArgument(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	all := argumentsOf(c)
	if len(all) == 0 || len(args) >= len(all) && !all[len(all)-1].many {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	find, files := valuesOf(c, all[min(len(args), len(all)-1)].name, "")
	return offered(c, args, begun, find), files
}

// offered returns the values that begin with the typed text, in bounded time. A description
// is on the same line, and all its characters are visible, because agents and clients write
// some of it.
func offered(c *cobra.Command, args []string, begun string, find values) (some []string) {
	if find == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeTime)
	defer cancel()
	for _, one := range find(ctx, c, args) {
		value, about, described := strings.Cut(one, "\t")
		if !strings.HasPrefix(value, begun) || len(some) == completeMost {
			continue
		}
		if described {
			value += "\t" + policies.Clip(strings.Join(strings.Fields(about), " "), completeWide)
		}
		some = append(some, value)
	}
	return some
}

// valuesOf returns the values for which a name of a usage line or of a flag stands, and
// whether the shell may also complete names of files.
func valuesOf(c *cobra.Command, name, flag string) (values, cobra.ShellCompDirective) {
	const files, folders, neither = cobra.ShellCompDirectiveDefault, cobra.ShellCompDirectiveFilterDirs, cobra.ShellCompDirectiveNoFileComp
	group, _, _ := strings.Cut(title(c), " ")
	switch flag {
	case "policy":
		return bundledPolicies, files
	case "profile":
		return profiles, neither
	case "tenant":
		return tenants, neither
	case "as":
		if group == "policy" { // for `workspace apply`, it is a digest
			return tenants, neither
		}
	case "tool":
		return fixed(policies.KnownTools()...), neither
	case "verdict":
		return fixed("allow", "ask", "deny"), neither
	case "for":
		return fixed("once", "session", "1h"), neither
	case "workspace-mode":
		return fixed("bind", "overlay", "none"), neither
	case "format":
		if group == "toolkit" {
			return fixed("summary", "detailed", "json", "sarif", "junit", "markdown"), neither
		}
		return fixed("markdown", "text", "html"), neither
	case "render":
		return fixed("auto", "always", "never"), neither
	case "category":
		return fixed("general", "code", "academic", "news"), neither
	case "safesearch":
		return fixed("off", "moderate", "strict"), neither
	case "since":
		if group == "search" {
			return fixed("day", "week", "month", "year"), neither
		}
	case "engines":
		return engines, neither
	case "session":
		return openSessions, neither
	case "box":
		return boxes, neither
	case "set":
		return sets, neither
	}
	switch name {
	case "TOOL":
		return fixed(policies.KnownTools()...), neither
	case "FILE":
		if group == "policy" {
			return bundledPolicies, files
		}
		return nil, files
	case "OLD", "NEW":
		if group == "policy" {
			return bundledPolicies, files
		}
	case "NAME":
		switch c.CommandPath() {
		case "belljar policy show":
			return bundledPolicies, neither
		case "belljar image rm":
			return imageNames, neither
		case "belljar tenant show":
			return tenantNames, neither
		case "belljar workspace rollback":
			return checkpoints, neither
		}
	case "SET":
		return sets, neither
	case "ID":
		switch group {
		case "ask":
			return questions, neither
		case "browser":
			return browsers, neither
		case "session":
			return openSessions, neither
		case "token":
			return tokenIDs, neither
		}
		return approvals, neither
	case "BOX", "SESSION":
		return boxes, neither
	case "TASK":
		return runningJobs, neither
	case "PORT":
		return ports, neither
	case "EVENT":
		return events, neither
	case "ENGINE":
		return engines, neither
	case "DIR":
		return nil, folders
	case "SHELL":
		return fixed("bash", "zsh", "fish"), neither
	case "SOURCE", "AUDIT", "LOG":
		return nil, files
	}
	return nil, neither
}

func fixed(all ...string) values {
	return func(context.Context, *cobra.Command, []string) []string { return all }
}

func bundledPolicies(context.Context, *cobra.Command, []string) (all []string) {
	for _, name := range policies.Bundled() {
		all = append(all, name+"\t"+policies.BundledUse(name))
	}
	return all
}

// policyOf returns the policy that the command would use, or nil if that policy has faults.
func policyOf(c *cobra.Command) *policies.Policy {
	place, err := config.FindWorkspace(flagText(c, "workspace"))
	if err != nil {
		return nil
	}
	_, p, err := config.FindPolicy(flagText(c, "policy"), place)
	if err != nil {
		return nil
	}
	return p
}

func profiles(_ context.Context, c *cobra.Command, _ []string) []string {
	if p := policyOf(c); p != nil {
		return p.Profiles()
	}
	return nil
}

func tenants(_ context.Context, c *cobra.Command, _ []string) []string {
	if p := policyOf(c); p != nil {
		return append([]string{policies.LocalTenant}, p.Tenants()...)
	}
	return nil
}

func approvals(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _ := askServers[control.Approvals](ctx, c.Name(), flagText(c, stateName), "/approvals", false)
	for _, at := range found {
		for _, a := range at.Said.All {
			// revoke offers only approvals with a yes; the other commands offer only the
			// rest.
			if (c.Name() == "revoke") == (a.State == approval.Approved) {
				ids = append(ids, a.ID+"\t"+a.Tool)
			}
		}
	}
	return ids
}

func questions(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _ := askServers[[]question.Asked](ctx, c.Name(), flagText(c, stateName), "/questions", false)
	for _, at := range found {
		for _, q := range at.Said {
			ids = append(ids, q.ID)
		}
	}
	return ids
}

// tenantNames returns the tenants of the running servers.
func tenantNames(ctx context.Context, c *cobra.Command, _ []string) (names []string) {
	found, _ := (&tenancy{state: flagText(c, stateName)}).tenants(ctx, func(control.Tenant) bool { return true })
	for _, t := range found {
		names = append(names, t.Name+"\t"+usedOf(t, "sessions")+" sessions")
	}
	return names
}

// operatedBy returns the selection of sessions and tasks that the flags of a command make.
func operatedBy(c *cobra.Command) *operating {
	return &operating{state: flagText(c, stateName), tenant: flagText(c, "tenant"), session: flagText(c, "session")}
}

func openSessions(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _ := operatedBy(c).sessions(ctx)
	for _, s := range flat(found) {
		ids = append(ids, s.ID+"\t"+s.Tenant+" "+s.Client)
	}
	return ids
}

func browsers(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _ := findBrowsers(ctx, flagText(c, stateName), func(control.Browser) bool { return true })
	for _, w := range found {
		ids = append(ids, w.ID+"\t"+w.Tenant+" "+w.State)
	}
	return ids
}

func tokenIDs(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	all, _ := (&tokens{state: flagText(c, stateName), tenant: flagText(c, "tenant")}).list(ctx)
	for _, t := range all {
		ids = append(ids, t.ID+"\t"+t.Tenant+" "+t.Note)
	}
	return ids
}

func runningJobs(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _ := operatedBy(c).jobs(ctx)
	for _, j := range flat(found) {
		ids = append(ids, strconv.FormatInt(j.ID, 10)+"\t"+j.Command)
	}
	return ids
}

func boxes(ctx context.Context, c *cobra.Command, _ []string) (ids []string) {
	found, _, _ := findBoxes(ctx, flagText(c, stateName))
	for _, b := range found {
		ids = append(ids, b.ID+"\t"+b.Tenant+" "+b.Profile)
	}
	return ids
}

func ports(ctx context.Context, c *cobra.Command, _ []string) (all []string) {
	found, _, _ := findBoxes(ctx, flagText(c, stateName))
	for _, b := range found {
		for _, port := range b.Listening {
			all = append(all, strconv.Itoa(int(port))+"\tof box "+b.ID)
		}
	}
	return all
}

// keptIn returns a directory below the state, and whether it exists: opening a store would
// create it.
func keptIn(c *cobra.Command, name string) (string, bool) {
	state, err := config.FindState(flagText(c, stateName))
	dir := filepath.Join(state, name)
	return dir, err == nil && unix.Access(dir, unix.W_OK) == nil
}

func sets(_ context.Context, c *cobra.Command, _ []string) (ids []string) {
	eachSet(c, func(i workspace.Info) { ids = append(ids, i.ID+"\t"+i.Base) })
	return ids
}

func checkpoints(_ context.Context, c *cobra.Command, args []string) (names []string) {
	eachSet(c, func(i workspace.Info) {
		for _, p := range i.Checkpoints {
			if len(args) > 0 && i.ID == args[0] {
				names = append(names, p.Name)
			}
		}
	})
	return names
}

func eachSet(c *cobra.Command, f func(workspace.Info)) {
	dir, ok := keptIn(c, sandbox.WorkspacesDir)
	if !ok {
		return
	}
	s, err := workspace.Open(dir)
	if err != nil {
		return
	}
	defer s.Close()
	all, _ := s.List() // a set that cannot be read is not offered
	for _, i := range all {
		f(i)
	}
}

func imageNames(_ context.Context, c *cobra.Command, _ []string) (names []string) {
	dir, ok := keptIn(c, sandbox.ImagesDir)
	if !ok {
		return nil
	}
	s, err := images.Open(images.Config{Dir: dir})
	if err != nil {
		return nil
	}
	all, _ := s.List() // an image that cannot be read is not offered
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

func events(context.Context, *cobra.Command, []string) (all []string) {
	for _, e := range hooks.Events() {
		all = append(all, e[0]+"\t"+e[1])
	}
	return all
}

func engines(_ context.Context, c *cobra.Command, _ []string) (names []string) {
	all, err := loadEngines(flagText(c, "files"))
	if err != nil {
		return nil
	}
	for _, e := range all.All() {
		names = append(names, e.Name)
	}
	return names
}
