package launch_test

import (
	"fmt"

	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/launch"
)

func Example() {
	entries, _ := config.Read("mcp.json", []byte(`{"mcpServers": {"memory": {
		"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {"KEY": "${secret:memory}"}
	}}}`))
	e, _ := config.Expand(entries[0], config.Lookup{Secret: func(string) bool { return true }})
	plan, err := launch.New(e, launch.Dirs{Home: "/home/server", Cache: "/cache", Temp: "/tmp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first:", plan.Install.Shown, "from", plan.Install.Hosts, "secrets", plan.Install.Secrets())
	fmt.Println("then: ", plan.Run.Shown, "offline, secrets", plan.Run.Secrets())
	fmt.Println("pinned:", launch.Pin(e, plan).Argv, launch.Pin(e, plan).Locks)
	// Output:
	// first: [npx --yes --package=@modelcontextprotocol/server-memory --call=:] from [registry.npmjs.org] secrets []
	// then:  [npx --yes @modelcontextprotocol/server-memory] offline, secrets [memory]
	// pinned: [npx -y @modelcontextprotocol/server-memory] [npm/_npx/*/package-lock.json]
}
