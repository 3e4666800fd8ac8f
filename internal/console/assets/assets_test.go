package assets

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sinks matches the places where a text would become markup or a script, and those where
// something is loaded from another server.
var sinks = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|srcdoc|javascript:|DOMParser|createContextualFragment|setHTML|XMLHttpRequest|(await|return|=) import\(|createPolicy|localStorage|document\.cookie|setAttribute\('(on|style|src)`)

// addresses are all addresses in the modules: a name space, the beginning of a URL that is
// made from a host, an example, and the part of a message about addresses.
var addresses = []string{"http://www.w3.org/2000/svg", "http://", "http://127.0.0.1:8931/#…", "http:// or https://."}

// No module turns a text into markup: WC6.
func TestNoSinks(t *testing.T) {
	scripts := 0
	for name, text := range sources(t) {
		if path.Ext(name) == ".css" && regexp.MustCompile(`url\(|@import`).MatchString(text) {
			t.Errorf("%s loads something", name)
		}
		if path.Ext(name) != ".js" {
			continue
		}
		scripts++
		for i, line := range strings.Split(text, "\n") {
			if found := sinks.FindString(line); found != "" {
				t.Errorf("%s:%d has %s", name, i+1, found)
			}
			for _, found := range regexp.MustCompile(`https?://[^'"]*`).FindAllString(line, -1) {
				if !slices.Contains(addresses, found) {
					t.Errorf("%s:%d has the address %s", name, i+1, found)
				}
			}
			if strings.Contains(line, "createElement(") && name != "dom.js" {
				t.Errorf("%s:%d makes an element beside dom.js", name, i+1)
			}
		}
	}
	if scripts < 10 {
		t.Errorf("%d scripts were read", scripts)
	}
}

// named matches the names of texts in texts.js. unnamed matches other parts of texts.js
// that look like such a name.
var (
	unnamed = regexp.MustCompile(`(?s)/\*.*?\*/|'(?:[^'\\]|\\.)*'|` + "`[^`]*`")
	named   = regexp.MustCompile(`[{}]|[A-Za-z]\w*\s*:`)
)

// No two texts have the same name, because the later text would replace the earlier one.
func TestTextsAreNamedOnce(t *testing.T) {
	names, all := []map[string]bool{{}}, 0
	for _, found := range named.FindAllString(unnamed.ReplaceAllString(sources(t)["texts.js"], "0"), -1) {
		last := len(names) - 1
		switch name := strings.TrimRight(found, ": "); {
		case name == "{":
			names = append(names, map[string]bool{})
		case name == "}" && last > 0:
			names = names[:last]
		case names[last][name]:
			t.Errorf("%q is named twice", name)
		default:
			names[last][name] = true
			all++
		}
	}
	if all < 300 || len(names) != 1 {
		t.Errorf("%d names were read, and %d objects are open", all, len(names)-1)
	}
}

// Every text that people read is in texts.js, where it can be translated. In other modules
// no literal begins with a capital letter, except for words that are the same in every
// language: WC28.
func TestTextsStandInOneFile(t *testing.T) {
	begins := regexp.MustCompile("['\"`]([A-Z][a-z]+[^'\"`]*)")
	others := map[string]string{
		"AbortError": "an error of the browser", "Enter": "a key", "Bash": "a tool",
		"Authorization": "a header", "Bearer ": "a header", "Content-Type": "a header", "Belljar-Missing": "a header",
		"KiB": "a unit", "MiB": "a unit", "GiB": "a unit", "TiB": "a unit",
	}
	seen := make(map[string]bool)
	for name, text := range sources(t) {
		if path.Ext(name) != ".js" || name == "texts.js" {
			continue
		}
		for _, found := range begins.FindAllStringSubmatch(comments.ReplaceAllString(text, ""), -1) {
			seen[found[1]] = true
			if others[found[1]] == "" {
				t.Errorf("%s: %q: say it in texts.js", name, found[1])
			}
		}
	}
	for text := range others {
		if !seen[text] {
			t.Errorf("%q is in no module; delete it here", text)
		}
	}
}

// The page is small: WC2.
func TestSize(t *testing.T) {
	all, packed := len(index)+len(unpack(script))+len(unpack(style)), len(index)+len(script)+len(style)
	if all > 160<<10 || packed > 40<<10 {
		t.Errorf("the page has %d bytes, %d packed; want %d and %d at most", all, packed, 160<<10, 40<<10)
	}
	t.Logf("%d bytes, %d packed", all, packed)
}

// A client that accepts gzip gets a packed file with an entity tag of its own. A browser
// may keep a file for ever, because the path changes with its contents. Only the HTML file
// is requested again: WC2.
func TestHandler(t *testing.T) {
	get := func(at, tag string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil), httptest.NewRecorder()
		r.Header.Set("If-None-Match", tag)
		Handler().ServeHTTP(w, r)
		return w
	}
	index := get("/", "")
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(index.Body.String(), -1)
	if len(links) != 2 {
		t.Fatalf("the page names %d files, want 2", len(links))
	}
	for _, link := range links {
		got := get("/"+link[1], "")
		if got.Code != http.StatusOK || got.Body.Len() == 0 || !strings.HasPrefix(link[1], "assets/") || !strings.Contains(got.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", link[1], got.Code, got.Header())
		}
		if again := get("/"+link[1], got.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s with its tag: %d", link[1], again.Code)
		}
	}
	if again := get("/", index.Header().Get("ETag")); again.Code != http.StatusNotModified || index.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("the page with its tag: %d %v", again.Code, index.Header())
	}
	for accept, want := range map[string]bool{"gzip, deflate, br": true, "GZIP": true, "br, gzip;q=0.5": true, "": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "xgzip": false, "identity": false} {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+links[0][1], nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", accept)
		Handler().ServeHTTP(w, r)
		text := w.Body.Bytes()
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != want || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: packed %v, want %v", accept, packed, want)
		} else if packed {
			in, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(in); err != nil {
				t.Fatal(err)
			}
		}
		plain := get("/"+links[0][1], "")
		if !bytes.Equal(text, plain.Body.Bytes()) || want == (plain.Header().Get("ETag") == w.Header().Get("ETag")) {
			t.Errorf("Accept-Encoding %q: another file, or the tag of the other form", accept)
		}
	}
	for _, at := range []string{"/assets/", "/assets/main.js", "/assets/../assets.go", "/assets/%2e%2e/assets.go", "/index.html", "/assets/x/main.js", "/packed/main.js.gz", "/page/main.js"} {
		if got := get(at, ""); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", at, got.Code)
		}
	}
}

// The page may load only its own files, no other page may show it in a frame, and no text
// becomes markup in it: WC5, WC6, WC-A21.
func TestContentSecurityPolicy(t *testing.T) {
	has := make(map[string]string)
	for one := range strings.SplitSeq(ContentSecurityPolicy, "; ") {
		name, value, _ := strings.Cut(one, " ")
		has[name] = value
	}
	want := map[string]string{
		"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "blob:", "connect-src": "'self'",
		"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
	}
	if !maps.Equal(has, want) {
		t.Errorf("got %q, want %q", has, want)
	}
}
