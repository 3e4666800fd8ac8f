package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// A log message of a call comes before the answer, over each transport and in each era, to a
// client that wants it: a legacy one sets a level, a modern one names it in the request.
func TestLogOfACall(t *testing.T) {
	site := newSite(t)
	mcp.AddTool(site.Server, mcp.Tool{Name: "logs", Description: "logs"}, func(_ context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
		for _, level := range []string{"debug", "notice", "emergency", "odd"} {
			call.Log(mcp.LogMessage{Level: level, Logger: "l", Data: json.RawMessage(`{"is":"` + level + `"}`)})
		}
		mcp.LogMessage{Level: "alert", Data: json.RawMessage(`1`)}.SendTo(call.Session)
		call.Log(mcp.LogMessage{Level: "alert", Data: json.RawMessage(`{`)})
		return mcp.Text("done"), nil
	})
	old, young := site.connect(t), site.connect(t)
	if hi := old.greet(revLegacy); !strings.Contains(hi.raw, `"logging":{}`) {
		t.Errorf("initialize: %s", hi.raw)
	}
	headers := site.greet()
	levels := regexp.MustCompile(`"is":"(\w+)"`)
	for _, tt := range []struct{ level, want string }{{"", "[]"}, {"debug", "[debug notice emergency]"}, {"notice", "[notice emergency]"}, {"odd", "[]"}} {
		meta := ""
		if tt.level != "" {
			meta = fmt.Sprintf(`"io.modelcontextprotocol/logLevel":%q,`, tt.level)
			set := fmt.Sprintf(`{"jsonrpc":"2.0","id":"s","method":"logging/setLevel","params":{"level":%q}}`, tt.level)
			old.send(set)
			old.next()
			site.do("POST", set, headers...)
		}
		line := call("1", "logs", "{}")
		newLine := strings.Replace(modern("1", "tools/call", `"name":"logs","arguments":{},`), `"_meta":{`, `"_meta":{`+meta, 1)
		until := func(c *client) (all string) {
			for a := c.next(); ; a = c.next() {
				if all += a.raw; a.ID != nil {
					return all
				}
			}
		}
		old.send(line)
		young.send(newLine)
		for way, raw := range map[string]string{
			"stdio, 2025-11-25": until(old), "stdio, 2026-07-28": until(young),
			"HTTP, 2025-11-25": site.do("POST", line, headers...).raw,
			"HTTP, 2026-07-28": site.do("POST", newLine, modernHeaders("tools/call", "logs")...).raw,
		} {
			got := []string{}
			for _, m := range levels.FindAllStringSubmatch(raw, -1) {
				got = append(got, m[1])
			}
			if fmt.Sprint(got) != tt.want || !strings.Contains(raw, "done") {
				t.Errorf("%s: level %q: got %v, want %s, in %s", way, tt.level, got, tt.want, raw)
			}
			if alone := strings.Contains(raw, `"level":"alert"`); alone && !strings.HasPrefix(way, "stdio, 2025") {
				t.Errorf("%s: a message of no call came with the answer: %s", way, raw)
			} else if way == "stdio, 2025-11-25" && alone != (tt.want != "[]") {
				t.Errorf("%s: level %q: a message of no call came: %v", way, tt.level, alone)
			}
		}
	}
}
