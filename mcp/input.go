package mcp

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// In the modern era a server asks a question in a result. A call that needs a person
// returns the question (input_required). The client makes the same call again, with the
// answers and with a state of the server, which it can neither read nor change (MCP
// 2026-07-28, "Multi Round-Trip Requests"). The question itself is open on the server; the
// state only proves that this call asked it.

// Limits of a round trip.
const (
	stateLife  = 15 * time.Minute // longest time for an answer; the question may expire earlier
	maxState   = 4 << 10          // bytes
	maxAnswers = 16               // questions of one call
)

// input is a modern call's exchange with its client: the answers that came with the call,
// and the questions to ask. Several goroutines may add questions at the same time, because
// an upstream may ask several.
type input struct {
	shows   bool   // the client shows forms
	opens   bool   // the client lets its person open addresses
	samples bool   // the client has a model that can be asked
	client  string // name and version

	state   string                // requestState as the client sent it, with answers to questions of an earlier call; empty without one
	answers sdk.InputResponseMap  // inputResponses of the request
	brought map[string]FormAnswer // the answers, once the state has proved that they are for this call

	mu    sync.Mutex
	wants map[string]Form // guarded by mu: by the question's ID
}

// want adds a question to the client.
func (in *input) want(o Offer) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.wants == nil {
		in.wants = make(map[string]Form)
	}
	in.wants[o.ID] = o.Form
}

// asks returns the questions to the client so far. A nil input has no questions.
func (in *input) asks() map[string]Form {
	if in == nil {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.wants)
}

// needs is a result that asks the client questions.
type needs struct {
	forms map[string]Form
	state string
}

// requests returns the forms in the type of the protocol.
func (n *needs) requests() (sdk.InputRequestMap, error) {
	all := make(sdk.InputRequestMap, len(n.forms))
	for id, f := range n.forms {
		r, err := f.request()
		if err != nil {
			return nil, wire.Errorf(wire.InternalError, "%v", err)
		}
		all[id] = r
	}
	return all, nil
}

// frame returns the result as a line of the wire, without its LF. server is the description
// of the server.
func (n *needs) frame(id []byte, server json.RawMessage) ([]byte, error) {
	requests, err := n.requests()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(map[string]any{
		"_meta": map[string]any{wire.ServerKey: server}, "resultType": "input_required", "inputRequests": requests, "requestState": n.state,
	})
	if err != nil {
		return nil, wire.Errorf(wire.InternalError, "marshal the questions: %v", err)
	}
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), raw, []byte("}")), nil
}

// sealer makes the states that clients carry from one call to the next, and verifies them.
type sealer struct{ key []byte }

// newSealer returns a sealer with a key. If the key is nil, it makes a random key.
func newSealer(key []byte) *sealer {
	if key == nil {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // Read does not fail (crypto/rand)
	}
	return &sealer{key: key}
}

// roundTrip is the content of a state.
type roundTrip struct {
	IDs []string `json:"q"`
	End int64    `json:"x"` // milliseconds since 1970
}

// needsOf returns a result with the questions of a call.
func (k *sealer) needsOf(c Call, args json.RawMessage, forms map[string]Form) *needs {
	ids := slices.Sorted(maps.Keys(forms))
	text, err := json.Marshal(roundTrip{ids, time.Now().Add(stateLife).UnixMilli()})
	if err != nil {
		text = nil // does not happen: texts and a number can be marshalled
	}
	state := base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(k.seal(c.Session, c.Tool, args, text))
	return &needs{forms: forms, state: state}
}

// seal returns a MAC that binds a state to the caller and to the content of the call.
func (k *sealer) seal(session *Session, tool string, args json.RawMessage, text []byte) []byte {
	mac := hmac.New(sha256.New, k.key)
	for _, part := range [][]byte{[]byte(session.tenant), []byte(session.principal), []byte(tool), canonicalJSON(args), text} {
		sum := sha256.Sum256(part)
		mac.Write(sum[:])
	}
	return mac.Sum(nil)
}

// canonicalJSON returns an object with its members sorted, because a client may write the
// same object in another way.
func canonicalJSON(args json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return args
	}
	text, err := json.Marshal(v)
	if err != nil {
		return args
	}
	return text
}

// open accepts the answers that came with a call of a tool, or returns an error.
func (k *sealer) open(in *input, session *Session, tool string, args json.RawMessage) error {
	if in.state == "" && len(in.answers) == 0 {
		return nil
	}
	foreign := wire.Errorf(wire.InvalidParams, "requestState: this server did not issue it for this call, or it is too old; make the call again without requestState")
	payload, sum, _ := strings.Cut(in.state, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || len(in.state) > maxState || len(in.answers) > maxAnswers {
		return foreign
	}
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !hmac.Equal(mac, k.seal(session, tool, args, text)) {
		return foreign
	}
	var trip roundTrip
	if json.Unmarshal(text, &trip) != nil {
		return foreign
	}
	took := stateLife - time.Until(time.UnixMilli(trip.End))
	if took > stateLife {
		return foreign
	}
	in.brought = make(map[string]FormAnswer)
	for _, id := range trip.IDs {
		switch a := in.answers[id].(type) {
		case *sdk.ElicitResult:
			in.brought[id] = FormAnswer{Action: a.Action, Content: a.Content, Took: took}
		case *sdk.CreateMessageWithToolsResult:
			sample, err := json.Marshal(a)
			if err != nil {
				return foreign
			}
			in.brought[id] = FormAnswer{Action: FormAccepted, Sample: sample, Took: took}
		}
	}
	return nil
}

// inputOf returns the input of a modern call that the sdk has read; nil for a legacy call.
func inputOf(req *sdk.CallToolRequest) *input {
	if eraOf(req) != wire.Modern {
		return nil
	}
	in := &input{state: req.Params.RequestState, answers: req.Params.InputResponses}
	if who := req.ClientInfo(); who != nil {
		in.client = named(who.Name, who.Version)
	}
	if can := req.ClientCapabilities(); can != nil && can.Elicitation != nil {
		in.shows = can.Elicitation.Form != nil || can.Elicitation.URL == nil
		in.opens = can.Elicitation.URL != nil
	}
	if can := req.ClientCapabilities(); can != nil {
		in.samples = can.Sampling != nil
	}
	return in
}

// showsForms reports whether the capabilities of a modern client declare that it shows
// forms.
func showsForms(capabilities []byte) bool {
	elicitation := wire.Member(capabilities, "elicitation")
	form, url := wire.Member(elicitation, "form"), wire.Member(elicitation, "url")
	return wire.IsObject(elicitation) && (wire.IsObject(form) || isNone(form) && isNone(url))
}

// opensAddresses reports whether the capabilities of a modern client declare that it lets
// its person open addresses.
func opensAddresses(capabilities []byte) bool {
	return wire.IsObject(wire.Member(wire.Member(capabilities, "elicitation"), "url"))
}

// isNone reports whether a member is left out, or null.
func isNone(value []byte) bool { return value == nil || string(value) == "null" }
