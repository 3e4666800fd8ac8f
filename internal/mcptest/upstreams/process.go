package upstreams

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// serverArgument is the first argument of this binary if it is a server. The next argument
// is the server in JSON.
const serverArgument = "belljar-test-upstream"

// maxArgument is the largest size of one argument of execve(2), with its final zero byte.
const maxArgument = 128 << 10

// Command returns the arguments of a process that runs the server. The process is the test
// binary, whose TestMain calls Main.
func (s Server) Command(t testing.TB) []string {
	t.Helper()
	if err := s.check(true); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s) //nolint:musttag // both ends are this program
	if err != nil {
		t.Fatal(err)
	}
	if len(text) >= maxArgument {
		t.Fatalf("the server has %d bytes as an argument; it must have fewer than %d", len(text), maxArgument)
	}
	return []string{self, serverArgument, string(text)}
}

// NeedsProcess reports whether Start refuses the server: because an act needs a process of its
// own, or because the server is not valid.
func (s Server) NeedsProcess() bool { return s.check(false) != nil }

// Main runs a server, or a child process of a server, if this process was started as one, and
// then never returns. It must be called at the beginning of TestMain.
func Main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == serverArgument:
		os.Exit(serveProcess(os.Args[2])) //nolint:forbidigo // it is the main of this process
	case len(os.Args) == 4 && os.Args[1] == childArgument:
		os.Exit(child(os.Args[2], os.Args[3])) //nolint:forbidigo // it is the main of this process
	}
}

func serveProcess(text string) int {
	var s Server
	if err := json.Unmarshal([]byte(text), &s); err != nil { //nolint:musttag // both ends are this program
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := life()
	defer cancel()
	return newConversation(s, os.Stdout, os.Stderr).run(ctx, os.Stdin)
}
