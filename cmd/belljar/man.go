package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belljar.dev/internal/buildinfo"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "write the manual pages into a directory",
		Long: `man writes a manual page for each command, belljar.1 and belljar-COMMAND.1, into
a directory, which it makes. The same belljar writes the same bytes.
` + exitHelp,
		Example: "  belljar man ~/.local/share/man/man1 && man belljar-serve",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return failure(err)
			}
			var failed error
			eachCommand(c.Root(), func(of *cobra.Command) {
				if failed != nil || of.Hidden {
					return
				}
				failed = os.WriteFile(filepath.Join(args[0], manName(of)+".1"), []byte(manPage(of)), 0o644) //nolint:gosec // as above
			})
			return failure(failed)
		},
	}
}

// manName returns the name of a command's manual page.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, in the macros of man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	// The page has no date: it would differ from build to build.
	fmt.Fprintf(&b, ".TH %q 1 \"\" \"belljar %s\" \"belljar\"\n", strings.ToUpper(manName(c)), buildinfo.Release)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, longText(c))
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", c.NonInheritedFlags()}, {"OPTIONS OF ALL ITS COMMANDS", c.InheritedFlags()}} {
		if !part.flags.HasAvailableFlags() {
			continue
		}
		fmt.Fprintf(&b, ".SH %s\n", part.title)
		part.flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(spelt(f)), roff(meaning(f)))
		})
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			also = append(also, manName(sub))
		}
	}
	for i, name := range also {
		also[i] = ".BR " + roff(name) + " (1)"
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, " ,\n"))
	return b.String()
}

// manText writes paragraphs; lines that are indented keep their breaks.
func manText(b *strings.Builder, text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if verbatim(part) {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(part))
			continue
		}
		b.WriteString(roff(part) + "\n")
	}
}

// roff returns text in the form of man(7): a backslash and a hyphen stand for themselves,
// and no line begins with a control character.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
