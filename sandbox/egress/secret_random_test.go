package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// TestRandomSecretDoesNotComeBack has a server repeat a secret in random ways: a random
// value, escaped by a random chain, at a random place of the answer, in a random coding, in
// random pieces, to a request with random tricks. Without a door in between, the same
// server must reveal the secret.
func TestRandomSecretDoesNotComeBack(t *testing.T) {
	cases, r := testenv.Cases(t, 60)
	seed := r.Uint64()
	leaks := 0
	for i := range cases {
		if t.Failed() && leaks > 3 {
			break
		}
		e := newEcho(rand.New(rand.NewPCG(seed, uint64(i))))
		port := e.serve(t)
		direct := e.ask(t, func() net.Conn {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}, at(site, port), "Authorization: Bearer "+e.value)
		if !e.leaks(direct) {
			t.Fatalf("case %d, %s: nothing to hide in %q", i, e, direct)
		}
		s := serve(t, port, func(cfg *Config) {
			cfg.Egress.Secrets = []policies.SecretHeader{{Secret: "s", Host: site, Paths: []string{"/api"}, Header: "Authorization", Value: "Bearer ${secret:s}"}}
			cfg.Secret = func(context.Context, string) (string, error) { return e.value, nil }
		})
		if got := e.ask(t, func() net.Conn { return s.site(t) }, at(site, port), "Authorization: mine"); e.leaks(got) {
			t.Errorf("case %d, %s: it came back in %q", i, e, got)
			leaks++
		}
		s.d.Close()
		for _, r := range s.records.list() {
			if e.leaks([]byte(fmt.Sprintf("%+v", r))) {
				t.Errorf("case %d, %s: it is on record: %+v", i, e, r)
			}
		}
	}
	t.Logf("%d of %d came through", leaks, cases)
}

// hostileEcho is one random case.
type hostileEcho struct {
	rand    *rand.Rand
	value   string
	chain   []string
	text    string // what the server sends in place of the value
	whole   string // text with what surrounds it
	place   string
	coding  string
	framing string
	trick   string
	stored  bool // whether a second request, without the secret, gets the answer
}

