package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/browser"
	"belljar.dev/browser/browsertest"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/browser/picture"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

func silently(*sdk.ProgressNotificationParams) {}

// readPart makes one call over the wire, and returns its text, its structure and whether it
// failed.
func readPart(t *testing.T, client *sdk.ClientSession, args map[string]any) (string, docsOutput, bool) {
	t.Helper()
	r, err := client.CallTool(t.Context(), docsCall(args))
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	text, _ := r.Content[0].(*sdk.TextContent)
	var out docsOutput
	if raw, err := json.Marshal(r.StructuredContent); err != nil || r.StructuredContent != nil && json.Unmarshal(raw, &out) != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return text.Text, out, r.IsError
}

// Paging through a page of 2 MB returns every byte once, even if the page has changed in
// the meantime, in parts of any size and from any offset. No part is larger than requested.
func TestDocsPages(t *testing.T) {
	l := newLibrary(t)
	var b strings.Builder
	for i := 0; b.Len() < 2<<20; i++ {
		fmt.Fprintf(&b, "line %d \u00e4\U0001F600\u4e16\u754c e\u0301 with words\n", i)
		if i%7 == 0 {
			b.WriteByte('\n')
		}
		if i%500 == 0 {
			b.WriteString(strings.Repeat("\U0001F600\u00e4x", 20_000) + "\n") // a line longer than a part
		}
	}
	var mu sync.Mutex
	served := b.String()
	l.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, served)
		served = "it is another page now"
	}))
	client := clientOf(t, l.server, silently)
	want := []rune(b.String())
	var got strings.Builder
	sizes := []int{150_000, 31_337, docsCharsMost, 1, 99_999, 2, 200_000}
	calls := 0
	for offset := 0; ; calls++ {
		most := sizes[calls%len(sizes)]
		text, out, failed := readPart(t, client, map[string]any{"url": "http://a.example/", "format": "text", "offset": offset, "max_chars": most})
		if failed || out.Offset != offset || out.Total != len(want) || utf8.RuneCountInString(out.Content) > most || !utf8.ValidString(out.Content) {
			t.Fatalf("offset %d: failed %v, offset %d, total %d of %d, %d characters of %d", offset, failed, out.Offset, out.Total, len(want), utf8.RuneCountInString(out.Content), most)
		}
		got.WriteString(out.Content)
		if out.Next != 0 != strings.Contains(text, fmt.Sprintf("[continue with offset %d of %d]", out.Next, out.Total)) {
			t.Errorf("it does not say how to read on: next %d", out.Next)
		}
		if out.Next == 0 {
			break
		}
		offset = out.Next
	}
	if got.String() != string(want) || calls < 8 {
		t.Errorf("got %d bytes in %d calls, want %d", got.Len(), calls, b.Len())
	}
	// Parts from other offsets are right as well.
	for _, offset := range []int{1, 7, 20_001, len(want) / 3, len(want) - 1} {
		_, out, failed := readPart(t, client, map[string]any{"url": "http://a.example/", "format": "text", "offset": offset, "max_chars": 1000})
		part := []rune(out.Content)
		if failed || len(part) == 0 || string(want[offset:offset+len(part)]) != out.Content {
			t.Errorf("offset %d: got %.60q, want %.60q", offset, out.Content, string(want[offset:min(len(want), offset+30)]))
		}
	}
}

// A client that cancels closes the connection to the server.
func TestDocsCancelOverMCP(t *testing.T) {
	l := newLibrary(t)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	l.Serve(t, "a.example", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	client := clientOf(t, l.server, silently)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, docsCall(map[string]any{"url": "http://a.example/"}))
		done <- err
	}()
	<-started
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
}

// observed reports when a page is loaded, and with what cause its context ends.
type observed struct {
	*browsertest.Fake
	began chan struct{}
	ended chan error
}

func (w *observed) Load(ctx context.Context, g policies.Grant, r browser.Request) (*browser.Loaded, error) {
	w.began <- struct{}{}
	l, err := w.Fake.Load(ctx, g, r)
	if ctx.Err() != nil {
		w.ended <- context.Cause(ctx)
	}
	return l, err
}

const drawnByScript = `<html><title>App</title><div id="root"></div><script src="/app.js"></script>`

