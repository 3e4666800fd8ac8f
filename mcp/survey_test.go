package mcp_test

import (
	"context"
	"slices"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// runInput is a call that runs a command.
type runInput struct {
	Command string `json:"command"`
}

func (in runInput) Facts() policies.Facts { return policies.Facts{Command: in.Command} }

// scenes are the directories that a Surveyor reports, one after the other. It repeats the
// last one.
type scenes []string

func (s *scenes) Survey(context.Context, mcp.Call, policies.Facts) *policies.Scene {
	dir := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	return &policies.Scene{Dir: dir}
}

// bound is an Approver that approves only calls in one directory.
type bound struct {
	person
	yes   string
	asked []string
}

func (b *bound) Ask(_ context.Context, q mcp.Question) (mcp.Approval, error) {
	b.asked = append(b.asked, q.Facts.Scene.Dir)
	if q.Facts.Scene.Dir == b.yes {
		return mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}, nil
	}
	return mcp.Approval{ID: "ap-2", State: mcp.ApprovalDeclined}, nil
}

func (b *bound) Use(_ context.Context, q mcp.Question, _ string) (bool, error) {
	return q.Facts.Scene.Dir == b.yes, nil
}

// The files that a command uses are examined again before an approval is used. If a file
// has changed since the person was asked, the approval is not valid, and the person is
// asked about the present files. The handler gets the files that the person saw.
func TestSurvey(t *testing.T) {
	for name, tt := range map[string]struct {
		seen  scenes
		asked []string
		ran   string
	}{
		"as it was":        {scenes{"/a"}, []string{"/a"}, "/a"},
		"changed since":    {scenes{"/a", "/b"}, []string{"/a", "/b"}, ""},
		"changed and back": {scenes{"/a", "/b", "/a"}, []string{"/a", "/a"}, "/a"},
	} {
		t.Run(name, func(t *testing.T) {
			gate, person := &judged{d: policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}}, &bound{person: person{ways: []string{"command line"}}, yes: "/a"}
			ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver = gate, person })
			seen := tt.seen
			ty.SurveyWith(&seen)
			ran := ""
			mcp.AddTool(ty.Server, mcp.Tool{Name: "run", Description: "runs it"}, func(_ context.Context, c mcp.Call, _ runInput) (*mcp.Result, error) {
				ran = c.Scene.Dir
				return mcp.Text("done"), nil
			})
			session, err := ty.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if _, err := ty.Call(t.Context(), session, "run", []byte(`{"command":"rm x"}`)); err != nil {
				t.Fatal(err)
			}
			if ran != tt.ran || !slices.Equal(person.asked, tt.asked) {
				t.Errorf("it ran in %q and asked about %q, want %q and %q", ran, person.asked, tt.ran, tt.asked)
			}
		})
	}
}
