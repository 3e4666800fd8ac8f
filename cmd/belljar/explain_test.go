package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// X2: what a person is told to put into a client's configuration names the
// program by the path that it has. A client on another system starts it over ssh
// or in WSL, or is given the address of HTTP.
func TestClientConfigurationIsFound(t *testing.T) {
	var out bytes.Buffer
	explainStdio(&out, &works{workspace: "/w s", policyName: "p"})
	_, text, _ := strings.Cut(out.String(), "{")
	var got struct {
		McpServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal([]byte("{"+text), &got); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	server := got.McpServers["belljar"]
	info, err := os.Stat(server.Command)
	if err != nil || !filepath.IsAbs(server.Command) || info.Mode()&0o111 == 0 {
		t.Errorf("the command is %q: %v", server.Command, err)
	}
	if want := []string{"serve", "--workspace", "/w s"}; !slices.Equal(server.Args, want) {
		t.Errorf("the arguments are %q, want %q", server.Args, want)
	}
}
