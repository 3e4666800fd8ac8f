package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// web is an HTTP server that keeps the requests that it received.
type web struct {
	*httptest.Server
	port uint16
	mu   sync.Mutex
	saw  []string // "METHOD target body"
}

func newWeb(t testing.TB) *web {
	w := &web{}
	w.Server = httptest.NewServer(w)
	w.port = port(w.Listener.Addr())
	t.Cleanup(w.Close)
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the body is cut short
	}
	w.mu.Lock()
	w.saw = append(w.saw, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)))
	w.mu.Unlock()
	switch r.URL.Path {
	case "/headers": // answers with the headers of the request
		r.Header.Write(rw)
	case "/chunked":
		for i := range 3 {
			fmt.Fprintf(rw, "part %d;", i)
			http.NewResponseController(rw).Flush()
		}
	case "/none":
		rw.WriteHeader(http.StatusNoContent)
	case "/same":
		rw.Header().Set("ETag", `"1"`)
		rw.WriteHeader(http.StatusNotModified)
	case "/close":
		rw.Header().Set("Connection", "close")
		io.WriteString(rw, "closing")
	case "/big":
		io.WriteString(rw, strings.Repeat("0123456789", 100_000))
	default:
		fmt.Fprintf(rw, "host %s, body %q", r.Host, body)
	}
}

func (w *web) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.saw...)
}

