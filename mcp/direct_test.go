package mcp_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStdioReadsCallsAsTheSDK sends each call twice, once with a member that readCall
// does not know, which makes the go-sdk answer it.
func TestStdioReadsCallsAsTheSDK(t *testing.T) {
	callID := regexp.MustCompile(`c-[A-Z2-7]{8}`)
	old, young := newToy(t).connect(t), newToy(t).connect(t)
	old.greet(revLegacy)
	ask := func(c *client, line string) (out any) {
		t.Helper()
		c.send(line)
		a := c.next()
		for a.Method != "" {
			a = c.next()
		}
		raw := strings.ReplaceAll(a.raw, `\\\"another\\\":1,`, "") // errors of the go-sdk quote the parameters
		if err := json.Unmarshal([]byte(callID.ReplaceAllString(raw, "c-X")), &out); err != nil {
			t.Fatalf("%s: %v", a.raw, err)
		}
		return out
	}
	for _, params := range []string{
		`"name":"echo","arguments":{"text":"plain"}`,
		`"name":"echo","arguments":{"text":"\u0000\u001f\"\\\/\n\t\r <&> \u2028 \ud83d\ude00 \ud800 é"}`,
		`"name":"echo","arguments":{"text":"forbidden"}`,
		`"name":"echo","arguments":{"text":5}`,
		`"name":"echo","arguments":[]`,
		`"name":"echo","arguments":null`,
		`"name":"echo"`,
		`"name":"steps","arguments":{}`,
		`"name":"steps","_meta":{"progressToken":7}`,
		`"name":"steps","_meta":{"progressToken":1.5}`,
		`"name":"echo","arguments":{"text":"x"},"_meta":{"belljar.dev/structured":true}`,
		`"name":"echo","arguments":{"text":"forbidden"},"_meta":{"belljar.dev/structured":true}`,
		`"name":"echo","arguments":{"text":"x"},"_meta":{"belljar.dev/structured":"true"}`,
		`"name":"echo","arguments":{"text":"x"},"_meta":{"traceparent":7,"tracestate":[]}`,
		`"name":"echo","arguments":{"text":"x"},"requestState":"x"`,
		`"name":"echo","arguments":{"text":"x"},"requestState":7`,
		`"name":"echo","arguments":{"text":"x"},"inputResponses":{"a":{"action":"accept"}}`,
		`"name":"echo","arguments":{"text":"x"},"inputResponses":{}`,
		`"name":"echo","arguments":{"text":"x"},"inputResponses":{"a":7}`,
		`"name":"echo","arguments":{"text":"x"},"inputResponses":[]`,
		`"name":"echo","arguments":{"text":"x"},"inputResponses":null`,
		`"name":"fail","arguments":{}`,
		`"name":"panic","arguments":{}`,
		`"name":"ecko","arguments":{}`,
		`"name":"big","arguments":{"bytes":0}`,
		`"name":"","arguments":{}`,
	} {
		legacyCall := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{@` + params + `}}`
		calls := map[*client]string{old: legacyCall}
		if !strings.Contains(params, "_meta") {
			calls[young] = modern("1", "tools/call", "@"+params+",")
		}
		for c, call := range calls {
			own := ask(c, strings.Replace(call, "@", "", 1))
			throughSDK := ask(c, strings.Replace(call, "@", `"another":1,`, 1))
			if diff := cmp.Diff(throughSDK, own); diff != "" {
				t.Errorf("%s: the go-sdk (-) and direct.go (+) answer differently:\n%s", call, diff)
			}
		}
	}
}

// TestWireText sends text that needs care in JSON and wants it back.
func TestWireText(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	for _, text := range []string{"", "a\x00b", "\u2028\u2029", "\x7f", "😀", `"\`, strings.Repeat("\n", 5000)} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		c.send(call("1", "echo", `{"text":`+string(quoted)+`}`))
		if a := c.next(); a.text() != text {
			t.Errorf("echo of %.20q answered %.200s", text, a.raw)
		}
	}
}
