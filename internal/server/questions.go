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

// Ways returns the ways on which questions are answered: all open ways except the webhook,
// which can only answer yes or no.
func (a asker) Ways(tenant string) (ways []string, may bool) {
	ways, may = a.approver.Ways(tenant)
	return slices.DeleteFunc(ways, func(way string) bool { return way == wayWebhook }), may
}

// Ask asks a question, and announces it if it is new.
func (a asker) Ask(ctx context.Context, o store.Owner, s question.Sheet) (question.Asked, error) {
	got, err := a.Desk.Ask(ctx, o, s)
	if err == nil && got.New && a.approver.asked != nil {
		a.approver.asked(got)
	}
	return got, err
}

// Command returns the command with which a person answers a question in a terminal. It is
// empty if the command line is not open as a way.
func (a asker) Command(id string) string { return a.approver.command("belljar ask answer " + id) }

// Channel returns what the policy says about these ways.
func (a asker) Channel() policies.Channel { return a.approver.gate.now.Load().Channel() }