// A client's cancel ends the work in the browser: the pool closes the page with the context
// of the call.
func TestDocsCancelReachesTheBrowser(t *testing.T) {
	l := &library{Net: fetchtest.New(t), fake: &browsertest.Fake{Block: make(chan struct{})}}
	w := &observed{l.fake, make(chan struct{}, 1), make(chan error, 1)}
	l.open(t, w, 0)
	l.Serve(t, "a.example", serving("text/html", drawnByScript))
	client := clientOf(t, l.server, silently)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, docsCall(map[string]any{"url": "http://a.example/"}))
		done <- err
	}()
	<-w.began
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-w.ended; errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the page ended with %v", err)
	}
}

// The progress of a page that a browser draws is reported like that of any other page: each
// number is greater than the one before it, in whatever way the page is read.
func TestDocsProgressOfTheBrowser(t *testing.T) {
	l := newLibrary(t)
	l.fake.Pages = map[string]*browser.Loaded{"http://a.example/": {Status: 200, HTML: "<title>App</title><h1>Drawn</h1><p>Words of the script.</p>"}}
	l.Serve(t, "a.example", serving("text/html", drawnByScript))
	var mu sync.Mutex
	var seen []string
	last := -1.0
	client := clientOf(t, l.server, func(p *sdk.ProgressNotificationParams) {
		mu.Lock()
		defer mu.Unlock()
		if p.Progress <= last || p.Progress > p.Total {
			t.Errorf("progress %v of %v after %v", p.Progress, p.Total, last)
		}
		last = p.Progress
		seen = append(seen, p.Message)
	})
	_, out, failed := readPart(t, client, map[string]any{"url": "http://a.example/"})
	if failed || out.Rendered != "chrome" || !strings.Contains(out.Content, "# Drawn") {
		t.Errorf("got %+v", out)
	}
	// The client passes on reports at the same time as the answer, so some can arrive after
	// it.
	want := []string{"queued", "loading", "converting", "queued", "loading", "converting", "converting"}
	var got []string
	testenv.Until(5*time.Second*testenv.Patience(t), func() bool {
		mu.Lock()
		defer mu.Unlock()
		got = slices.Clone(seen)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A call that asks for more time than its client waits is answered in time. The answer says
// so if the call would have needed more time.
func TestDocsPatience(t *testing.T) {
	const patience = 2500 * time.Millisecond
	l := &library{Net: fetchtest.New(t), fake: &browsertest.Fake{}}
	l.open(t, l.fake, patience)
	l.fake.Pages = map[string]*browser.Loaded{"http://a.example/article": {HTML: article, Status: 200}}
	l.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/stream":
			io.WriteString(w, "<title>Stream</title><main><h1>Stream</h1><p>"+strings.Repeat("Words that came. ", 30)+"</p>")
			_ = http.NewResponseController(w).Flush()
		case "/article":
			io.WriteString(w, article)
			return
		}
		<-r.Context().Done()
	}))
	client := clientOf(t, l.server, silently)
	for _, tt := range []struct {
		args   map[string]any
		failed bool
		want   []string
	}{
		{map[string]any{"url": "http://a.example/article", "timeout_ms": 120000}, false, []string{"Hello"}},
		{map[string]any{"url": "http://a.example/stream", "timeout_ms": 120000}, false, []string{"Words that came.", "only a part of the page: the time was up", "2.5s were left of the time that this client waits for an answer, so timeout_ms was cut to 1500"}},
		{map[string]any{"url": "http://a.example/silent"}, true, []string{"did not answer before the time was up", "timeout_ms was cut to 1500"}},
		{map[string]any{"url": "http://a.example/silent", "timeout_ms": 500}, true, []string{"try again with a larger timeout_ms"}},
		{map[string]any{"url": "http://a.example/article", "wait_ms": 60000}, false, []string{"Hello", "2.5s were left of the time that this client waits for an answer, so wait_ms was cut to 750"}},
		{map[string]any{"url": "http://a.example/article", "wait_ms": 3000, "timeout_ms": 2000}, true, []string{"wait_ms: got 3000, want less than timeout_ms, which is 2000"}},
	} {
		text, _, failed := readPart(t, client, tt.args)
		if failed != tt.failed {
			t.Errorf("%v: failed %v: %s", tt.args, failed, text)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v: got %q, want %q", tt.args, text, want)
			}
		}
	}
	// A call whose client waits as long as it takes gets all the time that it asks for.
	q, _, _, err := docsInput{URL: "http://a.example/", WaitMS: new(int64(60_000))}.query(policies.Grant{})
	if err != nil {
		t.Fatal(err)
	}
	for _, enough := range []time.Duration{0, 90 * time.Second} {
		if c := patient(&q, enough); c != (cut{}) || q.Timeout != 70*time.Second || q.MostWait != 0 {
			t.Errorf("%v: got %+v, %v, %v", enough, c, q.Timeout, q.MostWait)
		}
	}
}

