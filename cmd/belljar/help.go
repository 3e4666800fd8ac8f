package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help uses 80 columns, or fewer on a narrower terminal.
const (
	helpWidth   = 80
	helpLeast   = 40
	flagIndent  = 26 // column where the text about a flag begins
	namesIndent = 14 // column where the text about a command begins
)

// widthOf returns the number of columns that help uses on w.
func widthOf(w io.Writer) int {
	if n := columns(w); n > 0 {
		return max(helpLeast, min(n, helpWidth))
	}
	return helpWidth
}

// helpText returns the whole help of a command.
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

// longText returns what a command does, and its exit statuses.
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

// usageText returns how a command is called.
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

// argument is a word of a usage line that stands for an argument of the command line.
type argument struct {
	name     string
	optional bool
	many     bool
}

// argumentsOf reads the arguments of a command from its usage line, such as "NAME [SOURCE]
// FILE...".
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
	// An optional argument that contains another one, such as [ID [ANSWER...]], counts as
	// two arguments.
	for i, a := range all {
		if outer, inner, nested := strings.Cut(a.name, " ["); nested {
			all = slices.Replace(all, i, i+1, argument{name: outer, optional: true}, argument{name: inner, optional: true, many: a.many})
			break
		}
	}
	return all
}

// flagsText returns the flags of a command, one below the other.
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

// spelt returns how a flag is written, such as -p, --publish PORT.
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

// placeholder returns the text that stands for the value of a flag: the part of the flag's
// text in backquotes, as in pflag.UnquoteUsage, or else the flag's name in capitals. It is
// empty for a flag that is on or off.
func placeholder(f *pflag.Flag) string {
	if f.NoOptDefVal != "" {
		return ""
	}
	if parts := strings.SplitN(f.Usage, "`", 3); len(parts) == 3 {
		return strings.ToUpper(parts[1])
	}
	if kind := f.Value.Type(); kind == strings.ToUpper(kind) { // one of our types, whose name is the placeholder
		return kind
	}
	return strings.ToUpper(f.Name)
}

// meaning returns what a flag does, with its default if it has one.
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
