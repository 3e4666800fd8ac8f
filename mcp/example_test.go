package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// readInput is the input of a tool. Its fields make the schema that clients see.
type readInput struct {
	Path string `json:"path" jsonschema:"an absolute path"`
}

// Facts returns, for the policy, what a call would touch. A tool whose input has no
// Facts does not compile.
func (in readInput) Facts() policies.Facts { return policies.Facts{Paths: []string{in.Path}} }

// The policy decides each call before the tool's own code runs.
func Example() {
	policy, err := policies.Parse("policy.yaml", []byte(`
version: 1
profiles: {offline: {}}
rules: [{id: notes, match: {tool: Show, path: "/notes/**"}, decision: allow}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := mcp.New(mcp.Config{Gate: policy})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer server.Shutdown(ctx)

	// A handler runs only for calls that the policy allows, and gets their grant.
	mcp.AddTool(server, mcp.Tool{Name: "Show", Description: "Shows a note.", ReadOnly: true},
		func(_ context.Context, call mcp.Call, in readInput) (*mcp.Result, error) {
			return mcp.Text("the note %s, by a grant of profile %s", in.Path, call.Grant.Profile()), nil
		})

	// A program can call tools itself, through the same gate as clients. To serve clients,
	// it would call server.ServeStdio or server.Handler.
	session, err := server.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for _, path := range []string{"/notes/today", "/etc/shadow"} {
		result, err := server.Call(ctx, session, "Show", json.RawMessage(`{"path": "`+path+`"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		// A call that is refused returns a result, too, so that the agent reads the reason.
		if result.IsError {
			fmt.Println("refused:", path)
			continue
		}
		fmt.Println(result.Content[0].Text)
	}
	// Output:
	// the note /notes/today, by a grant of profile offline
	// refused: /etc/shadow
}
