package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What is behind the login does not see a token, whether one is asked for or not: the go-sdk
// shows the headers of a request to whatever handles it.
func TestLoginTakesTheTokenOut(t *testing.T) {
	w := &web{server: &Server{cfg: &Config{}}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	r, ok := w.login(httptest.NewRecorder(), r)
	if !ok || r.Header.Get("Authorization") != "" {
		t.Errorf("let in: %t, with the header %q", ok, r.Header.Get("Authorization"))
	}
}
