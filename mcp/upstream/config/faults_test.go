package config

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"belljar.dev/internal/golden"
)

// canary stands for a token in invalid files. No report may show it.
const canary = "sk_live_CANARY"

func wide(s string, order binary.AppendByteOrder, mark bool) string {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xfeff)
	}
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

// wrongFiles are files that are invalid as a whole: no entry of them is loaded.
var wrongFiles = []struct{ name, data string }{
	{"empty", ""},
	{"only comments", "# nothing\n\n# here\n"},
	{"only a comment of JSONC", "// nothing\n"},
	{"a text", `"mcpServers"`},
	{"a number", "12\n"},
	{"null", "null"},
	{"cut short", `{"mcpServers": {"a": {"command": "x"`},
	{"cut in a text", `{"mcpServers": {"a": {"command": "` + canary},
	{"a comma is missing", "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"}\n  \"b\": {\"command\": \"y\"}\n}}"},
	{"a broken escape", `{"mcpServers": {"a": {"command": "x", "env": {"T": "` + canary + `\q"}}}}`},
	{"a broken word", `{"mcpServers": {"a": {"command": ` + canary + `}}}`},
	{"something behind the end", `{"mcpServers": {}} {}`},
	{"a comment in an array of servers", "[\n  // mine\n  {\"name\": \"a\", \"command\": \"x\"}\n]"},
	{"a trailing comma in an array of servers", `[{"name": "a", "command": "x"},]`},
	{"a trailing comma in a server of an array", `[{"name": "a", "command": "x",}]`},
	{"a block comment in an object of servers", "{\"a\": {\"command\": \"x\"} /* one */}"},
	{"a comment behind an object of servers", "{\"a\": {\"command\": \"x\"}}\n// end"},
	{"a comment in a list of arguments", "[{\"name\": \"a\", \"command\": \"x\", \"args\": [ /* none */ ]}]"},
	{"a name twice in an array", `[{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]`},
	{"a name twice in an object", "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n  \"a\": {\"command\": \"y\"}\n}}"},
	{"a name twice, once escaped", `{"mcpServers": {"a": {"command": "x"}, "\u0061": {"command": "y"}}}`},
	{"a key twice in a server", `{"mcpServers": {"a": {"command": "x", "command": "y"}}}`},
	{"a key twice in a settings file", `{"theme": 1, "theme": 2, "mcpServers": {"a": {"command": "x"}}}`},
	{"two heads", `{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}`},
	{"no servers", `{"theme": "dark", "size": 3}`},
	{"one of them is not a server", `{"a": {"command": "x"}, "b": {"port": 1}}`},
	{"a byte order mark", "\ufeff{\"mcpServers\": {}}"},
	{"UTF-16, little endian", wide(`{"mcpServers": {}}`, binary.LittleEndian, true)},
	{"UTF-16, big endian", wide(`{"mcpServers": {}}`, binary.BigEndian, true)},
	{"UTF-16 without a mark", wide(`{"mcpServers": {}}`, binary.LittleEndian, false)},
	{"Latin-1", "{\"mcpServers\":\n {\"caf\xe9\": {\"command\": \"x\"}}}"},
	{"too large", `{"mcpServers": {}}` + strings.Repeat(" ", MaxFile)},
	{"10,000 lists in each other", strings.Repeat("[", 10000) + strings.Repeat("]", 10000)},
	{"10,000 objects in each other", strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000)},
	{"10,000 lists in TOML", "a = " + strings.Repeat("[", 10000) + strings.Repeat("]", 10000)},
	{"10,000 lists in YAML", "a: " + strings.Repeat("[", 10000) + strings.Repeat("]", 10000)},
	{"too deep by a few", `{"mcpServers": {"a": {"command": "x", "b": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}}`},
	{"too deep in TOML", "mcp_servers.a.command = \"x\"\nmcp_servers.a." + strings.Repeat("b.", 40) + "c = 1"},
	{"too deep in YAML", "mcpServers:\n  a:\n    command: x\n    b: " + strings.Repeat("[", 40) + strings.Repeat("]", 40)},
	{"compact lists of YAML", strings.Repeat("- ", 30000) + "x"},
	{"257 servers", `{"mcpServers": {` + servers(257) + `}}`},
	{"a table of TOML twice", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a]\ncommand = \"y\"\n"},
	{"a key of TOML twice", "[mcp_servers.a]\ncommand = \"x\"\ncommand = \"" + canary + "\"\n"},
	{"TOML without quotes", "[mcp_servers.a]\ncommand = " + canary + "\n"},
	{"TOML without an end of the text", "[mcp_servers.a]\nenv = { T = \"" + canary + " }\n"},
	{"5,001 keys of TOML", "[mcp_servers.a]\n" + strings.Repeat("k = 1\n", 5001)},
	{"YAML with an alias", "base: &b {command: x}\nmcpServers:\n  a: *b\n"},
	{"YAML with a merge key", "mcpServers:\n  a:\n    <<: {command: x}\n"},
	{"YAML with a key that is an alias", "base: &b a\nmcpServers:\n  *b : {command: x}\n"},
	{"YAML with an anchor at a key", "mcpServers:\n  &b a: {command: x}\n"},
	{"YAML with a tag at a key", "mcpServers:\n  !!binary aGk=: {command: x}\n"},
	{"YAML with a key that is a list", "mcpServers:\n  ? [a]\n  : {command: x}\n"},
	{"YAML with a tag", "mcpServers:\n  a:\n    command: !!binary eA==\n"},
	{"YAML with two documents", "mcpServers: {}\n---\nmcpServers:\n  a: {command: x}\n"},
	{"YAML whose first key is indented", "  a: {command: x}\nb: {command: y}\n"},
	{"YAML whose first keys are indented", "# servers\n  a: {command: x}\n  b: {command: y}\nc: {command: z}\nd: {command: z}\n"},
	{"YAML with a broken second document", "mcpServers: {}\n---\nmcpServers: [\n"},
	{"YAML with a key twice", "mcpServers:\n  a: {command: x}\n  a: {command: y}\n"},
	{"YAML with a tab", "mcpServers:\n\ta: " + canary + "\n"},
	{"an input without an id", `{"inputs": [{"type": "promptString"}], "servers": {"a": {"command": "x"}}}`},
	{"an input twice", `{"inputs": [{"id": "k"}, {"id": "k"}], "servers": {"a": {"command": "x"}}}`},
}

