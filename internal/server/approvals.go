package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// handle adds what `belljar approve` and `belljar ask` ask for. place is the workspace of
// the server's own place.
func (w *ways) handle(mux *http.ServeMux, place string) {
	handleDesk(mux, "/questions", func() *people.Desk[question.Asked] { return w.of(place).questions.Desk }, briefly)
	handleDesk(mux, "/approvals", func() *people.Desk[approval.Approval] { return w.of(place).desk.Desk }, func(list []approval.Approval) any {
		for i := range list {
			list[i] = list[i].Brief()
		}
		return control.Approvals{Place: place, Places: w.places.workspaces(), All: list}
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
		got, err := w.of(place).desk.Revoke(r.Context(), r.PathValue("id"), control.Caller(r), wayCommand)
		reply(rw, got, err)
	})
}

// answer answers an approval, at the desk of its place.
func (w *ways) answer(ctx context.Context, id string, said approval.Reply) (approval.Approval, error) {
	desk := w.of("").desk
	if one, err := desk.Get(ctx, id); err == nil { // else Answer says what is wrong
		desk = w.of(one.Place).desk
	}
	return desk.Answer(ctx, id, said)
}

// answerQuestion takes the answer to a question of an agent, at the desk of its place.
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
	desk := w.of("").questions
	if one, err := desk.Get(ctx, id); err == nil { // else Answer says what is wrong
		desk = w.of(one.Place).questions
	}
	return desk.Answer(ctx, id, does)
}

// briefly is a list that fits into an answer: the first question of each.
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

// handleDesk adds the list of a desk below a path, and one of it. brief makes of a list
// what fits into an answer.
func handleDesk[Q any](mux *http.ServeMux, path string, desk func() *people.Desk[Q], brief func([]Q) any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		list, err := desk().List(r.Context(), r.URL.Query().Get("all") != "")
		if err != nil {
			reply(w, nil, err)
			return
		}
		reply(w, brief(list), nil)
	})
	mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		got, err := desk().Get(r.Context(), r.PathValue("id"))
		reply(w, got, err)
	})
}

// reply sends what was asked for, or the error of the request for it.
func reply(w http.ResponseWriter, what any, err error) {
	if err != nil {
		control.Respond(w, control.StatusOf(err), err.Error())
		return
	}
	control.Respond(w, http.StatusOK, what)
}

// of returns the desks of the place whose workspace is given, or those of another one: each
// has all questions of the state directory, and the place itself wakes the call that waits.
func (w *ways) of(workspace string) *approver {
	var other *approver
	for _, p := range w.places.all() {
		if p.Workspace == workspace {
			return p.approver
		}
		other = p.approver
	}
	return other
}
