// Package assets has the files of the console's page.
package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ContentSecurityPolicy is what the page may do. Since nothing in it may make markup of a text,
// no text that an agent wrote becomes markup.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

//go:embed page
var page embed.FS

// Files are the files of the page, by their paths.
func Files() map[string][]byte {
	files := make(map[string][]byte)
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := page.ReadFile(name)
		files[strings.TrimPrefix(name, "page/")] = text
		return err
	})
	if err != nil {
		panic(err) // the files are a part of this program
	}
	return files
}

// file is what is sent for a path.
type file struct {
	kind, tag, cache string
	text, packed     []byte // packed by gzip
}

// Handler serves the page. All files but the first lie in a directory whose name is made of what
// they contain, so that a browser may keep them and never mixes those of two versions. Their
// paths are relative: the page works below any path of a proxy.
func Handler() http.Handler {
	files, all := Files(), sha256.New()
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		fmt.Fprintf(all, "%s %d\n", name, len(files[name]))
		_, _ = all.Write(files[name])
	}
	dir := "assets/" + hex.EncodeToString(all.Sum(nil))[:16] + "/"
	var ahead strings.Builder // modules that the browser need not find one by one
	served := make(map[string]file)
	for _, name := range names {
		if name == "index.html" {
			continue
		}
		is := file{kind: "text/javascript; charset=utf-8", cache: "public, max-age=31536000, immutable", text: files[name]}
		if path.Ext(name) == ".css" {
			is.kind = "text/css; charset=utf-8"
		} else {
			fmt.Fprintf(&ahead, "<link rel=\"modulepreload\" href=\"%s\">\n", dir+name)
		}
		is.tag, is.packed = tagOf(is.text), pack(is.text)
		served["/"+dir+name] = is
	}
	index := strings.ReplaceAll(string(files["index.html"]), "assets/", dir)
	index = strings.Replace(index, "</head>", ahead.String()+"</head>", 1)
	served["/"] = file{"text/html; charset=utf-8", tagOf([]byte(index)), "no-cache", []byte(index), pack([]byte(index))}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, ok := served[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		if takesGzip(r) {
			is.text, is.tag = is.packed, strings.TrimSuffix(is.tag, `"`)+`-gzip"`
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Vary", "Accept-Encoding")
		h.Set("Cache-Control", is.cache)
		h.Set("ETag", is.tag)
		if r.Header.Get("If-None-Match") == is.tag {
			h.Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", is.kind)
		h.Set("Content-Length", strconv.Itoa(len(is.text)))
		_, _ = w.Write(is.text) // the client may have gone
	})
}

// pack packs a text by gzip.
func pack(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// takesGzip reports whether a browser wants what is packed: it names gzip, and not as the last
// thing that it would take (q=0).
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// tagOf is the entity tag of a text.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}
