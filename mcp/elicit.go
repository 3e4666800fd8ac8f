package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A client that declares elicitation can be asked, but some clients declare it and show no
// form to any person. So every question is also open on the server. A client counts as a
// way of its own only after it has answered once, or if it is known to show forms.

// answering are the names of clients that show an elicitation to a person and send
// back the person's answer. Clients give themselves these names.
var answering = []string{"claude-code", "codex-mcp-client", "Visual Studio Code"}

// Limits of the questions to one client.
const (
	maxAsked   = 8 // questions to a person that are open at the same time
	maxSampled = 4 // questions to its model that are open at the same time; they do not count in maxAsked
	maxIgnored = 4 // questions in a row without an answer; after them the client is not asked again
)

// peer is a client that can be asked.
type peer struct {
	sdk *sdk.ServerSession

	mu      sync.Mutex
	open    []string // guarded by mu: IDs of the open questions to its person
	sampled []string // guarded by mu: IDs of the open questions to its model
	replied bool     // guarded by mu: the client has answered once
	ignored int      // guarded by mu: number of questions in a row without an answer
}

// reach stores how the client of a session is asked, and the outlet for messages that
// belong to no request.
func (s *Session) reach(ss *sdk.ServerSession, out outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.peer, s.conn.out = &peer{sdk: ss}, out
}

// elicitorOf returns the client of a call if a person at it can be asked, or nil.
func elicitorOf(c Call) *asker {
	if c.input != nil && !c.input.shows {
		return nil
	}
	k, can := askerOf(c)
	if k == nil || k.input != nil {
		return k
	}
	if e := can.Elicitation; e == nil || e.Form == nil && e.URL != nil { // the client shows only addresses
		return nil
	}
	return k.patient()
}

// openerOf returns the client of a call if it can have its person open an address, or nil.
func openerOf(c Call) *asker {
	if c.input != nil && !c.input.opens {
		return nil
	}
	k, can := askerOf(c)
	if k == nil || k.input != nil {
		return k
	}
	if e := can.Elicitation; e == nil || e.URL == nil {
		return nil
	}
	return k.patient()
}

// patient returns the client unless its person has ignored too many questions.
func (k *asker) patient() *asker {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ignored >= maxIgnored {
		return nil
	}
	return k
}

// samplerOf returns the client of a call if its model can be asked, or nil.
func samplerOf(c Call) *asker {
	if c.input != nil && !c.input.samples {
		return nil
	}
	k, can := askerOf(c)
	if k != nil && k.input == nil && can.Sampling == nil {
		return nil
	}
	return k
}

// askerOf returns the client of a call and the client's capabilities, or nil if the client
// cannot be asked. In the modern era the capabilities are nil, because they are part of the
// call.
func askerOf(c Call) (*asker, *sdk.ClientCapabilities) {
	session := c.Session
	if c.input != nil {
		return &asker{session: session, input: c.input}, nil
	}
	session.mu.Lock()
	p, name, version := session.conn.peer, session.conn.client, session.conn.version
	session.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	said := p.sdk.InitializeParams()
	if said == nil || said.ProtocolVersion >= wire.ModernRevision || said.Capabilities == nil {
		return nil, nil
	}
	return &asker{peer: p, session: session, client: name, named: named(name, version)}, said.Capabilities
}

// Ask puts a question to the person or the model at the client of a call. The way depends
// on the era: a request to the client while the call runs, or a result that the client
// answers by making the call again.
func (c Call) Ask(ctx context.Context, o Offer) Asked {
	var client *asker
	switch {
	case o.Form.Sample != nil:
		client = samplerOf(c)
	case o.Form.URL != "":
		client = openerOf(c)
	default:
		client = elicitorOf(c)
	}
	if client == nil {
		return NotAsked
	}
	return client.ask(ctx, o)
}

// Asks reports whether the person at the client of a call can be asked at all: the client
// declares that it shows forms.
func (c Call) Asks() bool { return elicitorOf(c) != nil }

// Samples reports whether the model of the client of a call can be asked.
func (c Call) Samples() bool { return samplerOf(c) != nil }

