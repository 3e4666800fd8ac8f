package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// printQuestions prints the definitions of a server that wait for a decision.
func printQuestions(out io.Writer, s pin.Server, questions []pin.Question) error {
	if len(questions) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", policies.Clip(s.Name, 100), whose(s))
	for i := range questions {
		q := &questions[i]
		state := string(q.State)
		if q.State == pin.Held {
			state = "refused"
		}
		fmt.Fprintf(&b, "  %s %s", state, policies.Clip(q.Ref.String(), 1500))
		if !q.Since.IsZero() {
			fmt.Fprintf(&b, ", trusted on %s", q.Since.Local().Format(time.DateOnly))
		}
		if q.Pair != "" {
			fmt.Fprintf(&b, ", renamed (%s)", policies.Clip(q.Pair, 300))
		}
		fmt.Fprintln(&b)
		for _, f := range q.Findings {
			fmt.Fprintf(&b, "    found: %s\n", policies.Clip(f.String(), 500))
		}
		for line := range strings.Lines(q.Diff) {
			fmt.Fprintf(&b, "    %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	_, err := io.WriteString(out, tamed(b.String()))
	return err
}

// whose returns the tenant of a server and the place of the files that name it, in words.
func whose(s pin.Server) string {
	if s.Place == "" {
		return fmt.Sprintf("tenant %s, files of the operator", policies.Clip(s.Tenant, 100))
	}
	return fmt.Sprintf("tenant %s, files of %s", policies.Clip(s.Tenant, 100), policies.Clip(s.Place, 300))
}
