package policies

import (
	"maps"
	"slices"
	"strings"

	"belljar.dev/policies/cond"
)

// toolArgs are the arguments of this server's tools, for conditions. A test
// beside the tools holds the two together.
var toolArgs = map[string]cond.Args{
	"Bash": {
		"command": cond.Text, "timeout": cond.Int, "description": cond.Text, "cwd": cond.Text, "env": cond.Named, "stdin": cond.Text,
		"max_output_bytes": cond.Int, "changes": cond.Bool, "on_timeout": cond.Text,
	},
	"BackgroundBash": {
		"command": cond.Text, "description": cond.Text, "cwd": cond.Text, "env": cond.Named, "stdin": cond.Text,
		"timeout_ms": cond.Int, "delay_ms": cond.Int,
	},
	"ReadBgOutput": {"task_id": cond.Int, "id": cond.Text, "wait_ms": cond.Int, "filter": cond.Text, "tail_lines": cond.Int, "offset": cond.Int},
	"ListBgTasks":  {},
	"KillBgTask":   {"task_id": cond.Int, "grace_ms": cond.Int},
	"ReadImage":    {"file_path": cond.Text, "region": cond.Text, "max_pixels": cond.Int},
	"ReadDocs": {
		"url": cond.Text, "format": cond.Text, "wait_ms": cond.Int, "selector": cond.Text, "wait_until": cond.Text, "offset": cond.Int,
		"max_chars": cond.Int, "main_content": cond.Bool, "include_links": cond.Bool, "full_links": cond.Bool, "include_images": cond.Bool, "screenshot": cond.Bool,
		"timeout_ms": cond.Int, "headers": cond.Named, "render": cond.Text,
	},
	"WebSearch": {
		"query": cond.Text, "max_results": cond.Int, "engines": cond.Texts, "category": cond.Text, "language": cond.Text, "region": cond.Text,
		"safesearch": cond.Text, "time_range": cond.Text, "page": cond.Int, "allowed_domains": cond.Texts, "blocked_domains": cond.Texts, "timeout_ms": cond.Int,
	},
	"TaskManager":     {"action": cond.Text, "query": cond.Text, "task_id": cond.Int, "step_id": cond.Int, "text": cond.Text, "status": cond.Text},
	"PlanMode":        {"action": cond.Text, "goal": cond.Text, "plan_file": cond.Text, "plan": cond.Text, "commands": cond.Texts},
	"AskUserQuestion": {"questions_json": cond.Text},
	"InvokeSkill":     {"skill_name": cond.Text, "arguments": cond.Text},
	"SearchSkills":    {"pattern": cond.Text, "flags": cond.Text},
	"SetCallback":     {"action": cond.Text, "message": cond.Text, "delay_seconds": cond.Int, "repeat_count": cond.Int, "callback_id": cond.Int, "wait_ms": cond.Int},
}

// ToolArgs are the arguments that conditions know of a tool of this server;
// false says that it is none.
func ToolArgs(tool string) (cond.Args, bool) {
	a, ok := toolArgs[tool]
	return maps.Clone(a), ok
}

// argsOf are the arguments that a condition of a match may look at: those of
// all tools of this server that it names. It is nil where it speaks about any
// tool or one that is not of this server, of whose arguments nothing is known.
func (m *match) argsOf() cond.Args {
	var all cond.Args
	for _, e := range m.tools {
		found := false
		for _, name := range knownTools {
			if e.match(name) && !e.any && !slices.Contains(e.choice, "*") {
				all, found = union(all, toolArgs[name]), true
			}
		}
		if !found {
			return nil
		}
		// Of several texts each must be one that is known.
		for _, c := range e.choice {
			if !strings.Contains(c, "*") && toolArgs[c] == nil {
				return nil
			}
		}
	}
	return all
}

// union is what one of two tools takes. An argument whose type differs is of
// any.
func union(a, b cond.Args) cond.Args {
	all := maps.Clone(a)
	if all == nil {
		all = make(cond.Args)
	}
	for name, t := range b {
		if have, ok := all[name]; ok && have != t {
			t = cond.Any
		}
		all[name] = t
	}
	return all
}
