package console

import (
	"net/http"
	"slices"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// maxInbox is how many of a kind the inbox has.
const maxInbox = 50

// waiting is an approval as a page gets it.
type waiting struct {
	approval.Approval
	Version string `json:"version"`           // that an answer names
	Command string `json:"command,omitempty"` // that answers on the machine
}

// asked is a question as a page gets it.
type asked struct {
	question.Asked
	Version string `json:"version"`
	Command string `json:"command,omitempty"`
}

func (c *Console) waiting(a approval.Approval) waiting {
	return waiting{a, a.Version(), c.views.People.Command("belljar approve yes " + a.ID)}
}

func (c *Console) asked(a question.Asked) asked {
	return asked{a, a.Version(), c.views.People.Command("belljar ask answer " + a.ID)}
}

// inbox is what waits for people.
type inbox struct {
	Approvals []waiting `json:"approvals"`
	Questions []asked   `json:"questions"`
	More      int       `json:"more,omitempty"` // of both, that there is no room for
}

// inbox lists what waits, the newest first.
func (c *Console) inbox(r *request) (any, error) {
	approvals, err := c.views.People.Approvals(r.Context(), false)
	if err != nil {
		return nil, err
	}
	approvals = slices.DeleteFunc(approvals, func(a approval.Approval) bool { return a.State != approval.Pending })
	questions, err := c.views.People.Questions(r.Context(), false)
	if err != nil {
		return nil, err
	}
	in := inbox{Approvals: []waiting{}, Questions: []asked{}, More: max(0, len(approvals)-maxInbox) + max(0, len(questions)-maxInbox)}
	for _, a := range approvals[:min(len(approvals), maxInbox)] {
		in.Approvals = append(in.Approvals, c.waiting(a))
	}
	for _, a := range questions[:min(len(questions), maxInbox)] {
		in.Questions = append(in.Questions, c.asked(a))
	}
	return in, nil
}

// approvals lists approvals in brief, those that are over as well if all is asked for.
func (c *Console) approvals(r *request) (any, error) {
	list, err := c.views.People.Approvals(r.Context(), r.URL.Query().Get("all") != "")
	if err != nil {
		return nil, err
	}
	out := []waiting{}
	for _, a := range list {
		out = append(out, c.waiting(a.Brief()))
	}
	return out, nil
}

func (c *Console) approval(r *request) (any, error) {
	a, err := c.views.People.Approval(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return c.waiting(a), nil
}

// current checks that a person answers what is asked now.
func current(said, is string) error {
	switch said {
	case is:
		return nil
	case "":
		return fault(http.StatusBadRequest, "the version is missing: an answer names the version of the question that it is for")
	}
	return fault(http.StatusConflict, "the answer is for another version of the question; read it again")
}

// approve takes the answer to an approval. Of several equal answers one counts here: the
// page of a person who came too late must say so.
func (c *Console) approve(r *request) (any, error) {
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
	id := r.PathValue("id")
	is, err := c.views.People.Approval(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := current(said.Version, is.Version()); err != nil {
		return nil, err
	}
	a, err := c.views.People.Approve(r.Context(), id, approval.Reply{
		Yes: said.Yes, Scope: scope, For: most, First: true, By: r.who.Name, Via: Via, Note: said.Note,
	})
	if err != nil {
		return nil, err
	}
	return c.waiting(a), nil
}

// revoke takes a yes back.
func (c *Console) revoke(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	a, err := c.views.People.Revoke(r.Context(), r.PathValue("id"), r.who.Name)
	if err != nil {
		return nil, err
	}
	return c.waiting(a), nil
}

// questions lists the questions of agents.
func (c *Console) questions(r *request) (any, error) {
	list, err := c.views.People.Questions(r.Context(), r.URL.Query().Get("all") != "")
	if err != nil {
		return nil, err
	}
	out := []asked{}
	for _, a := range list {
		out = append(out, c.asked(a))
	}
	return out, nil
}

func (c *Console) question(r *request) (any, error) {
	a, err := c.views.People.Question(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return c.asked(a), nil
}

// answer takes the answer to a question of an agent.
func (c *Console) answer(r *request) (any, error) {
	var said struct {
		control.QuestionAnswer
		Version string `json:"version"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	is, err := c.views.People.Question(r.Context(), id)
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
	a, err := c.views.People.Answer(r.Context(), id, does)
	if err != nil {
		return nil, err
	}
	return c.asked(a), nil
}
