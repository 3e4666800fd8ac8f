package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Questions contains the questions of agents that wait for people.
type Questions interface {
	// Ways returns the ways of asking people in addition to the client. may is false if
	// nobody may answer for the tenant.
	Ways(tenant string) (ways []string, may bool)
	// Command returns the command with which a person answers in a terminal. The person may
	// append one answer for each question. It is empty if a terminal cannot be used.
	Command(id string) string
	// Channel returns the policy's setting of the channel for questions.
	Channel() policies.Channel
	Ask(ctx context.Context, o store.Owner, s question.Sheet) (question.Asked, error)
	Wait(ctx context.Context, id string, most time.Duration) (question.Asked, error)
	Answer(ctx context.Context, id string, r question.Reply) (question.Asked, error)
	Told(ctx context.Context, id string) error
}

// askInput is the arguments of AskUserQuestion.
type askInput struct {
	QuestionsJSON string `json:"questions_json" jsonschema:"{\"questions\":[{\"question\":\"Which?\",\"options\":[{\"label\":\"A (Recommended)\",\"description\":\"why\"},\"B\"],\"multiSelect\":false}]}; no options: a free answer"`
}

// Facts are empty: the policy gets the arguments anyway.
func (askInput) Facts() policies.Facts { return policies.Facts{} }

// askOutput is the structured result of AskUserQuestion.
type askOutput struct {
	Answers []askAnswer       `json:"answers" jsonschema:"one for each question"`
	ByID    map[string]string `json:"answers_by_id" jsonschema:"the answers by the ids of the questions; commas separate several options"`
	Outcome string            `json:"outcome" jsonschema:"accept, decline, cancel, timeout, waiting or not_asked"`
	ID      string            `json:"question_id,omitempty" jsonschema:"id of the question"`
	By      string            `json:"by,omitempty" jsonschema:"the person who answered"`
	Note    string            `json:"response,omitempty" jsonschema:"note of the person who answered"`
}

type askAnswer struct {
	Question    string `json:"question"`
	ID          string `json:"id"`
	Selected    string `json:"selected" jsonschema:"empty without an answer"`
	Recommended string `json:"recommended,omitempty" jsonschema:"the option that the agent recommended, if nobody chose one"`
	Unanswered  string `json:"unanswered,omitempty" jsonschema:"skipped, dismissed or timeout"`
}

// askWait is how long a call waits for a person: clients give up a call after a minute.
const askWait = 45 * time.Second

// asks implements the tool AskUserQuestion.
type asks struct {
	backends Backends
	wait     time.Duration
}

func addAsk(s *mcp.Server, a *asks) {
	mcp.AddTool(s, mcp.Tool{
		Name:        "AskUserQuestion",
		Brief:       "asks the person a question",
		Title:       "Ask a person",
		Description: "Asks the person you work for up to 10 questions with options, or for a free answer; people can always answer in their own words. Waits for the answer. If none arrives in time, returns WAITING and an id; repeat the same call to wait longer. Ask only what you cannot find out.",
		Output:      askOutput{},
	}, a.ask)
}

