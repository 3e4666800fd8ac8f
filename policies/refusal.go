package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPart bounds the part of a call that a refusal repeats, in characters.
const maxPart = 200

// The decisions of a Refusal. The first word of its text is the same word in capitals.
const (
	Denied  = "denied"  // nothing was run, and nobody will be asked
	Blocked = "blocked" // the sandbox refused something that a program did
	Waiting = "waiting" // nothing was run yet: a person is asked
)

// The values of Refusal.Retry. RetryProfile is followed by the name of a profile, and
// RetryAfter by a time.
const (
	RetryNever    = "never"          // the same call gets the same answer
	RetryApproved = "after_approval" // the same call runs once a person has said yes
	RetryProfile  = "with_profile:"
	RetryAfter    = "after:" // a time follows, for example 12s
)

// Refusal says why work was not done: as a text, which lets the agent correct its call
// immediately, and as members. Its JSON is what clients see under
// structuredContent.refusal.
type Refusal struct {
	Decision   string       `json:"decision" jsonschema:"denied, blocked or waiting"`
	Layer      string       `json:"layer" jsonschema:"policy or sandbox"`
	Rule       string       `json:"rule,omitempty"`
	Source     *RefusedAt   `json:"source,omitempty" jsonschema:"where the rule is written"`
	Part       *RefusedPart `json:"part,omitempty" jsonschema:"the part of the call that decided"`
	Reason     string       `json:"reason"`
	Instead    string       `json:"instead,omitempty" jsonschema:"an allowed way"`
	Retry      string       `json:"retry" jsonschema:"never, after_approval, after:TIME or with_profile:NAME"`
	ApprovalID string       `json:"approval_id,omitempty" jsonschema:"ReadBgOutput with this id shows the answer"`
	CallID     string       `json:"call_id,omitempty"`

	text string
}

// RefusedAt is the place of a rule. Line and Col are absent if a whole file decided, for
// example by its default.
type RefusedAt struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// RefusedPart is a part of a call: the words of a command if all of them are known and they
// are few, otherwise its text. Start and End are its place in bytes of the script.
type RefusedPart struct {
	Argv  []string `json:"argv,omitempty"`
	Text  string   `json:"text,omitempty"`
	Start int      `json:"start,omitempty"`
	End   int      `json:"end,omitempty"`
}

// Text returns the text of the refusal, which has several lines if a call was refused.
func (r Refusal) Text() string { return r.text }

// Refusal returns the text of Denied.
func (d Decision) Refusal(callID string) string { return d.Denied(callID).text }

// Denied returns the Refusal of a call that was not allowed. It says which rule refused,
// that nothing ran, which part it was, why, what to do instead, and whether trying again
// helps. callID is repeated so that logs can be searched for it; it may be empty. The text
// for a decision to ask is the one for the case that no approver is connected. The text for
// an allowed call is "".
func (d Decision) Denied(callID string) Refusal {
	r := d.refusal(Denied, callID)
	subject := cmp.Or(d.Subject, "call")
	head, again := "", "Wrapping or rewording this "+subject+" gives the same answer."
	switch d.Verdict {
	case Allow:
		return Refusal{}
	case Ask:
		head = ": a person must approve it, and no approver is connected"
		again = fmt.Sprintf("Until one is connected, repeating or wrapping this %s gives the same answer.", subject)
	case Deny:
		switch {
		case d.Retry > 0:
			again = fmt.Sprintf("Until then repeating or wrapping this %s gives the same answer.", subject)
		case d.Rule == ruleDefault:
			again = fmt.Sprintf("Wrapping this %s gives the same answer.", subject)
		case slices.Contains(reserved, d.Rule):
			again = fmt.Sprintf("Repeating this %s unchanged gives the same answer.", subject)
		}
	}
	r.text = d.said("DENIED by policy"+d.byRule()+head, r, again)
	return r
}

// Question is what the agent reads about a question to a person.
type Question struct {
	ID      string        // id of the approval
	Asked   []string      // the ways on which people are asked, for example "command line"
	Expires time.Duration // time after which no answer counts as a no
	Command string        // command by which a person says yes in a terminal; may be empty
}

// ByCommand returns a sentence that says how a person answers in a terminal, for an agent
// to pass on. It is empty if command is empty.
func ByCommand(command string) string {
	if command == "" {
		return ""
	}
	return fmt.Sprintf("Tell the person you work for to type `%s` in a terminal, or no in place of yes to refuse.", command)
}

// Waits returns the Refusal of a call that waits for a person's answer. It says that
// nothing ran yet, and how to find out the answer.
func (d Decision) Waits(callID string, q Question) Refusal {
	r := d.refusal(Waiting, callID)
	r.Retry, r.ApprovalID = RetryApproved, q.ID
	r.Instead = fmt.Sprintf("Go on with other work; call ReadBgOutput {\"id\":%q} for the answer.", q.ID)
	var b strings.Builder
	fmt.Fprintf(&b, "WAITING for approval %s (%s). Nothing was run.", q.ID, d.ruleName())
	if len(q.Asked) > 0 {
		fmt.Fprintf(&b, " Asked: %s.", strings.Join(q.Asked, ", "))
	}
	fmt.Fprintf(&b, " Expires in %s.\n", Spoken(q.Expires))
	d.part(&b)
	if how := ByCommand(q.Command); how != "" {
		b.WriteString(how + "\n")
	}
	fmt.Fprintf(&b, "Why: %s\n%s Once it is approved, the same call runs when it is repeated.%s", r.Reason, r.Instead, byCall(callID))
	r.text = b.String()
	return r
}

