package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/people/approval"
)

const hookKey = "a secret of some length"

// webhookBody is the body of a request to the webhook.
type webhookBody struct {
	Event    string
	Approval approval.Approval
	Text     []string
	Answer   string
	Token    string
}

// receiver starts a webhook that checks the requests that it receives.
func receiver(t *testing.T) (*httptest.Server, <-chan webhookBody) {
	t.Helper()
	got := make(chan webhookBody, 10)
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
		w.WriteHeader(http.StatusNoContent)
		var body webhookBody
		if err := json.Unmarshal(text, &body); err != nil {
			t.Error(err)
		}
		got <- body
	}))
	t.Cleanup(s.Close)
	return s, got
}

func TestApproveByWebhook(t *testing.T) {
	s, got := receiver(t)
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
		text, err := json.Marshal(map[string]any{"token": token, "yes": yes, "by": "ann"})
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

// The flags of the webhook are checked together, before anything is opened.
func TestWebhookFlags(t *testing.T) {
	for want, h := range map[string]webhookFlags{
		"without --webhook URL":  {Secret: "env:X"},
		"want https://HOST/PATH": {URL: "http://hook.example/", Secret: "env:X"},
	} {
		var status *statusError
		if _, err := h.webhook(); !errors.As(err, &status) || status.code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
	if w, err := (&webhookFlags{}).webhook(); w != nil || err != nil {
		t.Errorf("without a flag: %v, %v", w, err)
	}
}
