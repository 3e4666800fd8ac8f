package server

import (
	"context"
	"slices"

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
	return slices.DeleteFunc(ways, func(way string) bool { return way == wayWebhook }), may
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
