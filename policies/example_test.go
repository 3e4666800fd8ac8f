package policies_test

import (
	"fmt"

	"belljar.dev/policies"
)

// A policy decides calls. Its grant says what a call may use, and a box is made from the
// grant.
func Example() {
	// A policy is a text. Parse returns all faults of the text together, each with its
	// line.
	policy, err := policies.Parse("policy.yaml", []byte(`
version: 1
profiles:
  offline: {fs: {system: true, workspace: rw}, limits: {memory: 512MiB}}
rules:
  - {id: look, match: {tool: Bash, command: ["git status **", "git log **"]}, decision: allow}
  - id: no-force-push
    match: {tool: Bash, command: "git push **", any_flag: [-f, --force]}
    decision: deny
    instead: Push to a new branch.
`))
	if err != nil {
		fmt.Println(err)
		return
	}

	// Facts say what a call would touch. The policy takes the script apart, and the
	// strictest verdict about one of its commands is the verdict about the call.
	for _, script := range []string{"git status && git log -1", "git status; git push -f"} {
		d := policy.Decide(policies.Facts{Tenant: "local", Tool: "Bash", Command: script})
		fmt.Println(d.Verdict, "by", d.Rule)
		if d.Verdict != policies.Allow {
			// A refusal is worded for the agent, and names something that is allowed.
			fmt.Println(d.Part, "-", d.Instead)
			continue
		}
		// Only an allowed call has a grant that is not empty.
		fmt.Println(d.Grant.Profile(), d.Grant.Workspace(), d.Grant.Network() == policies.NetworkNone, d.Grant.Limits().Memory>>20, "MiB")
	}
	// Output:
	// allow by look
	// offline rw true 512 MiB
	// deny by no-force-push
	// git push -f - Push to a new branch.
}
