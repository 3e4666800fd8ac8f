package policies

import (
	"maps"
	"slices"

	"belljar.dev/policies/cond"
)

// toolTable are this server's tools in the order of its list, with their arguments
// for conditions. All that this package knows of tools follows from it; a test
// beside the tools compares it with what they take.
var toolTable = []struct {
	name string
	args cond.Args
}{
	{"Bash", cond.Args{
		"command": cond.Text, "timeout": cond.Int, "description": cond.Text, "cwd": cond.Text, "env": cond.Named, "stdin": cond.Text,
		"max_output_bytes": cond.Int, "changes": cond.Bool, "on_timeout": cond.Text,
	}},
	{"BackgroundBash", cond.Args{
		"command": cond.Text, "description": cond.Text, "cwd": cond.Text, "env": cond.Named, "stdin": cond.Text,
		"timeout_ms": cond.Int, "delay_ms": cond.Int,
	}},
	{"ReadBgOutput", cond.Args{"task_id": cond.Int, "id": cond.Text, "wait_ms": cond.Int, "filter": cond.Text, "tail_lines": cond.Int, "offset": cond.Int}},
	{"ListBgTasks", cond.Args{}},
	{"KillBgTask", cond.Args{"task_id": cond.Int, "grace_ms": cond.Int}},
	{"ReadImage", cond.Args{"file_path": cond.Text, "region": cond.Text, "max_pixels": cond.Int}},
	{"ReadDocs", cond.Args{
		"url": cond.Text, "format": cond.Text, "wait_ms": cond.Int, "selector": cond.Text, "wait_until": cond.Text, "offset": cond.Int,
		"max_chars": cond.Int, "main_content": cond.Bool, "include_links": cond.Bool, "full_links": cond.Bool, "include_images": cond.Bool, "screenshot": cond.Bool,
		"timeout_ms": cond.Int, "headers": cond.Named, "render": cond.Text,
	}},
	{"WebSearch", cond.Args{
		"query": cond.Text, "max_results": cond.Int, "engines": cond.Texts, "category": cond.Text, "language": cond.Text, "region": cond.Text,
		"safesearch": cond.Text, "time_range": cond.Text, "page": cond.Int, "allowed_domains": cond.Texts, "blocked_domains": cond.Texts, "timeout_ms": cond.Int,
	}},
	{"TaskManager", cond.Args{"action": cond.Text, "query": cond.Text, "task_id": cond.Int, "step_id": cond.Int, "text": cond.Text, "status": cond.Text}},
	{"PlanMode", cond.Args{"action": cond.Text, "goal": cond.Text, "plan_file": cond.Text, "plan": cond.Text, "commands": cond.Texts}},
	{"AskUserQuestion", cond.Args{"questions_json": cond.Text}},
	{"InvokeSkill", cond.Args{"skill_name": cond.Text, "arguments": cond.Text}},
	{"SearchSkills", cond.Args{"pattern": cond.Text, "flags": cond.Text}},
	{"SetCallback", cond.Args{"action": cond.Text, "message": cond.Text, "delay_seconds": cond.Int, "repeat_count": cond.Int, "callback_id": cond.Int, "wait_ms": cond.Int}},
}

// knownTools are the tools whose names a rule may misspell: those of this
// server. A name that is far from all of them may be a proxied tool's.
var knownTools = func() (all []string) {
	for _, t := range toolTable {
		all = append(all, t.name)
	}
	return all
}()

// toolArgs are the arguments of each.
var toolArgs = func() map[string]cond.Args {
	all := make(map[string]cond.Args)
	for _, t := range toolTable {
		all[t.name] = t.args
	}
	return all
}()

// KnownTools are the names of this server's tools, in the order of its list.
func KnownTools() []string { return slices.Clone(knownTools) }

// ToolArgs are the arguments that conditions know of a tool of this server;
// it reports whether this server has the tool.
func ToolArgs(tool string) (cond.Args, bool) {
	a, ok := toolArgs[tool]
	return maps.Clone(a), ok
}

// TakesText reports whether an argument of a tool of this server is a text.
func TakesText(tool, argument string) bool { return toolArgs[tool][argument] == cond.Text }