// Answer is the end of a question that did not get a yes.
type Answer struct {
	ID      string
	By      string // the person who said no; empty if nobody answered in time
	Note    string // further words of that person
	Revoked bool   // the answer was a yes, and was revoked
	Itself  bool   // a client answered without a person
	Waited  time.Duration
}

// Declined returns the Refusal of a call to which a person said no, or to which nobody
// answered in time, which counts as a no.
func (d Decision) Declined(callID string, a Answer) Refusal {
	r := d.refusal(Denied, callID)
	r.ApprovalID = a.ID
	head := fmt.Sprintf("DENIED by a person: approval %s (%s) was declined", a.ID, d.ruleName())
	r.Reason = "The person who was asked said no."
	again := fmt.Sprintf("Repeating or rewording this %s gives the same answer.", cmp.Or(d.Subject, "call"))
	switch {
	case a.Revoked:
		head = fmt.Sprintf("DENIED by a person: approval %s (%s) was revoked", a.ID, d.ruleName())
		r.Reason = "The person who had said yes has changed their mind."
	case a.Itself:
		head = fmt.Sprintf("DENIED: the client answered approval %s (%s) without a person", a.ID, d.ruleName())
		r.Reason = "The policy requires a person's approval. The client answers before a person can read the question, and nobody else can be asked."
	case a.By == "":
		head = fmt.Sprintf("DENIED: nobody answered approval %s (%s) within %s", a.ID, d.ruleName(), Spoken(a.Waited))
		r.Reason, again = "The policy requires a person's approval, and no answer counts as a no.", "Repeating the call asks again."
		r.Retry = RetryApproved
	}
	if a.Note != "" {
		r.Reason = "Their note: " + Clip(a.Note, maxSaid)
	}
	r.Instead = "Reach the goal another way, or ask the person you work for what they would accept."
	r.text = d.said(head, r, again)
	return r
}

// refusal returns the members that all refusals of a decision have.
func (d Decision) refusal(decision, callID string) Refusal {
	r := Refusal{
		Decision: decision, Layer: "policy", Rule: d.Rule, CallID: callID, Retry: RetryNever,
		Reason:  Clip(cmp.Or(d.Reason, "The policy does not allow this "+cmp.Or(d.Subject, "call")+"."), maxSaid),
		Instead: Clip(cmp.Or(d.Instead, "Reach the goal another way, or tell the person you work for."), maxSaid),
	}
	if d.Retry > 0 {
		r.Retry = fmt.Sprintf("%s%ds", RetryAfter, (d.Retry+time.Second-1)/time.Second)
	}
	if d.Source.File != "" {
		r.Source = &RefusedAt{d.Source.File, d.Source.Line, d.Source.Col}
	}
	switch {
	case d.Part != "" && d.PartArgv != nil:
		r.Part = &RefusedPart{Argv: d.PartArgv, Start: d.PartStart, End: d.PartEnd}
	case d.Part != "":
		r.Part = &RefusedPart{Text: d.Part, Start: d.PartStart, End: d.PartEnd}
	}
	return r
}

// said returns the text for a call that was denied.
func (d Decision) said(head string, r Refusal, again string) string {
	var part strings.Builder
	d.part(&part)
	return head + ". Nothing was run.\n" + part.String() + "Why: " + r.Reason + "\nDo this instead: " + r.Instead + "\n" + again + byCall(r.CallID)
}

// part writes the line that says which part decided, if there can be several parts.
func (d Decision) part(b *strings.Builder) {
	if d.Part == "" || d.Parts <= 1 && d.Subject == aCommand {
		return
	}
	if d.Parts > 1 && d.PartNo > 0 {
		fmt.Fprintf(b, "Part %d of %d: ", d.PartNo, d.Parts)
	} else {
		b.WriteString("Part: ")
	}
	b.WriteString(Clip(d.Part, maxPart))
	if d.Via != "" {
		b.WriteString(" (started by " + Clip(d.Via, maxPart) + ")")
	}
	b.WriteByte('\n')
}

// byRule returns the name and the place of what decided.
func (d Decision) byRule() string {
	text := ""
	if d.Rule != "" {
		text = " " + d.ruleName()
	}
	switch {
	case d.Source.Line > 0:
		text += " (" + d.Source.File + ":" + strconv.Itoa(d.Source.Line) + ")"
	case d.Source.File != "":
		text += " (" + d.Source.File + ")"
	}
	return text
}

func (d Decision) ruleName() string {
	switch d.Rule {
	case "", ruleDefault:
		return ruleDefault
	}
	return "rule " + d.Rule
}

func byCall(id string) string {
	if id == "" {
		return ""
	}
	return " Call id " + id + "."
}

// Stopped returns the refusal of a program that was not allowed to start, with the one line
// that the agent reads; times is how often that happened.
func (d Decision) Stopped(times int) Refusal {
	switch d.Verdict {
	case Allow:
		return Refusal{}
	case Deny:
	case Ask:
		d.Reason, d.Instead = "A person must be asked about it.", "Send it as a call of its own, in plain words."
	}
	r := d.refusal(Blocked, "")
	var b strings.Builder
	b.WriteString("BLOCKED by policy" + d.byRule() + ": " + Clip(d.Part, maxPart) + " was not started")
	if times > 1 {
		fmt.Fprintf(&b, ", %d times", times)
	}
	fmt.Fprintf(&b, ". %s %s", r.Reason, r.Instead)
	r.text = Clip(b.String(), maxBlock)
	return r
}