// Opens returns the way in which the person at the client of a call can be asked to open an
// address: NotAsked if the client cannot do this, AskedNow if a request asks the client,
// and AskedByResult if a result asks it.
func (c Call) Opens() Asked {
	switch k := openerOf(c); {
	case k == nil:
		return NotAsked
	case k.input != nil:
		return AskedByResult
	}
	return AskedNow
}

// AsksByResult reports whether the client of a call is asked by the call's result. Then Ask
// returns AskedNow only after the client has made the call again with the answer.
func (c Call) AsksByResult() bool {
	return c.input != nil && (c.input.shows || c.input.opens || c.input.samples) && c.Later == ""
}

// Brought returns the IDs of the questions whose answers came with the call, in order.
func (c Call) Brought() []string {
	if c.input == nil {
		return nil
	}
	return sortedKeys(c.input.brought)
}

// Shows reports whether the client of a call can be expected to show a form to
// a person.
func (c Call) Shows() bool {
	client := elicitorOf(c)
	return client != nil && client.proven()
}

// asker asks the client of a call.
type asker struct {
	*peer   // nil in the modern era
	session *Session
	client  string
	named   string // name of the client, with its version
	input   *input // nil in the legacy era
}

// proven reports whether a person can be expected to see a question to the client. The
// modern era needs no proof, because the call does not continue without the client's
// answer.
func (k *asker) proven() bool {
	if k.input != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.replied || slices.Contains(answering, k.client)
}

// ask shows a question to the client. In the legacy era it does so in a goroutine, which
// ends with the question or the session: the call may return earlier.
func (k *asker) ask(ctx context.Context, o Offer) Asked {
	if in := k.input; in != nil {
		a, brought := in.brought[o.ID]
		if !brought {
			in.want(o)
			return AskedByResult
		}
		a.Client = in.client
		k.take(ctx, o, a)
		return AskedNow
	}
	if !k.begin(o) {
		if o.Lost != nil {
			o.Lost()
		}
		return AskedNow
	}
	k.session.mu.Lock()
	defer k.session.mu.Unlock()
	if k.session.life.ended {
		k.end(o, silent)
		return AskedNow
	}
	// ctx keeps its values: over HTTP, they name the stream for the question.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(o.Left, time.Second))
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
			defer cancel() // the question is over
			o.Over(ctx)
		})
		how := k.elicit(ctx, o)
		k.end(o, how)
		if how == ignored && o.Lost != nil {
			o.Lost()
		}
	})
	return AskedNow
}

// take passes on the client's answer.
func (k *asker) take(ctx context.Context, o Offer, a FormAnswer) reply {
	a.Trusted = k.session.server.cfg.TrustClients
	err := o.Take(ctx, a)
	log := k.session.server.cfg.Log.With("session", k.session.id, "question", o.ID)
	switch {
	case errors.Is(err, ErrItself):
		log.Info("a client answered a question without a person; the question stays open for other people", "client", a.Client, "action", a.Action, "took", a.Took)
		return ignored
	case err != nil:
		log.Warn("a client's answer to a question was not accepted", "error", err)
	}
	return replied
}

// reply is the reaction of a client to a question.
type reply int

const (
	silent  reply = iota // another way was faster, or the session ended
	ignored              // no answer in time, an error, or an answer without a person
	replied
)

// asks returns the open questions of the same kind as an offer, and their largest number;
// the caller holds mu.
func (p *peer) asks(o Offer) (open *[]string, most int) {
	if o.Form.Sample != nil {
		return &p.sampled, maxSampled
	}
	return &p.open, maxAsked
}

// begin records that the client is asked. It returns false if the client already has this
// question, or has too many.
func (k *asker) begin(o Offer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	open, most := k.asks(o)
	if len(*open) >= most || slices.Contains(*open, o.ID) {
		return false
	}
	*open = append(*open, o.ID)
	return true
}

func (k *asker) end(o Offer, how reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	open, _ := k.asks(o)
	*open = slices.DeleteFunc(*open, func(id string) bool { return id == o.ID })
	switch how {
	case replied:
		k.replied, k.ignored = true, 0
	case ignored:
		k.ignored++
	case silent:
	}
}

