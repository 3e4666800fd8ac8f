package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Form is a question to the person at a client: a text, and fields below it.
type Form struct {
	Message string
	Fields  []Field
	// Sample, if it is not nil, are the params of sampling/createMessage: the question is for
	// the client's model, without a form. The client decides whether a person sees it.
	Sample json.RawMessage
	// URL, if it is not empty, is an address that the person is asked to open in a browser,
	// without a form. The answer states only whether the person agrees. Message must name
	// the host, because a client does not have to show the address.
	URL string
}

// Field is one field of a form. The fields of this server are only texts and choices.
type Field struct {
	Name        string
	Title       string
	Description string
	Options     []string // choices of the field; if empty, the field takes a text
	Many        bool     // several options may be chosen
	Default     string
	Required    bool
	// Schema, if it is not nil, replaces all other fields except Name and Required. It is
	// for a form of an upstream, which also has numbers and other types.
	Schema map[string]json.RawMessage
}

// FormAnswer is a person's answer to a form.
type FormAnswer struct {
	Action  string         // "accept", "decline", or "cancel" for a form that was dismissed
	Content map[string]any // values of the fields if the form was accepted, as the client sent them
	// Sample is the result of sampling/createMessage, if the model was asked and has
	// answered.
	Sample  json.RawMessage
	Client  string        // name and version as the client states them, which prove nothing
	Took    time.Duration // time from the question to the answer
	Trusted bool          // the operator accepts answers that clients give by themselves
}

// instant is shorter than any person's reaction, let alone the time to read a
// question. Clients that run without a person answer in milliseconds (codex exec
// declines in 7).
const instant = 200 * time.Millisecond

// Itself reports whether the client must have answered by itself, without the
// operator's permission: no person can have read the form.
func (a FormAnswer) Itself() bool { return !a.Trusted && a.Took < instant }

// Answerer returns a name for the one who answered a question at a client, as far as it is
// known. A client's own name proves nothing, and does not show whether a person was there.
func Answerer(client string, took time.Duration) string {
	who := "the client"
	if client != "" {
		who += " " + client
	}
	if took < time.Second {
		return who + fmt.Sprintf(" in %d ms", took.Milliseconds())
	}
	return who + fmt.Sprintf(" in %d s", took/time.Second)
}

// The actions of a FormAnswer.
const (
	FormAccepted  = "accept"
	FormDeclined  = "decline"
	FormDismissed = "cancel"
)

// Offer is an open question of the server, in the form for a client.
type Offer struct {
	ID   string // ID of the question, unique on the server
	Form Form
	Left time.Duration // time until an answer is too late
	// Over returns when the question has its answer or ctx ends.
	Over func(ctx context.Context)
	// Take gets the answer. It may be called after the call has returned. If it
	// returns ErrItself, the question stays open.
	Take func(ctx context.Context, a FormAnswer) error
	// Lost is called if the client was asked and gives no answer, or if it cannot be asked
	// now. It is nil for a question that can be answered in other ways.
	Lost func()
}

// ErrItself is the error of Offer.Take for an answer that the client gave by itself, if
// people can be asked in other ways.
var ErrItself = errors.New("the client answered without a person")

// Asked is the way in which a client was asked.
type Asked int

// The values of Asked.
const (
	// NotAsked means that the client cannot show the question.
	NotAsked Asked = iota
	// AskedNow means that the client shows the form, or that the call came with the answer,
	// which was accepted. A handler may wait for the answer as long as it likes.
	AskedNow
	// AskedByResult means that the result of this call asks the client. The handler returns
	// immediately, and its own result is not sent. The client makes the call again with the
	// answer.
	AskedByResult
)

// CheckSample returns an error if params cannot be a Form.Sample.
func CheckSample(params json.RawMessage) error {
	_, err := Form{Sample: params}.sampling()
	return err
}

// request returns the question in the type of the protocol.
func (f Form) request() (sdk.InputRequest, error) {
	if f.Sample == nil {
		return f.params(), nil
	}
	return f.sampling()
}

// sampling returns the question for the client's model in the type of the protocol.
func (f Form) sampling() (*sdk.CreateMessageParams, error) {
	p := new(sdk.CreateMessageParams)
	if err := json.Unmarshal(f.Sample, p); err != nil {
		return nil, fmt.Errorf("the params of sampling/createMessage: %w", err)
	}
	return p, nil
}

// params returns the form in the type of the protocol.
func (f Form) params() *sdk.ElicitParams {
	if f.URL != "" {
		return &sdk.ElicitParams{Mode: "url", Message: f.Message, URL: f.URL}
	}
	properties, required := make(map[string]any, len(f.Fields)), []string{}
	for _, field := range f.Fields {
		p := map[string]any{"type": "string"}
		switch {
		case field.Many:
			p = map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": field.Options}}
		case len(field.Options) > 0:
			p["enum"] = field.Options
		}
		for key, text := range map[string]string{"title": field.Title, "description": field.Description} {
			if text != "" {
				p[key] = text
			}
		}
		if field.Default != "" && !field.Many {
			p["default"] = field.Default
		}
		if field.Schema != nil {
			clear(p)
			for key, value := range field.Schema {
				p[key] = value
			}
		}
		if field.Required {
			required = append(required, field.Name)
		}
		properties[field.Name] = p
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return &sdk.ElicitParams{Mode: "form", Message: f.Message, RequestedSchema: schema}
}
