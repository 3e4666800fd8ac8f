package egress

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// A refusal repeats a long name of a header in part only: the door keeps refusals.
func TestLongNameOfAHeader(t *testing.T) {
	s := serve(t, newWeb(t).port, func(cfg *Config) { cfg.Egress.Allow[0].Methods = []string{"GET"} })
	c := s.site(t)
	io.WriteString(c, s.asked("GET /x", strings.Repeat("x-", 20_000)+"method: POST"))
	if resp, body := readAnswer(t, bufio.NewReader(c), "GET"); resp.StatusCode != 403 || !strings.Contains(body, "for another request") {
		t.Errorf("got %s %q; want 403 and the whole reason", resp.Status, body)
	}
	if r := s.await(t, func(r Record) bool { return !r.Allowed }); len(r.Reason) > maxLine {
		t.Errorf("the reason has %d characters, want at most %d", len(r.Reason), maxLine)
	}
}

func TestOverrides(t *testing.T) {
	for _, name := range []string{
		"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override", "x_http_method_override", "X-HTTP-Verb", "X.Method.Override",
		"X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Forwarded-URI", "X-Forwarded-Path", "X-Forwarded-Prefix",
		"X-Forwarded-PathBase", "X-Envoy-Original-Path", "X-Envoy-Original-Dst-Host", "X-Waws-Unencoded-Url", "X_Original_URI",
		"X-Original-Method", "X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Server", "X-Original-Host", "X-Host",
		"Forwarded", "X-HTTP-Host-Override", "Host-Override", "Base-Url", "Request-Uri", "Proxy-Url", "X-Proxy-Url", "Proxy-Host",
		"Real-Path", "Uri", "Url", "Http-Url", "X-Http-Destinationurl", "Destination", "X-Override-URL", "X-Script-Name",
		"Path-Info", "X-Path-Info", "X-Amz-Copy-Source", "x-ms-copy-source", "X-Copy-From", "X-Request-Path", "X-Backend-Host",
	} {
		if !overrides(name) {
			t.Errorf("%s is handed on", name)
		}
	}
	// Names that clients send every day.
	for _, name := range []string{
		"Accept", "Authorization", "Cookie", "Content-Type", "Origin", "Referer", "User-Agent", "X-Requested-With", "X-Request-Id",
		"X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip", "Access-Control-Request-Method", "Access-Control-Request-Headers",
		"Sec-Fetch-Site", "Upgrade-Insecure-Requests", "X-Amz-Target", "X-Amz-Content-Sha256", "X-Goog-Api-Key", "X-GitHub-Api-Version",
		"Hx-Current-Url", "Depth", "Overwrite", "Idempotency-Key", "Traceparent", "X-Original-Content-Length", "X-Api-Key", "Private-Token",
		"If-None-Match", "Range", "Content-Security-Policy", "Git-Protocol", "Docker-Distribution-Api-Version", "X-Server-Timeout",
	} {
		if overrides(name) {
			t.Errorf("%s is refused", name)
		}
	}
}
