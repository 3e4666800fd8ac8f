package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// odd is one line that a client should not have written, or a case in which servers are
// known to differ, with the answers, sorted by their text. In every case, the server must
// answer the probe after it.
type odd struct {
	name string
	send []string
	want []string // "id: code" or "id: ok"; nil for no answer
}

const (
	rev2024   = "2024-11-05"
	rev2025   = "2025-03-26" // the revision with batches
	revLegacy = "2025-11-25"
)

func req(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, method)
}

func nest(open, end string, n int) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"x":` + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + `}}`
}

// afterHandshake are odd lines for a connection of revision 2025-11-25.
var afterHandshake = []odd{
	// Not JSON.
	{"text", []string{`hello`}, []string{"null: -32700"}},
	{"truncated object", []string{`{"jsonrpc":"2.0","id":7,"method":"ping"`}, []string{"7: -32700"}},
	{"truncated string", []string{`{"jsonrpc":"2.0","id":7,"method":"pi`}, []string{"null: -32700"}},
	{"truncated escape", []string{`{"jsonrpc":"2.0","id":7,"method":"\u00`}, []string{"null: -32700"}},
	{"NUL", []string{"\x00"}, []string{"null: -32700"}},
	{"NUL in a string", []string{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi\x00ng\"}"}, []string{"7: -32700"}},
	{"single quotes", []string{`{'jsonrpc':'2.0','id':7,'method':'ping'}`}, []string{"null: -32700"}},
	{"trailing comma", []string{`{"jsonrpc":"2.0","id":7,"method":"ping",}`}, []string{"7: -32700"}},
	{"comment", []string{`{"jsonrpc":"2.0",/**/"id":7,"method":"ping"}`}, []string{"null: -32700"}},
	{"unquoted name", []string{`{jsonrpc:"2.0","id":7,"method":"ping"}`}, []string{"7: -32700"}},
	{"NaN", []string{`{"jsonrpc":"2.0","id":NaN,"method":"ping"}`}, []string{"null: -32700"}},
	{"leading zero", []string{`{"jsonrpc":"2.0","id":07,"method":"ping"}`}, []string{"null: -32700"}},
	{"plus sign", []string{`{"jsonrpc":"2.0","id":+7,"method":"ping"}`}, []string{"null: -32700"}},
	{"bad escape", []string{`{"jsonrpc":"2.0","id":7,"method":"\x70ing"}`}, []string{"7: -32700"}},
	{"tab in a string", []string{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi\tng\"}"}, []string{"7: -32700"}},
	{"HTTP request", []string{"GET / HTTP/1.1"}, []string{"null: -32700"}},
	{"LSP header", []string{"Content-Length: 46"}, []string{"null: -32700"}},
	{"two messages on a line", []string{req("7", "ping") + req("8", "ping")}, []string{"null: -32700"}},
	{"message over two lines", []string{`{"jsonrpc":"2.0","id":7,`, `"method":"ping"}`}, []string{"7: -32700", "null: -32700"}},
	{"invalid UTF-8", []string{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}"}, []string{"7: -32700"}},
	{"overlong UTF-8", []string{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xc0\xaf\"}"}, []string{"7: -32700"}},
	{"surrogate in UTF-8", []string{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xed\xa0\x80\"}"}, []string{"7: -32700"}},
	{"UTF-16", []string{"\xff\xfe{\x00}\x00"}, []string{"null: -32700"}},

	// JSON, but not JSON-RPC.
	{"number", []string{`5`}, []string{"null: -32600"}},
	{"null", []string{`null`}, []string{"null: -32600"}},
	{"true", []string{`true`}, []string{"null: -32600"}},
	{"string", []string{`"x"`}, []string{"null: -32600"}},
	{"empty object", []string{`{}`}, []string{"null: -32600"}},
	{"only an id", []string{`{"jsonrpc":"2.0","id":7}`}, []string{"7: -32600"}},
	{"no jsonrpc", []string{`{"id":7,"method":"ping"}`}, []string{"7: -32600"}},
	{"jsonrpc 1.0", []string{`{"jsonrpc":"1.0","id":7,"method":"ping"}`}, []string{"7: -32600"}},
	{"jsonrpc a number", []string{`{"jsonrpc":2.0,"id":7,"method":"ping"}`}, []string{"7: -32600"}},
	{"jsonrpc null", []string{`{"jsonrpc":null,"id":7,"method":"ping"}`}, []string{"7: -32600"}},
	{"capital keys", []string{`{"JSONRPC":"2.0","ID":7,"METHOD":"ping"}`}, []string{"null: -32600"}},
	{"capital method key", []string{`{"jsonrpc":"2.0","id":7,"Method":"ping"}`}, []string{"7: -32600"}},
	{"duplicate method key", []string{`{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}`}, []string{"7: -32600"}},
	{"duplicate key by escape", []string{`{"jsonrpc":"2.0","id":7,"method":"ping","\u006dethod":"tools/list"}`}, []string{"7: -32600"}},
	{"duplicate key in arguments", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","text":"b"}}}`}, []string{"7: -32600"}},
	{"method a number", []string{`{"jsonrpc":"2.0","id":7,"method":5}`}, []string{"7: -32600"}},
	{"method null", []string{`{"jsonrpc":"2.0","id":7,"method":null}`}, []string{"7: -32600"}},
	{"method an object", []string{`{"jsonrpc":"2.0","id":7,"method":{}}`}, []string{"7: -32600"}},
	{"method empty", []string{`{"jsonrpc":"2.0","id":7,"method":""}`}, []string{"7: -32600"}},
	{"batch", []string{`[` + req("7", "ping") + `,{"jsonrpc":"2.0","id":9,"result":{}},` + req(`"b"`, "ping") + `]`}, []string{`["b": -32600 7: -32600]`}},
	{"batch of one", []string{`[` + req("7", "ping") + `]`}, []string{"7: -32600"}},
	{"batch without a request", []string{`[{"jsonrpc":"2.0","method":"notifications/no-such"}]`}, []string{"null: -32600"}},
	{"empty batch", []string{`[]`}, []string{"null: -32600"}},
	{"batch of a number", []string{`[1]`}, []string{"null: -32600"}},

	// Ids.
	{"id null", []string{req("null", "tools/list")}, []string{"null: -32600"}},
	{"id true", []string{req("true", "tools/list")}, []string{"null: -32600"}},
	{"id object", []string{req("{}", "tools/list")}, []string{"null: -32600"}},
	{"id array", []string{req("[7]", "tools/list")}, []string{"null: -32600"}},
	{"id 1.5", []string{req("1.5", "tools/list")}, []string{"null: -32600"}},
	{"id 1e400", []string{req("1e400", "tools/list")}, []string{"null: -32600"}},
	{"id 2^60+1", []string{req("1152921504606846977", "tools/list")}, []string{"1152921504606846977: ok"}},
	{"id of 30 digits", []string{req("123456789012345678901234567890", "tools/list")}, []string{"123456789012345678901234567890: ok"}},
	{"id negative", []string{req("-7", "tools/list")}, []string{"-7: ok"}},
	{"id zero", []string{req("0", "tools/list")}, []string{"0: ok"}},
	{"id empty string", []string{req(`""`, "tools/list")}, []string{`"": ok`}},
	{"id with escapes", []string{req(`"a\u0062\/"`, "tools/list")}, []string{`"a\u0062\/": ok`}},
	{"id string beside the number", []string{req(`"7"`, "tools/list"), req(`7`, "tools/list")}, []string{`"7": ok`, "7: ok"}},
	{"id too long", []string{req(`"`+strings.Repeat("i", 2000)+`"`, "tools/list")}, []string{"null: -32600"}},

	// Methods and parameters.
	{"unknown method", []string{req("7", "no/such")}, []string{"7: -32601"}},
	{"unknown method with parameters", []string{`{"jsonrpc":"2.0","id":7,"method":"no/such","params":{"a":1}}`}, []string{"7: -32601"}},
	{"shutdown, as other protocols have", []string{req("7", "shutdown")}, []string{"7: -32601"}},
	{"resources/search", []string{req("7", "resources/search")}, []string{"7: -32602"}},
	{"method in capitals", []string{req("7", "TOOLS/LIST")}, []string{"7: -32601"}},
	{"unknown notification", []string{`{"jsonrpc":"2.0","method":"notifications/no-such"}`}, nil},
	{"request without id", []string{`{"jsonrpc":"2.0","method":"tools/list"}`}, nil},
	{"notification with id", []string{req("7", "notifications/initialized")}, []string{"7: -32600"}},
	{"params array", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[]}`}, []string{"7: -32602"}},
	{"params string", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":"x"}`}, []string{"7: -32602"}},
	{"params number", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":3}`}, []string{"7: -32602"}},
	{"params array for a method without any", []string{`{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}`}, []string{"7: -32602"}},
	{"params string for a method without any", []string{`{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}`}, []string{"7: -32602"}},
	{"params null", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":null}`}, []string{"7: ok"}},
	{"notification with params array", []string{`{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}`}, nil},
	{"extra member", []string{`{"jsonrpc":"2.0","id":7,"method":"ping","extra":{"a":[1]}}`}, []string{"7: ok"}},
	{"second initialize", []string{fmt.Sprintf(hello, revLegacy)}, []string{`"hello": -32600`}},
	{"second initialized", []string{initialized, `{"jsonrpc":"2.0","method":"initialized"}`}, nil},
	{"bad cursor", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"%%%"}}`}, []string{"7: -32602"}},
	{"unknown resource", []string{`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"no://such"}}`}, []string{"7: -32002"}},
	{"resource that is not there", []string{`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"note://8"}}`}, []string{"7: -32002"}},
	{"resource that is there", []string{`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"note://7"}}`}, []string{"7: ok"}},

	// Calls.
	{"unknown tool", []string{call("7", "ecko", `{}`)}, []string{"7: -32602"}},
	{"tools/call without params", []string{req("7", "tools/call")}, []string{"7: -32602"}},
	{"tools/call with name a number", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}`}, []string{"7: -32602"}},
	// isError: the agent can correct the call
	{"bad arguments", []string{call("7", "echo", `{"text":5}`)}, []string{"7: ok"}},
	{"extra argument", []string{call("7", "echo", `{"text":"a","txt":"b"}`)}, []string{"7: ok"}},
	{"arguments array", []string{call("7", "echo", `[1]`)}, []string{"7: ok"}},
	{"arguments in capitals", []string{call("7", "echo", `{"Text":"a"}`)}, []string{"7: ok"}},
	{"tool that panics", []string{call("7", "panic", `{}`)}, []string{"7: ok"}},
	{"lone surrogate", []string{call("7", "echo", `{"text":"\ud800"}`)}, []string{"7: ok"}},

	// Framing.
	{"blank line", []string{``}, nil},
	{"line of spaces", []string{"  \t "}, nil},
	{"CRLF", []string{req("7", "ping") + "\r"}, []string{"7: ok"}},
	{"leading spaces", []string{"   " + req("7", "ping")}, []string{"7: ok"}},
	{"trailing spaces", []string{req("7", "ping") + "   "}, []string{"7: ok"}},
	{"BOM", []string{"\ufeff" + req("7", "ping")}, []string{"7: ok"}},
	{"line of 1 MiB", []string{fill(1 << 20)}, []string{"7: ok"}},
	{"line of 1 MiB and a byte", []string{fill(1<<20 + 1)}, []string{"7: -32600"}},
	{"line of 2 MB", []string{fill(2_000_000)}, []string{"7: -32600"}},
	{"line of 20 MB", []string{fill(20_000_000)}, []string{"7: -32600"}},
	{"2 MB that are not JSON", []string{strings.Repeat("x", 2_000_000)}, []string{"null: -32600"}},
	{"nesting of 100", []string{nest("[", "]", 100)}, []string{"7: ok"}},
	{"nesting of 900", []string{nest("[", "]", 900)}, []string{"7: -32600"}},
	{"nesting of 2,000 objects", []string{nest(`{"a":`, `}`, 2000)}, []string{"7: -32600"}},
	{"nesting of 100,000", []string{nest("[", "]", 100_000)}, []string{"7: -32600"}},

	// Responses and cancels without a request.
	{"response to nothing", []string{`{"jsonrpc":"2.0","id":99,"result":{}}`}, nil},
	{"response with an id of ours", []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, nil},
	{"error to nothing", []string{`{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`}, nil},
	{"error without id", []string{`{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`}, nil},
	{"error with id null", []string{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`}, nil},
	{"error that is a string", []string{`{"jsonrpc":"2.0","id":1,"error":"x"}`}, nil},
	{"result and error", []string{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`}, nil},
	{"cancel of nothing", []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`}, nil},
	{"cancel without params", []string{`{"jsonrpc":"2.0","method":"notifications/cancelled"}`}, nil},
	{"cancel with id true", []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}`}, nil},
	{"cancel with id null", []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`}, nil},
	{"progress for nothing", []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`}, nil},

	// The other era on the same connection.
	{"modern call", []string{modern("7", "tools/list", ``)}, []string{"7: ok"}},
	{"modern ping, which is gone", []string{modern("7", "ping", ``)}, []string{"7: -32601"}},
	{"unsupported modern revision", []string{strings.Replace(modern("7", "tools/list", ``), "2026-07-28", "2099-01-01", 1)}, []string{"7: -32022"}},
	{"modern call without capabilities", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`}, []string{"7: -32602"}},
	{"modern resource that is not there", []string{modern("7", "resources/read", `"uri":"note://8",`)}, []string{"7: -32602"}},
	{"_meta a string", []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":"x"}}`}, []string{"7: -32602"}},
	{"discover without _meta", []string{req("7", "server/discover")}, []string{"7: -32601"}},
}

