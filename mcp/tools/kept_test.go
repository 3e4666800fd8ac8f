package tools

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp"
)

// TestKeptIsTold checks that a client that subscribed to the list of todos or to a plan is
// notified when it changes, and when there is a new plan.
func TestKeptIsTold(t *testing.T) {
	f := newFlow(t, &nod{state: mcp.ApprovalApproved})
	told, anew := make(chan string, 16), make(chan struct{}, 16)
	c, subscriber := following(t, f.server, &sdk.ClientOptions{
		ResourceUpdatedHandler:     func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { told <- r.Params.URI },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { anew <- struct{}{} },
	})
	plan := planURI("the plan.md")
	for _, uri := range []string{todoList, plan} {
		subscriber.Subscribe(t, c, uri)
	}
	for _, step := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"TaskManager", map[string]any{"action": "list"}, ""},
		{"TaskManager", map[string]any{"action": "create", "text": "Release"}, todoList},
		{"TaskManager", map[string]any{"action": "switch", "task_id": 9}, ""},
		{"TaskManager", map[string]any{"action": "add", "text": "Tag"}, todoList},
		{"TaskManager", map[string]any{"action": "complete"}, todoList},
		{"PlanMode", map[string]any{"action": "enter", "plan_file": "the plan.md"}, ""},
		{"PlanMode", map[string]any{"action": "exit", "plan": "# Go"}, plan},
	} {
		say(t, c, step.tool, step.args)
		if step.want == "" {
			continue // a wrong notification would be read in place of the next one
		}
		if got := <-told; got != step.want {
			t.Errorf("after %s %v: told of %s, want %s", step.tool, step.args, got, step.want)
		}
	}
	<-anew
	if text, _, err := read(t, c, plan); err != nil || text != "# Go" {
		t.Errorf("the plan: got %q, %v", text, err)
	}
}
