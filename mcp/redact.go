package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// ruleRedact is the rule of a refusal if the result cannot be redacted.
const ruleRedact = "redact"

// refuseUnredactable returns d, or a refusal if d demands a redaction that this server
// cannot do.
func (g *callGate) refuseUnredactable(d policies.Decision) policies.Decision {
	if len(d.Redact) == 0 || d.Verdict != policies.Allow || g.cfg.Redact != nil {
		return d
	}
	return policies.Decision{
		Verdict: policies.Deny, Rule: ruleRedact,
		Reason:  "The policy requires a redaction of the result, and this server cannot redact.",
		Instead: "Tell the person you work for.",
	}
}

// withoutMessages returns progress without the tool's messages, for a call whose result
// must be redacted: a text could be split over two messages.
func withoutMessages(progress func(done, total float64, message string)) func(done, total float64, message string) {
	return func(done, total float64, _ string) { progress(done, total, "") }
}

// redactResult returns a result without the texts that the policy wants removed, including
// those in its structured part.
func (g *callGate) redactResult(r *Result, d policies.Decision) *Result {
	if g.cfg.Redact == nil {
		return r
	}
	clean := func(text string) string { return g.cfg.Redact(text, d.Redact) }
	with := *r // a copy, because the result belongs to the handler
	with.Content = slices.Clone(r.Content)
	var err error
	for i := range with.Content {
		c := &with.Content[i]
		if c.Text = clean(c.Text); c.Raw != nil && err == nil {
			c.Raw, err = redactBlock(c.Raw, clean)
		}
	}
	with.Meta = maps.Clone(r.Meta)
	for key, value := range r.Meta {
		if err == nil {
			with.Meta[key], err = redactJSON(value, clean)
		}
	}
	if r.Structured != nil && err == nil {
		raw, bad := json.Marshal(r.Structured)
		if bad != nil {
			return &with // sending the result fails in the same way
		}
		with.Structured, err = redactJSON(raw, clean)
	}
	if err != nil {
		return Failed("the result cannot be sent: the policy requires a redaction, and the result cannot be read to redact it: %v", err)
	}
	return &with
}

// redactError returns an error without the texts that the policy wants removed. The error
// of an upstream contains a text and data of the upstream.
func (g *callGate) redactError(e *wire.Error, d policies.Decision) *wire.Error {
	if len(d.Redact) == 0 || g.cfg.Redact == nil {
		return e
	}
	clean := func(text string) string { return g.cfg.Redact(text, d.Redact) }
	with := *e
	with.Text = clean(e.Text)
	if raw, ok := e.Data.(json.RawMessage); ok {
		data, err := redactJSON(raw, clean)
		if with.Data = data; err != nil {
			with.Data = nil
		}
	}
	return &with
}

// redactFault returns the error of a read or of a prompt without the texts that the policy
// wants removed. ErrNotFound stays ErrNotFound.
func (g *callGate) redactFault(err error, d policies.Decision) error {
	if err == nil || len(d.Redact) == 0 || g.cfg.Redact == nil {
		return err
	}
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		return g.redactError(bad, d)
	}
	clean := errors.New(g.cfg.Redact(err.Error(), d.Redact))
	if errors.Is(err, ErrNotFound) {
		return &redactedFault{clean, ErrNotFound}
	}
	return clean
}

// redactedFault is an error with a redacted text, and the kind of the error before that.
type redactedFault struct {
	error
	kind error
}

// Unwrap returns the kind.
func (e *redactedFault) Unwrap() error { return e.kind }

// redactJSON returns a JSON value with all its texts redacted.
func redactJSON(raw json.RawMessage, clean func(string) string) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(redactTexts(v, clean))
}

// redactBlock returns a content block with all its texts redacted. The bytes of a picture,
// a sound or a file are not changed: base64 contains no readable text, and a pattern would
// only damage it.
func redactBlock(block json.RawMessage, clean func(string) string) (json.RawMessage, error) {
	clear, err := redactJSON(block, clean)
	if err != nil {
		return nil, err
	}
	switch wire.Text(wire.Member(block, "type")) {
	case "image", "audio":
		return withBytes(clear, block, "data"), nil
	case "resource":
		before := wire.Member(block, "resource")
		if after := wire.Member(clear, "resource"); wire.IsObject(before) && wire.IsObject(after) {
			return withMember(clear, "resource", withBytes(after, before, "blob")), nil
		}
	}
	return clear, nil
}

// withBytes returns the object after with the earlier value of a member, if that value was
// base64.
func withBytes(after, before []byte, name string) []byte {
	text := wire.Member(before, name)
	if _, err := base64.StdEncoding.DecodeString(wire.Text(text)); text == nil || err != nil {
		return after
	}
	return withMember(after, name, text)
}

// redactTexts returns a JSON value with all its texts and the names of its members
// redacted, because an upstream may put a text in the place of a name.
func redactTexts(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = redactTexts(v[i], clean)
		}
	case map[string]any:
		with := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) { // if two names become equal, the later member is kept
			with[clean(key)] = redactTexts(v[key], clean)
		}
		return with
	}
	return v
}