func servers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"s%d": {"command": "x"}`, i)
	}
	return strings.Join(all, ",")
}

// wrongEntries are invalid entries. The valid server in the same file is loaded.
var wrongEntries = []struct{ name, entry string }{
	{"a list", `["x"]`},
	{"a text", `"` + canary + `"`},
	{"nothing", `{}`},
	{"a kind alone", `{"type": "stdio"}`},
	{"a command and a URL", `{"command": "x", "url": "https://a.example/"}`},
	{"two URLs", `{"url": "https://a.example/", "httpUrl": "https://b.example/"}`},
	{"a kind that does not fit", `{"type": "http", "command": "x"}`},
	{"another kind that does not fit", `{"type": "stdio", "url": "https://a.example/"}`},
	{"an unknown kind", `{"type": "carrier-pigeon", "command": "x"}`},
	{"a command that is a list", `{"command": ["npx", "x"]}`},
	{"a command that is a number", `{"command": 7}`},
	{"a command with NUL", `{"command": "x\u0000y"}`},
	{"args as a text", `{"command": "x", "args": "--token ` + canary + `"}`},
	{"an argument that is null", `{"command": "x", "args": [null]}`},
	{"an argument that is an object", `{"command": "x", "args": [{"a": 1}]}`},
	{"1,025 arguments", `{"command": "x", "args": [` + strings.TrimSuffix(strings.Repeat(`"a",`, 1025), ",") + `]}`},
	{"an argument of 64 KiB and one byte", `{"command": "x", "args": ["` + strings.Repeat("a", 64<<10+1) + `"]}`},
	{"513 keys", `{"command": "x"` + keys(512) + `}`},
	{"env as a list", `{"command": "x", "env": ["TOKEN=` + canary + `"]}`},
	{"a variable that is null", `{"command": "x", "env": {"A": null}}`},
	{"a variable that is an object", `{"command": "x", "env": {"A": {"b": "` + canary + `"}}}`},
	{"a variable without a name", `{"command": "x", "env": {"": "a"}}`},
	{"a variable with = in its name", `{"command": "x", "env": {"A=B": "a"}}`},
	{"a variable of belljar", `{"command": "x", "env": {"BELLJAR_TOKEN": "` + canary + `"}}`},
	{"a variable of belljar in lower case", `{"command": "x", "env": {"belljar_x": "a"}}`},
	{"a variable of belljar, forwarded", `{"command": "x", "env_vars": ["BELLJAR_TOKEN"]}`},
	{"a reference to belljar's variables", `{"command": "x", "args": ["${BELLJAR_TOKEN}"]}`},
	{"such a reference with a namespace", `{"command": "x", "env": {"A": "${env:BELLJAR_TOKEN:-x}"}}`},
	{"enabled as a text", `{"command": "x", "enabled": "yes"}`},
	{"disabled as a number", `{"command": "x", "disabled": 1}`},
	{"a default that refers to something", `{"command": "x", "args": ["${a:-${b}}"]}`},
	{"a command of VS Code", `{"command": "x", "args": ["${command:extension.pick}"]}`},
	{"a file of Windsurf", `{"command": "x", "env": {"T": "${file:/run/token}"}}`},
	{"a folder by name", `{"command": "x", "args": ["${workspaceFolder:web}"]}`},
	{"a header with a line break", `{"url": "https://a.example/", "headers": {"X-A": "` + canary + `\r\nHost: b.example"}}`},
	{"a header with a line break in its name", `{"url": "https://a.example/", "headers": {"X-A\r\nX-B": "c"}}`},
	{"a header without a name", `{"url": "https://a.example/", "headers": {"": "c"}}`},
	{"the header Host", `{"url": "https://a.example/", "headers": {"host": "b.example"}}`},
	{"the header of a session", `{"url": "https://a.example/", "headers": {"Mcp-Session-Id": "1"}}`},
	{"the header Transfer-Encoding", `{"url": "https://a.example/", "headers": {"Transfer-Encoding": "chunked"}}`},
	{"Authorization twice", `{"url": "https://a.example/", "headers": {"Authorization": "Bearer ` + canary + `", "authorization": "Basic eDp5"}}`},
	{"Authorization twice by Codex's keys", `{"url": "https://a.example/", "bearer_token_env_var": "T", "http_headers": {"Authorization": "x"}}`},
	{"a token in the file", `{"url": "https://a.example/", "bearer_token": "` + canary + `"}`},
	{"a file as URL", `{"url": "file:///etc/passwd"}`},
	{"a socket as URL", `{"url": "unix:///tmp/server.sock"}`},
	{"a URL with a login", `{"url": "http://user:` + canary + `@a.example/"}`},
	{"a URL with a name", `{"url": "https://` + canary + `@a.example/"}`},
	{"a URL with a fragment", `{"url": "https://a.example/mcp#top"}`},
	{"a URL with an empty fragment", `{"url": "https://a.example/mcp#"}`},
	{"a URL without a host", `{"url": "https:///mcp"}`},
	{"a URL without a scheme", `{"url": "a.example/mcp"}`},
	{"a URL with one slash", `{"url": "https:/a.example"}`},
	{"a URL with a space", `{"url": "https://a.example/a b"}`},
	{"a URL with a line break", `{"url": "https://a.example/\r\nHost: b"}`},
	{"a URL with a backslash", `{"url": "https://a.example\\@b.example/"}`},
	{"a URL of JavaScript", `{"url": "javascript:alert(1)"}`},
	{"a secret as the host", `{"url": "https://${secret:host}/mcp"}`},
	{"a secret as the URL", `{"url": "${secret:url}"}`},
	{"an empty prefix", `{"command": "x", "tools_prefix": ""}`},
	{"a prefix of signs", `{"command": "x", "tools_prefix": "::"}`},
	{"the prefix mcp", `{"command": "x", "tools_prefix": "mcp"}`},
	{"a prefix of 200 characters", `{"command": "x", "tools_prefix": "` + strings.Repeat("p", 200) + `"}`},
	{"a prefix that is a number", `{"command": "x", "tools_prefix": 3}`},
	{"tools as a text", `{"command": "x", "includeTools": "read"}`},
	{"sandbox as a truth value", `{"command": "x", "sandbox": true}`},
	{"rules of a sandbox as a text", `{"command": "x", "sandbox": {"network": {"allowedDomains": "a.example"}}}`},
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, "k%d": 1`, i)
	}
	return b.String()
}

