package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// asker puts questions of agents to people.
type asker struct {
	*question.Desk
	approver *approver
}

// Ways are those on which questions are answered: not the webhook, which knows
// yes and no.
func (a asker) Ways(tenant string) (ways []string, may bool) {
	ways, may = a.approver.Ways(tenant)
	return slices.DeleteFunc(ways, func(way string) bool { return way != wayCommand }), may
}

// Ask puts a question.
func (a asker) Ask(ctx context.Context, o store.Owner, s question.Sheet) (question.Asked, error) {
	got, err := a.Desk.Ask(ctx, o, s)
	if err == nil && got.New && a.approver.asked != nil {
		a.approver.asked(got)
	}
	return got, err
}

// Command is how a person answers a question in a terminal; empty where that is not
// open.
func (a asker) Command(id string) string { return a.approver.command("belljar ask answer " + id) }

// Channel is what the policy says of these ways.
func (a asker) Channel() policies.Channel { return a.approver.gate.now.Load().Channel() }

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
	id, desk := r.PathValue("id"), w.of("").questions
	if one, err := desk.Get(r.Context(), id); err == nil { // else Answer says what is wrong
		desk = w.of(one.Place).questions
	}
	got, err := desk.Answer(r.Context(), id, does)
	reply(rw, got, err)
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
