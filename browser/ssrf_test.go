package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// canary is a server of this machine that no page may reach, by TCP or UDP.
type canary struct {
	port int
	mu   sync.Mutex
	hits []string
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.port = tcp.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // asked for
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.port})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			c.hit("tcp")
			conn.Close()
		}
	})
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			if _, _, err := udp.ReadFrom(buf); err != nil {
				return
			}
			c.hit("udp")
		}
	})
	t.Cleanup(func() {
		tcp.Close()
		udp.Close()
		wg.Wait()
	})
	return c
}

func (c *canary) hit(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits = append(c.hits, how)
}

func (c *canary) check(t *testing.T, what string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.hits) > 0 {
		t.Errorf("%s reached the canary: %v", what, c.hits)
		c.hits = nil
	}
}

// Addresses of this machine and of its networks, in the spellings that browsers
// take, are reached by no page.
func TestNoPrivateAddress(t *testing.T) {
	r := newRig(t, browser.Config{})
	c := newCanary(t)
	r.page("/plain", "<!doctype html><p>plain")
	r.must(browser.Request{URL: r.url("/plain")})
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.1",
		"[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "0.0.0.0", "0", "[::]", "127.255.255.254",
		"１２７.０.０.１", "127。0。0。1", "ⓛocalhost", "private.example", "ten.example", "sub.localhost", "host.belljar.internal",
		"169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]", "100.100.100.200", "10.0.0.1", "192.168.0.1", "172.16.0.1", "[fe80::1]", "[fc00::1]", "198.19.255.254",
	} {
		target := fmt.Sprintf("http://%s:%d/", host, c.port)
		if l, err := r.load(browser.Request{URL: target, Timeout: 8 * time.Second}); err == nil {
			t.Errorf("%s: a page: %d %s", target, l.Status, l.HTML)
		}
		c.check(t, target)
		r.mux.HandleFunc("/to/"+fmt.Sprintf("%x", host), func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, target, http.StatusFound) })
		if l, err := r.load(browser.Request{URL: r.url("/to/" + fmt.Sprintf("%x", host)), Timeout: 8 * time.Second}); err == nil {
			t.Errorf("redirect to %s: a page: %d %s", target, l.Status, l.HTML)
		}
		c.check(t, "a redirect to "+target)
	}
}

