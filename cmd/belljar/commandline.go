package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belljar.dev/policies"
)

// complete adds to every command of a tree what all commands have in common: a check of its
// arguments against its usage line, faults in plain sentences, an exit status for each
// error, and help that fits a terminal. It is called once, when the tree is complete.
func complete(root *cobra.Command) {
	root.SetHelpCommand(helpCommand())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), helpText(c, widthOf(c.OutOrStdout()))) })
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usageText(c, helpWidth))
		return err
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &statusError{code: exitUsage, err: flagFault(c, err)} })
	root.InitDefaultHelpCmd()
	eachCommand(root, func(c *cobra.Command) {
		c.Args, c.RunE = checked(c.Args), withStatus(c.RunE)
		c.InitDefaultHelpFlag()
		c.Flags().Lookup("help").Usage = "show this help"
	})
}

// eachCommand calls f for a command and all below it.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "show the help of a command",
		Long:  "help shows the help of a command, the same that `belljar COMMAND --help` shows.\n" + exitHelp,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, err := commandNamed(c.Root(), args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range of.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			of, err := commandNamed(c.Root(), args)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), helpText(of, widthOf(c.OutOrStdout())))
			return failure(err)
		},
	}
}

// commandNamed returns the command below c that words name.
func commandNamed(c *cobra.Command, words []string) (*cobra.Command, error) {
words:
	for _, word := range words {
		for _, sub := range c.Commands() {
			if sub.Name() == word || sub.HasAlias(word) {
				c = sub
				continue words
			}
		}
		return nil, unknownCommand(c, word)
	}
	return c, nil
}

// title returns a command's name without that of the program: errors begin with it.
func title(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// lacking is the error of a check that says what is wanted; see exactly.
type lacking struct{ want string }

func (e *lacking) Error() string { return "want " + e.want }

// checked checks the number of a command's arguments against its usage line, with errors
// that name what is missing. own is the command's own check, whose error may say more, or
// nil.
func checked(own cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		var err error
		if own != nil {
			err = own(c, args)
		}
		if _, ours := errors.AsType[*statusError](err); ours {
			return err
		}
		more := ""
		if want, says := errors.AsType[*lacking](err); says {
			more = ": " + want.Error()
		}
		all := argumentsOf(c)
		needed := slices.DeleteFunc(slices.Clone(all), func(a argument) bool { return a.optional })
		surplus := len(args) > len(all) && !slices.ContainsFunc(all, func(a argument) bool { return a.many })
		switch {
		case len(args) < len(needed):
			return misused(c, "the argument %s is missing%s", needed[len(args)].name, more)
		case surplus && c.HasSubCommands() && len(all) == 0:
			return unknownCommand(c, args[0])
		case surplus:
			return misused(c, "the argument %q is one too many", args[len(all)])
		case err != nil:
			return misused(c, "%w", err)
		}
		return nil
	}
}

// withStatus makes an error of a command a failure, unless the error has an exit status. An
// error that cobra finds before the command runs does not come here: it is a mistake in the
// command line.
func withStatus(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if run == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if _, says := errors.AsType[*statusError](err); says {
			return err
		}
		return failure(err)
	}
}

// misused returns an error about a mistake in a command's arguments, with the command's
// usage line.
func misused(c *cobra.Command, format string, args ...any) error {
	text := fmt.Errorf(format, args...)
	return &statusError{code: exitUsage, err: fmt.Errorf("%s: %w; usage: %s", title(c), text, c.UseLine())}
}

// unknownCommand returns an error: a command has no subcommand with this name.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			known = append(known, sub.Name())
		}
	}
	return &statusError{code: exitUsage, err: fmt.Errorf("unknown command %q%s; see `%s --help`", strings.TrimSpace(title(c)+" "+name), didYouMean("", name, known), c.CommandPath())}
}

// wanted says, for each type of flag, what its value must be, in place of strconv's errors.
var wanted = map[string]string{
	"int": "a whole number", "float64": "a number", "duration": "a time such as 30s or 2h", "bool": "true or false",
	"span": "a time above zero, such as 90d, 12h or 30m", "count": "a number above zero",
}

// flagFault returns an error about a flag in words that name the command and the value that
// the flag needs.
func flagFault(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		lacks   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	see := fmt.Sprintf("see `%s --help`", c.CommandPath())
	at := title(c)
	if at != "" {
		at += ": "
	}
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("%sunknown flag -%s; %s", at, name, see)
		}
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		return fmt.Errorf("%sunknown flag --%s%s; %s", at, name, didYouMean("--", name, known), see)
	case errors.As(err, &lacks):
		return fmt.Errorf("%s--%s needs %s after it; %s", at, lacks.GetFlag().Name, placeholder(lacks.GetFlag()), see)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if want := wanted[f.Value.Type()]; want != "" {
			return fmt.Errorf("%s--%s: got %q, want %s; %s", at, f.Name, invalid.GetValue(), want, see)
		}
		return fmt.Errorf("%s--%s: %w; %s", at, f.Name, errors.Unwrap(invalid), see)
	}
	return fmt.Errorf("%s%w; %s", at, err, see)
}

// didYouMean returns the known name that was probably meant by an unknown one, with prefix
// before it, as the end of a sentence. It returns "" if no name is similar.
func didYouMean(prefix, name string, known []string) string {
	near := policies.Nearest(name, known)
	if cut := strings.ToLower(name); near == "" && len(cut) > 1 {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, cut) }); i >= 0 {
			near = known[i]
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", prefix+near)
}

// exactly is cobra.ExactArgs with an error that says what is wanted.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return &lacking{what}
		}
		return nil
	}
}

// atLeastOne is cobra.MinimumNArgs(1) with an error that says what is wanted.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < 1 {
			return &lacking{what}
		}
		return nil
	}
}
