package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
)

// TestAccessLog checks that each request has a line in the log, with the sender, the
// request and its result, but without arguments and tokens.
func TestAccessLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	w := serveTenant(t, "CANARY-one", "--access-log", log)
	session := w.session("CANARY-one")
	for _, call := range []string{
		`{"name":"Bash","arguments":{"command":"echo CANARY"}}`,
		`{"name":"CANARY","arguments":{}}`,
	} {
		w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+call+`}`)
	}
	w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	w.post(map[string]string{"Authorization": "Bearer CANARY-two"}, hello)
	w.post(map[string]string{"Authorization": "Bearer CANARY-one", "Origin": "https://evil.example"}, hello)
	w.end()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "CANARY") {
		t.Errorf("the log has a token or an argument:\n%s", text)
	}
	got := string(text)
	for pattern, with := range map[string]string{
		`"time":"[^"]*"`: `"time":"TIME"`, `"session":"[0-9a-f]{8}"`: `"session":"DIGEST"`, `"bytes":[1-9]\d*`: `"bytes":N`, `"call":"c-\w{8}"`: `"call":"CALL"`, `"ms":\d+`: `"ms":N`,
	} {
		got = regexp.MustCompile(pattern).ReplaceAllString(got, with)
	}
	golden.Equal(t, "access.golden", got)
}