// vectors are what a page can make requests with; URL stands for where to, and
// HOST for its host and port. Control says that such a request is seen at a
// server that may be reached: what never works shows nothing.
var vectors = []struct {
	name, html string
	control    bool
}{
	{"image", `<img src="URL">`, true},
	{"srcset", `<img srcset="URL 2x, URL?1 1x">`, true},
	{"script", `<script src="URL"></script>`, true},
	{"module", `<script type=module src="URL"></script>`, true},
	{"style sheet", `<link rel=stylesheet href="URL">`, true},
	{"import", `<style>@import url("URL");</style>`, true},
	{"background", `<p style="background:url(URL)">x</p>`, true},
	{"font", `<style>@font-face{font-family:f;src:url(URL)} p{font-family:f}</style><p>x</p>`, true},
	{"frame", `<iframe src="URL"></iframe>`, true},
	{"frame of text", `<iframe srcdoc="<img src='URL'>"></iframe>`, true},
	{"frame of data", `<iframe src="data:text/html,<img src='URL'>"></iframe>`, true},
	{"object", `<object data="URL"></object>`, true},
	{"embed", `<embed src="URL">`, true},
	{"video", `<video src="URL" autoplay></video>`, true},
	{"poster", `<video poster="URL"></video>`, true},
	{"track", `<video src="data:video/mp4,"><track default src="URL"></video>`, false},
	{"audio", `<audio src="URL" autoplay></audio>`, true},
	{"SVG image", `<svg><image href="URL"/></svg>`, true},
	{"SVG use", `<svg><use href="URL#a"/></svg>`, false},
	{"input", `<input type=image src="URL">`, true},
	{"icon", `<link rel=icon href="URL">`, false},
	{"manifest", `<link rel=manifest href="URL">`, false},
	{"preload", `<link rel=preload as=image href="URL">`, true},
	{"module preload", `<link rel=modulepreload href="URL">`, true},
	{"prefetch", `<link rel=prefetch href="URL">`, true},
	{"preconnect", `<link rel=preconnect href="http://HOST">`, false},
	{"DNS prefetch", `<link rel=dns-prefetch href="http://HOST">`, false},
	{"speculation", `<script type=speculationrules>{"prerender":[{"source":"list","urls":["URL"]}],"prefetch":[{"source":"list","urls":["URL"]}]}</script>`, false},
	{"fetch", `<script>fetch("URL", {mode: "no-cors"}).catch(() => {})</script>`, true},
	{"fetch, kept alive", `<script>fetch("URL", {mode: "no-cors", keepalive: true}).catch(() => {})</script>`, true},
	{"XHR", `<script>const x = new XMLHttpRequest(); x.open("GET", "URL"); x.send()</script>`, true},
	{"beacon", `<script>navigator.sendBeacon("URL", "x")</script>`, true},
	{"events", `<script>new EventSource("URL")</script>`, true},
	{"web socket", `<script>new WebSocket("ws://HOST/w")</script>`, true},
	{"web socket, TLS", `<script>new WebSocket("wss://HOST/w")</script>`, false},
	{"web transport", `<script>try { new WebTransport("https://HOST/t") } catch {}</script>`, false},
	{"STUN", `<script>const p = new RTCPeerConnection({iceServers: [{urls: "stun:HOST"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))</script>`, false},
	{"TURN", `<script>const p = new RTCPeerConnection({iceServers: [{urls: ["turn:HOST", "turn:HOST?transport=tcp"], username: "a", credential: "b"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))</script>`, false},
	{"worker", `<script>new Worker(URL.createObjectURL(new Blob(["importScripts('ADDR')"])))</script>`, true},
	{"worker's fetch", `<script>new Worker(URL.createObjectURL(new Blob(["fetch('ADDR', {mode: 'no-cors'})"])))</script>`, true},
	{"shared worker", `<script>new SharedWorker(URL.createObjectURL(new Blob(["fetch('ADDR', {mode: 'no-cors'})"])))</script>`, true},
	{"form", `<form id=f action="URL" method=post target=i></form><iframe name=i></iframe><script>f.submit()</script>`, true},
	{"ping", `<a id=a href="#x" ping="URL">x</a><script>a.click()</script>`, true},
	{"pop-up", `<script>window.open("URL")</script>`, false},
	{"download", `<a id=a href="URL" download>x</a><script>a.click()</script>`, false},
	{"refresh", `<meta http-equiv=refresh content="0;url=URL">`, true},
	{"location", `<script>location = "URL"</script>`, true},
	{"payment", `<script>try { new PaymentRequest([{supportedMethods: "URL"}], {total: {label: "x", amount: {currency: "EUR", value: "1"}}}).canMakePayment().catch(() => {}) } catch {}</script>`, false},
	{"import()", `<script>import("URL").catch(() => {})</script>`, true},
	{"CSP report", `<meta http-equiv=Content-Security-Policy content="img-src 'none'"><img src="URL">`, false},
	{"file frame", `<iframe src="file:///etc/passwd"></iframe>`, false},
	{"file fetch", `<script>fetch("file:///etc/passwd").then(r => r.text()).then(x => document.body.append(x)).catch(() => {})</script>`, false},
	{"chrome frame", `<iframe src="chrome://version"></iframe>`, false},
	{"view-source frame", `<iframe src="view-source:file:///etc/passwd"></iframe>`, false},
	{"neighbour's debugging port", `<script>fetch("http://127.0.0.1:9222/json/version", {mode: "no-cors"}).catch(() => {}); new WebSocket("ws://127.0.0.1:9222/devtools/browser")</script>`, false},
}

func TestNoPrivateRequest(t *testing.T) {
	r := newRig(t, browser.Config{})
	c := newCanary(t)
	var mu sync.Mutex
	seen := map[string]int{}
	r.mux.HandleFunc("/seen/", func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		seen[strings.TrimSuffix(strings.TrimPrefix(q.URL.Path, "/seen/"), "/w")]++
		mu.Unlock()
		w.Header().Set("Access-Control-Allow-Origin", "*")
	})
	for i, v := range vectors {
		path, id := fmt.Sprintf("/v/%d", i), fmt.Sprint(i)
		fill := func(host, url string) string {
			// The variable URL of a page is not the mark, and ws URLs keep the path.
			s := strings.ReplaceAll(v.html, "URL.createObjectURL", "\x00")
			s = strings.NewReplacer("HOST/w", host+"/seen/"+id+"/w", "HOST", host, "URL", url, "ADDR", url).Replace(s)
			return strings.ReplaceAll(s, "\x00", "URL.createObjectURL")
		}
		private := fmt.Sprintf("127.0.0.1:%d", c.port)
		r.page(path, "<!doctype html><title>t</title>"+fill(private, "http://"+private+"/x"))
		public := fmt.Sprintf("cdn.example:%d", r.port)
		r.page(path+"/control", "<!doctype html><title>t</title>"+fill(public, "http://"+public+"/seen/"+id))
		var control sync.WaitGroup
		control.Go(func() {
			_, _ = r.load(browser.Request{URL: r.url(path + "/control"), Wait: 150 * time.Millisecond, Timeout: 8 * time.Second})
		})
		l, err := r.load(browser.Request{URL: r.url(path), Wait: 150 * time.Millisecond, Timeout: 8 * time.Second})
		control.Wait()
		if err == nil && strings.Contains(l.HTML, "root:") {
			t.Errorf("%s: it read a file: %s", v.name, l.HTML)
		}
		c.check(t, v.name)
		mu.Lock()
		if n := seen[id]; v.control && n == 0 {
			t.Errorf("%s: it reached nothing where it may, so it shows nothing", v.name)
		}
		mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.records {
		if e.Allowed && !strings.HasSuffix(e.Host.String(), ".example") {
			t.Errorf("the door let through %+v", e)
		}
	}
	t.Logf("%d ways, %d of which reach what they may", len(vectors), len(seen))
}

