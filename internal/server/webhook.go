package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/front"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/pause"
	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// Bounds of the messages to a webhook.
const (
	webhookQueue    = 64               // most questions that wait to be sent; a further question is not sent
	webhookTries    = 5                // most tries for one question
	webhookPause    = time.Second      // pause before the second try; each further pause is twice as long
	webhookPatience = 10 * time.Second // time limit for the answer to one try
	webhookSecret   = 16               // least bytes of a secret

	answerMost     = 64 << 10        // most bytes of an answer
	answerPatience = 5 * time.Second // time limit for reading the request of an answer
)

// Webhook is the configuration of a webhook that gets the questions to people.
type Webhook struct {
	URL     string
	Secret  string // secret with which requests are signed: env:NAME or file:PATH
	Answers string // loopback address that receives answers; empty for no answers
	Private bool   // whether the URL may be on this machine or in a private network
}

// Check returns an error if the URL does not have a valid form.
func (h Webhook) Check() error {
	_, err := h.url()
	return err
}

func (h Webhook) url() (*url.URL, error) {
	to, err := url.Parse(h.URL)
	if err != nil || to.Scheme != "https" && (to.Scheme != "http" || !h.Private) || to.Host == "" || to.User != nil {
		return nil, fmt.Errorf("--webhook %q: want https://HOST/PATH, or http with --webhook-private", h.URL)
	}
	return to, nil
}

// webhook sends questions to a URL, and receives the answers.
type webhook struct {
	to     *url.URL
	secret []byte
	port   net.Listener // port for answers; nil if none are received
	client http.Client
	pause  time.Duration
	queue  chan approval.Approval
	log    *slog.Logger
	wg     sync.WaitGroup
	stop   context.CancelFunc
	server http.Server
}

// openWebhook begins to send questions, and to receive answers. The caller closes the
// webhook.
func openWebhook(ctx context.Context, h Webhook, w *ways, from *front.Inherited, boxes hostexec.Boxes, log *slog.Logger) (*webhook, error) {
	to, err := h.url()
	if err != nil {
		return nil, err
	}
	secret, err := h.read(ctx, boxes)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: webhookPatience}
	if !h.Private {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return publicOnly(address) }
	}
	k := &webhook{to: to, secret: []byte(secret), pause: webhookPause, queue: make(chan approval.Approval, webhookQueue), log: log}
	k.client = http.Client{
		Timeout: webhookPatience, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: webhookPatience},
		// A redirect would lead to a URL that the operator has not chosen.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if h.Answers != "" {
		if k.port, err = front.ListenAnswers(ctx, h.Answers, from); err != nil {
			return nil, fmt.Errorf("webhook answers: %w", err)
		}
		k.take(w)
	}
	ctx, k.stop = context.WithCancel(ctx)
	k.wg.Go(func() { k.run(ctx) })
	w.tell(k.told)
	w.open(wayWebhook)
	return k, nil
}

// read returns the secret to which the flag refers. The flag never contains the value
// itself, which every process of the machine could read on the command line.
func (h Webhook) read(ctx context.Context, boxes hostexec.Boxes) (string, error) {
	kind, name, _ := strings.Cut(h.Secret, ":")
	var s policies.Secret
	switch {
	case kind == "env" && name != "":
		s.Env = name
	case kind == "file" && filepath.IsAbs(name):
		s.File = name
	default:
		return "", errors.New("--webhook-secret: want env:NAME or file:/ABSOLUTE/PATH; the requests must be signed")
	}
	text, err := config.ReadSecret(ctx, "of the webhook", s, hostexec.Program{Boxes: boxes})
	if err == nil && len(text) < webhookSecret {
		err = fmt.Errorf("secret of the webhook: %d bytes, want at least %d", len(text), webhookSecret)
	}
	return text, err
}

// close stops sending and receiving. Questions that wait are no longer sent: they stay
// open, and the command line shows them.
func (k *webhook) close() {
	k.stop()
	k.server.Close()
	k.wg.Wait()
}

// succeed leaves the port to a successor: this server accepts no more connections there,
// and still answers requests on open connections. It still sends the questions of its own
// calls.
func (k *webhook) succeed(ctx context.Context) {
	k.wg.Go(func() { _ = k.server.Shutdown(ctx) }) // close ends the connections that are still open
}

// told queues a new question.
func (k *webhook) told(e approval.Event) {
	if e.Kind != "asked" {
		return
	}
	select {
	case k.queue <- e.Approval:
	default:
		k.log.Warn("the webhook is not notified of a question: too many notifications wait", "approval", e.Approval.ID)
	}
}

