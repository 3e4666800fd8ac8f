package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// front is a server with all tools over HTTP.
type front struct {
	t       *testing.T
	url     string
	session string
}

func newFront(t *testing.T, handler http.Handler) *front {
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	f := &front{t: t, url: server.URL}
	_, header := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`, nil)
	f.session = header.Get("Mcp-Session-Id")
	return f
}

// post returns the message with which a POST is answered, and the headers.
func (f *front) post(body string, headers map[string]string) (message string, _ http.Header) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"id"`) {
			raw = []byte(data)
		}
	}
	return string(bytes.TrimSpace(raw)), res.Header
}

// chance matches the parts that differ between the answers to two equal calls.
var chance = regexp.MustCompile(`c-[A-Z2-7]{8}|[0-9.]+ ?(ms|s|µs)\b|duration_ms=[0-9]+`)

// call makes a call as a client of an era does. throughSDK adds a member to the call's
// parameters that only the go-sdk reads. plain reports whether the answer was plain JSON.
func (f *front) call(modern, throughSDK bool, tool, args string) (answer any, plain bool) {
	f.t.Helper()
	odd := ""
	if throughSDK {
		odd = `"another":1,`
	}
	headers := map[string]string{"Mcp-Session-Id": f.session, "Mcp-Protocol-Version": "2025-11-25"}
	meta := ""
	if modern {
		headers = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"0"}}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{%s"name":%q,"arguments":%s%s}}`, odd, tool, args, meta)
	raw, header := f.post(body, headers)
	if err := json.Unmarshal([]byte(chance.ReplaceAllString(raw, "X")), &answer); err != nil {
		f.t.Fatalf("%s answered %s: %v", body, raw, err)
	}
	return answer, header.Get("Content-Type") == "application/json"
}

// TestHTTPAnswersAsTheSDK calls each tool with invalid arguments, and some tools with valid
// ones, in both eras, once past the go-sdk and once through it. The answers are equal
// except for the order of keys.
func TestHTTPAnswersAsTheSDK(t *testing.T) {
	w := newWhole(t)
	f := newFront(t, w.own.Handler())
	calls, plain := 0, 0
	for _, tool := range policies.KnownTools() {
		c := toolCases[tool]
		all := append([]string{`{}`, `{"nonsense":1}`, `[]`}, c.refuses[max(0, len(c.refuses)-1):]...)
		if c.works != "" {
			all = append(all, c.works)
		}
		for _, args := range all {
			for _, modern := range []bool{false, true} {
				own, direct := f.call(modern, false, tool, args)
				through, _ := f.call(modern, true, tool, args)
				if diff := cmp.Diff(through, own); diff != "" {
					t.Errorf("%s %s, modern %t: the go-sdk (-) and belljar (+) answer differently:\n%s", tool, args, modern, diff)
				}
				calls++
				if direct {
					plain++
				}
			}
		}
	}
	if plain < calls*9/10 { // a box may take longer than 500 ms to open
		t.Errorf("%d of %d answers were plain JSON", plain, calls)
	}
	t.Logf("%d calls, %d of them answered as plain JSON", calls, plain)
}
