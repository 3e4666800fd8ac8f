package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/wire"
)

// Bounds of the questions of a server during one call.
const (
	askedMost  = 8
	fieldsMost = 32
	askedWait  = 10 * time.Minute
	askedText  = 4000 // bytes of the message of a question
)

// asked answers a request of the server: it shows a form of the server to the person at the
// client whose call is running, or sends a question to that client's model. A request that
// cannot be passed on is refused with a text for the server.
func (c *conn) asked(ctx context.Context, r peer.Request) (json.RawMessage, error) {
	if r.Method == rootsMethod {
		return c.rootsOfBox()
	}
	c.mu.Lock()
	run := c.calls[r.Owner]
	c.mu.Unlock()
	n := c.countAsked(run)
	switch {
	case run == nil:
		return nil, wire.Errorf(wire.InvalidRequest, "no call is open, so there is nobody to ask")
	case run.quiet:
		return nil, wire.Errorf(wire.InvalidRequest, "nobody is asked for a completion")
	case n > askedMost:
		return nil, wire.Errorf(wire.InvalidRequest, "one call may ask at most %d times", askedMost)
	}
	id := c.questionID(n, r.Params)
	switch r.Method {
	case "elicitation/create":
		if wire.Text(wire.Member(r.Params, "mode")) == "url" {
			return c.askAddress(ctx, run, id, r.Params)
		}
		return c.elicit(ctx, run, id, r.Params)
	case sampleMethod:
		return c.sample(ctx, run, id, r.Params)
	}
	return nil, wire.Errorf(wire.MethodNotFound, "belljar does not pass %.80q on", r.Method)
}

// elicit shows a form of the server to the person at the client of a call.
func (c *conn) elicit(ctx context.Context, run *running, id string, params json.RawMessage) (json.RawMessage, error) {
	q, err := readQuestion(params)
	if err != nil {
		return nil, wire.Errorf(wire.InvalidParams, "%v", err)
	}
	if !run.now().Asks() {
		return nil, wire.Errorf(wire.InvalidRequest, "the person cannot be asked while the call runs")
	}
	a, err := c.question(ctx, run, id, q.form(c.server.Name))
	if err != nil {
		return nil, err
	}
	return q.result(a)
}

// question is a form of a server.
type question struct {
	message string
	fields  []field
}

// field is a field of a form, with the type that the server expects for its value.
type field struct {
	mcp.Field
	kind string // "string", "number", "integer", "boolean" or "array"
}

// readQuestion parses the params of elicitation/create (MCP 2025-11-25, "Elicitation").
func readQuestion(params json.RawMessage) (q question, err error) {
	var p struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Schema  struct {
			Properties json.RawMessage `json:"properties"`
			Required   []string        `json:"required"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return q, fmt.Errorf("the params cannot be read: %w", err)
	}
	if p.Mode != "" && p.Mode != "form" {
		return q, fmt.Errorf("the mode %.40q is not passed on; forms and addresses are", p.Mode)
	}
	q.message = readable(p.Message)
	var bad error
	if !wire.IsObject(p.Schema.Properties) {
		return q, nil
	}
	wire.Members(p.Schema.Properties, func(name, value []byte) bool {
		if len(q.fields) == fieldsMost {
			bad = fmt.Errorf("a form has at most %d fields", fieldsMost)
			return false
		}
		var f field
		if f, bad = readField(string(name), value); bad != nil {
			return false
		}
		f.Required = slices.Contains(p.Schema.Required, f.Name)
		q.fields = append(q.fields, f)
		return true
	})
	return q, bad
}

// readField parses one property of the schema of a form. A client gets only those members
// that the protocol knows.
func readField(name string, schema []byte) (f field, err error) {
	f = field{Field: mcp.Field{Name: name, Schema: make(map[string]json.RawMessage)}, kind: wire.Text(wire.Member(schema, "type"))}
	if !wire.IsObject(schema) {
		return f, fmt.Errorf("the field %.80q is not an object", name)
	}
	if !slices.Contains([]string{"string", "number", "integer", "boolean", "array"}, f.kind) {
		return f, fmt.Errorf("the field %.80q has the type %.40q, which forms do not have", name, f.kind)
	}
	wire.Members(schema, func(member, value []byte) bool {
		if slices.Contains(fieldMembers(), string(member)) {
			f.Schema[string(member)] = value
		}
		return true
	})
	return f, nil
}

// fieldMembers returns the members of the schema of a field (MCP 2025-11-25, "Elicitation",
// "Requested Schema").
func fieldMembers() []string {
	return []string{
		"type", "title", "description", "default", "enum", "enumNames", "oneOf", "items", "minItems", "maxItems",
		"minLength", "maxLength", "pattern", "format", "minimum", "maximum",
	}
}

// form returns the form that the person sees. It names the server, which wrote the text and
// gets the answer.
func (q question) form(server string) mcp.Form {
	f := mcp.Form{Message: fmt.Sprintf("The server %s asks, and gets what you answer. Give it no password or token.\n\n%s", upstream.Line(server), q.message)}
	for _, one := range q.fields {
		f.Fields = append(f.Fields, one.Field)
	}
	return f
}

// result returns the answer for the server.
func (q question) result(a mcp.FormAnswer) (json.RawMessage, error) {
	if a.Action != mcp.FormAccepted || a.Itself() || a.Sample != nil {
		action := a.Action
		if action == mcp.FormAccepted {
			action = mcp.FormDismissed // no person has accepted it
		}
		return json.Marshal(map[string]string{"action": action})
	}
	content := make(map[string]any, len(q.fields))
	for _, f := range q.fields {
		value, given := a.Content[f.Name]
		if !given {
			continue
		}
		text, isText := value.(string)
		switch {
		case f.kind == "number" || f.kind == "integer":
			if !isText {
				break
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, wire.Errorf(wire.InvalidParams, "the person wrote something that is not a number into %.80q", f.Name)
			}
			value = n
		case f.kind == "boolean" && isText:
			value = text == "true"
		}
		content[f.Name] = value
	}
	return json.Marshal(map[string]any{"action": mcp.FormAccepted, "content": content})
}
