package tools

import (
	"context"
	"fmt"
	"strings"

	"belljar.dev/mcp"
)

// addPrompts registers belljar's own prompts. Each contains the words that a person would
// otherwise have to type to ask for work that the tools make short.
func addPrompts(s *mcp.Server, sh *shells) {
	s.AddPrompt(mcp.Prompt{
		Name: "review-changes", Title: "Review what changed in the workspace",
		Description: "Tells the agent to read what changed in the workspace's repository and to report what is wrong with it.",
		Arguments:   []mcp.Argument{{Name: "since", Description: "commit or branch to compare with; default: review what is not committed"}},
	}, func(_ context.Context, _ *mcp.Session, args map[string]string) ([]mcp.Message, error) {
		command := "git status --short && git diff HEAD"
		if since := args["since"]; since != "" {
			command = "git diff " + quoteWord(since) + "..."
		}
		return says("Run `%s` with Bash in /workspace and read every change it shows. If a change alone is not enough to judge it, open the files around it. Then list what is wrong: bugs first, each with its file, its line and how to see it; then what is missing, such as a test. Say so if you find nothing. Change nothing.", command), nil
	})
	s.AddPrompt(mcp.Prompt{
		Name: "plan", Title: "Plan before doing",
		Description: "Tells the agent to look around without changing anything, to write a plan, and to wait until a person approves it.",
		Arguments:   []mcp.Argument{{Name: "goal", Description: "goal of the plan", Required: true}},
	}, func(_ context.Context, _ *mcp.Session, args map[string]string) ([]mcp.Message, error) {
		return says("Enter plan mode with PlanMode (action enter) and this goal:\n\n%s\n\nRead what you need with read-only commands. Write the plan as short steps, each with the file it touches and how you will know that it worked; name what you do not know. Leave plan mode with action exit and wait for the answer before you do anything.", args["goal"]), nil
	})
	s.AddPrompts(mcp.PromptSource{
		List: func(context.Context, *mcp.Session) ([]mcp.Prompt, error) {
			return []mcp.Prompt{{
				Name: "follow-task", Title: "Follow a background task",
				Description: "Tells the agent to watch a background task until it ends and to report how it went.",
				Arguments:   []mcp.Argument{{Name: "task_id", Description: "as BackgroundBash returned it", Required: true}},
			}}, nil
		},
		Get: func(_ context.Context, _ *mcp.Session, _ string, args map[string]string) ([]mcp.Message, error) {
			return says("Follow background task %s: call ReadBgOutput with wait_ms 30000 until its status is no longer running. Do not repeat its output. When it has ended, say in at most five lines whether it worked, what the first error was if not, and what you would do next.", strings.TrimSpace(args["task_id"])), nil
		},
		Complete: func(ctx context.Context, session *mcp.Session, _, _, typed string) ([]string, error) {
			ids, err := sh.jobIDs(ctx, session)
			return mcp.Completed(ids, typed), err
		},
	})
}

func says(format string, args ...any) []mcp.Message {
	return []mcp.Message{{Content: mcp.Content{Text: fmt.Sprintf(format, args...)}}}
}
