package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Form is what the person at a client is asked: a text, and fields below it.
type Form struct {
	Message string
	Fields  []Field
}

// Field is one thing to fill in. Forms of the protocol hold no more than texts
// and choices (2025-11-25, "Elicitation").
type Field struct {
	Name        string
	Title       string
	Description string
	Options     []string // to choose from; none is a text of one's own
	Many        bool     // several of them
	Default     string
	Required    bool
}

// FormAnswer is what the person did with a form.
type FormAnswer struct {
	Action  string         // "accept", "decline", or "cancel" for a form that was put away
	Content map[string]any // of the fields, where it was accepted; whatever the client sent
	Client  string         // name and version, which prove nothing
	Took    time.Duration  // from the question to the answer
	Trusted bool           // the operator takes what clients say by themselves
}

// instant is less than a person takes to react to anything at all, let alone to
// read a question. Clients that run without one answer in milliseconds (codex exec
// declines in 7).
const instant = 200 * time.Millisecond

// Itself reports whether the client must have answered itself, which nobody said it
// may: no person can have read the form.
func (a FormAnswer) Itself() bool { return !a.Trusted && a.Took < instant }

// Answerer says who answered a question that was put to a client, as far as that is
// known: what a client calls itself proves nothing, nor does it say whether a person
// was there.
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

// Offer is a question that stands on the server, as it is put to a client.
type Offer struct {
	ID   string // of the question, unique on the server
	Form Form
	Left time.Duration // until it needs no answer any more
	// Over returns when the question has its answer or ctx ends.
	Over func(ctx context.Context)
	// Take is given the answer. It may be called after the call has returned. With
	// ErrItself it leaves the question open.
	Take func(ctx context.Context, a FormAnswer) error
}

// ErrItself is what Offer.Take returns for an answer that the client gives by itself,
// where people can be asked in other ways.
var ErrItself = errors.New("the client answered without a person")

// Asked is how a client is asked.
type Asked int

// What became of an Offer.
const (
	// NotAsked is a client that cannot show forms.
	NotAsked Asked = iota
	// AskedNow is one that shows it, or has brought its answer along, which was
	// taken. A handler waits for the answer as long as it likes.
	AskedNow
	// AskedByResult is one that is asked by the result of this call: the handler
	// returns at once, and what it returns is not sent. The client makes the call
	// again with the answer.
	AskedByResult
)

// Ask puts a question to the person at the client of a call, in the way of the
// era: a request to the client while the call runs, or a result that the client
// answers by making the call again.
func (c Call) Ask(ctx context.Context, o Offer) Asked {
	client := c.Session.server.elicitor(c)
	if client == nil {
		return NotAsked
	}
	return client.ask(ctx, o)
}

// Shows reports whether the client of a call can be expected to show a form to
// a person.
func (c Call) Shows() bool {
	client := c.Session.server.elicitor(c)
	return client != nil && client.proven()
}

// params is the form as the protocol has it.
func (f Form) params() *sdk.ElicitParams {
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
