package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/server"
)

// TestClientConfigurationIsFound checks X2: the text for a client's configuration names the
// program with its path. A client on another system starts it over ssh or in WSL, or gets
// the address of HTTP.
func TestClientConfigurationIsFound(t *testing.T) {
	var out bytes.Buffer
	explainStdio(&out, server.Place{Workspace: "/w s", PolicyName: "p"})
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
	entry := got.McpServers["belljar"]
	info, err := os.Stat(entry.Command)
	if err != nil || !filepath.IsAbs(entry.Command) || info.Mode()&0o111 == 0 {
		t.Errorf("the command is %q: %v", entry.Command, err)
	}
	if want := []string{"serve", "--workspace", "/w s"}; !slices.Equal(entry.Args, want) {
		t.Errorf("the arguments are %q, want %q", entry.Args, want)
	}
}
