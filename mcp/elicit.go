package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that has declared elicitation can be asked, but some declare it and
// show nobody anything. So a question always stands on the server as well, and
// a client counts as a way by itself only once it has answered, or where it is
// known to.

// answering are clients, by the names that they give themselves, that show an
// elicitation to a person and send back what the person said.
var answering = []string{"claude-code", "codex-mcp-client", "Visual Studio Code"}

// Bounds of asking one client.
const (
	maxAsked   = 8 // questions that are open at once
	maxIgnored = 4 // questions in a row that had no answer, after which it is asked no more
)

// peer is a client as one that can be asked.
type peer struct {
	sdk *sdk.ServerSession

	mu      sync.Mutex
	open    []string // guarded by mu: approvals that it is being asked about
	replied bool     // guarded by mu: it has answered once
	ignored int      // guarded by mu
}

// reach notes how the client of a session is asked.
func (s *Session) reach(ss *sdk.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer = &peer{sdk: ss}
}

// elicitor is the client of a session as one that can be asked, or nil. In the
// modern era a server cannot ask by itself.
func (s *Server) elicitor(session *Session) *asker {
	session.mu.Lock()
	p, name := session.peer, session.client
	session.mu.Unlock()
	if p == nil {
		return nil
	}
	said := p.sdk.InitializeParams()
	if said == nil || said.ProtocolVersion >= modernRevision || said.Capabilities == nil || said.Capabilities.Elicitation == nil {
		return nil
	}
	if e := said.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return nil // it shows addresses only
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ignored >= maxIgnored {
		return nil
	}
	return &asker{peer: p, session: session, client: name}
}

// asker asks the client of a session.
type asker struct {
	*peer
	session *Session
	client  string
}

// proven reports whether a person can be expected to see what it is asked.
func (k *asker) proven() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.replied || slices.Contains(answering, k.client)
}

// ask shows a question to the client, in a goroutine that ends when the
// question or the session does. It outlives the call, which may return first.
func (k *asker) ask(ctx context.Context, approver Approver, q Question, a Approval) {
	if !k.begin(a.ID) {
		return
	}
	k.session.mu.Lock()
	defer k.session.mu.Unlock()
	if k.session.ended {
		k.end(a.ID, silent)
		return
	}
	// What the context holds stays: over HTTP it says on which stream to ask.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(a.Left, time.Second))
	k.session.asking.Go(func() {
		var watch sync.WaitGroup
		defer watch.Wait()
		defer cancel()
		watch.Go(func() {
			defer cancel()
			select {
			case <-k.session.done:
			case <-ctx.Done():
			}
		})
		watch.Go(func() {
			defer cancel()
			// However the wait ends, there is nothing to ask any more.
			_, _ = approver.Wait(ctx, a.ID, a.Left)
		})
		k.end(a.ID, k.elicit(ctx, approver, q, a))
	})
}

// reply is how a client took a question.
type reply int

const (
	silent  reply = iota // another way was quicker, or the session ended
	ignored              // it let the time pass, or could not
	replied
)

// begin notes that the client is asked, unless it is already or too often.
func (k *asker) begin(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) >= maxAsked || slices.Contains(k.open, id) {
		return false
	}
	k.open = append(k.open, id)
	return true
}

func (k *asker) end(id string, how reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = slices.DeleteFunc(k.open, func(o string) bool { return o == id })
	switch how {
	case replied:
		k.replied, k.ignored = true, 0
	case ignored:
		k.ignored++
	case silent:
	}
}

// answers are what a form offers, the first by default, and the scopes of its
// yeses.
var answers = []struct{ text, scope string }{
	{"no", ""}, {"yes, this once", "once"}, {"yes, for this session", "session"}, {"yes, for the hours that the policy allows", "hours"},
}

// elicit asks, and hands on what the person said.
func (k *asker) elicit(ctx context.Context, approver Approver, q Question, a Approval) reply {
	offered := []any{answers[0].text}
	for _, o := range answers[1:] {
		if slices.Contains(a.Scopes, o.scope) {
			offered = append(offered, o.text)
		}
	}
	res, err := k.sdk.Elicit(ctx, &sdk.ElicitParams{
		Mode: "form", Message: form(q, a),
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{"answer": map[string]any{
				"type": "string", "title": "May it run?", "enum": offered, "default": offered[0],
			}},
			"required": []string{"answer"},
		},
	})
	if err != nil {
		k.session.server.cfg.Log.Debug("a client was asked for an approval and did not answer", "session", k.session.id, "approval", a.ID, "error", err)
		if errors.Is(ctx.Err(), context.Canceled) {
			return silent
		}
		return ignored
	}
	said := ClientAnswer{Client: k.client}
	switch res.Action {
	case "accept":
		text, _ := res.Content["answer"].(string)
		for _, o := range answers[1:] {
			if o.text == text {
				said.Yes, said.Scope = true, o.scope
			}
		}
	case "decline":
	default:
		return replied // dismissed: the question stays, for whoever else is asked
	}
	if err := approver.Answer(context.WithoutCancel(ctx), a.ID, said); err != nil {
		k.session.server.cfg.Log.Warn("a client's answer to an approval was not taken", "session", k.session.id, "approval", a.ID, "error", err)
	}
	return replied
}

// form is what the person at the client reads.
func form(q Question, a Approval) string {
	d := q.Decision
	var b strings.Builder
	fmt.Fprintf(&b, "belljar: an agent wants to call %s, and the policy asks a person first.\n\n", q.Call.Tool)
	for _, line := range a.Shown {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "\nProfile: %s. Rule: %s. %s\nApproval %s.", d.Offers().Profile(), d.Rule, d.Reason, a.ID)
	return b.String()
}