// ask runs one call.
func (t *asks) ask(ctx context.Context, call mcp.Call, in askInput) (*mcp.Result, error) {
	sheet, err := question.Parse(in.QuestionsJSON)
	if err != nil {
		return mcp.Failed("questions_json: %s. Nobody was asked.", err), nil
	}
	desk := t.backends.Questions
	if desk == nil {
		return notAsked(sheet, "not asked: no interactive channel"), nil
	}
	tenant, channel := call.Session.Tenant(), desk.Channel()
	forms := channel == policies.ChannelElicit
	ways, may := desk.Ways(tenant)
	switch {
	case !forms && channel != policies.ChannelConsole:
		return notAsked(sheet, "not asked: the policy lets agents decide by themselves"), nil
	case !may || len(ways) == 0 && (!forms || !call.Shows()):
		return notAsked(sheet, "not asked: no interactive channel"), nil
	}
	a, err := desk.Ask(ctx, owner(call.Session), sheet)
	if errors.Is(err, people.ErrTooMany) {
		return mcp.Failed("Nobody was asked: %s. Continue without an answer, or wait until people have answered the open questions.", err), nil
	}
	if err != nil {
		return t.broken(ctx, call, err)
	}
	if a.State == question.Waiting {
		how := mcp.NotAsked
		if forms {
			how = call.Ask(ctx, offerOf(desk, a, len(ways) > 0))
		}
		if how != mcp.AskedByResult {
			if a, err = desk.Wait(ctx, a.ID, t.wait); err != nil {
				return t.broken(ctx, call, err)
			}
		}
		if how != mcp.NotAsked {
			ways = append([]string{"the client"}, ways...)
		}
	}
	res := answered(a, ways, desk.Command(a.ID))
	if a.State != question.Waiting {
		// Until the agent has received the answer, the same call gets it again: a person
		// spent time on it.
		res.Receipts = []mcp.Receipt{func(ctx context.Context, received bool) {
			if !received {
				return
			}
			if err := desk.Told(ctx, a.ID); err != nil {
				t.backends.Log.Error("note that an answer was delivered", "question", a.ID, "err", err)
			}
		}}
	}
	return res, nil
}

func (t *asks) broken(ctx context.Context, call mcp.Call, err error) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.backends.Log.Error("ask a person", "call", call.ID, "err", err)
	return mcp.Failed("The question could not be stored; the log of the server says why. As far as is known, nobody was asked."), nil
}

// notAsked returns the result of a call for which nobody was asked. The result says so.
func notAsked(s question.Sheet, why string) *mcp.Result {
	out := askOutput{Answers: []askAnswer{}, ByID: map[string]string{}, Outcome: "not_asked"}
	var t text
	t.line("%s. Nobody saw this, so nothing below is a person's answer.", why)
	for _, q := range s.Questions {
		out.Answers = append(out.Answers, askAnswer{Question: q.Text, ID: q.ID, Recommended: q.Recommended()})
		t.line("%s", q.Text)
		for _, o := range q.Options {
			mark := ""
			if o.Label == q.Recommended() {
				mark = "   <- recommended by you"
			}
			t.line("  - %s%s", o.Label, mark)
		}
	}
	t.line("If a choice is harmless, make it yourself and say in your answer what you assumed. Leave the rest undone.")
	return &mcp.Result{Content: []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}}, Structured: out}
}

// answered returns the result of a question.
func answered(a question.Asked, ways []string, command string) *mcp.Result {
	out := askOutput{Answers: []askAnswer{}, ByID: map[string]string{}, Outcome: string(a.State), ID: a.ID, By: a.By, Note: a.Note}
	unanswered := map[question.State]string{question.Accepted: "skipped", question.Declined: "skipped", question.Dismissed: "dismissed", question.TimedOut: "timeout"}[a.State]
	var t text
	n := len(a.Sheet.Questions)
	switch {
	case a.Via == mcp.ViaClientItself:
		t.line("The client answered %s by itself: no person saw it. If it is harmless, continue with the option that you recommend, and say so in your answer.", questions(n))
	case a.State == question.Accepted:
		t.line("Answered by %s:", a.By)
	case a.State == question.Declined:
		t.line("User declined to answer %s. Do not ask again; continue without an answer, or stop and say what is missing.", questions(n))
	case a.State == question.Dismissed:
		t.line("User dismissed %s without answering.", questions(n))
	case a.State == question.TimedOut:
		t.line("Nobody answered %s in time. If it is harmless, continue with the option that you recommend, and say so in your answer.", questions(n))
	case a.State == question.Waiting:
		t.line("WAITING for the answer to %s. Asked: %s. The question expires in %s.", a.ID, strings.Join(ways, ", "), policies.Spoken(max(0, time.Until(a.Expires))))
		if command != "" {
			t.line("Tell the person you work for to type `%s` in a terminal, which shows the question and reads the answer.", command)
		}
		t.line("Go on with other work; repeat the same call to wait longer and to get the answer.")
	}
	for _, q := range a.Sheet.Questions {
		said := a.Answers[q.ID].String()
		one := askAnswer{Question: q.Text, ID: q.ID, Selected: said}
		if said == "" {
			one.Unanswered, one.Recommended = unanswered, q.Recommended()
		} else {
			out.ByID[q.ID] = said
		}
		out.Answers = append(out.Answers, one)
		if a.State == question.Accepted {
			if said == "" {
				said = "(skipped)"
			}
			t.line("%s\n  -> %s", q.Text, said)
		}
	}
	if a.Note != "" {
		t.line("Their note: %s", a.Note)
	}
	return &mcp.Result{Content: []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}}, Structured: out}
}

