package browser_test

// vector is one way in which a page can make its browser request something.
//
// {URL} stands for an address of the target, {HOST} for its host, {WS} for its WebSocket
// scheme. Pages have a host of their own, and so have targets.
type vector struct {
	kind, name string
	html       string
	headers    []string          // headers of the page
	files      map[string]string // scripts next to the page, by name
	secure     bool              // whether https is used, and the door decrypts TLS
	bare       bool              // whether only a browser without walls supports it
	never      bool              // whether the headless shell never supports it; the whole browser may
	dns        bool              // whether a DNS question for the name counts as a hit
	flags      []string          // flags of the browser without walls
}

// framed reports whether the vector can be tried in a frame. Hints, navigations, and
// vectors that need a browser without walls or that no headless shell supports, have a page
// of their own.
func (v vector) framed() bool {
	return !v.bare && !v.never && v.kind != "hint" && v.kind != "navigation"
}

// inline returns a page that runs a script.
func inline(text string) string { return "<script>" + text + "</script>" }

// registered is a page that registers a service worker, and sends it a message once it is ready.
const registered = `<script>navigator.serviceWorker.register("sw.js").then(() => navigator.serviceWorker.ready).then(r => { r.active.postMessage("go"); document.title = "registered" })</script>`

var vectors = []vector{
	{kind: "subresource", name: "image", html: `<img src="{URL}">`},
	{kind: "subresource", name: "srcset", html: `<img srcset="{URL} 2x, {URL}?1 1x">`},
	{kind: "subresource", name: "script", html: `<script src="{URL}"></script>`},
	{kind: "subresource", name: "module", html: `<script type=module src="{URL}"></script>`},
	{kind: "subresource", name: "import()", html: inline(`import("{URL}").catch(() => {})`)},
	{kind: "subresource", name: "video", html: `<video src="{URL}" autoplay></video>`},
	{kind: "subresource", name: "poster", html: `<video poster="{URL}"></video>`},
	{kind: "subresource", name: "track", html: `<video crossorigin><track default kind=captions src="{URL}"></video>` + inline(`document.querySelector("track").track.mode = "showing"`)},
	{kind: "subresource", name: "audio", html: `<audio src="{URL}" autoplay></audio>`},
	{kind: "subresource", name: "SVG image", html: `<svg><image href="{URL}"/></svg>`},
	{kind: "subresource", name: "input", html: `<input type=image src="{URL}">`},
	{kind: "subresource", name: "frame", html: `<iframe src="{URL}"></iframe>`},
	{kind: "subresource", name: "frame of text", html: `<iframe srcdoc="<img src='{URL}'>"></iframe>`},
	{kind: "subresource", name: "frame of data", html: `<iframe src="data:text/html,<img src='{URL}'>"></iframe>`},
	{kind: "subresource", name: "frame of a blob", html: `<iframe id=f></iframe>` + inline(`f.src = URL.createObjectURL(new Blob(["<img src='{URL}'>"], {type: "text/html"}))`)},
	{kind: "subresource", name: "frame of javascript:", html: `<iframe src="javascript:'<img src={URL}>'"></iframe>`},

	{kind: "style", name: "style sheet", html: `<link rel=stylesheet href="{URL}">`},
	{kind: "style", name: "import", html: `<style>@import url("{URL}");</style>`},
	{kind: "style", name: "background", html: `<p style="background:url({URL})">x</p>`},
	{kind: "style", name: "font", html: `<style>@font-face{font-family:f;src:url({URL})} p{font-family:f}</style><p>x</p>`},
	{kind: "style", name: "FontFace", html: inline(`new FontFace("f", "url({URL})").load().catch(() => {})`)},

	{kind: "plug-in", name: "object", html: `<object data="{URL}"></object>`},
	{kind: "plug-in", name: "object, PDF", html: `<object type="application/pdf" data="{URL}.pdf"></object>`, never: true},
	{kind: "plug-in", name: "embed", html: `<embed src="{URL}">`},

	{kind: "hint", name: "preload", html: `<link rel=preload as=image href="{URL}">`},
	{kind: "hint", name: "module preload", html: `<link rel=modulepreload href="{URL}">`},
	{kind: "hint", name: "prefetch", html: `<link rel=prefetch href="{URL}">`},
	{kind: "hint", name: "preconnect", html: `<link rel=preconnect href="{URL}">`, never: true},
	{kind: "hint", name: "dns-prefetch", html: `<link rel=dns-prefetch href="{URL}">`, never: true, dns: true},
	{kind: "hint", name: "by header", html: `x`, headers: []string{"Link: <{URL}>; rel=preload; as=image"}},
	{kind: "hint", name: "prefetch by rules", html: `<script type=speculationrules>{"prefetch":[{"source":"list","urls":["{URL}"],"eagerness":"immediate"}]}</script>`, secure: true},
	{kind: "hint", name: "prerender by rules", html: `<script type=speculationrules>{"prerender":[{"source":"list","urls":["{URL}"],"eagerness":"immediate"}]}</script>`, secure: true},
	{kind: "hint", name: "icon", html: `<link rel=icon href="{URL}">`, never: true},
	{kind: "hint", name: "manifest", html: `<link rel=manifest href="{URL}">`, never: true},

	{kind: "script", name: "fetch", html: inline(`fetch("{URL}", {mode: "no-cors"}).catch(() => {})`)},
	{kind: "script", name: "fetch, kept alive", html: inline(`fetch("{URL}", {mode: "no-cors", keepalive: true}).catch(() => {})`)},
	{kind: "script", name: "fetchLater", html: inline(`fetchLater("{URL}", {activateAfter: 0})`), secure: true},
	{kind: "script", name: "XHR", html: inline(`const x = new XMLHttpRequest(); x.open("GET", "{URL}"); x.send()`)},
	{kind: "script", name: "XHR after load", html: inline(`onload = () => setTimeout(() => { const x = new XMLHttpRequest(); x.open("GET", "{URL}"); x.send() }, 30)`)},
	{kind: "script", name: "event source", html: inline(`new EventSource("{URL}")`)},
	{kind: "script", name: "form", html: `<form id=f action="{URL}" method=post target=i></form><iframe name=i></iframe>` + inline(`f.submit()`)},

	{kind: "beacon", name: "sendBeacon", html: inline(`navigator.sendBeacon("{URL}", "x")`)},
	{kind: "beacon", name: "sendBeacon at the end", html: inline(`onpagehide = () => navigator.sendBeacon("{URL}", "x"); location = "about:blank"`)},
	{kind: "beacon", name: "ping", html: `<a id=a href="#x" ping="{URL}">x</a>` + inline(`a.click()`)},
	{kind: "beacon", name: "report-uri", html: `<img src="/none.png">`, headers: []string{"Content-Security-Policy: img-src 'none'; report-uri {URL}"}},
	{
		kind: "beacon", name: "Reporting-Endpoints", html: `<img src="/none.png">`, secure: true, never: true,
		headers: []string{`Reporting-Endpoints: to="{URL}"`, "Content-Security-Policy: img-src 'none'; report-to to"},
	},
	{
		kind: "beacon", name: "network error logging", html: inline(`fetch("/none").catch(() => {})`), secure: true, never: true,
		headers: []string{`Report-To: {"group":"g","max_age":1000,"endpoints":[{"url":"{URL}"}]}`, `NEL: {"report_to":"g","max_age":1000,"success_fraction":1.0,"failure_fraction":1.0}`},
	},

	{kind: "web socket", name: "ws", html: inline(`new WebSocket("{WS}://{HOST}/hit/")`)},
	{kind: "web socket", name: "ws after load", html: inline(`onload = () => setTimeout(() => new WebSocket("{WS}://{HOST}/hit/"), 30)`)},
	{kind: "web socket", name: "wss", html: inline(`new WebSocket("{WS}://{HOST}/hit/")`), secure: true},
	{kind: "web socket", name: "in a worker", html: inline(`new Worker(URL.createObjectURL(new Blob(["new WebSocket('{WS}://{HOST}/hit/')"])))`)},
	{kind: "web socket", name: "WebSocketStream", html: inline(`new WebSocketStream("{WS}://{HOST}/hit/")`), bare: true, flags: []string{"--enable-blink-features=WebSocketStream"}},

	{kind: "WebRTC", name: "STUN", html: inline(`const p = new RTCPeerConnection({iceServers: [{urls: "stun:{HOST}:3478"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))`), bare: true},
	{kind: "WebRTC", name: "TURN by UDP", html: inline(`const p = new RTCPeerConnection({iceServers: [{urls: "turn:{HOST}:3478", username: "a", credential: "b"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))`), bare: true},
	{kind: "WebRTC", name: "TURN by TCP", html: inline(`const p = new RTCPeerConnection({iceServers: [{urls: "turn:{HOST}:3478?transport=tcp", username: "a", credential: "b"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))`)},
	{kind: "WebRTC", name: "TURN by TLS", html: inline(`const p = new RTCPeerConnection({iceServers: [{urls: "turns:{HOST}:443?transport=tcp", username: "a", credential: "b"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o))`)},
	{kind: "WebRTC", name: "a candidate", bare: true, flags: []string{"--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebRTC,WebRtcHideLocalIpsWithMdns"}, html: inline(`(async () => {
const a = new RTCPeerConnection(), b = new RTCPeerConnection(); a.createDataChannel("x");
await a.setLocalDescription(await a.createOffer()); await b.setRemoteDescription(a.localDescription);
await b.setLocalDescription(await b.createAnswer()); await a.setRemoteDescription(b.localDescription);
a.addIceCandidate({candidate: "candidate:1 1 udp 2122260223 {HOST} 3478 typ host", sdpMid: "0", sdpMLineIndex: 0});
})()`)},

	{kind: "QUIC", name: "WebTransport", html: inline(`new WebTransport("https://{HOST}/hit/").ready.catch(() => {})`), secure: true, bare: true},
	{kind: "QUIC", name: "Alt-Svc", html: inline(`setInterval(() => fetch("/again?" + Math.random()).catch(() => {}), 50)`), secure: true, bare: true, headers: []string{`Alt-Svc: h3="{HOST}:443"; ma=3600`}},

	{kind: "worker", name: "import of a worker", html: inline(`new Worker(URL.createObjectURL(new Blob(["importScripts('{URL}')"])))`)},
	{kind: "worker", name: "fetch of a worker", html: inline(`new Worker(URL.createObjectURL(new Blob(["fetch('{URL}', {mode: 'no-cors'})"])))`)},
	{kind: "worker", name: "fetch of a shared worker", html: inline(`new SharedWorker(URL.createObjectURL(new Blob(["fetch('{URL}', {mode: 'no-cors'})"])))`)},
	{kind: "worker", name: "audio worklet", html: inline(`new OfflineAudioContext(1, 128, 44100).audioWorklet.addModule("{URL}").catch(() => {})`), secure: true},
	{kind: "worker", name: "paint worklet", html: inline(`CSS.paintWorklet.addModule("{URL}").catch(() => {})`), secure: true},

	{kind: "service worker", name: "as it is read", html: registered, secure: true, files: map[string]string{"sw.js": `fetch("{URL}", {mode: "no-cors"}).catch(() => {})`}},
	{kind: "service worker", name: "importScripts", html: registered, secure: true, files: map[string]string{"sw.js": `try { importScripts("{URL}") } catch {}`}},
	{kind: "service worker", name: "install", html: registered, secure: true, files: map[string]string{"sw.js": `oninstall = e => e.waitUntil(fetch("{URL}", {mode: "no-cors"}).catch(() => {}))`}},
	{kind: "service worker", name: "activate", html: registered, secure: true, files: map[string]string{"sw.js": `onactivate = e => e.waitUntil(fetch("{URL}", {mode: "no-cors"}).catch(() => {}))`}},
	{kind: "service worker", name: "message", html: registered, secure: true, files: map[string]string{"sw.js": `onmessage = e => e.waitUntil(fetch("{URL}", {mode: "no-cors"}).catch(() => {}))`}},
	{kind: "service worker", name: "fetch", html: registered + inline(`navigator.serviceWorker.oncontrollerchange = () => fetch("asked")`), secure: true, files: map[string]string{
		"sw.js": `onactivate = e => e.waitUntil(clients.claim()); onfetch = e => e.respondWith(fetch("{URL}", {mode: "no-cors"}))`,
	}},
	{kind: "service worker", name: "web socket", html: registered, secure: true, files: map[string]string{"sw.js": `new WebSocket("{WS}://{HOST}/hit/")`}},
	{kind: "service worker", name: "cache.add", html: registered, secure: true, files: map[string]string{"sw.js": `oninstall = e => e.waitUntil(caches.open("c").then(c => c.add(new Request("{URL}", {mode: "no-cors"}))).catch(() => {}))`}},
	{
		kind: "service worker", name: "background sync", html: inline(`navigator.serviceWorker.register("sw.js").then(() => navigator.serviceWorker.ready).then(r => r.sync.register("x"))`), secure: true, never: true,
		files: map[string]string{"sw.js": `onsync = e => e.waitUntil(fetch("{URL}", {mode: "no-cors"}).catch(() => {}))`},
	},
	{
		kind: "service worker", name: "background fetch", html: inline(`navigator.serviceWorker.register("sw.js").then(() => navigator.serviceWorker.ready).then(r => r.backgroundFetch.fetch("x", ["{URL}"]))`), secure: true, never: true,
		files: map[string]string{"sw.js": `onfetch = () => {}`},
	},

	{kind: "navigation", name: "refresh", html: `<meta http-equiv=refresh content="0;url={URL}">`},
	{kind: "navigation", name: "refresh by header", html: `x`, headers: []string{"Refresh: 0;url={URL}"}},
	{kind: "navigation", name: "location", html: inline(`location = "{URL}"`)},
	{kind: "navigation", name: "pop-up", html: inline(`window.open("{URL}")`), bare: true, flags: []string{"--disable-popup-blocking"}},
	{kind: "navigation", name: "download", html: `<a id=a href="{URL}" download>x</a>` + inline(`a.click()`)},
	{kind: "navigation", name: "payment", html: inline(`new PaymentRequest([{supportedMethods: "{URL}"}], {total: {label: "x", amount: {currency: "EUR", value: "1"}}}).canMakePayment().catch(() => {})`), secure: true, never: true},

	{kind: "neighbour's debugging port", name: "fetch", html: inline(`fetch("http://{HOST}:9222/json/version", {mode: "no-cors"}).catch(() => {})`)},
	{kind: "neighbour's debugging port", name: "web socket", html: inline(`new WebSocket("ws://{HOST}:9222/devtools/browser/0")`)},
	{kind: "neighbour's debugging port", name: "frame", html: `<iframe src="http://{HOST}:9222/json/new?file:///etc/passwd"></iframe>`},
}
