package config_test

import (
	"fmt"
	"os"

	"belljar.dev/mcp/upstream/config"
)

// A project's file of Claude Code.
const file = `{"mcpServers": {
  "board": {"type": "http", "url": "https://board.example/mcp", "headers": {"Authorization": "Bearer ${secret:board}"}},
  "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${DATA_DIR:-/srv}"], "trust": true},
  "broken": {"args": []}
}}`

func Example() {
	entries, faults := config.Read(".mcp.json", []byte(file))
	for _, f := range faults {
		fmt.Println(f)
	}
	for _, e := range config.Merge(config.Layer{Trusted: true, Entries: entries}) {
		e, faults = config.Expand(e, config.Lookup{
			Variable: os.LookupEnv,
			Secret:   func(name string) bool { return name == "board" },
		})
		fmt.Println(e.Name, e.Kind, e.Command, e.Args, e.URL, e.Headers, faults)
	}
	// Output:
	// .mcp.json:3:111: warning: server "files": the key "trust" has no effect: the policy decides about approvals, and a file approves nothing
	// .mcp.json:4:3: error: server "broken": neither a command nor a URL is given
	//   = write "command" or "url"
	// board http  [] https://board.example/mcp [{Authorization Bearer ${secret:board}}] []
	// files stdio npx [-y @modelcontextprotocol/server-filesystem ${DATA_DIR}]  [] []
}