// webhookBody is the body of a request to the webhook.
type webhookBody struct {
	Event    string            `json:"event"` // always approval.asked
	Approval approval.Approval `json:"approval"`
	Text     []string          `json:"text"`              // description of the call, one line per element
	Answer   string            `json:"answer,omitempty"`  // URL that receives the answer
	Token    string            `json:"token,omitempty"`   // token for Answer, valid for this approval only
	Command  string            `json:"command,omitempty"` // command that shows the question on this machine
	Deadline time.Time         `json:"deadline"`          // time at which the question ends without an answer
}

func (k *webhook) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-k.queue:
			k.deliver(ctx, a)
		}
	}
}

// deliver posts a question, and tries again a few times if this fails.
func (k *webhook) deliver(ctx context.Context, a approval.Approval) {
	body := webhookBody{
		Event: "approval.asked", Approval: a, Text: a.Shown.Lines(), Command: "belljar approve show " + a.ID, Deadline: a.Expires,
	}
	if k.port != nil {
		body.Answer, body.Token = "http://"+k.port.Addr().String()+"/approvals/"+a.ID, k.token(a.ID)
	}
	text, err := json.Marshal(body)
	if err != nil {
		k.log.Error("the webhook is not notified of a question", "approval", a.ID, "err", err)
		return
	}
	wait := k.pause
	for try := 1; ; try++ {
		again, err := k.post(ctx, a.ID, text)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !again || try == webhookTries || time.Now().After(a.Expires) {
			k.log.Warn("the webhook was not notified of a question; `belljar approve` shows the question", "approval", a.ID, "tries", try, "err", err)
			return
		}
		if pause.For(ctx, wait) != nil {
			return
		}
		wait *= 2
	}
}

// post makes one try. again reports whether another try may succeed.
func (k *webhook) post(ctx context.Context, id string, text []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.to.String(), bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "belljar/"+buildinfo.Version())
	req.Header.Set("Belljar-Delivery", id)
	req.Header.Set("Belljar-Signature", "t="+now+",v1="+k.sign("webhook", now+"."+string(text)))
	resp, err := k.client.Do(req)
	if err != nil {
		return !errors.Is(err, errNotPublic), err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("it answered %s", resp.Status)
}

// sign returns the HMAC-SHA256 of a text. Signatures for different kinds are of different
// texts.
func (k *webhook) sign(kind, text string) string {
	m := hmac.New(sha256.New, k.secret)
	if kind != "webhook" { // for a webhook, only the text itself is signed, because its receivers check this
		text = kind + "\x00" + text
	}
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// token returns the permission to answer one approval. Only the receiver of the question
// has it. It is effective once, because only the first answer counts, and it survives a
// restart.
func (k *webhook) token(id string) string { return k.sign("answer", id) }

// webhookAnswer is an answer that the webhook receives.
type webhookAnswer struct {
	Token string `json:"token"`
	Yes   bool   `json:"yes"`
	Scope string `json:"scope"` // scope in the form for control.ParseScope
	By    string `json:"by"`    // name of the person who answered, as the webhook knows it
	Note  string `json:"note"`
}

// take starts the server that receives the answers.
func (k *webhook) take(ask *ways) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		var said webhookAnswer
		if err := json.NewDecoder(io.LimitReader(r.Body, answerMost)).Decode(&said); err != nil {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read answer: %v", err))
			return
		}
		if !hmac.Equal([]byte(said.Token), []byte(k.token(id))) {
			control.Respond(w, http.StatusForbidden, "the token is not for this approval")
			return
		}
		scope, most, err := control.ParseScope(said.Scope)
		if err != nil {
			control.Respond(w, http.StatusBadRequest, err.Error())
			return
		}
		got, err := ask.answer(r.Context(), id, approval.Reply{
			Yes: said.Yes, Scope: scope, For: most, By: cmp.Or(said.By, "the webhook"), Via: wayWebhook, Note: said.Note,
		})
		reply(w, got, err)
	})
	k.server = http.Server{
		Handler: mux, ReadTimeout: answerPatience, WriteTimeout: 2 * answerPatience, IdleTimeout: answerPatience,
		MaxHeaderBytes: answerMost, ErrorLog: slog.NewLogLogger(k.log.Handler(), slog.LevelWarn),
	}
	k.wg.Go(func() {
		if err := k.server.Serve(k.port); !errors.Is(err, http.ErrServerClosed) {
			k.log.Error("webhook answers", "err", err)
		}
	})
}

var errNotPublic = errors.New("it leads to this machine or to a private network; --webhook-private allows that")

// closed contains the networks that are not public, in addition to those that netip knows:
// shared address space, protocol assignments, benchmarks and the forms of IPv6 that contain
// an IPv4 address (RFC 6890, RFC 6052).
var closed = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"),
}

// publicOnly returns an error if an address that is about to be dialled is not in the
// public network.
func publicOnly(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || slices.ContainsFunc(closed, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return errNotPublic
	}
	return nil
}
