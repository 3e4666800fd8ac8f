package config

import (
	"fmt"
	"strings"
	"testing"
)

// filled returns head and tail with as many repetitions of a text between them as a file
// may have.
func filled(head, with, tail string) []byte {
	n := (MaxFile - len(head) - len(tail)) / len(with)
	return []byte(head + strings.Repeat(with, n) + tail)
}

// numbered is like filled, with the number of the repetition in place of a verb in the
// text.
func numbered(head, with, tail string) []byte {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; b.Len()+len(with)+8+len(tail) < MaxFile; i++ {
		fmt.Fprintf(&b, with, i)
	}
	b.WriteString(tail)
	return []byte(b.String())
}

// Files of the largest size, in which each byte causes much work, as agents may write them.
// Each is read in about the time of a normal file of that size. A reader that compares each
// key with all others takes minutes for some of them, and this test would not end.
func TestHostileFilesAreReadInTime(t *testing.T) {
	for name, data := range map[string][]byte{
		"one long line":                 numbered(`{"mcpServers":{"a":{"command":"x"`, `,"k%d":1`, `}}}`),
		"keys of a settings file":       numbered(`{"mcpServers":{}`, `,"k%d":[]`, `}`),
		"keys that are not servers":     numbered(`{"a":{"command":"x"}`, `,"k%d":{"url":1}`, `}`),
		"servers":                       numbered(`{"mcpServers":{"a":{}`, `,"k%d":{}`, `}}`),
		"servers in an array":           numbered(`[{}`, `,{"name":"k%d"}`, `]`),
		"inputs":                        numbered(`{"servers":{"a":{"command":"x"}},"inputs":[{"id":"a"}`, `,{"id":"k%d"}`, `]}`),
		"rules of a sandbox":            numbered(`{"servers":{"a":{"command":"x","sandbox":{"network":{"a":1`, `,"k%d":1`, `}}}}}`),
		"an older command":              numbered(`{"context_servers":{"a":{"command":{"path":"x"`, `,"k%d":1`, `}}}}`),
		"references without an end":     filled(`[{"name":"a","command":"x","args":["`, `","`+strings.Repeat("${", 32000), `"]}]`),
		"references in references":      filled(`[{"name":"a","command":"x","args":["`, `","`+strings.Repeat("${a:-", 13000), `"]}]`),
		"references of much":            filled(`[{"name":"a","command":"x","args":["`, `","`+strings.Repeat("${a}", 16000), `"]}]`),
		"ends without references":       filled(`[{"name":"a","command":"x","args":["`, `","`+strings.Repeat("${ }", 16000), `"]}]`),
		"comments":                      filled(`{"servers":{`, `/**/`, `}}`),
		"lines of comments":             filled(`{"servers":{`, "//\n", `}}`),
		"lists":                         filled(`{"servers":{"a":{"command":"x","b":[[]`, `,[]`, `]}}}`),
		"tables of TOML":                numbered("", "[k%d]\n", ""),
		"tables in a table of TOML":     numbered("", "[mcp_servers.a.k%d]\n", ""),
		"deep tables of TOML":           numbered("", "[a.b.c.d.e.f.g.h.i.j.k%d]\n", ""),
		"arrays of tables of TOML":      filled("", "[[mcp_servers]]\n", ""),
		"arrays in arrays of TOML":      filled("", "[[a]]\n[[a.b]]\n", ""),
		"keys of TOML":                  numbered("[mcp_servers.a]\n", "k%d=1\n", ""),
		"dotted keys of TOML":           numbered("", "mcp_servers.a.k%d.b=1\n", ""),
		"an inline table of TOML":       numbered("a={b=1", ",k%d=1", "}\n"),
		"keys of YAML":                  numbered("mcpServers:\n  a:\n    command: x\n", "    k%d: 1\n", ""),
		"items of YAML":                 filled("mcpServers:\n", "  - a\n", ""),
		"nested keys of YAML":           filled("mcpServers:\n", " ? a\n", ""),
		"anchors of YAML":               numbered("a:\n", "  - &k%d x\n", ""),
		"a flow of YAML":                filled("mcpServers: [a", ",a", "]"),
		"line breaks":                   filled("", "\n", `{}`),
		"comment lines of TOML":         filled("", "#\n", "a=1"),
		"one text":                      filled(`{"mcpServers":{"`, "n", `":{}}}`),
		"a name twice, again and again": filled(`{"mcpServers":{`, `"a":{},`, `"a":{}}}`),
	} {
		if len(data) > MaxFile || len(data) < MaxFile-200000 {
			t.Errorf("%s: the file has %d bytes", name, len(data))
		}
		entries, faults := Read("servers", data)
		if len(faults) > maxFaults+1 {
			t.Errorf("%s: %d faults", name, len(faults))
		}
		for _, e := range entries {
			Expand(e, testLookup)
			References(e)
		}
	}
}