func (e *hostileEcho) String() string {
	return fmt.Sprintf("value %q as %v %q in %s, coding %q, %s, trick %q, stored %v", e.value, e.chain, e.text, e.place, e.coding, e.framing, e.trick, e.stored)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func newEcho(r *rand.Rand) *hostileEcho {
	e := &hostileEcho{rand: r}
	alphabet := []rune("abcXYZ0189" + pick(r, "", "/+=", `/+=&<>"'\%`, `_-.~!@#$^*()[]{}|;:,?`, " ", "ßÿ"))
	n := 8 + r.IntN(40)
	runes := make([]rune, n)
	for i := range runes {
		runes[i] = alphabet[r.IntN(len(alphabet))]
	}
	runes[0], runes[n-1] = 'k', 'Z'
	e.value, e.text = string(runes), string(runes)
	for range r.IntN(3) {
		e.transform()
	}
	e.place = pick(r, "body", "body", "body", "header", "name", "trailer", "reason", "early", "status", "extension")
	e.framing = pick(r, "length", "chunked", "close")
	switch e.place {
	case "trailer", "extension":
		e.framing = "chunked"
	case "name":
		if !isTokens(e.text) {
			e.place = "header"
		}
	}
	if strings.ContainsAny(e.text, "\r\n\x00") {
		e.place = "body"
	}
	if e.place == "body" {
		e.coding = pick(r, "", "", "identity", "identity, identity", "utf-8", "gzip", "X-GZIP", "br", "gzip, gzip", "aws-chunked", "none", ",identity,")
		e.trick = pick(r, "", "", "Range", "If-Range", "request_range", "X-Part", "multipart", "Want-Digest", "A-IM", "Accept-Encoding")
	}
	if strings.Contains(strings.ToLower(e.coding), "gzip") { // the place of a part in a compressed answer is not known
		e.trick = pick(r, "", "Want-Digest", "A-IM")
	}
	e.stored = r.IntN(4) == 0
	e.whole = pick(r, "", "{\"a\":\"", "you sent: ", strings.Repeat("x", 40_000)) + e.text + pick(r, "", "\"}", ".", "\n")
	if e.place != "body" {
		e.whole = e.text
	}
	return e
}

// transform encodes the text in one more random way.
func (e *hostileEcho) transform() {
	r := e.rand
	if len(e.chain) > 0 && e.chain[0] == "utf16" || !utf8.ValidString(e.text) {
		return // a further encoding would lose a part of it
	}
	step := pick(r, "json", "php", "ascii", "percent", "form", "path", "html", "entities", "c", "octal", "quoted", "some", "case", "base64", "hex", "utf16")
	if len(e.chain) > 0 && (e.chain[0] == "base64" || e.chain[0] == "hex" || step == "hex" || step == "utf16" || step == "case") {
		step = "some" // text in base64 or hex gets only ordinary escapes
	}
	if step == "base64" && len(e.chain) > 0 && e.chain[0] != "json" && e.chain[0] != "path" && e.chain[0] != "form" {
		step = "percent"
	}
	e.chain = append(e.chain, step)
	each := func(share int, f func(c byte) string) {
		var b strings.Builder
		for i := range len(e.text) {
			if c := e.text[i]; r.IntN(100) < share {
				b.WriteString(f(c))
			} else {
				b.WriteByte(c)
			}
		}
		e.text = b.String()
	}
	soft, soft2, long, zeroes := "=\r\n", "=\n", `\U%08x`, "&#%04d;"
	if len(e.chain) > 1 { // no character longer than maxReading, and no broken escape
		soft, soft2, long, zeroes = "", "", `\u%04x`, "&#%d;"
	}
	marshal := func() string {
		b, _ := json.Marshal(e.text)
		return inQuotes(string(b))
	}
	switch step {
	case "json":
		e.text = marshal()
	case "php":
		e.text = strings.ReplaceAll(marshal(), "/", `\/`)
	case "ascii":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf(pick(r, `\u%04x`, `\u%04X`, `\u{%x}`, long), c) })
	case "percent":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf(pick(r, "%%%02x", "%%%02X"), c) })
	case "form":
		e.text = url.QueryEscape(e.text)
	case "path":
		e.text = url.PathEscape(e.text)
	case "html":
		e.text = html.EscapeString(e.text)
	case "entities":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf(pick(r, "&#%d;", "&#x%x;", "&#x%X;", zeroes), c) })
	case "c":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf(pick(r, `\x%02x`, `\x%02X`), c) })
	case "octal":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf(`\%03o`, c) })
	case "quoted":
		each(pick(r, 20, 100), func(c byte) string { return fmt.Sprintf("=%02X", c) + pick(r, "", "", soft, soft2) })
	case "some": // escapes of all kinds
		each(30, func(c byte) string {
			return fmt.Sprintf(pick(r, `\u%04x`, "%%%02X", "&#%d;", "&#x%x;", `\x%02x`, "=%02X", "%%u%04x"), c)
		})
	case "case":
		e.text = lower(e.text)
	case "base64":
		enc := pick(r, base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding)
		e.text = enc.EncodeToString([]byte(strings.Repeat("u", r.IntN(4)) + e.text + pick(r, "", ":", ":x")))
		if r.IntN(3) == 0 {
			e.text = strings.Join(cut(r, e.text, 20), "\r\n")
		}
	case "hex":
		e.text = fmt.Sprintf(pick(r, "%x", "%X", "% x"), e.text)
	case "utf16":
		var b []byte
		big := r.IntN(2)
		for _, u := range utf16.Encode([]rune(e.text)) {
			pair := [2]byte{byte(u), byte(u >> 8)}
			b = append(b, pair[big], pair[1-big])
		}
		e.text = string(b)
	}
}

// cut splits a text at random places; most is the largest number of bytes of a piece.
func cut(r *rand.Rand, s string, most int) []string {
	var all []string
	for s != "" {
		n := min(1+r.IntN(most), len(s))
		all, s = append(all, s[:n]), s[n:]
	}
	return all
}

// serve starts a server that answers with the value once it was sent as Authorization, and
// returns its port.
func (e *hostileEcho) serve(t *testing.T) uint16 {
	said := false
	return server(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			said = said || strings.HasSuffix(r.Header.Get("Authorization"), e.value)
			if !said || e.stored && r.URL.Path == "/api" {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			for _, piece := range cut(e.rand, e.answer(r), pick(e.rand, 7, 900, 50_000)) {
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
			}
			return
		}
	})
}

