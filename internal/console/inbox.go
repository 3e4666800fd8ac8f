package console

import (
	"net/http"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// maxInbox is the maximum number of approvals in the inbox, and also of questions and of
// definitions.
const maxInbox = 50

// approvalMembers and questionMembers are the structs without their methods: the linker
// keeps every method of a type that is converted to an interface.
type (
	approvalMembers approval.Approval
	questionMembers question.Asked
)

// waiting is an approval in the form for a page.
type waiting struct {
	approvalMembers
	Version string `json:"version"`           // version that an answer must name
	Command string `json:"command,omitempty"` // command line that answers the approval on this machine
}

// asked is a question in the form for a page.
type asked struct {
	questionMembers
	Version string `json:"version"`
	Command string `json:"command,omitempty"`
}

func (r *request) waiting(a approval.Approval) waiting {
	return waiting{approvalMembers(a), a.Version(), r.views.People.Command("belljar approve yes " + a.ID)}
}

func (r *request) asked(a question.Asked) asked {
	return asked{questionMembers(a), a.Version(), r.views.People.Command("belljar ask answer " + a.ID)}
}

// inbox contains what waits for a decision of a person.
type inbox struct {
	Approvals []waiting  `json:"approvals"`
	Questions []asked    `json:"questions"`
	Pins      []shownPin `json:"pins"`           // definitions of upstreams
	More      int        `json:"more,omitempty"` // number of entries of all kinds that were left out
}

// showInbox returns what waits, the newest first.
func showInbox(r *request) (any, error) {
	approvals, err := r.views.People.Approvals(r.context(), false)
	if err != nil {
		return nil, err
	}
	questions, err := r.views.People.Questions(r.context(), false, nil)
	if err != nil {
		return nil, err
	}
	in := inbox{Approvals: []waiting{}, Questions: []asked{}, Pins: []shownPin{}, More: max(0, len(questions)-maxInbox)}
	for _, a := range approvals {
		switch {
		case a.State != approval.Pending:
		case len(in.Approvals) < maxInbox:
			in.Approvals = append(in.Approvals, r.waiting(a))
		default:
			in.More++
		}
	}
	for _, a := range questions[:min(len(questions), maxInbox)] {
		in.Questions = append(in.Questions, r.asked(a))
	}
	if r.views.Upstreams != nil {
		pins, err := r.views.Upstreams.Pins(r.context())
		if err != nil {
			return nil, err
		}
		in.Pins, in.More = shownPins(pins), in.More+max(0, len(pins)-maxInbox)
	}
	return in, nil
}

// listApprovals returns approvals in brief: those that are not over, or those that match a
// filter.
func listApprovals(r *request) (any, error) {
	q := r.in.URL.Query()
	if q.Get("all") == "" {
		return r.briefly(r.views.People.Approvals(r.context(), false))
	}
	f := approval.Filter{
		State: approval.State(q.Get("state")), Tenant: q.Get("tenant"), Tool: q.Get("tool"), Rule: q.Get("rule"), By: q.Get("by"), Text: q.Get("q"),
	}
	if text := q.Get("before"); text != "" {
		var err error
		if f.Before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fault(http.StatusBadRequest, "before=%q: want a time in the form of created", text)
		}
	}
	return r.briefly(r.views.People.History(r.context(), f))
}

// briefly returns approvals in the form for a list.
func (r *request) briefly(list []approval.Approval, err error) ([]waiting, error) {
	if err != nil {
		return nil, err
	}
	out := []waiting{}
	for _, a := range list {
		out = append(out, r.waiting(a.Brief()))
	}
	return out, nil
}

// maxPast is how many earlier decisions are shown next to an approval.
const maxPast = 5

// showApproval returns one approval, and the earlier answers of people for the same rule,
// tool and tenant.
func showApproval(r *request) (any, error) {
	a, err := r.views.People.Approval(r.context(), r.named("id"))
	if err != nil {
		return nil, err
	}
	past, err := r.briefly(r.views.People.History(r.context(), approval.Filter{
		Tenant: a.Tenant, Tool: a.Tool, Rule: a.Rule, Over: true, Most: maxPast + 1,
	}))
	for i := range past {
		if past[i].ID == a.ID {
			past = append(past[:i], past[i+1:]...)
			break
		}
	}
	return struct {
		waiting
		Past []waiting `json:"past"`
	}{r.waiting(a), past[:min(len(past), maxPast)]}, err
}

// showArguments returns a part of the arguments of a call that are too large to be shown in
// its approval.
func showArguments(r *request) (any, error) {
	from, err := r.from()
	if err != nil {
		return nil, err
	}
	return r.views.People.Arguments(r.context(), r.named("id"), int(from), maxPart)
}

// current returns an error if an answer is not for the current version of a question.
func current(said, is string) error {
	switch said {
	case is:
		return nil
	case "":
		return fault(http.StatusBadRequest, "the version is missing: an answer names the version of the question that it is for")
	}
	return fault(http.StatusConflict, "the answer is for another version of the question; read it again")
}

// answerApproval answers an approval. Of several equal answers only the first counts here,
// because the page must inform a person whose answer was too late.
func answerApproval(r *request) (any, error) {
	var said struct {
		control.Answer
		Version string `json:"version"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	scope, most, err := control.ParseScope(said.Scope)
	if err != nil {
		return nil, &Error{http.StatusBadRequest, err}
	}
	id := r.named("id")
	is, err := r.views.People.Approval(r.context(), id)
	if err != nil {
		return nil, err
	}
	if err := current(said.Version, is.Version()); err != nil {
		return nil, err
	}
	a, err := r.views.People.Approve(r.context(), id, approval.Reply{
		Yes: said.Yes, Scope: scope, For: most, First: true, By: r.who.Name, Via: Via, Note: said.Note,
	})
	if err != nil {
		return nil, err
	}
	return r.waiting(a), nil
}

// revokeApproval withdraws a yes.
func revokeApproval(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	a, err := r.views.People.Revoke(r.context(), r.named("id"), r.who.Name)
	if err != nil {
		return nil, err
	}
	return r.waiting(a), nil
}

// listQuestions returns the questions of agents.
func listQuestions(r *request) (any, error) {
	list, err := r.views.People.Questions(r.context(), r.in.URL.Query().Get("all") != "", nil)
	if err != nil {
		return nil, err
	}
	out := []asked{}
	for _, a := range list {
		out = append(out, r.asked(a))
	}
	return out, nil
}

func showQuestion(r *request) (any, error) {
	a, err := r.views.People.Question(r.context(), r.named("id"))
	if err != nil {
		return nil, err
	}
	return r.asked(a), nil
}

// answerQuestion answers a question of an agent.
func answerQuestion(r *request) (any, error) {
	var said struct {
		control.QuestionAnswer
		Version string `json:"version"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	id := r.named("id")
	is, err := r.views.People.Question(r.context(), id)
	if err != nil {
		return nil, err
	}
	if err := current(said.Version, is.Version()); err != nil {
		return nil, err
	}
	does := question.Reply{State: question.Accepted, Words: said.Words, Note: said.Note, By: r.who.Name, Via: Via}
	if said.Decline {
		does.State = question.Declined
	}
	a, err := r.views.People.Answer(r.context(), id, does)
	if err != nil {
		return nil, err
	}
	return r.asked(a), nil
}
