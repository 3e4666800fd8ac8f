package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/policies/shell"
)

// A plan names the commands that it will run by patterns like those of the policy. A yes to
// the plan also answers the questions about these commands: in the session that planned,
// under the policy that asked, for at most a day, and only if the rule that asks allows a
// yes for a session. It never allows what the policy denies.

// maxCommands is the most patterns of one plan.
const maxCommands = 20

// maxCommand is the most characters of one pattern.
const maxCommand = 200

// CheckCommands returns an error for the agent if patterns cannot be granted with a plan.
func CheckCommands(patterns []string) error {
	if len(patterns) > maxCommands {
		return fmt.Errorf("%d patterns, and a plan can have %d", len(patterns), maxCommands)
	}
	for _, p := range patterns {
		program, rest, _ := strings.Cut(p, " ")
		switch {
		case len(p) > maxCommand || Plain(p, maxCommand) != p:
			return fmt.Errorf("pattern %q: want at most %d printable characters", Plain(p, 80), maxCommand)
		case program == "" || strings.ContainsAny(program, "*?[]{}!<>()|"):
			return fmt.Errorf("pattern %q: the first word has to name one program", p)
		case strings.ContainsAny(rest, "*?[") && runsMore(program):
			return fmt.Errorf("pattern %q: %s runs whatever it is given, so every word has to be written out", p, program)
		case shell.Runs(program) && rest == "":
			return fmt.Errorf("pattern %q: %s runs whatever it is given, so its words have to be written out", p, program)
		}
	}
	if len(patterns) == 0 {
		return nil
	}
	_, err := planPolicy(patterns)
	return err
}

// projects are programs that run commands from a file of the project. The file may have
// changed by the next call.
var projects = []string{"make", "gmake", "ninja", "just", "rake", "tox", "npx", "pnpx", "bunx", "uvx", "docker", "podman"}

// runsMore reports whether a program does more than its words say, or may be another
// program by the next call, for example a program that is named by its path.
func runsMore(program string) bool {
	return shell.Runs(program) || slices.Contains(projects, program) || strings.Contains(program, "/")
}

// planPolicy returns a policy that allows the commands of a plan and nothing else. So a
// pattern matches the same commands as in any policy, and a script is covered if each of
// its parts certainly is.
func planPolicy(patterns []string) (*policies.Policy, error) {
	text, err := json.Marshal(map[string]any{
		"version":  1,
		"defaults": map[string]any{"decision": "deny", "profile": "plan"},
		"profiles": map[string]any{"plan": map[string]any{}},
		"rules": []any{map[string]any{
			"id": "plan", "decision": "allow",
			"match": map[string]any{"tool": []string{"Bash", "BackgroundBash"}, "command": patterns},
		}},
	})
	if err != nil {
		return nil, err
	}
	p, err := policies.Parse("plan", text)
	if bad, ok := errors.AsType[*policies.ParseError](err); ok {
		return nil, fmt.Errorf("the patterns of the plan: %s", Plain(bad.Faults[0].Message, maxLine))
	}
	return p, err
}

// harmless are the arguments that do not change what a call runs.
var harmless = []string{"command", "description", "timeout", "timeout_ms", "delay_ms", "max_output_bytes", "changes", "on_timeout"}

// covers reports whether a call runs only commands of a plan. It returns false if variables
// or files of the box may change what runs, since these may do anything.
func covers(patterns []string, r Request) bool {
	if len(patterns) == 0 || !r.Decision.Remember.Session || r.Facts.Command == "" || len(r.Facts.Env) > 0 || swayed(r.Facts) {
		return false
	}
	for name := range maps.Keys(r.Facts.Args) {
		if !slices.Contains(harmless, name) {
			return false
		}
	}
	p, err := planPolicy(patterns)
	if err != nil {
		return false
	}
	f := policies.Facts{Tenant: policies.LocalTenant, Tool: r.Facts.Tool, Command: r.Facts.Command, Args: r.Facts.Args, Now: r.Facts.Now}
	return p.Decide(f).Verdict == policies.Allow
}

// planned returns the approval of a plan that covers a call.
func planned(ctx context.Context, w *work, place string, r Request) (Approval, bool, error) {
	if r.Facts.Command == "" {
		return Approval{}, false, nil
	}
	all, err := w.Some(ctx, `commands <> '' AND state = 'used' AND tenant = ? AND place = ? AND session = ? AND policy = ? AND answered > ?
		ORDER BY answered DESC LIMIT 8`, r.Facts.Tenant, place, r.Facts.Session, r.Decision.Policy, w.Now.Add(-maxSession).UnixMilli())
	for _, a := range all {
		if covers(a.Commands, r) {
			return a, true, err
		}
	}
	return Approval{}, false, err
}
