package main

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// controlled starts a server that has only a control socket, with these answers by method
// and path: errors, handlers, or values as JSON. It returns the state directory.
func controlled(t *testing.T, answers map[string]any) string {
	t.Helper()
	state := t.TempDir()
	handler := func(w http.ResponseWriter, r *http.Request) {
		path := r.Method + " " + r.URL.RequestURI()
		if answer, itself := answers[path].(http.HandlerFunc); itself {
			answer(w, r)
		} else if err, fails := answers[path].(error); fails {
			control.Respond(w, http.StatusConflict, err.Error())
		} else if answer, known := answers[path]; known {
			control.Respond(w, http.StatusOK, answer)
		} else {
			http.NotFound(w, r)
		}
	}
	l, err := control.Listen(t.Context(), state, http.HandlerFunc(handler), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(t.Context()) })
	return state
}

// TestWaitingAmongEnded checks that a person can answer what waits even if so many newer
// questions have ended that the list of all has no room for it.
func TestWaitingAmongEnded(t *testing.T) {
	waits := approval.Approval{ID: "ap-waits", State: approval.Pending, Tool: "Bash", Expires: time.Now().Add(time.Hour)}
	asked := question.Asked{
		ID: "q-waits", State: question.Waiting, Expires: time.Now().Add(time.Hour),
		Sheet: question.Sheet{Questions: []question.Question{{ID: "a", Text: "Which?", Kind: question.Choice, Options: []question.Option{{Label: "A"}, {Label: "B"}}}}},
	}
	declined, accepted := waits, asked
	declined.State, accepted.State = approval.Declined, question.Accepted
	state := controlled(t, map[string]any{
		"GET /approvals":                  control.Approvals{All: []approval.Approval{waits}},
		"GET /approvals?all=1":            control.Approvals{All: []approval.Approval{{ID: "ap-ended", State: approval.Expired}}},
		"GET /approvals/ap-waits":         waits,
		"GET /approvals/ap-ended":         approval.Approval{ID: "ap-ended", State: approval.Expired},
		"POST /approvals/ap-waits/answer": declined,
		"GET /questions":                  []question.Asked{asked},
		"GET /questions?all=1":            []question.Asked{},
		"GET /questions/q-waits":          asked,
		"POST /questions/q-waits/answer":  accepted,
	})
	for _, tt := range []struct{ line, want string }{
		{"approve show ap-waits", "ap-waits  pending  Bash"},
		{"approve no ap-waits", "ap-waits: no. The agent is notified."},
		{"approve show ap-ended", "ap-ended  expired"},
		{"ask answer q-waits B", "q-waits: answered."},
		{"ask answer", "q-waits: answered."},
	} {
		var out, errs strings.Builder
		code := run(append(strings.Fields(tt.line), "--state", state), strings.NewReader("2\n"), &out, &errs)
		if code != exitOK || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: status %d, %q, %q; want %q", tt.line, code, out.String(), errs.String(), tt.want)
		}
	}
}