// asked returns the head of a request to the site, with further header lines.
func (s *serving) asked(line string, headers ...string) string {
	lines := append([]string{line + " HTTP/1.1", "Host: " + at(site, s.port)}, headers...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// readAnswer reads an answer with its body.
func readAnswer(t testing.TB, in *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the body of an answer: %v", err)
	}
	return resp, string(body)
}

func TestRequestsAreRelayedInTurn(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	c := s.site(t)
	in := bufio.NewReader(c)
	host := at(site, s.port)
	for _, row := range []struct{ method, send, body string }{
		{"GET", s.asked("GET /a?q=1"), `host ` + host + `, body ""`},
		{"POST", s.asked("POST /b", "Content-Length: 5") + "hello", `host ` + host + `, body "hello"`},
		{"POST", s.asked("POST /c", "Transfer-Encoding: chunked") + "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n", `host ` + host + `, body "abcde"`},
		{"HEAD", s.asked("HEAD /big"), ""},
		{"GET", s.asked("GET /chunked"), "part 0;part 1;part 2;"},
		{"GET", s.asked("GET /none"), ""},
		{"GET", s.asked("GET /same"), ""},
		{"GET", "GET http://" + host + "/whole HTTP/1.1\r\nHost: " + strings.ToUpper(host) + "\r\n\r\n", `host ` + host + `, body ""`},
		{"GET", s.asked("GET /big"), strings.Repeat("0123456789", 100_000)},
		{"OPTIONS", s.asked("OPTIONS *"), ""},
		{"GET", s.asked("GET /close"), "closing"},
	} {
		if _, err := io.WriteString(c, row.send); err != nil {
			t.Fatal(err)
		}
		resp, body := readAnswer(t, in, row.method)
		if body != row.body || resp.StatusCode >= 400 {
			t.Errorf("%q: got %s, %d bytes %.80q; want %.80q", row.send, resp.Status, len(body), body, row.body)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the server has closed: got %v; want the end", err)
	}
	r := s.await(t, func(r Record) bool { return r.Path == "/b" })
	if !r.Allowed || r.Method != "POST" || r.Proto != "http" || r.Sent != 5 || r.Received == 0 || r.Host.String() != site {
		t.Errorf("record: got %+v", r)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	c := s.site(t)
	var all strings.Builder
	for i := range 20 {
		all.WriteString(s.asked(fmt.Sprintf("POST /%d", i), "Content-Length: 2") + "xy")
	}
	var sent sync.WaitGroup
	sent.Go(func() { io.WriteString(c, all.String()) })
	in := bufio.NewReader(c)
	for range 20 {
		readAnswer(t, in, "POST")
	}
	sent.Wait()
	for i, r := range w.requests() {
		if want := fmt.Sprintf("POST /%d xy", i); r != want {
			t.Errorf("request %d: the server saw %q; want %q", i, r, want)
		}
	}
}

func TestHTTP10ClientGetsNoChunks(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	c := s.site(t)
	io.WriteString(c, "GET /chunked HTTP/1.0\r\nHost: "+at(site, s.port)+"\r\n\r\n")
	got, err := io.ReadAll(c)
	if err != nil || !bytes.HasSuffix(got, []byte("\r\n\r\npart 0;part 1;part 2;")) {
		t.Errorf("got %q, %v", got, err)
	}
}

// smuggling returns attempts to make the server see another request than the one that was
// judged, or another host. The test sends a further request after each attempt. The server
// must see it only if the attempt got the status 200: a refusal ends the connection.
func smuggling(host string) map[string]struct {
	send   string
	status int
	saw    []string
} {
	type row = struct {
		send   string
		status int
		saw    []string
	}
	h := "Host: " + host + "\r\n"
	post := "POST /x HTTP/1.1\r\n" + h
	inner := "GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	n := strconv.Itoa(len(inner))
	rows := map[string]row{
		// All readers agree about these requests.
		"a request in a body":            {post + "Content-Length: " + n + "\r\n\r\n" + inner, 200, []string{"POST /x " + strings.TrimSpace(inner)}},
		"a request in a chunk":           {post + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner), 200, []string{"POST /x " + strings.TrimSpace(inner)}},
		"a request in a chunk extension": {post + "Transfer-Encoding: chunked\r\n\r\n1;a=\"GET /smuggled HTTP/1.1\"\r\nz\r\n0\r\n\r\n", 200, []string{"POST /x z"}},
		"a request in a trailer":         {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\nX: GET /smuggled HTTP/1.1\r\n\r\n", 200, []string{"POST /x z"}},
		"a named hop-by-hop header":      {"GET /x HTTP/1.1\r\n" + h + "Connection: X-Inner\r\nX-Inner: 1\r\n\r\n", 200, []string{"GET /x"}},
		"an upgrade to h2c":              {"GET /x HTTP/1.1\r\n" + h + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200, []string{"GET /x"}},
		"tabs around a value":            {post + "Transfer-Encoding:\tchunked\t\r\n\r\n1\r\nz\r\n0\r\n\r\n", 200, []string{"POST /x z"}},

		"CL.TE":                        {post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", 400, nil},
		"TE.CL":                        {post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + inner, 400, nil},
		"TE.0":                         {"OPTIONS /x HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + inner, 400, nil},
		"chunked twice":                {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"chunked, identity":            {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400, nil},
		"identity, chunked":            {post + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"two codings in two lines":     {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 400, nil},
		"xchunked":                     {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, nil},
		"quoted chunked":               {post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400, nil},
		"chunked with a parameter":     {post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400, nil},
		"empty coding":                 {post + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 400, nil},
		"a blank before the colon":     {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"a tab before the colon":       {post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"a vertical tab in a coding":   {post + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", 400, nil},
		"a NUL in a coding":            {post + "Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", 400, nil},
		"a folded coding":              {post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"a folded header":              {post + "X: a\r\n\tb\r\nContent-Length: 0\r\n\r\n", 400, nil},
		"a leading blank before Host":  {"GET /x HTTP/1.1\r\n " + h + h + "\r\n", 400, nil},
		"TE in HTTP/1.0":               {"POST /x HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"two lengths that differ":      {post + "Content-Length: 0\r\nContent-Length: " + n + "\r\n\r\n" + inner, 400, nil},
		"two lengths in a line":        {post + "Content-Length: 0, " + n + "\r\n\r\n" + inner, 400, nil},
		"two equal lengths":            {post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nz", 400, nil},
		"a negative length":            {post + "Content-Length: -1\r\n\r\n", 400, nil},
		"a signed length":              {post + "Content-Length: +1\r\n\r\nz", 400, nil},
		"a length in hex":              {post + "Content-Length: 0x1\r\n\r\nz", 400, nil},
		"a length beyond 64 bits":      {post + "Content-Length: 18446744073709551617\r\n\r\nz", 400, nil},
		"a length with a blank":        {post + "Content-Length: 1 0\r\n\r\nz", 400, nil},
		"no length":                    {post + "Content-Length:\r\n\r\n" + inner, 400, nil},
		"lines that end in LF":         {"POST /x HTTP/1.1\nHost: " + host + "\nContent-Length: 0\n\n", 400, nil},
		"one line that ends in LF":     {post + "X: a\nContent-Length: " + n + "\r\n\r\n" + inner, 400, nil},
		"a bare CR in a value":         {post + "X: a\rContent-Length: " + n + "\r\n\r\n" + inner, 400, nil},
		"a bare CR as a line's end":    {post + "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, nil},
		"a NUL in a value":             {"GET /x HTTP/1.1\r\n" + h + "X: a\x00b\r\n\r\n", 400, nil},
		"a NUL in Host":                {"GET /x HTTP/1.1\r\nHost: evil.example\x00" + host + "\r\n\r\n", 400, nil},
		"a header without a name":      {"GET /x HTTP/1.1\r\n" + h + ": a\r\n\r\n", 400, nil},
		"a header without a colon":     {"GET /x HTTP/1.1\r\n" + h + "Xa\r\n\r\n", 400, nil},
		"a header name with a bracket": {"GET /x HTTP/1.1\r\n" + h + "X[]: a\r\n\r\n", 400, nil},
		"no Host":                      {"GET /x HTTP/1.1\r\n\r\n", 400, nil},
		"two Hosts":                    {"GET /x HTTP/1.1\r\n" + h + "Host: evil.example\r\n\r\n", 400, nil},
		"two equal Hosts":              {"GET /x HTTP/1.1\r\n" + h + h + "\r\n", 400, nil},
		"an empty Host":                {"GET /x HTTP/1.1\r\nHost:\r\n\r\n", 400, nil},
		"another Host":                 {"GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, nil},
		"another Host, the same port":  {"GET /x HTTP/1.1\r\nHost: evil.example" + host[len(site):] + "\r\n\r\n", 403, nil},
		"a name below":                 {"GET /x HTTP/1.1\r\nHost: evil." + host + "\r\n\r\n", 403, nil},
		"another port":                 {"GET /x HTTP/1.1\r\nHost: " + site + ":1\r\n\r\n", 403, nil},
		"no port":                      {"GET /x HTTP/1.1\r\nHost: " + site + "\r\n\r\n", 403, nil},
		"user information in Host":     {"GET /x HTTP/1.1\r\nHost: " + host + "@evil.example\r\n\r\n", 400, nil},
		"a path in Host":               {"GET /x HTTP/1.1\r\nHost: " + host + "/evil\r\n\r\n", 400, nil},
		"a list in Host":               {"GET /x HTTP/1.1\r\nHost: " + host + ", evil.example\r\n\r\n", 400, nil},
		"another absolute form":        {"GET http://evil.example/x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"an absolute form with a user": {"GET http://" + host + "@evil.example/x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"an absolute form of https":    {"GET https://" + host + "/x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"an absolute form, other Host": {"GET http://" + host + "/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400, nil},
		"a target without a slash":     {"GET x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a target of two slashes only": {"GET //evil.example/x HTTP/1.1\r\n" + h + "\r\n", 200, []string{"GET //evil.example/x"}},
		"a star that is not OPTIONS":   {"GET * HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a CONNECT":                    {"CONNECT " + host + " HTTP/1.1\r\n" + h + "\r\n", 403, nil},
		"a CONNECT elsewhere":          {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", 403, nil},
		"two blanks in the first line": {"GET  /x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a tab in the first line":      {"GET\t/x\tHTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a vertical tab in the line":   {"GET\v/x\vHTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a form feed in the line":      {"GET /x\fHTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a blank line first":           {"\r\nGET /x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a blank first":                {" GET /x HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a fragment":                   {"GET /x#/y HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"letters beyond ASCII":         {"GET /\xc3\xa4 HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"a bare CR in the target":      {"GET /x\rHost:evil.example HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"HTTP/1.2":                     {"GET /x HTTP/1.2\r\n" + h + "\r\n", 400, nil},
		"HTTP/2.0":                     {"GET /x HTTP/2.0\r\n" + h + "\r\n", 400, nil},
		"http in lower case":           {"GET /x http/1.1\r\n" + h + "\r\n", 400, nil},
		"a version and more":           {"GET /x HTTP/1.1 \r\n" + h + "\r\n", 400, nil},
		"an escape of nothing":         {"GET /%zz HTTP/1.1\r\n" + h + "\r\n", 400, nil},
		"Connection that drops Host":   {"GET /x HTTP/1.1\r\n" + h + "Connection: host\r\n\r\n", 400, nil},
		"Connection drops the length":  {post + "Content-Length: 1\r\nConnection: Content-Length\r\n\r\nz", 400, nil},
		"an odd expectation":           {post + "Content-Length: 1\r\nExpect: 200-ok\r\n\r\nz", 417, nil},
		"a header of 1 MB":             {"GET /x HTTP/1.1\r\n" + h + "X: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", 431, nil},
		"a first line of 1 MB":         {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\n" + h + "\r\n", 431, nil},
		"a thousand headers":           {"GET /x HTTP/1.1\r\n" + h + strings.Repeat("X: a\r\n", 1000) + "\r\n", 431, nil},
	}
	return rows
}

func TestNoRequestIsSmuggled(t *testing.T) {
	if rows := smuggling(site + ":80"); len(rows) < 60 {
		t.Errorf("%d rows", len(rows))
	}
	w := newWeb(t)
	s := serve(t, w.port, nil)
	next := s.asked("GET /next", "Connection: close")
	for name, row := range smuggling(at(site, w.port)) {
		t.Run(name, func(t *testing.T) {
			before := len(w.requests())
			c := s.site(t)
			var sent sync.WaitGroup
			sent.Go(func() { io.WriteString(c, row.send+next) })
			in := bufio.NewReader(c)
			resp, body := readAnswer(t, in, "GET")
			if resp.StatusCode != row.status {
				t.Errorf("got %s, %q; want %d", resp.Status, body, row.status)
			}
			if row.status == 200 {
				row.saw = append(row.saw, "GET /next")
				readAnswer(t, in, "GET")
			} else if !strings.HasPrefix(body, "BLOCKED by the sandbox: ") || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("got %q as %q; want a refusal", body, resp.Header.Get("Content-Type"))
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("then: got %v; want the end", err)
			}
			sent.Wait()
			if diff := cmp.Diff(row.saw, w.requests()[before:]); diff != "" && len(row.saw)+len(w.requests()[before:]) > 0 {
				t.Errorf("what the server saw (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBadBodiesReachNobody has bodies whose framing is wrong after their head was allowed:
// the server must not take the part that it received for a whole body.
func TestBadBodiesReachNobody(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	for name, chunks := range map[string]string{
		"a size in words":         "zz\r\nabc\r\n0\r\n\r\n",
		"a negative size":         "-1\r\nabc\r\n0\r\n\r\n",
		"a size beyond 64 bits":   "10000000000000000\r\na",
		"a size with 0x":          "0x1\r\na\r\n0\r\n\r\n",
		"a size that ends in LF":  "1\na\r\n0\r\n\r\n",
		"a chunk that is longer":  "1\r\nab\r\n0\r\n\r\n",
		"no end":                  "1\r\na\r\n",
		"extensions without end":  strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\na\r\n", 100) + "0\r\n\r\n",
		"an extension of 1 MB":    "1;" + strings.Repeat("x", 1<<20) + "\r\na\r\n0\r\n\r\n",
		"a trailer that is none":  "1\r\na\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
		"trailers without end":    "1\r\na\r\n0\r\n" + strings.Repeat("X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 10_000) + "\r\n",
		"a trailer that ends so":  "1\r\na\r\n0\r\nX: a\n\r\n",
		"an end in LF":            "1\r\na\r\n0\r\n\n",
		"a bare CR after a chunk": "1\r\na\r0\r\n\r\n",
	} {
		c := s.site(t)
		var sent sync.WaitGroup
		sent.Go(func() {
			io.WriteString(c, s.asked("POST /bad", "Transfer-Encoding: chunked")+chunks)
			closeWrite(c)
		})
		if got, err := io.ReadAll(c); bytes.HasPrefix(got, []byte("HTTP/1.1 200")) {
			t.Errorf("%s: got %q, %v; want no answer", name, got, err)
		}
		sent.Wait()
	}
	if saw := w.requests(); len(saw) > 0 {
		t.Errorf("the server saw %q", saw)
	}
}

func TestRequestsAreJudged(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, func(cfg *Config) {
		cfg.Egress.Allow[0].Methods = []string{"GET", "HEAD"}
		cfg.Egress.Allow[0].Paths = []string{"/v1/**"}
	})
	for _, row := range []struct {
		send string
		ok   bool
	}{
		{s.asked("GET /v1/a?x=/../b"), true},
		{s.asked("HEAD /v1/a"), true},
		{s.asked("POST /v1/a", "Content-Length: 0"), false},
		{s.asked("DELETE /v1/a"), false},
		{s.asked("get /v1/a"), false},
		{s.asked("GET /v2/a"), false},
		{s.asked("GET /"), false},
		{s.asked("GET /v1/../admin"), false},
		{s.asked("GET /v1/%2e%2e/admin"), false},
		{s.asked("GET /v1/..%2fadmin"), false},
		{s.asked("GET //v1/a"), false},
		{s.asked(`GET /v1/..\admin`), false},
		{s.asked("GET /v1/..;/admin"), false},
		{s.asked("OPTIONS *"), false},
		{s.asked("GET /v1/a", "X-HTTP-Method-Override: DELETE"), false},
		{s.asked("GET /v1/a", "X-Original-URL: /admin"), false},
	} {
		before := len(w.requests())
		c := s.site(t)
		io.WriteString(c, row.send)
		method, _, _ := strings.Cut(row.send, " ")
		resp, body := readAnswer(t, bufio.NewReader(c), method)
		if ok := resp.StatusCode == 200; ok != row.ok || len(w.requests())-before != map[bool]int{true: 1}[row.ok] {
			t.Errorf("%q: got %s %q, and the server saw %q; want ok %v", row.send, resp.Status, body, w.requests()[before:], row.ok)
		}
		if !row.ok && (resp.StatusCode != 403 || !strings.HasPrefix(body, "BLOCKED by the sandbox: "+method+" "+at(site, s.port)) || !strings.Contains(body, `"dev"`)) {
			t.Errorf("%q: got %s %q; want a refusal", row.send, resp.Status, body)
		}
		c.Close()
	}
	r := s.await(t, func(r Record) bool { return r.Path == "/v2/a" })
	if r.Allowed || r.Method != "GET" {
		t.Errorf("got %+v", r)
	}
}

func TestExpectIsAnswered(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	c := s.site(t)
	in := bufio.NewReader(c)
	io.WriteString(c, s.asked("POST /x", "Content-Length: 3", "Expect: 100-continue"))
	if resp, _ := readAnswer(t, in, "POST"); resp.StatusCode != 100 {
		t.Fatalf("got %s; want 100", resp.Status)
	}
	io.WriteString(c, "abc"+s.asked("GET /y"))
	readAnswer(t, in, "POST")
	readAnswer(t, in, "GET")
	if diff := cmp.Diff([]string{"POST /x abc", "GET /y"}, w.requests()); diff != "" {
		t.Error(diff)
	}
}

// TestEarlyAnswer has a server that answers before it has read the body.
func TestEarlyAnswer(t *testing.T) {
	early := server(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, in)
	})
	s := serve(t, early, nil)
	c := s.site(t)
	io.WriteString(c, s.asked("POST /x", "Content-Length: 1000000"))
	resp, body := readAnswer(t, bufio.NewReader(c), "POST")
	if resp.StatusCode != 413 || body != "no" || !resp.Close {
		t.Errorf("got %+v, %q; want the server's answer, and the end of the connection", resp, body)
	}
}

// TestAnswerOfAServerThatCloses has a server that answers and closes its connection while
// the body is sent: the client gets the answer.
func TestAnswerOfAServerThatCloses(t *testing.T) {
	for name, length := range map[string]int64{"length": 1000, "chunks": -1} {
		box, here := net.Pipe()
		up := &refusing{refused: make(chan struct{}), answer: strings.NewReader("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")}
		f := &flow{d: &Door{}, snap: &snapshot{limits: wide}, rec: Record{Time: time.Now()}}
		x := exchange{relay: &relay{flow: f, client: newSide(here, nil), up: newSide(up, f)}}
		var sent sync.WaitGroup
		sent.Go(func() { io.WriteString(box, "5\r\nhello\r\n") })
		b := x.sendBody(length)
		resp, err := x.answer(request{head: head{method: "POST", length: length}}, false)
		if err != nil || resp.StatusCode != 413 {
			t.Errorf("%s: got %+v, %v; want the answer", name, resp, err)
		}
		if _, err := b.wait(); !isGone(err) {
			t.Errorf("%s: got %v of the body, want a broken pipe", name, err)
		}
		if err := f.over(); err != nil {
			t.Errorf("%s: the connection was closed: %v", name, err)
		}
		box.Close()
		sent.Wait()
		x.client.free()
		x.up.free()
	}
}

// refusing is a connection to a server that answers once a write has failed.
type refusing struct {
	net.Conn
	refused chan struct{}
	once    sync.Once
	answer  io.Reader
}

func (c *refusing) Write([]byte) (int, error) {
	c.once.Do(func() { close(c.refused) })
	return 0, syscall.EPIPE
}

func (c *refusing) Read(p []byte) (int, error) {
	<-c.refused
	return c.answer.Read(p)
}

func (c *refusing) SetReadDeadline(time.Time) error { return nil }

// TestIdleServerMayClose has a server that closes an idle connection: the client must see
// the end before it sends a request that cannot be sent twice.
func TestIdleServerMayClose(t *testing.T) {
	read := make(chan struct{})
	once := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			<-read
		}
	})
	s := serve(t, once, nil)
	c := s.site(t)
	in := bufio.NewReader(c)
	io.WriteString(c, s.asked("GET /x"))
	if resp, body := readAnswer(t, in, "GET"); body != "ok" || resp.Close {
		t.Errorf("got %+v, %q", resp, body)
	}
	close(read)
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("got %v; want the end", err)
	}
}

// TestClientThatLeavesIsNoticed has clients that leave while a server keeps them waiting:
// their slot must be free before the time for silence is over.
func TestClientThatLeavesIsNoticed(t *testing.T) {
	for name, run := range map[string]func(*relay) error{
		"before an answer": func(r *relay) error { return (&exchange{relay: r}).begins(true) },
		"opaque":           func(r *relay) error { return r.splice(r.ways()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			box, here := net.Pipe()
			there, far := net.Pipe()
			f := &flow{d: &Door{}, snap: &snapshot{limits: wide}, rec: Record{Time: time.Now()}}
			r := &relay{flow: f, client: newSide(here, nil), up: newSide(quiet{there}, f)}
			for _, c := range []net.Conn{here, there, far} {
				f.own(func() { c.Close() })
			}
			start := time.Now()
			box.Close()
			if err := run(r); err == nil || time.Since(start) > 2*halfTime {
				t.Errorf("%s: got %v after %v; want an error within %v", name, err, time.Since(start), 2*halfTime)
			}
			f.shut(net.ErrClosed)
			r.client.free()
			r.up.free()
		})
	}
}

// TestSilenceBeforeAHalfClose has a client that ends its direction after a long silence of
// the server: the server has as long for the rest of its answer as after a short one.
func TestSilenceBeforeAHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, here := net.Pipe()
		there, far := net.Pipe()
		f := &flow{d: &Door{}, snap: &snapshot{limits: wide}, rec: Record{Time: time.Now()}}
		r := &relay{flow: f, client: newSide(here, nil), up: newSide(quiet{there}, f)}
		for _, c := range []net.Conn{here, there, far} {
			f.own(func() { c.Close() })
		}
		const silent = 10 * halfTime
		time.AfterFunc(silent, func() { box.Close() })
		start := time.Now()
		err := r.splice(r.ways())
		if took := time.Since(start) - silent; !errors.Is(err, errHalf) || took < halfTime || took > 2*halfTime {
			t.Errorf("got %v %v after the half close; want %v after %v to %v", err, took, errHalf, halfTime, 2*halfTime)
		}
		f.shut(net.ErrClosed)
		r.client.free()
		r.up.free()
	})
}

// quiet is a connection whose other end does not notice a half close.
type quiet struct{ net.Conn }

func (quiet) CloseWrite() error { return nil }

func TestInterimAnswersAreNotHandedOn(t *testing.T) {
	hints := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := serve(t, hints, nil)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /x"))
	if resp, body := readAnswer(t, bufio.NewReader(c), "GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("got %s %q", resp.Status, body)
	}
}

// TestHostileAnswers has servers that try to make the door keep data without a bound, or
// the client take one answer for two.
func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"a head without end":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 2000),
		"a head of 1 MB":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 1000) + "Content-Length: 0\r\n\r\n",
		"interim without end":    strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000),
		"a change of protocol":   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw",
		"a length of two kinds":  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabc",
		"no HTTP":                "hello\r\n",
		"a body that ends early": "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
	} {
		bad := server(t, func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, answer)
			}
		})
		s := serve(t, bad, nil)
		c := s.site(t)
		io.WriteString(c, s.asked("GET /x"))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: got %+v; want an error", name, resp)
		}
	}
}

// A request that is not answered is recorded like others, with the reason: a server could
// otherwise keep what it receives out of the log.
func TestUnansweredRequestsAreRecorded(t *testing.T) {
	mute := server(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil && r.URL.Path == "/half" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
		}
	})
	s := serve(t, mute, nil)
	recorded := func(path string, received int64) {
		t.Helper()
		r := s.await(t, func(r Record) bool { return r.Path == path })
		if !r.Allowed || r.Reason == "" || r.Received != received {
			t.Errorf("%s: got record %+v; want an allowed request that failed", path, r)
		}
	}
	for path, received := range map[string]int64{"/mute": 0, "/half": 3} {
		c := s.site(t)
		io.WriteString(c, s.asked("POST "+path, "Content-Length: 2")+"ab")
		io.Copy(io.Discard, c)
		recorded(path, received)
	}
	resp, err := s.d.Client().Post("http://"+at(site, mute)+"/client", "", strings.NewReader("ab"))
	if err == nil {
		resp.Body.Close()
		t.Errorf("got %s", resp.Status)
	}
	recorded("/client", 0)
}

// The record of an answer whose head is too long says so.
func TestLongHeadOfAnAnswer(t *testing.T) {
	long := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: %s\r\n\r\n", strings.Repeat("x", maxAnswerHead))
		}
	})
	s := serve(t, long, nil)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /x"))
	io.Copy(io.Discard, c)
	if r := s.await(t, func(r Record) bool { return r.Proto == "http" && r.Method == "" }); !strings.HasSuffix(r.Reason, "its head is longer than 262144 bytes") {
		t.Errorf("got record %+v", r)
	}
}

// socket starts a server that accepts every upgrade and echoes, and returns its port.
func socket(t testing.TB, answer string) uint16 {
	return server(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		io.WriteString(c, answer)
		io.Copy(c, in)
	})
}

// accepted is a server's answer to the handshake of a websocket.
const accepted = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"

func TestWebsocketGoesThrough(t *testing.T) {
	s := serve(t, socket(t, accepted), nil)
	s.websocket(t, s.site(t))
	c, _, _, _ := s.connected(t, at(site, s.port), "Host: x")
	s.websocket(t, c)
	s.await(t, func(r Record) bool { return r.Path == "/ws" && r.Allowed })
}

// A websocket begins with a GET, and then sends any data. So a rule that allows GET is not
// enough: it must allow every method, or WEBSOCKET too.
func TestWebsocketIsNoRead(t *testing.T) {
	for _, tt := range []struct {
		methods []string
		want    bool
	}{{nil, true}, {[]string{"GET", "HEAD"}, false}, {[]string{"GET", "POST"}, false}, {[]string{"WEBSOCKET"}, false}, {[]string{"GET", "WEBSOCKET"}, true}} {
		s := serve(t, socket(t, accepted), func(cfg *Config) { cfg.Egress.Allow[0].Methods = tt.methods })
		if tt.want {
			s.websocket(t, s.site(t))
			continue
		}
		c := s.site(t)
		io.WriteString(c, s.asked("GET /ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")+"\x81\x02hi")
		resp, text := readAnswer(t, bufio.NewReader(c), "GET")
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("methods %q: got %d %s", tt.methods, resp.StatusCode, text)
		}
		s.await(t, func(r Record) bool { return r.Path == "/ws" && !r.Allowed })
	}
}

// websocket sends a frame, and checks that it comes back.
func (s *serving) websocket(t testing.TB, c net.Conn) {
	t.Helper()
	in := bufio.NewReader(c)
	io.WriteString(c, s.asked("GET /ws", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")+"\x81\x02hi")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != "x" || resp.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	frame := make([]byte, 4)
	if _, err := io.ReadFull(in, frame); err != nil || string(frame) != "\x81\x02hi" {
		t.Errorf("got %q, %v; want what was sent", frame, err)
	}
}

// TestManyAtOnce has connections of every kind open at the same time.
func TestManyAtOnce(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, func(cfg *Config) { cfg.Egress.Limits.Conns = 100 })
	addr, ok := s.d.names.give(host(t, site))
	if !ok {
		t.Fatal("no address")
	}
	to := netip.AddrPortFrom(addr, w.port)
	s.target.Store(&to)
	long := strings.Repeat("x", 200_000)
	var all sync.WaitGroup
	for i := range 60 {
		c, prefix := reach(t, s.through), ""
		switch i % 3 {
		case 1:
			c.Close()
			c, _, _, _ = s.connected(t, at(site, w.port), "Host: x")
		case 2:
			c.Close()
			c, prefix = reach(t, s.proxy), "http://"+at(site, w.port)
		}
		all.Go(func() {
			in := bufio.NewReader(c)
			for n := range 6 {
				body := fmt.Sprintf("%d.%d %s", i, n, long[:n*8_000])
				var sent sync.WaitGroup
				sent.Go(func() {
					io.WriteString(c, s.asked("POST "+prefix+"/x", fmt.Sprintf("Content-Length: %d", len(body)))+body)
				})
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Errorf("%d.%d: %v", i, n, err)
					c.Close()
					sent.Wait()
					return
				}
				got, err := io.ReadAll(resp.Body)
				sent.Wait()
				if want := fmt.Sprintf("host %s, body %q", at(site, w.port), body); err != nil || string(got) != want {
					t.Errorf("%d.%d: got %d bytes, %v; want %d", i, n, len(got), err, len(want))
				}
			}
			c.Close()
		})
	}
	all.Wait()
	if n := len(w.requests()); n != 360 {
		t.Errorf("the server saw %d requests; want 360", n)
	}
	s.d.Close()
	if n := s.d.caps.conns.Load(); n != 0 {
		t.Errorf("%d slots are held", n)
	}
}

func TestStreamIsNotHeldBack(t *testing.T) {
	more := make(chan struct{})
	events := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		<-more
		io.WriteString(c, "data: 2\n\n")
	})
	s := serve(t, events, nil)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /x"))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 9)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "data: 1\n\n" {
		t.Errorf("got %q, %v", first, err)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestSlowHeadIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		client := newSide(here, nil)
		defer client.free()
		var sent sync.WaitGroup
		sent.Go(func() {
			for _, b := range []byte("GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 100)) {
				if _, err := there.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		start := time.Now()
		_, err := readHead(client)
		if wrong, ok := errors.AsType[*badRequest](err); !ok || wrong.status != 408 || time.Since(start) > headTime {
			t.Errorf("got %v after %v; want 408 after %v", err, time.Since(start), headTime)
		}
		here.Close()
		there.Close()
		sent.Wait()
	})
}
