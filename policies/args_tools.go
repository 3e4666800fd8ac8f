// Code generated from the tools by go test ./mcp/tools -run TestPoliciesKnowTheTools -update; DO NOT EDIT.

package policies

import "belljar.dev/policies/cond"

// toolTable is this server's tools by name, with their arguments for
// conditions. All that this package knows of tools follows from it.
var toolTable = []tool{
	{"AskUserQuestion", cond.Args{
		"questions_json": cond.Text,
	}},
	{"BackgroundBash", cond.Args{
		"command":     cond.Text,
		"cwd":         cond.Text,
		"delay_ms":    cond.Int,
		"description": cond.Text,
		"env":         cond.Named,
		"stdin":       cond.Text,
		"timeout_ms":  cond.Int,
	}},
	{"Bash", cond.Args{
		"changes":          cond.Bool,
		"command":          cond.Text,
		"cwd":              cond.Text,
		"description":      cond.Text,
		"env":              cond.Named,
		"max_output_bytes": cond.Int,
		"on_timeout":       cond.Text,
		"stdin":            cond.Text,
		"timeout":          cond.Int,
	}},
	{"InvokeSkill", cond.Args{
		"arguments":  cond.Text,
		"skill_name": cond.Text,
	}},
	{"KillBgTask", cond.Args{
		"grace_ms": cond.Int,
		"task_id":  cond.Int,
	}},
	{"ListBgTasks", cond.Args{}},
	{"PlanMode", cond.Args{
		"action":    cond.Text,
		"commands":  cond.Texts,
		"goal":      cond.Text,
		"plan":      cond.Text,
		"plan_file": cond.Text,
	}},
	{"ReadBgOutput", cond.Args{
		"filter":     cond.Text,
		"id":         cond.Text,
		"offset":     cond.Int,
		"tail_lines": cond.Int,
		"task_id":    cond.Int,
		"wait_ms":    cond.Int,
	}},
	{"ReadDocs", cond.Args{
		"format":         cond.Text,
		"full_links":     cond.Bool,
		"headers":        cond.Named,
		"include_images": cond.Bool,
		"include_links":  cond.Bool,
		"main_content":   cond.Bool,
		"max_chars":      cond.Int,
		"offset":         cond.Int,
		"render":         cond.Text,
		"screenshot":     cond.Bool,
		"selector":       cond.Text,
		"timeout_ms":     cond.Int,
		"url":            cond.Text,
		"wait_ms":        cond.Int,
		"wait_until":     cond.Text,
	}},
	{"ReadImage", cond.Args{
		"file_path":  cond.Text,
		"max_pixels": cond.Int,
		"region":     cond.Text,
	}},
	{"SearchSkills", cond.Args{
		"flags":   cond.Text,
		"pattern": cond.Text,
	}},
	{"SetCallback", cond.Args{
		"action":        cond.Text,
		"callback_id":   cond.Int,
		"delay_seconds": cond.Int,
		"message":       cond.Text,
		"repeat_count":  cond.Int,
		"wait_ms":       cond.Int,
	}},
	{"TaskManager", cond.Args{
		"action":  cond.Text,
		"query":   cond.Text,
		"status":  cond.Text,
		"step_id": cond.Int,
		"task_id": cond.Int,
		"text":    cond.Text,
	}},
	{"WebSearch", cond.Args{
		"allowed_domains": cond.Texts,
		"blocked_domains": cond.Texts,
		"category":        cond.Text,
		"engines":         cond.Texts,
		"language":        cond.Text,
		"max_results":     cond.Int,
		"page":            cond.Int,
		"query":           cond.Text,
		"region":          cond.Text,
		"safesearch":      cond.Text,
		"time_range":      cond.Text,
		"timeout_ms":      cond.Int,
	}},
	{"analyze_code_churn", cond.Args{
		"format":       cond.Text,
		"period_days":  cond.Any,
		"project_path": cond.Text,
	}},
	{"analyze_complexity", cond.Args{
		"format":         cond.Text,
		"max_cognitive":  cond.Any,
		"max_cyclomatic": cond.Any,
		"project_path":   cond.Text,
		"toolchain":      cond.Text,
		"top_files":      cond.Any,
	}},
	{"analyze_duplicates", cond.Args{
		"detection_type": cond.Text,
		"format":         cond.Text,
		"gpu":            cond.Bool,
		"min_lines":      cond.Any,
		"perf":           cond.Bool,
		"project_path":   cond.Text,
		"snippet":        cond.Text,
		"threshold":      cond.Any,
	}},
	{"generate_template", cond.Args{
		"parameters":   cond.Any,
		"resource_uri": cond.Text,
	}},
	{"list_templates", cond.Args{
		"category":  cond.Text,
		"toolchain": cond.Text,
	}},
	{"scaffold_project", cond.Args{
		"parameters": cond.Any,
		"templates":  cond.Texts,
		"toolchain":  cond.Text,
	}},
	{"search_templates", cond.Args{
		"query":     cond.Text,
		"toolchain": cond.Text,
	}},
	{"validate_template", cond.Args{
		"parameters":   cond.Any,
		"resource_uri": cond.Text,
	}},
}
