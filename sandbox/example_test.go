package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// A program that starts boxes calls sandbox.Init first in its main, because the helpers of
// a supervisor are the same program. (The TestMain of this package does so for this
// example.)
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	// A grant says what a box may use, and only a policy makes a grant.
	policy, err := policies.Parse("policy.yaml", []byte(`
version: 1
defaults: {decision: allow}
profiles:
  offline: {fs: {system: true, workspace: rw}, limits: {wall: 10s}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	script := "echo hello > note; cat /etc/shadow 2>/dev/null || echo no secrets; (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null || echo no network"
	decision := policy.Decide(policies.Facts{Tenant: "local", Tool: "Bash", Command: script})

	// The supervisor owns all boxes. Close ends them and everything that runs in them.
	supervisor, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()
	ctx := context.Background()
	box, err := supervisor.Open(ctx, "first", decision.Grant)
	if err != nil {
		fmt.Println(err)
		return
	}

	// A command that fails, or runs too long, is a Result. An error says that the command
	// did not run.
	result, err := box.Run(ctx, sandbox.Cmd{Grant: decision.Grant, Shell: script, Timeout: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	stdout, _, err := result.Output.Split(1 << 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(stdout.Text))
	fmt.Println(result.Status, result.Code)

	// The workspace is the one place that outlives the box.
	note, err := os.ReadFile(dir + "/note")
	fmt.Print(string(note))
	fmt.Println(err)
	// Output:
	// no secrets
	// no network
	// exited 0
	// hello
	// <nil>
}