// answers are the choices of a form, the default first, with the scopes of the choices that
// mean yes.
var answers = []struct{ text, scope string }{
	{"no", ""}, {"yes, this once", "once"}, {"yes, for this session", "session"}, {"yes, for the hours that the policy allows", "hours"},
}

// elicit asks the person at the client, and passes on the answer.
func (k *asker) elicit(ctx context.Context, o Offer) reply {
	if o.Form.Sample != nil {
		k.sample(ctx, o)
		return silent // the answer of a model shows nothing about the person
	}
	asked := time.Now()
	params := o.Form.params()
	if o.Form.URL != "" {
		params.ElicitationID = o.ID // revisions before 2026-07-28 require the id
	}
	res, err := k.sdk.Elicit(ctx, params)
	if err != nil {
		k.session.server.cfg.Log.Debug("a client was asked and did not answer", "session", k.session.id, "question", o.ID, "error", err)
		if errors.Is(ctx.Err(), context.Canceled) {
			return silent
		}
		return ignored
	}
	return k.take(context.WithoutCancel(ctx), o, FormAnswer{Action: res.Action, Content: res.Content, Client: k.named, Took: time.Since(asked)})
}

// sample asks the client's model, and passes on its answer.
func (k *asker) sample(ctx context.Context, o Offer) {
	asked := time.Now()
	a := FormAnswer{Action: FormDeclined, Client: k.named}
	params, err := o.Form.sampling()
	if err == nil {
		var res *sdk.CreateMessageResult
		if res, err = k.sdk.CreateMessage(ctx, params); err == nil {
			a.Sample, err = json.Marshal(res)
		}
	}
	if err != nil {
		k.session.server.cfg.Log.Debug("a client's model was asked and did not answer", "session", k.session.id, "question", o.ID, "error", err)
	} else {
		a.Action = FormAccepted
	}
	a.Took = time.Since(asked)
	k.take(context.WithoutCancel(ctx), o, a)
}

// AddressDone notifies the client of a session that what its person had to do at an address
// is done. question is the ID of the Offer. In revision 2026-07-28, clients have no such
// notification.
func AddressDone(s *Session, question string) {
	client, _ := askerOf(Call{Session: s})
	if client == nil {
		return
	}
	s.mu.Lock()
	to, ended := s.conn.out, s.life.ended
	s.mu.Unlock()
	if to == nil || ended {
		return
	}
	frame := append([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), wire.AppendQuoted(nil, question)...)
	if err := to.Send(append(frame, "}}"...), aProgress); err != nil {
		s.server.cfg.Log.Debug("the end of a question was not sent", "session", s.id, "error", err)
	}
}

// offer returns an approval in the form for a client. elsewhere is true if people can also
// be asked in other ways.
func offer(approver Approver, q Question, a Approval, elsewhere bool) Offer {
	offered := []string{answers[0].text}
	for _, o := range answers[1:] {
		if slices.Contains(a.Scopes, o.scope) {
			offered = append(offered, o.text)
		}
	}
	return Offer{
		ID: a.ID, Left: a.Left,
		Form: Form{Message: form(q, a), Fields: []Field{
			{Name: "answer", Title: "May it run?", Options: offered, Default: offered[0], Required: true},
			{Name: "note", Title: "What should the agent know?", Description: "The agent gets this note with any answer."},
		}},
		Over: func(ctx context.Context) { _, _ = approver.Wait(ctx, a.ID, a.Left) },
		Take: func(ctx context.Context, f FormAnswer) error {
			said := ClientAnswer{Client: f.Client, Took: f.Took, Itself: f.Itself()}
			said.Note, _ = f.Content["note"].(string)
			switch f.Action {
			case FormAccepted:
				text, _ := f.Content["answer"].(string)
				for _, o := range answers[1:] {
					if o.text == text {
						said.Yes, said.Scope = true, o.scope
					}
				}
			case FormDeclined:
			default:
				return nil // the form was dismissed: the question stays open for other people
			}
			if said.Itself && elsewhere {
				return ErrItself
			}
			said.Yes = said.Yes && !said.Itself // without a person, a yes does not count
			return approver.Answer(ctx, a.ID, said)
		},
	}
}

// form returns the text that the person at the client reads.
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
