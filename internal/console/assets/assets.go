// Package assets contains the page of the console: an HTML file, a style sheet and one script.
//
// The sources of the script are the modules below page. A test joins them without their comments,
// and packs the script and the style sheet into the directory packed, which is all that the binary
// contains of them. go test ./internal/console/assets -update writes packed again. Therefore a
// browser requests two files and not thirty, and nothing is packed when the program runs.
package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // for the files
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ContentSecurityPolicy restricts what the page may do. No script in the page may turn text
// into markup, so no text that an agent wrote becomes markup.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// The files of the page. Names that end in .gz belong to files that are packed by gzip.
var (
	//go:embed page/index.html
	index string
	//go:embed packed/main.js.gz
	script []byte
	//go:embed packed/style.css.gz
	style []byte
)

// file is the answer to a request for a path.
type file struct {
	kind, tag, cache string
	text             []byte
	packed           bool // whether text is packed by gzip
}

// Handler serves the page. All files except the HTML file lie in a directory whose name is
// a digest of their contents, so that a browser may keep them and never mixes files of two
// versions. Their paths are relative: the page works below any path of a proxy.
func Handler() http.Handler {
	const forEver = "public, max-age=31536000, immutable"
	dir := "assets/" + digest([]byte(index), script, style)[:16] + "/"
	page := []byte(strings.ReplaceAll(index, "assets/", dir))
	served := map[string]file{
		"/": {"text/html; charset=utf-8", `"` + digest(page) + `"`, "no-cache", page, false},
		// a provider redirects the browser to this path
		"/login": {"text/html; charset=utf-8", `"` + digest(page) + `"`, "no-cache", page, false},
		// an authorization server redirects the browser to this path
		"/upstream-login":       {"text/html; charset=utf-8", `"` + digest(page) + `"`, "no-cache", page, false},
		"/" + dir + "main.js":   {"text/javascript; charset=utf-8", `"` + digest(script) + `"`, forEver, script, true},
		"/" + dir + "style.css": {"text/css; charset=utf-8", `"` + digest(style) + `"`, forEver, style, true},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, ok := served[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		packed := is.packed && takesGzip(r)
		if packed {
			is.tag = strings.TrimSuffix(is.tag, `"`) + `-gzip"`
		} else if is.packed {
			is.text = unpack(is.text)
		}
		h.Set("Vary", "Accept-Encoding")
		h.Set("Cache-Control", is.cache)
		h.Set("ETag", is.tag)
		if r.Header.Get("If-None-Match") == is.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if packed {
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Content-Type", is.kind)
		h.Set("Content-Length", strconv.Itoa(len(is.text)))
		_, _ = w.Write(is.text) // if the client has gone, the error does not matter
	})
}

// maxText is the maximum size of an unpacked file, in bytes. TestSize keeps the files far
// below it.
const maxText = 1 << 20

// unpack unpacks a file of the page, for a client that does not accept gzip.
func unpack(packed []byte) []byte {
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // the files are a part of this program
	}
	text, err := io.ReadAll(io.LimitReader(in, maxText)) //nolint:forbidigo // the reader has a bound
	if err != nil {
		panic(err)
	}
	return text
}

// takesGzip reports whether a browser accepts gzip: the header names gzip, without the
// weight zero (q=0).
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// digest returns a digest of texts, for the names of files and for entity tags.
func digest(texts ...[]byte) string {
	sum := sha256.New()
	for _, text := range texts {
		_, _ = sum.Write(text)
		_, _ = sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil))[:24]
}
