package mcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"belljar.dev/policies"
)

// ruleRedact is the rule of a refusal because the result cannot be redacted.
const ruleRedact = "redact"

// refuseUnredactable returns d, or a refusal where d demands a redaction that this server
// cannot do.
func (g *callGate) refuseUnredactable(d policies.Decision) policies.Decision {
	if len(d.Redact) == 0 || d.Verdict != policies.Allow || g.cfg.Redact != nil {
		return d
	}
	return policies.Decision{
		Verdict: policies.Deny, Rule: ruleRedact,
		Reason:  "The policy wants something taken out of the result, and this server cannot do it.",
		Instead: "Tell the person you work for.",
	}
}

// withoutMessages is progress without the tool's messages, for a call whose result is to be
// redacted: the text to redact could come in two pieces.
func withoutMessages(progress func(done, total float64, message string)) func(done, total float64, message string) {
	return func(done, total float64, _ string) { progress(done, total, "") }
}

// redactResult returns a result without the texts that the policy wants taken out, also in
// its structured part.
func (g *callGate) redactResult(r *Result, d policies.Decision) *Result {
	if g.cfg.Redact == nil {
		return r
	}
	clean := func(text string) string { return g.cfg.Redact(text, d.Redact) }
	with := *r // what a handler returned is its own
	with.Content = slices.Clone(r.Content)
	for i := range with.Content {
		with.Content[i].Text = clean(with.Content[i].Text)
	}
	if r.Structured == nil {
		return &with
	}
	raw, err := json.Marshal(r.Structured)
	if err != nil {
		return &with // and fails again where it is sent
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return Failed("the result cannot be given: the policy wants something taken out of it, and it cannot be read: %v", err)
	}
	with.Structured = redactTexts(v, clean)
	return &with
}

// redactTexts returns a JSON value with all its texts redacted. Names of members stay: they
// are the tool's.
func redactTexts(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = redactTexts(v[i], clean)
		}
	case map[string]any:
		for key := range v {
			v[key] = redactTexts(v[key], clean)
		}
	}
	return v
}
