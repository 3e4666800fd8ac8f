package console

import (
	"net/http"
	"slices"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// maxInbox is how many of a kind the inbox has.
const maxInbox = 50

// peopleHandlers serve the questions to people.
type peopleHandlers struct {
	people    People
	upstreams Upstreams // nil without any
}

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

func (h *peopleHandlers) waiting(a approval.Approval) waiting {
	return waiting{a, a.Version(), h.people.Command("belljar approve yes " + a.ID)}
}

func (h *peopleHandlers) asked(a question.Asked) asked {
	return asked{a, a.Version(), h.people.Command("belljar ask answer " + a.ID)}
}

// inbox is what waits for people.
type inbox struct {
	Approvals []waiting  `json:"approvals"`
	Questions []asked    `json:"questions"`
	Pins      []shownPin `json:"pins"`           // of upstreams
	More      int        `json:"more,omitempty"` // of all, that there is no room for
}

// inbox lists what waits, the newest first.
func (h *peopleHandlers) inbox(r *request) (any, error) {
	approvals, err := h.people.Approvals(r.Context(), false)
	if err != nil {
		return nil, err
	}
	approvals = slices.DeleteFunc(approvals, func(a approval.Approval) bool { return a.State != approval.Pending })
	questions, err := h.people.Questions(r.Context(), false, nil)
	if err != nil {
		return nil, err
	}
	in := inbox{Approvals: []waiting{}, Questions: []asked{}, Pins: []shownPin{}, More: max(0, len(approvals)-maxInbox) + max(0, len(questions)-maxInbox)}
	for _, a := range approvals[:min(len(approvals), maxInbox)] {
		in.Approvals = append(in.Approvals, h.waiting(a))
	}
	for _, a := range questions[:min(len(questions), maxInbox)] {
		in.Questions = append(in.Questions, h.asked(a))
	}
	if h.upstreams != nil {
		pins, err := h.upstreams.Pins(r.Context())
		if err != nil {
			return nil, err
		}
		in.Pins, in.More = shownPins(pins), in.More+max(0, len(pins)-maxInbox)
	}
	return in, nil
}

// approvals lists approvals in brief: those that are not over, or those of all that a filter
// wants.
func (h *peopleHandlers) approvals(r *request) (any, error) {
	q := r.URL.Query()
	if q.Get("all") == "" {
		return h.briefly(h.people.Approvals(r.Context(), false))
	}
	f := approval.Filter{
		State: approval.State(q.Get("state")), Tenant: q.Get("tenant"), Tool: q.Get("tool"), Rule: q.Get("rule"), By: q.Get("by"), Text: q.Get("q"),
	}
	if text := q.Get("before"); text != "" {
		var err error
		if f.Before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fault(http.StatusBadRequest, "before=%q: want a time such as that in created", text)
		}
	}
	return h.briefly(h.people.History(r.Context(), f))
}

// briefly is a list of approvals for a page.
func (h *peopleHandlers) briefly(list []approval.Approval, err error) ([]waiting, error) {
	if err != nil {
		return nil, err
	}
	out := []waiting{}
	for _, a := range list {
		out = append(out, h.waiting(a.Brief()))
	}
	return out, nil
}

// maxPast is how many earlier decisions a person is shown beside a question.
const maxPast = 5

// approval is one approval, with what people said to the same rule about the same tool of the
// same tenant before.
func (h *peopleHandlers) approval(r *request) (any, error) {
	a, err := h.people.Approval(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	past, err := h.briefly(h.people.History(r.Context(), approval.Filter{
		Tenant: a.Tenant, Tool: a.Tool, Rule: a.Rule, Over: true, Most: maxPast + 1,
	}))
	past = slices.DeleteFunc(past, func(w waiting) bool { return w.ID == a.ID })
	return struct {
		waiting
		Past []waiting `json:"past"`
	}{h.waiting(a), past[:min(len(past), maxPast)]}, err
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
func (h *peopleHandlers) approve(r *request) (any, error) {
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
	is, err := h.people.Approval(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := current(said.Version, is.Version()); err != nil {
		return nil, err
	}
	a, err := h.people.Approve(r.Context(), id, approval.Reply{
		Yes: said.Yes, Scope: scope, For: most, First: true, By: r.who.Name, Via: Via, Note: said.Note,
	})
	if err != nil {
		return nil, err
	}
	return h.waiting(a), nil
}

// revoke takes a yes back.
func (h *peopleHandlers) revoke(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	a, err := h.people.Revoke(r.Context(), r.PathValue("id"), r.who.Name)
	if err != nil {
		return nil, err
	}
	return h.waiting(a), nil
}

// questions lists the questions of agents.
func (h *peopleHandlers) questions(r *request) (any, error) {
	list, err := h.people.Questions(r.Context(), r.URL.Query().Get("all") != "", nil)
	if err != nil {
		return nil, err
	}
	out := []asked{}
	for _, a := range list {
		out = append(out, h.asked(a))
	}
	return out, nil
}

func (h *peopleHandlers) question(r *request) (any, error) {
	a, err := h.people.Question(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return h.asked(a), nil
}

// answer takes the answer to a question of an agent.
func (h *peopleHandlers) answer(r *request) (any, error) {
	var said struct {
		control.QuestionAnswer
		Version string `json:"version"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	is, err := h.people.Question(r.Context(), id)
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
	a, err := h.people.Answer(r.Context(), id, does)
	if err != nil {
		return nil, err
	}
	return h.asked(a), nil
}
