package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"belljar.dev/mcp"
)

// desk is an office that reports each token that it has checked.
type desk struct {
	*office
	came chan string
}

func (d desk) Authenticate(ctx context.Context, token string) (mcp.Identity, error) {
	id, err := d.office.Authenticate(ctx, token)
	d.came <- token
	return id, err
}

// When a token becomes invalid, its streams end, in both eras. The streams of another token
// of the same principal stay open.
func TestStreamsEndWithTheirTokens(t *testing.T) {
	o, with := newOffice(t, "tenants: {a: {}}\n")
	s := newSite(t, with)
	stolen, own := []string{"Authorization", "Bearer token-a/ann#1"}, []string{"Authorization", "Bearer token-a/ann#2"}
	begin := func(auth []string) []string {
		r := s.do("POST", fmt.Sprintf(hello, revLegacy), auth...)
		return append([]string{"Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy}, auth...)
	}
	subscribe := func(auth []string) *openStream {
		body := modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`)
		return s.stream(http.MethodPost, strings.NewReader(body), append(modernHeaders("subscriptions/listen", ""), auth...)...)
	}
	theirs := map[string]*openStream{"legacy": s.listen(begin(stolen)...), "modern": subscribe(stolen)}
	ours := map[string]*openStream{"legacy": s.listen(begin(own)...), "modern": subscribe(own)}
	for _, all := range []map[string]*openStream{theirs, ours} {
		all["legacy"].has(":")
		all["modern"].has("acknowledged")
	}
	o.revoked.Store("token-a/ann#1", true)
	s.Reloaded()
	for era, l := range theirs {
		<-l.over
		t.Logf("%s: the stream ended", era)
	}
	for era, l := range ours {
		if ended(l.over) {
			t.Errorf("%s: the stream of a token that holds has ended", era)
		}
		l.close()
	}
}

// A request whose token was revoked before its whole body arrived is refused. Otherwise a
// client that sends its body slowly would be accepted too late.
func TestBodiesThatComeLate(t *testing.T) {
	o, with := newOffice(t, "tenants: {a: {}}\n")
	d := desk{o, make(chan string, 100)}
	var decided atomic.Int64
	s := newSite(t, with, func(c *mcp.Config) { c.Auth, c.Audit = d, counted{&decided} })
	const first = `"name":"echo","arguments":{"text":"hi"},`
	for i, tt := range []struct {
		name, body string
		headers    []string
	}{
		{"initialize", fmt.Sprintf(hello, revLegacy), nil},
		{"call", modern("1", "tools/call", first), modernHeaders("tools/call", "echo")},
		{"subscription", modern("2", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`), modernHeaders("subscriptions/listen", "")},
	} {
		for _, revoked := range []bool{true, false} {
			token := fmt.Sprintf("token-a/ann#%d%t", i, revoked)
			rest, writer := io.Pipe()
			answered := make(chan *openStream, 1)
			go func() {
				answered <- s.stream(http.MethodPost, rest, append(tt.headers, "Authorization", "Bearer "+token)...)
			}()
			if _, err := io.WriteString(writer, tt.body[:1]); err != nil {
				t.Fatal(err)
			}
			<-d.came // the token was accepted
			if revoked {
				o.revoked.Store(token, true)
				s.Reloaded()
			}
			if _, err := io.WriteString(writer, tt.body[1:]); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			l := <-answered
			if want := map[bool]int{true: 401, false: 200}[revoked]; l.status != want {
				t.Errorf("%s, revoked %t: %d, want %d", tt.name, revoked, l.status, want)
			}
			l.close()
		}
	}
	if n := decided.Load(); n != 1 {
		t.Errorf("%d calls were decided, want the one of the token that holds", n)
	}
}
