package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// canary is the secret that no answer, log or file may contain.
const canary = "canary-41d7-of-the-shop"

// shop is a site with a login, an order and an invoice. It notes the requests that it gets.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	const page = "<!doctype html><title>Shop</title><h1>Shop</h1>"
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.sent = append(s.sent, r.URL.Path+" "+r.PostFormValue("user")+" "+r.PostFormValue("pw")+" "+r.PostFormValue("item"))
		s.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch r.URL.Path {
	case "/login":
		fmt.Fprint(w, page, "<p>Hello, ", r.PostFormValue("user"), "<form method=post action=/order><input type=hidden name=item value=jar><button>Order</button></form>")
	case "/order":
		fmt.Fprint(w, page, "<p>Thank you.<a href=/invoice.txt>Invoice</a>")
	case "/invoice.txt":
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Disposition", `attachment; filename="invoice.txt"`)
		fmt.Fprint(w, "one bell jar")
	default:
		fmt.Fprint(w, page, "<form method=post action=/login><label>User <input name=user></label><label>Password <input name=pw type=password></label><button>Log in</button></form>")
	}
}

// heard returns the requests that the shop got.
func (s *shop) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, "\n")
}

// refTo returns the number of a control that a look shows.
func refTo(t *testing.T, look, words string) int {
	t.Helper()
	m := regexp.MustCompile(`\[(\d+)\] ` + regexp.QuoteMeta(words)).FindStringSubmatch(look)
	if m == nil {
		t.Fatalf("no control %s in\n%s", words, look)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TestAgentsUseABrowser checks that an agent logs in with a secret that it does not see,
// orders, and saves the invoice. A person approves the secret and both forms, and is asked
// nothing else.
func TestAgentsUseABrowser(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Chromium)
	site := newShop(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
	origin := "http://host.belljar.internal:" + port
	p := newPlace(t)
	p.env = append(p.env, "SHOP_PW="+canary)
	p.policy = p.file(t, "policy.yaml", fmt.Sprintf(`version: 1
secrets: {shop-pw: {env: SHOP_PW}}
audit: {level: full}
defaults: {decision: deny, profile: shop}
profiles:
  shop:
    fs: {system: true, workspace: rw}
    net: {mode: proxy, allow_private: ["host.belljar.internal:%s"]}
    browser: {walls: sandboxed, act: true, secrets: [{secret: shop-pw, origin: %q, field: password}]}
rules:
  - {id: look, match: {tool: BrowserLook}, decision: allow}
  - {id: move, match: {act: [navigate, follow, point, type, press, download]}, decision: allow}
  - {id: forms, match: {act: [submit, secret]}, decision: ask}
  - {id: keep, match: {act: save, path: "/workspace/downloads/**"}, decision: allow}
`, port, origin))
	if err := os.Mkdir(filepath.Join(p.ws, "downloads"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := p.start(t, wires[0])
	c := s.connect(t, wires[0], nil)
	asked := approves(t, p)

	use := func(steps ...map[string]any) string {
		t.Helper()
		return c.all(t, "Browser", map[string]any{"steps": steps, "then": "page"})
	}
	all := []string{use(map[string]any{"do": "open", "url": origin + "/"})}
	look := all[0]
	all = append(all, use(
		map[string]any{"do": "fill", "ref": refTo(t, look, `text "User"`), "text": "ada"},
		map[string]any{"do": "fill", "ref": refTo(t, look, `password "Password"`), "secret": "shop-pw"},
		map[string]any{"do": "click", "ref": refTo(t, look, `button "Log in"`)},
	))
	order := map[string]any{"do": "click", "ref": refTo(t, all[1], `button "Order"`)}
	watchesAndStops(t, p, func() string { return use(order) })
	all = append(all, use(order))
	all = append(all, use(map[string]any{"do": "click", "ref": refTo(t, all[2], `link "Invoice"`)}))
	name := regexp.MustCompile(`\bd\d+\b`).FindString(all[3])
	outside := use(map[string]any{"do": "save", "download": name, "path": "/workspace/invoice.txt"})
	if !strings.Contains(outside, "DENIED by policy") {
		t.Errorf("a save beside the rule: %s", outside)
	}
	all = append(all, outside, use(map[string]any{"do": "save", "download": name, "path": "/workspace/downloads/invoice.txt"}))

	if got, want := site.heard(), "/login ada "+canary+" \n/order   jar"; got != want {
		t.Errorf("the shop was sent %q, want %q", got, want)
	}
	if got, err := os.ReadFile(filepath.Join(p.ws, "downloads", "invoice.txt")); err != nil || string(got) != "one bell jar" {
		t.Errorf("saved %q, %v\n%s", got, err, strings.Join(all, "\n"))
	}
	for _, text := range all {
		if strings.Contains(text, canary) {
			t.Errorf("the agent was shown the secret:\n%s", text)
		}
	}
	s.stop()
	if n := asked(); n != 3 {
		t.Errorf("the person was asked %d times, want 3: the secret, the login, the order", n)
	}
	if strings.Contains(s.stderr.String(), canary) {
		t.Error("the server's log has the secret")
	}
	recorded(t, p)
	_ = filepath.WalkDir(p.dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if text, err := io.ReadAll(f); err != nil || strings.Contains(string(text), canary) {
			t.Errorf("%s has the secret, or cannot be read: %v", file, err)
		}
		return nil
	})
}

// recorded makes pages of the recorded steps that a place's agent has taken in a browser
// (BR41).
func recorded(t *testing.T, p *place) {
	t.Helper()
	reels, err := filepath.Glob(filepath.Join(p.dir, "*", "audit", "casts", "*.reel"))
	if err != nil || len(reels) == 0 {
		t.Fatalf("no call of the browser is recorded: %v", err)
	}
	var all strings.Builder
	for _, file := range reels {
		page := filepath.Join(p.dir, "steps.html")
		if out, err := p.run(t, "audit", "reel", strings.TrimSuffix(filepath.Base(file), ".reel"), "--to", page); err != nil || !strings.Contains(out, "steps") || strings.Contains(out, "shop") {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(text), "default-src 'none'") || strings.Contains(string(text), "<script") {
			t.Errorf("%v: the page of %s is\n%.500s", err, file, text)
		}
		all.Write(text)
	}
	for _, want := range []string{"<h2>navigate", "<h2>secret shop-pw into a field of type password", "<h2>submit on", "<h2>save", "data:image/jpeg;base64,"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no step has %s", want)
		}
	}
}

// approves answers each approval of a place with yes until the returned function is called,
// which returns how many there were.
func approves(t *testing.T, p *place) (asked func() int) {
	t.Helper()
	ids := regexp.MustCompile(`ap-[a-z0-9]{8}`)
	said := make(map[string]bool)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		testenv.Until(time.Minute*testenv.Patience(t), func() bool {
			list, _ := p.run(t, "approve", "list")
			for _, id := range ids.FindAllString(list, -1) {
				if !said[id] {
					said[id] = true
					if out, err := p.run(t, "approve", "yes", id); err != nil {
						t.Errorf("approve yes %s: %v: %s", id, err, out)
					}
				}
			}
			select {
			case <-over:
				return true
			default:
				return false
			}
		})
	}()
	end := sync.OnceFunc(func() {
		close(over)
		<-ended
	})
	t.Cleanup(end)
	return func() int {
		end()
		return len(said)
	}
}
