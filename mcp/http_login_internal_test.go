package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The code behind the login does not see a token, whether the server needs one or not,
// because the go-sdk shows the headers of a request to its handlers.
func TestLoginTakesTheTokenOut(t *testing.T) {
	w := &web{server: &Server{cfg: &Config{}}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	r, ok := w.login(httptest.NewRecorder(), r)
	if !ok || r.Header.Get("Authorization") != "" {
		t.Errorf("let in: %t, with the header %q", ok, r.Header.Get("Authorization"))
	}
}
