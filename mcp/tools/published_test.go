package tools

import (
	"os"
	"strings"
	"testing"
)

// published contains texts that agents already know from other programs, word for word, and
// the golden file that contains each. Other known facts about the tools are behaviour and
// not text; the tests of the tools check them.
var published = []struct{ tool, text, file string }{
	{"ListBgTasks", "No background processes found.", "../../cmd/belljar/testdata/call.txtar"},
	{"TaskManager", "Created task 1: Ship the release.", "testdata/taskmanager.golden"},
	{"TaskManager", "[>] task 1: Ship the release (in_progress)", "testdata/taskmanager.golden"},
	{"PlanMode", "Plan mode activated. Write your plan as markdown.", "testdata/planmode.golden"},
	{"PlanMode", "Plan saved to move.md\nExiting plan mode. Returning to execution.", "testdata/planmode.golden"},
	{"PlanMode", "Plan mode: ACTIVE\nGoal: Move the database\nDuration: 4m 32s", "testdata/planmode.golden"},
	{"PlanMode", `{"active":true,"goal":"Move the database","plan_file":"move.md","started_at":"2026-01-02T03:04:05Z"`, "testdata/planmode.golden"},
	{"PlanMode", "Plan mode reset. No plan saved.", "testdata/planmode.golden"},
	{"PlanMode", "Plan approved", "testdata/planmode.golden"},
	{"PlanMode", "Plan rejected. User feedback: leave the database alone\nPlan mode is still active.", "testdata/planmode.golden"},
	{"AskUserQuestion", `{"answers":[{"question":"Which?","id":"q1","selected":"B (Recommended)"`, "testdata/askuserquestion.golden"},
	{"AskUserQuestion", "User dismissed 1 question without answering.", "testdata/askuserquestion.golden"},
	{"AskUserQuestion", "not asked: no interactive channel", "testdata/askuserquestion.golden"},
	{"InvokeSkill", "<activated_skill name=", "testdata/skills.golden"},
	{"InvokeSkill", "<available_resources>", "testdata/skills.golden"},
	{"InvokeSkill", "(+3 more skills not listed - use SearchSkills to discover them)", "../../internal/skills/skill_test.go"},
	{"SearchSkills", `{"skills":[{"name":"deploy","description":"Deploys.","source":"user","path":"","trusted":true}],"matched":1,"total":1}`, "testdata/skills.golden"},
	{"SetCallback", "Callback scheduled: fires every 60s, repeats 20 times.", "testdata/callbacks.golden"},
	{"SetCallback", "Callback scheduled: fires every 1s, repeats infinitely.", "testdata/callbacks.golden"},
	{"SetCallback", "Error: all callback slots full (max 8)\n", "testdata/callbacks.golden"},
	{"SetCallback", "Active callbacks (2/8):\n  [0] \"look\" - fires in 1m00s (20 left)\n  [5] \"again\" - fires in 0m01s (infinite)", "testdata/callbacks.golden"},
	{"SetCallback", "No active callbacks.", "testdata/callbacks.golden"},
	{"SetCallback", `Cancelled callback slot 0: "check the build"`, "../../internal/callback/testdata/texts.golden"},
	{"SetCallback", "Cancelled 2 callbacks.", "../../internal/callback/testdata/texts.golden"},
}

// TestPublishedTexts checks that belljar uses the texts that agents know, word for word.
func TestPublishedTexts(t *testing.T) {
	for _, p := range published {
		text, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		// A Go file contains the lines of a text in one line.
		if !strings.Contains(strings.ReplaceAll(string(text), `\n`, "\n"), p.text) {
			t.Errorf("%s: %s does not hold %q", p.tool, p.file, p.text)
		}
	}
}