// A service worker asks the door too, and is gone with its call.
func TestServiceWorker(t *testing.T) {
	r := newRig(t, browser.Config{})
	c := newCanary(t)
	// They are for secure contexts only, so for names below localhost.
	r.mux.HandleFunc("/sw.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(w, `fetch("http://127.0.0.1:%d/", {mode: "no-cors"}); onfetch = e => e.respondWith(new Response("from the worker"))`, c.port)
	})
	r.page("/sw", `<!doctype html><p id=p>none<script>navigator.serviceWorker?.register("/sw.js").then(() => p.textContent = "registered").catch(e => p.textContent = e)</script>`)
	for range 2 {
		l := r.must(browser.Request{URL: r.url("/sw"), Wait: 300 * time.Millisecond})
		if strings.Contains(l.HTML, "from the worker") {
			t.Errorf("a worker of the call before answered: %s", l.HTML)
		}
	}
	c.check(t, "a service worker")
}

// A name is judged by the address that is dialled, not by one of before.
func TestRebinding(t *testing.T) {
	r := newRig(t, browser.Config{})
	c := newCanary(t)
	g := r.grantWith("rebind", "")
	_ = g
	for range 3 {
		if l, err := r.load(browser.Request{URL: fmt.Sprintf("http://site.example:%d/", c.port), Timeout: 5 * time.Second}); err == nil {
			t.Errorf("another port of an allowed name: %+v", l)
		}
	}
	c.check(t, "another port of an allowed name")
}

// What a page leaves behind is seen by no later call, of its tenant or another,
// and the box holds nothing of the host.
func TestIsolation(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/set", `<!doctype html><p id=p>set<script>document.cookie = "a=secret; max-age=1000"; localStorage.a = "secret"; indexedDB.open("secret"); caches?.open("secret");</script>`)
	r.page("/get", `<!doctype html><p id=p><script>p.textContent = "[" + document.cookie + "|" + localStorage.a + "]"; indexedDB.databases().then(d => p.append(" " + d.length))</script>`)
	for _, tenant := range []string{"a", "a", "b"} {
		g := r.grant(tenant)
		l, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/get")})
		if err != nil || !strings.Contains(l.HTML, "[|undefined] 0") {
			t.Errorf("%s: %+v %v", tenant, l, err)
		}
		if _, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/set")}); err != nil {
			t.Error(err)
		}
	}
	boxes := r.sup.Boxes()
	if len(boxes) != 2 {
		t.Errorf("%d boxes for two tenants", len(boxes))
	}
	for _, b := range boxes {
		if g := b.Grant(); g.Workspace() != policies.AccessNone || len(g.Mounts()) > 0 {
			t.Errorf("box %s: %+v", b.ID(), g)
		}
		res, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Timeout: 10 * time.Second, Shell: `ls -d /workspace /root /home/* /etc/shadow 2>&1 | grep -v 'No such' ; id -u
for p in /proc/[0-9]*; do readlink $p/exe; done | grep -v -e chromium -e bash -e coreutils ; echo | grep -c ' 0A ' /proc/net/tcp /proc/net/tcp6; ls /tmp/profile/DevToolsActivePort 2>&1 | grep -v 'No such'; true`})
		if err != nil {
			t.Fatal(err)
		}
		cut, err := res.Output.Cut(4 << 10)
		if err != nil {
			t.Fatal(err)
		}
		// Its home, its own user, no other processes, and the door's listeners.
		t.Logf("%s", cut.Text)
		if lines := strings.Fields(string(cut.Text)); len(lines) < 2 || len(lines) > 5 || lines[0] != "/home/agent" || lines[1] != "1000" {
			t.Errorf("it sees %q", cut.Text)
		}
	}
}
