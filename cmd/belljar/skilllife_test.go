package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSkillsOverEachWire follows a skill of the user through its whole life, as each client
// sees it: the nudge, the list, the search, the instructions, as prompt and resource, its
// files in the box, and the notification when another skill is written next to it.
func TestSkillsOverEachWire(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		p := newPlace(t)
		p.file(t, ".claude/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys the service.\n---\nRun scripts/check.sh, then deploy to $ARGUMENTS.\n")
		p.file(t, ".claude/skills/deploy/scripts/check.sh", "echo checked\n")
		p.file(t, ".claude/required_skills.txt", "deploy\n")
		s := p.start(t, w)
		changed := make(chan string, 64)
		c := s.connect(t, w, &sdk.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { changed <- "tools" },
			PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { changed <- "prompts" },
			ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { changed <- "resources" },
		})

		const nudge = `[skills] Required and not loaded yet: deploy. Call InvokeSkill with skill_name "deploy" before you go on.`
		for i, want := range []bool{true, false} {
			if got := slices.Contains(c.texts(t, "TaskManager", map[string]any{"action": "list"}), nudge); got != want {
				t.Errorf("result %d reminds of the skill: %v, want %v", i+1, got, want)
			}
		}
		first := c.describes(t)
		if !strings.Contains(first, "\n- deploy: Deploys the service.") || first != c.describes(t) {
			t.Errorf("the list of skills is %q", first)
		}
		if got := c.all(t, "SearchSkills", map[string]any{"pattern": "DEPLOYS", "flags": "-i"}); !strings.Contains(got, `"name":"deploy"`) || !strings.Contains(got, `"matched":1`) {
			t.Errorf("found: %s", got)
		}
		want := "<activated_skill name=\"deploy\" source=\"user\">\n<instructions>\nRun scripts/check.sh, then deploy to staging.\n</instructions>\n" +
			"<available_resources>\n/skills/user/deploy/scripts/check.sh (13 bytes)\n</available_resources>\n</activated_skill>"
		if got := c.all(t, "InvokeSkill", map[string]any{"skill_name": "deploy", "arguments": "staging"}); got != want {
			t.Errorf("invoked: %s\nwant %s", got, want)
		}
		prompt, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "deploy", Arguments: map[string]string{"arguments": "staging"}})
		if err != nil || len(prompt.Messages) != 1 || prompt.Messages[0].Content.(*sdk.TextContent).Text != want { //nolint:forcetypeassert // it fails the test
			t.Errorf("as a prompt: %+v, %v", prompt, err)
		}
		read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://deploy/scripts/check.sh"})
		if err != nil || read.Contents[0].Text != "echo checked\n" {
			t.Errorf("as a resource: %+v, %v", read, err)
		}
		for _, uri := range []string{"skill://deploy/../../required_skills.txt", "skill://none/SKILL.md", "skill://deploy/%2e%2e/%2e%2e/required_skills.txt"} {
			if read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s is read as %q", uri, read.Contents[0].Text)
			}
		}

		// In the box, the skill's files can be read and run, but not written.
		got := c.all(t, "Bash", map[string]any{"command": "cd /skills/user/deploy; sh scripts/check.sh; echo x >>SKILL.md; rm -f scripts/check.sh; mv scripts s; touch /skills/user/new; mount -o remount,rw /skills/user; true"})
		if !strings.Contains(got, "checked\n") || strings.Count(got, "Read-only file system") != 4 {
			t.Errorf("in the box: %s", got)
		}
		if text, err := os.ReadFile(filepath.Join(p.dir, ".claude/skills/deploy/scripts/check.sh")); err != nil || string(text) != "echo checked\n" {
			t.Errorf("after that the file is %q, %v", text, err)
		}

		// Another skill: clients are notified, and find it in all three lists.
		p.file(t, ".claude/skills/review/SKILL.md", "---\nname: review\ndescription: Reviews a change.\n---\nLook at it.\n")
		await := func() {
			t.Helper()
			for left := []string{"tools", "prompts", "resources"}; len(left) > 0; {
				one := <-changed
				left = slices.DeleteFunc(left, func(s string) bool { return s == one })
			}
		}
		await()
		if got := c.describes(t); !strings.Contains(got, "\n- review: Reviews a change.") {
			t.Errorf("after a skill was added the list is %q", got)
		}
		prompts, err := c.ListPrompts(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(prompts.Prompts, func(p *sdk.Prompt) bool { return p.Name == "review" && p.Description == "Reviews a change." }) {
			t.Errorf("the prompts: %+v, %v", prompts, err)
		}
		resources, err := c.ListResources(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(resources.Resources, func(r *sdk.Resource) bool { return r.URI == "skill://review/SKILL.md" }) {
			t.Errorf("the resources: %+v, %v", resources, err)
		}
		for len(changed) > 0 {
			<-changed
		}
		if err := os.RemoveAll(filepath.Join(p.dir, ".claude/skills/review")); err != nil {
			t.Fatal(err)
		}
		await()
		if got := c.describes(t); got != first {
			t.Errorf("after it was removed the list is %q, want the one before", got)
		}
		if got := c.all(t, "InvokeSkill", map[string]any{"skill_name": "review"}); !strings.Contains(got, "no such skill") {
			t.Errorf("a skill that is gone: %s", got)
		}
	})
}

// describes returns the description of InvokeSkill, which lists the skills.
func (c client) describes(t *testing.T) string {
	t.Helper()
	all, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range all.Tools {
		if tool.Name == "InvokeSkill" {
			return tool.Description
		}
	}
	t.Fatal("InvokeSkill is not listed")
	return ""
}
