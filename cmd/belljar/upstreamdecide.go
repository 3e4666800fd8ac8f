package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// deciding are the flags and the state of one decision about a server.
type deciding struct {
	pinning

	trust bool
	yes   bool           // value of --yes
	cut   []pin.Question // definitions that are left out, because they cannot be shown whole
}

// decideCommand returns the command approve if trust is set, otherwise the command deny.
func decideCommand(u *upstreams, trust bool) *cobra.Command {
	d := &deciding{pinning: pinning{upstreams: u}, trust: trust}
	c := &cobra.Command{
		Use: "approve NAME [ITEM...]", Short: "trust what a server runs and lists now",
		Long: `approve shows the definitions of a server that wait for a decision, as "belljar upstream
pins diff" does, and asks whether they are trusted. An ITEM is the name of a tool, prompt
or template, or a definition as diff names it. Without one, the decision is about all
that waits and can be shown whole. The answer is for what was shown: if the server offers
something else meanwhile, nothing is recorded. A running server applies the decision
immediately. Without a terminal, --yes is the answer.

  belljar upstream approve files
  belljar upstream approve files read_file
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return d.decide(c, args[0], args[1:]) },
	}
	if !trust {
		c.Use, c.Short = "deny NAME [ITEM...]", "refuse what a server runs or lists now"
		c.Long = `deny shows the definitions of a server that wait for a decision, and asks whether they are
refused. A refused definition stays held, and is not asked about again until it changes.
An ITEM may also be something that is trusted: then the trust is taken back.

  belljar upstream deny files
  belljar upstream deny files read_file
` + exitHelp
	}
	d.flags(c, true)
	c.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
	return c
}

// about is a server and its definitions that were shown for a decision.
type about struct {
	pin.Server

	questions []pin.Question
}

func (d *deciding) decide(c *cobra.Command, name string, items []string) error {
	if name == "" { // an empty name would mean all servers
		return usage("upstream %s: NAME is empty. Nothing was decided", c.Name())
	}
	if err := d.find(c); err != nil {
		return err
	}
	return d.with(false, func(b *pin.Book) error {
		all, err := d.chooses(c, b, name, items)
		if err != nil {
			return err
		}
		for i := range d.cut {
			fmt.Fprintf(c.OutOrStdout(), "%s is left out, since it cannot be shown whole; name it to trust it anyway.\n", policies.Clip(d.cut[i].Ref.String(), 1500))
		}
		if len(all) == 0 {
			_, err := fmt.Fprintf(c.OutOrStdout(), "Nothing of %s waits for a decision.\n", policies.Clip(name, 100))
			return err
		}
		for _, one := range all {
			if err := printQuestions(c.OutOrStdout(), one.Server, one.questions); err != nil {
				return err
			}
		}
		if err := d.ask(c, name); err != nil {
			return err
		}
		return d.record(c, b, name, all)
	})
}

// chooses returns the servers and definitions that a decision is about. If servers of one
// name in several places wait, it returns an error: each of them needs its own decision.
func (d *deciding) chooses(c *cobra.Command, b *pin.Book, name string, items []string) (all []about, _ error) {
	servers, err := d.servers(c, b, name)
	if err != nil {
		return nil, err
	}
	left := slices.Clone(items)
	for _, s := range servers {
		questions, err := b.Waiting(c.Context(), s)
		if err == nil && !d.trust {
			questions, err = withTrusted(c, b, s, questions, items)
		}
		if err != nil {
			return nil, err
		}
		questions = slices.DeleteFunc(questions, func(q pin.Question) bool {
			if len(items) == 0 {
				// A refused definition is not asked about again, and a definition that is
				// gone cannot be refused.
				if q.State == pin.Held || !d.trust && q.State == pin.Removed {
					return true
				}
				// A server could hide one definition behind many large ones.
				if d.trust && q.Cut {
					d.cut = append(d.cut, q)
				}
				return d.trust && q.Cut
			}
			return !slices.ContainsFunc(items, func(item string) bool { return means(item, q.Ref) })
		})
		for i := range questions {
			left = slices.DeleteFunc(left, func(item string) bool { return means(item, questions[i].Ref) })
		}
		if len(questions) > 0 {
			all = append(all, about{s, questions})
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("upstream %s: %q of %s does not wait for a decision; `belljar upstream pins diff` shows what does. Nothing was decided", c.Name(), policies.Clip(left[0], 100), policies.Clip(name, 100))
	}
	for _, one := range all {
		if one.Tenant != all[0].Tenant || one.Place != all[0].Place {
			return nil, fmt.Errorf("upstream %s: servers named %s wait in several places (%s; %s); choose with --tenant and --workspace. Nothing was decided",
				c.Name(), policies.Clip(name, 100), whose(all[0].Server), whose(one.Server))
		}
	}
	return all, nil
}

// means reports whether a person means a definition by a word: by its name, or as it is shown.
func means(item string, r pin.Ref) bool { return item == r.String() || r.Name != "" && item == r.Name }

// withTrusted adds the trusted definitions of a server to questions, so that a person can
// withdraw the trust.
func withTrusted(c *cobra.Command, b *pin.Book, s pin.Server, questions []pin.Question, items []string) ([]pin.Question, error) {
	if len(items) == 0 {
		return questions, nil
	}
	pins, err := b.Export(c.Context(), s.Tenant, s.Place)
	for _, p := range pins {
		ref := pin.Ref{Kind: p.Kind, Name: p.Name, Digest: p.Digest}
		asked := func(q pin.Question) bool { return q.Kind == ref.Kind && q.Name == ref.Name }
		if p.Server == s.Name && p.Kind != pin.KindListing && !slices.ContainsFunc(questions, asked) {
			questions = append(questions, pin.Question{Ref: ref, State: pin.Pinned, Was: p.Digest, Since: p.Since})
		}
	}
	return questions, err
}

// ask asks the person at the terminal about what was shown.
func (d *deciding) ask(c *cobra.Command, name string) error {
	if d.yes {
		return nil
	}
	verb := "trust"
	if !d.trust {
		verb = "refuse"
	}
	return agree(c, "look at the difference", fmt.Sprintf("Do you %s what is shown of %s?", verb, policies.Clip(name, 100)), "Nothing was decided")
}

// agree asks the person at the terminal a question, and returns an error if the answer is
// not yes. look is what a person without a terminal has to do before --yes, and left says
// that nothing was changed.
func agree(c *cobra.Command, look, question, left string) error {
	s := newScreen(c)
	if s.in == nil {
		return usage("%s: nobody can be asked without a terminal; %s, and give --yes. %s", title(c), look, left)
	}
	// Keys that were typed before the question was shown are not an answer to it.
	if err := forgetTyped(s.in); err != nil {
		return err
	}
	for lines := bufio.NewReader(s.in); ; {
		fmt.Fprintf(c.OutOrStdout(), "%s Type yes or no: ", question)
		line, err := lines.ReadString('\n')
		switch said := strings.TrimSpace(line); {
		case said == "yes":
			return nil
		case said == "no" || err != nil:
			return failure(fmt.Errorf("%s: %s", title(c), strings.ToLower(left[:1])+left[1:]))
		}
	}
}

// record records a decision about the definitions that were shown, and notifies running
// servers of it.
func (d *deciding) record(c *cobra.Command, b *pin.Book, name string, all []about) error {
	n := 0
	change := control.UpstreamChange{What: control.PinsRefused, Name: name, Tenant: all[0].Tenant, Workspace: all[0].Place}
	if d.trust {
		change.What = control.PinsTrusted
	}
	for _, one := range all {
		said := pin.Decision{By: person(), Trust: d.trust}
		for i := range one.questions {
			ref := one.questions[i].Ref
			said.Items = append(said.Items, ref)
			if len(change.Items) < maxToldItems {
				change.Items = append(change.Items, policies.Clip(ref.String(), 200)+" "+ref.Digest.String())
			}
		}
		if err := b.Decide(c.Context(), one.Server, said); err != nil {
			return err
		}
		n += len(said.Items)
	}
	what := number(n, "definition is", "definitions are") + " trusted from now on."
	if !d.trust {
		what = number(n, "definition is", "definitions are") + " refused and stays held."
		if n != 1 {
			what = strings.Replace(what, "stays", "stay", 1)
		}
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", policies.Clip(name, 100), what)
	servers, err := d.tell(c.Context(), change)
	if err != nil {
		return err
	}
	for _, at := range servers {
		for _, u := range at.All {
			if d.trust && u.Name == name && u.Pin == pin.Strict.String() {
				_, err := fmt.Fprintf(c.OutOrStdout(), "Its pins are strict in %s: only pins that `belljar upstream pins import FILE` has read count there.\n", policies.Clip(at.Place, 200))
				return err
			}
		}
	}
	return nil
}

// maxToldItems bounds the number of definitions that are sent to servers for their audit
// logs.
const maxToldItems = 100
