package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

const shopPolicy = `version: 1
defaults: {decision: deny, profile: web}
profiles:
  web: {browser: {walls: sandboxed, act: true}}
  other: {browser: {walls: sandboxed, act: true}}
rules:
  - {id: press, match: {act: [press, type]}, decision: allow, limit: {calls: 4/min}}
  - {id: forms, match: {act: submit}, decision: ask}
  - {id: evals, match: {act: eval}, decision: allow, profile: other}
  - {id: files, match: {act: save}, decision: allow, obligations: {redact: [emails]}}
  - {id: no-press, match: {act: press}, when: args.step == 9, decision: deny}
`

// stepsInput is a call with several steps. Its arguments do not show what the steps do.
type stepsInput struct {
	Step  int      `json:"step,omitempty"`
	Steps []string `json:"steps"`
}

func (stepsInput) Facts() policies.Facts { return policies.Facts{Acts: []policies.Act{{}}} }

// factsOf returns the facts of a step, as a Preparer would find them.
func factsOf(step string) (policies.Facts, error) {
	if step == "gone" {
		return policies.Facts{}, errors.New("[3] is gone; nothing was done; look again")
	}
	a := policies.Act{Kind: policies.ActKind(step), On: "https://a.example/", To: "https://b.example/", Method: "POST", Field: "text", Path: "/x"}
	return policies.Facts{Acts: []policies.Act{a}, Args: map[string]any{"step": 1.0, "steps": []any{step}}, Scene: &policies.Scene{Control: "button " + step}}, nil
}

// actor is a person who is asked about acts and answers yes or no.
type actor struct {
	person
	yes   bool
	asked []string
}

func (a *actor) Ask(_ context.Context, q mcp.Question) (mcp.Approval, error) {
	a.asked = append(a.asked, fmt.Sprintf("%v, %s, %v", q.Facts.Acts[0].Kind, q.Facts.Scene.Control, q.Facts.Args["steps"]))
	if a.yes {
		return mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}, nil
	}
	return mcp.Approval{ID: "ap-1", State: mcp.ApprovalDeclined}, nil
}

func (a *actor) Use(context.Context, mcp.Question, string) (bool, error) { return a.yes, nil }