// questions returns a number of questions in words.
func questions(n int) string {
	if n == 1 {
		return "1 question"
	}
	return fmt.Sprintf("%d questions", n)
}

// other is appended to the name of a form's field for an answer in the person's own words.
const other = "_other"

// offerOf returns a question in the form for a client. elsewhere reports whether people can
// be asked in other ways as well.
func offerOf(desk Questions, a question.Asked, elsewhere bool) mcp.Offer {
	return mcp.Offer{
		ID: a.ID, Form: formOf(a.Sheet), Left: max(0, time.Until(a.Expires)),
		Over: func(ctx context.Context) { _, _ = desk.Wait(ctx, a.ID, time.Until(a.Expires)) },
		Take: func(ctx context.Context, f mcp.FormAnswer) error {
			r := question.Reply{State: question.Dismissed, Via: "client", By: mcp.Answerer(question.Clean(f.Client, false), f.Took)}
			switch f.Action {
			case mcp.FormAccepted:
				r.State, r.Words = question.Accepted, wordsOf(a.Sheet, f.Content)
				if len(r.Words) == 0 {
					r.State = question.Declined // the person skipped every question
				}
			case mcp.FormDeclined:
				r.State = question.Declined
			}
			if f.Itself() {
				if elsewhere {
					return mcp.ErrItself
				}
				r.Via = mcp.ViaClientItself
			}
			_, err := desk.Answer(ctx, a.ID, r)
			if errors.Is(err, question.ErrOver) {
				return nil // the question was already answered in another way
			}
			return err
		},
	}
}

// formOf returns the form of a question. Its text explains each option, because a field has
// room for labels only.
func formOf(s question.Sheet) mcp.Form {
	var f mcp.Form
	var t text
	for i, q := range s.Questions {
		t.line("%d. %s", i+1, q.Text)
		for _, o := range q.Options {
			if o.Description != "" {
				t.line("   %s: %s", o.Label, o.Description)
			}
			if o.Preview != "" {
				t.line("   %s", strings.ReplaceAll(o.Preview, "\n", "\n   "))
			}
		}
		field := mcp.Field{Name: q.ID, Title: q.Text, Description: q.Header, Many: q.Many}
		if field.Description == "" {
			field.Description = q.Placeholder
		}
		for _, o := range q.Options {
			field.Options = append(field.Options, o.Label)
		}
		f.Fields = append(f.Fields, field)
		if q.Kind == question.Choice {
			f.Fields = append(f.Fields, mcp.Field{Name: q.ID + other, Title: "Other", Description: "An answer of your own to question " + fmt.Sprint(i+1)})
		}
	}
	f.Message = strings.TrimSuffix(t.b.String(), "\n")
	return f
}

// wordsOf returns the answers in a form, by question. Values other than texts, lists of
// texts, true and false are skipped.
func wordsOf(s question.Sheet, content map[string]any) map[string][]string {
	words := make(map[string][]string)
	for _, q := range s.Questions {
		for _, name := range []string{q.ID, q.ID + other} {
			switch v := content[name].(type) {
			case string:
				words[q.ID] = append(words[q.ID], v)
			case []any:
				for _, one := range v {
					if text, ok := one.(string); ok {
						words[q.ID] = append(words[q.ID], text)
					}
				}
			case bool:
				words[q.ID] = append(words[q.ID], fmt.Sprint(v))
			}
		}
		if !slices.ContainsFunc(words[q.ID], func(w string) bool { return strings.TrimSpace(w) != "" }) {
			delete(words, q.ID)
		}
	}
	return maps.Clone(words)
}
