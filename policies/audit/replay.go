package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"belljar.dev/policies"
)

// Past is a decision of the log in a form in which a policy can make it again.
type Past struct {
	Seq     uint64
	Time    time.Time
	CallID  string
	Verdict policies.Verdict
	Rules   []Rule // rules that decided, and rules that would have decided
	Policy  string // SHA-256 of the policy that decided
	Profile string // profile that was granted
	// Facts are what the call showed the policy. Its Session is the short name that records
	// contain. Only tools of upstreams have Annotations: those of our own tools do not
	// change.
	Facts policies.Facts
	// Lacks says which facts are missing in the record, so that the same policy may decide
	// otherwise. It is empty if no fact is missing.
	Lacks string
}

// ReadPast calls use with each decision of a log, from the first to the last, and
// stops at the first error of use. path is the directory of a log, or one of its
// files. ReadPast checks nothing; Verify does.
func ReadPast(ctx context.Context, path string, use func(Past) error) error {
	return ReadLog(ctx, path, Filter{Kind: KindDecision}, func(e Entry) error {
		p, err := e.Past()
		if err != nil {
			return err
		}
		return use(p)
	})
}

// pastLine contains the fields of a decision's record that only a replay reads.
type pastLine struct {
	ArgsLevel string         `json:"args_level"`
	Args      map[string]any `json:"args"`
	Policy    string         `json:"policy_sha256"`
	Approval  struct {
		ID string `json:"id"`
	} `json:"approval"`
}

// Past returns the decision of an entry of the kind KindDecision as it was made.
func (e Entry) Past() (Past, error) {
	var l pastLine
	if err := json.Unmarshal(e.Raw, &l); err != nil {
		return Past{}, fmt.Errorf("read record %d: %w", e.Seq, err)
	}
	p := Past{
		Seq: e.Seq, Time: e.Time, CallID: e.CallID, Rules: e.Rules, Policy: l.Policy, Profile: e.Profile,
		Facts: policies.Facts{
			Tenant: e.Tenant, Session: e.Session, Tool: e.Tool, Profile: e.Facts.Profile, Command: e.Facts.Command,
			Env: e.Facts.Env, Paths: e.Facts.Paths, Hosts: e.Facts.Hosts, URLs: e.Facts.URLs, Acts: e.Facts.acts(),
			Args: l.Args, Upstream: e.Facts.Upstream, ToolNames: e.Facts.ToolNames, Annotations: e.Facts.Annotations, Now: e.Time,
		},
		Lacks: e.lacks(l),
	}
	switch e.Verdict {
	case policies.Allow.String():
		p.Verdict = policies.Allow
	case policies.Ask.String():
		p.Verdict = policies.Ask
	default:
		p.Verdict = policies.Deny
	}
	if l.Approval.ID != "" && len(e.Rules) > 0 && e.Rules[0].Verdict == policies.Ask.String() {
		p.Verdict, p.Profile = policies.Ask, "" // the record contains the result of the question; a policy only asks
	}
	if command, ok := l.Args["command"].(string); ok && p.Facts.Command == "" && p.Facts.Upstream == "" {
		p.Facts.Command = command // for our own tools, the record does not repeat the command
	}
	if env, ok := l.Args["env"].(map[string]any); ok && p.Facts.Upstream == "" {
		p.Facts.Values = make(map[string]string, len(env))
		for name, value := range env {
			if text, ok := value.(string); ok {
				p.Facts.Values[name] = text
			}
		}
	}
	return p, nil
}

// lacks returns what a record leaves out of the facts of its call.
func (e Entry) lacks(l pastLine) string {
	if l.ArgsLevel == "" || l.ArgsLevel == policies.AuditMeta.String() {
		return "its arguments are not kept: the log's level is meta, or they were too large"
	}
	// redact and clip put these words in the place of the texts that they remove. If an
	// agent writes such words itself, its call only counts as incomplete.
	switch text := string(e.Raw); {
	case strings.Contains(text, "[redacted ") && strings.Contains(text, " hmac:"):
		return "secrets were taken out of it"
	case strings.Contains(text, " bytes cut]"), strings.Contains(text, `"[too deep]"`), strings.Contains(text, " more\"]"), strings.Contains(text, " more\"}]"):
		return "long texts of it were cut"
	}
	return ""
}
