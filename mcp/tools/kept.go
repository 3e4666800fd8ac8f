package tools

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"belljar.dev/internal/plan"
	"belljar.dev/mcp"
)

// The todos of TaskManager and the plans of PlanMode can be read as resources too:
// they belong to the tenant.

// planRoot is the prefix of a plan's address.
const planRoot = "plan:///"

// planURI is the address of the plan of a name.
func planURI(file string) string { return planRoot + (&url.URL{Path: file}).EscapedPath() }

// todoList is the URI of the list of todos.
const todoList = "todo://list"

// resource is the list of todos.
func (t *todos) resource() mcp.Resource {
	return mcp.Resource{
		Template: "todo://{list}", Name: "tasks", Title: "Tasks", MIME: "text/plain",
		Description: "The tasks of this workspace with their steps, in TaskManager's form. A client that subscribes is notified when one changes.",
		Read: func(ctx context.Context, s *mcp.Session, uri string) ([]byte, string, error) {
			if uri != todoList || t.backends.Todos == nil {
				return nil, "", fmt.Errorf("%.80s: %w: the list of tasks is %s", uri, mcp.ErrNotFound, todoList)
			}
			all, err := t.backends.Todos.List(ctx, owner(s))
			if err != nil {
				return nil, "", err
			}
			return []byte(listed(all, false, "").Content[0].Text + "\n"), "text/plain", nil
		},
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			if t.backends.Todos == nil {
				return nil, nil
			}
			return []mcp.Entry{{URI: todoList, Name: "tasks"}}, nil
		},
	}
}

// resource is the plans.
func (t *plans) resource() mcp.Resource {
	return mcp.Resource{
		Template: planRoot + "{+name}", Name: "plan", Title: "Plan", MIME: "text/markdown",
		Description: "A plan of this workspace that PlanMode has saved.",
		Read: func(ctx context.Context, s *mcp.Session, uri string) ([]byte, string, error) {
			name, err := url.PathUnescape(strings.TrimPrefix(uri, planRoot))
			if err != nil || t.backends.Plans == nil {
				return nil, "", fmt.Errorf("%.80s: %w", uri, mcp.ErrNotFound)
			}
			p, err := t.backends.Plans.Read(ctx, s.Tenant(), name)
			if errors.Is(err, plan.ErrUnknown) || errors.Is(err, plan.ErrFile) {
				return nil, "", fmt.Errorf("%.80s: %w", uri, mcp.ErrNotFound)
			}
			return []byte(p.Text), "text/markdown", err
		},
		List: func(ctx context.Context, s *mcp.Session) ([]mcp.Entry, error) {
			if t.backends.Plans == nil || !t.backends.Kept() {
				return nil, nil
			}
			all, err := t.backends.Plans.List(ctx, s.Tenant())
			entries := make([]mcp.Entry, 0, len(all))
			for _, p := range all {
				entries = append(entries, mcp.Entry{URI: planURI(p.File), Name: p.File, Description: p.Goal})
			}
			return entries, err
		},
	}
}