// fill returns a call of echo that is n bytes long without its LF.
func fill(n int) string {
	line := call("7", "echo", `{"text":"@"}`)
	return strings.Replace(line, "@", strings.Repeat("x", n-len(line)+1), 1)
}

// modern returns a request of the modern era; extra is put before _meta.
func modern(id, method, extra string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"0"}}}}`, id, method, extra)
}

// batches are lines of revision 2025-03-26.
var batches = []odd{
	{"batch", []string{`[` + req("7", "ping") + `,` + call("8", "echo", `{"text":"x"}`) + `]`}, []string{"[7: ok 8: ok]"}},
	{"batch with a notification", []string{`[{"jsonrpc":"2.0","method":"notifications/no-such"},` + req("7", "ping") + `]`}, []string{"[7: ok]"}},
	{"batch of notifications", []string{`[{"jsonrpc":"2.0","method":"notifications/no-such"}]`}, nil},
	{"batch with rubbish", []string{`[1,` + req("7", "ping") + `,{}]`}, []string{"[7: ok null: -32600 null: -32600]"}},
	{"empty batch", []string{`[]`}, []string{"null: -32600"}},
	// the test checks this row separately
	{"batch with one id twice", []string{`[` + call("7", "echo", `{"text":"x"}`) + `,` + req("7", "no/such") + `]`}, nil},
	{"initialize in a batch", []string{`[` + fmt.Sprintf(hello, rev2025) + `]`}, []string{`["hello": -32600]`}},
	{"batch in a batch", []string{`[[` + req("7", "ping") + `]]`}, []string{"[null: -32600]"}},
	{"batch of 200", []string{`[` + strings.Repeat(req("7", "ping")+`,`, 199) + req("7", "ping") + `]`}, []string{"null: -32600"}},
}

// beforeHandshake are odd lines before initialize.
var beforeHandshake = []odd{
	{"call", []string{call("7", "echo", `{"text":"x"}`)}, []string{"7: -32600"}},
	{"list", []string{req("7", "tools/list")}, []string{"7: -32600"}},
	{"ping", []string{req("7", "ping")}, []string{"7: ok"}},
	{"initialized", []string{initialized}, nil},
	{"initialize without params", []string{req("7", "initialize")}, []string{"7: ok"}},
	{"modern call", []string{modern("7", "tools/list", ``)}, []string{"7: ok"}},
}

// TestOddInput sends text that is not UTF-8, a byte order mark, ids of all kinds, missing
// params, JSON that is not a message, and lines of 1 MiB and more (W2, W5, W6, W14, W22,
// C3, L1).
func TestOddInput(t *testing.T) {
	if n := len(afterHandshake) + len(batches) + len(beforeHandshake); n < 86 {
		t.Errorf("the tables have %d rows, want at least 86", n)
	}
	for _, group := range []struct {
		name, revision string
		rows           []odd
	}{{"ready", revLegacy, afterHandshake}, {"first revision", rev2024, afterHandshake}, {"batches", rev2025, batches}, {"uninitialized", "", beforeHandshake}} {
		for _, tt := range group.rows {
			t.Run(group.name+"/"+tt.name, func(t *testing.T) {
				c := newToy(t).connect(t)
				if group.revision != "" {
					c.greet(group.revision)
				}
				c.send(tt.send...)
				if strings.Contains(tt.name, "one id twice") {
					// The order of the two depends on the order in the batch, and the
					// answers are one line.
					if a := c.next(); !strings.Contains(a.raw, "-32600") || !strings.Contains(a.raw, `"result"`) {
						t.Errorf("answered %s", a.raw)
					}
				}
				var got []string
				for range tt.want {
					got = append(got, shortLine(t, c.next()))
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(tt.want))
				if !slices.Equal(got, want) {
					t.Errorf("sent %.200q, got %v, want %v", tt.send, got, want)
				}
				c.send(req(`"probe"`, "ping"))
				if a := c.next(); a.short() != `"probe": ok` {
					t.Errorf("the probe after it was answered %s", a.raw)
				}
				if group.revision != "" {
					c.send(call(`"later"`, "echo", `{"text":"later"}`))
					if a := c.next(); a.text() != "later" {
						t.Errorf("the call after it was answered %s", a.raw)
					}
				}
				c.in.Close()
				for line := range c.line {
					t.Errorf("an answer too many: %s", line)
				}
				if err := <-c.done; err != nil {
					t.Errorf("ServeStdio: %v", err)
				}
			})
		}
	}
}

// shortLine returns a line of answers in short form, sorted if it is a batch.
func shortLine(t *testing.T, a answer) string {
	if a.raw[0] != '[' {
		return a.short()
	}
	var parts []string
	for _, p := range split(t, a.raw) {
		parts = append(parts, p.short())
	}
	slices.Sort(parts)
	return "[" + strings.Join(parts, " ") + "]"
}
