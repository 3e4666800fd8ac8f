package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help takes 80 columns, or fewer on a terminal that has fewer.
const (
	helpWidth   = 80
	helpLeast   = 40
	flagIndent  = 26 // the column of what flags do
	namesIndent = 14 // the column of what commands do
)

// widthOf is the columns that help takes on w.
func widthOf(w io.Writer) int {
	if n := columns(w); n > 0 {
		return max(helpLeast, min(n, helpWidth))
	}
	return helpWidth
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

// commandNamed is the command that words name below another one.
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

// helpText is all that is said of a command.
func helpText(c *cobra.Command, width int) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(longText(c)), "\n\n") {
		if verbatim(part) {
			b.WriteString(part + "\n\n")
		} else {
			b.WriteString(hang("", part, 0, width) + "\n")
		}
	}
	return b.String() + usageText(c, width)
}

// verbatim reports whether a paragraph keeps its lines: those of examples and
// tables are indented.
func verbatim(part string) bool {
	return strings.HasPrefix(part, " ") || strings.Contains(part, "\n ")
}

// longText is what a command does and its exit statuses.
func longText(c *cobra.Command) string {
	long := c.Long
	if long == "" {
		long = c.Name() + ": " + c.Short + ".\n"
	}
	if !strings.Contains(long, "Exit status") {
		long = strings.TrimRight(long, "\n") + "\n" + exitHelp
	}
	return long
}

// usageText is how a command is called.
func usageText(c *cobra.Command, width int) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && (!c.HasAvailableSubCommands() || len(argumentsOf(c)) > 0 || c.LocalNonPersistentFlags().Lookup("json") != nil) {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				b.WriteString(hang("  "+sub.Name(), sub.Short, namesIndent, width))
			}
		}
	}
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", c.LocalFlags()}, {"Flags of all its commands", c.InheritedFlags()}} {
		if part.flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", part.title, flagsText(part.flags, width))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n`%s COMMAND --help` says more about a command.\n", c.CommandPath())
	}
	return b.String()
}

// flagsText is the flags of a command, one below the other.
func flagsText(flags *pflag.FlagSet, width int) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		indent := "      "
		if f.Shorthand != "" {
			indent = "  "
		}
		b.WriteString(hang(indent+spelt(f), meaning(f), flagIndent, width))
	})
	return b.String()
}

// spelt is how a flag is written: -p, --publish PORT.
func spelt(f *pflag.Flag) string {
	text := "--" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	if value := placeholder(f); value != "" {
		text += " " + value
	}
	return text
}

// placeholder is what stands for the value of a flag: what the flag's text has in
// backquotes, as in pflag.UnquoteUsage, else the flag's name in capitals. It is
// empty for a flag that is on or off.
func placeholder(f *pflag.Flag) string {
	if f.NoOptDefVal != "" {
		return ""
	}
	if parts := strings.SplitN(f.Usage, "`", 3); len(parts) == 3 {
		return strings.ToUpper(parts[1])
	}
	if kind := f.Value.Type(); kind == strings.ToUpper(kind) { // a type of ours that names itself
		return kind
	}
	return strings.ToUpper(f.Name)
}

// meaning is what a flag does, with its default where it has one.
func meaning(f *pflag.Flag) string {
	text := strings.Join(strings.SplitN(f.Usage, "`", 3), "")
	switch f.DefValue {
	case "", "[]", "0", "0s", "false":
		return text
	}
	if f.NoOptDefVal != "" {
		return text + fmt.Sprintf(" (on unless --%s=false)", f.Name)
	}
	return text + " (default: " + f.DefValue + ")"
}

// hang writes text beside left from a column on, or below where left is too long,
// and breaks it between words. Words themselves are never broken.
func hang(left, text string, column, width int) string {
	var b strings.Builder
	b.WriteString(left)
	at := utf8.RuneCountInString(left)
	if column > 0 && at > column-2 {
		b.WriteByte('\n')
		at = 0
	}
	first := true
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case first:
			b.WriteString(strings.Repeat(" ", column-at))
			at = column
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
		first = false
	}
	b.WriteByte('\n')
	return b.String()
}
