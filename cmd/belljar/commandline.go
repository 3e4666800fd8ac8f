package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belljar.dev/policies"
)

// complete gives every command of a tree what all have in common: a check of its
// arguments by its usage line, faults in plain sentences, and help that fits a
// terminal. It is called once, when the tree stands.
func complete(root *cobra.Command) {
	root.SetHelpCommand(helpCommand())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), helpText(c, widthOf(c.OutOrStdout()))) })
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usageText(c, helpWidth))
		return err
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &statusError{code: exitUsage, err: flagFault(c, err)} })
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "print the version"
	eachCommand(root, func(c *cobra.Command) {
		c.Args = checked(c.Args)
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

// title is a command's name without that of the program: errors begin with it.
func title(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// argument is a word of a usage line that stands for one of the command line.
type argument struct {
	name     string
	optional bool
	many     bool
}

// argumentsOf reads the arguments of a command out of its usage line:
// "NAME [SOURCE] FILE...".
func argumentsOf(c *cobra.Command) (all []argument) {
	_, line, _ := strings.Cut(c.Use, " ")
	line = strings.TrimSpace(strings.ReplaceAll(line, "[flags]", ""))
	depth, text := 0, ""
	end := func() {
		name := strings.Trim(text, "[]")
		if name != "" && name != "--" {
			many := strings.Contains(name, "...")
			all = append(all, argument{
				name: strings.TrimRight(strings.ReplaceAll(name, "...", ""), "[] "), optional: strings.HasPrefix(text, "["), many: many,
			})
		}
		text = ""
	}
	for _, r := range line {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ' ' && depth == 0:
			end()
			continue
		}
		text += string(r)
	}
	end()
	// An optional argument that contains another one, as [ID [ANSWER...]], is two.
	for i, a := range all {
		if outer, inner, nested := strings.Cut(a.name, " ["); nested {
			all = slices.Replace(all, i, i+1, argument{name: outer, optional: true}, argument{name: inner, optional: true, many: a.many})
			break
		}
	}
	return all
}

// lacking is the error of a check that says what is wanted: see exactly.
type lacking struct{ want string }

func (e *lacking) Error() string { return "want " + e.want }

// checked has the number of a command's arguments checked by its usage line, in
// words that name what is missing. own is the command's check, which may say
// more, or nil.
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
		case surplus && c.HasSubCommands():
			return unknownCommand(c, args[0])
		case surplus:
			return misused(c, "the argument %q is one too many", args[len(all)])
		case err != nil:
			return misused(c, "%w", err)
		}
		return nil
	}
}

// misused is a mistake in a command's arguments, with the command's usage line.
func misused(c *cobra.Command, format string, args ...any) error {
	text := fmt.Errorf(format, args...)
	return &statusError{code: exitUsage, err: fmt.Errorf("%s: %w; usage: %s", title(c), text, c.UseLine())}
}

// unknownCommand says that a command has no subcommand of a name.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			known = append(known, sub.Name())
		}
	}
	return &statusError{code: exitUsage, err: fmt.Errorf("unknown command %q%s; see `%s --help`", strings.TrimSpace(title(c)+" "+name), didYouMean("", name, known), c.CommandPath())}
}

// wanted says what values of pflag's own types are, in place of strconv's errors.
var wanted = map[string]string{
	"int": "a whole number", "float64": "a number", "duration": "a time such as 30s or 2h", "bool": "true or false",
}

// flagFault says what is wrong with a flag in words that name the command and
// what the flag wants.
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
		return fmt.Errorf("%s--%s needs %s behind it; %s", at, lacks.GetFlag().Name, placeholder(lacks.GetFlag()), see)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if want := wanted[f.Value.Type()]; want != "" {
			return fmt.Errorf("%s--%s: got %q, want %s; %s", at, f.Name, invalid.GetValue(), want, see)
		}
		return fmt.Errorf("%s--%s: %w; %s", at, f.Name, errors.Unwrap(invalid), see)
	}
	return fmt.Errorf("%s%w; %s", at, err, see)
}

// didYouMean is the known name that an unknown one was likely meant to be, with
// prefix before it, as the end of a sentence; empty where no name is near.
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
