package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/policies"
)

// handle adds the routes for `belljar approve` and `belljar ask`. place is the workspace of
// the server's own place.
func (w *ways) handle(mux *http.ServeMux, place string) {
	asked := func(ctx context.Context, all bool) ([]question.Asked, error) { return w.listQuestions(ctx, all, nil) }
	handleDesk(mux, "/questions", asked, w.question, briefly)
	handleDesk(mux, "/approvals", w.listApprovals, w.approval, func(list []approval.Approval) any {
		return control.Approvals{Place: place, Places: w.places.workspaces(), All: listed(list)}
	})
	mux.HandleFunc("POST /questions/{id}/answer", w.answerQuestion)
	mux.HandleFunc("POST /approvals/{id}/answer", func(rw http.ResponseWriter, r *http.Request) {
		var said control.Answer
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			control.Respond(rw, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
			return
		}
		scope, most, err := control.ParseScope(said.Scope)
		if err != nil {
			control.Respond(rw, http.StatusBadRequest, err.Error())
			return
		}
		got, err := w.answer(r.Context(), r.PathValue("id"), approval.Reply{
			Yes: said.Yes, Scope: scope, For: most, By: control.Caller(r), Via: wayCommand, Note: said.Note,
		})
		reply(rw, got, err)
	})
	mux.HandleFunc("POST /approvals/{id}/revoke", func(rw http.ResponseWriter, r *http.Request) {
		got, err := w.revoke(r.Context(), r.PathValue("id"), control.Caller(r), wayCommand)
		reply(rw, got, err)
	})
}

// answer answers an approval, at the desk of its place.
func (w *ways) answer(ctx context.Context, id string, said approval.Reply) (approval.Approval, error) {
	at, err := approverOf(w, func(a *approver) (string, error) {
		one, err := a.desk.Get(ctx, id)
		return one.Place, err
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return at.desk.Answer(ctx, id, said)
}

// answerQuestion handles a request that answers a question of an agent, at the desk of the
// question's place.
func (w *ways) answerQuestion(rw http.ResponseWriter, r *http.Request) {
	var said control.QuestionAnswer
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		control.Respond(rw, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
		return
	}
	does := question.Reply{State: question.Accepted, Words: said.Words, Note: said.Note, By: control.Caller(r), Via: wayCommand}
	if said.Decline {
		does.State = question.Declined
	}
	got, err := w.settle(r.Context(), r.PathValue("id"), does)
	reply(rw, got, err)
}

// settle answers a question of an agent, at the desk of its place.
func (w *ways) settle(ctx context.Context, id string, does question.Reply) (question.Asked, error) {
	at, err := approverOf(w, func(a *approver) (string, error) {
		one, err := a.questions.Get(ctx, id)
		return one.Place, err
	})
	if err != nil {
		return question.Asked{}, err
	}
	return at.questions.Answer(ctx, id, does)
}

// maxListedLine is the most characters of a line of an approval in a list.
const maxListedLine = 100

// maxList is the most bytes of a list of approvals. It leaves some of an answer for the
// places of the server.
const maxList = 900 << 10

// listed returns approvals with texts that are cut, so that a list of approvals fits into an
// answer. They are cut more if the list does not fit otherwise: JSON may need six bytes for
// a character, and a list can have 200 approvals.
func listed(list []approval.Approval) []approval.Approval {
	for most := maxListedLine; ; most /= 2 {
		short := make([]approval.Approval, len(list))
		for i, a := range list {
			short[i] = shortened(a, most)
		}
		text, err := json.Marshal(short)
		if err != nil || len(text) <= maxList || most < 10 {
			return short
		}
	}
}

// shortened returns an approval with the first lines of what it shows and of its plan, each
// with at most some characters. Its other texts have at most twice as many, so that the name
// of a person is whole.
func shortened(a approval.Approval, most int) approval.Approval {
	a = a.Brief()
	a.Commands = a.Commands[:min(len(a.Commands), maxListedPatterns)]
	for _, lines := range []*[]string{&a.Shown.Commands, &a.Shown.Args, &a.Commands} {
		cut := make([]string, len(*lines)) // the lines belong to the desk
		for i, line := range *lines {
			cut[i] = policies.Clip(line, most)
		}
		*lines = cut
	}
	for _, text := range []*string{&a.Reason, &a.Principal, &a.By, &a.Via, &a.Note} {
		*text = policies.Clip(*text, 2*most)
	}
	return a
}

// maxListedPatterns is the most patterns of a plan that a list shows of each approval.
const maxListedPatterns = 3

// briefly removes the answers and options from a list of questions, and cuts their texts,
// so that the list fits into an answer.
func briefly(list []question.Asked) any {
	for i := range list {
		list[i].Answers = nil
		for n := range list[i].Sheet.Questions {
			q := &list[i].Sheet.Questions[n]
			q.Options, q.Placeholder = nil, ""
			if text := []rune(q.Text); len(text) > 200 {
				q.Text = string(text[:200])
			}
		}
	}
	return list
}

// handleDesk adds two routes below a path: the list of a desk, and one entry of it. brief
// shortens a list so that it fits into an answer.
func handleDesk[Q any](mux *http.ServeMux, path string, list func(context.Context, bool) ([]Q, error), get func(context.Context, string) (Q, error), brief func([]Q) any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		list, err := list(r.Context(), r.URL.Query().Get("all") != "")
		if err != nil {
			reply(w, nil, err)
			return
		}
		reply(w, brief(list), nil)
	})
	mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		got, err := get(r.Context(), r.PathValue("id"))
		reply(w, got, err)
	})
}

// reply responds with what, or with err if it is not nil.
func reply(w http.ResponseWriter, what any, err error) {
	if err != nil {
		control.Respond(w, control.StatusOf(err), err.Error())
		return
	}
	control.Respond(w, http.StatusOK, what)
}
