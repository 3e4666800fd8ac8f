package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/people/approval"
)

const hookKey = "a secret of some length"

// receiver is a webhook that checks what it gets.
func receiver(t *testing.T, answer func(n int64) int) (*httptest.Server, <-chan hookBody, *atomic.Int64) {
	t.Helper()
	got, tries := make(chan hookBody, 10), &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		stamp, mac, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Belljar-Signature"), "t="), ",v1=")
		m := hmac.New(sha256.New, []byte(hookKey))
		m.Write([]byte(stamp + "." + string(text)))
		if want := hex.EncodeToString(m.Sum(nil)); mac != want {
			t.Errorf("it is signed %q, want %q", mac, want)
		}
		status := answer(tries.Add(1))
		w.WriteHeader(status)
		if status/100 != 2 {
			return
		}
		var body hookBody
		if err := json.Unmarshal(text, &body); err != nil {
			t.Error(err)
		}
		got <- body
	}))
	t.Cleanup(s.Close)
	return s, got, tries
}

func ok(int64) int { return http.StatusNoContent }

func TestApproveByWebhook(t *testing.T) {
	s, got, _ := receiver(t, ok)
	a := startAsking(t, "1m")
	a.in.Close()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(hookKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.start(t, "--webhook", s.URL+"/hook", "--webhook-private", "--webhook-secret", "file:"+key, "--webhook-answers", "127.0.0.1:0")
	r := a.bash(t, "echo publish it")
	if !strings.Contains(r.text(), "Asked: webhook, command line.") {
		t.Errorf("answered %q, want it to name the webhook", r.text())
	}
	body := <-got
	if body.Event != "approval.asked" || body.Approval.ID != r.StructuredContent.Refusal.ApprovalID || !strings.Contains(strings.Join(body.Text, "\n"), "echo publish it") {
		t.Errorf("the webhook got %+v", body)
	}
	answer := func(token string, yes bool) int {
		text, err := json.Marshal(hookAnswer{Token: token, Yes: yes, By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(body.Answer, "application/json", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, wrong := range []string{"", "x", strings.Repeat("0", 64)} {
		if got := answer(wrong, true); got != http.StatusForbidden {
			t.Errorf("the token %q gets %d, want 403", wrong, got)
		}
	}
	if got := answer(body.Token, true); got != http.StatusOK {
		t.Errorf("the answer gets %d, want 200", got)
	}
	if got := answer(body.Token, false); got != http.StatusConflict {
		t.Errorf("another answer gets %d, want 409", got)
	}
	if r := a.bash(t, "echo publish it"); r.StructuredContent.Stdout != "publish it\n" {
		t.Errorf("after the yes the call gets %+v", r)
	}
	a.approved(t, "ann answered by webhook", "show", body.Approval.ID)
}

// hookTo is a hook that tells a URL, with short pauses.
func hookTo(t *testing.T, h hooking, log io.Writer) (*hook, error) {
	t.Helper()
	t.Setenv("BELLJAR_TEST_HOOK", hookKey)
	h.secret = "env:BELLJAR_TEST_HOOK"
	k, err := h.open(t.Context(), &approver{}, hostexec.WrittenIn(), slog.New(slog.NewTextHandler(log, nil)))
	if err == nil {
		k.pause = time.Millisecond
		t.Cleanup(k.close)
	}
	return k, err
}

func TestWebhookTries(t *testing.T) {
	open := approval.Approval{ID: "ap-1", Expires: time.Now().Add(time.Hour)}
	for name, tt := range map[string]struct {
		answer func(int64) int
		tries  int64
		says   string
	}{
		"at once":         {ok, 1, ""},
		"after a failure": {func(n int64) int { return map[bool]int{true: 200, false: 503}[n == 3] }, 3, ""},
		"never":           {func(int64) int { return 500 }, hookTries, "was not told"},
		"refused":         {func(int64) int { return 404 }, 1, "was not told"},
		"elsewhere":       {func(int64) int { return 307 }, 1, "was not told"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, tries := receiver(t, tt.answer)
			var log bytes.Buffer
			k, err := hookTo(t, hooking{url: s.URL, private: true}, &log)
			if err != nil {
				t.Fatal(err)
			}
			k.deliver(t.Context(), open)
			if got := tries.Load(); got != tt.tries || (tt.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.says) {
				t.Errorf("%d tries and %q, want %d and %q", got, log.String(), tt.tries, tt.says)
			}
		})
	}
}

func TestWebhookStaysOutside(t *testing.T) {
	s, _, tries := receiver(t, ok)
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	k, err := hookTo(t, hooking{url: "https://" + to.Host}, &log)
	if err != nil {
		t.Fatal(err)
	}
	k.deliver(t.Context(), approval.Approval{ID: "ap-1", Expires: time.Now().Add(time.Hour)})
	if tries.Load() != 0 || !strings.Contains(log.String(), "private network") {
		t.Errorf("%d requests reached this machine; the log says %q", tries.Load(), log.String())
	}
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "[2606:2800:220:1::1]:443": true,
		"127.0.0.1:443": false, "10.1.2.3:443": false, "169.254.169.254:80": false, "100.64.1.1:443": false, "[::1]:443": false, "[::ffff:127.0.0.1]:443": false,
		"[fe80::1%eth0]:443": false, "[fd00::1]:443": false, "[64:ff9b::7f00:1]:443": false, "0.0.0.0:443": false, "224.0.0.1:443": false, "x": false,
	} {
		if err := publicOnly(address); (err == nil) != want {
			t.Errorf("%s: %v, want public: %v", address, err, want)
		}
	}
}

func TestWebhookFlags(t *testing.T) {
	t.Setenv("BELLJAR_TEST_SHORT", "short")
	for want, h := range map[string]hooking{
		"without --webhook URL":  {secret: "env:X"},
		"want https://HOST/PATH": {url: "http://hook.example/", secret: "env:X"},
		"want https://HOST":      {url: "https://u:p@hook.example/", secret: "env:X"},
		"want env:NAME or file:": {url: "https://hook.example/"},
		"want env:NAME":          {url: "https://hook.example/", secret: "the secret itself"},
		"no variable":            {url: "https://hook.example/", secret: "env:BELLJAR_TEST_NOTHING"},
		"want at least 16":       {url: "https://hook.example/", secret: "env:BELLJAR_TEST_SHORT"},
	} {
		k, err := h.open(context.Background(), &approver{}, hostexec.WrittenIn(), slog.New(slog.DiscardHandler))
		if err == nil {
			k.close()
			err = errors.New("it is taken")
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}