// A call whose client has used its patience for a person or a hook is not refused: the page
// is given less time, and the result says so. The parts of the page fit together although
// the time that is left differs from call to call.
func TestDocsAfterAPerson(t *testing.T) {
	l := newLibrary(t)
	const url = "http://a.example/"
	l.Serve(t, "a.example", serving("text/html", article))
	l.fake.Pages = map[string]*browser.Loaded{url: {HTML: article, Status: 200}}
	grant := fetchtest.Grant(t, libraryPolicy, "local", url)
	loads := 0
	for _, tt := range []struct {
		left, wait time.Duration
		offset     int64
		note       string
	}{
		{27 * time.Second, 16 * time.Second, 0, "27s were left of the time that this client waits for an answer, so wait_ms was cut to 16000"},
		{45 * time.Second, 30 * time.Second, 0, ""}, // a page that was given less time is not used again
		{5 * time.Second, 0, 10, ""},                // the next part of the page, which is kept
		{45 * time.Second, 0, 0, ""},
	} {
		call := mcp.Call{Grant: grant, Patience: tt.left, Progress: func(float64, float64, string) {}}
		r, err := l.docs.read(t.Context(), call, docsInput{URL: url, WaitMS: new(int64(30_000)), Offset: &tt.offset})
		if err != nil || r.IsError || !strings.Contains(words(r), "And an end.") || strings.Contains(words(r), "wait_ms") != (tt.note != "") || !strings.Contains(words(r), tt.note) {
			t.Fatalf("%v left: got %v, %s; want the note %q", tt.left, err, words(r), tt.note)
		}
		all := l.fake.Requests()
		if tt.wait > 0 {
			loads++
		}
		if len(all) != loads || tt.wait > 0 && all[loads-1].Wait != tt.wait {
			t.Errorf("%v left: the browser got %+v, want %d requests, the last with a wait of %v", tt.left, all, loads, tt.wait)
		}
	}
	for left, want := range map[time.Duration]time.Duration{5 * time.Second: 2 * time.Second, time.Second + time.Millisecond: 500 * time.Microsecond} {
		q := reader.Query{Wait: 30 * time.Second, Timeout: 40 * time.Second}
		if patient(&q, left); q.MostWait != want || q.Wait != 30*time.Second {
			t.Errorf("%v left: got a wait of at most %v, want %v", left, q.MostWait, want)
		}
	}
}

// TestDocsDrawnOverMCP uses the wire and a real Chrome. It reads a page that a script
// draws, cancels the read of a page whose script spins, and reads the first page again. In
// the end the pool has all its pages back.
func TestDocsDrawnOverMCP(t *testing.T) {
	spinning := make(chan struct{}, 1)
	studio := browsertest.NewStudio(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "no-store")
		switch r.URL.Path {
		case "/app":
			io.WriteString(w, `<title>App</title><div id="root"></div><script>fetch("/data").then(r => r.text()).then(t => root.innerHTML = "<h1>App</h1><p>" + t + "</p>")</script>`)
		case "/data":
			io.WriteString(w, "Words that a script asked for, and drew.")
		case "/spin":
			io.WriteString(w, `<title>Spin</title><div id="root"></div><script src="/spinning"></script>`)
		case "/spinning":
			io.WriteString(w, `for (;;);`)
			spinning <- struct{}{}
		}
	}))
	policy, err := policies.Parse("studio.yaml", []byte(studio.Policy()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := reader.New(reader.Config{Fetch: studio.Fetch, Browser: studio.Pool})
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcp.New(mcp.Config{Gate: policy, Patience: time.Minute * testenv.Patience(t), Structured: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown(context.Background()) })
	addDocs(server, &docs{Backends{Reader: r}, &images{maker: picture.New(1)}})
	client := clientOf(t, server, silently)
	read := func() {
		t.Helper()
		text, out, failed := readPart(t, client, map[string]any{"url": studio.Base + "/app"})
		if failed || out.Rendered != "chrome" || !strings.Contains(out.Content, "# App\n\nWords that a script asked for, and drew.") {
			t.Fatalf("got %s", text)
		}
	}
	read()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, docsCall(map[string]any{"url": studio.Base + "/spin"}))
		done <- err
	}()
	<-spinning
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range 8 {
		read()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for studio.Pool.Stats().Busy > 0 { // ends at the latest with the test's deadline
		<-tick.C
	}
}
