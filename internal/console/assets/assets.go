// Package assets has the files of the console's page.
package assets

import (
	"io"
	"net/http"
)

// ContentSecurityPolicy is what the page may do. Since nothing in it may make markup of a text,
// no text that an agent wrote becomes markup.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>belljar</title><p>The data of this console is at api/v1.")
	})
	return mux
}