func TestFaultsOfFiles(t *testing.T) {
	var b strings.Builder
	for _, w := range wrongFiles {
		entries, faults := Read("servers", []byte(w.data))
		fmt.Fprintf(&b, "== %s\n", w.name)
		for _, f := range faults {
			fmt.Fprintln(&b, f)
		}
		if len(entries) > 0 || !Failed(faults) {
			t.Errorf("%s: %d entries were loaded, with the faults %v", w.name, len(entries), faults)
		}
	}
	mute(t, b.String())
	golden.Equal(t, "files.golden", b.String())
}

func TestFaultsOfEntries(t *testing.T) {
	var b strings.Builder
	for _, w := range wrongEntries {
		data := "{\"mcpServers\": {\n  \"good\": {\"command\": \"fine\"},\n  \"bad\": " + w.entry + "\n}}"
		entries, faults := Read("servers", []byte(data))
		fmt.Fprintf(&b, "== %s\n", w.name)
		failed := false
		for _, f := range faults {
			fmt.Fprintln(&b, f)
			failed = failed || f.Level == Error && f.Entry == "bad"
		}
		if !failed || Failed(faults) || len(entries) != 1 || entries[0].Name != "good" {
			t.Errorf("%s: got %d entries and %v, want only the entry good", w.name, len(entries), faults)
		}
	}
	mute(t, b.String())
	golden.Equal(t, "entries.golden", b.String())
}