// answer returns the whole answer, after which the connection is closed.
func (e *hostileEcho) answer(r *http.Request) string {
	status, body, more := "200 OK", e.whole, ""
	if e.place != "body" {
		body = "nothing"
	}
	if e.coding != "" {
		more += "Content-Encoding: " + e.coding + "\r\n"
	}
	if strings.Contains(strings.ToLower(e.coding), "gzip") || e.trick == "Accept-Encoding" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, body)
		z.Close()
		if body = b.String(); e.coding == "" {
			more += "Content-Encoding: gzip\r\n"
		}
	}
	part := ""
	for _, name := range []string{"Range", "Request_range", "X-Part"} {
		if v := r.Header.Get(name); v != "" {
			part = v
		}
	}
	var from, to int
	if _, err := fmt.Sscanf(part, "bytes=%d-%d", &from, &to); err == nil {
		status = "206 Partial Content"
		more += fmt.Sprintf("Content-Range: bytes %d-%d/%d\r\n", from, to, len(body))
		body = body[min(from, len(body)):min(to+1, len(body))]
		if e.trick == "multipart" {
			status = "200 OK"
			more = "Content-Type: multipart/byteranges; boundary=x\r\n"
		}
	}
	if r.Header.Get("A-Im") != "" {
		status = "226 IM Used"
	}
	switch e.place {
	case "header":
		more += pick(e.rand, "Location", "Set-Cookie", "Link", "X-Echo") + ": a=" + e.text + "\r\n"
	case "name":
		more += "X-" + e.text + ": 1\r\n"
	case "reason":
		status = "200 " + e.text
	case "status":
		status = e.text
	case "early":
		status = "103 Early Hints\r\nLink: <" + e.text + ">\r\n\r\nHTTP/1.1 200 OK"
	}
	head := "HTTP/1.1 " + status + "\r\n" + more
	switch e.framing {
	case "length":
		return head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
	case "close":
		return head + "Connection: close\r\n\r\n" + body
	}
	var b strings.Builder
	b.WriteString(head + "Transfer-Encoding: chunked\r\nTrailer: X-Last\r\n\r\n")
	for _, piece := range cut(e.rand, body, pick(e.rand, 5, 5000)) {
		extension := ""
		if e.place == "extension" {
			extension = ";a=" + e.text
		}
		fmt.Fprintf(&b, "%x%s\r\n%s\r\n", len(piece), extension, piece)
	}
	b.WriteString("0\r\n")
	if e.place == "trailer" {
		b.WriteString("X-Last: " + e.text + "\r\n")
	}
	return b.String() + "\r\n"
}

// ask returns all that a client receives for its requests, as it arrives and decoded, with
// the parts of a text joined.
func (e *hostileEcho) ask(t *testing.T, dial func() net.Conn, host, auth string) []byte {
	t.Helper()
	path := "/api"
	if e.stored {
		c := dial()
		fmt.Fprintf(c, "GET /api HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", host, auth)
		http.ReadResponse(bufio.NewReader(c), nil)
		c.Close()
		path = "/public"
	}
	var ranges []string
	switch e.trick {
	case "Range", "request_range", "X-Part", "multipart", "If-Range":
		name := e.trick
		if name == "multipart" || name == "If-Range" {
			name = "Range"
		}
		step := max(len(e.text)/4, 1)
		for from := max(strings.Index(e.whole, e.text), 0); from < len(e.whole); from += step {
			ranges = append(ranges, fmt.Sprintf("%s: bytes=%d-%d\r\nIf-Range: \"x\"\r\n", name, from, from+step-1))
			if len(ranges) > 5 {
				break
			}
		}
	case "A-IM", "Want-Digest", "Accept-Encoding":
		ranges = []string{e.trick + ": gzip\r\n"}
	default:
		ranges = []string{""}
	}
	var all, joined []byte
	for _, line := range ranges {
		c := dial()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n%s\r\n", path, host, auth, line)
		raw, _ := io.ReadAll(c) // a reset ends the answer too
		c.Close()
		all = append(all, raw...)
		if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil); err == nil {
			body, _ := io.ReadAll(resp.Body)
			joined = append(joined, body...)
		}
	}
	all = append(append(all, 0), joined...)
	if z, err := gzip.NewReader(bytes.NewReader(joined)); err == nil {
		plain, _ := io.ReadAll(z)
		all = append(all, plain...)
		if z, err := gzip.NewReader(bytes.NewReader(plain)); err == nil {
			plain, _ = io.ReadAll(z)
			all = append(all, plain...)
		}
	}
	return all
}

// leaks reports whether what a client received contains half of the text in one piece, or
// the value in one of its most common forms. Parts of the text are compared without regard
// to case, because the case of letters may change in names of headers.
func (e *hostileEcho) leaks(got []byte) bool {
	low, text := bytes.ToLower(got), strings.ToLower(e.text)
	half := len(text)/2 + 1
	for i := range len(text) - half + 1 {
		if bytes.Contains(low, []byte(text[i:i+half])) {
			return true
		}
	}
	return bytes.Contains(got, []byte(e.value)) || bytes.Contains(low, []byte(hex.EncodeToString([]byte(e.value))))
}
