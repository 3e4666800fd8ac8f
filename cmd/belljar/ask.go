package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/question"
	"belljar.dev/policies"
)

// questioning contains the flags that the ask commands share.
type questioning struct {
	state   string
	all     bool
	asJSON  bool
	decline bool
	note    string
}

func askCommand() *cobra.Command {
	var a questioning
	c := &cobra.Command{
		Use:   "ask",
		Short: "answer what agents ask you",
		Long: `ask shows the questions that agents have put by AskUserQuestion, and takes the
answers. The first answer counts, whichever way it comes. It asks the running servers
of this user; they answer no other user.

  belljar ask list
  belljar ask answer                     shows all that wait, one by one
  belljar ask answer q-7q2x              shows that one
  belljar ask answer q-7q2x 2 'A,B' no   an answer to each question: labels or
                                         numbers of options, or words of your
                                         own; an empty one passes it over
  belljar ask answer q-7q2x --decline --note 'see the ticket'
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&a.state, "state", "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{Use: "list", Short: "list the questions that wait for an answer", RunE: func(c *cobra.Command, _ []string) error { return a.list(c) }}
	list.Flags().BoolVar(&a.all, "all", false, "also list the questions of the last days that no longer wait")
	list.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	answer := &cobra.Command{Use: "answer [ID [ANSWER...]]", Short: "answer a question", RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args) }}
	answer.Flags().BoolVar(&a.decline, "decline", false, "say that you do not want to answer")
	answer.Flags().StringVar(&a.note, "note", "", "further `text` for the agent")
	c.AddCommand(list, answer)
	return c
}

// open asks all servers for their questions.
func (a *questioning) open(ctx context.Context, all bool) ([]control.From[[]question.Asked], error) {
	return askServers[[]question.Asked](ctx, "ask", a.state, "/questions", all)
}

func (a *questioning) list(c *cobra.Command) error {
	found, err := a.open(c.Context(), a.all)
	if err != nil {
		return err
	}
	all := found[0].Said
	if a.asJSON {
		return failure(printJSON(c.OutOrStdout(), append([]question.Asked{}, all...)))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "No question waits for an answer.")
		return failure(err)
	}
	w := newTable(c.OutOrStdout())
	fmt.Fprintln(w, "ID\tSTATE\tTENANT\tTIME LEFT\tQUESTIONS")
	for _, one := range all {
		left := "-"
		if one.State == question.Waiting {
			left = policies.Spoken(max(0, time.Until(one.Expires)))
		}
		what := strings.ReplaceAll(one.Sheet.Questions[0].Text, "\n", " ")
		if n := len(one.Sheet.Questions) - 1; n > 0 {
			what = fmt.Sprintf("%s (and %d more)", policies.Clip(what, 60), n)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", one.ID, one.State, question.Clean(one.Tenant, false), left, policies.Clip(what, 80))
	}
	return failure(w.Flush())
}

// answer uses the answers on the command line, or asks a person.
func (a *questioning) answer(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return a.each(c)
	}
	one, at, err := a.get(c.Context(), args[0])
	if err != nil {
		return err
	}
	said := control.QuestionAnswer{Decline: a.decline, Note: a.note}
	switch n, given := len(one.Sheet.Questions), len(args)-1; {
	case a.decline && given > 0:
		return usage("ask answer: either an answer or --decline")
	case a.decline:
	case given == 0 && one.State != question.Waiting:
		return failure(fmt.Errorf("answer %s: %w: %s", one.ID, question.ErrOver, one.Over()))
	case given == 0:
		_, err := a.ask(c, bufio.NewReader(c.InOrStdin()), one, at)
		return err
	case given != n:
		return usage("ask answer: %s has %s, and got %s; give one for each, and '' for a question to pass over", one.ID, numbered(uint64(n), "question"), numbered(uint64(given), "answer"))
	default:
		said.Words = make(map[string][]string)
		for i, q := range one.Sheet.Questions {
			said.Words[q.ID] = wordsIn(q, args[i+1])
		}
	}
	return a.send(c, at, one.ID, said)
}

// each asks about every question that waits.
func (a *questioning) each(c *cobra.Command) error {
	found, err := a.open(c.Context(), false)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(c.InOrStdin())
	waited := false
	for _, brief := range slices.Backward(found[0].Said) { // the oldest first, since it has the least time left
		if brief.State != question.Waiting {
			continue
		}
		waited = true
		one, at, err := a.get(c.Context(), brief.ID)
		if err != nil {
			return err
		}
		if left, err := a.ask(c, lines, one, at); err != nil || left {
			return err
		}
	}
	if waited {
		return nil
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), "No question waits for an answer.")
	return failure(err)
}

// ask asks a person, with a form if the terminal can show one and line by line otherwise,
// and sends the answers. left says that the person left without an answer.
func (a *questioning) ask(c *cobra.Command, lines *bufio.Reader, one question.Asked, at *control.Client) (left bool, err error) {
	said := control.QuestionAnswer{Note: a.note}
	if s := newScreen(c); s.formed() {
		ctx, cancel := signal.NotifyContext(c.Context(), stop...)
		defer cancel()
		f, err := s.fill(ctx, one)
		if err != nil {
			return false, failure(fmt.Errorf("answer %s: %w", one.ID, err))
		}
		if f.state == formLeft {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s: not answered. It still waits.\n", one.ID)
			return true, failure(err)
		}
		said.Words, said.Decline = f.words, f.state == formDeclined
	} else if said.Words, said.Decline, err = dialogue(c.OutOrStdout(), lines, one); err != nil {
		return false, failure(err)
	}
	return false, a.send(c, at, one.ID, said)
}

// get returns a whole question, and a server that accepts the answer. Any server of the
// same state directory accepts it, and the server whose agent waits is notified. get looks
// among the questions that wait first: in the list of all, newer ones that have ended could
// leave no room for one that waits.
func (a *questioning) get(ctx context.Context, id string) (one question.Asked, at *control.Client, err error) {
	for _, all := range []bool{false, true} {
		found, err := a.open(ctx, all)
		if err != nil {
			return one, nil, err
		}
		for _, seen := range found {
			if slices.ContainsFunc(seen.Said, func(brief question.Asked) bool { return brief.ID == id }) {
				err = seen.Client.Ask(ctx, http.MethodGet, "/questions/"+id, nil, &one)
				return one, seen.Client, failure(err)
			}
		}
	}
	return one, nil, failure(fmt.Errorf("ask: question %q does not exist; `belljar ask list --all` lists those that do", policies.Clip(id, 64)))
}

// send answers a question.
func (a *questioning) send(c *cobra.Command, at *control.Client, id string, said control.QuestionAnswer) error {
	var done question.Asked
	if err := at.Ask(c.Context(), http.MethodPost, "/questions/"+id+"/answer", said, &done); err != nil {
		return failure(err)
	}
	what := "answered"
	if done.State == question.Declined {
		what = "declined"
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s. The agent is notified.\n", id, what)
	return failure(err)
}

// wordsIn returns the answers in one argument. If several options can be chosen, the
// argument may contain several answers, with commas between them. An option may also have a
// comma in its label.
func wordsIn(q question.Question, text string) []string {
	if !q.Many || slices.ContainsFunc(q.Options, func(o question.Option) bool { return strings.EqualFold(o.Label, text) }) {
		return []string{text}
	}
	return strings.Split(text, ",")
}

// dialogue asks line by line. An empty line skips a question; a "!" alone declines all of
// them. If an answer is not valid, its question is asked again.
func dialogue(out io.Writer, lines *bufio.Reader, a question.Asked) (words map[string][]string, decline bool, err error) {
	words = make(map[string][]string)
	fmt.Fprintf(out, "%s of tenant %s, workspace %s\n", a.ID, question.Clean(a.Tenant, false), question.Clean(a.Place, false))
	for i, q := range a.Sheet.Questions {
		fmt.Fprint(out, shownQuestion(i+1, q))
		for {
			fmt.Fprint(out, howToAnswer(q))
			text, err := lines.ReadString('\n')
			if err != nil && text == "" {
				return nil, false, fmt.Errorf("answer %s: the input ended before the answer; give it here, or after the id", a.ID)
			}
			if text = strings.TrimSpace(text); text == "!" {
				return nil, true, nil
			} else if text == "" {
				break
			}
			said := map[string][]string{q.ID: wordsIn(q, text)}
			if _, err := (question.Sheet{Questions: a.Sheet.Questions[i : i+1]}).Read(said); err != nil {
				fmt.Fprintf(out, "   %s\n", err)
				continue
			}
			words[q.ID] = said[q.ID]
			break
		}
	}
	return words, len(words) == 0, nil
}

// shownQuestion returns a question in the form that a terminal shows.
func shownQuestion(n int, q question.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d. %s\n", n, strings.ReplaceAll(q.Text, "\n", "\n   "))
	for i, o := range q.Options {
		fmt.Fprintf(&b, "   %d) %s\n", i+1, o.Label)
		for _, more := range []string{o.Description, o.Preview} {
			if more != "" {
				fmt.Fprintf(&b, "      %s\n", strings.ReplaceAll(more, "\n", "\n      "))
			}
		}
	}
	return b.String()
}

// howToAnswer returns the prompt for the answer to a question.
func howToAnswer(q question.Question) string {
	how := "Your answer"
	switch {
	case q.Kind == question.YesNo:
		how = "yes or no"
	case q.Many:
		how = "Numbers with commas between them, or words of your own"
	case len(q.Options) > 0:
		how = "Number, or words of your own"
	}
	return fmt.Sprintf("   %s [pass over; ! declines all]: ", how)
}
