package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"belljar.dev/policies"
	"belljar.dev/question"
)

// questioning is the flags that the ask commands share.
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
answers. The first answer holds, on whatever way it comes. It asks the servers of
this user that run, and they answer nobody else.

  belljar ask list
  belljar ask answer                     on a terminal: all that wait, one by one
  belljar ask answer q-7q2x              on a terminal: that one
  belljar ask answer q-7q2x 2 'A,B' no   an answer to each question: labels or
                                         numbers of options, or words of your own;
                                         an empty one passes a question over
  belljar ask answer q-7q2x --decline --note 'see the ticket'
` + exitHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&a.state, "state", "", "state directory of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{Use: "list", Short: "list what waits for an answer", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return a.list(c) }}
	list.Flags().BoolVar(&a.all, "all", false, "those that are over as well, of the last days")
	list.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	answer := &cobra.Command{Use: "answer [ID [ANSWER...]]", Short: "answer a question", RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args) }}
	answer.Flags().BoolVar(&a.decline, "decline", false, "say that you do not want to answer")
	answer.Flags().StringVar(&a.note, "note", "", "what the agent is told besides")
	c.AddCommand(list, answer)
	return c
}

// open asks all servers.
func (a *questioning) open(ctx context.Context, all bool) ([]seenBy[[]question.Asked], error) {
	return askServers[[]question.Asked](ctx, "ask", a.state, "/questions", all)
}

func (a *questioning) list(c *cobra.Command) error {
	found, err := a.open(c.Context(), a.all)
	if err != nil {
		return err
	}
	all := found[0].said
	if a.asJSON {
		return failure(printJSON(c.OutOrStdout(), all))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "No question waits for an answer.")
		return failure(err)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
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

// answer takes the answers from the command line, or asks at the terminal.
func (a *questioning) answer(c *cobra.Command, args []string) error {
	found, err := a.open(c.Context(), true)
	if err != nil {
		return err
	}
	in, _ := c.InOrStdin().(*os.File)
	typed := in != nil && term.IsTerminal(int(in.Fd()))
	if len(args) == 0 {
		if !typed {
			return usage("ask answer: name a question, as belljar ask list prints it")
		}
		return a.each(c, found)
	}
	id := args[0]
	one, err := a.get(c.Context(), found, id)
	if err != nil {
		return err
	}
	said := questionAnswer{Decline: a.decline, Note: a.note}
	switch n := len(one.Sheet.Questions); {
	case a.decline && len(args) > 1:
		return usage("ask answer: either an answer or --decline")
	case a.decline:
	case len(args) == 1 && typed:
		if said.Words, said.Decline, err = dialogue(c.OutOrStdout(), bufio.NewReader(in), one); err != nil {
			return failure(err)
		}
	case len(args)-1 != n:
		return usage("ask answer: %s has %d questions, and %d answers were given", id, n, len(args)-1)
	default:
		said.Words = make(map[string][]string)
		for i, q := range one.Sheet.Questions {
			said.Words[q.ID] = wordsIn(q, args[i+1])
		}
	}
	return a.send(c, found, id, said)
}

// each goes through all that waits.
func (a *questioning) each(c *cobra.Command, found []seenBy[[]question.Asked]) error {
	lines := bufio.NewReader(c.InOrStdin())
	waited := false
	for _, brief := range found[0].said {
		if brief.State != question.Waiting {
			continue
		}
		waited = true
		one, err := a.get(c.Context(), found, brief.ID)
		if err != nil {
			return err
		}
		said := questionAnswer{}
		if said.Words, said.Decline, err = dialogue(c.OutOrStdout(), lines, one); err != nil {
			return failure(err)
		}
		if err := a.send(c, found, one.ID, said); err != nil {
			return err
		}
	}
	if waited {
		return nil
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), "No question waits for an answer.")
	return failure(err)
}

// get is a whole question.
func (a *questioning) get(ctx context.Context, found []seenBy[[]question.Asked], id string) (one question.Asked, err error) {
	for _, at := range found {
		for _, brief := range at.said {
			if brief.ID == id {
				return one, failure(at.client.ask(ctx, http.MethodGet, "/questions/"+id, nil, &one))
			}
		}
	}
	return one, failure(fmt.Errorf("ask: there is no question %q; `belljar ask list --all` shows them", policies.Clip(id, 64)))
}

// send answers at the server of the question's workspace, which waits for it.
func (a *questioning) send(c *cobra.Command, found []seenBy[[]question.Asked], id string, said questionAnswer) error {
	for _, at := range found {
		for _, brief := range at.said {
			if brief.ID != id {
				continue
			}
			var done question.Asked
			if err := at.client.ask(c.Context(), http.MethodPost, "/questions/"+id+"/answer", said, &done); err != nil {
				return failure(err)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s. The agent is told.\n", id, map[question.State]string{question.Accepted: "answered", question.Declined: "declined"}[done.State])
			return failure(err)
		}
	}
	return nil
}

// wordsIn are the answers in one argument: several, with commas between them,
// where several can be chosen.
func wordsIn(q question.Question, text string) []string {
	if !q.Many {
		return []string{text}
	}
	return strings.Split(text, ",")
}

// dialogue asks at a terminal. An empty line passes a question over; a "!" alone
// declines all of them.
func dialogue(out io.Writer, lines *bufio.Reader, a question.Asked) (words map[string][]string, decline bool, err error) {
	words = make(map[string][]string)
	fmt.Fprintf(out, "%s of tenant %s, workspace %s\n", a.ID, question.Clean(a.Tenant, false), question.Clean(a.Place, false))
	for i, q := range a.Sheet.Questions {
		fmt.Fprint(out, shownQuestion(i+1, q))
		text, err := lines.ReadString('\n')
		if err != nil && text == "" {
			return nil, false, fmt.Errorf("read the answer: %w", err)
		}
		switch text = strings.TrimSpace(text); text {
		case "!":
			return nil, true, nil
		case "":
		default:
			words[q.ID] = wordsIn(q, text)
		}
	}
	return words, len(words) == 0, nil
}

// shownQuestion is a question as a terminal shows it.
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
	how := "Your answer"
	switch {
	case q.Kind == question.YesNo:
		how = "yes or no"
	case q.Many:
		how = "Numbers with commas between them, or words of your own"
	case len(q.Options) > 0:
		how = "Number, or words of your own"
	}
	fmt.Fprintf(&b, "   %s [pass over; ! declines all]: ", how)
	return b.String()
}