// TestPreparedTool checks that the facts of a call are found before the policy decides, and
// that each further part of a call is decided, asked about and recorded like the first.
func TestPreparedTool(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(shopPolicy))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		yes        bool
		done       []string // kinds of the parts that ran
		asked      []string
		log        []string
		answer     string
	}{
		{"one", `{"steps":["press"]}`, false, []string{"press"}, nil, []string{"allow press", "finished"}, "done"},
		{"three", `{"steps":["press","type","press"]}`, false, []string{"press", "type", "press"}, nil, []string{"allow press", "allow press", "finished", "allow press", "finished", "finished"}, "done"},
		{"beyond a limit", `{"steps":["press","press","press","press","press","press"]}`, false, []string{"press", "press", "press", "press"}, nil, nil, "lets through 4 calls"},
		{"asked, yes", `{"steps":["press","submit"]}`, true, []string{"press", "submit"}, []string{"submit, button submit, [submit]"}, []string{"allow press", "allow forms", "finished", "finished"}, "done"},
		{"asked, no", `{"steps":["press","submit","press"]}`, false, []string{"press"}, []string{"submit, button submit, [submit]"}, []string{"allow press", "deny forms", "finished"}, "nobody answered"},
		{"asked first", `{"steps":["submit"]}`, true, []string{"submit"}, []string{"submit, button submit, [submit]"}, []string{"allow forms", "finished"}, "done"},
		{"denied", `{"steps":["upload"]}`, false, nil, nil, []string{"deny default"}, "DENIED"},
		{"denied later", `{"steps":["type","upload","press"]}`, false, []string{"type"}, nil, []string{"allow press", "deny default", "finished"}, "DENIED"},
		{"not prepared", `{"steps":["gone"]}`, false, nil, nil, []string{"deny arguments"}, "[3] is gone"},
		{"not prepared later", `{"steps":["press","gone","press"]}`, false, []string{"press"}, nil, []string{"allow press", "finished"}, "[3] is gone"},
		{"another profile", `{"steps":["press","eval"]}`, false, []string{"press"}, nil, []string{"allow press", "deny part", "finished"}, `in profile "other"`},
		{"something to take out", `{"steps":["press","save"]}`, false, []string{"press"}, nil, []string{"allow press", "deny part", "finished"}, "redacts something in the result"},
		{"arguments of the step, not of the call", `{"step":9,"steps":["press"]}`, false, []string{"press"}, nil, []string{"allow press", "finished"}, "done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, who := &acted{}, &actor{person: person{ways: []string{"command line"}}, yes: tt.yes}
			ty := newToy(t, func(c *mcp.Config) { c.Gate, c.Audit, c.Approver = p, log, who })
			var done []string
			mcp.AddPreparedTool(ty.Server, mcp.Tool{Name: policies.ActTool, Description: "acts"},
				func(_ context.Context, c mcp.Call, in stepsInput) (policies.Facts, error) {
					if !c.Grant.IsZero() || c.Acts != nil {
						t.Error("a Preparer has a grant")
					}
					return factsOf(in.Steps[0])
				},
				func(ctx context.Context, c mcp.Call, in stepsInput) (*mcp.Result, error) {
					run := func(c mcp.Call) error {
						if c.Grant.IsZero() || len(c.Acts) != 1 || c.Scene.Control != "button "+string(c.Acts[0].Kind) {
							t.Errorf("a part runs with %v, %+v, %+v", c.Grant.Profile(), c.Acts, c.Scene)
						}
						done = append(done, string(c.Acts[0].Kind))
						return nil
					}
					if err := run(c); err != nil {
						return nil, err
					}
					for _, step := range in.Steps[1:] {
						f, err := factsOf(step)
						if err != nil {
							return nil, err
						}
						if refusal, err := c.Further(ctx, f, run); refusal != nil || err != nil {
							return mcp.Refused(*refusal), err
						}
					}
					return mcp.Text("done"), nil
				})
			session, err := ty.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := ty.Call(t.Context(), session, policies.ActTool, []byte(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if text := res.Content[0].Text; !strings.Contains(text, tt.answer) {
				t.Errorf("the answer is %q, want %q in it", text, tt.answer)
			}
			if !slices.Equal(done, tt.done) || !slices.Equal(who.asked, tt.asked) {
				t.Errorf("%q ran and a person was asked about %q; want %q and %q", done, who.asked, tt.done, tt.asked)
			}
			if tt.log != nil && !slices.Equal(log.lines, tt.log) {
				t.Errorf("the log has %q, want %q", log.lines, tt.log)
			}
			if len(slices.Compact(slices.Sorted(slices.Values(log.ids)))) != len(log.ids) {
				t.Errorf("two records have one id: %q", log.ids)
			}
		})
	}
}

// acted is an Audit that keeps the decisions about acts.
type acted struct{ lines, ids []string }

func (l *acted) Decided(_ context.Context, d mcp.Decided) error {
	l.lines = append(l.lines, d.Decision.Verdict.String()+" "+d.Decision.Rule)
	l.ids = append(l.ids, d.Call.ID)
	return nil
}

func (l *acted) Finished(mcp.Finished) { l.lines = append(l.lines, "finished") }

// The Preparer of a tool that is hidden from the session does not run: the call is denied.
func TestHiddenToolIsNotPrepared(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: deny, profile: a}\nprofiles: {a: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ty := newToy(t, func(c *mcp.Config) { c.Gate = hiding{p} })
	mcp.AddPreparedTool(ty.Server, mcp.Tool{Name: policies.ActTool, Description: "acts"},
		func(context.Context, mcp.Call, stepsInput) (policies.Facts, error) {
			t.Error("it was prepared")
			return policies.Facts{}, nil
		},
		func(context.Context, mcp.Call, stepsInput) (*mcp.Result, error) {
			t.Error("it ran")
			return mcp.Text("done"), nil
		})
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := ty.Call(t.Context(), session, policies.ActTool, []byte(`{"steps":["press"]}`))
	if err != nil || !strings.HasPrefix(res.Content[0].Text, "DENIED") {
		t.Errorf("got %+v, %v", res, err)
	}
}

// hiding is a gate with a policy that also reports which tools it hides.
type hiding struct{ *policies.Policy }

func (h hiding) Hidden(f policies.Facts) bool { return h.HiddenFrom(f) }
