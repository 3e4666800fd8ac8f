package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/policies"
)

// testUpstreams prints what the entries of a file would start.
func testUpstreams(out io.Writer, file string) error {
	all, faults, err := gateway.PreviewFile(file)
	if err != nil {
		return failure(fmt.Errorf("upstream test: %w", err))
	}
	for _, p := range all {
		printPreview(out, p)
	}
	errs := 0
	for _, f := range faults {
		if f.Level == config.Error {
			errs++
		}
		fmt.Fprint(out, tamed(f.String()+"\n"))
	}
	if errs > 0 {
		return failure(fmt.Errorf("upstream test: %s has %s", policies.Clip(file, 200), numbered(uint64(errs), "error")))
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "The file has no entry of a server.")
	}
	return nil
}

// maxShown is the maximum length of a line of a preview, in characters.
const maxShown = 2000

// printPreview prints what an entry would start, and reports whether that could be shown whole.
func printPreview(out io.Writer, p gateway.Preview) (whole bool) {
	fmt.Fprintf(out, "%s (line %d)", policies.Clip(p.Name, 100), p.Line)
	if !p.Enabled {
		fmt.Fprintln(out, ": switched off")
		return true
	}
	fmt.Fprintln(out)
	whole = true
	say := func(what, text string) {
		whole = whole && utf8.RuneCountInString(text) <= maxShown
		fmt.Fprintf(out, "  %-11s%s\n", what+":", policies.Clip(text, maxShown))
	}
	if p.URL != "" {
		say("connects", p.URL)
	}
	if p.Image != "" {
		say("image", p.Image)
	}
	for _, m := range p.Mounts {
		mode := "can be written"
		if m.ReadOnly {
			mode = "read only"
		}
		say("sees", fmt.Sprintf("%s as %s, %s", m.Source, m.Target, mode))
	}
	for _, phase := range []struct {
		name string
		of   *gateway.PhasePreview
	}{{"fetches", p.Install}, {"runs", p.Run}} {
		if phase.of == nil {
			continue
		}
		say(phase.name, shellLine(phase.of.Argv))
		if len(phase.of.Hosts) > 0 {
			say("reaches", strings.Join(phase.of.Hosts, ", "))
		}
	}
	if len(p.Sets) > 0 {
		say("sets", strings.Join(p.Sets, ", "))
	}
	if p.EnvFile != "" {
		say("reads", p.EnvFile)
	}
	if len(p.Refers) > 0 {
		say("refers to", strings.Join(p.Refers, ", "))
	}
	return whole
}

// shellLine returns the words of a command line, and quotes those that need it.
func shellLine(argv []string) string {
	quoted := make([]string, len(argv))
	for i, w := range argv {
		quoted[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$`;|&<>()*?[]{}~#!") {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
