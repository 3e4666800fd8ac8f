package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/people/approval"
)

// receiver returns the URL of a webhook whose answers the test chooses, and a counter of
// its requests.
func receiver(t *testing.T, answer func(n int64) int) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	tries := &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer(tries.Add(1))) }))
	t.Cleanup(s.Close)
	return s, tries
}

func ok(int64) int { return http.StatusNoContent }

// webhookTo returns a webhook that sends questions to a URL, with short pauses.
func webhookTo(t *testing.T, h Webhook, log io.Writer) (*webhook, error) {
	t.Helper()
	t.Setenv("BELLJAR_TEST_HOOK", "a secret of some length")
	h.Secret = "env:BELLJAR_TEST_HOOK"
	k, err := openWebhook(t.Context(), h, &ways{}, nil, hostexec.WrittenIn(), slog.New(slog.NewTextHandler(log, nil)))
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
		"never":           {func(int64) int { return 500 }, webhookTries, "was not notified"},
		"refused":         {func(int64) int { return 404 }, 1, "was not notified"},
		"elsewhere":       {func(int64) int { return 307 }, 1, "was not notified"},
	} {
		t.Run(name, func(t *testing.T) {
			s, tries := receiver(t, tt.answer)
			var log bytes.Buffer
			k, err := webhookTo(t, Webhook{URL: s.URL, Private: true}, &log)
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
	s, tries := receiver(t, ok)
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	k, err := webhookTo(t, Webhook{URL: "https://" + to.Host}, &log)
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
	for want, h := range map[string]Webhook{
		"want https://HOST/PATH": {URL: "http://hook.example/", Secret: "env:X"},
		"want https://HOST":      {URL: "https://u:p@hook.example/", Secret: "env:X"},
		"want env:NAME or file:": {URL: "https://hook.example/"},
		"want env:NAME":          {URL: "https://hook.example/", Secret: "the secret itself"},
		"no variable":            {URL: "https://hook.example/", Secret: "env:BELLJAR_TEST_NOTHING"},
		"want at least 16":       {URL: "https://hook.example/", Secret: "env:BELLJAR_TEST_SHORT"},
	} {
		k, err := openWebhook(t.Context(), h, &ways{}, nil, hostexec.WrittenIn(), slog.New(slog.DiscardHandler))
		if err == nil {
			k.close()
			err = errors.New("it is taken")
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}