// mute checks that a report does not show a token of the file.
func mute(t *testing.T, report string) {
	t.Helper()
	if at := strings.Index(report, "CANARY"); at >= 0 {
		t.Errorf("a report shows a value of the file: %s", report[max(0, at-200):at+20])
	}
}

// People also choose the names of servers and keys, which must have no effect on a
// terminal.
func TestFaultsAreHarmlessOnATerminal(t *testing.T) {
	for _, name := range []string{`\u001b[31m`, `\u202eevil`, `\u0007`, strings.Repeat("n", 5000), ""} {
		_, faults := Read("servers", []byte(`{"mcpServers": {"`+name+`": {"`+name+`": 1}}}`))
		if len(faults) == 0 {
			t.Errorf("%q has no faults", name)
		}
		for _, f := range faults {
			if text := f.String(); strings.ContainsAny(text, "\x1b\u202e\x07") || len(text) > 600 {
				t.Errorf("%q: a fault is %q", name, text)
			}
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `"s%d": {"colour": 1},`, i)
	}
	_, faults := Read("servers", []byte(`{"mcpServers": {`+strings.TrimSuffix(b.String(), ",")+`}}`))
	if len(faults) != maxFaults+1 || !strings.Contains(faults[maxFaults].Message, "and 350 more") {
		t.Errorf("got %d faults, the last %v; want %d and a count of 350 more", len(faults), faults[len(faults)-1], maxFaults)
	}
}
