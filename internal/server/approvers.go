package server

import (
	"context"
	"errors"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
)

// approvers returns one approver for each state directory of the places. An approver has
// all questions of its directory. Each place of a worker has its own directory.
func (w *ways) approvers() (all []*approver) {
	seen := make(map[*store.Store]bool)
	for _, p := range w.places.all() {
		if kept := p.books.kept.Store; p.approver != nil && !seen[kept] {
			seen[kept] = true
			all = append(all, p.approver)
		}
	}
	return all
}

// approverOf returns the approver at whose desk a question is answered: that of the
// question's place, which wakes the call that waits, or, if the place is not open, one of
// the same state directory. placeOf looks up the question and returns its place.
func approverOf(w *ways, placeOf func(*approver) (string, error)) (*approver, error) {
	missing := people.ErrUnknown
	for _, at := range w.approvers() {
		place, err := placeOf(at)
		switch {
		case errors.Is(err, people.ErrUnknown):
			missing = err
			continue
		case err != nil:
			return nil, err
		}
		for _, p := range w.places.all() {
			if p.Workspace == place && p.approver != nil {
				return p.approver, nil
			}
		}
		return at, nil
	}
	return nil, missing
}

// mostJoined is the most entries in the joined list of several desks. Each desk has its own
// bound too.
const mostJoined = 200

// joined joins the lists of all desks, the newest entries first.
func joined[Q any](all []*approver, list func(*approver) ([]Q, error), created func(*Q) time.Time) ([]Q, error) {
	var out []Q
	longest := 0
	for _, at := range all {
		some, err := list(at)
		if err != nil {
			return nil, err
		}
		out, longest = append(out, some...), max(longest, len(some))
	}
	if len(out) == longest { // all entries are from one desk, which has sorted them
		return out, nil
	}
	order.By(out, func(a, b *Q) int { return created(b).Compare(created(a)) })
	return out[:min(len(out), mostJoined)], nil
}

// approvalAsked and questionAsked return the time at which a person was asked.
func approvalAsked(a *approval.Approval) time.Time { return a.Created }
func questionAsked(a *question.Asked) time.Time    { return a.Created }

// listApprovals lists approvals of all places: all of them, or only those that have not
// ended.
func (w *ways) listApprovals(ctx context.Context, all bool) ([]approval.Approval, error) {
	return joined(w.approvers(), func(at *approver) ([]approval.Approval, error) { return at.desk.List(ctx, all) }, approvalAsked)
}

// listQuestions lists the agents' own questions in the same way, for some tenants; nil
// means all tenants.
func (w *ways) listQuestions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error) {
	return joined(w.approvers(), func(at *approver) ([]question.Asked, error) { return at.questions.ListOf(ctx, all, tenants) }, questionAsked)
}

// history lists the approvals of all places that a filter selects.
func (w *ways) history(ctx context.Context, f approval.Filter) ([]approval.Approval, error) {
	list, err := joined(w.approvers(), func(at *approver) ([]approval.Approval, error) { return at.desk.History(ctx, f) }, approvalAsked)
	if most := f.Most; most > 0 && len(list) > most {
		list = list[:most]
	}
	return list, err
}

// approval returns an approval of any place.
func (w *ways) approval(ctx context.Context, id string) (one approval.Approval, err error) {
	_, err = approverOf(w, func(at *approver) (string, error) {
		one, err = at.desk.Get(ctx, id)
		return one.Place, err
	})
	return one, err
}

// arguments returns a part of the arguments of the call that an approval of any place is
// about.
func (w *ways) arguments(ctx context.Context, id string, from, most int) (approval.Part, error) {
	at, err := approverOf(w, func(at *approver) (string, error) {
		one, err := at.desk.Get(ctx, id)
		return one.Place, err
	})
	if err != nil {
		return approval.Part{}, err
	}
	return at.desk.Arguments(id, from, most)
}

// question returns a question of an agent in any place.
func (w *ways) question(ctx context.Context, id string) (one question.Asked, err error) {
	_, err = approverOf(w, func(at *approver) (string, error) {
		one, err = at.questions.Get(ctx, id)
		return one.Place, err
	})
	return one, err
}

// revoke revokes a yes, at the desk of its place.
func (w *ways) revoke(ctx context.Context, id, by, via string) (approval.Approval, error) {
	at, err := approverOf(w, func(a *approver) (string, error) {
		one, err := a.desk.Get(ctx, id)
		return one.Place, err
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return at.desk.Revoke(ctx, id, by, via)
}
